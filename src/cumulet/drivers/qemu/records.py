"""Things of a guest that are only noted, each as a small file: taps, and connections.

A tap is a card on a network of QEMU's own, which exists while the guest runs; a connection to a volume in a file
is that file's path. They are claims all the same: what a guest is given is written down before it is given.

    DIRECTORY/KIND/CLAIM     the facts, as JSON
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from cumulet.drivers.base import Failed, Thing, Unknown, listed
from cumulet.wire.agent import Claim, Question


class Records:
    """Taps and connections."""

    kinds = frozenset({"tap", "connection"})

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        for kind in self.kinds:
            (directory / kind).mkdir(exist_ok=True, mode=0o700)

    def watch(self, changed: Callable[[str], None]) -> None:
        """Records do not change by themselves."""

    async def observe(self) -> Mapping[str, Thing]:
        found = {}
        for kind, name in listed(self.directory, self.kinds):
            if name.startswith("."):
                (self.directory / kind / name).unlink(missing_ok=True)  # its writer died before it was whole
                continue
            thing = await self.look(name, kind)
            if thing is not None:
                found[name] = thing
        return found

    async def look(self, id: str, kind: str) -> Thing | None:
        try:
            return Thing(kind, msgspec.json.decode((self.directory / kind / id).read_bytes()))
        except FileNotFoundError:
            if not (self.directory / kind).is_dir():
                raise Unknown(f"the directory of the {kind}s is not there") from None
            return None
        except OSError as error:
            raise Unknown(f"the {kind} cannot be seen: {error}") from error
        except msgspec.DecodeError:
            return Thing(kind)

    async def ensure(self, claim: Claim) -> Thing:
        facts = {"mac": claim.spec["mac"]} if claim.kind == "tap" else _reached(claim)
        draft = self.directory / claim.kind / f".{claim.id}"
        draft.write_bytes(msgspec.json.encode(facts))
        os.replace(draft, self.directory / claim.kind / claim.id)
        return Thing(claim.kind, facts)

    async def remove(self, claim: Claim) -> None:
        with contextlib.suppress(FileNotFoundError):
            (self.directory / claim.kind / claim.id).unlink()

    async def answer(self, question: Question) -> AsyncIterator[bytes]:
        raise Failed(f"this host does not answer {question.name} about it")


def _reached(claim: Claim) -> dict[str, Any]:
    """How the guest reaches the volume: as its back end says."""
    export = next((need for need in claim.needs if need.kind == "export"), None)
    if export is None:
        raise Failed("nothing says how the volume is reached")
    return dict(export.facts)
