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
    assert answer.headers["openstack-api-version"] == "compute 2.104"
    assert answer.headers["x-openstack-nova-api-version"] == "2.104"
    refused = await cloud.get("/compute/v2.1/flavors", version="compute 2.105")
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


async def test_versions_below_the_root(cloud: TestCloud) -> None:
    for path, status, name in (
        ("/compute/v2.1/versions/v2.1", 200, "v2.1"),
        ("/compute/v2.1/versions/v2.0", 200, "v2.0"),
        ("/compute/v2/versions/v2.1", 200, "v2.0"),
        ("/compute/v2.1/versions/v3", 404, None),
    ):
        answer = await cloud.get(path)
        assert answer.status_code == status
        assert answer.json().get("version", {}).get("id") == name


async def test_a_slash_at_the_end_is_an_empty_id(cloud: TestCloud) -> None:
    project = cloud.project("demo")
    for path in ("/compute/v2.1/", "/compute/v2/", f"/compute/v2.1/{project}/"):
        assert (await cloud.get(path)).status_code == 200, path
    for path in ("servers", "flavors", "os-keypairs", f"{project}/flavors", "os-aggregates"):
        assert (await cloud.get(f"/compute/v2.1/{path}/", as_="admin")).status_code == 404, path
        assert (await cloud.delete(f"/compute/v2.1/{path}/", as_="admin")).status_code == 404, path


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "os-cells/capacities", 410),
        ("POST", "os-networks/add", 410),
        ("POST", "os-networks/1/action", 410),
        ("POST", "os-fixed-ips/10.0.0.1/action", 410),
        ("GET", "servers/1/consoles", 410),
        ("GET", "servers/1/os-virtual-interfaces", 410),
        ("GET", "os-baremetal-nodes", 501),
        ("POST", "os-baremetal-nodes", 400),
        ("DELETE", "os-baremetal-nodes/1", 400),
    ],
)
async def test_what_compute_once_had(cloud: TestCloud, method: str, path: str, status: int) -> None:
    answer = await cloud.request(method, f"/compute/v2.1/{path}", as_="admin")
    assert answer.status_code == status


async def test_servers_have_another_name(cloud: TestCloud) -> None:
    for path in ("", "/detail"):
        answer = await cloud.get(f"/compute/v2.1/os-volumes_boot{path}")
        assert answer.json() == {"servers": []}
    assert (await cloud.post("/compute/v2.1/os-volumes_boot", json={"server": {}})).status_code == 400
    for version, status in (("2.102", 200), ("2.103", 404)):
        answer = await cloud.get("/compute/v2.1/os-volumes_boot", version=f"compute {version}")
        assert answer.status_code == status


@pytest.mark.parametrize(
    "path",
    ["flavors/1", "flavors/1/os-extra_specs", "os-aggregates", "os-availability-zone", "extensions", "os-quota-class-sets/default"],
)  # fmt: skip
async def test_unknown_parameters_are_refused_everywhere_since_2_102(cloud: TestCloud, path: str) -> None:
    for version, status in (("2.101", 200), ("2.102", 400)):
        answer = await cloud.get(
            f"/compute/v2.1/{path}?surprise=1", as_="admin", version=f"compute {version}"
        )
        assert answer.status_code == status
    assert (await cloud.get(f"/compute/v2.1/{path}", as_="admin", version="compute 2.104")).status_code == 200
