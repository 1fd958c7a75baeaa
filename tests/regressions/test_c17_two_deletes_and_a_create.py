"""C17: two deletes and a create at the same time. Nova LP 1914777, 1940812."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from cumulet.db.engine import Database
from tests.case import COMPUTE, H1, Case, stage

pytestmark = pytest.mark.anyio

#: Where the create stands: stored, placed but not read by the host, and before or after every step on the host.
STOPS = ["schedule", "unread"] + [
    f"{kind}.ensure {moment}"
    for kind in ("disk", "tap", "export", "connection", "guest")
    for moment in ("before", "after")
]


def wanted(case: Case) -> dict[str, Any]:
    return {
        "networks": [{"port": case.own_port}, {"uuid": case.network["id"]}],  # type: ignore[attr-defined]
        "block_device_mapping_v2": [
            {"boot_index": 0, "uuid": case.image, "source_type": "image", "destination_type": "local"},
            {"uuid": case.own_volume, "source_type": "volume", "destination_type": "volume"},  # type: ignore[attr-defined]
        ],
    }


async def prepare(case: Case) -> None:
    case.own_port = (await case.make_port())["id"]  # type: ignore[attr-defined]
    case.own_volume = await case.make_volume()  # type: ignore[attr-defined]
    await case.settle()
    case.remember()


async def delete(case: Case, server: str) -> int:
    """A delete's answer; it may come late, but never in vain."""
    response = await case.cloud.delete(f"{COMPUTE}/servers/{server}")
    assert response.status_code in (204, 404), response.text
    return response.status_code


async def ends(case: Case, server: str) -> None:
    """It is gone, was deleted once, no guest of it runs, and nothing is left."""
    await case.gone(server)
    assert not [thing for thing in case.things(H1) if thing.startswith("guest/")]
    case.clean_at_once()
    deletes = [action for action in await case.actions(server) if action["action"] == "delete"]
    assert len(deletes) == 1
    await case.release()


@pytest.mark.parametrize("stop", STOPS)
async def test_wherever_the_create_stands(db: Database, directory: Path, stop: str) -> None:
    async with stage(db, directory, hosts=1) as case:
        await prepare(case)
        for order in ("deletes first", "together", "one before"):
            hold = Hold(case, stop)
            await hold.take()
            server = await case.create(**wanted(case))
            await hold.reached(server)
            if order == "deletes first":
                answers = await asyncio.gather(delete(case, server), delete(case, server))
                await hold.let_go()
            elif order == "together":
                *answers, _ = await asyncio.gather(delete(case, server), delete(case, server), hold.let_go())
            else:
                answers = [await delete(case, server)]
                await hold.let_go()
                answers.append(await delete(case, server))
            assert 204 in answers
            await ends(case, server)
        await case.clean()


class Hold:
    """Keeps the create where it is."""

    def __init__(self, case: Case, stop: str) -> None:
        self.case, self.stop = case, stop
        self.rule = ""

    async def take(self) -> None:
        if self.stop == "unread":
            await self.case.cloud.agents[H1].stop()
        else:
            step, _, moment = self.stop.partition(" ")
            self.rule = await self.case.held(step, moment or "before")

    async def reached(self, server: str) -> None:
        if self.stop == "schedule":
            await self.case.waits(server, "a fault rule holds the step schedule")
        elif self.stop == "unread":
            await self.case.until(lambda: self.case.host_of(server), "a host to be chosen")
        else:
            await self.case.struck(self.rule)

    async def let_go(self) -> None:
        if self.stop == "unread":
            self.case.cloud.agents[H1].start()
        else:
            await self.case.release(self.rule)


async def test_deletes_that_come_before_the_create_was_answered(db: Database, directory: Path) -> None:
    async with stage(db, directory, hosts=1) as case:
        await prepare(case)
        for turn in range(8):
            creating = asyncio.create_task(case.create(**wanted(case)))

            async def found() -> list[str]:
                return await case.db.read(lambda tx: tx.values("select id from servers"))

            (server,) = await case.until(found, "the server to be stored")
            for _ in range(turn * 3):
                await asyncio.sleep(0)
            answers = await asyncio.gather(delete(case, server), delete(case, server))
            assert 204 in answers
            assert await creating == server
            await ends(case, server)
        await case.clean()
