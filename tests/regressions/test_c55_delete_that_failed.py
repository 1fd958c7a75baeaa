"""C55: a delete that failed can be repeated. Nova LP 1329559, 1254122."""

from __future__ import annotations

from pathlib import Path

import pytest

from cumulet.db.engine import Database
from tests.case import COMPUTE, H1, NETWORK, Case, stage

pytestmark = pytest.mark.anyio

WHY = "the monitor does not answer"


async def prepare(case: Case) -> tuple[str, str, list[str]]:
    """A server with a user's port and one of its own: its id, the user's port, and their addresses."""
    port = await case.make_port()
    await case.settle()
    case.remember()
    server = await case.boot(networks=[{"port": port["id"]}, {"uuid": case.network["id"]}])
    addresses = [fixed["ip_address"] for one in await case.ports_of(server) for fixed in one["fixed_ips"]]
    assert len(addresses) == 2
    return server, port["id"], addresses


async def is_not_healthy(case: Case, server: str) -> None:
    """It is there, says why it does not go, and counts; what its guest may still use is nobody else's."""
    shown = await case.server(server, as_="demo")
    assert shown["status"] == "ERROR"
    assert WHY in shown["fault"]["message"]
    assert server in await case.servers()
    assert (await case.usage())["Instances"] == 1
    assert await case.allocations(server) != {}


async def addresses_are_kept(case: Case, addresses: list[str]) -> None:
    for address in addresses:
        body = {"network_id": case.network["id"], "fixed_ips": [{"ip_address": address}]}
        await case.call("POST", f"{NETWORK}/ports", 409, json={"port": body})
    other = await case.make_port()
    assert other["fixed_ips"][0]["ip_address"] not in addresses
    await case.call("DELETE", f"{NETWORK}/ports/{other['id']}", 204)


async def ends(case: Case, server: str, port: str) -> None:
    await case.gone(server)
    assert (await case.usage())["Instances"] == 0
    assert (await case.port(port))["device_id"] == ""
    assert case.things(H1) == []
    case.clean_at_once(*[rule["id"] for rule in await case.rules()])
    await case.release()
    await case.clean()


@pytest.mark.parametrize("step", ["guest.remove", "tap.remove", "disk.remove"])
async def test_a_second_delete_works(db: Database, directory: Path, step: str) -> None:
    async with stage(db, directory, hosts=1) as case:
        server, port, addresses = await prepare(case)
        rule = await case.fault(step, "fail", None, message=WHY)
        await case.call("DELETE", f"{COMPUTE}/servers/{server}", 204)
        await case.until(lambda: shows_an_error(case, server), "the failure to be seen")
        await is_not_healthy(case, server)
        if step != "disk.remove":
            await addresses_are_kept(case, addresses)
        # Nothing is ever "already running": each delete is taken, and none does harm.
        for _ in range(3):
            await case.call("DELETE", f"{COMPUTE}/servers/{server}", 204)
        await case.act(server, "forceDelete")
        await is_not_healthy(case, server)
        deletes = [action for action in await case.actions(server) if action["action"] == "delete"]
        assert len(deletes) == 1
        await case.release(rule)
        await case.call("DELETE", f"{COMPUTE}/servers/{server}", 204, 404)
        await ends(case, server, port)


async def shows_an_error(case: Case, server: str) -> bool:
    return bool((await case.server(server))["status"] == "ERROR")


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("effect", ["fail", "lose", "crash"])
async def test_it_ends_by_itself_after_failures(
    db: Database, directory: Path, effect: str, times: int
) -> None:
    async with stage(db, directory, hosts=1) as case:
        server, port, _ = await prepare(case)
        await case.fault("guest.remove", effect, times, message=WHY)
        with case.watching("select vm_state from servers where id = :id", id=server) as states:
            await case.call("DELETE", f"{COMPUTE}/servers/{server}", 204)
            await case.gone(server)
        # It was never shown as well again once it had failed.
        assert states in (["active"], ["active", "error"])
        assert effect != "fail" or states == ["active", "error"]
        await ends(case, server, port)


async def test_a_server_that_was_in_error_before(db: Database, directory: Path) -> None:
    async with stage(db, directory, hosts=1) as case:
        server, port, addresses = await prepare(case)
        await case.act(server, "os-resetState", {"state": "error"}, as_="admin")
        rule = await case.fault("guest.remove", "fail", None, message=WHY)
        await case.call("DELETE", f"{COMPUTE}/servers/{server}", 204)
        await case.until(lambda: tells_why(case, server), "the fault to be told")
        await is_not_healthy(case, server)
        await addresses_are_kept(case, addresses)
        # An administrator may show it as it is; it goes all the same.
        await case.act(server, "os-resetState", {"state": "active"}, 404, as_="admin")
        await case.release(rule)
        await case.call("DELETE", f"{COMPUTE}/servers/{server}", 204, 404)
        await ends(case, server, port)


async def tells_why(case: Case, server: str) -> bool:
    return WHY in (await case.server(server)).get("fault", {}).get("message", "")
