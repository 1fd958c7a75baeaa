"""Bytes in blocks: from a stream, from a file, and worked on in threads that end before their caller does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

#: Bytes that are hashed, written or read in one go.
BLOCK = 1 << 20


async def in_thread(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run the function in a thread. Whoever is cancelled meanwhile waits until the thread has ended.

    So nothing writes to a file any more when its claim is said to be gone.
    """
    running = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await ended(running)
        raise


async def ended(work: asyncio.Future[Any]) -> None:
    """Return once the work has ended, how often one is cancelled meanwhile, and then pass that on."""
    cancelled = False
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError:
            cancelled = True
    if not work.cancelled():
        work.exception()
    if cancelled:
        raise asyncio.CancelledError


async def gathered(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
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


async def of_file(path: Path, offset: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
    """The bytes of a file in blocks, from ``offset``, at most ``length``."""
    with path.open("rb") as file:
        file.seek(offset)
        left = length if length is not None else 1 << 62
        while left > 0:
            block = await asyncio.to_thread(file.read, min(BLOCK, left))
            if not block:
                return
            left -= len(block)
            yield block
