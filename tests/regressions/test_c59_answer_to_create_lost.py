"""C59: the answer to a create is lost, and the client repeats it. garm 79."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cumulet.chance import RealChance
from cumulet.db.engine import Database, PostgresDatabase
from tests.case import COMPUTE, NETWORK, Case, stage

pytestmark = pytest.mark.anyio

NAME = "n1"
#: What the request names, of which there is only one.
ONLY_ONE = ("port", "volume", "both")


async def prepare(case: Case, only: str) -> tuple[str, str, dict[str, Any]]:
    """Port P and volume V, and a request that names what ``only`` says of them."""
    port, volume = (await case.make_port())["id"], await case.make_volume()
    await case.settle()
    case.remember()
    request: dict[str, Any] = {"name": NAME, "networks": [{"uuid": case.network["id"]}]}
    if only in ("port", "both"):
        request["networks"] = [{"port": port}]
    if only in ("volume", "both"):
        request["block_device_mapping_v2"] = case.devices(volume)
    return port, volume, request


async def named(case: Case) -> list[str]:
    """The servers that a list by name finds; all of the project's have it."""
    found = (await case.get(f"{COMPUTE}/servers?name=^{NAME}$"))["servers"]
    ids = sorted(one["id"] for one in found)
    assert ids == await case.servers()
    return ids


async def all_are_deleted(case: Case, port: str, volume: str, usage: dict[str, int]) -> None:
    """The client deletes all that it finds."""
    for server in await named(case):
        await case.delete(server)
    assert await named(case) == []
    # No server is there that the project could not list.
    assert await case.servers(as_="admin") == []
    assert await case.db.read(lambda tx: tx.values("select id from servers")) == []
    assert (await case.port(port))["device_id"] == ""
    assert (await case.volume(volume))["status"] == "available"
    assert await case.usages() == usage
    case.clean_at_once()
    await case.clean()


async def send(case: Case, request: dict[str, Any]) -> None:
    """The request is carried out, and nobody hears the answer."""
    await case.ask(202, **request)


@pytest.mark.parametrize("at", ["once", "the end"])
@pytest.mark.parametrize("only", ONLY_ONE)
async def test_who_names_a_port_or_volume_is_told_who_has_it(
    db: Database, directory: Path, only: str, at: str
) -> None:
    async with stage(db, directory, hosts=2) as case:
        usage = await case.usages()
        port, volume, request = await prepare(case, only)
        usage |= await case.network_usage() | await case.volume_usage()
        await send(case, request)
        (server,) = await named(case)
        if at == "the end":
            await case.server_is(server, "ACTIVE")
        for _ in range(3):
            answer = await case.ask(400, 409, **request)
            assert server in answer.text
            assert port in answer.text or volume in answer.text
            assert await named(case) == [server]
        assert (await case.usage())["Instances"] == 1
        await all_are_deleted(case, port, volume, usage)
        # What was refused then is possible now.
        await case.delete(await case.create(**request))
        await case.clean()


async def test_without_them_there_are_two(db: Database, directory: Path) -> None:
    async with stage(db, directory, hosts=2) as case:
        usage = await case.usages()
        port, volume, request = await prepare(case, "")
        usage |= await case.network_usage() | await case.volume_usage()
        await send(case, request)
        await case.ask(202, **request)
        both = await named(case)
        assert len(both) == 2
        assert (await case.usage())["Instances"] == 2
        assert len(await case.ports_of(both[0])) == len(await case.ports_of(both[1])) == 1
        await all_are_deleted(case, port, volume, usage)


@pytest.mark.parametrize("only", ["", "both"])
async def test_a_client_that_hangs_up(db: Database, directory: Path, only: str) -> None:
    """It cannot know how far its request came; whatever it finds by name it can delete."""
    async with stage(db, directory, hosts=2) as case:
        usage = await case.usages()
        port, volume, request = await prepare(case, only)
        usage |= await case.network_usage() | await case.volume_usage()
        for steps in (0, 2, 100):
            asking = asyncio.create_task(case.ask(202, **request))
            for _ in range(steps):
                await asyncio.sleep(0)
            asking.cancel()
            await asyncio.wait([asking])
            before = await named(case)
            assert len(before) <= 1
            again = await case.ask(202, 400, 409, **request)
            assert (again.status_code != 202) == bool(only and before)
            after = await named(case)
            assert len(after) == (1 if only else len(before) + 1)
            await all_are_deleted(case, port, volume, usage)


async def test_all_at_once(db: Database, directory: Path) -> None:
    """The repeats come while the first one is still under way: one of them is it."""
    async with stage(db, directory, hosts=2) as case:
        usage = await case.usages()
        port, volume, request = await prepare(case, "both")
        usage |= await case.network_usage() | await case.volume_usage()
        answers = await asyncio.gather(*(case.ask(202, 400, 409, **request) for _ in range(4)))
        assert sorted(answer.status_code == 202 for answer in answers) == [False, False, False, True]
        (server,) = await named(case)
        assert all(server in answer.text for answer in answers)
        await all_are_deleted(case, port, volume, usage)


@pytest.mark.parametrize("at", ["once", "the end"])
async def test_the_answer_to_a_delete_is_lost(db: Database, directory: Path, at: str) -> None:
    async with stage(db, directory, hosts=2) as case:
        usage = await case.usages()
        port, volume, request = await prepare(case, "both")
        usage |= await case.network_usage() | await case.volume_usage()
        server = await case.create(**request)
        await case.server_is(server, "ACTIVE")
        # Carried out, and nobody hears the answer.
        await case.call("DELETE", f"{COMPUTE}/servers/{server}", 204)
        if at == "the end":
            await case.gone(server)
        for _ in range(3):
            await case.call("DELETE", f"{COMPUTE}/servers/{server}", 204, 404)
        await case.gone(server)
        await case.call("DELETE", f"{COMPUTE}/servers/{server}", 404)
        deletes = [action for action in await case.actions(server) if action["action"] == "delete"]
        assert len(deletes) == 1
        await all_are_deleted(case, port, volume, usage)


async def test_a_client_that_hangs_up_on_its_delete(db: Database, directory: Path) -> None:
    async with stage(db, directory, hosts=2) as case:
        usage = await case.usages()
        port, volume, request = await prepare(case, "both")
        usage |= await case.network_usage() | await case.volume_usage()
        for steps in (0, 2, 100):
            server = await case.boot(**request)
            asking = asyncio.create_task(case.call("DELETE", f"{COMPUTE}/servers/{server}", 204))
            for _ in range(steps):
                await asyncio.sleep(0)
            asking.cancel()
            await asyncio.wait([asking])
            await case.call("DELETE", f"{COMPUTE}/servers/{server}", 204, 404)
            await case.gone(server)
            await all_are_deleted(case, port, volume, usage)


@pytest.mark.parametrize("what", ["create", "delete"])
@pytest.mark.postgres
async def test_a_commit_whose_answer_is_lost(postgres_url: str, directory: Path, what: str) -> None:
    """The database carries it out, and its connection breaks: the client is told that nobody knows."""
    db = PostgresDatabase(postgres_url, RealChance(), connections=4)
    try:
        async with stage(db, directory, hosts=2) as case:
            usage = await case.usages()
            port, volume, request = await prepare(case, "both")
            usage |= await case.network_usage() | await case.volume_usage()
            if what == "create":
                with commit_is_lost(db, "select 1 from servers"):
                    answer = await case.ask(503, **request)
                assert "not known" in answer.text
                (server,) = await named(case)
                assert server in (await case.ask(400, 409, **request)).text
                assert await named(case) == [server]
            else:
                server = await case.create(**request)
                await case.server_is(server, "ACTIVE")
                with commit_is_lost(db, "select 1 from servers where desired = 'gone'"):
                    lost = await case.call("DELETE", f"{COMPUTE}/servers/{server}", 503)
                assert "not known" in lost.text
                await case.call("DELETE", f"{COMPUTE}/servers/{server}", 204, 404)
                await case.gone(server)
            await all_are_deleted(case, port, volume, usage)
    finally:
        db.close()


@contextlib.contextmanager
def commit_is_lost(db: PostgresDatabase, sql: str) -> Iterator[None]:
    """The first transaction at whose end ``sql`` finds something is committed, but its connection breaks then."""
    import psycopg

    commit = db._commit
    lost: list[str] = []

    class Breaking:
        def __init__(self, connection: Any) -> None:
            self.connection = connection

        def commit(self) -> None:
            found = not lost and self.connection.execute(sql).fetchone() is not None
            self.connection.commit()
            if found:
                lost.append(sql)
                raise psycopg.OperationalError("server closed the connection unexpectedly")

    db._commit = lambda connection: commit(Breaking(connection))  # type: ignore[method-assign]
    try:
        yield
    finally:
        del db._commit  # type: ignore[method-assign]
    assert lost


async def all_ports(case: Case) -> set[str]:
    return {one["id"] for one in (await case.get(f"{NETWORK}/ports", as_="admin"))["ports"]}


async def test_the_network_knows_one_port_of_each(db: Database, directory: Path) -> None:
    """No port is left by a request that was refused half-way: the second network is looked at before the port."""
    async with stage(db, directory, hosts=2) as case:
        usage = await case.usages()
        port, volume, request = await prepare(case, "port")
        usage |= await case.network_usage() | await case.volume_usage()
        request["networks"] = [{"uuid": case.network2["id"]}, {"port": port}]
        await send(case, request)
        ports = await all_ports(case)
        await case.ask(400, 409, **request)
        assert await all_ports(case) == ports
        await all_are_deleted(case, port, volume, usage)
