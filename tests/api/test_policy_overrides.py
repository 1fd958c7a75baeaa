"""Rules of an operator's file decide over requests."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.cloud import CHEAP, TestCloud, running_cloud, test_cloud

from cumulet.config import Config
from cumulet.db.engine import PostgresDatabase, SqliteDatabase

pytestmark = pytest.mark.anyio


@contextlib.asynccontextmanager
async def ruled(
    db: SqliteDatabase | PostgresDatabase, directory: Path, text: str, *, runs: bool = False
) -> AsyncIterator[TestCloud]:
    """A cloud with these rules."""
    file = directory / "policy.yaml"
    file.write_text(text)
    config = Config(auth=CHEAP, policy_file=str(file))
    async with (
        running_cloud(db, directory, config=config) if runs else test_cloud(db, config=config) as cloud
    ):
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


@pytest.mark.parametrize("replaced", [False, True])
async def test_rules_about_parts_of_a_request(
    db: SqliteDatabase | PostgresDatabase, tmp_path: Path, replaced: bool
) -> None:
    """What is asked only if a request names such a thing."""
    rules = {
        "network:attach_external_network": "role:member",
        "volume:create_from_image": "!",
        "volume:multiattach": "!",
    }
    text = "\n".join(f'"{rule}": "{check}"' for rule, check in rules.items()) if replaced else ""
    async with ruled(db, tmp_path, text, runs=True) as cloud:

        async def admin(path: str, noun: str, **body: object) -> str:
            made = await cloud.post(path, as_="admin", json={noun: body})
            assert made.status_code in (200, 201, 202), made.text
            return str(made.json()[noun]["id"])

        network = await admin("/network/v2.0/networks", "network", **{"router:external": True})
        await admin("/network/v2.0/subnets", "subnet", network_id=network, ip_version=4, cidr="10.7.0.0/24")
        image = await cloud.post(
            "/image/v2/images", as_="admin",
            json={"name": "i", "disk_format": "raw", "container_format": "bare", "visibility": "public"},
        )  # fmt: skip
        image = image.json()["id"]
        data = {"content": b"x" * 512, "headers": {"content-type": "application/octet-stream"}}
        stored = await cloud.request("PUT", f"/image/v2/images/{image}/file", as_="admin", **data)
        assert stored.status_code == 204
        type_ = await admin(
            "/volume/v3/types", "volume_type", name="t", extra_specs={"multiattach": "<is> True"}
        )
        flavor = (await cloud.get("/compute/v2.1/flavors")).json()["flavors"][0]["id"]
        server = {"name": "s", "flavorRef": flavor, "imageRef": image, "networks": [{"uuid": network}]}

        answer = await cloud.post("/compute/v2.1/servers", json={"server": server})
        assert answer.status_code == (202 if replaced else 403), answer.text
        volume = await cloud.post("/volume/v3/volumes", json={"volume": {"size": 1, "imageRef": image}})
        assert volume.status_code == (403 if replaced else 202), volume.text
        volume = await cloud.post("/volume/v3/volumes", json={"volume": {"size": 1, "volume_type": type_}})
        assert volume.status_code == (403 if replaced else 202), volume.text
