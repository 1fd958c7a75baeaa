"""The steps that operations take, seen by running each once, and what runs of all of them have in common."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from cumulet.agent.loop import Agent
from cumulet.core import faults
from cumulet.db.engine import Tx
from tests.case import H1
from tests.cleanup.operations import OPERATIONS, Operation, Stand, drop_copies, drop_images

#: (step, name of the agent).
Step = tuple[str, str]
#: Operations that choose a host.
MOVES = [OPERATIONS[name] for name in ("resize", "migrate", "live migrate", "evacuate", "unshelve")]


@contextlib.contextmanager
def noting() -> Iterator[list[Step]]:
    """The steps that agents begin meanwhile, each once."""
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


async def undisturbed(stand: Stand, operation: Operation) -> list[Step]:
    """The steps of an operation."""
    server = await ready(stand, operation)
    with noting() as found:
        await operation.ask(stand, server)
        await stand.reach(server, *operation.ends)
        await stand.case.until(lambda: quiet(stand), "what follows")
    await finish(stand, server)
    return [*found, *([("schedule", "")] if operation in MOVES else [])]


async def ready(stand: Stand, operation: Operation) -> str:
    """A server for which the operation can be asked."""
    server = await operation.boot(stand)
    if operation.before is not None:
        await operation.before(stand, server)
    return server


async def quiet(stand: Stand) -> bool:
    """Nothing moves but what is to stay as it is."""
    return await stand.case._hangs()


async def met(stand: Stand, rule: str) -> bool:
    """Wait until the rule has hit, or nothing moves without it; True if it has."""
    found: list[bool] = []

    async def known() -> bool:
        row = next((row for row in await stand.case.db.read(faults.listing) if row["id"] == rule), None)
        found.append(row is None or row["hits"] > 0 or await stand.case.db.read(_is_held))
        return found[-1] or await quiet(stand)

    await stand.case.until(known, "the fault to be met")
    return found[-1]


def _is_held(tx: Tx) -> bool:
    """True if a step of the control plane itself is held."""
    return tx.one("select 1 from holders where waiting like 'a fault rule holds %'") is not None


async def finish(stand: Stand, server: str) -> None:
    """The server, and what was made of it, goes; then everything is as before."""
    case = stand.case
    await case.release()
    await case.call("DELETE", f"/compute/v2.1/servers/{server}", 204, 404)
    await case.gone(server)
    await case.force_down(H1, False)
    await drop_images(stand, server)
    await drop_copies(stand)
    await case.clean()
