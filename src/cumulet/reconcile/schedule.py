"""Chooses a host, or says of every host why it was refused. Pure.

The answer is a proposal: whoever takes room on the chosen host checks it again, under that provider's lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

#: Names of resource classes as sentences use them, and their units.
WORDS = {"VCPU": ("vCPUs", ""), "MEMORY_MB": ("memory", " MB"), "DISK_GB": ("disk", " GB")}


class Ask(msgspec.Struct, frozen=True):
    """What a server needs of its host."""

    resources: Mapping[str, int]
    zone: str | None = None
    #: The only host that will do.
    host: str | None = None
    #: Hosts on which it failed already, by name.
    failed_on: frozenset[str] = frozenset()
    #: "affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity" or "".
    policy: str = ""
    #: Hosts of the other members of its group: name → how many.
    members: Mapping[str, int] = {}
    max_per_host: int = 1
    required_traits: frozenset[str] = frozenset()
    forbidden_traits: frozenset[str] = frozenset()
    different_host: frozenset[str] = frozenset()
    #: None: anywhere. An empty set is nowhere.
    same_host: frozenset[str] | None = None


class Inventory(msgspec.Struct, frozen=True):
    """What a provider has of one class."""

    total: int
    reserved: int = 0
    ratio: float = 1.0
    min_unit: int = 1
    max_unit: int = 2147483647
    step_size: int = 1

    @property
    def capacity(self) -> int:
        return int((self.total - self.reserved) * self.ratio)


class Candidate(msgspec.Struct, frozen=True):
    """A host."""

    id: str
    name: str
    zone: str = "nova"
    away: bool = False
    disabled: bool = False
    disabled_reason: str | None = None
    inventories: Mapping[str, Inventory] = {}
    used: Mapping[str, int] = {}
    traits: frozenset[str] = frozenset()

    def free(self, resource: str) -> int:
        inventory = self.inventories.get(resource)
        return inventory.capacity - self.used.get(resource, 0) if inventory else 0


class Refused(msgspec.Struct, frozen=True):
    """No host will do, and why."""

    reason: str


def choose(ask: Ask, candidates: Sequence[Candidate]) -> Candidate | Refused:
    """The host with the most room among those that will do.

    Of equal hosts the first in the order given wins, so the caller decides about that order.
    """
    refusals: dict[str, list[str]] = {}
    fitting: list[Candidate] = []
    for candidate in candidates:
        why = refusal(ask, candidate)
        if why is None:
            fitting.append(candidate)
        else:
            refusals.setdefault(why, []).append(candidate.name)
    if not fitting:
        return Refused(_sentence(ask, candidates, refusals))
    return max(fitting, key=lambda candidate: _weight(ask, candidate))


def _weight(ask: Ask, candidate: Candidate) -> tuple[float, float]:
    near = candidate.name in ask.members
    soft = {
        "soft-affinity": 1.0 if near else 0.0,
        "soft-anti-affinity": -float(ask.members.get(candidate.name, 0)),
    }
    shares = [
        candidate.free(name) / max(inventory.capacity, 1)
        for name, inventory in candidate.inventories.items()
        if name in WORDS
    ]
    return soft.get(ask.policy, 0.0), sum(shares) / max(len(shares), 1)


def refusal(ask: Ask, candidate: Candidate) -> str | None:
    """Why the host will not do, in words that are the same for all hosts it is true of; None if it will."""
    if ask.host is not None and candidate.name != ask.host:
        return "not the one that was asked for"
    if candidate.disabled:
        return "disabled"
    if candidate.away:
        return "down"
    if ask.zone is not None and candidate.zone != ask.zone:
        return f"not in zone {ask.zone}"
    if candidate.name in ask.failed_on:
        return "failed before"
    return _group(ask, candidate) or _traits(ask, candidate) or _room(ask.resources, candidate)


def _group(ask: Ask, candidate: Candidate) -> str | None:
    here = ask.members.get(candidate.name, 0)
    if ask.policy == "anti-affinity" and here >= ask.max_per_host:
        return "already has a member of the anti-affinity group"
    if ask.policy == "affinity" and ask.members and not here:
        return "does not have the other members of the affinity group"
    if candidate.name in ask.different_host:
        return "excluded by different_host"
    if ask.same_host is not None and candidate.name not in ask.same_host:
        return "excluded by same_host"
    return None


def _traits(ask: Ask, candidate: Candidate) -> str | None:
    missing = ask.required_traits - candidate.traits
    if missing:
        return f"lack trait {min(missing)}"
    unwanted = ask.forbidden_traits & candidate.traits
    return f"have forbidden trait {min(unwanted)}" if unwanted else None


def _room(resources: Mapping[str, int], candidate: Candidate) -> str | None:
    for name, amount in resources.items():
        if amount == 0:
            continue
        inventory = candidate.inventories.get(name)
        if inventory is None or candidate.free(name) < amount or not fits(inventory, amount):
            return f"lack {WORDS.get(name, (name, ''))[0]}"
    return None


def fits(inventory: Inventory, amount: int) -> bool:
    """True if one consumer may have that much of it."""
    return inventory.min_unit <= amount <= inventory.max_unit and amount % inventory.step_size == 0


def _sentence(ask: Ask, candidates: Iterable[Candidate], refusals: Mapping[str, Sequence[str]]) -> str:
    """``No valid host was found. 3 hosts: 2 lack memory (need 8192 MB, most free 6144), 1 disabled.``"""
    total = sum(len(names) for names in refusals.values())
    if not total:
        return "No valid host was found. There are no hosts."
    parts = []
    for why, names in sorted(refusals.items(), key=lambda item: -len(item[1])):
        text = f"{len(names)} {why}"
        for resource, (word, unit) in WORDS.items():
            if why == f"lack {word}":
                here = set(names)
                most = max((c.free(resource) for c in candidates if c.name in here), default=0)
                text += f" (need {ask.resources[resource]}{unit}, most free {max(most, 0)})"
        parts.append(text)
    return f"No valid host was found. {total} host{'s' if total > 1 else ''}: {', '.join(parts)}."
