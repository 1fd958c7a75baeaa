"""Going down: the one path of delete, offload, failed build and failed attempt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cumulet.reconcile.plan.base import (
    Change,
    DropNeed,
    HandOver,
    Leave,
    Remove,
    Rest,
    Set,
    Step,
    Unwant,
    Wait,
    away,
    name,
    waiting_for,
)
from cumulet.reconcile.plan.server.changes import (
    Arrived,
    DropImage,
    EndAttachment,
    Fault,
    FreeAllocation,
    PassAttachment,
    ReleasePort,
    SetAttachment,
    UnbindPort,
)
from cumulet.reconcile.plan.server.view import DELETE_FAILED, Server
from cumulet.reconcile.plan.server.words import (
    elsewhere,
    holds,
    host_claims,
    in_time,
    of,
    open_part,
    shown_as,
    shows,
    story_of,
    unanswered,
    up,
    with_needs,
)
from cumulet.values import Claim


def _going(view: Server) -> Sequence[Claim]:
    """What must go: all that there is, or what is left on a host that the server is not on any more."""
    return elsewhere(view) if up(view) else view.claims


def want_nothing_that_must_go(view: Server) -> Step | None:
    wanted = tuple(claim.id for claim in _going(view) if claim.wanted)
    return (Unwant(wanted),) if wanted else None


def leave_what_nobody_answers_for(view: Server) -> Step | None:
    """Nobody waits longer than the patience for an agent that is silent or keeps failing.

    Nor for what cannot go before something that nobody answers for.
    """
    going = _going(view)
    silent = {claim.id for claim in going if unanswered(view, claim)}
    behind = with_needs(view, silent)
    changes: list[Change] = []
    for claim in going:
        if claim.kind == "export":
            if view.desired == "gone" and claim.id in silent:
                changes += _pass_on(view, claim)
        elif claim.id in behind:
            changes += _leave(view, claim)
    return changes or None


def _leave(view: Server, claim: Claim) -> Iterator[Change]:
    """Leave a claim of a host. What it needs elsewhere must not wait for the host either."""
    exports = {export.id: export for export in of(view, "export")}
    mine = {other.id for other in host_claims(view) if other.agent == claim.agent}
    for need in claim.needs:
        export = exports.get(need)
        if export is None:
            if need not in mine:
                yield DropNeed(claim.id, need)
        elif _fences(view, export):
            # The back end takes the export away from the host: the guest that may still run cannot write.
            yield DropNeed(claim.id, need)
        elif view.desired == "gone":
            yield from _pass_on(view, export)
    if away(view.agents, claim):
        why = "does not answer"
    else:
        why = f"keeps failing: {claim.error}" if claim.error else "keeps failing to remove what needs it"
    yield Leave(claim.id, f"{name(view.agents, claim.agent)} {why}")


def _fences(view: Server, export: Claim) -> bool:
    return any(volume.fences for volume in view.volumes if volume.attachment == export.part)


def _pass_on(view: Server, export: Claim) -> list[Change]:
    for volume in view.volumes:
        if volume.attachment == export.part:
            return [
                HandOver(export.id, volume.volume),
                PassAttachment(volume.attachment, volume.volume, volume.delete_on_termination),
            ]
    return [Leave(export.id, "its volume is gone")]


def give_back_what_stands_alone(view: Server) -> Step | None:
    """What stood for a claim goes in the transaction in which the claim was closed or left."""
    if up(view):
        return None
    changes: list[Change] = []
    release = view.desired in ("gone", "failed")
    for port in view.ports:
        if not open_part(view, port.id, "tap"):
            if release or port.detaching:
                changes.append(ReleasePort(port.id, port.interface))
            elif port.bound:
                changes.append(UnbindPort(port.id))
    for volume in view.volumes:
        if open_part(view, volume.attachment, "export", "connection"):
            continue
        if view.desired == "gone" or volume.detaching:
            delete = view.desired == "gone" and volume.delete_on_termination
            changes.append(EndAttachment(volume.attachment, volume.volume, delete))
        elif volume.connected:
            changes.append(SetAttachment(volume.attachment, "reserved"))
    if view.allocated and not host_claims(view):
        changes.append(FreeAllocation())
    return changes or None


def show_what_fails(view: Server) -> Step | None:
    """A removal that fails is visible at once, although it goes on: the server is not healthy."""
    if up(view) or not view.claims:
        return None
    if view.desired == "failed":
        # ERROR is shown once everything that can be removed is; what remains is named in the fault.
        if len(_stuck(view)) < len(view.claims) or view.vm_state == "error":
            return None
        return (Set({"vm_state": "error", "task_state": None, "host": None}), _build_fault(view))
    told = view.vm_state == "error" and view.tells_of_its_delete
    if view.desired == "gone" and not told and any(claim.error is not None for claim in view.claims):
        return (Set({"vm_state": "error"}), Fault(f"{DELETE_FAILED}{holds(view)}"))
    return None


def _stuck(view: Server) -> set[str]:
    """Claims whose removal fails, or that nobody hears of, and those that wait for such a one."""
    return with_needs(
        view, {claim.id for claim in view.claims if claim.error is not None or away(view.agents, claim)}
    )


def _build_fault(view: Server) -> Fault:
    story = story_of(list(view.attempts)) if view.attempts else "Build failed"
    return Fault(story + holds(view))


def wait_until_it_is_removed(view: Server) -> Step | None:
    if up(view) or not view.claims:
        return None
    wait = waiting_for(list(reversed(view.claims)), view.agents, view.patience)
    return in_time(view, wait) if view.giving_up else wait


def forget_the_host(view: Server) -> Step | None:
    if up(view) or (view.host is None and not view.giving_up):
        return None
    return (Set({"host": None, "giving_up": False}),)


def wait_for_what_goes_with_it(view: Server) -> Step | None:
    """A deleted server stays until its own volumes and its shelve image are gone, if it ever was on a host."""
    if view.desired != "gone":
        return None
    if view.image is not None:
        return (DropImage(view.image.id),)
    waits = [thing for thing in view.leaving if not thing.alone] if view.placed else []
    if not waits:
        return None
    ends = [thing.until for thing in waits if thing.until is not None]
    return Wait(f"waits for {waits[0].kind} {waits[0].id} to be deleted", min(ends) if ends else None)


def remove_the_record(view: Server) -> Step | None:
    return (Remove(),) if view.desired == "gone" else None


def rest_in_error(view: Server) -> Step | None:
    if view.desired != "failed":
        return None
    if view.vm_state != "error" or view.task_state is not None:
        return (Set({"vm_state": "error", "task_state": None, "power_state": 0}), _build_fault(view))
    return Rest()


def rest_offloaded(view: Server) -> Step | None:
    if view.desired != "offloaded":
        return None
    if not shows(view, "shelved_offloaded") or view.task_state is not None or view.devices_pending:
        values = {"task_state": None, "power_state": 4, "devices_pending": False}
        return (Set({**shown_as(view, "shelved_offloaded"), **values}), Arrived())
    return Rest()
