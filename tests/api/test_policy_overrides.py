"""Rules of an operator's file decide over requests."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.cloud import CHEAP, TestCloud, test_cloud

from cumulet.config import Config
from cumulet.db.engine import PostgresDatabase, SqliteDatabase

pytestmark = pytest.mark.anyio

KEYPAIRS = "/compute/v2.1/os-keypairs"


@contextlib.asynccontextmanager
async def ruled(
    db: SqliteDatabase | PostgresDatabase, directory: Path, text: str
) -> AsyncIterator[TestCloud]:
    """A cloud with these rules."""
    file = directory / "policy.yaml"
    file.write_text(text)
    async with test_cloud(db, config=Config(auth=CHEAP, policy_file=str(file))) as cloud:
        yield cloud


async def test_a_rule_forbids_and_another_allows(
    db: SqliteDatabase | PostgresDatabase, tmp_path: Path
) -> None:
    text = """
        "os_compute_api:os-keypairs:index": "!"
        "os_compute_api:os-hypervisors:list": "role:reader"
        "get_images": "not role:reader"
    """
    async with ruled(db, tmp_path, text) as cloud:
        assert (await cloud.get(KEYPAIRS, as_="demo")).status_code == 403
        assert (await cloud.get("/compute/v2.1/os-hypervisors", as_="demo")).status_code == 200
        assert (await cloud.get("/image/v2/images", as_="demo")).status_code == 403
        assert (await cloud.get("/compute/v2.1/flavors", as_="demo")).status_code == 200


async def test_who_passes_the_admin_rule_sees_the_things_of_all(
    db: SqliteDatabase | PostgresDatabase, tmp_path: Path
) -> None:
    text = '"context_is_admin": "role:admin or user_id:%(none)s or user_name:demo"\n'
    async with ruled(db, tmp_path, text) as cloud:
        made = await cloud.post("/volume/v3/volumes", as_="admin", json={"volume": {"name": "v", "size": 1}})
        id = made.json()["volume"]["id"]
        assert (await cloud.get(f"/volume/v3/volumes/{id}", as_="demo")).status_code == 200
        assert (await cloud.get(f"/volume/v3/volumes/{id}", as_="reader")).status_code == 404
