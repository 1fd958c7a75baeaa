"""Every driver with one thing of each kind that it makes: what all of them must do is tested by their names alone.

As a program it makes or removes a thing in processes that are killed, at one step after another:

    python -m tests.drivers CASE make|remove DIRECTORY
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cumulet.agent.store import Store
from cumulet.chance import RealChance
from cumulet.config import Hosts
from cumulet.drivers import program, qcow2, qemu, sim
from cumulet.drivers.base import Driver, Thing
from cumulet.drivers.imagefiles import ImageFiles
from cumulet.drivers.volumefiles import VolumeFiles
from cumulet.wire.agent import Claim, Need
from tests.conftest import run

MIB = 1 << 20
#: An image with a disk of 64 KiB in it.
DISK = bytes(range(256)) * 256
SETTINGS = Hosts(hypervisor="qemu", accelerator="tcg")


async def bytes_of(claim: str, need: str) -> AsyncIterator[bytes]:
    """The image's bytes, in pieces."""
    for start in range(0, len(DISK), 1 << 14):
        yield DISK[start : start + (1 << 14)]


Build = Callable[[Store, contextlib.ExitStack], Sequence[Driver]]
BUILD: Mapping[str, Build] = {
    "simulated host": lambda store, _: [sim.SimDriver(store.directory, sim.HOST_KINDS, RealChance())],
    "simulated back end": lambda store, _: [sim.SimDriver(store.directory, sim.VOLUME_KINDS, RealChance())],
    "simulated network": lambda store, _: [sim.SimDriver(store.directory, sim.NETWORK_KINDS, RealChance())],
    "image files": lambda store, _: [ImageFiles(store.directory, bytes_of)],
    "volume files": lambda store, _: [
        VolumeFiles(store.directory, store.working, bytes_of, program.user(SETTINGS.guest_user))
    ],
    "qemu": lambda store, closing: qemu.drivers(store.directory, store.working, bytes_of, SETTINGS, closing),
}


def id_of(name: str) -> str:
    """An id that is the same every time, and looks like one."""
    return f"{name.encode().hex():0<8.8}-0000-4000-8000-000000000000"


def claim(kind: str, spec: Mapping[str, Any], *needs: Claim | Need, name: str = "", part: str = "") -> Claim:
    return Claim(
        id=id_of(name or kind), kind=kind, part=part, holder=id_of("holder"), wanted=True, act=True, made=False,
        revision=1, spec=dict(spec),
        needs=[Need(need.id, need.kind, need.part, {}, True) if isinstance(need, Claim) else need for need in needs],
    )  # fmt: skip


_GUEST = claim(
    "guest",
    {"name": "s", "hostname": "s", "vcpus": 1, "memory_mb": 64, "disks": [], "nics": [], "power": "on", "counters": {}},
)  # fmt: skip
_SWAPPED = {"part": "a", "volume": "v", "device": "/dev/vdb", "into": {"part": "b", "volume": "w"}}
_FILE = Need(id_of("file"), "file", "", {}, False)
_IMAGE = {"id": id_of("image"), "image": id_of("image"), "format": "raw", "size": len(DISK)}
_VOLUME = claim("volume", {"size_gb": 1})
_SNAPSHOT = claim("snapshot", {"size_gb": 1}, _VOLUME)
_DISK = claim("disk", {"size_mb": 16, "image": _IMAGE}, _FILE, part="root")
_SWAP = claim("disk", {"size_mb": 16, "format": "swap"}, part="swap")

#: By name: the driver, and what is made, the last of which is what it is about.
CASES: Mapping[str, tuple[str, tuple[Claim, ...]]] = {
    "simulated guest": ("simulated host", (_GUEST,)),
    "simulated guest that fills a volume": ("simulated host", (claim("guest", {**_GUEST.spec, "volumes": [_SWAPPED]}),)),
    "simulated disk": ("simulated host", (claim("disk", {}),)),
    "simulated volume": ("simulated back end", (_VOLUME,)),
    "simulated source": ("simulated back end", (_VOLUME, claim("source", {}, _VOLUME))),
    "simulated snapshot": ("simulated back end", (_VOLUME, _SNAPSHOT)),
    "simulated export": ("simulated back end", (_VOLUME, claim("export", {"volume": "v", "host": "h"}, _VOLUME))),
    "simulated backup": ("simulated back end", (_VOLUME, claim("backup", {"size_gb": 1}, _VOLUME))),
    "simulated switch": ("simulated network", (claim("switch", {}),)),
    "image": ("image files", (claim("file", {}, _FILE),)),
    "volume": ("volume files", (_VOLUME,)),
    "volume of an image": ("volume files", (claim("volume", {"size_gb": 1, "source": _IMAGE}, _FILE),)),
    "volume of a snapshot": (
        "volume files",
        (_VOLUME, _SNAPSHOT, claim("volume", {"size_gb": 2, "source": {"snapshot": "s"}}, _SNAPSHOT, name="copy")),
    ),
    "snapshot": ("volume files", (_VOLUME, _SNAPSHOT)),
    "backup": ("volume files", (_VOLUME, claim("backup", {"size_gb": 1}, _VOLUME))),
    "export": ("volume files", (_VOLUME, claim("export", {}, _VOLUME))),
    "source of a volume": ("volume files", (_VOLUME, claim("source", {"format": "qcow2"}, _VOLUME))),
    "raw source of a volume": ("volume files", (_VOLUME, claim("source", {"format": "raw"}, _VOLUME))),
    "disk with a file system": ("qemu", (claim("disk", {"size_mb": 16}, part="ephemeral"),)),
    "disk of an image": ("qemu", (_DISK,)),
    "source of a disk": ("qemu", (_DISK, claim("source", {"format": "qcow2"}, _DISK))),
    "guest": ("qemu", (_SWAP, claim("guest", {**_GUEST.spec, "disks": ["swap"]}, _SWAP))),
    "tap": ("qemu", (claim("tap", {"mac": "fa:16:3e:00:00:01"}),)),
    "connection": ("qemu", (claim("connection", {}, Need("e", "export", "", {"driver": "file"}, False)),)),
}  # fmt: skip


class Here:
    """A driver over a directory, as its agent has it."""

    def __init__(self, driver: str, directory: Path, closing: contextlib.ExitStack) -> None:
        self.directory = directory
        self.store = Store(directory, RealChance())
        closing.callback(self.store.close)
        drivers = BUILD[driver](self.store, closing)
        self.drivers = {kind: driver for driver in drivers for kind in driver.kinds}

    async def ensure(self, claim: Claim) -> Thing:
        return await self.drivers[claim.kind].ensure(claim)

    async def remove(self, claim: Claim) -> None:
        await self.drivers[claim.kind].remove(claim)

    async def look(self, claim: Claim) -> Thing | None:
        return await self.drivers[claim.kind].look(claim.id, claim.kind)

    async def observe(self) -> dict[str, Thing]:
        found: dict[str, Thing] = {}
        for driver in set(self.drivers.values()):
            found.update(await driver.observe())
        return found

    def files(self) -> dict[str, int]:
        """Everything below the directory that is somebody's, with its size."""
        found = {}
        for folder, folders, names in os.walk(self.directory):
            inside = os.path.relpath(folder, self.directory)
            if inside == "cache" or inside == "working":
                continue
            for name in (*folders, *names):
                path = Path(folder) / name
                found[os.path.relpath(path, self.directory)] = path.stat().st_size if path.is_file() else 0
        return found


@contextlib.contextmanager
def opened(driver: str, directory: Path) -> Iterator[Here]:
    """See ``Here``; let go of at the end."""
    with contextlib.ExitStack() as closing:
        yield Here(driver, directory, closing)


def same(path: Path, clean: Path) -> None:
    """A disk that was made in spite of all is not damaged, and has what one has that was made in peace."""
    with path.open("rb") as file:
        if file.read(4) != qcow2.MAGIC:
            return
    run("qemu-img", "check", "-q", "-f", "qcow2", str(path))
    run("qemu-img", "compare", "-q", "-f", "qcow2", "-F", "qcow2", str(path), str(clean))


# --- killing ---

#: What changes a directory, or starts something that does.
_STEPS = frozenset(
    {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate", "os.chmod", "os.chown", "os.utime"}
) | {"subprocess.Popen"}


def die_at(step: int) -> None:
    """Kill this process before the step of that number."""
    done = 0

    def hook(event: str, args: tuple[Any, ...]) -> None:
        nonlocal done
        writes = event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR)
        if writes or event in _STEPS:
            if done == step:
                os.kill(os.getpid(), signal.SIGKILL)
            done += 1

    sys.addaudithook(hook)


async def _prepare(here: Here, claims: Sequence[Claim]) -> None:
    for one in claims:
        await here.ensure(one)


async def _work(here: Here, verb: str, claim: Claim) -> None:
    await (here.ensure(claim) if verb == "make" else here.remove(claim))


async def _verify(
    here: Here, claim: Claim, before: Mapping[str, int], clean: Path, *, made: bool | None
) -> None:
    """Whatever was left can be seen, made whole and removed, and after that it is as it was before.

    ``clean``: a directory where it was made in peace.
    """
    deadline = time.monotonic() + 20
    while not here.store.idle(claim.id):
        assert time.monotonic() < deadline, "a helper outlives the one that it helped"
        await asyncio.sleep(0.01)
    seen = (await here.observe()).get(claim.id)
    assert seen == await here.look(claim)
    if made is not None:
        assert (seen is not None) == made
    thing = await here.ensure(claim)
    assert thing.facts, "it is whole"
    assert (await here.observe())[claim.id] == thing
    for name in ("disk", "copy"):
        path = Path(claim.kind) / claim.id / name
        if (clean / path).is_file():
            same(here.directory / path, clean / path)
    await here.remove(claim)
    assert await here.look(claim) is None
    assert claim.id not in await here.observe()
    assert here.files() == before


def main(case: str, verb: str, directory: Path) -> None:
    driver, (*first, claim) = CASES[case]
    clean = directory / "clean"
    with opened(driver, clean) as here:
        asyncio.run(_prepare(here, [*first, claim]))
    step = 0
    while True:
        home = directory / str(step)
        with opened(driver, home) as here:
            asyncio.run(_prepare(here, first))
            before = here.files()
            if verb == "remove":
                asyncio.run(_prepare(here, [claim]))
        child = os.fork()
        if child == 0:
            status = 1
            try:
                with opened(driver, home) as here:
                    die_at(step)
                    asyncio.run(_work(here, verb, claim))
                status = 0
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        assert killed or status == 0, f"step {step} of {case} failed"
        with opened(driver, home) as here:
            asyncio.run(_verify(here, claim, before, clean, made=None if killed else verb == "make"))
        if not killed:
            break
        step += 1
    assert step > 0, "nothing was killed"
    sys.stdout.write(f"{step} steps\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
