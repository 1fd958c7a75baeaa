"""C21: the user's port must come back whole, and only the user's. Nova LP 1158684, 1321381, 1433524, 1524643."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cumulet.db.engine import Database
from tests.case import COMPUTE, NETWORK, Case, stage

pytestmark = pytest.mark.anyio

#: What counts the changes of a port.
MOVED = {"updated_at": "", "revision_number": 0}


async def own_port(case: Case, number: int) -> dict[str, Any]:
    """A port of which the user chose everything; as the administrator sees it."""
    made = await case.make_port(
        name=f"mine {number}",
        mac_address=f"02:00:00:00:00:0{number}",
        fixed_ips=[{"ip_address": f"192.168.1.10{number}"}],
        security_groups=[await case.make_group(f"g{number}")],
    )
    path = f"{NETWORK}/ports/{made['id']}"
    await case.call("PUT", f"{path}/tags", json={"tags": ["blue", "green"]})
    body = {"port": {"binding:profile": {"user_key": "x"}}}
    await case.call("PUT", path, as_="service", json=body)
    return await case.port(made["id"])


async def compute_writes(case: Case, port: str) -> None:
    """What a compute service writes into the profile of a port that it plugs in."""
    profile = {
        "user_key": "x",
        "pci_slot": "0000:01:00.0",
        "physical_network": "p",
        "card_serial_number": "1",
    }
    body = {"port": {"binding:profile": profile}}
    await case.call("PUT", f"{NETWORK}/ports/{port}", as_="service", json=body)


async def is_back(case: Case, before: dict[str, Any]) -> None:
    """The port is as the user made it, and nobody's."""
    now = await case.port(before["id"])
    assert (now["device_id"], now["device_owner"], now["binding:host_id"]) == ("", "", "")
    assert (now["status"], now["dns_name"]) == ("DOWN", "")
    assert now["binding:profile"] == {"user_key": "x"}
    assert {**now, **MOVED} == {**before, **MOVED}


async def is_free(case: Case, port: dict[str, Any]) -> None:
    """The port is gone, and its address can be had again."""
    await case.call("GET", f"{NETWORK}/ports/{port['id']}", 404, as_="admin")
    (fixed,) = port["fixed_ips"]
    again = await case.make_port(port["network_id"], fixed_ips=[{"ip_address": fixed["ip_address"]}])
    await case.call("DELETE", f"{NETWORK}/ports/{again['id']}", 204)


async def plug(case: Case, server: str, **what: str) -> str:
    """Attach an interface, and wait until it is there; its port."""
    path = f"{COMPUTE}/servers/{server}/os-interface"
    made = await case.call("POST", path, 200, json={"interfaceAttachment": what})
    port = str(made.json()["interfaceAttachment"]["port_id"])

    async def there() -> bool:
        return bool((await case.port(port))["status"] == "ACTIVE")

    await case.until(there, f"port {port} to be plugged in")
    return port


async def unplug(case: Case, server: str, port: str) -> None:
    path = f"{COMPUTE}/servers/{server}/os-interface/{port}"
    await case.call("DELETE", path, 202)

    async def gone() -> bool:
        return (await case.cloud.get(path)).status_code == 404

    await case.until(gone, f"port {port} to be unplugged")


async def full(case: Case, mine: list[dict[str, Any]]) -> tuple[str, list[dict[str, Any]]]:
    """A server with both ports of the user's, and two of its own; and these."""
    server = await case.boot(networks=[{"port": mine[0]["id"]}, {"uuid": case.network2["id"]}])
    await plug(case, server, net_id=case.network["id"])
    await plug(case, server, port_id=mine[1]["id"])
    await case.server_is(server, "ACTIVE")
    ports = await case.ports_of(server)
    assert len(ports) == 4
    assert {port["dns_name"] for port in ports} == {"s"}
    for port in mine:
        await compute_writes(case, port["id"])
    ids = {port["id"] for port in mine}
    return server, [port for port in ports if port["id"] not in ids]


@pytest.mark.parametrize("state", ["ACTIVE", "ERROR"])
async def test_delete_gives_back_what_was_brought(db: Database, directory: Path, state: str) -> None:
    async with stage(db, directory, hosts=2) as case:
        mine = [await own_port(case, 1), await own_port(case, 2)]
        await case.settle()
        case.remember()
        usage = await case.network_usage()
        server, auto = await full(case, mine)
        assert (await case.network_usage())["port"] == usage["port"] + 2
        if state == "ERROR":
            await case.act(server, "os-resetState", {"state": "error"}, as_="admin")
            await case.server_is(server, "ERROR")
        host = await case.host_of(server)
        assert host is not None
        await case.delete(server)
        case.clean_at_once()
        for port in mine:
            await is_back(case, port)
        assert await case.network_usage() == usage
        for port in auto:
            await is_free(case, port)
        # They can go to another host with another server.
        await case.enable(host, False)
        second = await case.boot(name="t", networks=[{"port": port["id"]} for port in mine])
        assert await case.host_of(second) not in (None, host)
        await case.delete(second)
        for port in mine:
            await is_back(case, port)
        await case.enable(host, True)
        await case.clean()


async def test_detaching_gives_back_what_was_brought(db: Database, directory: Path) -> None:
    async with stage(db, directory, hosts=2) as case:
        mine = [await own_port(case, 1), await own_port(case, 2)]
        await case.settle()
        case.remember()
        usage = await case.network_usage()
        server, auto = await full(case, mine)
        for port in mine:
            await unplug(case, server, port["id"])
            await is_back(case, port)
        for port in auto:
            await unplug(case, server, port["id"])
            await is_free(case, port)
        assert await case.ports_of(server) == []
        assert await case.network_usage() == usage
        await case.server_is(server, "ACTIVE")
        host = await case.host_of(server)
        assert [thing for thing in case.things(str(host)) if thing.startswith("tap/")] == []
        second = await case.boot(name="t", networks=[{"port": port["id"]} for port in mine])
        await case.delete(server)
        await case.delete(second)
        for port in mine:
            await is_back(case, port)
        await case.clean()


async def test_a_name_that_the_user_gave_a_port_stays(db: Database, directory: Path) -> None:
    async with stage(db, directory, hosts=1) as case:
        named = await case.make_port(dns_name="web")
        await case.settle()
        case.remember()
        # It would lead to another server than its name says: refused, as in Nova.
        refused = await case.refused(400, networks=[{"port": named["id"]}])
        assert "does not match instance's hostname s" in refused
        case.clean_now()
        server = await case.boot(name="web", networks=[{"port": named["id"]}])
        await case.delete(server)
        assert (await case.port(named["id"]))["dns_name"] == "web"
        await case.clean()
