"""Characters that PostgreSQL does not store are refused at the door, whoever asks for what."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.cloud import TestCloud, test_cloud

from cumulet.db.engine import PostgresDatabase, SqliteDatabase

pytestmark = pytest.mark.anyio

URL = "/compute/v2.1/flavors"


@pytest.fixture
async def cloud(db: SqliteDatabase | PostgresDatabase) -> AsyncIterator[TestCloud]:
    async with test_cloud(db) as made:
        yield made


async def test_nul_in_path_query_and_body(cloud: TestCloud) -> None:
    assert (await cloud.get(f"{URL}/%00")).status_code == 404
    assert (await cloud.get(f"{URL}?marker=%00")).status_code == 400
    for body in ('{"flavor": {"name": "\\u0000"}}', '{"flavor": {"\\u0000": []}}', '["a\\u0000b"]'):
        headers = {"content-type": "application/json"}
        answer = await cloud.post(URL, as_="admin", content=body.encode(), headers=headers)
        assert answer.status_code == 400
        assert "U+0000" in answer.json()["badRequest"]["message"]


async def test_the_escape_itself_is_text(cloud: TestCloud) -> None:
    body = {"flavor": {"name": "\\u0000", "ram": 1, "vcpus": 1, "disk": 0}}
    assert (await cloud.post(URL, as_="admin", json=body)).status_code == 200
