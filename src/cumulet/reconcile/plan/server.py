"""The plan of a server: from what it is and holds to what is done next. Pure.

Whether a server's things may go is never asked of its state. There are two questions: does it want its host's
things (``up``), and which of its claims are open. Delete, a failed build, an offload and a failed attempt all
take the same rules: want nothing of the host, wait or leave, give back what stood for each closed claim.

    desired     active, stopped    on a host, running or not
                shelved            on a host, powered off, its disk saved as an image
                offloaded          on no host; keeps its ports and volumes
                failed             its build gave up: on no host, no ports; keeps its volumes reserved
                gone               nothing
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from cumulet.reconcile.plan.base import (
    Change,
    DropNeed,
    HandOver,
    Leave,
    Named,
    Open,
    Remove,
    Respec,
    Rest,
    Rule,
    Set,
    Step,
    Unwant,
    Wait,
    away,
    failing,
    name,
    waiting_for,
)
from cumulet.values import AgentView, Claim

#: States of a server that is not there yet, or not any more.
COMING = frozenset({"building", "shelved_offloaded"})
UP = frozenset({"active", "stopped", "shelved"})
#: How a fault begins that tells of a removal that fails.
DELETE_FAILED = "Delete goes on, but failed"
POWER = {"on": 1, "paused": 3, "off": 4, "suspended": 7}


class Port(msgspec.Struct, frozen=True):
    """A port of the server."""

    id: str
    interface: str
    bound: str = ""
    #: The network's agent has told that it is up.
    up: bool = False
    detaching: bool = False
    spec: Mapping[str, Any] = {}


class Volume(msgspec.Struct, frozen=True):
    """A block device of the server that is a volume. Its claims are named by its attachment."""

    attachment: str
    volume: str
    agent: str | None
    #: The claim of its bytes; what exports it needs that.
    claim: str | None
    ready: bool
    #: Of the attachment: reserved, attaching, attached, detaching.
    status: str = "reserved"
    #: The attachment names a host. A server without one can have volumes that are attached all the same.
    connected: bool = False
    error: str | None = None
    detaching: bool = False
    #: The host must connect the export before a guest can use it.
    connects: bool = True
    #: The back end can take an export away from a host that does not answer.
    fences: bool = True
    delete_on_termination: bool = False
    #: Its back end is making it larger.
    extending: bool = False
    spec: Mapping[str, Any] = {}


class Disk(msgspec.Struct, frozen=True):
    """A disk that lives on the host."""

    part: str
    spec: Mapping[str, Any] = {}
    #: The claim of the image's bytes that it is made from.
    image_claim: str | None = None
    image_ready: bool = True
    #: It cannot be made any more: its image is gone.
    error: str | None = None


class Leaving(msgspec.Struct, frozen=True):
    """Something that is deleted together with the server and waited for."""

    id: str
    kind: str
    #: Nobody waits for it: its agent is silent, or keeps failing.
    alone: bool = False
    #: When it will be alone if it goes on failing.
    until: float | None = None


class Image(msgspec.Struct, frozen=True):
    """The image that a shelve makes."""

    id: str
    status: str


class Server(msgspec.Struct, frozen=True):
    """All that the plan knows."""

    id: str
    desired: str
    vm_state: str
    now: float
    patience: float
    task_state: str | None = None
    #: An administrator set the state that it shows: that one stays, whatever is true.
    state_is_reset: bool = False
    #: If it shows a fault, that is of its removal, and not of what failed before.
    tells_of_its_delete: bool = True
    power_state: int = 0
    host: str | None = None
    #: True from the first time that it was given to a host.
    placed: bool = False
    giving_up: bool = False
    #: True once it was active for the first time.
    launched: bool = False
    attempts: tuple[Mapping[str, Any], ...] = ()
    max_attempts: int = 3
    build_until: float | None = None
    claims: tuple[Claim, ...] = ()
    ports: tuple[Port, ...] = ()
    volumes: tuple[Volume, ...] = ()
    disks: tuple[Disk, ...] = ()
    agents: Mapping[str, AgentView] = {}
    #: What the guest is, apart from its devices and its power.
    guest: Mapping[str, Any] = {}
    counters: Mapping[str, int] = {}
    #: A device is being plugged or unplugged.
    devices_pending: bool = False
    image: Image | None = None
    shelved_at: float | None = None
    #: Seconds from shelved to offloaded; negative for never by itself.
    offload_after: float = 0.0
    #: Has an allocation at placement.
    allocated: bool = False
    #: What is deleted with it and is still there: its own volumes, the image of its shelving.
    leaving: tuple[Leaving, ...] = ()
    #: Names of steps that a fault rule holds.
    held: frozenset[str] = frozenset()


# --- changes that only a server has ---


class Place(Change, frozen=True):
    """Choose a host and take room on it; the answer is the server's host, or a failed build."""


class BindPort(Change, frozen=True):
    port: str
    host: str


class UnbindPort(Change, frozen=True):
    port: str


class ReleasePort(Change, frozen=True):
    """An automatic port is deleted, a user's port is given back as it was."""

    port: str
    interface: str


class SetAttachment(Change, frozen=True):
    """The attachment's status, and the host that has it ("" for none)."""

    attachment: str
    status: str
    host: str = ""
    info: Mapping[str, Any] = {}


class EndAttachment(Change, frozen=True):
    """The attachment and its block device go; with ``delete`` the volume too."""

    attachment: str
    volume: str
    delete: bool


class PassAttachment(Change, frozen=True):
    """The volume itself waits for the end of the attachment, and then is deleted or available."""

    attachment: str
    volume: str
    delete: bool


class FreeAllocation(Change, frozen=True):
    pass


class TakeImage(Change, frozen=True):
    """Fill the image from a disk."""

    image: str
    disk: str
    host: str


class DropImage(Change, frozen=True):
    image: str


class Fault(Change, frozen=True):
    message: str
    code: int = 500


class DetachDevice(Change, frozen=True):
    """A port (its id) or a volume (its attachment's) goes, although nobody asked for that."""

    part: str


class Arrived(Change, frozen=True):
    """What the user asked for last has come true."""


class NotArrived(Change, frozen=True):
    """What the user asked for last will not come true; the server itself is well."""

    message: str


# --- words ---


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


def _of(view: Server, *kinds: str) -> list[Claim]:
    return [claim for claim in view.claims if claim.kind in kinds]


def _named(view: Server, kind: str, part: str) -> Claim | None:
    return next((claim for claim in view.claims if claim.kind == kind and claim.part == part), None)


def _guest(view: Server) -> Claim | None:
    return next((claim for claim in view.claims if claim.kind == "guest" and claim.wanted), None)


def _host_claims(view: Server) -> list[Claim]:
    return [claim for claim in view.claims if claim.kind != "export"]


def _open_part(view: Server, part: str, *kinds: str) -> bool:
    return any(claim.part == part and claim.kind in kinds for claim in view.claims)


def _shows(view: Server, state: str) -> bool:
    """True if it shows that state, or another one by an administrator's word."""
    return view.vm_state == state or view.state_is_reset


def _shown_as(view: Server, state: str) -> dict[str, Any]:
    return {} if _shows(view, state) else {"vm_state": state}


def _holds(view: Server) -> str:
    """What is still held, for a fault's message."""
    words = [
        f"{claim.kind} on {name(view.agents, claim.agent)}" + (f" ({claim.error})" if claim.error else "")
        for claim in reversed(view.claims)
    ]
    return "; still held: " + ", ".join(words) if words else ""


# --- going up: what can end a build ---


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
    return (Set(values), Fault(_story(attempts)))


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
    return (Set({"attempts": attempts, **_given_up(view)}), Fault(_story(attempts)))


def _story(attempts: list[Mapping[str, Any]]) -> str:
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
    lost = [claim for claim in view.claims if claim.lost] if up(view) else []
    if not lost:
        return None
    message = f"The {lost[0].kind} {lost[0].part} on {name(view.agents, lost[0].agent)} is lost"
    if view.vm_state != "error":
        return (Set({"vm_state": "error", "task_state": None}), Fault(message))
    return Wait(message)


# --- going down: the one path of delete, offload, failed build and failed attempt ---


def want_nothing_of_the_host(view: Server) -> Step | None:
    if up(view):
        return None
    wanted = tuple(claim.id for claim in view.claims if claim.wanted)
    return (Unwant(wanted),) if wanted else None


def leave_what_nobody_answers_for(view: Server) -> Step | None:
    """Nobody waits longer than the patience for an agent that is silent or keeps failing.

    Nor for what cannot go before something that nobody answers for.
    """
    if up(view):
        return None
    unanswered = {claim.id for claim in view.claims if _unanswered(view, claim)}
    behind = _with_needs(view, unanswered)
    changes: list[Change] = []
    for claim in view.claims:
        if claim.kind == "export":
            if view.desired == "gone" and claim.id in unanswered:
                changes += _pass_on(view, claim)
        elif claim.id in behind:
            changes += _leave(view, claim)
    return changes or None


def _with_needs(view: Server, claims: set[str]) -> set[str]:
    """The claims, and all of the server that they need, which cannot go before them."""
    found = set(claims)
    for claim in sorted(view.claims, key=lambda claim: -claim.rank):
        if claim.id in found:
            found |= {need for need in claim.needs if any(other.id == need for other in view.claims)}
    return found


def _unanswered(view: Server, claim: Claim) -> bool:
    return away(view.agents, claim) or failing(claim, view.now, view.patience)


def _leave(view: Server, claim: Claim) -> Iterator[Change]:
    """Leave a claim of a host. What it needs elsewhere must not wait for the host either."""
    exports = {export.id: export for export in _of(view, "export")}
    mine = {other.id for other in _host_claims(view)}
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
        if not _open_part(view, port.id, "tap"):
            if release or port.detaching:
                changes.append(ReleasePort(port.id, port.interface))
            elif port.bound:
                changes.append(UnbindPort(port.id))
    for volume in view.volumes:
        if _open_part(view, volume.attachment, "export", "connection"):
            continue
        if view.desired == "gone" or volume.detaching:
            delete = view.desired == "gone" and volume.delete_on_termination
            changes.append(EndAttachment(volume.attachment, volume.volume, delete))
        elif volume.connected:
            changes.append(SetAttachment(volume.attachment, "reserved"))
    if view.allocated and not _host_claims(view):
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
        return (Set({"vm_state": "error"}), Fault(f"{DELETE_FAILED}{_holds(view)}"))
    return None


def _stuck(view: Server) -> set[str]:
    """Claims whose removal fails, or that nobody hears of, and those that wait for such a one."""
    return _with_needs(
        view, {claim.id for claim in view.claims if claim.error is not None or away(view.agents, claim)}
    )


def _build_fault(view: Server) -> Fault:
    story = _story(list(view.attempts)) if view.attempts else "Build failed"
    return Fault(story + _holds(view))


def wait_until_it_is_removed(view: Server) -> Step | None:
    if up(view) or not view.claims:
        return None
    wait = waiting_for(list(reversed(view.claims)), view.agents, view.patience)
    return _in_time(view, wait) if view.giving_up else wait


def _in_time(view: Server, wait: Wait) -> Wait:
    """The same, but no longer than the build may take."""
    if view.build_until is None:
        return wait
    return Wait(wait.reason, min(view.build_until, wait.until or view.build_until))


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
    if not _shows(view, "shelved_offloaded") or view.task_state is not None or view.devices_pending:
        values = {"task_state": None, "power_state": 4, "devices_pending": False}
        return (Set({**_shown_as(view, "shelved_offloaded"), **values}), Arrived())
    return Rest()


# --- going up ---


def end_what_was_detached(view: Server) -> Step | None:
    """A detach ends when nothing of it is left outside."""
    changes: list[Change] = []
    for port in view.ports:
        if port.detaching and not _open_part(view, port.id, "tap"):
            changes.append(ReleasePort(port.id, port.interface))
    for volume in view.volumes:
        if volume.detaching and not _open_part(view, volume.attachment, "export", "connection"):
            changes.append(EndAttachment(volume.attachment, volume.volume, delete=False))
    return changes or None


def give_up_a_device_that_fails(view: Server) -> Step | None:
    """A device that cannot be plugged into a server that is there goes, and the server stays as it was."""
    guest = _guest(view)
    if guest is None or building(view):
        return None
    leaving = {port.id for port in view.ports if port.detaching}
    leaving |= {volume.attachment for volume in view.volumes if volume.detaching}
    for claim in _of(view, "tap", "connection", "export"):
        if not claim.wanted or claim.made or claim.error is None or claim.part in leaving:
            continue
        if claim.agent == view.host or failing(claim, view.now, view.patience):
            where = name(view.agents, claim.agent)
            message = f"The {claim.kind} could not be made on {where}: {claim.error}"
            return (DetachDevice(claim.part), NotArrived(message))
    part = _unpluggable(guest)
    known = {port.id for port in view.ports} | {volume.attachment for volume in view.volumes}
    if part is not None and part in known - leaving:
        return (DetachDevice(part), NotArrived(f"On {name(view.agents, view.host)} {guest.error}"))
    return None


def _unpluggable(guest: Claim) -> str | None:
    """The device that could not be plugged in, if that is why the guest is not as it should be."""
    cause = str(guest.facts.get("cause", "")) if guest.error is not None else ""
    return cause.removeprefix("plug ") if cause.startswith("plug ") else None


def _well(guest: Claim) -> bool:
    """True if only a device of a guest is not as it should be: not plugged in, or not let go."""
    return guest.error is None or guest.facts.get("cause") == "device" or _unpluggable(guest) is not None


def wait_for_volumes(view: Server) -> Step | None:
    if view.host is not None:
        return None
    waits = [volume for volume in view.volumes if not volume.ready and not volume.detaching]
    if waits:
        return Wait(f"waits for volume {waits[0].volume} to become available", view.build_until)
    for disk in view.disks:
        if not disk.image_ready:
            return Wait("waits for the image's data", view.build_until)
    return None


def choose_a_host(view: Server) -> Step | None:
    if view.host is not None:
        return None
    if "schedule" in view.held:
        return Wait("a fault rule holds the step schedule")
    return (Place(),)


def want_what_is_missing(view: Server) -> Step | None:
    """Open the claims of everything that the server has on its host and is not in the ledger yet."""
    assert view.host is not None
    changes: list[Change] = []
    for disk in view.disks:
        if not _open_part(view, disk.part, "disk"):
            needs = (disk.image_claim,) if disk.image_claim else ()
            changes.append(Open("disk", view.host, disk.spec, needs, disk.part))
    for volume in view.volumes:
        changes += _want_volume(view, volume, view.host)
    for port in view.ports:
        if not port.detaching and not _open_part(view, port.id, "tap"):
            if port.bound != view.host:
                changes.append(BindPort(port.id, view.host))
            changes.append(Open("tap", view.host, port.spec, (), port.id))
    if not any(claim.kind == "guest" for claim in view.claims):
        changes.append(Open("guest", view.host, _guest_spec(view, None), tuple(_guest_needs(view, None))))
    return changes or None


def _want_volume(view: Server, volume: Volume, host: str) -> Iterator[Change]:
    if volume.detaching or not volume.ready or volume.agent is None:
        return
    if _open_part(view, volume.attachment, "export", "connection"):
        return
    spec = {"volume": volume.volume, "host": name(view.agents, host), **volume.spec}
    yield Open("export", volume.agent, spec, (volume.claim,) if volume.claim else (), volume.attachment)
    if volume.connects:
        yield Open("connection", host, spec, (("export", volume.attachment),), volume.attachment)
    yield SetAttachment(volume.attachment, "attaching", host)


def _plugged(view: Server, guest: Claim | None) -> tuple[list[Port], list[Volume]]:
    """Ports and volumes that the guest should have: those that are wanted and whose things are there.

    A guest that was never made waits for all of them.
    """

    def there(kind: str, part: str) -> bool:
        claim = _named(view, kind, part)
        return (
            claim is not None and claim.wanted and (claim.ready or claim.id in guest.needs if guest else True)
        )

    if guest is None:
        return (
            [port for port in view.ports if not port.detaching],
            [volume for volume in view.volumes if not volume.detaching and volume.ready],
        )
    ports = [port for port in view.ports if not port.detaching and there("tap", port.id)]
    volumes = [v for v in view.volumes if not v.detaching and there(_last_kind(v), v.attachment)]
    return ports, volumes


def _last_kind(volume: Volume) -> str:
    """The kind of the claim that a guest needs to use the volume."""
    return "connection" if volume.connects else "export"


def _guest_spec(view: Server, guest: Claim | None) -> dict[str, Any]:
    ports, volumes = _plugged(view, guest)
    return {
        **view.guest,
        "disks": [disk.part for disk in view.disks],
        "nics": [{"part": port.id, **port.spec} for port in ports],
        "volumes": [
            {"part": v.attachment, "kind": _last_kind(v), "volume": v.volume, **v.spec} for v in volumes
        ],
        "power": "on" if view.desired == "active" else "off",
        "counters": dict(view.counters),
    }


def _guest_needs(view: Server, guest: Claim | None) -> Iterator[Named]:
    ports, volumes = _plugged(view, guest)
    for disk in view.disks:
        yield ("disk", disk.part)
    for volume in volumes:
        yield (_last_kind(volume), volume.attachment)
    for port in ports:
        yield ("tap", port.id)


def tell_the_guest(view: Server) -> Step | None:
    """Power, counters and devices of the guest, where they differ from what it was asked last."""
    guest = _guest(view)
    if guest is None:
        return None
    spec = _guest_spec(view, guest)
    if spec == guest.spec:
        return None
    by_name = {(claim.kind, claim.part): claim.id for claim in view.claims if claim.wanted}
    needs = [by_name[named] for named in _guest_needs(view, guest) if named in by_name]
    return (Respec(guest.id, spec, tuple(need for need in needs if need not in guest.needs)),)


def unwant_what_was_unplugged(view: Server) -> Step | None:
    """Once the guest has let go of a device, nothing needs the device's claims."""
    guest = _guest(view)
    if guest is None or not guest.ready:
        return None
    kept = {part["part"] for part in [*guest.spec.get("nics", ()), *guest.spec.get("volumes", ())]}
    asked = {port.id for port in view.ports if not port.detaching}
    asked |= {volume.attachment for volume in view.volumes if not volume.detaching}
    gone = [
        claim
        for claim in _of(view, "tap", "connection", "export")
        if claim.part not in kept and claim.part not in asked and (claim.wanted or claim.id in guest.needs)
    ]
    if not gone:
        return None
    drops = [DropNeed(guest.id, claim.id) for claim in gone if claim.id in guest.needs]
    return (*drops, Unwant(tuple(claim.id for claim in gone if claim.wanted)))


def need_the_image_no_more(view: Server) -> Step | None:
    """A disk that is made needs its image no longer: the image may be deleted while the server lives."""
    mine = {claim.id for claim in view.claims}
    drops = [
        DropNeed(claim.id, need)
        for claim in _of(view, "disk")
        if claim.made
        for need in claim.needs
        if need not in mine
    ]
    return drops or None


def show_attachments(view: Server) -> Step | None:
    guest = _guest(view)
    if guest is None or not guest.ready:
        return None
    plugged = {volume["part"] for volume in guest.spec.get("volumes", ())}
    changes = []
    for volume in view.volumes:
        if volume.attachment in plugged and volume.status in ("reserved", "attaching"):
            export = _named(view, "export", volume.attachment)
            info = export.facts if export else {}
            changes.append(SetAttachment(volume.attachment, "attached", view.host or "", info))
    return changes or None


def wait_for_the_guest(view: Server) -> Step | None:
    """The guest, and all that it needs."""
    guest = _guest(view)
    needs = guest.needs if guest else ()
    waits = [
        claim
        for claim in view.claims
        if claim.wanted and not claim.ready and (claim is guest or claim.id in needs)
    ]
    if not waits:
        return None
    if guest is not None and guest.made and not _well(guest) and view.vm_state != "error":
        message = f"The guest failed on {name(view.agents, view.host)}: {guest.error}"
        return (Set({"vm_state": "error", "task_state": None}), Fault(message))
    wait = waiting_for(waits, view.agents, view.patience)
    return _in_time(view, wait) if building(view) else wait


def wait_for_ports(view: Server) -> Step | None:
    """A server that comes up for the first time has its network, as after Nova's event network-vif-plugged."""
    if view.vm_state not in COMING:
        return None
    waits = [port for port in view.ports if not port.up and not port.detaching]
    return Wait(f"waits for port {waits[0].id} to be up", view.build_until) if waits else None


def believe_the_guest(view: Server) -> Step | None:
    """A guest that powered itself off stays off: what is observed wins."""
    guest = _guest(view)
    if guest is None or view.desired != "active" or guest.facts.get("power") != "off":
        return None
    return (Set({"desired": "stopped"}),)


def tell_that_devices_are_there(view: Server) -> Step | None:
    if not view.devices_pending or any(not claim.ready for claim in view.claims):
        return None
    if any(volume.extending for volume in view.volumes):
        return None
    return (Set({"devices_pending": False}), Arrived())


def save_the_disk(view: Server) -> Step | None:
    """A shelved server's disk becomes an image before the host is left; one that has no disk needs none."""
    if view.desired != "shelved" or view.image is None:
        return None
    if view.image.status == "active":
        return None
    if view.image.status in ("error", "gone"):
        message = f"The image of the disk could not be made: {view.image.status}"
        return (Set({"desired": "stopped", "task_state": None}), DropImage(view.image.id), Fault(message))
    root = _named(view, "disk", "root")
    if view.image.status == "queued" and root is not None and view.host is not None:
        return (TakeImage(view.image.id, root.id, view.host),)
    return Wait("waits for the image of the disk")


def show_it_shelved(view: Server) -> Step | None:
    if view.desired != "shelved":
        return None
    if not _shows(view, "shelved") or view.shelved_at is None:
        values = {"task_state": None, "power_state": 4, "shelved_at": view.now}
        return (Set({**_shown_as(view, "shelved"), **values}), Arrived())
    if view.offload_after < 0:
        return Rest()
    due = (view.shelved_at or view.now) + view.offload_after
    if view.now < due:
        return Wait("is shelved, and will be offloaded", due)
    return (Set({"desired": "offloaded", "task_state": "shelving_offloading"}),)


def show_it_as_it_is(view: Server) -> Step | None:
    guest = _guest(view)
    if guest is None:
        return None
    power = POWER.get(str(guest.facts.get("power", "off")), 0)
    state = "active" if view.desired == "active" else "stopped"
    values: dict[str, Any] = {}
    if not _shows(view, state):
        values["vm_state"] = state
    if view.power_state != power:
        values["power_state"] = power
    if view.task_state is not None:
        values["task_state"] = None
    if not view.launched:
        values["launched_at"] = view.now
    changes: list[Change] = [Set(values), Arrived()] if values else []
    if view.image is not None:
        # Unshelved: the disk that it was saved from is here again.
        changes.append(DropImage(view.image.id))
    return changes or None


def wait_for_devices(view: Server) -> Step | None:
    """What is being attached or detached does not keep the rest of the server waiting."""
    waits = [claim for claim in view.claims if not claim.ready]
    return waiting_for(waits, view.agents, view.patience) if waits else None


RULES: tuple[Rule[Server], ...] = (
    give_up_a_build_that_fails,
    give_up_when_the_time_is_over,
    report_lost_data,
    want_nothing_of_the_host,
    leave_what_nobody_answers_for,
    give_back_what_stands_alone,
    show_what_fails,
    wait_until_it_is_removed,
    forget_the_host,
    wait_for_what_goes_with_it,
    remove_the_record,
    rest_in_error,
    rest_offloaded,
    end_what_was_detached,
    give_up_a_device_that_fails,
    wait_for_volumes,
    choose_a_host,
    want_what_is_missing,
    unwant_what_was_unplugged,
    need_the_image_no_more,
    tell_the_guest,
    show_attachments,
    wait_for_the_guest,
    wait_for_ports,
    believe_the_guest,
    tell_that_devices_are_there,
    save_the_disk,
    show_it_shelved,
    show_it_as_it_is,
    wait_for_devices,
)
