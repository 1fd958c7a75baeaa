"""What the rules of a server ask again and again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cumulet.reconcile.plan.base import Wait, away, failing, name
from cumulet.reconcile.plan.server.view import COMING, UP, Server
from cumulet.values import Claim


def up(view: Server) -> bool:
    """True while the server wants to have things on its host."""
    return view.desired in UP and not view.giving_up


def building(view: Server) -> bool:
    """True until it is active: on a first build, and when a shelved server comes back."""
    if not up(view):
        return False
    if view.vm_state in COMING:
        return True
    return not any(claim.kind == "guest" and claim.wanted and claim.made for claim in view.claims)


def of(view: Server, *kinds: str) -> list[Claim]:
    return [claim for claim in view.claims if claim.kind in kinds]


def named(view: Server, kind: str, part: str) -> Claim | None:
    return next((claim for claim in view.claims if claim.kind == kind and claim.part == part), None)


def the_guest(view: Server) -> Claim | None:
    return next((claim for claim in view.claims if claim.kind == "guest" and claim.wanted), None)


def host_claims(view: Server) -> list[Claim]:
    return [claim for claim in view.claims if claim.kind != "export"]


def open_part(view: Server, part: str, *kinds: str) -> bool:
    return any(claim.part == part and claim.kind in kinds for claim in view.claims)


def shows(view: Server, state: str) -> bool:
    """True if it shows that state, or another one by an administrator's word."""
    return view.vm_state == state or view.state_is_reset


def shown_as(view: Server, state: str) -> dict[str, Any]:
    return {} if shows(view, state) else {"vm_state": state}


def holds(view: Server) -> str:
    """What is still held, for a fault's message."""
    words = [
        f"{claim.kind} on {name(view.agents, claim.agent)}" + (f" ({claim.error})" if claim.error else "")
        for claim in reversed(view.claims)
    ]
    return "; still held: " + ", ".join(words) if words else ""


def story_of(attempts: list[Mapping[str, Any]]) -> str:
    last = attempts[-1]
    before = "; ".join(f"{a['host'] or 'no host'}: {a['step']}: {a['error']}" for a in attempts[:-1])
    if last["step"] == "schedule":
        # Clients look for its first words.
        return f"{last['error']} Before that: {before}" if before else str(last["error"])
    where = f" on host {last['host']}" if last["host"] else ""
    text = f"Build failed{where} at step {last['step']}: {last['error']}"
    if before:
        text = f"Exceeded maximum number of attempts ({len(attempts)}). {text}. Before that: {before}"
    return text


def with_needs(view: Server, claims: set[str]) -> set[str]:
    """The claims, and all of the server that they need, which cannot go before them."""
    found = set(claims)
    for claim in sorted(view.claims, key=lambda claim: -claim.rank):
        if claim.id in found:
            found |= {need for need in claim.needs if any(other.id == need for other in view.claims)}
    return found


def unanswered(view: Server, claim: Claim) -> bool:
    return away(view.agents, claim) or failing(claim, view.now, view.patience)


def in_time(view: Server, wait: Wait) -> Wait:
    """The same, but no longer than the build may take."""
    if view.build_until is None:
        return wait
    return Wait(wait.reason, min(view.build_until, wait.until or view.build_until))
