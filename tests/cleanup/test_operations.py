"""Every step of every operation by everything that can go wrong at it by a delete, or a change of mind, then.

Which steps an operation takes is seen, not listed: each is run once undisturbed while the agents' steps are noted.
So a new step is covered without anybody remembering it, and a step that no fault reached fails the test.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cumulet.core import faults
from tests.cleanup.operations import OPERATIONS, THEN, Operation, Stand, changes_his_mind, staged
from tests.cleanup.steps import Step, finish, met, quiet, ready, undisturbed
from tests.virtual import Stage

FAULTS: dict[str, dict[str, Any]] = {
    "refused": {"effect": "fail"},
    "done, but the answer is lost": {"effect": "lose"},
    "crash before": {"effect": "crash"},
    "crash after": {"effect": "crash", "moment": "after"},
    "held": {"effect": "hold", "count": None},
}
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


@pytest.fixture
def stage() -> Iterator[tuple[Stage, Stand]]:
    with staged() as made:
        yield made


async def _broken(stand: Stand, operation: Operation, step: Step, fault: str, then: str) -> bool:
    """One combination; True if the fault was met."""
    case = stand.case
    server = await ready(stand, operation)
    effect = dict(FAULTS[fault])
    if step[0] == "schedule":
        effect = {"effect": "hold", "count": None}
    rule = await case.fault(**{"step": step[0], "host": step[1] or None, "count": 1, **effect})
    await operation.ask(stand, server)
    was_met = await met(stand, rule)
    if then == "is deleted":
        await case.call("DELETE", f"/compute/v2.1/servers/{server}", 204, 404)
    elif then == "turns back":
        await changes_his_mind(operation, stand, server)
    if effect["effect"] == "hold":
        await case.release(rule)
    if then != "is deleted":
        await case.until(lambda: _rests(stand, server), "the operation to end")
    await finish(stand, server)
    return was_met


async def _rests(stand: Stand, server: str) -> bool:
    row = await stand.row(server)
    return row is None or (row["task_state"] is None and await quiet(stand))


@pytest.mark.parametrize("name", OPERATIONS)
def test_nothing_is_left(
    stage: tuple[Stage, Stand], name: str, record_property: Callable[[str, object], None]
) -> None:  # fmt: skip
    loop, stand = stage
    operation = OPERATIONS[name]
    steps = loop.run(undisturbed(stand, operation))
    count = 0
    for step, fault in itertools.product(steps, FAULTS):
        if step[0] == "schedule" and fault != "held":
            continue
        is_met = False
        for then in THEN:
            try:
                is_met |= loop.run(_broken(stand, operation, step, fault, then))
            except BaseException as error:
                error.add_note(f"{name}: {step}, {fault}, {then}")
                raise
            count += 1
        assert is_met, f"{name}: {step} was not met by {fault!r}"
    record_property("combinations of step, fault and what comes then", count)


def test_every_step_is_taken(stage: tuple[Stage, Stand]) -> None:
    loop, stand = stage
    taken = {step for operation in OPERATIONS.values() for step, _ in loop.run(undisturbed(stand, operation))}
    assert taken | set(OTHERS) == set(faults.steps())
