"""The image store on a directory: the bytes of images as files.

    DIRECTORY/file/CLAIM         the bytes, whole
    DIRECTORY/file/CLAIM.json    what is known of them: size, checksums, what an inspection found
    DIRECTORY/file/CLAIM.part    bytes that are still coming

The claim says where the bytes come from: an upload, an address on the web, or a claim that it needs.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import os
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from cumulet.drivers import inspection
from cumulet.drivers.base import BytesOf, Failed, Thing, Unknown
from cumulet.drivers.blocks import ended, gathered, in_thread, of_file
from cumulet.drivers.download import Rules, fetch
from cumulet.wire.agent import Claim, Question


class ImageFiles:
    """The one driver of an image store's agent."""

    kinds = frozenset({"file"})

    def __init__(
        self, directory: Path, bytes_of: BytesOf, *, limit: int = 1 << 40, web: Rules | None = None
    ) -> None:
        self.directory = directory / "file"
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._bytes_of = bytes_of
        self._limit = limit
        self._web = web or Rules()

    def watch(self, changed: Callable[[str], None]) -> None:
        """Files do not change by themselves."""

    async def observe(self) -> Mapping[str, Thing]:
        # In a thread: there may be many of them, and on a slow disk.
        return await asyncio.to_thread(self._all)

    def _all(self) -> dict[str, Thing]:
        try:
            ids = {name.split(".", 1)[0] for name in os.listdir(self.directory)}
        except OSError as error:
            raise Unknown(f"the image store cannot be seen: {error}") from error
        found = {id: self._look(id) for id in ids}
        for id in [id for id, thing in found.items() if thing is None]:
            # Its bytes vanished; what is known of them is of no use.
            (self.directory / id).with_suffix(".json").unlink(missing_ok=True)
        return {id: thing for id, thing in found.items() if thing is not None}

    async def look(self, id: str, kind: str) -> Thing | None:
        return self._look(id)

    def _look(self, id: str) -> Thing | None:
        path = self.directory / id
        if not self.directory.is_dir():
            raise Unknown("the image store's directory is not there")
        # First, for it is renamed to the other.
        partial = path.with_suffix(".part").exists()
        if path.exists():
            try:
                return Thing("file", msgspec.json.decode(path.with_suffix(".json").read_bytes()))
            except (OSError, msgspec.DecodeError):
                return Thing("file")
        return Thing("file", {"partial": True}) if partial else None

    async def ensure(self, claim: Claim) -> Thing:
        there = await self.look(claim.id, "file")
        if there is not None and "size" in there.facts:
            return there
        return Thing("file", await self._receive(claim, self._origin(claim)))

    def _origin(self, claim: Claim) -> AsyncIterator[bytes]:
        need = next((need.id for need in claim.needs), None)
        if need is not None:
            return self._bytes_of(claim.id, need)
        if claim.spec.get("upload") is not None:
            return self._bytes_of(claim.id, claim.id)
        if claim.spec.get("url") is not None:
            return fetch(claim.spec["url"], self._web)
        raise Failed("nothing says where the image's bytes come from", fatal=True)

    async def _receive(self, claim: Claim, pieces: AsyncIterator[bytes]) -> dict[str, Any]:
        path = self.directory / claim.id
        part = path.with_suffix(".part")
        limit = claim.spec.get("limit")
        try:
            limit = self._limit if limit is None else min(limit, self._limit)
            with part.open("w+b") as file, contextlib.closing(_Taken(file, limit)) as taken:
                await _take(pieces, taken)
                facts = await in_thread(taken.finish)
            _write(path.with_suffix(".json"), msgspec.json.encode(facts))
            os.replace(part, path)
            _sync(self.directory)
        except OSError as error:
            _discard(part)
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            raise Failed(
                "the image store is full" if full else f"the image store cannot write: {error.strerror}",
                cause="full" if full else "",
            ) from error
        except BaseException:
            _discard(part)
            raise
        return facts

    async def remove(self, claim: Claim) -> None:
        path = self.directory / claim.id
        for one in (path.with_suffix(".part"), path.with_suffix(".json"), path):
            with contextlib.suppress(FileNotFoundError):
                one.unlink()

    async def answer(self, question: Question) -> AsyncIterator[bytes]:
        if question.name != "read":
            raise Failed(f"an image store does not answer {question.name}")
        path = self.directory / question.claim
        if not path.exists():
            raise Failed("the image's bytes are not here")
        return of_file(path, int(question.args.get("offset", 0)), question.args.get("length"))


class _Taken:
    """What has been taken in of an image so far."""

    def __init__(self, file: BinaryIO, limit: int) -> None:
        self.file = file
        self.limit = limit
        self.size = 0
        self._head = b""
        self._looked = False
        self._md5 = hashlib.md5(usedforsecurity=False)
        self._sha512 = hashlib.sha512()
        self._side = ThreadPoolExecutor(1, "md5")

    def close(self) -> None:
        """Nothing more is taken."""
        self._side.shutdown()

    def block(self, block: bytes) -> None:
        """Write a block. Raises Failed for too many bytes, and for what must not be opened by anybody."""
        self.size += len(block)
        if self.size > self.limit:
            raise Failed(
                f"the image is larger than the {self.limit} bytes that may be taken",
                fatal=True,
                cause="large",
            )
        if not self._looked:
            self._head += block[: inspection.HEAD_SIZE]
            if len(self._head) >= inspection.HEAD_SIZE:
                # What is hostile is refused as soon as it can be seen, not after a terabyte of it.
                self._inspect(lambda offset, length: self._head[offset : offset + length], whole=False)
                self._looked = True
        # Hashing is what takes the time of an upload, so the two sums are made side by side.
        md5 = self._side.submit(self._md5.update, block)
        self._sha512.update(block)
        self.file.write(block)
        md5.result()

    def finish(self) -> dict[str, Any]:
        """The bytes are whole and on the disk: what is known of them. Raises Failed as ``block`` does."""
        self.file.flush()
        found = self._inspect(self._read, whole=True)
        os.fsync(self.file.fileno())
        return {
            "size": self.size,
            "checksum": self._md5.hexdigest(),
            "sha512": self._sha512.hexdigest(),
            "inspected": found.format,
            "virtual_size": found.virtual_size,
        }

    def _read(self, offset: int, length: int) -> bytes:
        # A hostile header may point anywhere; beyond the end there is nothing.
        return os.pread(self.file.fileno(), length, offset) if offset < self.size else b""

    def _inspect(self, read: inspection.Read, *, whole: bool) -> inspection.Found:
        try:
            return inspection.inspect(read, self.size, whole=whole)
        except inspection.Unsafe as unsafe:
            raise Failed(f"the image is refused: {unsafe}", fatal=True, cause="unsafe") from None


async def _take(pieces: AsyncIterator[bytes], taken: _Taken) -> None:
    """Take all pieces. A block is hashed and written in a thread while the next one comes in."""
    writing: asyncio.Task[None] | None = None
    try:
        async for block in gathered(pieces):
            if writing is not None:
                await writing
            writing = asyncio.create_task(in_thread(taken.block, block))
        if writing is not None:
            await writing
    finally:
        if writing is not None:
            await ended(writing)
        close = getattr(pieces, "aclose", None)
        if close is not None:
            await close()


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _discard(part: Path) -> None:
    """What failed gives its room back at once; should that fail, the ledger has it removed."""
    with contextlib.suppress(OSError):
        part.unlink()
