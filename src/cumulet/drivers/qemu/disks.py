"""Disks that live on this host, and copies of them.

    DIRECTORY/disk/CLAIM/disk        the bytes: qcow2 upon a cached image, or raw
    DIRECTORY/disk/CLAIM/disk.json   what it is; written last, so a disk without it is not whole
    DIRECTORY/source/CLAIM/copy      a copy, whole once copy.json is there

A disk that is made is never made again: what it was made from may be gone.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import os
import shutil
import struct
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec

from cumulet.drivers import program, qcow2
from cumulet.drivers.base import BytesOf, Failed, Thing, Unknown, listed
from cumulet.drivers.blocks import in_thread, of_file
from cumulet.drivers.qemu import fat, files
from cumulet.drivers.qemu.cache import Base, Cache
from cumulet.drivers.qemu.machine import Drive, Format, Image
from cumulet.wire.agent import Claim, Question

MIB = 1 << 20
#: File systems that an ephemeral disk can be given; the first one when nothing is said.
FILE_SYSTEMS = ("ext4", "ext3", "ext2")
PAGE = 4096
#: A copy is begun anew this often, when its guest is stopped or started meanwhile.
_ATTEMPTS = 3


class Record(msgspec.Struct, frozen=True):
    """What a whole disk is."""

    format: Format
    size: int
    #: The cached image below it.
    key: str | None = None
    base_format: Format = "raw"
    readonly: bool = False


#: Locks a claim while the block runs, and yields the file for helpers to inherit.
Working = Callable[[str], contextlib.AbstractContextManager[int]]


class Live(Protocol):
    """Guests that run: their disks are copied by QEMU itself, at one point in time."""

    async def copy(self, disk: str, source: str, target: Image) -> bool:
        """Copy a disk of a running guest into a file; False if no running guest has it. Raises Failed."""

    async def drop_copy(self, source: str) -> None:
        """Give up a copy that a guest may still be writing."""


class Disks:
    """The driver of disks and their copies."""

    kinds = frozenset({"disk", "source"})

    def __init__(
        self, directory: Path, working: Working, bytes_of: BytesOf, cache: Cache, user: program.User | None
    ) -> None:
        self.directory = directory
        self.cache = cache
        self.user = user
        self.live: Live | None = None
        self._lock = working
        self._bytes_of = bytes_of
        #: Held while a disk is read, or while its guest is started.
        self._locks: dict[str, asyncio.Lock] = {}
        for kind in self.kinds:
            (directory / kind).mkdir(exist_ok=True, mode=0o700)

    def watch(self, changed: Callable[[str], None]) -> None:
        """Disks do not change by themselves."""

    # --- what is there ---

    async def observe(self) -> Mapping[str, Thing]:
        found = {}
        for kind, name in listed(self.directory, self.kinds):
            thing = await self.look(name, kind)
            if thing is not None:
                found[name] = thing
        self._prune()
        return found

    async def look(self, id: str, kind: str) -> Thing | None:
        home = self.directory / kind / id
        if not home.is_dir():
            if not (self.directory / kind).is_dir():
                raise Unknown(f"the directory of the {kind}s is not there")
            return None
        if kind == "source":
            return Thing(kind, files.read_json(home / "copy.json") or {})
        record = self.record(id)
        return Thing(kind, self._facts(id, record) if record else {})

    def record(self, id: str) -> Record | None:
        """What is known of a disk; None if it is not whole."""
        found = files.read_json(self.directory / "disk" / id / "disk.json")
        return msgspec.convert(found, Record) if found is not None and self._path(id).exists() else None

    def _facts(self, id: str, record: Record) -> dict[str, Any]:
        return {"path": str(self._path(id)), "format": record.format, "virtual_size": record.size}

    def _path(self, id: str) -> Path:
        return self.directory / "disk" / id / "disk"

    def drive(self, id: str, part: str, *, first: bool = True) -> Drive:
        """A disk for a guest, which boots from the first one if that is a root. Raises Failed if it is not whole."""
        record = self.record(id)
        if record is None:
            raise Failed(f"the disk {part} is not whole")
        return Drive(
            id=part,
            image=Image(str(self._path(id)), record.format),
            base=Image(str(self.cache.path(record.key)), record.base_format) if record.key else None,
            readonly=record.readonly,
            boot=1 if first and part in ("root", "rescue") else None,
        )

    @contextlib.asynccontextmanager
    async def in_use(self, ids: list[str]) -> AsyncIterator[None]:
        """Nobody else reads or opens the disks while the block runs."""
        async with contextlib.AsyncExitStack() as stack:
            for id in sorted(ids):
                await stack.enter_async_context(self._locks.setdefault(id, asyncio.Lock()))
            yield

    # --- making and removing ---

    async def ensure(self, claim: Claim) -> Thing:
        home = self.directory / claim.kind / claim.id
        there = await self.look(claim.id, claim.kind)
        if there is not None and there.facts:
            return there
        home.mkdir(exist_ok=True, mode=0o700)
        try:
            if claim.kind == "source":
                return Thing("source", await self._copy(claim, home))
            record = await self._make(claim, home / "disk")
        except OSError as error:
            raise files.why(error, f"the {claim.kind}", "this host's disk") from error
        return Thing("disk", self._facts(claim.id, record))

    async def remove(self, claim: Claim) -> None:
        home = self.directory / claim.kind / claim.id
        if claim.kind == "source" and self.live is not None:
            await self.live.drop_copy(claim.id)
        for name in ("disk.json", "copy.json"):
            with contextlib.suppress(FileNotFoundError):
                # Half a removal must not look like something whole.
                (home / name).unlink()
        with contextlib.suppress(FileNotFoundError):
            await in_thread(shutil.rmtree, home)
        self._locks.pop(claim.id, None)
        if claim.kind == "disk":
            self._prune()

    def _prune(self) -> None:
        records = [self.record(id) for id in os.listdir(self.directory / "disk")]
        self.cache.prune({record.key for record in records if record is not None and record.key})

    async def _make(self, claim: Claim, path: Path) -> Record:
        spec = claim.spec
        if "image" in spec:
            return await self._from_image(claim, path)
        if "copy" in spec:
            return await self._from_copy(claim, path)
        if "files" in spec:
            return _whole(path, await in_thread(_config_drive, spec["files"], path, self.user))
        if "size_mb" not in spec:
            raise Failed("nothing says what the disk is made from", fatal=True)
        size = int(spec["size_mb"]) * MIB
        format = spec.get("format")
        if format == "swap":
            files.write(path, _swap(size), size, self.user)
        elif format is None or format in FILE_SYSTEMS:
            await self._ephemeral(claim, path, size, format or FILE_SYSTEMS[0])
        else:
            raise Failed(
                f"a disk cannot be given a file system {format} on this host; {', '.join(FILE_SYSTEMS)} can be had",
                fatal=True,
            )
        return _whole(path, Record("raw", size))

    async def _from_image(self, claim: Claim, path: Path) -> Record:
        image = claim.spec["image"]
        need = next((need.id for need in claim.needs if need.kind == "file"), None)

        def read() -> AsyncIterator[bytes]:
            if need is None:
                raise Failed("nothing says where the image's bytes are", fatal=True)
            return self._bytes_of(claim.id, need)

        async with self.cache.base(image, read) as base:
            size = _size(base, int(claim.spec.get("size_mb") or 0) * MIB)
            # The name is for people: QEMU is told of both files, and follows no header.
            backing = f"../../cache/{base.key}"
            files.write(path, qcow2.overlay(size, backing, base.format), 0, self.user)
            return _whole(path, Record("qcow2", size, base.key, base.format))

    async def _from_copy(self, claim: Claim, path: Path) -> Record:
        """A disk that another host had: its copy is read from there, and written into one that is as large as asked."""
        need = next((need for need in claim.needs if need.kind == "source"), None)
        if need is None or need.facts.get("format") != "qcow2":
            raise Failed("nothing says where the copy of the disk is", fatal=True)
        held = int(need.facts["virtual_size"])
        size = max(held, int(claim.spec.get("size_mb") or 0) * MIB)
        came = path.with_name("came")
        files.write(came, b"", 0, self.user)
        left = 2 * held + (64 << 20)  # a qcow2 file is hardly larger than its disk
        with files.opened(came, os.O_WRONLY) as fd:
            async for piece in self._bytes_of(claim.id, need.id):
                left -= len(piece)
                if left < 0:
                    raise Failed("the copy of the disk is larger than the disk")
                await in_thread(_write_all, fd, piece)
        files.blank(path, "qcow2", size, self.user)
        with self._working(claim.id) as lock:
            await files.convert(
                Image(str(came), "qcow2"), Image(str(path), "qcow2"), held, user=self.user, lock=lock
            )
        came.unlink()
        return _whole(path, Record("qcow2", size, readonly=bool(need.facts.get("readonly"))))

    async def _ephemeral(self, claim: Claim, path: Path, size: int, format: str) -> None:
        files.write(path, b"", size, self.user)
        with self._working(claim.id) as lock, files.opened(path, os.O_RDWR) as fd:
            label = claim.part[:16]
            argv = ["mke2fs", "-q", "-F", "-t", format, "-L", label, "-m", "0", f"/proc/self/fd/{fd}"]
            await program.run(argv, who=self.user, lock=lock, fds=(fd,), seconds=files.seconds(size))

    @contextlib.contextmanager
    def _working(self, id: str) -> Iterator[int]:
        try:
            with self._lock(id) as lock:
                yield lock
        except BlockingIOError:
            raise Failed("something works on it already") from None

    # --- copies ---

    async def _copy(self, claim: Claim, home: Path) -> dict[str, Any]:
        disk = next((need for need in claim.needs if need.kind == "disk"), None)
        record = self.record(disk.id) if disk is not None else None
        if disk is None or record is None:
            raise Failed("the disk that is to be copied is not here", fatal=True)
        format = claim.spec.get("format")
        if format not in ("qcow2", "raw"):
            raise Failed(f"a copy of the format {format} cannot be made; qcow2 and raw can", fatal=True)
        target = Image(str(home / "copy"), "qcow2" if format == "qcow2" else "raw")
        for attempt in range(_ATTEMPTS):
            if self.live is not None:
                await self.live.drop_copy(claim.id)
            files.blank(home / "copy", target.format, record.size, self.user)
            try:
                if self.live is None or not await self.live.copy(disk.id, claim.id, target):
                    await self._convert(claim.id, disk.id, record, target)
                break
            except Failed as failed:
                # Its guest was stopped while it copied, or started.
                if failed.fatal or failed.cause == "full" or attempt == _ATTEMPTS - 1:
                    raise
        facts: dict[str, Any] = {"of": disk.id, "format": target.format, "virtual_size": record.size}
        facts["readonly"] = record.readonly
        facts["size"] = (home / "copy").stat().st_size
        files.write_json(home / "copy.json", facts)
        return facts

    async def _convert(self, id: str, disk: str, record: Record, target: Image) -> None:
        """Copy a disk that no guest has open."""
        drive = self.drive(disk, "root")
        async with self.in_use([disk]):
            with self._working(id) as lock:
                await files.convert(
                    drive.image, target, record.size, base=drive.base, user=self.user, lock=lock
                )

    async def answer(self, question: Question) -> AsyncIterator[bytes]:
        home = self.directory / "source" / question.claim
        if question.name != "read" or not (home / "copy.json").exists():
            raise Failed(f"this host cannot answer {question.name}: there is no such copy")
        return of_file(home / "copy", int(question.args.get("offset", 0)), question.args.get("length"))


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def _whole(path: Path, record: Record) -> Record:
    """Note that the disk is whole."""
    files.write_json(path.with_suffix(".json"), msgspec.to_builtins(record))
    return record


def _size(base: Base, wanted: int) -> int:
    """The size of a disk upon an image. Raises Failed if the image is larger than what is wanted."""
    if wanted and base.virtual_size > wanted:
        raise Failed(
            f"the image needs a disk of {base.virtual_size} bytes, and the flavor's has {wanted}", fatal=True
        )
    size = wanted or base.virtual_size
    return -(-size // 512) * 512


def _swap(size: int) -> bytes:
    """The first page of a swap area of the kernel's newer form."""
    head = struct.pack("<1024xIII16s16s", 1, size // PAGE - 1, 0, uuid.uuid4().bytes, b"swap")
    return head.ljust(PAGE - 10, b"\0") + b"SWAPSPACE2"


def _config_drive(contents: Mapping[str, str], path: Path, user: program.User | None) -> Record:
    """A disk with files in it, whose contents are given in base64."""
    try:
        data, size = fat.build({name: base64.b64decode(text) for name, text in contents.items()}, "config-2")
    except (ValueError, binascii.Error) as error:
        raise Failed(f"the config drive cannot be made: {error}", fatal=True) from error
    files.write(path, data, size, user)
    return Record("raw", size, readonly=True)
