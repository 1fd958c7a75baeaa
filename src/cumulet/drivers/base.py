"""What a driver is: three verbs for each kind of thing, and a look.

``ensure`` and ``remove`` can be repeated and may be killed at any instruction. The claim's id is in the name
of every object that is made, so ``observe`` needs no memory. Looking that fails (a mount, a socket, a
daemon) raises ``Unknown``: what cannot be seen is not absent.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec

from cumulet.wire.agent import Claim, Question


class Thing(msgspec.Struct, frozen=True):
    """Something that exists."""

    kind: str
    facts: dict[str, Any] = {}


class Failed(Exception):
    """A step failed. The message goes to the server's fault; ``fatal``: another host would fail as well.

    ``cause``: what kind of reason it is, in one word, for those who answer differently to different ones.
    """

    def __init__(self, message: str, *, fatal: bool = False, cause: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.fatal = fatal
        self.cause = cause


class Unknown(Failed):
    """It cannot be seen whether the thing exists."""


def listed(directory: Path, kinds: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Kind and name of whatever lies in a directory that has one for each kind. Raises Unknown."""
    for kind in kinds:
        try:
            names = os.listdir(directory / kind)
        except OSError as error:
            raise Unknown(f"{kind}s cannot be seen: {error}") from error
        for name in names:
            yield kind, name


#: Reads the bytes of a claim that another claim needs: ``bytes_of(claim, need)``.
BytesOf = Callable[[str, str], AsyncIterator[bytes]]


class Driver(Protocol):
    """Makes and removes things of some kinds."""

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds that it knows."""

    async def observe(self) -> Mapping[str, Thing]:
        """All that exists here of its kinds, by claim id. Raises Unknown."""

    async def look(self, id: str, kind: str) -> Thing | None:
        """One thing, or None if it is not there. Raises Unknown."""

    async def ensure(self, claim: Claim) -> Thing:
        """Make it, or make it as its spec says. Raises Failed."""

    async def remove(self, claim: Claim) -> None:
        """Make it not exist; what is not there is no error. Raises Failed."""

    async def answer(self, question: Question) -> AsyncIterator[bytes]:
        """Answer a question about a claim's thing, in pieces. Raises Failed."""

    def watch(self, changed: Callable[[str], None]) -> None:
        """Call ``changed(claim id)`` from now on when a thing changes by itself."""
