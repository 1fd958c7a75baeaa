"""An agent's state directory: who it is, that it is alone, and what is being worked on.

* ``id`` names the directory: whoever has these things. Without it nothing is observed.
* ``lock`` is locked for the agent's life: one agent for each directory.
* ``working/<claim>`` is locked while something works on a claim. Helper processes inherit the open file, so
  the kernel knows of a helper that outlived its agent.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from cumulet.chance import Chance
from cumulet.errors import Refused


class Store:
    """One open state directory."""

    def __init__(self, directory: Path, chance: Chance) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        (directory / "working").mkdir(exist_ok=True, mode=0o700)
        self._working = str(directory / "working")
        self._lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise Refused(
                f"The state directory {directory} is in use by another process. Stop that one first, "
                "or give this one a directory of its own.",
                5,
            ) from None
        self.id = self._identity(chance)
        #: Claims that something may work on. Only who has the directory's lock makes files there.
        self._busy = set(os.listdir(self._working))

    def _identity(self, chance: Chance) -> str:
        path = self.directory / "id"
        with contextlib.suppress(FileNotFoundError):
            found = path.read_text().strip()
            if found:
                return found
        fresh = chance.uuid()
        path.write_text(fresh)
        return fresh

    @contextlib.contextmanager
    def working(self, claim: str) -> Iterator[int]:
        """Lock the claim while the block runs; yields the file descriptor, for helpers to inherit.

        Raises BlockingIOError if something works on the claim already.
        """
        path = self.directory / "working" / claim
        self._busy.add(claim)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield fd
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
        finally:
            os.close(fd)

    def idle(self, claim: str) -> bool:
        """True if nothing works on the claim, not even a helper of an agent that died."""
        if claim not in self._busy:
            return True
        path = f"{self._working}/{claim}"
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return True
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(fd)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        return True

    def forget(self, claim: str) -> None:
        """The claim is closed: nothing will work on it any more."""
        self._busy.discard(claim)

    def close(self) -> None:
        os.close(self._lock)
