"""Moves to another host: a resize, a migration, a live migration, an evacuation. See ``Move`` for the phases.

A cold move powers the guest off, copies its disks, and makes a new guest at the target; the source's disks stay
until the move is confirmed, so it can be taken back. A live one has a second guest wait at the target, and
decides only by what both hosts have seen: never two that run, and none ended while the other's fate is unknown.
Whatever fails before the end leads back to the source.

What a guest is asked in its spec, and what it says in its facts:

    migrate_to  {id, address}: hand the memory over to the guest at that address; without one, hand nothing over. A guest
                that is not there is not made
    migrated    the move by which it handed its memory over; it does not run any more, whatever it is asked
    incoming    the move by which its memory is to come: it waits, and says the address as ``incoming``
    asked       say at once whether the memory has come: ``arrived``, the move, if it has
"""

from __future__ import annotations

from collections.abc import Iterator

from cumulet.reconcile.plan.base import (
    Change,
    Named,
    Open,
    Respec,
    Rest,
    Step,
    Unwant,
    Wait,
    name,
    waiting_for,
)
from cumulet.reconcile.plan.server.changes import BindPort, ChooseTarget, EndMove, MoveOn, SetAttachment
from cumulet.reconcile.plan.server.devices import volume_claims
from cumulet.reconcile.plan.server.guest import guest_spec
from cumulet.reconcile.plan.server.view import Move, Server
from cumulet.reconcile.plan.server.words import (
    at,
    elsewhere,
    fails,
    here,
    last_kind,
    named,
    of,
    the_guest,
    up,
)
from cumulet.values import Claim

#: What a move ends as, by its phase; a live migration and an evacuation end while they finish.
ENDS = {"confirming": "confirmed", "reverting": "reverted", "failing": "error"}


def give_up_a_move_that_fails(view: Server) -> Step | None:
    """The server stays where it was; what was made at the target goes."""
    move = view.move
    if move is None or not up(view):
        return None
    error = None
    if move.phase == "moving":
        error = _moving_error(view, move)
    elif move.phase == "finishing" and move.copies:
        error = _silent(view, move.target) or _error(view, (c for c in view.claims if here(view, c)))
    if error is None:
        return None
    # Once the source was told of the other guest, only the two hosts know which of them runs.
    return (MoveOn("aborting" if _told(view) else "failing", error),)


def _moving_error(view: Server, move: Move) -> str | None:
    mine = [
        claim
        for claim in view.claims
        if at(view, claim, move.target)
        or claim.kind == "source"
        or (claim.kind == "guest" and here(view, claim))
    ]
    source = None if move.live and _told(view) else _silent(view, move.source)
    gone = f"the guest is gone from {name(view.agents, move.source)}" if _gone(the_guest(view)) else None
    return _silent(view, move.target) or source or gone or _error(view, mine)


def _silent(view: Server, host: str | None) -> str | None:
    agent = view.agents.get(host or "")
    return f"{name(view.agents, host)} does not answer" if agent is None or agent.away else None


def _error(view: Server, claims: Iterator[Claim] | list[Claim]) -> str | None:
    for claim in claims:
        if claim.wanted and (fails(claim) or claim.lost):
            return f"the {claim.kind} on {name(view.agents, claim.agent)}: {claim.error or 'was lost'}"
    return None


def _told(view: Server) -> bool:
    """True if the source was told where the other guest waits."""
    guest = the_guest(view)
    return guest is not None and "migrate_to" in guest.spec


def _gone(guest: Claim | None) -> bool:
    """True if the guest was told to hand its memory over, and is not there any more."""
    if guest is None or "migrate_to" not in guest.spec:
        return False
    return guest.seen == "absent" and guest.acted >= guest.revision and guest.error is None


def choose_a_target(view: Server) -> Step | None:
    if view.move is None or view.move.phase != "preparing":
        return None
    if "schedule" in view.held:
        return Wait("a fault rule holds the step schedule")
    return (ChooseTarget(),)


# --- cold ---


def copy_the_disks(view: Server) -> Step | None:
    """The guest is powered off: every disk is copied to the target, by a copy that is read from there."""
    move = view.move
    if move is None or move.phase != "moving" or not move.copies or view.host is None or move.target is None:
        return None
    changes: list[Change] = []
    for disk in of(view, "disk"):
        if not here(view, disk) or named(view, "disk", disk.part, move.target) is not None:
            continue
        if named(view, "source", disk.part) is None:
            changes.append(Open("source", view.host, {"format": "qcow2"}, (disk.id,), disk.part))
        spec = {"copy": {"format": "qcow2"}, "size_mb": move.sizes.get(disk.part, 0)}
        changes.append(Open("disk", move.target, spec, (("source", disk.part),), disk.part))
    return changes or None


def need_no_copies(view: Server) -> Step | None:
    """A copy goes once the disk that was made from it is whole, or nobody wants that disk."""
    target = view.move.target if view.move is not None and view.move.phase == "moving" else None
    done = []
    for copy in of(view, "source"):
        disk = named(view, "disk", copy.part, target) if target else None
        if copy.wanted and (target is None or (disk is not None and disk.made)):
            done.append(copy.id)
    return (Unwant(tuple(done)),) if done else None


def arrive(view: Server) -> Step | None:
    """All disks are at the target: from now on that is the server's host."""
    move = view.move
    if move is None or move.phase != "moving" or not move.copies:
        return None
    coming = [disk for disk in of(view, "disk") if at(view, disk, move.target)]
    waits = [disk for disk in coming if not disk.ready] + of(view, "source")
    if waits:
        return waiting_for(waits, view.agents, view.patience)
    return (MoveOn("finishing"),)


# --- live ---


def have_a_guest_wait(view: Server) -> Step | None:
    """At the target everything is made that the guest has, and a guest that waits for the other's memory."""
    move, guest = view.move, the_guest(view)
    if move is None or move.phase != "moving" or not move.live or guest is None or move.target is None:
        return None
    target = move.target
    changes: list[Change] = []
    needs: list[str | Named] = []
    for disk in view.disks:
        there = named(view, "disk", disk.part, target)
        if there is None:
            own = named(view, "disk", disk.part)
            facts = own.facts if own is not None else {}
            spec = {"mirror": {key: facts.get(key) for key in ("format", "virtual_size")}}
            changes.append(Open("disk", target, spec, (), disk.part))
        needs.append(there.id if there is not None else ("disk", disk.part))
    for volume in view.volumes:
        if volume.detaching:
            continue
        kind = last_kind(volume)
        there = named(view, kind, volume.attachment, target)
        if there is None:
            changes += volume_claims(view, volume, target)
        needs.append(there.id if there is not None else (kind, volume.attachment))
    for port in view.ports:
        if port.detaching:
            continue
        there = named(view, "tap", port.id, target)
        if there is None:
            changes.append(Open("tap", target, port.spec, (), port.id))
        needs.append(there.id if there is not None else ("tap", port.id))
    if the_guest(view, target) is None:
        changes.append(Open("guest", target, {**guest_spec(view, guest), "incoming": move.id}, tuple(needs)))
    return changes or None


def hand_over(view: Server) -> Step | None:
    """The guest's memory is at the target: that is the server's host now. Or it is not, and stays here."""
    move, guest = view.move, the_guest(view)
    if move is None or not move.live or move.phase not in ("moving", "aborting") or guest is None:
        return None
    if guest.ready and guest.facts.get("migrated") == move.id:
        return (*_switch(view, move), MoveOn("finishing"))
    if move.phase == "aborting":
        return (MoveOn("failing", move.error),) if guest.ready else None
    waits = [claim for claim in view.claims if at(view, claim, move.target) and not claim.ready]
    return waiting_for(waits, view.agents, view.patience) if waits else None


def ask_the_target(view: Server) -> Step | None:
    """The source has no guest any more: it handed its memory over before it ended, or it did not. The target says."""
    move, guest = view.move, the_guest(view)
    if move is None or move.phase != "aborting" or not _gone(guest):
        return None
    waiting = the_guest(view, move.target)
    if waiting is None:
        return (MoveOn("failing", move.error),)
    if "asked" not in waiting.spec:
        return (Respec(waiting.id, {**waiting.spec, "asked": True}),)
    if not waiting.ready:
        return waiting_for([waiting], view.agents, view.patience)
    if waiting.facts.get("arrived") == move.id:
        return (*_switch(view, move), MoveOn("finishing"))
    return (MoveOn("failing", move.error),)


def _switch(view: Server, move: Move) -> Iterator[Change]:
    assert move.target is not None
    for port in view.ports:
        if not port.detaching:
            yield BindPort(port.id, move.target)
    for volume in view.volumes:
        export = named(view, "export", volume.attachment, move.target)
        if not volume.detaching and export is not None:
            yield SetAttachment(volume.attachment, "attached", move.target, export.facts)


# --- the end ---


def end_the_move(view: Server) -> Step | None:
    """Nothing is left on the other host, and the server is as it should be on its own."""
    move = view.move
    if move is None or not up(view):
        return None
    if move.phase == "finishing" and move.copies:
        return (MoveOn("finished"),)
    if move.phase in ("preparing", "moving", "aborting"):
        return Wait("moves")
    if move.phase == "finished":
        return None
    left = elsewhere(view)
    if left:
        return waiting_for(left, view.agents, view.patience)
    return (EndMove(ENDS.get(move.phase) or ("completed" if move.live else "done")),)


def end_a_move_that_failed(view: Server) -> Step | None:
    """A move back ends even if its host does not answer: the server waits for that no longer than before."""
    move = view.move
    if move is None or move.phase != "failing" or not up(view) or elsewhere(view):
        return None
    guest = the_guest(view)
    if _silent(view, view.host) is None and (guest is None or not fails(guest)):
        return None
    return (EndMove("error"),)


def wait_to_be_confirmed(view: Server) -> Step | None:
    move = view.move
    if move is None or move.phase != "finished":
        return None
    if move.confirm_at is None:
        return Rest()
    if view.now < move.confirm_at:
        return Wait("waits for its move to be confirmed or reverted", move.confirm_at)
    return (MoveOn("confirming"),)
