"""Swaps the volume of a guest, as a program that is killed before one of its commands to QEMU: see test_qemu_swap.py."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from tests.guest import Host, claim, guest, need

from cumulet.drivers.qemu.qmp import Monitor
from cumulet.wire.agent import Claim

DISK = "d1d1d1d1-0000-4000-8000-000000000000"
GUEST = "60606060-0000-4000-8000-000000000000"
OLD, NEW = "a1a1a1a1-0000-4000-8000-000000000000", "b2b2b2b2-0000-4000-8000-000000000000"


def empty() -> Claim:
    """A disk with nothing on it: its guest starts at once, and never gets anywhere."""
    return claim("disk", DISK, {"size_mb": 16, "format": "swap"}, part="swap")


def part(id: str, **more: Any) -> dict[str, Any]:
    """A volume of the guest."""
    return {
        "part": id, "kind": "export", "volume": id, "device": "/dev/vdb", "boot_index": None, "bus": None,
        "readonly": False, "serial": id, **more,
    }  # fmt: skip


def wanted(files: dict[str, Path], *volumes: dict[str, Any], parts: tuple[str, ...], **spec: Any) -> Claim:
    """The guest with the volumes; ``parts``: what it needs."""
    needs = [need("export", id, id, driver="file", path=str(files[id]), format="qcow2") for id in parts]
    return guest(GUEST, [empty()], needs, volumes=list(volumes), **spec)


def filling(files: dict[str, Path]) -> Claim:
    return wanted(files, part(OLD, into=part(NEW)), parts=(OLD, NEW))


def swapped(files: dict[str, Path]) -> Claim:
    return wanted(files, part(NEW, **{"from": OLD}), parts=(OLD, NEW))


def die_at(step: int) -> None:
    """Kill this process before the command of that number, of those that change something."""
    execute = Monitor.execute
    done = 0

    async def counted(self: Monitor, command: str, *args: Any, **more: Any) -> Any:
        nonlocal done
        if not command.startswith(("query-", "qmp_", "qom-")):
            if done == step:
                os.kill(os.getpid(), signal.SIGKILL)
            done += 1
        return await execute(self, command, *args, **more)

    Monitor.execute = counted  # type: ignore[method-assign]


async def ready(here: Host, files: dict[str, Path]) -> None:
    while True:
        thing = await here.look(filling(files))
        if thing is not None and thing.facts.get("copies") == {NEW: "ready"}:
            return
        await here.changed.get()


async def main(directory: Path, step: int) -> None:
    files = {OLD: directory / "old", NEW: directory / "new"}
    here = Host(directory / "state")
    die_at(step)
    await here.ensure(filling(files))
    await ready(here, files)
    print("filled", flush=True)
    await here.ensure(swapped(files))
    print("swapped", flush=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
