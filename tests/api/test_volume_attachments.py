"""Attachments: those of servers, those that clients make, and who may end them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests import servers
from tests.cloud import TestCloud, until
from tests.volumes import (
    ATTACHMENTS,
    NEWEST,
    NOTHING,
    TYPES,
    VOLUMES,
    act,
    ask,
    gone,
    left,
    shows,
    things,
    volume,
)

pytestmark = pytest.mark.anyio

CONNECTOR = {"host": "elsewhere", "ip": "192.0.2.1", "initiator": "iqn.x", "platform": "x86_64"}
MODERN = {"version": NEWEST}


async def status(cloud: TestCloud, id: str) -> str:
    return str((await ask(cloud, "GET", f"{VOLUMES}/{id}", 200))["volume"]["status"])


async def attach(cloud: TestCloud, volume_id: str, expected: int = 200, **body: Any) -> dict[str, Any]:
    body = {"attachment": {"volume_uuid": volume_id, **body}}
    answer = await ask(cloud, "POST", ATTACHMENTS, expected, json=body, **MODERN)
    return dict(answer["attachment"]) if expected == 200 else dict(answer)


async def test_the_life_of_an_attachment(cloud: TestCloud, directory: Path) -> None:
    id = (await volume(cloud))["id"]
    server = cloud.chance.uuid()
    made = await attach(cloud, id, instance_uuid=server)
    path = f"{ATTACHMENTS}/{made['id']}"
    assert made["status"] == "reserved"
    assert made["connection_info"] == {}
    assert await status(cloud, id) == "reserved"
    assert things(directory)["export"] == []
    made = (await ask(cloud, "PUT", path, 200, json={"attachment": {"connector": CONNECTOR}}, **MODERN))[
        "attachment"
    ]
    assert made["status"] == "attaching"
    assert made["connection_info"]["driver_volume_type"] == "sim"
    assert made["connection_info"]["host"] == "elsewhere"
    assert await status(cloud, id) == "attaching"
    assert len(things(directory)["export"]) == 1
    await ask(cloud, "POST", f"{path}/action", 204, json={"os-complete": None}, **MODERN)
    shown = (await ask(cloud, "GET", f"{VOLUMES}/{id}", 200, as_="admin"))["volume"]
    assert shown["status"] == "in-use"
    (listed,) = shown["attachments"]
    assert listed["server_id"] == server
    assert listed["attachment_id"] == made["id"]
    assert listed["id"] == listed["volume_id"] == id
    assert listed["host_name"] == "elsewhere"
    await ask(cloud, "DELETE", f"{VOLUMES}/{id}", 400)
    assert await ask(cloud, "DELETE", path, 200, **MODERN) == {"attachments": []}
    assert await status(cloud, id) == "available"
    assert things(directory)["export"] == []
    await ask(cloud, "GET", path, 404, **MODERN)
    await ask(cloud, "DELETE", f"{VOLUMES}/{id}", 202)
    await gone(cloud, f"{VOLUMES}/{id}")
    assert things(directory) == NOTHING
    assert await left(cloud) == {}


async def test_an_attachment_with_a_connector_is_ready_at_once(cloud: TestCloud, directory: Path) -> None:
    id = (await volume(cloud))["id"]
    made = await attach(cloud, id, connector=CONNECTOR, mode="ro")
    assert made["attach_mode"] == "ro"
    assert made["connection_info"]["attachment_id"] == made["id"]
    assert len(things(directory)["export"]) == 1
    again = {"attachment": {"connector": {**CONNECTOR, "host": "third"}}}
    await ask(cloud, "PUT", f"{ATTACHMENTS}/{made['id']}", 409, json=again, **MODERN)
    for connector in ({}, {"ip": "192.0.2.1"}, {"host": 1}, {"host": "x", "more": "y" * 20000}):
        body = {"attachment": {"connector": connector}}
        await ask(
            cloud,
            "POST",
            ATTACHMENTS,
            400,
            json={"attachment": {"volume_uuid": "x", **body["attachment"]}},
            **MODERN,
        )
    await ask(cloud, "DELETE", f"{ATTACHMENTS}/{made['id']}", 200, **MODERN)
    assert things(directory)["export"] == []


async def test_a_volume_is_reserved_once_unless_it_is_multiattach(cloud: TestCloud) -> None:
    id = (await volume(cloud))["id"]
    first = await attach(cloud, id)
    refused = await attach(cloud, id, 400)
    assert first["id"] in refused["badRequest"]["message"]
    body = {"volume_type": {"name": "multi", "extra_specs": {"multiattach": "<is> True"}}}
    await ask(cloud, "POST", TYPES, 200, json=body, as_="admin")
    shared = await volume(cloud, volume_type="multi")
    assert shared["multiattach"] is True
    one = await attach(cloud, shared["id"], instance_uuid=cloud.chance.uuid())
    two = await attach(cloud, shared["id"], instance_uuid=cloud.chance.uuid(), connector=CONNECTOR)
    assert await status(cloud, shared["id"]) == "attaching"
    await ask(
        cloud,
        "PUT",
        f"{ATTACHMENTS}/{one['id']}",
        200,
        json={"attachment": {"connector": CONNECTOR}},
        **MODERN,
    )
    await ask(cloud, "POST", f"{ATTACHMENTS}/{two['id']}/action", 204, json={"os-complete": {}}, **MODERN)
    rest = await ask(cloud, "DELETE", f"{ATTACHMENTS}/{one['id']}", 200, **MODERN)
    assert [other["id"] for other in rest["attachments"]] == [two["id"]]
    assert await status(cloud, shared["id"]) == "in-use"


async def test_attachments_are_listed_by_their_project(cloud: TestCloud) -> None:
    one, two = (await volume(cloud))["id"], (await volume(cloud))["id"]
    server = cloud.chance.uuid()
    a = (await attach(cloud, one, instance_uuid=server))["id"]
    b = (await attach(cloud, two))["id"]
    expected = {
        "": [b, a],
        f"?volume_id={one}": [a],
        f"?instance_id={server}": [a],
        "?status=reserved&limit=1": [b],
        "?status=attached": [],
        "?sort=created_at:asc": [a, b],
    }
    for query, wanted in expected.items():
        for path in (ATTACHMENTS, f"{ATTACHMENTS}/detail"):
            body = await ask(cloud, "GET", f"{path}{query}", 200, **MODERN)
            assert [found["id"] for found in body["attachments"]] == wanted, query
    assert (await ask(cloud, "GET", ATTACHMENTS, 200, as_="other", **MODERN))["attachments"] == []
    body = await ask(cloud, "GET", f"{ATTACHMENTS}?all_tenants=1", 200, as_="admin", **MODERN)
    assert len(body["attachments"]) == 2
    for method in ("GET", "DELETE"):
        await ask(cloud, method, f"{ATTACHMENTS}/{a}", 404, as_="other", **MODERN)
    await ask(cloud, "GET", ATTACHMENTS, 404)
    await ask(cloud, "GET", ATTACHMENTS, 404, version="volume 3.26")
    await ask(
        cloud, "POST", ATTACHMENTS, 404, json={"attachment": {"volume_uuid": cloud.chance.uuid()}}, **MODERN
    )
    await ask(cloud, "POST", ATTACHMENTS, 400, json={"attachment": {"volume_uuid": "x"}}, **MODERN)


# --- servers of ours ---


async def booted(cloud: TestCloud, volume_id: str, status: str = "ACTIVE") -> str:
    """A server that boots from the volume."""
    await act(cloud, volume_id, 200, {"os-set_bootable": {"bootable": True}})
    device = {"uuid": volume_id, "source_type": "volume", "destination_type": "volume", "boot_index": 0}
    return await servers.boot(cloud, status=status, block_device_mapping_v2=[device])


async def test_what_a_server_uses_is_the_servers(cloud: TestCloud) -> None:
    """Bug 2004555: a volume that is taken away from a guest that runs leaves its device to the next one."""
    id = (await volume(cloud))["id"]
    server = await booted(cloud, id)
    shown = (await ask(cloud, "GET", f"{VOLUMES}/{id}", 200))["volume"]
    assert shown["status"] == "in-use"
    (attachment,) = shown["attachments"]
    assert attachment["server_id"] == server
    path = f"{ATTACHMENTS}/{attachment['attachment_id']}"
    found = (await ask(cloud, "GET", path, 200, **MODERN))["attachment"]
    assert found["status"] == "attached"
    assert found["connection_info"]["driver_volume_type"] == "sim"
    refused = await ask(cloud, "DELETE", path, 409, **MODERN)
    assert server in refused["conflictingRequest"]["message"]
    await ask(cloud, "DELETE", path, 409, as_="admin", **MODERN)
    await ask(cloud, "PUT", path, 409, json={"attachment": {"connector": CONNECTOR}}, **MODERN)
    await act(cloud, id, 409, {"os-detach": {}})
    await act(cloud, id, 409, {"os-detach": {"attachment_id": attachment["attachment_id"]}})
    await act(cloud, id, 409, {"os-terminate_connection": {"connector": None}})
    await act(cloud, id, 409, {"os-force_detach": {"attachment_id": None}}, as_="admin")
    await act(cloud, id, 409, {"os-reset_status": {"attach_status": "detached"}}, as_="admin")
    await ask(cloud, "DELETE", f"{VOLUMES}/{id}", 400)
    await ask(cloud, "DELETE", f"{VOLUMES}/{id}?force=True", 400, as_="admin", **MODERN)
    await servers.remove(cloud, server)
    assert await status(cloud, id) == "available"


async def test_an_attachment_that_only_names_a_server_is_not_the_servers(cloud: TestCloud) -> None:
    mine, other = (await volume(cloud))["id"], (await volume(cloud))["id"]
    server = await booted(cloud, mine)
    made = await attach(cloud, other, instance_uuid=server)
    await servers.remove(cloud, server)
    assert await status(cloud, mine) == "available"
    assert await status(cloud, other) == "reserved"
    await ask(cloud, "DELETE", f"{ATTACHMENTS}/{made['id']}", 200, **MODERN)


async def test_volumes_of_a_failed_build_can_be_taken_back(cloud: TestCloud) -> None:
    id = (await volume(cloud))["id"]
    await cloud.db.write(lambda tx: tx.run("update agents set disabled = true where kind = 'host'"))
    server = await booted(cloud, id, "ERROR")
    assert await status(cloud, id) == "reserved"
    (attachment,) = (await ask(cloud, "GET", ATTACHMENTS, 200, **MODERN))["attachments"]
    assert attachment["instance"] == server
    await ask(cloud, "DELETE", f"{ATTACHMENTS}/{attachment['id']}", 200, **MODERN)
    assert await status(cloud, id) == "available"
    await servers.remove(cloud, server)
    assert await status(cloud, id) == "available"


# --- the actions of the time before ---


async def test_a_volume_is_attached_and_detached_by_actions(cloud: TestCloud, directory: Path) -> None:
    id = (await volume(cloud))["id"]
    server = cloud.chance.uuid()
    await act(cloud, id, 202, {"os-reserve": {}})
    assert await status(cloud, id) == "attaching"
    await act(cloud, id, 400, {"os-reserve": {}})
    await act(cloud, id, 202, {"os-unreserve": {}})
    assert await status(cloud, id) == "available"
    await act(cloud, id, 202, {"os-unreserve": {}})
    await act(cloud, id, 202, {"os-reserve": {}})
    info = await act(cloud, id, 200, {"os-initialize_connection": {"connector": CONNECTOR}})
    assert info["connection_info"]["driver_volume_type"] == "sim"
    assert info["connection_info"]["data"]["host"] == "elsewhere"
    assert info == await act(cloud, id, 200, {"os-initialize_connection": {"connector": CONNECTOR}})
    assert len(things(directory)["export"]) == 1
    assert (await ask(cloud, "GET", ATTACHMENTS, 200, **MODERN))["attachments"] == []
    body = {"os-attach": {"instance_uuid": server, "mountpoint": "/dev/vdc", "host_name": "elsewhere"}}
    await act(cloud, id, 202, body)
    shown = (await ask(cloud, "GET", f"{VOLUMES}/{id}", 200))["volume"]
    assert shown["status"] == "in-use"
    (attachment,) = shown["attachments"]
    assert (attachment["server_id"], attachment["device"]) == (server, "/dev/vdc")
    await act(cloud, id, 400, body)
    await act(cloud, id, 202, {"os-begin_detaching": {}})
    assert await status(cloud, id) == "detaching"
    await act(cloud, id, 400, {"os-begin_detaching": {}})
    await act(cloud, id, 202, {"os-roll_detaching": {}})
    assert await status(cloud, id) == "in-use"
    await act(cloud, id, 202, {"os-begin_detaching": {}})
    await act(cloud, id, 202, {"os-terminate_connection": {"connector": CONNECTOR}})
    assert things(directory)["export"] == []
    await act(cloud, id, 400, {"os-detach": {"attachment_id": cloud.chance.uuid()}})
    await act(cloud, id, 202, {"os-detach": {"attachment_id": attachment["attachment_id"]}})
    assert await status(cloud, id) == "available"
    await ask(cloud, "DELETE", f"{VOLUMES}/{id}", 202)
    await gone(cloud, f"{VOLUMES}/{id}")
    assert await left(cloud) == {}


async def test_a_detach_ends_what_was_connected(cloud: TestCloud, directory: Path) -> None:
    id = (await volume(cloud))["id"]
    await act(cloud, id, 200, {"os-initialize_connection": {"connector": CONNECTOR}})
    await ask(cloud, "DELETE", f"{VOLUMES}/{id}", 400)
    await act(cloud, id, 202, {"os-attach": {"mountpoint": "/dev/vdc", "host_name": "elsewhere"}})
    await act(cloud, id, 202, {"os-detach": {}})

    async def none() -> bool:
        return things(directory)["export"] == []

    await until(none)


async def test_an_administrator_gets_a_volume_out_of_an_error(cloud: TestCloud) -> None:
    id = (await volume(cloud))["id"]
    await act(cloud, id, 202, {"os-attach": {"mountpoint": "/dev/vdc", "host_name": "x"}})
    await act(cloud, id, 202, {"os-reset_status": {"status": "error"}}, as_="admin")
    assert await status(cloud, id) == "error"
    await act(cloud, id, 403, {"os-force_detach": {}})
    await act(cloud, id, 202, {"os-force_detach": {"connector": None}}, as_="admin")
    await shows(cloud, f"{VOLUMES}/{id}", "available")


async def test_actions_that_make_no_sense_are_refused(cloud: TestCloud) -> None:
    id = (await volume(cloud))["id"]
    for action in (
        {"os-attach": {"mountpoint": "/dev/vdc"}},
        {"os-attach": {"mountpoint": "", "host_name": "x"}},
        {"os-attach": {"mountpoint": "/dev/vdc", "host_name": "x", "mode": "x"}},
        {"os-attach": {"mountpoint": "/dev/vdc", "instance_uuid": "x"}},
        {"os-initialize_connection": {"connector": "text"}},
        {"os-initialize_connection": {}},
        {"os-nonsense": {}},
        {"os-reserve": {}, "os-unreserve": {}},
        {},
    ):
        await act(cloud, id, 400, action)
    for action in (
        {"os-reserve": {}},
        {"os-detach": {}},
        {"os-attach": {"mountpoint": "x", "host_name": "x"}},
    ):
        await act(cloud, cloud.chance.uuid(), 404, action)
        await act(cloud, id, 403, action, as_="reader")
