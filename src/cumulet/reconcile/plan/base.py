"""What a plan is made of.

A plan is a list of rules, one list for each kind of holder. A rule is a pure function of a view: it answers
None when it has nothing to say, a tuple of changes when something is to be written, or ``Wait`` when the
holder cannot go on. The first rule with an answer decides. Changes are written, the view is read anew, and
the plan is asked again, until it waits or rests; the name of the rule that waits, and its reason, are what
the user or the operator reads under "why not yet".

Every rule must leave its own condition false when its changes have been written, or the plan never ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from cumulet.values import AgentView, Claim

#: A claim of the same holder, by (kind, part): for claims that are opened together and have no id yet.
Named = tuple[str, str]


class Change(msgspec.Struct, frozen=True):
    """Something to write."""


class Open(Change, frozen=True):
    """Open a claim."""

    kind: str
    agent: str
    spec: Mapping[str, Any]
    needs: tuple[str | Named, ...] = ()
    part: str = ""


class Respec(Change, frozen=True):
    """Want a claim's thing to be different, and add to what it needs."""

    claim: str
    spec: Mapping[str, Any]
    needs: tuple[str | Named, ...] = ()


class Unwant(Change, frozen=True):
    """Want things no more."""

    claims: tuple[str, ...]


class DropNeed(Change, frozen=True):
    """``claim`` needs ``needs`` no more."""

    claim: str
    needs: str


class Leave(Change, frozen=True):
    """Wait for the claim no more; it becomes a debt of its agent."""

    claim: str
    reason: str


class HandOver(Change, frozen=True):
    """Another holder waits for the claim."""

    claim: str
    holder: str


class Set(Change, frozen=True):
    """Write columns of the holder's row."""

    values: Mapping[str, Any]


class Remove(Change, frozen=True):
    """The row and its holder go; nothing is held any more."""


class Wait(msgspec.Struct, frozen=True):
    """Nothing can be done now. ``until``: when time alone changes that, in seconds since the epoch."""

    reason: str
    until: float | None = None


class Rest(msgspec.Struct, frozen=True):
    """All is as desired."""


Step = Sequence[Change] | Wait | Rest
V = TypeVar("V")
Rule = Callable[[V], Step | None]


def decide(view: V, rules: Iterable[Rule[V]]) -> tuple[str, Step]:
    """The name of the first rule that has an answer, and its answer. A plan without an answer rests."""
    for rule in rules:
        step = rule(view)
        if step:  # a wait or a rest is true, no changes are none
            return rule.__name__.replace("_", " "), step
    return "rest", Rest()


def away(agents: Mapping[str, AgentView], claim: Claim) -> bool:
    """True if nobody waits for the claim's agent."""
    agent = agents.get(claim.agent)
    return agent is None or agent.away


def name(agents: Mapping[str, AgentView], agent: str | None) -> str:
    """The agent's name, for a sentence."""
    found = agents.get(agent or "")
    return found.name if found else "an agent that is gone"


def failing(claim: Claim, now: float, patience: float) -> bool:
    """True if the claim has failed for longer than the patience."""
    return claim.failing_since is not None and now - claim.failing_since >= patience


def waiting_for(claims: Sequence[Claim], agents: Mapping[str, AgentView], patience: float) -> Wait:
    """Why the claims are not yet as wanted: the first of them, in words, and when patience ends."""
    claim = claims[0]
    verb = "make" if claim.wanted else "remove"
    reason = f"waits for {name(agents, claim.agent)} to {verb} {article(claim.kind)} {claim.kind}"
    if claim.error:
        reason += f": {claim.error}"
    elif away(agents, claim):
        reason += ", which is silent"
    ends = [claim.failing_since + patience for claim in claims if claim.failing_since is not None]
    return Wait(reason, min(ends) if ends else None)


def article(noun: str) -> str:
    return "an" if noun[0] in "aeiou" else "a"
