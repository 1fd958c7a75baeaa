"""Every step of every operation by everything that can go wrong at it by a delete, or a change of mind, then.

Which steps an operation takes is seen, not listed: each is run once undisturbed while the agents' steps are noted.
So a new step is covered without anybody remembering it, and a step that no fault reached fails the test.
"""

from __future__ import annotations

import contextlib
import itertools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cumulet.agent.loop import Agent
from cumulet.config import Config, Hosts, Reconcile
from cumulet.core import faults
from cumulet.db.engine import Tx
from tests.case import H1, Case
from tests.cleanup.operations import (
    OPERATIONS,
    Operation,
    Stand,
    changes_his_mind,
    drop_copies,
    drop_images,
)
from tests.cloud import CHEAP
from tests.virtual import Stage

FAULTS: dict[str, dict[str, Any]] = {
    "refused": {"effect": "fail"},
    "done, but the answer is lost": {"effect": "lose"},
    "crash before": {"effect": "crash"},
    "crash after": {"effect": "crash", "moment": "after"},
    "held": {"effect": "hold", "count": None},
}
THEN = ("goes on", "is deleted", "turns back")
#: Steps that servers do not take, or that tests/cleanup/test_create.py breaks.
OTHERS = {
    "backup.ensure": "of volumes",
    "backup.remove": "of volumes",
    "snapshot.remove": "of volumes",
    "switch.ensure": "the network's",
    "switch.remove": "the network's",
    "lrouter.ensure": "the router's",
    "lrouter.remove": "the router's",
    "nat.ensure": "the floating IP's",
    "nat.remove": "the floating IP's",
    "volume.schedule": "of a volume's create",
}
Step = tuple[str, str]


@pytest.fixture
def stage() -> Iterator[tuple[Stage, Stand]]:
    with tempfile.TemporaryDirectory(prefix="c-") as directory:
        config = Config(auth=CHEAP, hosts=Hosts(count=3), reconcile=Reconcile(patience=60.0))
        stage = Stage(Path(directory), config)
        stand = Stand(Case(stage.cloud, Path(directory)))
        stage.run(stand.case.prepare())
        stage.run(stand.prepare())
        yield stage, stand
        stage.close()


@contextlib.contextmanager
def noting() -> Iterator[list[Step]]:
    """The steps that agents begin meanwhile, each once: (step, agent)."""
    found: list[Step] = []
    before = Agent._fault

    async def noted(self: Agent, claim: Any, step: str, moment: Any) -> None:
        if moment == "before" and (step, self.name) not in found:
            found.append((step, self.name))
        await before(self, claim, step, moment)

    Agent._fault = noted  # type: ignore[method-assign]
    try:
        yield found
    finally:
        Agent._fault = before  # type: ignore[method-assign]


async def _undisturbed(stand: Stand, operation: Operation) -> list[Step]:
    server = await _ready(stand, operation)
    with noting() as found:
        await operation.ask(stand, server)
        await stand.reach(server, *operation.ends)
        await stand.case.until(lambda: _quiet(stand), "what follows")
    await _end(stand, server)
    return [*found, *([("schedule", "")] if operation in _MOVES else [])]


#: Operations that choose a host.
_MOVES = [OPERATIONS[name] for name in ("resize", "migrate", "live migrate", "evacuate", "unshelve")]


async def _ready(stand: Stand, operation: Operation) -> str:
    server = await operation.boot(stand)
    if operation.before is not None:
        await operation.before(stand, server)
    return server


async def _quiet(stand: Stand) -> bool:
    """Nothing moves but what is to stay as it is."""
    return await stand.case._hangs()


async def _end(stand: Stand, server: str) -> None:
    case = stand.case
    await case.release()
    await case.call("DELETE", f"/compute/v2.1/servers/{server}", 204, 404)
    await case.gone(server)
    await case.force_down(H1, False)
    await drop_images(stand, server)
    await drop_copies(stand)
    await case.clean()


async def _broken(stand: Stand, operation: Operation, step: Step, fault: str, then: str) -> bool:
    """One combination; True if the fault was met."""
    case = stand.case
    server = await _ready(stand, operation)
    effect = dict(FAULTS[fault])
    if step[0] == "schedule":
        effect = {"effect": "hold", "count": None}
    rule = await case.fault(**{"step": step[0], "host": step[1] or None, "count": 1, **effect})
    await operation.ask(stand, server)
    met = await _met(stand, rule)
    if then == "is deleted":
        await case.call("DELETE", f"/compute/v2.1/servers/{server}", 204, 404)
    elif then == "turns back":
        await changes_his_mind(operation, stand, server)
    if effect["effect"] == "hold":
        await case.release(rule)
    if then != "is deleted":
        await case.until(lambda: _rests(stand, server), "the operation to end")
    await _end(stand, server)
    return met


async def _rests(stand: Stand, server: str) -> bool:
    row = await stand.row(server)
    return row is None or (row["task_state"] is None and await _quiet(stand))


async def _met(stand: Stand, rule: str) -> bool:
    """Wait until the rule has hit, or nothing moves without it."""
    found: list[bool] = []

    async def known() -> bool:
        row = next((row for row in await stand.case.db.read(faults.listing) if row["id"] == rule), None)
        found.append(row is None or row["hits"] > 0 or await stand.case.db.read(_is_held))
        return found[-1] or await stand.case._hangs()

    await stand.case.until(known, "the fault to be met")
    return found[-1]


def _is_held(tx: Tx) -> bool:
    """True if a step of the control plane itself is held."""
    return tx.one("select 1 from holders where waiting like 'a fault rule holds %'") is not None


@pytest.mark.parametrize("name", OPERATIONS)
def test_nothing_is_left(
    stage: tuple[Stage, Stand], name: str, record_property: Callable[[str, object], None]
) -> None:  # fmt: skip
    loop, stand = stage
    operation = OPERATIONS[name]
    steps = loop.run(_undisturbed(stand, operation))
    count = 0
    for step, fault in itertools.product(steps, FAULTS):
        if step[0] == "schedule" and fault != "held":
            continue
        met = False
        for then in THEN:
            try:
                met |= loop.run(_broken(stand, operation, step, fault, then))
            except BaseException as error:
                error.add_note(f"{name}: {step}, {fault}, {then}")
                raise
            count += 1
        assert met, f"{name}: {step} was not met by {fault!r}"
    record_property("combinations of step, fault and what comes then", count)


def test_every_step_is_taken(stage: tuple[Stage, Stand]) -> None:
    loop, stand = stage
    taken = {
        step for operation in OPERATIONS.values() for step, _ in loop.run(_undisturbed(stand, operation))
    }
    assert taken | set(OTHERS) == set(faults.steps())
