"""C42: delete in every phase of a resize. Nova LP 1202484, 1392527, 1308565."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cumulet.agent.loop import Agent
from cumulet.db.engine import Database
from tests.case import COMPUTE, H1, H2, Case, stage
from tests.moves import Mover

pytestmark = pytest.mark.anyio

Step = tuple[str, str | None]
#: Phase → what the user asks for, and the steps that the agents take then.
PHASES: dict[str, tuple[str, tuple[Step, ...]]] = {
    "powered off to be copied": ("resize", (("guest.ensure", H1),)),
    "copied": ("resize", (("source.ensure", H1), ("disk.ensure", H2), ("source.remove", H1))),
    "leaving the source": (
        "resize",
        (("guest.remove", H1), ("tap.remove", H1), ("connection.remove", H1), ("export.remove", None)),
    ),
    "finishing on the destination": (
        "resize",
        (("tap.ensure", H2), ("export.ensure", None), ("connection.ensure", H2), ("guest.ensure", H2)),
    ),
    "confirmed on the source": ("confirmResize", (("disk.remove", H1),)),
    "reverted on the destination": (
        "revertResize",
        (
            ("guest.remove", H2), ("tap.remove", H2), ("connection.remove", H2), ("export.remove", None),
            ("disk.remove", H2),
        ),
    ),
    "reverted on the source": (
        "revertResize",
        (("tap.ensure", H1), ("export.ensure", None), ("connection.ensure", H1), ("guest.ensure", H1)),
    ),
}  # fmt: skip


async def before(mover: Mover, asked: str) -> None:
    """A server of which one can ask that."""
    await mover.boot()
    if asked != "resize":
        await mover.resize()
        await mover.is_moved()


async def ask(mover: Mover, asked: str) -> None:
    await (mover.resize() if asked == "resize" else mover.act(asked))


async def delete(case: Case, server: str) -> None:
    """While a host is held at a step: the answer does not wait for it."""
    await case.call("DELETE", f"{COMPUTE}/servers/{server}", 204)


@pytest.mark.parametrize("phase", PHASES)
async def test_its_host_is_held(db: Database, directory: Path, phase: str) -> None:
    """Before each step and after it, when the host has not told yet that it was done."""
    asked, steps = PHASES[phase]
    async with stage(db, directory, hosts=2) as case:
        mover = await Mover.prepare(case)
        for step in steps:
            for moment in ("before", "after"):
                try:
                    await before(mover, asked)
                    rule = await case.fault(step[0], "hold", None, moment=moment, host=step[1])
                    await ask(mover, asked)
                    await case.struck(rule)
                    await delete(case, mover.server)
                    await case.release(rule)
                    await mover.ends()
                except BaseException as error:
                    error.add_note(f"{phase}: {step}, {moment}")
                    raise


async def test_no_destination_is_chosen_yet(db: Database, directory: Path) -> None:
    async with stage(db, directory, hosts=2) as case:
        mover = await Mover.prepare(case)
        await mover.boot()
        rule = await case.held("schedule")
        await mover.resize()
        await case.waits(mover.server, "a fault rule holds the step schedule")
        await case.delete(mover.server)
        await mover.is_free()
        await case.release(rule)
        await mover.ends()


@pytest.mark.parametrize("how", ["resize", "migrate"])
async def test_it_waits_to_be_confirmed(db: Database, directory: Path, how: str) -> None:
    async with stage(db, directory, hosts=2) as case:
        mover = await Mover.prepare(case)
        await mover.boot()
        await (mover.resize() if how == "resize" else mover.migrate())
        await mover.is_moved()
        # Both hosts have something of it, and both are paid for.
        assert [name for name in case.things(H1) if name.startswith("disk/")]
        usage = await case.usage()
        flavor = (await case.server(mover.server))["flavor"]
        assert (usage["Cores"], usage["RAM"]) == (flavor["vcpus"], flavor["ram"])
        for consumer, host in zip(await mover.consumers(), (H2, H1), strict=True):
            assert [one["provider"] for one in await case.allocated(consumer)] == [host]
        await case.delete(mover.server)
        await mover.ends()
        (move,) = await mover.moves()
        assert move["status"] == "confirmed"


@pytest.mark.parametrize(
    ("step", "effect", "back"),
    [("disk.ensure", "lose", ("disk.remove", H2)), ("guest.ensure", "fail", ("tap.ensure", H1))],
)
async def test_it_failed_and_goes_back(
    db: Database, directory: Path, step: str, effect: str, back: Step
) -> None:
    """The destination fails; the delete comes while the server is on its way back."""
    async with stage(db, directory, hosts=2) as case:
        mover = await Mover.prepare(case)
        await mover.boot()
        await case.fault(step, effect, None, host=H2)
        held = await case.fault(back[0], "hold", None, host=back[1])
        await mover.resize()
        await case.struck(held)
        await delete(case, mover.server)
        await case.release()
        await mover.ends()
        assert [one["status"] for one in await mover.moves()] == ["error"]


@pytest.mark.parametrize("host", [H1, H2])
@pytest.mark.parametrize("asked", ["", "confirmResize", "revertResize"])
async def test_one_of_the_hosts_is_down(db: Database, directory: Path, host: str, asked: str) -> None:
    """Everything that needs no host is free with the 404; the rest goes when the host returns."""
    async with stage(db, directory, hosts=2) as case:
        mover = await Mover.prepare(case)
        await before(mover, "confirmResize")
        await case.down(host)
        if asked:
            await mover.act(asked)
        await case.delete(mover.server)
        await mover.is_free()
        assert case.things(host) != []
        await case.up(host)
        await mover.ends()


async def test_every_step_is_held(db: Database, directory: Path) -> None:
    """The steps above are those that hosts take: a new one would have to be added."""
    async with stage(db, directory, hosts=2) as case:
        mover = await Mover.prepare(case)
        taken: set[tuple[str, Step]] = set()
        for end in ("confirmResize", "revertResize"):
            await mover.boot()
            for asked in ("resize", end):
                taken |= {(asked, step) for step in await steps_of(mover, asked)}
            await case.delete(mover.server)
        await mover.ends()
        assert taken == {(asked, step) for asked, steps in PHASES.values() for step in steps}


async def steps_of(mover: Mover, asked: str) -> set[Step]:
    found: set[Step] = set()
    work = Agent._fault

    async def noted(self: Agent, claim: Any, step: str, moment: Any) -> None:
        if not step.startswith("lport"):  # nobody waits for the network's own part of a port
            found.add((step, self.name if self.kind == "host" else None))
        await work(self, claim, step, moment)

    Agent._fault = noted  # type: ignore[method-assign]
    try:
        await ask(mover, asked)
        await mover.case.settle()
    finally:
        Agent._fault = work  # type: ignore[method-assign]
    return found
