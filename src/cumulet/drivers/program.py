"""Programs that a driver runs: without privileges, within limits, and no longer than somebody waits for them.

When we are root, programs and guests run as another user who can open nothing below our directories: what
they need is opened here and handed to them.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import signal
from collections.abc import Iterable, Sequence

import msgspec

from cumulet.drivers import process
from cumulet.drivers.base import Failed
from cumulet.drivers.blocks import ended


class User(msgspec.Struct, frozen=True):
    """Who programs run as."""

    uid: int
    gid: int


def user(name: str) -> User | None:
    """The user of that name when we are root; None: we stay who we are. Raises Failed if there is none."""
    if os.geteuid() != 0:
        return None
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise Failed(f"guests are to run as the user {name}, whom this machine does not know") from None
    return User(found.pw_uid, found.pw_gid)


def give(fd: int, to: User | None) -> None:
    """Let the user have the open file."""
    if to is not None:
        os.fchown(fd, to.uid, to.gid)


def as_user(who: User | None, groups: Iterable[int] = (), *, orphan: bool) -> list[str]:
    """What to put before a command line. ``orphan``: it lives on when we die.

    Not done between fork and exec: a fork of a large process is slow.
    """
    found = ["setpriv"] if orphan else ["setpriv", "--pdeathsig=KILL"]
    if who is not None:
        more = ",".join(map(str, groups))
        found += [
            f"--reuid={who.uid}",
            f"--regid={who.gid}",
            f"--groups={more}" if more else "--clear-groups",
        ]
    return [*found, "--no-new-privs", "--"]


async def run(
    argv: Sequence[str],
    *,
    who: User | None,
    lock: int,
    fds: Iterable[int] = (),
    seconds: int = 60,
    memory_mb: int = 4096,
) -> str:
    """Run a program to its end; what it wrote.

    ``lock``: the claim's lock, which it inherits. ``fds``: open files that it is given. It gets ``seconds`` of
    processor time and ten times that of patience. Raises Failed if it fails. Whoever is cancelled waits until the
    program is dead.
    """
    limits = ["prlimit", f"--cpu={seconds}", f"--as={memory_mb << 20}", "--core=0", "--"]
    output = os.memfd_create("output", os.MFD_CLOEXEC)
    try:
        try:
            child = process.launch(
                [*as_user(who, orphan=False), *limits, *argv], fds=[*fds, lock], output=output
            )
        except OSError as error:
            raise Failed(f"{error.filename or argv[0]} cannot be started: {error.strerror}") from error
        try:
            if not await child.ended(seconds * 10):
                raise Failed(f"{argv[0]} did not end within {seconds * 10} seconds")
            status = child.reap()
        finally:
            child.send(signal.SIGKILL)
            await ended(asyncio.ensure_future(child.ended()))
            child.reap()
            child.close()
        told = os.pread(output, 1 << 20, 0).decode("utf-8", "replace").strip()
    finally:
        os.close(output)
    if status != 0:
        last = told.splitlines()[-1] if told else f"it ended with {status}"
        raise Failed(f"{argv[0]} failed: {last[:500]}")
    return told
