"""C50: the quota of servers that never ran. Nova LP 1670627, 1678326."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cumulet.db.engine import Database
from tests.case import COMPUTE, H1, Case, stage

pytestmark = pytest.mark.anyio

LIMIT = 5
ROUNDS = 10


async def without_a_host(case: Case) -> None:
    await case.limit("instances", LIMIT)
    await case.enable(H1, False)
    case.remember()


async def counts(case: Case) -> int:
    """Servers that the quota counts: as many as are listed."""
    used = await case.usage()
    servers = await case.servers()
    assert used["Instances"] == used["Cores"] == len(servers)
    return int(used["Instances"])


async def test_ten_rounds(db: Database, directory: Path) -> None:
    async with stage(db, directory, hosts=1) as case:
        await without_a_host(case)
        for turn in range(ROUNDS):
            made = [await case.create(networks=[{"uuid": case.network["id"]}]) for _ in range(LIMIT)]
            await case.refused(403)
            for server in made:
                await case.server_is(server, "ERROR")
            assert await counts(case) == LIMIT
            if turn % 2:
                # All at once: what is counted goes down by what goes, whoever is first.
                await asyncio.gather(*(case.delete(server) for server in made))
                assert await counts(case) == 0
                continue
            for left, server in reversed(list(enumerate(made))):
                await case.delete(server)
                assert await counts(case) == left
        case.clean_at_once()
        await case.clean()


async def test_one_that_is_deleted_twice_counts_once(db: Database, directory: Path) -> None:
    async with stage(db, directory, hosts=1) as case:
        await without_a_host(case)
        kept = await case.boot("ERROR")
        gone = await case.boot("ERROR")
        await asyncio.gather(*(case.delete(gone, 204, 404) for _ in range(4)))
        assert await counts(case) == 1
        await case.call("DELETE", f"{COMPUTE}/servers/{gone}", 404)
        assert await counts(case) == 1
        await case.delete(kept)
        assert await counts(case) == 0
        await case.clean()


async def test_a_removal_that_fails_in_the_middle(db: Database, directory: Path) -> None:
    """The database fails in the transaction that removes the server: all of it is still there, and counted."""
    async with stage(db, directory, hosts=1) as case:
        volume = await case.make_volume()
        await without_a_host(case)
        server = await case.boot(
            "ERROR", networks=[{"uuid": case.network["id"]}], block_device_mapping_v2=case.devices(volume)
        )
        attachments = await case.attachments(server)
        for _ in range(3):
            with case.breaking("select 1 from servers where id = :id", id=server) as broken:
                await case.call("DELETE", f"{COMPUTE}/servers/{server}", 503)
            assert broken
            # Neither half deleted nor half free: it is there with what it has, and it counts.
            assert await counts(case) == 1
            assert (await case.server(server))["status"] == "ERROR"
            assert await case.attachments(server) == attachments
            assert (await case.volume(volume))["status"] == "reserved"
        await case.delete(server)
        assert await counts(case) == 0
        case.clean_at_once()
        await case.clean()


async def test_a_removal_that_fails_when_the_host_reports(db: Database, directory: Path) -> None:
    """The same for a server that ran: the last report fails, is sent again, and it counts until then."""
    async with stage(db, directory, hosts=1) as case:
        volume = await case.make_volume()
        await case.settle()
        case.remember()
        server = await case.boot(
            networks=[{"uuid": case.network["id"]}], block_device_mapping_v2=case.devices(volume)
        )
        sql = "select count(*) from servers where project_id = :project"
        with (
            case.watching(sql, project=case.cloud.project("demo")) as counted,
            case.breaking("select 1 from servers where id = :id", id=server) as broken,
        ):
            await case.call("DELETE", f"{COMPUTE}/servers/{server}", 204)
            await case.until(lambda: is_true(broken), "the removal to fail")
            await case.gone(server)
        assert counted == [1, 0]
        assert await counts(case) == 0
        case.clean_at_once()
        await case.clean()


async def is_true(found: list[str]) -> bool:
    return bool(found)
