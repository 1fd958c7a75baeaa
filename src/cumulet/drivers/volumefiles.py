"""A volume back end on a directory: volumes are qcow2 files, made by qemu-img and opened by guests of this machine.

    DIRECTORY/volume/CLAIM/disk        the bytes
    DIRECTORY/volume/CLAIM/disk.json   what it is; written last, so a disk without it is not whole
    DIRECTORY/snapshot/CLAIM/…         the same: a copy of its own, so it outlives whatever becomes of the volume
    DIRECTORY/backup/CLAIM/…           the same, which outlives the volume
    DIRECTORY/source/CLAIM/…           a copy to be read, in the format of the image that it is for
    DIRECTORY/export/CLAIM             how a guest reaches the volume

A guest opens the volume's file and locks it as QEMU does, so two guests never write to one volume, and while one of
them uses it, it is not copied. It can be made larger by the guest alone then, which is waited for.

A volume, snapshot or backup that was made is never made again: it would be empty.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import struct
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from cumulet.drivers import program
from cumulet.drivers.base import BytesOf, Failed, Thing, Unknown, listed
from cumulet.drivers.blocks import in_thread, of_file
from cumulet.drivers.qemu import files
from cumulet.drivers.qemu.cache import Cache
from cumulet.drivers.qemu.disks import Working
from cumulet.drivers.qemu.machine import Format, Image
from cumulet.wire.agent import Claim, Question

GIB = 1 << 30
#: What has bytes.
_DISKS = frozenset({"volume", "snapshot", "backup", "source"})
#: Seconds in which a guest that uses a volume must have made it larger, and the pause between two looks.
EXTEND_TIME = 60.0
_PAUSE = 0.5
#: The cause of what cannot be done while a guest has the file open.
IN_USE = "in use"


class Record(msgspec.Struct, frozen=True):
    """What a whole disk is."""

    format: Format
    size: int


class VolumeFiles:
    """The driver of a volume back end's agent."""

    kinds = _DISKS | {"export"}

    def __init__(
        self, directory: Path, working: Working, bytes_of: BytesOf, user: program.User | None
    ) -> None:
        self.directory = directory
        self._lock = working
        self._bytes_of = bytes_of
        self._user = user
        # A volume is a copy of its own, so nothing is gained by keeping the image that it was made from.
        self._images = Cache(directory, seconds=0)
        #: Held while a volume is copied, made larger or given to a guest.
        self._locks: dict[str, asyncio.Lock] = {}
        for kind in self.kinds:
            (directory / kind).mkdir(exist_ok=True, mode=0o700)

    def watch(self, changed: Callable[[str], None]) -> None:
        """Files do not change by themselves."""

    # --- what is there ---

    async def observe(self) -> Mapping[str, Thing]:
        found = {}
        for kind, name in listed(self.directory, self.kinds):
            thing = await self.look(name.lstrip("."), kind)
            if thing is not None:
                found[name.lstrip(".")] = thing
        self._images.prune(())
        return found

    async def look(self, id: str, kind: str) -> Thing | None:
        if not (self.directory / kind).is_dir():
            raise Unknown(f"the directory of the {kind}s is not there")
        home = self.directory / kind / id
        if kind == "export":
            found = files.read_json(home)
            half = home.exists() or home.with_name(f".{id}").exists()
            return Thing(kind, found or {}) if found or half else None
        if not home.is_dir():
            return None
        record = self._record(home)
        if record is not None:
            return Thing(kind, _facts(home, record, kind))
        # It was whole, and its bytes are gone; or it never was.
        return None if (home / "disk.json").exists() else Thing(kind)

    def _record(self, home: Path) -> Record | None:
        """What is known of a disk; None if it is not whole."""
        found = files.read_json(home / "disk.json")
        return msgspec.convert(found, Record) if found is not None and (home / "disk").exists() else None

    def _whole(self, claim: Claim, *kinds: str) -> tuple[str, Path, Record]:
        """The disk that the claim needs: its id, its directory, what it is. Raises Failed."""
        need = next((need for need in claim.needs if need.kind in kinds), None)
        if need is None:
            raise Failed(f"nothing says what the {claim.kind} is made from", fatal=True)
        home = self.directory / need.kind / need.id
        record = self._record(home)
        if record is None:
            raise Failed(f"the {need.kind} that the {claim.kind} is made from is not whole")
        return need.id, home, record

    @contextlib.contextmanager
    def _working(self, id: str) -> Iterator[int]:
        try:
            with self._lock(id) as lock:
                yield lock
        except BlockingIOError:
            raise Failed("something works on it already") from None

    # --- making and removing ---

    async def ensure(self, claim: Claim) -> Thing:
        home = self.directory / claim.kind / claim.id
        try:
            if claim.kind == "export":
                return await self._export(claim, home)
            record = self._record(home)
            if record is None and claim.made:
                raise Failed(f"the {claim.kind} was whole once and is not any more: its data is damaged")
            if record is None:
                home.mkdir(exist_ok=True, mode=0o700)
                record = await self._make(claim, home)
                await in_thread(_sync, home)
                files.write_json(home / "disk.json", msgspec.to_builtins(record))
                await in_thread(_sync, home)
            elif claim.kind == "volume":
                record = await self._extend(claim, home, record)
        except OSError as error:
            raise files.why(error, f"the {claim.kind}", "the volume back end") from error
        return Thing(claim.kind, _facts(home, record, claim.kind))

    async def _export(self, claim: Claim, path: Path) -> Thing:
        id, home, record = self._whole(claim, "volume")
        async with self._locked(id):  # nobody reads the file when the guest opens it
            facts = {"driver": "file", "path": str(home / "disk"), "format": record.format}
            files.write_json(path, facts)
        return Thing("export", facts)

    @contextlib.asynccontextmanager
    async def _locked(self, id: str) -> AsyncIterator[None]:
        async with self._locks.setdefault(id, asyncio.Lock()):
            yield

    async def _make(self, claim: Claim, home: Path) -> Record:
        """Make what is not whole, from the beginning."""
        disk = home / "disk"
        if claim.kind == "source":
            id, origin, record = self._whole(claim, *_DISKS)
            return await self._copy(claim, id, origin, record, disk, _format(claim), record.size)
        if claim.kind in ("snapshot", "backup"):
            id, origin, record = self._whole(claim, *_DISKS)
            return await self._copy(claim, id, origin, record, disk, "qcow2", record.size)
        size = int(claim.spec["size_gb"]) * GIB
        source = claim.spec.get("source")
        if not source:
            files.blank(disk, "qcow2", size, self._user)
            return Record("qcow2", size)
        if "image" in source:
            return await self._from_image(claim, source, disk, size)
        id, origin, record = self._whole(claim, *_DISKS)
        if record.size > size:
            raise Failed(f"a volume of {size} bytes cannot have a copy of {record.size} bytes", fatal=True)
        return await self._copy(claim, id, origin, record, disk, "qcow2", size)

    async def _copy(
        self, claim: Claim, id: str, origin: Path, record: Record, disk: Path, format: Format, size: int
    ) -> Record:
        async with self._locked(id):
            target = files.blank(disk, format, size, self._user)
            with self._working(claim.id) as lock, _says_in_use("copied"):
                image = Image(str(origin / "disk"), record.format)
                await files.convert(image, target, record.size, user=self._user, lock=lock)
        return Record(format, size)

    async def _from_image(self, claim: Claim, image: Mapping[str, Any], disk: Path, size: int) -> Record:
        need = next((need.id for need in claim.needs if need.kind == "file"), None)

        def read() -> AsyncIterator[bytes]:
            if need is None:
                raise Failed("nothing says where the image's bytes are", fatal=True)
            return self._bytes_of(claim.id, need)

        try:
            async with self._images.base({**image, "id": image["image"]}, read) as base:
                if base.virtual_size > size:
                    raise Failed(
                        f"the image needs {base.virtual_size} bytes, and the volume has {size}", fatal=True
                    )
                target = files.blank(disk, "qcow2", size, self._user)
                with self._working(claim.id) as lock:
                    await files.convert(base, target, base.virtual_size, user=self._user, lock=lock)
        finally:
            self._images.prune(())
        return Record("qcow2", size)

    async def _extend(self, claim: Claim, home: Path, record: Record) -> Record:
        """Make it larger, or wait until the guest that uses it has; it is never made smaller."""
        size = int(claim.spec["size_gb"]) * GIB
        if size <= record.size:
            return record
        loop = asyncio.get_running_loop()
        until = loop.time() + EXTEND_TIME
        async with self._locked(claim.id):
            while _virtual_size(home / "disk") < size:
                try:
                    await self._resize(claim.id, home / "disk", size)
                except Failed as failed:
                    if failed.cause != IN_USE:
                        raise
                    if loop.time() >= until:
                        raise Failed(
                            f"a guest uses the volume, and has not made it larger within {EXTEND_TIME:g} seconds",
                            cause=IN_USE,
                        ) from None
                    await asyncio.sleep(_PAUSE)
            record = Record(record.format, size)
            files.write_json(home / "disk.json", msgspec.to_builtins(record))
        return record

    async def _resize(self, id: str, disk: Path, size: int) -> None:
        with self._working(id) as lock, files.opened(disk, os.O_RDWR) as fd:
            files.check(fd, "qcow2")
            argv = ["qemu-img", "resize", "-q", files.named(files.node("qcow2", fd)), str(size)]
            with _says_in_use("made larger"):
                await program.run(argv, who=self._user, lock=lock, fds=(fd,))

    async def remove(self, claim: Claim) -> None:
        home = self.directory / claim.kind / claim.id
        if claim.kind == "export":
            for path in (home, home.with_name(f".{claim.id}")):
                path.unlink(missing_ok=True)
            return
        # Half a removal must not look like a whole disk.
        with contextlib.suppress(FileNotFoundError):
            (home / "disk.json").unlink()
        with contextlib.suppress(FileNotFoundError):
            await in_thread(shutil.rmtree, home)
        self._locks.pop(claim.id, None)

    # --- bytes ---

    async def answer(self, question: Question) -> AsyncIterator[bytes]:
        home = self.directory / "source" / question.claim
        if question.name != "read" or self._record(home) is None:
            raise Failed(f"this back end cannot answer {question.name}: there is no such copy")
        return of_file(home / "disk", int(question.args.get("offset", 0)), question.args.get("length"))


def _facts(home: Path, record: Record, kind: str) -> dict[str, Any]:
    found: dict[str, Any] = {"format": record.format, "virtual_size": record.size}
    if kind == "source":
        return {**found, "size": (home / "disk").stat().st_size}
    return {**found, "size_gb": -(-record.size // GIB)}


def _format(claim: Claim) -> Format:
    """The format of a copy for an image."""
    format = claim.spec.get("format")
    if format == "qcow2":
        return "qcow2"
    if format == "raw":
        return "raw"
    raise Failed(f"a copy of the format {format} cannot be made here; qcow2 and raw can", fatal=True)


@contextlib.contextmanager
def _says_in_use(what: str) -> Iterator[None]:
    """Say it in the user's words when QEMU's lock keeps a program from opening a file."""
    try:
        yield
    except Failed as failed:
        if "another process using" not in failed.message and " lock" not in failed.message:
            raise
        raise Failed(
            f"a guest uses the volume, and while it runs the volume cannot be {what}", cause=IN_USE
        ) from failed


def _virtual_size(disk: Path) -> int:
    """The size that the file's header tells: whoever has it open may have changed it."""
    with files.opened(disk, os.O_RDONLY) as fd:
        return int(struct.unpack(">Q", os.pread(fd, 8, 24))[0])


def _sync(home: Path) -> None:
    """After this a power failure takes nothing of it away."""
    for path in (*home.iterdir(), home, home.parent):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
