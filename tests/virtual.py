"""A whole cloud on one thread, with a clock that jumps: nothing waits, and a seed repeats everything."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import anyio.to_thread

from cumulet.chance import SeededChance
from cumulet.config import Config
from cumulet.db.engine import SqliteDatabase
from cumulet.db.migrate import prepare
from tests.cloud import TestCloud, again, running_cloud

T = TypeVar("T")
_in_thread = anyio.to_thread.run_sync


async def _run_sync(function: Callable[..., T], *args: Any, **more: Any) -> T:
    """Threads would make their own time: on a virtual clock what they do is done at once."""
    if isinstance(asyncio.get_running_loop(), VirtualLoop):
        return function(*args)
    return await _in_thread(function, *args, **more)


anyio.to_thread.run_sync = _run_sync


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock moves only when everybody waits, and then at once to the next timer."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self._idle: list[asyncio.Future[None]] = []

    async def idle(self) -> None:
        """Wait until nobody can go on unless time passes; none passes."""
        waiter: asyncio.Future[None] = self.create_future()
        self._idle.append(waiter)
        await waiter

    def time(self) -> float:
        return self.now

    def _run_once(self) -> None:
        scheduled = self._scheduled  # type: ignore[attr-defined]
        while scheduled and scheduled[0]._cancelled:
            heapq.heappop(scheduled)._scheduled = False
            self._timer_cancelled_count -= 1  # type: ignore[attr-defined]
        if not self._ready and self._idle:  # type: ignore[attr-defined]
            for waiter in self._idle:
                if not waiter.done():
                    waiter.set_result(None)
            self._idle.clear()
        if not self._ready:  # type: ignore[attr-defined]
            if not scheduled:
                raise RuntimeError("everybody waits for ever")
            self.now = max(self.now, scheduled[0]._when)
        super()._run_once()  # type: ignore[misc]

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        """The same for those of asyncio."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future


class LoopChance(SeededChance):
    """Randomness from a seed, time from the loop."""

    def __init__(self, seed: int, loop: VirtualLoop) -> None:
        super().__init__(seed)
        self.loop = loop
        self.start = self.time

    def now(self) -> float:
        return self.start + self.loop.now


@dataclass(frozen=True)
class Saved:
    """A cloud at rest, to begin others with: its database, its agents' directories, and what was noted of it."""

    database: bytes
    files: Mapping[str, bytes | None]
    kept: Mapping[str, Any]


class Stage:
    """Keeps one cloud and its loop over several runs."""

    def __init__(self, directory: Path, config: Config, seed: int = 1, saved: Saved | None = None) -> None:
        self.loop = VirtualLoop()
        self.chance = LoopChance(seed, self.loop)
        self.directory = directory
        self.db = SqliteDatabase(None, self.chance)
        if saved is None:
            prepare(self.db)
            self._context = running_cloud(self.db, directory, config=config, chance=self.chance)
        else:
            self.db.connection.deserialize(saved.database)
            for name, data in saved.files.items():
                if data is None:
                    (directory / name).mkdir(parents=True, mode=0o700)
                else:
                    (directory / name).write_bytes(data)
            self._context = again(self.db, directory, config=config, chance=self.chance)
        self.cloud: TestCloud = self.run(self._context.__aenter__())

    def save(self, kept: Mapping[str, Any]) -> Saved:
        """The cloud as it is, and its end. ``kept``: what is to be remembered with it."""
        self.close(keep=True)
        files = {
            str(path.relative_to(self.directory)): None if path.is_dir() else path.read_bytes()
            for path in sorted(self.directory.rglob("*"))
        }
        saved = Saved(self.db.connection.serialize(), files, kept)
        self.db.close()
        return saved

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run one coroutine to its end; agents and workers go on meanwhile."""
        asyncio.set_event_loop(self.loop)
        return self.loop.run_until_complete(coroutine)

    def close(self, *, keep: bool = False) -> None:
        """End everything; with ``keep`` the database stays open."""
        with contextlib.suppress(Exception):
            self.run(self._context.__aexit__(None, None, None))
        if not keep:
            self.db.close()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()
        asyncio.set_event_loop(None)
