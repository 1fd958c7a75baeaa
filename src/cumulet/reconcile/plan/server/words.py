"""What the rules of a server ask again and again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cumulet.reconcile.plan.base import Wait, away, failing, name
from cumulet.reconcile.plan.server.view import COMING, UP, Server, Volume
from cumulet.values import Claim


def up(view: Server) -> bool:
    """True while the server wants to have things on its host."""
    return view.desired in UP and not view.giving_up


def building(view: Server) -> bool:
    """True until it is active: on a first build, and when a shelved server comes back."""
    if not up(view):
        return False
    return view.vm_state in COMING or not view.launched


def of(view: Server, *kinds: str) -> list[Claim]:
    return [claim for claim in view.claims if claim.kind in kinds]


def at(view: Server, claim: Claim, host: str | None) -> bool:
    """True if the claim's thing is on the host, or stands for it: an export does."""
    if claim.kind == "export":
        return host is not None and claim.spec.get("host") == name(view.agents, host)
    return claim.agent == host


def here(view: Server, claim: Claim) -> bool:
    """True if the claim's thing is on the server's host, or stands for it."""
    return at(view, claim, view.host)


def kept(view: Server, claim: Claim) -> bool:
    """True for what a move keeps on the other host; see ``Move``."""
    move = view.move
    if move is None:
        return False
    if move.phase in ("moving", "aborting"):
        return at(view, claim, move.target) and (move.live or claim.kind == "disk")
    return (
        move.phase in ("finishing", "finished")
        and move.copies
        and claim.kind == "disk"
        and at(view, claim, move.source)
    )


def elsewhere(view: Server) -> list[Claim]:
    """What is on other hosts, and nothing keeps there."""
    return [claim for claim in view.claims if not here(view, claim) and not kept(view, claim)]


def named(view: Server, kind: str, part: str, host: str | None = None) -> Claim | None:
    """The claim on a host, the server's own if none is given."""
    host = host or view.host
    return next(
        (
            claim
            for claim in view.claims
            if claim.kind == kind and claim.part == part and at(view, claim, host)
        ),
        None,
    )


def the_guest(view: Server, host: str | None = None) -> Claim | None:
    """The guest that is wanted on a host, the server's own if none is given."""
    host = host or view.host
    return next(
        (claim for claim in view.claims if claim.kind == "guest" and claim.wanted and claim.agent == host),
        None,
    )


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
    """The claims, and all of the server that they need on the same host, which cannot go before them."""
    known = {claim.id: claim for claim in view.claims}
    found, new = set(claims), list(claims)
    while new:
        claim = known[new.pop()]
        for need in claim.needs:
            other = known.get(need)
            if (
                other is not None
                and need not in found
                and (other.agent == claim.agent or other.kind == "export")
            ):
                found.add(need)
                new.append(need)
    return found


def unanswered(view: Server, claim: Claim) -> bool:
    return away(view.agents, claim) or failing(claim, view.now, view.patience)


def in_time(view: Server, wait: Wait) -> Wait:
    """The same, but no longer than the build may take."""
    if view.build_until is None:
        return wait
    return Wait(wait.reason, min(view.build_until, wait.until or view.build_until))


def fails(claim: Claim) -> bool:
    """True if it failed as it is asked for now; a failure before that says nothing."""
    return claim.error is not None and claim.acted >= claim.revision


def replaced(view: Server, volume: Volume) -> Volume | None:
    """The volume whose place it takes."""
    if volume.replaces is None:
        return None
    return next((other for other in view.volumes if other.attachment == volume.replaces), None)


def filling(view: Server, volume: Volume) -> bool:
    """True while it is no device of its own, but filled from the one whose place it takes."""
    old = replaced(view, volume)
    return old is not None and not old.detaching


def last_kind(volume: Volume) -> str:
    """The kind of the claim that a guest needs to use the volume."""
    return "connection" if volume.connects else "export"
