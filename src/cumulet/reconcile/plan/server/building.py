"""What can end a build."""

from __future__ import annotations

from typing import Any

from cumulet.reconcile.plan.base import Set, Step, Unwant, Wait, failing, name, waiting_for
from cumulet.reconcile.plan.server.changes import Fault, WriteVolume
from cumulet.reconcile.plan.server.view import UP, Server
from cumulet.reconcile.plan.server.words import building, here, story_of, up


def give_up_a_build_that_fails(view: Server) -> Step | None:
    """A failed attempt ends with the removal of all that it made, and then comes another host, or ERROR."""
    if not building(view):
        return None
    problem = _problem(view)
    if problem is None:
        return None
    step, error, fatal = problem
    attempt = {"host": name(view.agents, view.host) if view.host else None, "step": step, "error": error}
    attempts = [*view.attempts, attempt]
    values: dict[str, Any] = {"attempts": attempts}
    if view.host is not None:
        values["giving_up"] = True
    if fatal or view.host is None or len(attempts) >= view.max_attempts:
        values |= _given_up(view)
    return (Set(values), Fault(story_of(attempts)))


def _given_up(view: Server) -> dict[str, Any]:
    """A server that was shelved keeps what it had; only a first build ends in ERROR."""
    return {
        "desired": "offloaded" if view.vm_state == "shelved_offloaded" else "failed",
        "giving_up": False,
    }


def give_up_when_the_time_is_over(view: Server) -> Step | None:
    """What the last attempt left cannot be removed in time for another one."""
    if view.desired not in UP or not view.giving_up or view.build_until is None:
        return None
    if view.now < view.build_until:
        return None
    attempts = [*view.attempts, {"host": None, "step": "time", "error": "the build took too long"}]
    return (Set({"attempts": attempts, **_given_up(view)}), Fault(story_of(attempts)))


def _problem(view: Server) -> tuple[str, str, bool] | None:
    """(step, error, no other host would help) of what ends this attempt, or None."""
    for volume in view.volumes:
        if volume.error is not None:
            return "volume", f"volume {volume.volume}: {volume.error}", True
    for disk in view.disks:
        if disk.error is not None:
            return "disk", disk.error, True
    if view.build_until is not None and view.now >= view.build_until:
        waits = [v for v in view.volumes if not v.ready]
        if waits:
            return "volume", f"volume {waits[0].volume} did not become available in time", True
        return "time", "the build took too long", True
    if view.host is None:
        return None
    host = view.agents.get(view.host)
    if host is None or host.away:
        return "host", "the host does not answer", False
    for claim in view.claims:
        if not claim.wanted:
            continue
        if claim.lost:
            return claim.kind, f"the {claim.kind} was lost", False
        if claim.error is not None and (claim.agent == view.host or failing(claim, view.now, view.patience)):
            return claim.kind, claim.error, bool(claim.facts.get("fatal"))
    return None


def report_lost_data(view: Server) -> Step | None:
    """A disk that was there and is not is never made again: the new one would be empty."""
    lost = [claim for claim in view.claims if claim.lost and here(view, claim)] if up(view) else []
    if not lost:
        return None
    message = f"The {lost[0].kind} {lost[0].part} on {name(view.agents, lost[0].agent)} is lost"
    if view.vm_state != "error":
        return (Set({"vm_state": "error", "task_state": None}), Fault(message))
    return Wait(message)


def clear_for_a_rebuild(view: Server) -> Step | None:
    """The guest and the disks that are not kept go; then everything that is missing is made again."""
    if view.rebuild is None or not up(view):
        return None
    image = view.rebuild.image
    root = next((volume for volume in view.volumes if volume.root), None) if image else None
    going = [
        claim
        for claim in view.claims
        if claim.kind == "guest"
        or (claim.kind == "disk" and claim.part not in view.rebuild.keep)
        or (root is not None and claim.part == root.attachment)
    ]
    wanted = tuple(claim.id for claim in going if claim.wanted)
    if wanted:
        return (Unwant(wanted),)
    if going:
        return waiting_for(list(reversed(going)), view.agents, view.patience)
    done = Set({"rebuild": None})
    return (done, WriteVolume(root.volume, image)) if root is not None and image else (done,)
