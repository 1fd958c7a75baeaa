"""Images that this host has copied, for disks to be made upon.

    DIRECTORY/cache/KEY      an image's bytes, whole and verified, read-only
    DIRECTORY/cache/.KEY     bytes that are still coming

KEY is the digest of the bytes, so two images with the same bytes are one file. A cached image is nobody's claim: it
stays while a disk is made upon it, and ``seconds`` longer.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import os
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from cumulet.drivers import inspection
from cumulet.drivers.base import Failed
from cumulet.drivers.blocks import gathered, in_thread
from cumulet.drivers.qemu.machine import Format, Image

#: What the bytes of an image may turn out to be, by the format that it says it has.
_TAKEN: Mapping[str, frozenset[str]] = {
    "qcow2": frozenset({"qcow2"}),
    "raw": frozenset({"raw", "gpt", "iso"}),
}
_DIGEST = re.compile(r"[0-9a-f]{128}\Z")
_NAME = re.compile(r"[0-9A-Za-z-]{1,64}\Z")


class Base(Image, frozen=True):
    """An image that a disk can be made upon."""

    key: str
    virtual_size: int


class Cache:
    """The images of one host."""

    def __init__(self, directory: Path, seconds: float) -> None:
        self.directory = directory / "cache"
        self.directory.mkdir(exist_ok=True, mode=0o700)
        self._seconds = seconds
        self._locks: dict[str, asyncio.Lock] = {}
        self._busy: Counter[str] = Counter()

    @contextlib.asynccontextmanager
    async def base(
        self, image: Mapping[str, Any], read: Callable[[], AsyncIterator[bytes]]
    ) -> AsyncIterator[Base]:
        """The image, here and verified; it stays at least while the block runs. ``read`` gets its bytes.

        Raises Failed: fatally for an image that must not be opened, or cannot be used here.
        """
        declared = image.get("format")
        if declared not in _TAKEN:
            raise Failed(
                f"an image of the format {declared} cannot be used by this host; convert it to qcow2 or raw",
                fatal=True,
            )
        key = _key(image)
        self._busy[key] += 1
        try:
            async with self._locks.setdefault(key, asyncio.Lock()):
                if not self.path(key).exists():
                    await self._fetch(key, image, read())
            yield await in_thread(self._inspect, key, "qcow2" if declared == "qcow2" else "raw")
        finally:
            self._busy[key] -= 1
            if not self._busy[key]:
                del self._busy[key]
                self._locks.pop(key, None)

    def path(self, key: str) -> Path:
        return self.directory / key

    async def _fetch(self, key: str, image: Mapping[str, Any], pieces: AsyncIterator[bytes]) -> None:
        part = self.directory / f".{key}"
        digest = hashlib.sha512()
        size = 0
        expected = image.get("size")
        try:
            with part.open("wb") as file:

                def take(block: bytes) -> None:
                    digest.update(block)
                    file.write(block)

                async for block in gathered(pieces):
                    size += len(block)
                    if expected is not None and size > expected:
                        raise Failed(f"the image has more than the {expected} bytes that it is said to have")
                    await in_thread(take, block)
                if expected is not None and size != expected:
                    raise Failed(f"{size} bytes of the image came, and {expected} were expected")
                if image.get("sha512") is not None and digest.hexdigest() != image["sha512"]:
                    raise Failed("the image's bytes are not those that were stored: their digest differs")
                await in_thread(_sync, file.fileno())
            part.chmod(0o444)
            os.replace(part, self.path(key))
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            why = "this host's disk is full" if full else str(error.strerror)
            raise Failed(f"the image cannot be stored: {why}", cause="full" if full else "") from error
        finally:
            with contextlib.suppress(FileNotFoundError):
                part.unlink()
            close = getattr(pieces, "aclose", None)
            if close is not None:
                await close()

    def _inspect(self, key: str, format: Format) -> Base:
        path = self.path(key)
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size

            def read(offset: int, length: int) -> bytes:
                return os.pread(file.fileno(), length, offset) if offset < size else b""

            try:
                found = inspection.inspect(read, size)
            except inspection.Unsafe as unsafe:
                raise Failed(f"the image is refused: {unsafe}", fatal=True, cause="unsafe") from None
        if found.format not in _TAKEN[format]:
            raise Failed(
                f"the image is refused: it is said to be {format} and is {found.format}",
                fatal=True,
                cause="unsafe",
            )
        os.utime(path)
        virtual_size = found.virtual_size if format == "qcow2" else size
        return Base(str(path), format, key, int(virtual_size or 0))

    def prune(self, used: Collection[str]) -> None:
        """Remove what no disk is made upon any more, and has not been for the time that it is kept."""
        before = time.time() - self._seconds
        for key, path in self._files():
            if key in used or key in self._busy:
                if not path.name.startswith("."):
                    os.utime(path)
            elif path.name.startswith(".") or path.stat().st_mtime <= before:
                path.unlink()

    def _files(self) -> Iterator[tuple[str, Path]]:
        for name in os.listdir(self.directory):
            yield name.lstrip("."), self.directory / name


def _key(image: Mapping[str, Any]) -> str:
    digest = image.get("sha512")
    if isinstance(digest, str) and _DIGEST.match(digest):
        return digest
    if not _NAME.match(str(image.get("id"))):
        raise Failed(f"{image.get('id')!r} cannot be an image's id", fatal=True)
    return str(image["id"])


def _sync(fd: int) -> None:
    # A power failure would leave holes in it, and the name would say that it is whole.
    os.fsync(fd)
