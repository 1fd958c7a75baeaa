"""Whether guests can run on the processor itself.

That /dev/kvm is there and can be opened proves nothing: there are machines on which guests hang with it. So a
guest is really started, from a disk of one sector that ends it with a number.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
from pathlib import Path
from typing import Literal

import msgspec
import structlog

from cumulet.drivers import process, program

log = structlog.get_logger()

Name = Literal["kvm", "tcg"]
#: Writes 16 to the port of a device that ends QEMU with twice that and one.
_BOOT = bytes.fromhex("b010e6f4f4ebfd").ljust(510, b"\0") + b"\x55\xaa"
_WORKS = 33
_DISK = '{"node-name": "disk", "driver": "raw", "file": {"driver": "file", "filename": "/dev/fdset/1"}}'
_PATIENCE = 3.0
_DEVICE = Path("/dev/kvm")


class _Answer(msgspec.Struct):
    key: list[str]
    name: Name


class Accelerator:
    """What guests are accelerated by: as a setting says, or by trying once and remembering."""

    def __init__(self, directory: Path, setting: str, qemu: str, user: program.User | None) -> None:
        self._path = directory / "accelerator.json"
        self._setting = setting
        self._qemu = qemu
        self._user = user
        self._trying: asyncio.Task[Name] | None = None

    def begin(self) -> None:
        """Try in the background, so that the first guest need not wait for it."""
        if self._trying is None:
            self._trying = asyncio.ensure_future(self._find())

    async def get(self) -> Name:
        """The answer, once it is known."""
        self.begin()
        assert self._trying is not None
        return await asyncio.shield(self._trying)

    def close(self) -> None:
        if self._trying is not None:
            self._trying.cancel()

    def groups(self) -> tuple[int, ...]:
        """Groups that may open the device, where others may not."""
        with contextlib.suppress(OSError):
            status = _DEVICE.stat()
            if status.st_gid and status.st_mode & 0o006 != 0o006:
                return (status.st_gid,)
        return ()

    async def _find(self) -> Name:
        if self._setting != "auto":
            return "kvm" if self._setting == "kvm" else "tcg"
        key = self._key()
        if key is None:
            return "tcg"
        with contextlib.suppress(OSError, msgspec.DecodeError):
            known = msgspec.json.decode(self._path.read_bytes(), type=_Answer)
            if known.key == key:
                return known.name
        name: Name = "kvm" if await self.runs("kvm") else "tcg"
        log.info("guests are accelerated", by=name)
        self._path.write_bytes(msgspec.json.encode(_Answer(key, name)))
        return name

    def _key(self) -> list[str] | None:
        """What the answer holds for: this kernel since it was started, this program, this user; None without a device."""
        if not _DEVICE.exists():
            return None
        path = shutil.which(self._qemu) or self._qemu
        changed = os.stat(path).st_mtime_ns if os.path.exists(path) else 0
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return [boot, path, str(changed), str(self._user)]

    async def runs(self, name: Name) -> bool:
        """Whether a guest that is accelerated by that really runs."""
        disk = os.memfd_create("probe", os.MFD_CLOEXEC)
        try:
            os.write(disk, _BOOT)
            program.give(disk, self._user)
            argv = [
                *program.as_user(self._user, self.groups(), orphan=False), self._qemu, "-machine", "pc", "-accel", name, "-m", "32",
                "-nodefaults", "-no-user-config", "-display", "none", "-add-fd", f"fd={disk},set=1",
                "-blockdev", _DISK, "-device", "ide-hd,drive=disk", "-device", "isa-debug-exit,iobase=0xf4,iosize=1",
            ]  # fmt: skip
            try:
                child = process.launch(argv, fds=[disk])
            except OSError:
                return False
            try:
                await child.ended(_PATIENCE)
            finally:
                child.send(signal.SIGKILL)
                await child.ended()
                status = child.reap()
                child.close()
            return status == _WORKS
        finally:
            os.close(disk)
