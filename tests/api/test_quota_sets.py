"""Quota sets, quota class sets and limits over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.api.test_hosts import make_host, make_server
from tests.cloud import TestCloud, test_cloud

from cumulet.db.engine import PostgresDatabase, SqliteDatabase, Tx

pytestmark = pytest.mark.anyio

URL = "/compute/v2.1"
ALWAYS = {
    "instances", "cores", "ram", "metadata_items", "key_pairs", "server_groups", "server_group_members",
}  # fmt: skip
FILES = {"injected_files", "injected_file_content_bytes", "injected_file_path_bytes"}
NETWORK = {"fixed_ips", "floating_ips", "security_groups", "security_group_rules"}


@pytest.fixture
async def cloud(db: SqliteDatabase | PostgresDatabase) -> AsyncIterator[TestCloud]:
    async with test_cloud(db) as made:
        yield made


def sets(cloud: TestCloud, project: str = "demo") -> str:
    return f"{URL}/os-quota-sets/{cloud.project(project)}"


async def put(cloud: TestCloud, version: str = "2.96", query: str = "", **limits: Any) -> Any:
    return await cloud.put(
        sets(cloud) + query, as_="admin", json={"quota_set": limits}, version=f"compute {version}"
    )


@pytest.mark.parametrize(
    ("version", "names"),
    [("2.1", ALWAYS | FILES | NETWORK), ("2.36", ALWAYS | FILES), ("2.57", ALWAYS), ("2.96", ALWAYS)],
)
async def test_shape_of_each_version(cloud: TestCloud, version: str, names: set[str]) -> None:
    for path in ("", "/defaults", "/detail"):
        shown = (await cloud.get(sets(cloud) + path, version=f"compute {version}")).json()["quota_set"]
        assert shown.pop("id") == cloud.project("demo")
        assert set(shown) == names
        if path == "/detail":
            assert all(set(line) == {"limit", "in_use", "reserved"} for line in shown.values())
    changed = (await put(cloud, version, cores=21)).json()["quota_set"]
    assert set(changed) == names
    assert changed["cores"] == 21


async def test_set_for_a_project_and_forgotten(cloud: TestCloud) -> None:
    assert (await put(cloud, cores="30", ram=-1)).json()["quota_set"]["cores"] == 30
    shown = (await cloud.get(sets(cloud))).json()["quota_set"]
    assert (shown["cores"], shown["ram"], shown["instances"]) == (30, -1, 10)
    assert (await cloud.get(sets(cloud) + "/defaults")).json()["quota_set"]["cores"] == 20
    assert (await cloud.delete(sets(cloud), as_="admin")).status_code == 202
    assert (await cloud.get(sets(cloud))).json()["quota_set"]["cores"] == 20


async def test_set_for_one_user(cloud: TestCloud) -> None:
    who = f"?user_id={cloud.user('demo')}"
    assert (await put(cloud, query=who, cores=5)).json()["quota_set"]["cores"] == 5
    assert (await cloud.get(sets(cloud) + who)).json()["quota_set"]["cores"] == 5
    assert (await cloud.get(sets(cloud))).json()["quota_set"]["cores"] == 20
    over = await put(cloud, query=who, cores=21)
    assert over.status_code == 400
    assert "less than or equal to 20" in over.json()["badRequest"]["message"]
    assert (await put(cloud, query=who, cores=21, force=True)).status_code == 200
    await cloud.delete(sets(cloud) + who, as_="admin")
    assert (await cloud.get(sets(cloud) + who)).json()["quota_set"]["cores"] == 20


async def test_who_may(cloud: TestCloud) -> None:
    assert (await cloud.get(sets(cloud), as_="reader")).status_code == 200
    assert (await cloud.get(sets(cloud), as_="other")).status_code == 403
    assert (await cloud.get(sets(cloud) + "/detail", as_="other")).status_code == 403
    assert (await cloud.get(sets(cloud) + "/defaults", as_="other")).status_code == 200
    assert (await cloud.put(sets(cloud), as_="demo", json={"quota_set": {}})).status_code == 403
    assert (await cloud.delete(sets(cloud), as_="demo")).status_code == 403
    assert (await cloud.get(f"{URL}/os-quota-class-sets/default", as_="demo")).status_code == 403
    unknown = f"{URL}/os-quota-sets/{'0' * 32}"
    assert (await cloud.get(unknown, as_="admin")).status_code == 400
    assert (await cloud.put(unknown, as_="admin", json={"quota_set": {"cores": 1}})).status_code == 400


@pytest.mark.parametrize(
    "limits",
    [
        {"cores": -2}, {"cores": "many"}, {"cores": 2147483648}, {"cores": None}, {"cores": 1.5}, {"cores": True},
        {"unknown": 1}, {"fixed_ips": 1}, {"injected_files": 1}, {"force": "perhaps"},
    ],
)  # fmt: skip
async def test_bad_limits(cloud: TestCloud, limits: dict[str, Any]) -> None:
    assert (await put(cloud, **limits)).status_code == 400


async def test_bad_bodies(cloud: TestCloud) -> None:
    bodies: list[Any] = [{}, [], {"quota_set": None}, {"quota_set": {}, "more": 1}]
    for body in bodies:
        assert (await cloud.put(sets(cloud), as_="admin", json=body)).status_code == 400
    assert (await cloud.get(sets(cloud) + "?x=1", version="compute 2.75")).status_code == 400


async def test_not_below_what_is_used(cloud: TestCloud) -> None:
    host = await cloud.db.write(make_host, "h1")
    server = await cloud.db.write(make_server, host)

    def own(tx: Tx) -> None:
        tx.update("servers", server, project_id=cloud.project("demo"))

    await cloud.db.write(own)
    low = await put(cloud, cores=1)
    assert low.status_code == 400
    assert "already used and reserved 2" in low.json()["badRequest"]["message"]
    assert (await put(cloud, cores=1, force="true")).status_code == 200
    detail = (await cloud.get(sets(cloud) + "/detail")).json()["quota_set"]
    assert detail["cores"] == {"limit": 1, "in_use": 2, "reserved": 0}
    assert (detail["instances"]["in_use"], detail["ram"]["in_use"]) == (1, 1024)
    absolute = (await cloud.get(f"{URL}/limits", version="compute 2.96")).json()["limits"]["absolute"]
    assert (absolute["totalCoresUsed"], absolute["totalInstancesUsed"], absolute["totalRAMUsed"]) == (
        2,
        1,
        1024,
    )
    assert absolute["maxTotalCores"] == 1


async def test_classes(cloud: TestCloud) -> None:
    path = f"{URL}/os-quota-class-sets/default"
    for version, names in (
        ("2.1", (ALWAYS | FILES | NETWORK) - {"server_groups", "server_group_members"}),
        ("2.50", ALWAYS | FILES), ("2.57", ALWAYS),
    ):  # fmt: skip
        shown = (await cloud.get(path, as_="admin", version=f"compute {version}")).json()["quota_class_set"]
        assert shown.pop("id") == "default"
        assert set(shown) == names
        body = {"quota_class_set": {"cores": 33}}
        changed = await cloud.put(path, as_="admin", json=body, version=f"compute {version}")
        assert set(changed.json()["quota_class_set"]) == names
    assert (await cloud.get(sets(cloud) + "/defaults")).json()["quota_set"]["cores"] == 33
    bad = {"quota_class_set": {"fixed_ips": 1}}
    assert (await cloud.put(path, as_="admin", json=bad, version="compute 2.50")).status_code == 400
    other = f"{URL}/os-quota-class-sets/gold"
    await cloud.put(other, as_="admin", json={"quota_class_set": {"cores": 7}})
    assert (await cloud.get(other, as_="admin")).json()["quota_class_set"]["cores"] == 7
    assert (await cloud.get(sets(cloud))).json()["quota_set"]["cores"] == 33


async def test_limits_of_each_version(cloud: TestCloud) -> None:
    always = {
        "maxTotalInstances", "maxTotalCores", "maxTotalRAMSize", "maxTotalKeypairs", "maxServerMeta", "maxServerGroups",
        "maxServerGroupMembers", "totalInstancesUsed", "totalCoresUsed", "totalRAMUsed", "totalServerGroupsUsed",
    }  # fmt: skip
    files = {"maxPersonality", "maxPersonalitySize"}
    network = {
        "maxTotalFloatingIps", "maxSecurityGroups", "maxSecurityGroupRules", "totalFloatingIpsUsed",
        "totalSecurityGroupsUsed",
    }  # fmt: skip
    for version, names in (
        ("2.1", always | files | network | {"maxImageMeta"}), ("2.36", always | files | {"maxImageMeta"}),
        ("2.39", always | files), ("2.57", always),
    ):  # fmt: skip
        shown = (await cloud.get(f"{URL}/limits", version=f"compute {version}")).json()["limits"]
        assert shown["rate"] == []
        assert set(shown["absolute"]) == names


async def test_limits_of_another_project(cloud: TestCloud) -> None:
    await put(cloud, cores=44)
    path = f"{URL}/limits?tenant_id={cloud.project('demo')}"
    assert (await cloud.get(path, as_="admin")).json()["limits"]["absolute"]["maxTotalCores"] == 44
    assert (await cloud.get(path, as_="other")).status_code == 403
    assert (await cloud.get(f"{URL}/limits?reserved=0", version="compute 2.74")).status_code == 200
    assert (await cloud.get(f"{URL}/limits?reserved=0", version="compute 2.75")).status_code == 400
