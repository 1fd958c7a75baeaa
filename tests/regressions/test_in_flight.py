"""The cases again, with each operation in flight.

A server is deleted while one of the operations that it can go through is held at one of its steps, and what the case
tells of happens then: a host goes down, the volume service is away, the network refuses, every service restarts. In the
first moment of the 404 everything that was its own is free, and in the end nothing is left.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest

from cumulet.config import Config, Hosts, Reconcile
from cumulet.db.engine import SqliteDatabase
from cumulet.db.migrate import prepare
from tests.case import COMPUTE, H1, Case
from tests.cleanup.operations import OPERATIONS, Stand
from tests.cleanup.steps import Step, finish, met, ready, undisturbed
from tests.cloud import CHEAP, test_cloud
from tests.virtual import LoopChance, VirtualLoop

T = TypeVar("T")
WHY = "the monitor does not answer"
#: The steps of each operation; found out once.
STEPS: dict[str, list[Step]] = {}


@dataclass
class Flight:
    """An operation that is held at a step."""

    stand: Stand
    server: str
    rule: str
    #: What the user's port was like before it was the server's.
    port: dict[str, Any]
    usage: dict[str, int]
    #: False where the case itself keeps the volumes back, or the server.
    at_once: bool = True
    #: Names of agents that were ended.
    ended: list[str] = field(default_factory=list)

    @property
    def case(self) -> Case:
        return self.stand.case

    async def delete(self, *codes: int) -> None:
        await self.case.call("DELETE", f"{COMPUTE}/servers/{self.server}", *(codes or (204, 404)))

    async def goes_on(self) -> None:
        """Who was held goes on."""
        with contextlib.suppress(AssertionError):
            await self.case.release(self.rule)

    async def deletes(self) -> int:
        """How often it was deleted, as its history tells."""
        return [one["action"] for one in await self.case.actions(self.server)].count("delete")

    async def there(self) -> bool:
        return (await self.case.cloud.get(f"{COMPUTE}/servers/{self.server}", as_="admin")).status_code == 200

    async def is_free(self) -> None:
        """Nothing that the server had is in use, nothing is counted, and its port is as its user made it."""
        case = self.case
        assert not await self.there()
        consumers = await case.db.read(
            lambda tx: tx.values(
                "select id from consumers where id = :id or id in (select id from migrations where server_id = :id)",
                id=self.server,
            )
        )
        assert consumers == []
        assert {**await case.usage(), **await case.network_usage()} == self.usage
        assert told(await case.port(self.stand.port)) == self.port
        for volume in (self.stand.volume, self.stand.other_volume):
            shown = await case.volume(volume)
            assert (shown["status"], shown["attachments"]) == ("available", [])


def told(port: dict[str, Any]) -> dict[str, Any]:
    """What a user sees of a port, but for when it changed."""
    return {name: value for name, value in port.items() if name not in ("updated_at", "revision_number")}


# --- the cases ---


async def nothing_else(flight: Flight) -> None:
    """C21, C50: the delete alone."""
    await flight.delete()
    await flight.goes_on()


async def several_deletes(flight: Flight) -> None:
    """C17: each is taken or finds nothing, and there was one delete."""
    before = await flight.deletes()
    await asyncio.gather(*(flight.delete() for _ in range(3)))
    await flight.goes_on()
    await flight.delete()
    await flight.case.gone(flight.server)
    assert await flight.deletes() - before <= 1


async def network_refuses(flight: Flight) -> None:
    """C25: a port that cannot be unplugged at first keeps no other."""
    for step in ("tap.remove", "lport.remove"):
        await flight.case.fault(step, "fail", 1)
    await flight.delete()
    await flight.goes_on()


async def used_again_at_once(flight: Flight) -> None:
    """C26: in the first moment of the 404 the port and the volume are another server's."""
    await flight.delete()
    await flight.goes_on()
    case = flight.case
    await case.gone(flight.server)
    other = await case.create(
        name="other",
        networks=[{"port": flight.stand.port}],
        block_device_mapping_v2=case.devices(flight.stand.volume),
    )
    await case.release()
    await case.server_is(other, "ACTIVE")
    await case.delete(other)


async def volume_service_away(flight: Flight) -> None:
    """C27: the delete is not blocked; what it owes is known, and is done when the service is back."""
    case = flight.case
    await case.silent("sim")
    flight.at_once = False
    await flight.delete()
    await flight.goes_on()
    await case.gone(flight.server)
    assert {**await case.usage(), **await case.network_usage()} == flight.usage
    assert told(await case.port(flight.stand.port)) == flight.port
    statuses = [(await case.volume(id))["status"] for id in (flight.stand.volume, flight.stand.other_volume)]
    if statuses != ["available", "available"]:
        assert await case.owed() != []
    await case.release()
    case.start("sim")
    await case.settle()
    await flight.is_free()


async def host_down(flight: Flight) -> None:
    """C31: nobody waits for the host; it removes what it owes when it returns."""
    case = flight.case
    sql = "select a.name from servers s join agents a on a.id = s.host where s.id = :id"
    host = await case.db.read(lambda tx: tx.value(sql, id=flight.server)) or H1
    await case.down(host)
    flight.ended.append(host)
    await flight.delete()
    await flight.goes_on()
    await case.gone(flight.server)
    await flight.is_free()
    await case.up(host)
    flight.ended.remove(host)


async def auditors(flight: Flight) -> None:
    """C52: whoever looks takes nothing, and takes nothing that is being done for damage."""
    await audited(flight)
    await flight.delete()
    await audited(flight)
    await flight.goes_on()


async def audited(flight: Flight) -> None:
    found = (await flight.case.call("POST", "/cumulet/v1/audit", 200, as_="admin")).json()["findings"]
    # An evacuated server's host is down, and owes.
    damage = [one for one in found if one["kind"] not in ("silent", "debt")]
    assert damage == []


async def restart_before(flight: Flight) -> None:
    """C54: every service begins anew, and then comes the delete."""
    await flight.case.restart()
    await flight.delete()
    await flight.goes_on()


async def restart_after(flight: Flight) -> None:
    """C54: the delete goes on by itself after a restart."""
    await flight.delete()
    await flight.case.restart()
    await flight.goes_on()


async def delete_that_fails(flight: Flight) -> None:
    """C55: it shows that it is not healthy, and the delete can be repeated."""
    case = flight.case
    for step in ("guest.remove", "disk.remove"):
        await case.fault(step, "fail", None, message=WHY)
    await flight.delete()
    await flight.goes_on()
    await case.hangs()
    if await flight.there():
        assert (await case.server(flight.server))["status"] in ("ERROR", "DELETED")
        assert (await case.usage())["Instances"] == flight.usage["Instances"] + 1
        await flight.delete(204)
    await case.release()


async def nothing_can_be_removed(flight: Flight) -> None:
    """C57: until it can, the server is there, or what is left of it is known."""
    case = flight.case
    await case.fault("*.remove", "fail", None, message=WHY)
    flight.at_once = False
    await flight.delete()
    await flight.goes_on()
    await case.hangs()
    for _ in range(2):
        if not await flight.there():
            assert await case.owed() != []
        await case.patience_ends()
        await case.hangs()
    await case.release()
    await case.gone(flight.server)
    await case.settle()
    await flight.is_free()


async def answer_lost(flight: Flight) -> None:
    """C59: the client heard nothing, and deletes all that it finds by that name."""
    await flight.delete()
    await flight.goes_on()
    for id in await flight.case.servers():
        await flight.case.call("DELETE", f"{COMPUTE}/servers/{id}", 204, 404)


CASES: dict[str, Callable[[Flight], Awaitable[None]]] = {
    "C21 the port comes back whole": nothing_else,
    "C17 several deletes": several_deletes,
    "C25 the network refuses": network_refuses,
    "C26 used again at once": used_again_at_once,
    "C27 the volume service is away": volume_service_away,
    "C31 the host is down": host_down,
    "C52 auditors": auditors,
    "C54 a restart, then the delete": restart_before,
    "C54 the delete, then a restart": restart_after,
    "C55 a delete that fails": delete_that_fails,
    "C57 nothing can be removed": nothing_can_be_removed,
    "C59 the answer is lost": answer_lost,
}


# --- the runs ---


class Cloud:
    """A cloud on a virtual clock, whose services a case can restart."""

    def __init__(self, directory: Path) -> None:
        self.loop = VirtualLoop()
        chance = LoopChance(1, self.loop)
        self.db = SqliteDatabase(None, chance)
        prepare(self.db)
        config = Config(auth=CHEAP, hosts=Hosts(count=3), reconcile=Reconcile(patience=60.0))
        self._context = test_cloud(self.db, config=config, chance=chance)
        self.case = Case(self.run(self._context.__aenter__()), directory)
        self.run(self.case.begin())

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        asyncio.set_event_loop(self.loop)
        return self.loop.run_until_complete(coroutine)

    def close(self) -> None:
        self.run(self.case.end())
        self.run(self._context.__aexit__(None, None, None))
        self.db.close()
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()
        asyncio.set_event_loop(None)


@pytest.fixture
def cloud() -> Iterator[tuple[Cloud, Stand]]:
    with tempfile.TemporaryDirectory(prefix="c-") as directory:
        made = Cloud(Path(directory))
        try:
            stand = Stand(made.case)
            made.run(made.case.prepare())
            made.run(stand.prepare())
            yield made, stand
        finally:
            made.close()


async def fly(stand: Stand, name: str, number: int) -> Flight:
    """A server with an operation in flight: which step is held, and when, is another one for each case."""
    case, operation = stand.case, OPERATIONS[name]
    usage = {**await case.usage(), **await case.network_usage()}
    port = told(await case.port(stand.port))
    server = await ready(stand, operation)
    steps = STEPS[name]
    step, agent = steps[number % len(steps)]
    rule = await case.fault(
        step, "hold", None, host=agent or None, moment="after" if number % 2 and agent else "before"
    )
    await operation.ask(stand, server)
    assert await met(stand, rule), f"{name} was not held at {step}"
    return Flight(stand, server, rule, port, usage)


async def one(stand: Stand, name: str, number: int, what: Callable[[Flight], Awaitable[None]]) -> None:
    if name not in STEPS:
        STEPS[name] = await undisturbed(stand, OPERATIONS[name])
    if not STEPS[name]:
        return
    flight = await fly(stand, name, number)
    await what(flight)
    await stand.case.gone(flight.server)
    if flight.at_once:
        await flight.is_free()
    await finish(stand, flight.server)


@pytest.mark.parametrize("name", CASES)
def test_while_it_is_in_flight(
    cloud: tuple[Cloud, Stand], name: str, record_property: Callable[[str, object], None]
) -> None:
    made, stand = cloud
    count = 0
    for operation in OPERATIONS:
        number = [*CASES].index(name)
        try:
            made.run(one(stand, operation, number, CASES[name]))
        except BaseException as error:
            error.add_note(f"{name}, while: {operation}")
            raise
        count += 1
    record_property("cases with an operation in flight", count)
