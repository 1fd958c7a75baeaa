"""What the tests of real guests share: the test guest's image, and a host's drivers without a cloud.

``python -m tests.guest`` builds the image, unless it is there.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import functools
import hashlib
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cumulet.agent.store import Store
from cumulet.chance import RealChance
from cumulet.config import Hosts
from cumulet.drivers import qemu
from cumulet.drivers.base import Driver, Thing
from cumulet.wire.agent import Claim, Need, Question

#: Builds the image; a repository of its own beside this one.
BUILDER = Path(__file__).resolve().parents[1] / ".." / "shared" / "guest" / "build-image"
#: An image that was built already, or another one that behaves like it.
IMAGE = "CUMULET_TEST_GUEST"
#: Seconds until a guest must have booted, on two busy processors that it is emulated on.
BOOT = 240.0
MIB = 1 << 20
#: Tells of disks and network cards on the console whenever they change.
SCRIPT = b"""#!/bin/sh
(
  last=
  while sleep 0.2; do
    now="disks=$(for d in /sys/block/vd*; do echo "${d##*/}:$(cat $d/serial):$(cat $d/size)"; done | tr '\\n' ',') nics=$(ls /sys/class/net | tr '\\n' ',')"
    [ "$now" = "$last" ] || printf '\\nseen: %s\\n' "$now" > /dev/console
    last=$now
  done
) &
"""
HOSTS = Hosts(hypervisor="qemu", accelerator="tcg", shutdown_seconds=60, unplug_seconds=30)


@functools.cache
def image() -> Path:
    """The test guest's image, built by whoever needs it first. What is missing to build it is a failure that says so."""
    given = os.environ.get(IMAGE)
    if given:
        return Path(given)
    found = Path(tempfile.gettempdir()) / f"cumulet-test-guest-{os.getuid()}.qcow2"
    if not BUILDER.exists():
        raise AssertionError(f"{BUILDER} is not there, and {IMAGE} names no image of a guest")
    newest = max(path.stat().st_mtime for path in BUILDER.parent.rglob("*"))
    with found.with_suffix(".lock").open("w") as lock:
        # The builder writes to the machine's temporary directory and may use its package manager: one at a time.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not found.exists() or found.stat().st_mtime < newest:
            draft = found.with_suffix(".draft")
            built = subprocess.run([BUILDER, draft], capture_output=True, text=True, check=False)
            if built.returncode != 0:
                raise AssertionError(f"the guest's image cannot be built: {built.stderr.strip()}")
            os.replace(draft, found)
    return found


@functools.cache
def image_spec() -> Mapping[str, Any]:
    """What a claim for a disk says of the image."""
    data = image().read_bytes()
    return {
        "id": "00000000-0000-4000-8000-000000000001",
        "format": "qcow2",
        "size": len(data),
        "sha512": hashlib.sha512(data).hexdigest(),
    }


async def until(condition: Callable[[], Awaitable[Any]], seconds: float = BOOT, pause: float = 0.1) -> Any:
    """What ``condition`` gives once that is true."""
    async with asyncio.timeout(seconds):
        while True:
            found = await condition()
            if found:
                return found
            await asyncio.sleep(pause)


class Host:
    """A host's drivers over a directory, and no cloud."""

    def __init__(
        self, directory: Path, settings: Hosts = HOSTS, files: Mapping[str, Path] | None = None
    ) -> None:
        self.directory = directory
        self.store = Store(directory, RealChance())
        self.files = files or {}
        self.read: list[str] = []
        self.changed: asyncio.Queue[str] = asyncio.Queue()
        self._open = True
        self._closing = contextlib.ExitStack()
        made = qemu.drivers(directory, self.store.working, self.bytes_of, settings, self._closing)
        self.drivers: dict[str, Driver] = {kind: driver for driver in made for kind in driver.kinds}
        for driver in made:
            driver.watch(self.changed.put_nowait)

    def close(self) -> None:
        """As if the agent had ended; guests run on."""
        if self._open:
            self._open = False
            self._closing.close()
            self.store.close()

    async def bytes_of(self, claim: str, need: str) -> AsyncIterator[bytes]:
        self.read.append(need)
        with self.files.get(need, image()).open("rb") as file:
            while block := file.read(1 << 16):
                yield block

    async def ensure(self, claim: Claim) -> Thing:
        return await self.drivers[claim.kind].ensure(claim)

    async def remove(self, claim: Claim) -> None:
        await self.drivers[claim.kind].remove(claim)
        assert await self.drivers[claim.kind].look(claim.id, claim.kind) is None

    async def look(self, claim: Claim) -> Thing | None:
        return await self.drivers[claim.kind].look(claim.id, claim.kind)

    async def observe(self) -> dict[str, Thing]:
        found: dict[str, Thing] = {}
        for driver in set(self.drivers.values()):
            found.update(await driver.observe())
        return found

    async def console(self, guest: str) -> str:
        pieces = await self.drivers["guest"].answer(Question("q", "console", guest))
        return b"".join([piece async for piece in pieces]).decode("utf-8", "replace")

    async def see(self, guest: str, pattern: str, times: int = 1, seconds: float = BOOT) -> re.Match[str]:
        """Wait until the guest's console has what matches, so many times; the last match."""
        last = ""

        async def there() -> re.Match[str] | None:
            nonlocal last
            last = await self.console(guest)
            found = list(re.finditer(pattern, last, re.MULTILINE))
            return found[-1] if len(found) >= times else None

        try:
            return await until(there, seconds)  # type: ignore[no-any-return]
        except TimeoutError:
            raise AssertionError(
                f"{pattern} was not seen {times} times; the console ends: {last[-2000:]}"
            ) from None


@contextlib.contextmanager
def host(directory: Path, settings: Hosts = HOSTS, files: Mapping[str, Path] | None = None) -> Iterator[Host]:
    """See ``Host``; whatever runs at the end is killed."""
    made = Host(directory, settings, files)
    try:
        yield made
    finally:
        made.close()
        kill(directory)


def kill(directory: Path) -> None:
    """Kill what runs of a directory's guests."""
    for pid in processes(directory):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def processes(directory: Path | str) -> list[int]:
    """The processes that have a guest of this directory: those that hold a file below it open."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdecimal() or int(name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            for fd in os.listdir(f"/proc/{name}/fd"):
                with contextlib.suppress(OSError):
                    if os.readlink(f"/proc/{name}/fd/{fd}").startswith(f"{directory}/"):
                        found.append(int(name))
                        break
    return found


SERVER = "5e5e5e5e-0000-4000-8000-000000000000"


def claim(kind: str, id: str, spec: Mapping[str, Any], needs: Sequence[Need] = (), part: str = "") -> Claim:
    return Claim(
        id=id, kind=kind, part=part, holder=SERVER, wanted=True, act=True, made=False, revision=1, spec=dict(spec),
        needs=list(needs),
    )  # fmt: skip


def need(kind: str, id: str, part: str = "", **facts: Any) -> Need:
    return Need(id, kind, part, facts, True)


def root_disk(id: str, size_mb: int = 256, **image: Any) -> Claim:
    return claim(
        "disk", id, {"size_mb": size_mb, "image": {**image_spec(), **image}}, [need("file", "file")], "root"
    )


def guest(id: str, disks: Sequence[Claim], needs: Sequence[Need] = (), **spec: Any) -> Claim:
    """A claim for a guest with these disks; ``needs``: those of its volumes and taps."""
    whole = {
        "name": "s", "hostname": "s", "vcpus": 1, "memory_mb": 192, "image_properties": {},
        "disks": [disk.part for disk in disks], "nics": [], "volumes": [], "power": "on", "counters": {}, **spec,
    }  # fmt: skip
    return claim("guest", id, whole, [*(need("disk", disk.id, disk.part) for disk in disks), *needs])


if __name__ == "__main__":
    print(image())
