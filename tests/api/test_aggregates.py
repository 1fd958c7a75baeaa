"""Host aggregates and availability zones over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.api.test_hosts import admin, make_host, make_server
from tests.cloud import TestCloud, test_cloud

from cumulet.core import hosts
from cumulet.db.engine import PostgresDatabase, SqliteDatabase

pytestmark = pytest.mark.anyio


@pytest.fixture
async def cloud(db: SqliteDatabase | PostgresDatabase) -> AsyncIterator[TestCloud]:
    async with test_cloud(db) as made:
        await db.write(make_host, "h1")
        await db.write(make_host, "h2")
        yield made


async def make(cloud: TestCloud, name: str, zone: str | None = None, version: str = "2.96") -> Any:
    body = {"aggregate": {"name": name, "availability_zone": zone}}
    return await admin(cloud, "POST", "/os-aggregates", version, json=body)


async def act(cloud: TestCloud, number: int, **action: Any) -> Any:
    return await admin(cloud, "POST", f"/os-aggregates/{number}/action", json=action)


async def test_shape(cloud: TestCloud) -> None:
    new = {"id", "name", "availability_zone", "created_at", "updated_at", "deleted", "deleted_at"}
    made = await make(cloud, "a", "z", "2.1")
    assert made.status_code == 200
    assert set(made.json()["aggregate"]) == new
    number = made.json()["aggregate"]["id"]
    for version, keys in (
        ("2.1", new | {"hosts", "metadata"}),
        ("2.41", new | {"hosts", "metadata", "uuid"}),
    ):
        shown = (await admin(cloud, "GET", f"/os-aggregates/{number}", version)).json()["aggregate"]
        assert set(shown) == keys
        assert shown["metadata"] == {"availability_zone": "z"}
        assert (await admin(cloud, "GET", "/os-aggregates", version)).json() == {"aggregates": [shown]}
    assert (await cloud.get("/compute/v2.1/os-aggregates", as_="demo")).status_code == 403


async def test_hosts_come_and_go(cloud: TestCloud) -> None:
    number = (await make(cloud, "a")).json()["aggregate"]["id"]
    assert (await act(cloud, number, add_host={"host": "h1"})).json()["aggregate"]["hosts"] == ["h1"]
    assert (await act(cloud, number, add_host={"host": "h1"})).status_code == 409
    assert (await act(cloud, number, add_host={"host": "h9"})).status_code == 404
    aggregate = (await admin(cloud, "GET", f"/os-aggregates/{number}")).json()["aggregate"]["uuid"]
    path = f"/placement/resource_providers?member_of={aggregate}"
    listed = (await cloud.get(path, as_="admin", version="placement 1.39")).json()["resource_providers"]
    assert [one["name"] for one in listed] == ["h1"]
    assert (await admin(cloud, "DELETE", f"/os-aggregates/{number}")).status_code == 400
    assert (await act(cloud, number, remove_host={"host": "h1"})).json()["aggregate"]["hosts"] == []
    assert (await act(cloud, number, remove_host={"host": "h1"})).status_code == 404
    assert (await cloud.get(path, as_="admin", version="placement 1.39")).json() == {"resource_providers": []}
    assert (await admin(cloud, "DELETE", f"/os-aggregates/{number}")).status_code == 200
    assert (await admin(cloud, "DELETE", f"/os-aggregates/{number}")).status_code == 404


async def test_a_number_is_never_given_out_again(cloud: TestCloud) -> None:
    number = (await make(cloud, "a")).json()["aggregate"]["id"]
    await admin(cloud, "DELETE", f"/os-aggregates/{number}")
    assert (await make(cloud, "a")).json()["aggregate"]["id"] > number


async def test_metadata(cloud: TestCloud) -> None:
    number = (await make(cloud, "a")).json()["aggregate"]["id"]
    changed = await act(cloud, number, set_metadata={"metadata": {"ssd": "true", "gpu": "no"}})
    assert changed.json()["aggregate"]["metadata"] == {"ssd": "true", "gpu": "no"}
    changed = await act(cloud, number, set_metadata={"metadata": {"gpu": None}})
    assert changed.json()["aggregate"]["metadata"] == {"ssd": "true"}
    assert changed.json()["aggregate"]["updated_at"] is not None
    for bad in (
        {"a/b": "x"},
        {"a": 1},
        {"a": "x" * 256},
        {"availability_zone": ""},
        {"availability_zone": None},
    ):
        assert (await act(cloud, number, set_metadata={"metadata": bad})).status_code == 400, bad


async def test_names(cloud: TestCloud) -> None:
    number = (await make(cloud, "a")).json()["aggregate"]["id"]
    await make(cloud, "b")
    assert (await make(cloud, "a")).status_code == 409
    path = f"/os-aggregates/{number}"
    assert (await admin(cloud, "PUT", path, json={"aggregate": {"name": "b"}})).status_code == 409
    changed = await admin(cloud, "PUT", path, json={"aggregate": {"name": "c", "availability_zone": "z"}})
    assert (changed.json()["aggregate"]["name"], changed.json()["aggregate"]["availability_zone"]) == (
        "c",
        "z",
    )
    for bad in ("", " ", "x" * 256, " a"):
        assert (await make(cloud, bad)).status_code == 400
    assert (await make(cloud, "d", "z:1")).status_code == 400
    assert (await admin(cloud, "PUT", path, json={"aggregate": {}})).status_code == 400
    assert (await admin(cloud, "GET", "/os-aggregates/x")).status_code == 400
    for unknown in ("99", "-1"):
        for method in ("GET", "DELETE"):
            assert (await admin(cloud, method, f"/os-aggregates/{unknown}")).status_code == 404
    assert (await act(cloud, number, explode={})).status_code == 400


async def zones(cloud: TestCloud) -> dict[str, bool]:
    found = (await cloud.get("/compute/v2.1/os-availability-zone")).json()["availabilityZoneInfo"]
    assert all(zone["hosts"] is None for zone in found)
    return {zone["zoneName"]: zone["zoneState"]["available"] for zone in found}


async def test_zones(cloud: TestCloud) -> None:
    assert await zones(cloud) == {"nova": True}
    number = (await make(cloud, "a", "z")).json()["aggregate"]["id"]
    assert await zones(cloud) == {"nova": True}
    await act(cloud, number, add_host={"host": "h1"})
    assert await zones(cloud) == {"nova": True, "z": True}
    named = {"host": "h1", "binary": "nova-compute"}
    await admin(cloud, "PUT", "/os-services/disable", "2.1", json=named)
    assert await zones(cloud) == {"nova": True, "z": False}
    detail = (await admin(cloud, "GET", "/os-availability-zone/detail")).json()["availabilityZoneInfo"]
    by_name = {zone["zoneName"]: zone for zone in detail}
    assert set(by_name) == {"internal", "nova", "z"}
    assert by_name["z"]["hosts"] is None
    service = by_name["nova"]["hosts"]["h2"]["nova-compute"]
    assert (service["available"], service["active"]) == (True, True)
    assert (await cloud.get("/compute/v2.1/os-availability-zone/detail")).status_code == 403
    assert (await admin(cloud, "GET", "/os-services?host=h1")).json()["services"][0]["zone"] == "z"


async def test_a_host_is_in_one_zone_only(cloud: TestCloud) -> None:
    first = (await make(cloud, "a", "z1")).json()["aggregate"]["id"]
    second = (await make(cloud, "b", "z2")).json()["aggregate"]["id"]
    third = (await make(cloud, "c")).json()["aggregate"]["id"]
    await act(cloud, first, add_host={"host": "h1"})
    assert (await act(cloud, second, add_host={"host": "h1"})).status_code == 409
    await act(cloud, third, add_host={"host": "h1"})
    late = await act(cloud, third, set_metadata={"metadata": {"availability_zone": "z2"}})
    assert late.status_code == 400
    same = await act(cloud, third, set_metadata={"metadata": {"availability_zone": "z1"}})
    assert same.status_code == 200


async def test_a_zone_does_not_change_under_servers(cloud: TestCloud) -> None:
    number = (await make(cloud, "a", "z")).json()["aggregate"]["id"]
    await act(cloud, number, add_host={"host": "h1"})
    for name in ("h1", "h2"):
        await cloud.db.write(make_server, (await cloud.db.read(hosts.named, name)).id)
    assert (await act(cloud, number, add_host={"host": "h2"})).status_code == 409
    assert (await act(cloud, number, remove_host={"host": "h1"})).status_code == 409
    renamed = await act(cloud, number, set_metadata={"metadata": {"availability_zone": "y"}})
    assert renamed.status_code == 400
    body = {"aggregate": {"name": "new", "availability_zone": "z"}}
    assert (await admin(cloud, "PUT", f"/os-aggregates/{number}", json=body)).status_code == 200
