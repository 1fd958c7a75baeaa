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


@contextlib.asynccontextmanager
async def ruled(
    db: SqliteDatabase | PostgresDatabase, directory: Path, text: str
) -> AsyncIterator[TestCloud]:
    """A cloud with these rules."""
    file = directory / "policy.yaml"
    file.write_text(text)
    async with test_cloud(db, config=Config(auth=CHEAP, policy_file=str(file))) as cloud:
        yield cloud


#: Rule and check, and the request that shows it: (method, path, body, status without the rule, status with it).
EFFECTS = {
    '"identity:list_users": "@"': ("GET", "/identity/v3/users", None, 403, 200),
    '"identity:list_regions": "!"': ("GET", "/identity/v3/regions", None, 200, 403),
    '"get_images": "not role:reader"': ("GET", "/image/v2/images", None, 200, 403),
    '"add_image": "!"': ("POST", "/image/v2/images", {"name": "i"}, 201, 403),
    '"os_compute_api:os-keypairs:index": "!"': ("GET", "/compute/v2.1/os-keypairs", None, 200, 403),
    '"os_compute_api:os-hypervisors:list": "role:reader"': ("GET", "/compute/v2.1/os-hypervisors", None, 403, 200),
    '"create_subnetpool": "!"': ("POST", "/network/v2.0/subnetpools", {"subnetpool": {"name": "p", "prefixes": ["10.9.0.0/16"]}}, 201, 403),
    '"create_network:shared": "role:member"': ("POST", "/network/v2.0/networks", {"network": {"shared": True}}, 403, 201),
    '"placement:traits:list": "role:reader"': ("GET", "/placement/traits", None, 403, 200),
    '"volume:create": "role:creator"': ("POST", "/volume/v3/volumes", {"volume": {"size": 1}}, 202, 403),
    '"volume_extension:hosts": "@"': ("GET", "/volume/v3/os-hosts", None, 403, 200),
    '"cumulet:agents:list": "role:member"': ("GET", "/cumulet/v1/agents", None, 403, 200),
}  # fmt: skip


@pytest.mark.parametrize("replaced", [False, True])
async def test_rules_of_every_service_decide(
    db: SqliteDatabase | PostgresDatabase, tmp_path: Path, replaced: bool
) -> None:
    async with ruled(db, tmp_path, "\n".join(EFFECTS) if replaced else "") as cloud:
        for rule, (method, path, body, without, with_) in EFFECTS.items():
            answer = await cloud.request(method, path, json=body, version="placement 1.39")
            assert answer.status_code == (with_ if replaced else without), (rule, answer.text)


async def test_who_passes_the_admin_rule_sees_the_things_of_all(
    db: SqliteDatabase | PostgresDatabase, tmp_path: Path
) -> None:
    text = '"context_is_admin": "role:admin or user_id:%(none)s or user_name:demo"\n'
    async with ruled(db, tmp_path, text) as cloud:
        made = await cloud.post("/volume/v3/volumes", as_="admin", json={"volume": {"name": "v", "size": 1}})
        id = made.json()["volume"]["id"]
        assert (await cloud.get(f"/volume/v3/volumes/{id}", as_="demo")).status_code == 200
        assert (await cloud.get(f"/volume/v3/volumes/{id}", as_="reader")).status_code == 404
