"""Services, hypervisors and hosts over HTTP, with hosts that said hello."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.cloud import TestCloud, test_cloud

from cumulet.core import allocations, hosts, scheduling
from cumulet.db.engine import PostgresDatabase, SqliteDatabase, Tx
from cumulet.reconcile import agents

pytestmark = pytest.mark.anyio

URL = "/compute/v2.1"
FACTS = {
    "hypervisor": "qemu",
    "booted_at": 0,
    "cpu_info": {"arch": "x86_64"},
    "inventories": {
        "VCPU": {"total": 8, "ratio": 16.0},
        "MEMORY_MB": {"total": 8192, "reserved": 512, "ratio": 1.5},
        "DISK_GB": {"total": 100},
    },
}


def make_host(tx: Tx, name: str) -> str:
    """A host that joined and said hello; its id."""
    id = agents.register(tx, "host", name, "secret")
    row = tx.one("select * from agents where id = :id", id=id)
    assert row is not None
    agents.hello(tx, row, directory=name, session=tx.uuid(), facts=FACTS)
    scheduling.register_host(tx, id, name, FACTS)
    return id


def make_server(tx: Tx, host: str, name: str = "s") -> str:
    """The row of a server on a host, and what it uses there."""
    id = tx.uuid()
    flavor = {"vcpus": 2, "ram": 1024, "disk": 10, "ephemeral": 1, "swap": 0}
    tx.insert("holders", id=id, kind="server", project_id="p")
    tx.insert(
        "servers", id=id, project_id="p", user_id="u", name=name, hostname=name, desired="active",
        vm_state="active", host=host, flavor=flavor, flavorid="1", vcpus=2, ram=1024, reservation_id="r", created_at=tx.now, updated_at=tx.now,
        number=1,
    )  # fmt: skip
    provider = tx.value("select id from resource_providers where agent = :host", host=host)
    allocations.set(tx, id, "p", "u", {provider: {"VCPU": 2, "MEMORY_MB": 1024, "DISK_GB": 11}})
    return id


@pytest.fixture
async def cloud(db: SqliteDatabase | PostgresDatabase) -> AsyncIterator[TestCloud]:
    async with test_cloud(db) as made:
        await db.write(make_host, "h1")
        await db.write(make_host, "h2")
        yield made


async def admin(cloud: TestCloud, method: str, path: str, version: str = "2.96", **more: Any) -> Any:
    return await cloud.request(method, URL + path, as_="admin", version=f"compute {version}", **more)


async def id_of(cloud: TestCloud, name: str) -> str:
    return (await cloud.db.read(hosts.named, name)).id


async def state(cloud: TestCloud, name: str) -> Any:
    listed = (await admin(cloud, "GET", f"/os-services?host={name}")).json()["services"]
    return listed[0] if listed else None


async def test_shape_of_services(cloud: TestCloud) -> None:
    old = {"id", "binary", "host", "zone", "status", "state", "updated_at", "disabled_reason"}
    for version, keys, kind in (
        ("2.1", old, int), ("2.11", old | {"forced_down"}, int), ("2.53", old | {"forced_down"}, str),
    ):  # fmt: skip
        listed = (await admin(cloud, "GET", "/os-services", version)).json()["services"]
        assert [one["binary"] for one in listed] == [
            "nova-scheduler", "nova-conductor", "nova-compute", "nova-compute",
        ]  # fmt: skip
        for one in listed:
            assert set(one) == keys
            assert isinstance(one["id"], kind)
            assert one["state"] == "up"
        assert [one["zone"] for one in listed] == ["internal", "internal", "nova", "nova"]
    assert (await cloud.get(f"{URL}/os-services", as_="demo")).status_code == 403


async def test_disabled_with_a_reason_and_enabled_again(cloud: TestCloud) -> None:
    named = {"host": "h1", "binary": "nova-compute"}
    done = await admin(
        cloud, "PUT", "/os-services/disable-log-reason", "2.1", json={**named, "disabled_reason": "disk"}
    )
    assert done.json() == {"service": {**named, "status": "disabled", "disabled_reason": "disk"}}
    assert (await state(cloud, "h1"))["disabled_reason"] == "disk"
    provider = await cloud.db.read(lambda tx: hosts.named(tx, "h1").provider)
    path = f"/placement/resource_providers/{provider}/traits"
    traits = (await cloud.get(path, as_="admin", version="placement 1.6")).json()["traits"]
    assert traits == ["COMPUTE_STATUS_DISABLED"]
    await admin(cloud, "PUT", "/os-services/enable", "2.1", json=named)
    assert (await state(cloud, "h1"))["status"] == "enabled"
    assert (await state(cloud, "h1"))["disabled_reason"] is None
    assert (await cloud.get(path, as_="admin", version="placement 1.6")).json()["traits"] == []


async def test_forced_down(cloud: TestCloud) -> None:
    body = {"host": "h1", "binary": "nova-compute", "forced_down": True}
    assert (await admin(cloud, "PUT", "/os-services/force-down", "2.10", json=body)).status_code == 400
    done = await admin(cloud, "PUT", "/os-services/force-down", "2.11", json=body)
    assert done.json()["service"] == body
    assert (await state(cloud, "h1"))["state"] == "down"
    path = f"/os-services/{await id_of(cloud, 'h1')}"
    done = await admin(cloud, "PUT", path, json={"forced_down": False})
    assert (done.json()["service"]["forced_down"], done.json()["service"]["state"]) == (False, "up")


async def test_changed_by_id_since_2_53(cloud: TestCloud) -> None:
    path = f"/os-services/{await id_of(cloud, 'h1')}"
    done = await admin(cloud, "PUT", path, json={"status": "disabled", "disabled_reason": "r"})
    assert done.json()["service"]["disabled_reason"] == "r"
    for body in (
        {},
        {"status": "x"},
        {"disabled_reason": "r"},
        {"status": "enabled", "disabled_reason": "r"},
    ):
        assert (await admin(cloud, "PUT", path, json=body)).status_code == 400
    assert (await admin(cloud, "PUT", "/os-services/x", json={"status": "enabled"})).status_code == 400
    unknown = f"/os-services/{uuid.uuid4()}"
    assert (await admin(cloud, "PUT", unknown, json={"status": "enabled"})).status_code == 404


async def test_bad_changes(cloud: TestCloud) -> None:
    for action, body, status in (
        ("enable", {"host": "h9", "binary": "nova-compute"}, 404),
        ("enable", {"host": "h1", "binary": "nova-scheduler"}, 400), ("enable", {"host": "h1"}, 400),
        ("disable-log-reason", {"host": "h1", "binary": "nova-compute"}, 400),
        ("explode", {"host": "h1", "binary": "nova-compute"}, 404),
    ):  # fmt: skip
        answer = await admin(cloud, "PUT", f"/os-services/{action}", "2.11", json=body)
        assert answer.status_code == status, answer.text


async def test_a_silent_host_is_down(cloud: TestCloud) -> None:
    await cloud.db.write(lambda tx: tx.run("update agents set silent = :yes where name = 'h1'", yes=True))
    assert (await state(cloud, "h1"))["state"] == "down"
    assert (await state(cloud, "h2"))["state"] == "up"


async def test_a_host_is_taken_out_of_service_and_comes_back(cloud: TestCloud) -> None:
    key = await id_of(cloud, "h1")
    server = await cloud.db.write(make_server, key)
    assert (await admin(cloud, "DELETE", f"/os-services/{key}")).status_code == 409

    def leave(tx: Tx) -> None:
        tx.delete("servers", server)
        tx.delete("holders", server)

    await cloud.db.write(leave)
    held = await admin(cloud, "DELETE", f"/os-services/{key}")
    assert held.status_code == 409, "an allocation is still there"
    await cloud.db.write(allocations.remove, server)
    assert (await admin(cloud, "DELETE", f"/os-services/{key}")).status_code == 204
    assert await state(cloud, "h1") is None
    assert (await admin(cloud, "DELETE", f"/os-services/{key}")).status_code == 404
    names = [
        one["hypervisor_hostname"]
        for one in (await admin(cloud, "GET", "/os-hypervisors")).json()["hypervisors"]
    ]
    assert names == ["h2"]
    providers = (await cloud.get("/placement/resource_providers", as_="admin")).json()["resource_providers"]
    assert [one["name"] for one in providers] == ["h2"]
    # The row is there for what may be left on it, and a hello alone brings nothing back.
    await cloud.db.write(scheduling.register_host, key, "h1", FACTS)
    assert await state(cloud, "h1") is None
    await cloud.db.write(make_host, "h1")
    assert (await state(cloud, "h1"))["state"] == "up"


async def test_shape_of_hypervisors(cloud: TestCloud) -> None:
    basic = {"id", "hypervisor_hostname", "state", "status"}
    used = {
        "vcpus", "vcpus_used", "memory_mb", "memory_mb_used", "local_gb", "local_gb_used", "free_ram_mb",
        "free_disk_gb", "current_workload", "running_vms", "disk_available_least", "cpu_info",
    }  # fmt: skip
    full = basic | {"hypervisor_type", "hypervisor_version", "host_ip", "service"}
    for version, keys, kind, cpu in (
        ("2.1", full | used, int, str), ("2.28", full | used, int, dict), ("2.53", full | used, str, dict),
        ("2.88", full | {"uptime"}, str, None),
    ):  # fmt: skip
        listed = (await admin(cloud, "GET", "/os-hypervisors/detail", version)).json()["hypervisors"]
        assert set(listed[0]) == keys
        assert isinstance(listed[0]["id"], kind)
        assert cpu is None or isinstance(listed[0]["cpu_info"], cpu)
        assert listed[0]["hypervisor_type"] == "QEMU"
        shown = await admin(cloud, "GET", f"/os-hypervisors/{listed[0]['id']}", version)
        assert shown.json()["hypervisor"] == listed[0]
        brief = (await admin(cloud, "GET", "/os-hypervisors", version)).json()["hypervisors"]
        assert set(brief[0]) == basic


async def test_a_hypervisors_id_is_its_providers(cloud: TestCloud) -> None:
    listed = (await admin(cloud, "GET", "/os-hypervisors")).json()["hypervisors"]
    provider = await cloud.get(f"/placement/resource_providers/{listed[0]['id']}", as_="admin")
    assert provider.json()["name"] == listed[0]["hypervisor_hostname"]


async def test_use_is_counted(cloud: TestCloud) -> None:
    await cloud.db.write(make_server, await id_of(cloud, "h1"))
    one = (await admin(cloud, "GET", "/os-hypervisors/detail", "2.87")).json()["hypervisors"][0]
    assert (one["vcpus"], one["vcpus_used"], one["running_vms"]) == (8, 2, 1)
    assert (one["memory_mb"], one["memory_mb_used"], one["free_ram_mb"]) == (8192, 1536, 6656)
    assert (one["local_gb"], one["local_gb_used"], one["free_disk_gb"]) == (100, 11, 89)
    sums = (await admin(cloud, "GET", "/os-hypervisors/statistics", "2.87")).json()["hypervisor_statistics"]
    assert (sums["count"], sums["vcpus"], sums["vcpus_used"], sums["running_vms"]) == (2, 16, 2, 1)
    assert (await admin(cloud, "GET", "/os-hypervisors/statistics", "2.88")).status_code in (400, 404)


async def test_servers_of_hypervisors(cloud: TestCloud) -> None:
    server = await cloud.db.write(make_server, await id_of(cloud, "h1"), "web")
    here = [{"name": "web", "uuid": server}]
    old = (await admin(cloud, "GET", "/os-hypervisors/h/servers", "2.52")).json()["hypervisors"]
    assert [one.get("servers") for one in old] == [here, None]
    for version, empty in (("2.53", None), ("2.75", [])):
        found = (await admin(cloud, "GET", "/os-hypervisors?with_servers=true", version)).json()[
            "hypervisors"
        ]
        assert [one.get("servers") for one in found] == [here, empty]
    assert (await admin(cloud, "GET", "/os-hypervisors/h/servers", "2.53")).status_code == 404


async def test_hypervisors_by_pattern_and_in_pages(cloud: TestCloud) -> None:
    found = (await admin(cloud, "GET", "/os-hypervisors?hypervisor_hostname_pattern=2")).json()
    assert [one["hypervisor_hostname"] for one in found["hypervisors"]] == ["h2"]
    assert (await admin(cloud, "GET", "/os-hypervisors?hypervisor_hostname_pattern=x")).status_code == 404
    assert (
        await admin(cloud, "GET", "/os-hypervisors?hypervisor_hostname_pattern=h&limit=1")
    ).status_code == 400
    assert (await admin(cloud, "GET", "/os-hypervisors/h2/search", "2.52")).json()["hypervisors"][0]["status"]
    first = (await admin(cloud, "GET", "/os-hypervisors?limit=1")).json()
    link = first["hypervisors_links"][0]["href"].removeprefix("http://cloud" + URL)
    second = (await admin(cloud, "GET", link)).json()
    assert [one["hypervisor_hostname"] for one in second["hypervisors"]] == ["h2"]
    assert (await admin(cloud, "GET", f"/os-hypervisors?marker={uuid.uuid4()}")).status_code == 400


async def test_unknown_hypervisors(cloud: TestCloud) -> None:
    assert (await admin(cloud, "GET", f"/os-hypervisors/{uuid.uuid4()}")).status_code == 404
    assert (await admin(cloud, "GET", "/os-hypervisors/x")).status_code == 400
    assert (await admin(cloud, "GET", "/os-hypervisors/x", "2.52")).status_code == 404
    assert (await admin(cloud, "GET", "/os-hypervisors/99", "2.52")).status_code == 404
    assert (await cloud.get(f"{URL}/os-hypervisors", as_="demo")).status_code == 403


async def test_uptime(cloud: TestCloud) -> None:
    number = (await admin(cloud, "GET", "/os-hypervisors", "2.1")).json()["hypervisors"][0]["id"]
    answer = (await admin(cloud, "GET", f"/os-hypervisors/{number}/uptime", "2.1")).json()["hypervisor"]
    assert " up " in answer["uptime"]
    assert (await admin(cloud, "GET", f"/os-hypervisors/{number}/uptime", "2.88")).status_code == 404
    body = {"host": "h1", "binary": "nova-compute", "forced_down": True}
    await admin(cloud, "PUT", "/os-services/force-down", "2.11", json=body)
    assert (await admin(cloud, "GET", f"/os-hypervisors/{number}/uptime", "2.1")).status_code == 400


async def test_hosts_until_2_42(cloud: TestCloud) -> None:
    await cloud.db.write(make_server, await id_of(cloud, "h1"))
    listed = (await admin(cloud, "GET", "/os-hosts", "2.1")).json()["hosts"]
    assert {(one["host_name"], one["service"], one["zone"]) for one in listed} == {
        ("control", "scheduler", "internal"), ("control", "conductor", "internal"),
        ("h1", "compute", "nova"), ("h2", "compute", "nova"),
    }  # fmt: skip
    assert len((await admin(cloud, "GET", "/os-hosts?zone=nova", "2.1")).json()["hosts"]) == 2
    lines = [line["resource"] for line in (await admin(cloud, "GET", "/os-hosts/h1", "2.1")).json()["host"]]
    assert [(line["project"], line["cpu"], line["memory_mb"], line["disk_gb"]) for line in lines] == [
        ("(total)", 8, 8192, 100), ("(used_now)", 2, 1536, 11), ("(used_max)", 2, 1024, 11), ("p", 2, 1024, 11),
    ]  # fmt: skip
    assert (await admin(cloud, "GET", "/os-hosts/h9", "2.1")).status_code == 404
    done = await admin(cloud, "PUT", "/os-hosts/h1", "2.1", json={"status": "disable"})
    assert done.json() == {"host": "h1", "status": "disabled"}
    assert (await state(cloud, "h1"))["status"] == "disabled"
    assert (await admin(cloud, "PUT", "/os-hosts/h1", "2.1", json={"status": "x"})).status_code == 400
    assert (await admin(cloud, "PUT", "/os-hosts/h1", "2.1", json={})).status_code == 400
    assert (await admin(cloud, "GET", "/os-hosts/h1/reboot", "2.1")).status_code == 501
    assert (await admin(cloud, "GET", "/os-hosts", "2.43")).status_code == 404


async def test_migrations(cloud: TestCloud) -> None:
    path = "/compute/v2.1/os-migrations"
    assert (await cloud.get(path)).status_code == 403
    for version, query, status in (
        ("2.1", "", 200),
        ("2.58", "?limit=x&anything=1", 200),
        ("2.59", "?limit=5&host=h&changes-since=2026-01-01T00:00:00Z", 200),
        ("2.59", "?changes-before=2026-01-01T00:00:00Z", 400),
        ("2.59", "?limit=-1", 400),
        ("2.59", "?limit=1&limit=2", 400),
        ("2.59", f"?marker={uuid.uuid4()}", 400),
        ("2.59", "?project_id=x", 400),
        ("2.66", "?changes-since=2026-01-01&changes-before=2026-01-02", 200),
        ("2.66", "?changes-since=2026-01-02&changes-before=2026-01-01", 400),
        ("2.66", "?changes-since=never", 400),
        ("2.80", "?project_id=x&user_id=y", 200),
    ):
        answer = await cloud.get(path + query, as_="admin", version=f"compute {version}")
        assert (answer.status_code, version, query) == (status, version, query)
        if status == 200:
            assert answer.json() == {"migrations": []}
