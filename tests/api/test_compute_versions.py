"""Compute's version documents, and the routes of old clients."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.cloud import TestCloud, test_cloud

from cumulet.db.engine import PostgresDatabase, SqliteDatabase

pytestmark = pytest.mark.anyio


@pytest.fixture
async def cloud(db: SqliteDatabase | PostgresDatabase) -> AsyncIterator[TestCloud]:
    async with test_cloud(db) as made:
        yield made


@pytest.mark.parametrize("path", ["/compute", "/compute/"])
async def test_every_version_leads_to_its_document(cloud: TestCloud, path: str) -> None:
    answer = await cloud.client.get(path)
    assert answer.status_code == 200
    versions = answer.json()["versions"]
    assert [version["id"] for version in versions] == ["v2.0", "v2.1"]
    for version in versions:
        document = (await cloud.client.get(version["links"][0]["href"])).json()["version"]
        assert document["id"] == version["id"]
        assert document["links"][0] == version["links"][0]
        assert (document["min_version"], document["version"]) == (version["min_version"], version["version"])


async def test_microversions_are_answered_in_both_headers(cloud: TestCloud) -> None:
    answer = await cloud.get("/compute/v2.1/flavors", version="compute latest")
    assert answer.headers["openstack-api-version"] == "compute 2.96"
    assert answer.headers["x-openstack-nova-api-version"] == "2.96"
    refused = await cloud.get("/compute/v2.1/flavors", version="compute 2.97")
    assert refused.status_code == 406


async def test_the_old_root_knows_no_microversions(cloud: TestCloud) -> None:
    found = await cloud.db.read(lambda tx: tx.value("select id from projects where name = 'demo'"))
    for path in (
        "/compute/v2/flavors/1",
        f"/compute/v2/{found}/flavors/1",
        f"/compute/v2.1/{found}/flavors/1",
    ):
        flavor = (await cloud.get(path, version="compute 2.96" if "/v2/" in path else "")).json()["flavor"]
        assert "description" not in flavor
