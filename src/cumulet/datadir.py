"""The data directory of a cloud: whose it is, its secrets, and how its process is found.

DIR/lock          locked for the life of the process that uses the directory
DIR/process.json  that process: pid, URL, version (a hint; the lock is the truth)
DIR/secrets       passwords that were drawn for the first users
DIR/clouds.yaml   for OpenStack's clients
DIR/cumulet.db    the state, unless it is in PostgreSQL
DIR/agents/       what the agents of this process have
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from cumulet.chance import Chance
from cumulet.errors import Refused
from cumulet.exits import IN_USE, NOT_RUNNING, NOT_WRITABLE

DATABASE = "cumulet.db"
CLOUDS = "clouds.yaml"


class Process(msgspec.Struct, frozen=True):
    """The process that uses a data directory."""

    pid: int
    url: str
    version: str
    started_at: float


class Secrets(msgspec.Struct):
    """Passwords that were drawn; they stay the same as long as the file does."""

    admin_password: str
    demo_password: str


@contextlib.contextmanager
def opened(directory: Path) -> Iterator[None]:
    """Make the directory, mode 0700, and keep other processes from it while the block runs.

    Raises Refused if it is in use, or cannot be used.
    """
    with usable(directory):
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        directory.chmod(0o700)
        lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused(
                f"The data directory {directory} is in use by {_who(directory)}. Stop it with 'cumulet down --data "
                f"{directory}', or choose another directory with --data.",
                IN_USE,
            ) from None
        yield
    finally:
        os.close(lock)


def _who(directory: Path) -> str:
    found = process(directory)
    return f"process {found.pid}" if found else "another process"


@contextlib.contextmanager
def usable(path: Path, *, instead: str = "another directory with --data") -> Iterator[None]:
    """Turns what the system says of a file or directory into Refused, with what would help: choosing ``instead``."""
    try:
        yield
    except OSError as error:
        hint = {
            errno.ENOSPC: "The disk is full: make room.",
            errno.EDQUOT: "The quota of the disk is used up: make room.",
            errno.EFBIG: "The disk is full: make room.",
            errno.EROFS: f"The file system is read-only: choose {instead}.",
            errno.EACCES: f"Choose {instead}, or give this user the right to write there.",
            errno.EPERM: f"Choose {instead}, or give this user the right to write there.",
            errno.ENOTDIR: f"Choose {instead}.",
            errno.EEXIST: "It is not a directory: choose another one with --data.",
        }.get(error.errno or 0, "")
        where = error.filename or path
        raise Refused(
            f"{where} cannot be used: {error.strerror or error}. {hint}".rstrip(), NOT_WRITABLE
        ) from error


def write_private(path: Path, content: str) -> None:
    """Write a file that only its owner can read: all of it or nothing. Raises Refused.

    A link is followed. A pipe, a device or a directory is refused: it must not be replaced.
    """
    path = target(path)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with usable(path):
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(fd, "w") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, path)
        except OSError:
            draft.unlink(missing_ok=True)
            raise


def target(path: Path) -> Path:
    """The file to replace for ``path``: where a link leads. Raises Refused for what is there and is no file."""
    with usable(path):
        found = path.resolve()
        if found.exists() and not found.is_file():
            raise Refused(f"{path} is not a file: it is not replaced. Name another one.", NOT_WRITABLE)
        if not found.parent.is_dir():
            raise Refused(f"{path} cannot be written: {found.parent} is not a directory.", NOT_WRITABLE)
    return found


def _read(path: Path, shape: type[Any]) -> Any:
    try:
        return msgspec.json.decode(path.read_bytes(), type=shape)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError:
        return None


def process(directory: Path) -> Process | None:
    """What is known of the process that uses the directory, or used it last."""
    with usable(directory):
        found: Process | None = _read(directory / "process.json", Process)
    return found


def announce(directory: Path, process: Process) -> None:
    """Let other commands find this process."""
    write_private(directory / "process.json", msgspec.json.encode(process).decode() + "\n")


def withdraw(directory: Path) -> None:
    """This process ends."""
    with contextlib.suppress(OSError):
        (directory / "process.json").unlink()


def is_used(directory: Path) -> bool:
    """True while a process has the directory."""
    try:
        lock = os.open(directory / "lock", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise Refused(f"{directory} cannot be used: {error.strerror}.", NOT_WRITABLE) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def running(directory: Path) -> Process:
    """The process that uses the directory. Raises Refused when none does."""
    found = process(directory)
    if not is_used(directory) or found is None:
        raise Refused(
            f"No cloud runs over {directory}. Start it with 'cumulet up', or name its directory with --data.",
            NOT_RUNNING,
        )
    return found


def secrets(directory: Path) -> Secrets | None:
    """The passwords of the first users; None if this directory has none. Raises Refused for a broken file."""
    path = directory / "secrets"
    with usable(path):
        try:
            raw = path.read_bytes()
        except FileNotFoundError:
            return None
    try:
        return msgspec.json.decode(raw, type=Secrets)
    except msgspec.DecodeError as error:
        raise Refused(f"{path} is damaged: {error}. Restore it from a backup.", NOT_WRITABLE) from error


def draw_secrets(directory: Path, chance: Chance, admin: str = "", demo: str = "") -> Secrets:
    """Passwords for a new cloud: the given ones, or drawn; kept for the next start."""
    made = Secrets(admin or chance.token(12), demo or chance.token(12))
    write_private(directory / "secrets", msgspec.json.encode(made).decode() + "\n")
    return made
