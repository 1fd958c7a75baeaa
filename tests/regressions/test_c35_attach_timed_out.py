"""C35: an attach timed out for its caller, but happened. Kubernetes 24807."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cumulet.db.engine import Database
from tests.case import COMPUTE, H1, Case, stage

pytestmark = pytest.mark.anyio

#: Where the attach stands when its caller gives up on it.
STOPS = [
    f"{step} {moment}"
    for step in ("export.ensure", "connection.ensure", "guest.ensure")
    for moment in ("before", "after")
]
ENDS = ("server", "detach", "detach, then server")


async def with_volume(case: Case) -> tuple[str, str]:
    """A server that is active, and a volume that is available."""
    volume = await case.make_volume()
    await case.settle()
    case.remember()
    return await case.boot(networks=[{"uuid": case.network["id"]}]), volume


def path(server: str, volume: str = "") -> str:
    return f"{COMPUTE}/servers/{server}/os-volume_attachments" + (f"/{volume}" if volume else "")


async def attach(case: Case, server: str, volume: str, *codes: int) -> None:
    body = {"volumeAttachment": {"volumeId": volume}}
    await case.call("POST", path(server), *codes, json=body)


async def is_free(case: Case, server: str, volume: str) -> None:
    """The volume is nobody's, and no host has a trace of it."""
    await case.volume_is(volume, "available")
    assert (await case.volume(volume))["attachments"] == []
    assert await case.attachments(server) == []
    assert case.exports() == []
    assert [thing for thing in case.things(H1) if thing.startswith("connection/")] == []


async def ends(case: Case, server: str, volume: str) -> None:
    await case.gone(server)
    # At once, and still so after everybody has looked again.
    await is_free(case, server, volume)
    assert case.things(H1) == []
    await case.clean()
    await is_free(case, server, volume)


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("end", ENDS)
async def test_the_host_attaches_it_later(db: Database, directory: Path, stop: str, end: str) -> None:
    async with stage(db, directory, hosts=1) as case:
        server, volume = await with_volume(case)
        step, _, moment = stop.partition(" ")
        rule = await case.held(step, moment)
        await attach(case, server, volume)
        await case.struck(rule)
        if end != "server":
            await case.call("DELETE", path(server, volume), 202)
        if end != "detach":
            await case.call("DELETE", f"{COMPUTE}/servers/{server}", 204)
        await case.release(rule)
        if end == "detach":
            await is_free(case, server, volume)
            assert (await case.get(path(server)))["volumeAttachments"] == []
            await case.server_is(server, "ACTIVE")
            await case.call("DELETE", f"{COMPUTE}/servers/{server}", 204)
        await ends(case, server, volume)


async def attached(case: Case, server: str) -> bool:
    return bool((await case.get(path(server)))["volumeAttachments"])


@pytest.mark.parametrize("end", ["server", "detach"])
async def test_a_caller_who_hangs_up(db: Database, directory: Path, end: str) -> None:
    """Whether the attach was written down or not when its caller went: nothing of it is left."""
    async with stage(db, directory, hosts=1) as case:
        server, volume = await with_volume(case)
        outcomes = set()
        for steps in (0, 1, 2, 4, None):
            asking = asyncio.create_task(attach(case, server, volume))
            if steps is None:
                await case.until(lambda: attached(case, server), "the attachment to be written down")
            for _ in range(steps or 0):
                await asyncio.sleep(0)
            asking.cancel()
            await asyncio.wait([asking])
            there = await attached(case, server)
            outcomes.add(there)
            if end == "server":
                break
            if there:
                # The caller asks again, and is told that it is there already.
                await attach(case, server, volume, 400)
                await case.call("DELETE", path(server, volume), 202)
                await is_free(case, server, volume)
        if end == "detach":
            assert outcomes == {True, False}
        await case.call("DELETE", f"{COMPUTE}/servers/{server}", 204)
        await ends(case, server, volume)


@pytest.mark.parametrize("fault", ["fail", "lose", "crash"])
@pytest.mark.parametrize("step", ["export.ensure", "connection.ensure", "guest.ensure"])
async def test_an_attach_whose_outcome_the_host_does_not_know(
    db: Database, directory: Path, step: str, fault: str
) -> None:
    """Refused, done without an answer, or killed half-way; the server is deleted in the same moment."""
    async with stage(db, directory, hosts=1) as case:
        server, volume = await with_volume(case)
        rule = await case.fault(step, fault)
        await attach(case, server, volume)
        await case.struck(rule)
        await case.call("DELETE", f"{COMPUTE}/servers/{server}", 204)
        await ends(case, server, volume)
