"""Processes that are started, waited for and ended: held by a pidfd, so a number that is used again is no other one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Iterable, Sequence

import msgspec

from cumulet.drivers.base import Failed

#: What a process inherits of our environment.
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}


class Process(msgspec.Struct, frozen=True):
    """A process, held by an open pidfd."""

    pid: int
    fd: int

    def send(self, number: signal.Signals) -> None:
        """Send a signal; a process that has ended is no error."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.fd, number)

    async def ended(self, seconds: float | None = None) -> bool:
        """True once the process has ended, False if it has not within the time."""
        loop = asyncio.get_running_loop()
        over = loop.create_future()
        # A loop has one reader for a file descriptor, and somebody else may wait as well.
        fd = os.dup(self.fd)
        loop.add_reader(fd, _set, over)
        try:
            async with asyncio.timeout(seconds):
                await over
        except TimeoutError:
            return False
        finally:
            loop.remove_reader(fd)
            os.close(fd)
        return True

    def reap(self) -> int | None:
        """The exit status of a child of ours that has ended, negative for a signal."""
        with contextlib.suppress(ChildProcessError):
            found = os.waitid(os.P_PIDFD, self.fd, os.WEXITED | os.WNOHANG)
            if found is not None:
                return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
        return None

    def close(self) -> None:
        os.close(self.fd)


def _set(over: asyncio.Future[None]) -> None:
    if not over.done():
        over.set_result(None)


def launch(argv: Sequence[str], *, fds: Iterable[int] = (), output: int = subprocess.DEVNULL) -> Process:
    """Start a program in a session of its own, with these open files and no others."""
    child = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        pass_fds=tuple(fds),
        start_new_session=True,
        cwd="/",
        env=ENVIRONMENT,
    )
    process = Process(child.pid, os.pidfd_open(child.pid))
    # From here on the pidfd stands for it: the object would warn when it goes and the child does not.
    child.returncode = 0
    return process


async def end(process: Process, patience: float = 5.0) -> None:
    """End the process: it is asked to close its files first. Raises Failed if the kernel does not let it go."""
    process.send(signal.SIGTERM)
    if not await process.ended(patience):
        process.send(signal.SIGKILL)
        if not await process.ended(20.0):
            raise Failed(f"the process {process.pid} does not end")
    process.reap()
