"""C44: a rollback brings the allocation back that the delete had removed. Nova LP 1848343."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from cumulet.db.engine import Database
from tests.case import COMPUTE, H2, Case, stage
from tests.moves import Mover

pytestmark = pytest.mark.anyio

MOVES: dict[str, Callable[[Mover], Awaitable[None]]] = {
    "migrate": Mover.migrate, "resize": Mover.resize, "live": Mover.migrate_live,
}  # fmt: skip
HELD = "a fault rule holds the step schedule"


async def recorded(case: Case, server: str) -> list[dict[str, Any]]:
    """What is on record of a deleted server."""
    sql = "select server from deleted_servers where id = :id"
    return await case.db.read(lambda tx: tx.values(sql, id=server))


@asynccontextmanager
async def nothing_comes_back(mover: Mover) -> AsyncIterator[None]:
    """While the block runs nobody allocates anything for the server or its moves, and its record does not change."""
    case = mover.case
    ids = tuple(await mover.consumers())
    record = await recorded(case, mover.server)
    assert len(record) == 1
    with (
        case.watching("select id from consumers where id in :ids", ids=ids) as consumers,
        case.watching("select id from servers where id = :id", id=mover.server) as servers,
    ):
        yield
        await case.settle()
        await case.enable(H2, True)
        await case.settle()
    assert (consumers, servers) == ([], [])
    assert await recorded(case, mover.server) == record
    await mover.ends()


@pytest.mark.parametrize("room", [True, False], ids=["a host", "no host"])
@pytest.mark.parametrize("move", MOVES)
async def test_the_scheduler_answers_when_it_is_gone(
    db: Database, directory: Path, move: str, room: bool
) -> None:
    async with stage(db, directory, hosts=2) as case:
        mover = await Mover.prepare(case)
        await mover.boot()
        await case.held("schedule")
        await MOVES[move](mover)
        await case.waits(mover.server, HELD)
        await case.delete(mover.server)
        await mover.is_free()
        async with nothing_comes_back(mover):
            await case.enable(H2, room)
            await case.release()


@pytest.mark.parametrize("move", MOVES)
async def test_no_host_is_found_and_it_is_deleted_then(db: Database, directory: Path, move: str) -> None:
    """The rollback comes first: the allocation is the server's again, and goes with it."""
    async with stage(db, directory, hosts=2) as case:
        mover = await Mover.prepare(case)
        await mover.boot()
        (before,) = await case.allocated(mover.server)
        await case.enable(H2, False)
        await MOVES[move](mover)
        await case.until(lambda: ended(mover), "the move to end")
        assert await case.allocated(mover.server) == [before]
        (moved,) = await mover.moves()
        assert moved["status"] == "error"
        assert await case.allocations(moved["uuid"]) == {}
        await case.delete(mover.server)
        async with nothing_comes_back(mover):
            pass


async def ended(mover: Mover) -> bool:
    return (await mover.case.server(mover.server))["OS-EXT-STS:task_state"] is None


@pytest.mark.parametrize("order", ["delete first", "answer first"])
@pytest.mark.parametrize("room", [True, False], ids=["a host", "no host"])
@pytest.mark.parametrize("move", MOVES)
async def test_both_at_the_same_time(
    db: Database, directory: Path, move: str, room: bool, order: str
) -> None:
    """The scheduler's answer and the delete are two transactions: whichever comes first, the other sees it."""
    async with stage(db, directory, hosts=2) as case:
        mover = await Mover.prepare(case)
        await mover.boot()
        await case.held("schedule")
        await MOVES[move](mover)
        await case.waits(mover.server, HELD)
        await case.enable(H2, room)
        both = [case.call("DELETE", f"{COMPUTE}/servers/{mover.server}", 204), case.release()]
        await asyncio.gather(*(both if order == "delete first" else reversed(both)))
        await case.gone(mover.server)
        async with nothing_comes_back(mover):
            pass


@pytest.mark.parametrize("away", [True, False], ids=["forced down", "slow"])
@pytest.mark.parametrize("move", MOVES)
async def test_the_destination_finds_it_gone(db: Database, directory: Path, move: str, away: bool) -> None:
    """The scheduler has chosen a host, which hears of the server only when it is not wanted any more."""
    async with stage(db, directory, hosts=2) as case:
        mover = await Mover.prepare(case)
        await mover.boot()
        await case.cloud.agents[H2].stop()
        await MOVES[move](mover)
        await case.until(lambda: has_claims_on(case, H2), "something to be wanted of the destination")
        await case.call("DELETE", f"{COMPUTE}/servers/{mover.server}", 204)
        if away:
            await case.force_down(H2, True)
            await case.gone(mover.server)
            await mover.is_free()
        case.start(H2)
        await case.force_down(H2, False)
        await case.gone(mover.server)
        async with nothing_comes_back(mover):
            pass


async def has_claims_on(case: Case, host: str) -> bool:
    sql = "select 1 from claims c join agents a on a.id = c.agent where a.name = :host"
    return await case.db.read(lambda tx: tx.one(sql, host=host) is not None)
