"""A volume takes another one's place in a guest that runs: real processes, without a system in them."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.conftest import run
from tests.guest import HOSTS, MIB, Host, host, kill
from tests.host import swaps
from tests.host.swaps import GUEST, NEW, OLD, empty, part
from tests.process.cumulet import ROOT, environment

from cumulet.drivers import qcow2
from cumulet.drivers.base import Failed
from cumulet.drivers.qemu import machine, swapping
from cumulet.drivers.qemu.qmp import Monitor
from cumulet.wire.agent import Claim

pytestmark = pytest.mark.anyio
#: Of the old volume; and the device's path in the guest.
SIZE = 16 * MIB
DEVICE = f"/machine/peripheral/{machine.volume_id(OLD)}/virtio-backend"


#: A guest with nothing on its disk powers itself off for nobody.
HASTY = msgspec.structs.replace(HOSTS, shutdown_seconds=1.0)


class Swap:
    """A guest with a volume, and a second volume."""

    def __init__(self, here: Host, files: dict[str, Path]) -> None:
        self.here = here
        self.files = files

    def wanted(self, *volumes: dict[str, Any], parts: tuple[str, ...] = (OLD, NEW), **spec: Any) -> Claim:
        return swaps.wanted(self.files, *volumes, parts=parts, **spec)

    async def before(self, **spec: Any) -> None:
        await self.here.ensure(empty())
        await self.here.ensure(self.wanted(part(OLD), parts=(OLD,), **spec))

    async def filled(self, **spec: Any) -> None:
        """The new volume is filled from the old one."""
        await self.here.ensure(self.wanted(part(OLD, into=part(NEW)), **spec))
        await self.shows({NEW: "ready"})

    async def shows(self, copies: dict[str, str]) -> None:
        async with asyncio.timeout(120):
            while (found := await self.copies()) != copies:
                assert found.get(NEW, "copying") in ("copying", "ready"), found
                await self.here.changed.get()

    async def copies(self) -> dict[str, str]:
        thing = await self.here.look(self.wanted())
        assert thing is not None
        found: dict[str, str] = thing.facts.get("copies", {})
        return found

    async def write(self, pattern: int, offset: int) -> None:
        """What the guest would write: through its device."""
        told = await self.monitor(
            "human-monitor-command",
            {"command-line": f'qemu-io -d {DEVICE} "write -P {pattern} {offset} 64k"'},
        )
        assert "error" not in str(told).lower(), told

    async def monitor(self, command: str, arguments: dict[str, Any] | None = None) -> Any:
        found = await Monitor.connect(self.here.directory / "guest" / GUEST, "tools")
        try:
            return await found.execute(command, arguments)
        finally:
            found.close()

    async def nodes(self) -> set[str]:
        return {one["node-name"] for one in await self.monitor("query-named-block-nodes", {"flat": True})}

    def has(self, which: str, *patterns: tuple[int, int]) -> None:
        for pattern, offset in patterns:
            command = f"read -P {pattern} {offset} 64k"
            run("qemu-io", "-r", "-f", "qcow2", "-c", command, str(self.files[which]))


def volumes(directory: Path) -> dict[str, Path]:
    files = {OLD: directory / "old", NEW: directory / "new"}
    files[OLD].write_bytes(qcow2.empty(SIZE))
    files[NEW].write_bytes(qcow2.empty(2 * SIZE))
    run("qemu-io", "-f", "qcow2", "-c", "write -P 1 0 64k", str(files[OLD]))
    return files


@pytest.fixture
async def swap(directory: Path, tmp_path: Path) -> AsyncIterator[Swap]:
    with host(directory, HASTY) as made:
        yield Swap(made, volumes(tmp_path))


async def test_all_that_was_in_the_old_one_is_in_the_new_one(swap: Swap) -> None:
    await swap.before()
    await swap.filled()
    await swap.write(2, MIB)
    # Told again, as after a restart of the agent: nothing begins anew.
    assert await swap.here.ensure(swap.wanted(part(OLD, into=part(NEW)))) is not None
    await swap.shows({NEW: "ready"})

    after = swap.wanted(part(NEW, **{"from": OLD}, size_gb=0))
    await swap.here.ensure(after)
    assert await swap.copies() == {}
    await swap.write(3, 2 * MIB)
    swap.has(OLD, (1, 0), (2, MIB), (0, 2 * MIB))  # it is closed
    new = machine.volume_id(NEW)
    assert await swap.nodes() == {"swap", "swap-f", new, f"{new}-q", f"{new}-f"}
    assert await swap.here.ensure(swap.wanted(part(NEW), parts=(NEW,))) is not None
    (found,) = [one for one in await swap.monitor("query-block") if one.get("qdev") == DEVICE]
    assert found["inserted"]["node-name"] == new

    # It is an ordinary volume from now on: a new process has it, and nothing of the old one.
    again = swap.wanted(part(NEW), parts=(NEW,), counters={"hard_reboots": 1})
    await swap.here.ensure(again)
    assert await swap.nodes() == {"swap", "swap-f", new, f"{new}-f"}
    await swap.here.remove(again)
    swap.has(NEW, (1, 0), (2, MIB), (3, 2 * MIB))


async def test_the_new_one_has_its_own_size(swap: Swap) -> None:
    await swap.before()
    await swap.filled()
    await swap.here.ensure(swap.wanted(part(NEW, **{"from": OLD})))
    # A size that is asked for, and can be had only by the guest that has the volume open.
    await swap.here.ensure(swap.wanted(part(NEW, size_gb=1), parts=(NEW,)))
    (found,) = [one for one in await swap.monitor("query-block") if one.get("qdev") == DEVICE]
    assert found["inserted"]["image"]["virtual-size"] == 1 << 30


async def test_a_swap_that_is_given_up_leaves_the_guest_as_it_was(swap: Swap) -> None:
    await swap.before()
    await swap.filled()
    await swap.here.ensure(swap.wanted(part(OLD), parts=(OLD,)))
    assert await swap.copies() == {}
    await swap.write(4, MIB)
    old = machine.volume_id(OLD)
    assert await swap.nodes() == {"swap", "swap-f", old, f"{old}-f"}
    swap.has(NEW, (1, 0), (0, MIB))  # it is closed
    # And it can be begun again, from what the old one has now.
    await swap.filled()
    await swap.here.ensure(swap.wanted(part(NEW, **{"from": OLD})))
    await swap.here.remove(swap.wanted())
    swap.has(NEW, (1, 0), (4, MIB))


async def test_a_guest_that_ends_between_the_two_has_all_in_the_new_one(swap: Swap) -> None:
    await swap.before()
    await swap.filled()
    await swap.write(5, 3 * MIB)
    await swap.here.ensure(swap.wanted(part(NEW, **{"from": OLD}), power="off"))
    swap.has(NEW, (1, 0), (5, 3 * MIB))
    await swap.here.ensure(swap.wanted(part(NEW), parts=(NEW,), counters={"starts": 1}))
    assert machine.volume_id(OLD) not in await swap.nodes()


async def test_a_copy_that_was_lost_is_made_again_before_the_guest_goes_over(swap: Swap) -> None:
    await swap.before()
    await swap.filled()
    await swap.monitor("block-job-cancel", {"device": f"m-{NEW}", "force": True})
    await swap.write(6, MIB)
    await swap.here.ensure(swap.wanted(part(NEW, **{"from": OLD})))
    await swap.here.remove(swap.wanted())
    swap.has(NEW, (1, 0), (6, MIB))


async def test_a_guest_that_is_started_anew_begins_to_copy_again(swap: Swap) -> None:
    await swap.before()
    await swap.filled()
    await swap.filled(counters={"hard_reboots": 1})
    await swap.here.ensure(swap.wanted(part(NEW, **{"from": OLD}), counters={"hard_reboots": 1}))
    await swap.here.remove(swap.wanted())
    swap.has(NEW, (1, 0))


async def test_an_agent_that_comes_later_knows_how_far_the_copy_is(swap: Swap) -> None:
    await swap.before()
    await swap.filled()
    swap.here.close()
    swap.here = Host(swap.here.directory)
    thing = await swap.here.ensure(swap.wanted(part(OLD, into=part(NEW))))
    assert thing.facts["copies"] == {NEW: "ready"}
    await swap.here.remove(swap.wanted())
    swap.here.close()


async def test_what_cannot_be_written_is_said(swap: Swap) -> None:
    await swap.before()
    swap.files[NEW] = swap.files[NEW].with_name("nowhere")
    with pytest.raises(Failed, match="cannot be opened") as failed:
        await swap.here.ensure(swap.wanted(part(OLD, into=part(NEW))))
    assert failed.value.cause == f"plug {NEW}"
    await swap.here.ensure(swap.wanted(part(OLD), parts=(OLD,)))
    small = swap.files[NEW].with_name("small")
    small.write_bytes(qcow2.empty(MIB))
    swap.files[NEW] = small
    with pytest.raises(Failed, match="cannot be copied") as failed:
        await swap.here.ensure(swap.wanted(part(OLD, into=part(NEW))))
    assert failed.value.cause == f"plug {NEW}"
    await swap.here.ensure(swap.wanted(part(OLD), parts=(OLD,)))
    old = machine.volume_id(OLD)
    assert await swap.nodes() == {"swap", "swap-f", old, f"{old}-f"}


async def test_what_a_guest_tells_while_it_is_asked_is_not_forgotten(
    swap: Swap, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer to a question may be older than an event that was heard before it was looked at."""
    await swap.before()
    states, told = swapping.states, []

    async def older(monitor: Monitor) -> dict[str, str]:
        while (found := await states(monitor)).get(NEW) == "copying":  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        if NEW not in found or told:
            return found
        # It is ready, which was told once: here, after an answer that says "copying" was given.
        told.append(NEW)
        driver: Any = swap.here.drivers["guest"]
        driver._hear(GUEST, {"event": "BLOCK_JOB_READY", "data": {"device": swapping._job(NEW)}})
        return {NEW: "copying"}

    monkeypatch.setattr(swapping, "states", older)
    await swap.filled()
    assert told


async def test_killed_before_any_command(directory: Path) -> None:
    """Whoever comes after one that was killed brings it to its end, and nothing is lost or left."""
    step = 0
    try:
        while True:
            home = directory / str(step)
            home.mkdir()
            files = volumes(home)
            with contextlib.closing(Host(home / "state")) as here:
                await Swap(here, files).before()
            program = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tests.host.swaps", str(home), str(step), cwd=ROOT,
                env=environment(), stdout=asyncio.subprocess.PIPE,
            )  # fmt: skip
            told, _ = await program.communicate()
            assert program.returncode in (0, -signal.SIGKILL), told
            with contextlib.closing(Host(home / "state")) as here:
                after = Swap(here, files)
                assert GUEST in await here.observe()
                if b"filled" not in told:
                    await after.filled()
                await after.write(7, MIB)
                await here.ensure(swaps.swapped(files))
                await here.ensure(after.wanted(part(NEW), parts=(NEW,)))
                await after.write(8, 2 * MIB)
                new = machine.volume_id(NEW)
                assert await after.nodes() == {"swap", "swap-f", new, f"{new}-q", f"{new}-f"}
                await here.remove(after.wanted())
            after.has(NEW, (1, 0), (7, MIB), (8, 2 * MIB))
            if program.returncode == 0:
                break
            step += 1
    finally:
        kill(directory)
    assert step > 5, "commands were counted"
