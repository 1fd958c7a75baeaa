"""C57: the record is gone, but the resources are not. Omicron PR 4547."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cumulet.db.engine import Database
from tests.case import COMPUTE, H1, NETWORK, PLACEMENT, VOLUME, Case, stage

pytestmark = pytest.mark.anyio

#: Every step of a delete outside the database.
STEPS = [f"{kind}.remove" for kind in ("guest", "tap", "connection", "disk", "export", "volume", "lport")]
WHY = "it will not"


async def prepare(case: Case) -> tuple[str, str, str, str]:
    """A server with disks of its own, a port of the user's and one of its own, V and W: (server, port, V, W)."""
    port, kept = (await case.make_port())["id"], await case.make_volume()
    await case.settle()
    case.remember()
    doomed = await case.make_volume()
    server = await case.boot(
        config_drive=True,
        networks=[{"port": port}, {"uuid": case.network2["id"]}],
        block_device_mapping_v2=case.devices(kept, doomed=[doomed]),
    )
    return server, port, kept, doomed


async def is_there(case: Case, server: str) -> bool:
    return (await case.cloud.get(f"{COMPUTE}/servers/{server}")).status_code == 200


async def is_accounted_for(case: Case, server: str) -> bool:
    """Whether the server is there. If it is not, what is left is on the operator's list, and counts as what it is."""
    while True:
        before = await is_there(case, server)
        try:
            return await _accounted_for(case, server)
        except AssertionError:
            # What is read one after the other belongs together only if the server did not go in between.
            if await is_there(case, server) == before:
                raise


async def _accounted_for(case: Case, server: str) -> bool:
    owed = await case.owed()
    there = await is_there(case, server)
    listed = await case.servers()
    used = await case.usage()
    assert (server in listed) == there
    assert used["Instances"] == len(listed)
    left = await case.db.read(lambda tx: tx.values("select id from claims where opened_for = :id", id=server))
    assert there or owed or not (left or case.things(H1) or case.exports())
    if not there:
        assert await case.allocations(server) == {}
        assert await case.ports_of(server) == []
    # What counts is what can be listed: volumes, ports, allocations.
    volumes = await case.volumes()
    assert (await case.volume_usage())["volumes"] == len(volumes)
    ports = (await case.get(f"{NETWORK}/ports"))["ports"]
    mine = [one for one in ports if one["project_id"] == case.cloud.project("demo")]
    assert (await case.network_usage())["port"] == len(mine)
    usages = await case.get(
        f"{PLACEMENT}/usages?project_id={case.cloud.project('demo')}", as_="admin", version="placement 1.28"
    )
    assert usages["usages"].get("VCPU", 0) == len(await placed(case, listed))
    return there


async def placed(case: Case, servers: list[str]) -> list[str]:
    return [server for server in servers if await case.allocations(server)]


async def fails(case: Case, kind: str) -> bool:
    sql = "select 1 from claims where kind = :kind and not wanted and error is not null"
    return await case.db.read(lambda tx: tx.one(sql, kind=kind)) is not None


async def hangs(case: Case, step: str) -> None:
    """Wait until the delete gets no further."""
    await case.until(lambda: fails(case, step.removesuffix(".remove")), f"{step} to fail")
    await case.hangs()


async def gives_up(case: Case, server: str) -> None:
    """Patience ends with one after the other of the steps, until the server is gone."""

    async def gone() -> bool:
        await case.hangs()
        await case.patience_ends()
        return not await is_there(case, server)

    await case.until(gone, "the server to be gone")
    await case.hangs()


async def ends(case: Case, server: str, kept: str, doomed: str, port: str) -> None:
    await case.gone(server)
    await case.volume_gone(doomed)
    await case.volume_is(kept, "available")
    assert (await case.port(port))["device_id"] == ""
    await case.settle()
    assert await case.owed() == []
    await case.clean()


@pytest.mark.parametrize("step", STEPS)
async def test_it_gives_up_and_somebody_knows(db: Database, directory: Path, step: str) -> None:
    """The step fails for longer than the patience: the record may go, what is left is a debt."""
    async with stage(db, directory, hosts=1) as case:
        server, port, kept, doomed = await prepare(case)
        rule = await case.fault(step, "fail", None, message=WHY)
        await case.call("DELETE", f"{COMPUTE}/servers/{server}", 204)
        await hangs(case, step)
        if await is_accounted_for(case, server):
            # It can be deleted again, which changes nothing.
            await case.call("DELETE", f"{COMPUTE}/servers/{server}", 204)
        await gives_up(case, server)
        assert not await is_accounted_for(case, server)
        assert any(WHY in told(one) for one in await case.owed())
        # One with the same name does not get in the way, nor is it in anybody's.
        other = await case.boot(networks=[{"uuid": case.network["id"]}])
        await case.call("DELETE", f"{COMPUTE}/servers/{server}", 404)
        await case.hangs()
        assert not await is_accounted_for(case, server)
        await case.release(rule)
        await case.until(lambda: nothing_owed(case), "the debts to be paid")
        assert (await case.server(other))["status"] == "ACTIVE"
        assert len([name for name in case.things(H1) if name.startswith("guest/")]) == 1
        await case.delete(other)
        await ends(case, server, kept, doomed, port)


def told(owed: dict[str, Any]) -> str:
    return f"{owed.get('error')} {owed.get('reason')} {owed.get('left_reason')}"


async def nothing_owed(case: Case) -> bool:
    return await case.owed() == []


@pytest.mark.parametrize("step", STEPS)
async def test_deleted_again_before_it_gives_up(db: Database, directory: Path, step: str) -> None:
    async with stage(db, directory, hosts=1) as case:
        server, port, kept, doomed = await prepare(case)
        rule = await case.fault(step, "fail", None, message=WHY)
        await case.call("DELETE", f"{COMPUTE}/servers/{server}", 204)
        await hangs(case, step)
        await is_accounted_for(case, server)
        other = await case.create(name="s", networks=[{"uuid": case.network["id"]}])
        await case.release(rule)
        await case.call("DELETE", f"{COMPUTE}/servers/{server}", 204, 404)
        await case.gone(server)
        await case.server_is(other, "ACTIVE")
        await case.delete(other)
        await ends(case, server, kept, doomed, port)


async def test_every_step_fails_at_once(db: Database, directory: Path) -> None:
    """Nothing at all can be removed; then one after the other can, in any order."""
    async with stage(db, directory, hosts=1) as case:
        server, port, kept, doomed = await prepare(case)
        rules = {step: await case.fault(step, "fail", None, message=WHY) for step in STEPS}
        await case.call("DELETE", f"{COMPUTE}/servers/{server}", 204)
        await hangs(case, STEPS[0])
        assert await is_accounted_for(case, server)
        await gives_up(case, server)
        assert not await is_accounted_for(case, server)
        for step in reversed(STEPS):
            await case.release(rules[step])
            await case.hangs()
            assert not await is_accounted_for(case, server)
            assert step == STEPS[0] or await case.owed()
        await ends(case, server, kept, doomed, port)


async def test_it_gives_up_and_all_restarts(db: Database, directory: Path) -> None:
    async with stage(db, directory, hosts=1) as case:
        server, port, kept, doomed = await prepare(case)
        for step in STEPS:
            await case.fault(step, "fail", None, message=WHY)
        await case.call("DELETE", f"{COMPUTE}/servers/{server}", 204)
        await hangs(case, STEPS[0])
        await gives_up(case, server)
        owed = {one["id"] for one in await case.owed()}
        await case.restart()
        assert {one["id"] for one in await case.owed()} == owed
        assert not await is_accounted_for(case, server)
        await case.release()
        await ends(case, server, kept, doomed, port)
        path = f"{VOLUME}/volumes/{doomed}"
        await case.call("GET", path, 404, version="volume 3.70")
