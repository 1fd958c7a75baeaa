"""Wakes waiting coroutines by name, from any thread.

A wake-up is a hint: whoever waits looks at the database before and after. ``listen`` registers before the
look, so nothing that is committed between the look and the wait is missed.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterable, Iterator


class Waiter:
    """One registered interest in a few names."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._fired = False
        self._future: asyncio.Future[None] | None = None
        self._thread = threading.get_ident()

    def fire(self) -> None:
        if threading.get_ident() == self._thread:
            self._wake()
        else:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._fired = True
        self._end()

    async def wait(self, seconds: float) -> bool:
        """Wait for a wake-up; True if one came within the time. The next wait needs a new wake-up."""
        if not self._fired:
            self._future = self._loop.create_future()
            timer = self._loop.call_later(seconds, self._end)
            try:
                await self._future
            finally:
                timer.cancel()
                self._future = None
        fired, self._fired = self._fired, False
        return fired

    def _end(self) -> None:
        if self._future is not None and not self._future.done():
            self._future.set_result(None)


class Wake:
    """The waiters of one process."""

    def __init__(self) -> None:
        self._waiters: dict[str, set[Waiter]] = {}
        self._lock = threading.Lock()

    def notify(self, names: Iterable[str]) -> None:
        """Wake everybody who listens to one of the names."""
        with self._lock:
            for name in names:
                for waiter in self._waiters.get(name, ()):
                    waiter.fire()

    def notify_all(self) -> None:
        """Wake everybody: wake-ups from elsewhere may have been lost."""
        with self._lock:
            names = list(self._waiters)
        self.notify(names)

    @contextlib.contextmanager
    def listen(self, *names: str) -> Iterator[Waiter]:
        """Register for the names while the block runs."""
        waiter = Waiter()
        with self._lock:
            for name in names:
                self._waiters.setdefault(name, set()).add(waiter)
        try:
            yield waiter
        finally:
            with self._lock:
                for name in names:
                    waiters = self._waiters[name]
                    waiters.discard(waiter)
                    if not waiters:
                        del self._waiters[name]
