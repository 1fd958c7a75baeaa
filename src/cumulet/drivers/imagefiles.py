"""The image store on a directory: the bytes of images as files.

    DIRECTORY/file/CLAIM         the bytes, whole
    DIRECTORY/file/CLAIM.json    what is known of them: size, checksums, what an inspection found
    DIRECTORY/file/CLAIM.part    bytes that are still coming

The claim says where the bytes come from: an upload, or a claim that it needs.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from cumulet.drivers import qcow2
from cumulet.drivers.base import BytesOf, Failed, Thing, Unknown
from cumulet.wire.agent import Claim, Question

#: Bytes that are hashed and written in one go; from this size on in a thread.
BLOCK = 1 << 20


class ImageFiles:
    """The one driver of an image store's agent."""

    kinds = frozenset({"file"})

    def __init__(self, directory: Path, bytes_of: BytesOf, *, limit: int = 1 << 40) -> None:
        self.directory = directory / "file"
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._bytes_of = bytes_of
        self._limit = limit

    def watch(self, changed: Callable[[str], None]) -> None:
        """Files do not change by themselves."""

    async def observe(self) -> Mapping[str, Thing]:
        try:
            ids = {name.split(".", 1)[0] for name in os.listdir(self.directory)}
        except OSError as error:
            raise Unknown(f"the image store cannot be seen: {error}") from error
        found = {id: await self.look(id, "file") for id in ids}
        return {id: thing for id, thing in found.items() if thing is not None}

    async def look(self, id: str, kind: str) -> Thing | None:
        path = self.directory / id
        if not self.directory.is_dir():
            raise Unknown("the image store's directory is not there")
        if path.exists():
            try:
                return Thing("file", msgspec.json.decode(path.with_suffix(".json").read_bytes()))
            except (OSError, msgspec.DecodeError):
                return Thing("file")
        partial = path.with_suffix(".part").exists() or path.with_suffix(".json").exists()
        return Thing("file", {"partial": True}) if partial else None

    async def ensure(self, claim: Claim) -> Thing:
        there = await self.look(claim.id, "file")
        if there is not None and "size" in there.facts:
            return there
        need = next((need.id for need in claim.needs), claim.id)
        if need == claim.id and claim.spec.get("upload") is None:
            raise Failed("nothing says where the image's bytes come from", fatal=True)
        facts = await self._receive(claim, self._bytes_of(claim.id, need))
        return Thing("file", facts)

    async def _receive(self, claim: Claim, pieces: AsyncIterator[bytes]) -> dict[str, Any]:
        path = self.directory / claim.id
        part = path.with_suffix(".part")
        sums = hashlib.md5(usedforsecurity=False), hashlib.sha512()
        size = 0
        head = b""
        try:
            with part.open("wb") as file:

                def keep(block: bytes) -> None:
                    for one in sums:
                        one.update(block)
                    file.write(block)

                async for block in _blocks(pieces):
                    if len(head) < qcow2.HEAD_SIZE:
                        head += block[: qcow2.HEAD_SIZE]
                        self._refuse_unsafe(head)
                    size += len(block)
                    if size > self._limit:
                        raise Failed(f"the image is larger than {self._limit} bytes", fatal=True)
                    if len(block) >= BLOCK:
                        await asyncio.to_thread(keep, block)
                    else:
                        keep(block)
                file.flush()
                await asyncio.to_thread(os.fsync, file.fileno())
        except OSError as error:
            raise Failed(f"the image store cannot write: {error.strerror}") from error
        facts = {
            "size": size,
            "checksum": sums[0].hexdigest(),
            "sha512": sums[1].hexdigest(),
            **self._inspect(head, size),
        }
        path.with_suffix(".json").write_bytes(msgspec.json.encode(facts))
        os.replace(part, path)
        return facts

    @staticmethod
    def _refuse_unsafe(head: bytes) -> None:
        try:
            qcow2.inspect(head)
        except ValueError:
            return
        except qcow2.Unsafe as unsafe:
            raise Failed(f"the image is refused: {unsafe}", fatal=True) from None

    @staticmethod
    def _inspect(head: bytes, size: int) -> dict[str, Any]:
        """What the bytes are; a format that is not known here is opened by nobody."""
        try:
            return {"inspected": "qcow2", "virtual_size": qcow2.inspect(head)}
        except ValueError:
            pass
        for magic, name in (
            (b"KDMV", "vmdk"),
            (b"# Disk", "vmdk"),
            (b"vhdxfile", "vhdx"),
            (b"conectix", "vhd"),
        ):
            if head.startswith(magic):
                return {"inspected": name, "virtual_size": None}
        return {"inspected": "raw", "virtual_size": size}

    async def remove(self, claim: Claim) -> None:
        path = self.directory / claim.id
        for one in (path.with_suffix(".part"), path, path.with_suffix(".json")):
            with contextlib.suppress(FileNotFoundError):
                one.unlink()

    async def answer(self, question: Question) -> AsyncIterator[bytes]:
        if question.name != "read":
            raise Failed(f"an image store does not answer {question.name}")
        path = self.directory / question.claim
        if not path.exists():
            raise Failed("the image's bytes are not here")
        return _file(path, int(question.args.get("offset", 0)), question.args.get("length"))


async def _blocks(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Pieces gathered into blocks of about BLOCK bytes."""
    gathered: list[bytes] = []
    size = 0
    async for piece in pieces:
        gathered.append(piece)
        size += len(piece)
        if size >= BLOCK:
            yield b"".join(gathered)
            gathered, size = [], 0
    if gathered:
        yield b"".join(gathered)


async def _file(path: Path, offset: int, length: int | None) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        file.seek(offset)
        left = length if length is not None else 1 << 62
        while left > 0:
            block = await asyncio.to_thread(file.read, min(BLOCK, left))
            if not block:
                return
            left -= len(block)
            yield block
