"""Simulated things: each is a small file below the agent's state directory, and nothing else.

It is product code: what a user gets who starts a cloud without a hypervisor. It makes what a claim says, at
once, and keeps it across restarts; what goes wrong is up to fault rules. It shares nothing with the control
plane but the agents' protocol.

    DIRECTORY/KIND/CLAIM          the thing, as JSON
    DIRECTORY/console/CLAIM       a guest's console log
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from cumulet.chance import Chance
from cumulet.drivers import qcow2
from cumulet.drivers.base import Failed, Thing, Unknown, listed
from cumulet.wire.agent import Claim, Question

HOST_KINDS = frozenset({"disk", "tap", "connection", "guest", "source"})
VOLUME_KINDS = frozenset({"volume", "snapshot", "backup", "export", "source"})
NETWORK_KINDS = frozenset({"switch", "lport", "lrouter", "nat"})
CONSOLE_LIMIT = 1 << 16
#: Names of power states in diagnostics.
_STATES = {"on": "running", "paused": "paused", "suspended": "suspended"}


class SimDriver:
    """Things of some kinds below a directory."""

    def __init__(self, directory: Path, kinds: frozenset[str], chance: Chance, *, target: str = "") -> None:
        self.directory = directory
        #: The same as text: joining pathlib's paths would cost more than the files do.
        self._base = str(directory)
        self._kinds = kinds
        self._chance = chance
        #: Name of the back end in connection data.
        self._target = target
        self._changed: Callable[[str], None] = lambda _: None
        for kind in kinds | ({"console"} if "guest" in kinds else set()):
            (directory / kind).mkdir(parents=True, exist_ok=True, mode=0o700)

    @property
    def kinds(self) -> frozenset[str]:
        return self._kinds

    def watch(self, changed: Callable[[str], None]) -> None:
        self._changed = changed

    async def observe(self) -> Mapping[str, Thing]:
        found: dict[str, Thing] = {}
        for kind, name in listed(self.directory, self._kinds):
            if name.startswith("."):
                (self.directory / kind / name).unlink(missing_ok=True)  # its writer died before it was whole
                continue
            thing = await self.look(name, kind)
            if thing is not None:
                found[name] = thing
        return found

    async def look(self, id: str, kind: str) -> Thing | None:
        try:
            raw = _load(f"{self._base}/{kind}/{id}")
        except FileNotFoundError:
            if not os.path.isdir(f"{self._base}/{kind}"):  # noqa: ASYNC240
                raise Unknown(f"the directory of the {kind}s is not there") from None
            return None
        except OSError as error:
            raise Unknown(f"the {kind} cannot be seen: {error}") from error
        try:
            return Thing(kind, msgspec.json.decode(raw)["facts"])
        except (msgspec.DecodeError, KeyError, TypeError):
            return Thing(kind)  # begun, and never finished

    async def ensure(self, claim: Claim) -> Thing:
        before = await self.look(claim.id, claim.kind)
        facts = self._facts(claim, dict(before.facts) if before else {})
        spec = {name: value for name, value in claim.spec.items() if name != "admin_password"}
        self._write(claim.kind, claim.id, {"spec": spec, "facts": facts}, new=before is None)
        return Thing(claim.kind, facts)

    async def remove(self, claim: Claim) -> None:
        for kind in (claim.kind, "console") if claim.kind == "guest" else (claim.kind,):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{self._base}/{kind}/{claim.id}")

    async def answer(self, question: Question) -> AsyncIterator[bytes]:
        if question.name == "console":
            return _pieces(self._console(question))
        if question.name == "diagnostics":
            return _pieces(await self._diagnostics(question.claim))
        if question.name == "read":
            return self._read(question.claim)
        raise Failed(f"a simulated host does not answer {question.name}")

    # --- what the things are ---

    def _facts(self, claim: Claim, before: dict[str, Any]) -> dict[str, Any]:
        if claim.kind == "guest":
            return self._guest(claim, before)
        if claim.kind == "export":
            return {
                "driver": "sim",
                "target": self._target,
                "volume": claim.spec.get("volume"),
                "host": claim.spec.get("host"),
            }
        if claim.kind == "connection":
            export = next((need.facts for need in claim.needs if need.kind == "export"), {})
            return {"path": f"/dev/sim/{claim.id}", "target": export.get("target")}
        if claim.kind in ("volume", "snapshot", "backup"):
            return {"size_gb": claim.spec["size_gb"]}
        if claim.kind == "disk":
            return {"path": f"{self._base}/disk/{claim.id}"}
        if claim.kind == "source":
            disk = next((need for need in claim.needs if need.kind in ("disk", "volume")), None)
            return {
                "of": disk.id if disk else None,
                "virtual_size": self._size_of(disk.facts if disk else {}),
            }
        return {"made": True}

    def _size_of(self, facts: Mapping[str, Any]) -> int:
        return int(facts.get("size_gb", 1)) << 30

    def _guest(self, claim: Claim, before: dict[str, Any]) -> dict[str, Any]:
        spec = claim.spec
        counters = spec.get("counters", {})
        done = before.get("counters", {})
        if "admin_password" in spec and counters.get("passwords", 0) > done.get("passwords", 0):
            self._log(claim, "The administrator has a new password")
        facts = {
            "power": self._powered(claim, before),
            "counters": counters,
            "devices": [part["part"] for part in [*spec.get("nics", ()), *spec.get("volumes", ())]],
        }
        copies = [volume["into"]["part"] for volume in spec.get("volumes", ()) if "into" in volume]
        if copies and facts["power"] in ("on", "paused"):
            facts["copies"] = dict.fromkeys(copies, "ready")
        if "incoming" in spec:
            facts["incoming"] = {"address": f"sim:{claim.id}"}
        target = spec.get("migrate_to", {})
        moved = before.get("migrated") or (target["id"] if target.get("address") else None)
        return {**facts, "power": "off", "migrated": moved} if moved else facts

    def _powered(self, claim: Claim, before: dict[str, Any]) -> str:
        """What the guest is after it was asked: on, off, paused or suspended."""
        spec, power = claim.spec, before.get("power", "off")
        counters, done = spec.get("counters", {}), before.get("counters", {})
        if "incoming" in spec:
            return "off"
        if "incoming" in before:
            return str(spec["power"])  # its memory has come
        if spec["power"] == "off":
            if power != "off":
                self._log(claim, "System halted")
            return "off"
        if power == "off":
            if before and counters.get("starts", 0) <= done.get("starts", 0):
                return "off"
            self._boot(claim, "Booting")
        elif any(counters.get(name, 0) > done.get(name, 0) for name in ("reboots", "hard_reboots")):
            self._boot(claim, "Restarting")
        return str(spec["power"])

    # --- console ---

    def _boot(self, claim: Claim, word: str) -> None:
        spec = claim.spec
        lines = [f"{word} {spec['name']} ({claim.holder}): {spec['vcpus']} CPUs, {spec['memory_mb']} MB"]
        if "rescue" in spec.get("disks", ()):
            lines.append("root is on the rescue disk")
        for i, nic in enumerate(spec.get("nics", ())):
            addresses = " ".join(address["address"] for address in nic.get("addresses", ()))
            lines.append(f"eth{i}: {nic['mac']} {addresses}".rstrip())
        lines += [f"disk {volume['volume']} attached" for volume in spec.get("volumes", ())]
        self._log(claim, *lines, f"{spec['hostname']} login:")

    def _log(self, claim: Claim, *lines: str) -> None:
        moment = f"[{self._chance.now():.3f}]"
        text = "".join(f"{moment} {line}\n" for line in lines)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        _store(f"{self._base}/console/{claim.id}", text.encode(), flags)

    def _console(self, question: Question) -> bytes:
        try:
            data = (self.directory / "console" / question.claim).read_bytes()[-CONSOLE_LIMIT:]
        except FileNotFoundError:
            return b""
        length = question.args.get("length")
        if length is None:
            return data
        lines = data.splitlines(keepends=True)
        return b"".join(lines[-length:] if length else [])

    async def _diagnostics(self, id: str) -> bytes:
        """A simulated guest uses nothing, so there is nothing to count."""
        thing = await self.look(id, "guest")
        if thing is None:
            raise Failed("there is no such guest here")
        spec = msgspec.json.decode((self.directory / "guest" / id).read_bytes())["spec"]
        return msgspec.json.encode(
            {
                "state": _STATES.get(str(thing.facts.get("power")), "shutdown"),
                "hypervisor": "sim",
                "memory_maximum": spec["memory_mb"],
                "cpus": [None] * spec["vcpus"],
                "nics": [{"mac": nic["mac"]} for nic in spec.get("nics", ())],
                "disks": [{"device": part} for part in spec.get("disks", ())]
                + [{"device": volume["device"]} for volume in spec.get("volumes", ())],
            }
        )

    # --- bytes ---

    async def _read(self, id: str) -> AsyncIterator[bytes]:
        """A simulated disk has no bytes of its own: it is read as an empty disk of its size."""
        thing = await self.look(id, "source")
        if thing is None:
            raise Failed("there is no such copy here")
        data = qcow2.empty(int(thing.facts.get("virtual_size") or 1 << 30))
        for start in range(0, len(data), 1 << 16):
            yield data[start : start + (1 << 16)]
            await asyncio.sleep(0)

    def _write(self, kind: str, id: str, value: Any, *, new: bool) -> None:
        """All of it or nothing, whenever the process is killed; a new thing that is begun only is seen as that."""
        path = f"{self._base}/{kind}/{id}"
        draft = path if new else f"{self._base}/{kind}/.{id}"
        _store(draft, msgspec.json.encode(value), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC)
        if not new:
            os.replace(draft, path)


def _store(path: str, data: bytes, flags: int) -> None:
    fd = os.open(path, flags, 0o600)
    try:
        while data:  # a disk that fills takes a part only
            data = data[os.write(fd, data) :]
    finally:
        os.close(fd)


def _load(path: str) -> bytes:
    """A small file. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        pieces = []
        while piece := os.read(fd, 1 << 16):
            pieces.append(piece)
        return b"".join(pieces)
    finally:
        os.close(fd)


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    yield data
