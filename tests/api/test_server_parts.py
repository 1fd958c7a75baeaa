"""What a server says of itself: name, metadata, tags, history, diagnostics."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cloud import TestCloud
from tests.servers import NEWEST, URL, act, boot, make_image, private, remove, show, wait_for

pytestmark = pytest.mark.anyio


@pytest.fixture
async def server(cloud: TestCloud) -> str:
    return await boot(cloud, imageRef=await make_image(cloud), networks=[{"uuid": await private(cloud)}])


async def test_updates(cloud: TestCloud, server: str) -> None:
    url = f"{URL}/{server}"

    async def put(version: str = NEWEST, as_: str = "demo", **fields: Any) -> Any:
        return await cloud.put(url, json={"server": fields}, version=version, as_=as_)

    changed = await put(
        name="new", description=None, hostname="host.example", accessIPv4="10.1.2.3", accessIPv6="FD00:0::1",
        **{"OS-DCF:diskConfig": "AUTO"},
    )  # fmt: skip
    assert changed.status_code == 200, changed.text
    assert changed.json()["server"] == await show(cloud, server)
    assert changed.json()["server"]["OS-EXT-SRV-ATTR:hostname"] == "host.example"
    assert changed.json()["server"]["accessIPv6"] == "fd00::1"
    old = (await put(version="compute 2.74", name="again")).json()["server"]
    assert (old["name"], "OS-EXT-STS:vm_state" in old, "key_name" in old) == ("again", False, False)
    assert set(old["addresses"]["private"][0]) == {"version", "addr"}
    assert (await put(as_="other", name="x")).status_code == 404
    assert (await put(as_="reader", name="x")).status_code == 403
    for fields in (
        {"name": ""}, {"name": "n" * 256}, {"accessIPv4": "x"}, {"hostname": "a b"}, {"unknown": 1}, {"name": None},
        {"description": "d" * 256}, {"OS-DCF:diskConfig": "x"}, {"accessIPv6": "10.0.0.1"},
    ):  # fmt: skip
        assert (await put(**fields)).status_code == 400, fields
    assert (await put(version="compute 2.93", hostname="host.example")).status_code == 400
    assert (await put(version="compute 2.89", hostname="host")).status_code == 400
    assert (await put(version="compute 2.18", description="d")).status_code == 400


async def test_metadata(cloud: TestCloud, server: str) -> None:
    url = f"{URL}/{server}/metadata"
    assert (await cloud.get(url)).json() == {"metadata": {}}
    assert (await cloud.post(url, json={"metadata": {"a": "1", "b": "2"}})).json() == {
        "metadata": {"a": "1", "b": "2"}
    }
    assert (await cloud.post(url, json={"metadata": {"b": "3"}})).json() == {"metadata": {"a": "1", "b": "3"}}
    assert (await cloud.put(url, json={"metadata": {"c": "4"}})).json() == {"metadata": {"c": "4"}}
    assert (await cloud.put(f"{url}/d", json={"meta": {"d": "5"}})).json() == {"meta": {"d": "5"}}
    assert (await cloud.get(f"{url}/d")).json() == {"meta": {"d": "5"}}
    assert (await cloud.delete(f"{url}/c")).status_code == 204
    assert (await show(cloud, server))["metadata"] == {"d": "5"}
    assert (await cloud.delete(f"{url}/c")).status_code == 404
    assert (await cloud.get(f"{url}/c")).status_code == 404
    for body in (
        {"metadata": {"a": 1}},
        {"metadata": {"": "v"}},
        {"metadata": None},
        {},
        {"metadata": {"k" * 256: ""}},
    ):
        assert (await cloud.post(url, json=body)).status_code == 400, body
    assert (await cloud.put(f"{url}/a", json={"meta": {"b": "1"}})).status_code == 400
    assert (await cloud.put(f"{url}/a", json={"meta": {"a": "1", "b": "1"}})).status_code == 400
    many = {f"k{i}": "v" for i in range(129)}
    assert (await cloud.post(url, json={"metadata": many})).status_code == 403
    assert (await cloud.get(url, as_="other")).status_code == 404
    assert (await cloud.post(url, json={"metadata": {}}, as_="reader")).status_code == 403


async def test_tags(cloud: TestCloud, server: str) -> None:
    url = f"{URL}/{server}/tags"
    made = await cloud.put(f"{url}/one", version=NEWEST)
    assert made.status_code == 201
    assert made.headers["location"].endswith(f"/servers/{server}/tags/one")
    assert (await cloud.put(f"{url}/one", version=NEWEST)).status_code == 204
    assert (await cloud.get(f"{url}/one", version=NEWEST)).status_code == 204
    assert (await cloud.get(f"{url}/two", version=NEWEST)).status_code == 404
    assert (await cloud.put(url, json={"tags": ["b", "a", "b"]}, version=NEWEST)).json() == {
        "tags": ["a", "b"]
    }
    assert (await cloud.get(url, version=NEWEST)).json() == {"tags": ["a", "b"]}
    assert (await cloud.delete(f"{url}/a", version=NEWEST)).status_code == 204
    assert (await cloud.delete(f"{url}/a", version=NEWEST)).status_code == 404
    assert (await cloud.delete(url, version=NEWEST)).status_code == 204
    assert (await show(cloud, server))["tags"] == []
    assert (await cloud.put(f"{url}/a,b", version=NEWEST)).status_code == 400
    assert (
        await cloud.put(url, json={"tags": [str(i) for i in range(51)]}, version=NEWEST)
    ).status_code == 400
    assert (await cloud.get(url, version="compute 2.25")).status_code == 404
    await act(cloud, server, "shelve")
    await wait_for(cloud, server, "SHELVED_OFFLOADED")
    assert (await cloud.put(f"{url}/a", version=NEWEST)).status_code == 409


async def test_history_of_a_server_and_when_it_is_gone(cloud: TestCloud, server: str) -> None:
    url = f"{URL}/{server}/os-instance-actions"
    stopped = await act(cloud, server, "os-stop")
    await wait_for(cloud, server, "SHUTOFF")
    listed = (await cloud.get(url)).json()["instanceActions"]
    assert [one["action"] for one in listed] == ["stop", "create"]
    request_id = stopped.headers["x-compute-request-id"]
    assert listed[0]["request_id"] == request_id
    assert "updated_at" not in listed[0]
    assert (await cloud.get(f"{url}/req-none")).status_code == 404

    async def keys(version: str, as_: str = "demo") -> tuple[set[str], set[str]]:
        answer = await cloud.get(f"{url}/{request_id}", version=f"compute {version}", as_=as_)
        body = answer.json()["instanceAction"]
        return set(body), set(body["events"][0]) if "events" in body else set()

    base = {"action", "instance_uuid", "message", "project_id", "request_id", "start_time", "user_id"}
    event = {"event", "start_time", "finish_time", "result"}
    assert await keys("2.50") == (base, set())
    assert await keys("2.50", "admin") == (base | {"events"}, event | {"traceback"})
    assert await keys("2.51") == (base | {"events"}, event)
    assert await keys("2.58") == (base | {"events", "updated_at"}, event)
    assert await keys("2.62") == (base | {"events", "updated_at"}, event | {"hostId"})
    assert await keys("2.62", "admin") == (
        base | {"events", "updated_at"},
        event | {"hostId", "host", "traceback"},
    )
    assert await keys("2.84", "admin") == (
        base | {"events", "updated_at"},
        event | {"hostId", "host", "traceback", "details"},
    )
    page = (await cloud.get(f"{url}?limit=1", version="compute 2.58")).json()
    assert [one["action"] for one in page["instanceActions"]] == ["stop"]
    behind = (await cloud.get(page["links"][0]["href"], version="compute 2.58")).json()
    assert [one["action"] for one in behind["instanceActions"]] == ["create"]
    for query in (
        "marker=none",
        "limit=x",
        "unknown=1",
        "changes-since=x",
        "changes-before=2020-01-01T00:00:00Z",
    ):
        assert (await cloud.get(f"{url}?{query}", version="compute 2.58")).status_code == 400, query
    late = (await cloud.get(f"{url}?changes-since=2999-01-01T00:00:00Z", version=NEWEST)).json()
    assert late == {"instanceActions": []}
    await remove(cloud, server)
    assert (await cloud.get(url, version="compute 2.20")).status_code == 404
    after = (await cloud.get(url, version="compute 2.21")).json()["instanceActions"]
    assert [one["action"] for one in after] == ["delete", "stop", "create"]
    assert (await cloud.get(url, version="compute 2.21", as_="other")).status_code == 404


async def test_diagnostics_password_topology(cloud: TestCloud, server: str) -> None:
    url = f"{URL}/{server}"
    assert (await cloud.get(f"{url}/diagnostics")).status_code == 403
    old = (await cloud.get(f"{url}/diagnostics", as_="admin")).json()
    assert old["memory"] == 128 * 1024
    new = (await cloud.get(f"{url}/diagnostics", as_="admin", version="compute 2.48")).json()
    assert (new["state"], new["num_cpus"], new["num_nics"], new["num_disks"]) == ("running", 1, 1, 1)
    assert set(new) == {
        "state", "driver", "hypervisor", "hypervisor_os", "uptime", "config_drive", "num_cpus", "num_nics",
        "num_disks", "memory_details", "cpu_details", "nic_details", "disk_details",
    }  # fmt: skip
    assert (await cloud.get(f"{url}/os-server-password")).json() == {"password": ""}
    assert (await cloud.delete(f"{url}/os-server-password")).status_code == 204
    assert (await cloud.get(f"{url}/topology", version="compute 2.78")).json() == {
        "nodes": [],
        "pagesize_kb": None,
    }
    assert (await cloud.get(f"{url}/topology", version="compute 2.77")).status_code == 404
    migrations = await cloud.get(f"{url}/migrations", as_="admin", version="compute 2.23")
    assert migrations.json() == {"migrations": []}


async def test_events_of_other_services(cloud: TestCloud, server: str) -> None:
    url = "/compute/v2.1/os-server-external-events"
    event = {"name": "network-changed", "server_uuid": server, "status": "completed", "tag": "x"}
    taken = await cloud.post(url, json={"events": [event]}, as_="service")
    assert (taken.status_code, taken.json()) == (200, {"events": [{**event, "code": 200}]})
    nowhere = {**event, "server_uuid": "00000000-0000-0000-0000-000000000000"}
    mixed = await cloud.post(url, json={"events": [event, nowhere]}, as_="service")
    assert (mixed.status_code, [one["code"] for one in mixed.json()["events"]]) == (207, [200, 404])
    assert (await cloud.post(url, json={"events": [event]})).status_code == 403
    for bad in ([], [{**event, "name": "moon"}], [{**event, "name": "volume-extended"}], [{**event, "x": 1}]):
        assert (await cloud.post(url, json={"events": bad}, as_="service")).status_code == 400, bad
