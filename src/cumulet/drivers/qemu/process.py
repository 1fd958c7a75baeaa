"""The process of a guest: started so that it outlives us, and found again without any memory.

A process is known by a lock. The file ``alive`` in the guest's directory is locked before the process is
started, and the process inherits the lock: it is free if and only if nothing runs, whatever was killed when.
Which process holds it is told by ``pid``, and if that was never written by the process's own command line.
Signals go to a pidfd whose process was verified after it had been opened, so no other process is ever hit.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from cumulet.drivers.base import Failed, Unknown

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
    child = subprocess.Popen(  # noqa: S603
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


class _Noted(msgspec.Struct):
    """Which process it is: a number alone may be another's by now."""

    pid: int
    started: int


def start(home: Path, mark: str, argv: Sequence[str], fds: Iterable[int]) -> Process:
    """Start the process of a guest whose directory is ``home``; ``mark`` is one of its arguments.

    Raises Failed if one runs already, or if the program cannot be started.
    """
    alive = os.open(home / "alive", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    output = os.open(
        home / "output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600
    )
    try:
        fcntl.flock(alive, fcntl.LOCK_EX | fcntl.LOCK_NB)
        process = launch(argv, fds=[*fds, alive], output=output)
    except BlockingIOError:
        raise Failed("the guest's process runs already") from None
    except OSError as error:
        raise Failed(f"{argv[0]} cannot be started: {error.strerror}") from error
    finally:
        os.close(alive)
        os.close(output)
    _note(home, process)
    return process


def _note(home: Path, process: Process) -> None:
    draft = home / ".pid"
    draft.write_bytes(msgspec.json.encode(_Noted(process.pid, _started(process.pid) or 0)))
    os.replace(draft, home / "pid")


def find(home: Path, mark: str) -> Process | None:
    """The process of a guest, or None if there is none. Raises Unknown if there is one that cannot be found yet."""
    if not _held(home / "alive"):
        return None
    with contextlib.suppress(FileNotFoundError, msgspec.DecodeError):
        noted = msgspec.json.decode((home / "pid").read_bytes(), type=_Noted)
        process = _verified(noted.pid, mark, noted.started)
        if process is not None:
            return process
    for name in os.listdir("/proc"):
        process = _verified(int(name), mark) if name.isdecimal() else None
        if process is not None:
            _note(home, process)
            return process
    if not _held(home / "alive"):
        return None  # it ended while we looked
    # Its starter died after the fork; it gets its arguments in a moment, or ends.
    raise Unknown("a process holds the guest and cannot be found")


def _held(path: Path) -> bool:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        # Shared: two who look at the same time do not see each other.
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def _verified(pid: int, mark: str, started: int | None = None) -> Process | None:
    try:
        fd = os.pidfd_open(pid)
    except OSError:
        return None
    if mark in arguments(pid) and (started is None or started == _started(pid)):
        return Process(pid, fd)
    os.close(fd)
    return None


def arguments(pid: int) -> list[str]:
    """The command line of a process; empty if it has ended."""
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return []
    return raw.decode("utf-8", "replace").split("\0")


def _started(pid: int) -> int | None:
    """When the process was started, in ticks since the machine was."""
    try:
        raw = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    return int(raw[raw.rindex(b")") :].split()[20])


def last_words(home: Path) -> str:
    """What the process wrote last, for a message."""
    with contextlib.suppress(OSError):
        lines = (home / "output").read_bytes()[-4000:].decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else ""
    return ""


async def end(process: Process, patience: float = 5.0) -> None:
    """End the process: it is asked to close its files first. Raises Failed if the kernel does not let it go."""
    process.send(signal.SIGTERM)
    if not await process.ended(patience):
        process.send(signal.SIGKILL)
        if not await process.ended(20.0):
            raise Failed(f"the process {process.pid} does not end")
    process.reap()
