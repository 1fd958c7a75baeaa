"""The process of a guest: started so that it outlives us, and found again without any memory.

A process is known by a lock. The file ``alive`` in the guest's directory is locked before the process is
started, and the process inherits the lock: it is free if and only if nothing runs, whatever was killed when.
Which process holds it is told by ``pid``, and if that was never written by a look at all processes; it is the one
that has the file open. Signals go to a pidfd whose process was verified after it had been opened, so no other
process is ever hit.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from cumulet.drivers.base import Failed, Unknown
from cumulet.drivers.process import Process, launch

#: Seconds in which a process that begins or ends can be told.
PATIENCE = 3.0


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
    draft.write_text(str(process.pid))
    os.replace(draft, home / "pid")


def find(home: Path, mark: str) -> Process | None:
    """The process of a guest, or None if there is none. Raises Unknown if there is one that cannot be found yet."""
    if not _held(home / "alive"):
        return None
    with contextlib.suppress(FileNotFoundError, ValueError):
        process = _verified(int((home / "pid").read_text()), mark, home)
        if process is not None:
            return process
    for name in os.listdir("/proc"):
        process = _verified(int(name), mark, home) if name.isdecimal() else None
        if process is not None:
            _note(home, process)
            return process
    if not _held(home / "alive"):
        return None  # it ended while we looked
    # It is ending; or its starter died after the fork, and it gets its arguments in a moment.
    raise Unknown("a process holds the guest and cannot be found")


async def look(home: Path, mark: str) -> Process | None:
    """The same, with patience for a process that is beginning or ending."""
    loop = asyncio.get_running_loop()
    until = loop.time() + PATIENCE
    while True:
        try:
            return find(home, mark)
        except Unknown:
            if loop.time() >= until:
                raise
        await asyncio.sleep(0.02)


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


def _verified(pid: int, mark: str, home: Path) -> Process | None:
    """The process of that number, if it is a guest's and that of this very directory."""
    try:
        fd = os.pidfd_open(pid)
    except OSError:
        return None
    if mark in _arguments(pid) and _has_open(pid, home / "alive"):
        return Process(pid, fd)
    os.close(fd)
    return None


def _arguments(pid: int) -> list[str]:
    """The command line of a process; empty if it has ended."""
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return []
    return raw.decode("utf-8", "replace").split("\0")


def _has_open(pid: int, path: Path) -> bool:
    wanted = path.stat()
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                if os.path.samestat(os.stat(f"/proc/{pid}/fd/{name}"), wanted):
                    return True
    except OSError:
        pass
    return False


def last_words(home: Path) -> str:
    """What the process wrote last, for a message."""
    with contextlib.suppress(OSError):
        lines = (home / "output").read_bytes()[-4000:].decode("utf-8", "replace").strip().splitlines()
        return "; ".join(line.removeprefix("qemu-system-x86_64: ") for line in lines[-3:])
    return ""
