"""C25: one bad port must not keep the others. Nova LP 1292243, 1974173."""

from __future__ import annotations

from pathlib import Path

import pytest

from cumulet.db.engine import Database
from tests.case import COMPUTE, NETWORK, Case, stage

pytestmark = pytest.mark.anyio


async def with_five_ports(case: Case) -> tuple[str, list[str], list[str]]:
    """A server with three ports of the user's and two of its own."""
    mine = [(await case.make_port())["id"] for _ in range(3)]
    await case.settle()
    case.remember()
    networks = [{"port": id} for id in mine] + [{"uuid": case.network[i]} for i in ("id", "id")]
    server = await case.boot(networks=networks)
    auto = [port["id"] for port in await case.ports_of(server) if port["id"] not in mine]
    return server, mine, auto


async def are_free(case: Case, *ports: str) -> None:
    for id in ports:
        port = await case.port(id)
        assert (port["device_id"], port["device_owner"], port["binding:host_id"]) == ("", "", "")


#: What fails, once or again and again; the network's own part of a port never keeps a server.
FAILING = {
    "tap once": ("tap.remove", 1),
    "tap again": ("tap.remove", None),
    "port once": ("lport.remove", 1),
    "port again": ("lport.remove", None),
}


@pytest.mark.parametrize("what", FAILING)
async def test_missing_ports_and_one_that_fails(db: Database, directory: Path, what: str) -> None:
    async with stage(db, directory, hosts=1) as case:
        server, (p1, p2, p3), (a1, a2) = await with_five_ports(case)
        for id in (p2, a1):
            await case.call("DELETE", f"{NETWORK}/ports/{id}", 204, as_="admin")
        step, count = FAILING[what]
        await case.fault(step, "fail", count, server=a2, message="the network says 500")
        await case.call("DELETE", f"{COMPUTE}/servers/{server}", 204)
        if step == "tap.remove" and count is None:
            # It is not gone while a port is still plugged in, and it says why.
            await case.server_is(server, "ERROR", task="deleting")
            shown = await case.server(server)
            assert "the network says 500" in shown["fault"]["message"]
            assert await case.ports_of(server) != []
            # A second delete is as good as one.
            await case.call("DELETE", f"{COMPUTE}/servers/{server}", 204)
            await case.release()
        await case.gone(server)
        # At once: the missing ones were no obstacle, and nobody has to call again for the one that failed.
        await case.call("GET", f"{NETWORK}/ports/{a2}", 404, as_="admin")
        await are_free(case, p1, p3)
        case.clean_at_once(p2)
        assert await case.ports_of(server) == []
        await case.release()
        await case.clean(p2)


async def test_a_port_that_is_deleted_while_the_server_is(db: Database, directory: Path) -> None:
    async with stage(db, directory, hosts=1) as case:
        server, (p1, p2, p3), (a1, _) = await with_five_ports(case)
        held = await case.held("guest.remove")
        await case.call("DELETE", f"{COMPUTE}/servers/{server}", 204)
        await case.struck(held)
        for id in (p2, a1):
            await case.call("DELETE", f"{NETWORK}/ports/{id}", 204)
        await case.release(held)
        await case.gone(server)
        await are_free(case, p1, p3)
        await case.clean(p2)


async def test_a_port_that_was_missing_before_the_host_knew(db: Database, directory: Path) -> None:
    """The port goes while the server is being built with it."""
    async with stage(db, directory, hosts=1) as case:
        port = (await case.make_port())["id"]
        await case.settle()
        case.remember()
        held = await case.held("tap.ensure")
        server = await case.create(networks=[{"port": port}, {"uuid": case.network["id"]}])
        await case.struck(held)
        for one in await case.ports_of(server):
            await case.call("DELETE", f"{NETWORK}/ports/{one['id']}", 204)
        await case.release(held)
        await case.server_is(server, "ACTIVE")
        assert await case.ports_of(server) == []
        await case.delete(server)
        await case.clean(port)
