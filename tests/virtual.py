"""A whole cloud on one thread, with a clock that jumps: nothing waits, and a seed repeats everything."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from cumulet.chance import SeededChance
from cumulet.config import Config
from cumulet.db.engine import SqliteDatabase
from cumulet.db.migrate import prepare
from tests.cloud import TestCloud, running_cloud

T = TypeVar("T")


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
        """Threads would make their own time: run it here."""
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


class Stage:
    """Keeps one cloud and its loop over several runs."""

    def __init__(self, directory: Path, config: Config, seed: int = 1) -> None:
        self.loop = VirtualLoop()
        self.chance = LoopChance(seed, self.loop)
        self.directory = directory
        self.db = SqliteDatabase(None, self.chance)
        prepare(self.db)
        self._context = running_cloud(self.db, directory, config=config, chance=self.chance)
        self.cloud: TestCloud = self.run(self._context.__aenter__())

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run one coroutine to its end; agents and workers go on meanwhile."""
        asyncio.set_event_loop(self.loop)
        return self.loop.run_until_complete(coroutine)

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self.run(self._context.__aexit__(None, None, None))
        self.db.close()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()
        asyncio.set_event_loop(None)
