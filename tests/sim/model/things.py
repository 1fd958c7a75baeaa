"""Things, and what becomes of them: what a helper that ends has done to the world.

A guest does what the simulated driver's does, with what that leaves out: its processors run, or they do not, and
its memory goes to a guest that waits for it at once or not at all. Guests that run write to their disks and volumes.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from cumulet.drivers.sim import SimDriver
from cumulet.values import KEEPS_DATA
from cumulet.wire import agent as wire
from tests.sim.model import laws
from tests.sim.model.cloud import Cloud
from tests.sim.model.world import Agent, Thing, World, drop, here, put


class _Guests(SimDriver):
    """What a simulated guest becomes, without its files."""

    def __init__(self) -> None:
        pass

    def _log(self, claim: wire.Claim, *lines: str) -> None:
        pass

    def _boot(self, claim: wire.Claim, word: str) -> None:
        pass


_GUESTS = _Guests()


def make(cloud: Cloud, w: World, i: int, claim: wire.Claim) -> World | None:
    """A helper that makes it ends; None if it cannot be made."""
    laws.check_made(w, i, claim)
    before = w.agents[i].thing(claim.id)
    if claim.kind == "guest":
        return _make_guest(cloud, w, i, claim, before)
    if before is not None and not before.torn:
        return w
    facts: dict[str, Any] = {}
    torn = False
    if claim.kind == "export":
        facts = {"host": claim.spec.get("host")}
    original = _original(claim)
    if original is None and (claim.kind == "source" or claim.spec.keys() & {"copy"}):
        return None
    if original is not None:
        found = next((thing for agent in w.agents for thing in agent.things if thing.id == original), None)
        if found is None:
            laws.check_copied(w, claim, original)
            return None
        torn = found.torn or (claim.kind == "source" and laws.must_rest(w, claim) and _used(w, i))
    if claim.kind == "disk" and "mirror" in claim.spec:
        torn = True  # until the memory comes, and what the other guest writes with it
    uses = _exports(w.agents[i], claim) if claim.kind == "connection" else ()
    return _put(w, i, Thing(claim.id, claim.kind, facts, torn=torn, uses=uses))


def _put(w: World, i: int, thing: Thing) -> World:
    agents = list(w.agents)
    agents[i] = replace(agents[i], things=put(agents[i].things, thing))
    disks = tuple(sorted({*w.disks, thing.id})) if thing.kind == "disk" else w.disks
    return replace(w, agents=tuple(agents), disks=disks)


def _original(claim: wire.Claim) -> str | None:
    """What its data is copied from."""
    kinds = {"source": ("disk", "volume"), "disk": ("source", "file"), "file": ("source",)}.get(
        claim.kind, ()
    )
    return next((need.id for need in claim.needs if need.kind in kinds), None)


def _used(w: World, i: int) -> bool:
    """A guest runs on the host."""
    return any(thing.runs for thing in w.agents[i].things)


def already(agent: Agent, claim: wire.Claim) -> Thing | None:
    """The thing, if to make it once more would change nothing."""
    thing = agent.thing(claim.id)
    if thing is None or thing.torn:
        return None
    if claim.kind != "guest":
        return thing
    hands_over = claim.spec.get("migrate_to", {}).get("address") is not None
    return thing if not hands_over and _guest(agent, claim, thing) == thing else None


def _guest(agent: Agent, claim: wire.Claim, before: Thing | None) -> Thing:
    facts = _GUESTS._guest(claim, dict(before.facts) if before is not None else {})
    runs = facts["power"] == "on"
    if "incoming" in claim.spec:
        runs = before is not None and before.runs
        if runs:  # its memory has come
            facts = {**facts, "power": "on", "arrived": claim.spec["incoming"]}
    return Thing(claim.id, "guest", facts, runs=runs, uses=_exports(agent, claim))


def _exports(agent: Agent, claim: wire.Claim) -> tuple[str, ...]:
    """The exports that it opens, by itself or through connections of its host."""
    found = {need.id for need in claim.needs if need.kind == "export"}
    for need in claim.needs:
        connection = agent.thing(need.id) if need.kind == "connection" else None
        found.update(connection.uses if connection is not None else ())
    return tuple(sorted(found))


def _make_guest(cloud: Cloud, w: World, i: int, claim: wire.Claim, before: Thing | None) -> World | None:
    if any(need.mine and w.agents[i].thing(need.id) is None for need in claim.needs):
        return None
    address = claim.spec.get("migrate_to", {}).get("address")
    if address is None or (before is not None and "migrated" in before.facts):
        return _started(w, i, claim, _guest(w.agents[i], claim, before), before)
    waiting = next(
        (
            (j, guest)
            for j, guest in here(w, "guest")
            if not guest.runs and guest.facts.get("incoming") == address
        ),
        None,
    )
    if before is None or not before.runs or waiting is None:
        return None
    j, guest = waiting
    w = _put(w, i, _guest(w.agents[i], claim, before))
    w = _put(w, j, replace(guest, runs=True))
    for thing in w.agents[j].things:
        if thing.kind == "disk":
            w = _put(w, j, replace(thing, torn=False))
    return w


def _started(w: World, i: int, claim: wire.Claim, guest: Thing, before: Thing | None) -> World:
    if guest.runs and not (before is not None and before.runs):
        laws.check_boot(w, i, claim, before)
    return _put(w, i, guest)


def half(w: World, i: int, id: str) -> World:
    """The same, but what keeps data is only half of it."""
    thing = w.agents[i].thing(id)
    if thing is None or thing.kind not in {*KEEPS_DATA, "source"}:
        return w
    return _put(w, i, replace(thing, torn=True))


def remove(cloud: Cloud, w: World, i: int, claim: wire.Claim) -> World:
    """A helper that removes it ends."""
    laws.check_removed(w, {claim.id})
    thing = w.agents[i].thing(claim.id)
    agents = list(w.agents)
    agents[i] = replace(agents[i], things=drop(agents[i].things, claim.id))
    w = replace(w, agents=tuple(agents))
    if thing is not None:
        laws.check_ended(w, thing)
    return w


def writers(cloud: Cloud, w: World) -> list[str]:
    """Guests that run and reach the volume.

    An export that is gone is out of reach for who had opened it, if the back end fences; another one changes nothing.
    """
    exports = {thing.id for _, thing in here(w, "export")}
    return [
        guest.id
        for _, guest in here(w, "guest")
        if guest.runs and (exports.intersection(guest.uses) or (guest.uses and not cloud.fences))
    ]
