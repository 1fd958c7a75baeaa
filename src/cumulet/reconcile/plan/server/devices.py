"""Ports and volumes of a server that is there: plugged in and let go."""

from __future__ import annotations

from collections.abc import Iterator

from cumulet.reconcile.plan.base import Change, DropNeed, Open, Set, Step, Unwant, failing, name, waiting_for
from cumulet.reconcile.plan.server.changes import (
    Arrived,
    DetachDevice,
    EndAttachment,
    NotArrived,
    ReleasePort,
    SetAttachment,
    SwapVolume,
)
from cumulet.reconcile.plan.server.view import Server, Volume
from cumulet.reconcile.plan.server.words import building, filling, here, named, of, open_part, the_guest, up
from cumulet.values import Claim


def end_what_was_detached(view: Server) -> Step | None:
    """A detach ends when nothing of it is left outside."""
    changes: list[Change] = []
    for port in view.ports:
        if port.detaching and not open_part(view, port.id, "tap"):
            changes.append(ReleasePort(port.id, port.interface))
    for volume in view.volumes:
        if volume.detaching and not open_part(view, volume.attachment, "export", "connection"):
            changes.append(EndAttachment(volume.attachment, volume.volume, delete=False))
    return changes or None


def give_up_a_device_that_fails(view: Server) -> Step | None:
    """A device that cannot be plugged into a server that is there goes, and the server stays as it was."""
    guest = the_guest(view)
    if guest is None or not guest.made or building(view) or (view.move and view.move.phase != "finished"):
        return None
    leaving = {port.id for port in view.ports if port.detaching}
    leaving |= {volume.attachment for volume in view.volumes if volume.detaching}
    for claim in of(view, "tap", "connection", "export"):
        if (
            not here(view, claim)
            or not claim.wanted
            or claim.made
            or claim.error is None
            or claim.part in leaving
        ):
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


#: What is desired of a server whose guest can copy a volume.
_RUNNING = ("active", "paused")


def give_up_a_swap(view: Server) -> Step | None:
    """Only a guest that runs, and stays where it is, fills one volume from another. The old one stays otherwise."""
    for volume in view.volumes:
        if not filling(view, volume) or volume.detaching:
            continue
        why = _unswappable(view, volume)
        if why is not None:
            message = f"The volume was not swapped: {why}"
            return (DetachDevice(volume.attachment), NotArrived(message, "swap_volume"))
    return None


def _unswappable(view: Server, volume: Volume) -> str | None:
    if not up(view) or view.desired not in _RUNNING:
        return "the server does not run any more"
    if view.rebuild is not None or (view.move is not None and view.move.phase != "finished"):
        return "the server is being moved or rebuilt"
    if volume.error is not None:
        return f"volume {volume.volume}: {volume.error}"
    copy = _copy(view, volume)
    return copy.removeprefix("failed: ") if copy.startswith("failed: ") else None


def _copy(view: Server, volume: Volume) -> str:
    """How far the copy into a volume is: ``ready``, ``failed: …`` or something else."""
    guest = the_guest(view)
    if guest is None or not guest.ready:
        return ""
    asked = any(
        one["into"]["part"] == volume.attachment for one in guest.spec.get("volumes", ()) if "into" in one
    )
    return str(guest.facts.get("copies", {}).get(volume.attachment, "")) if asked else ""


def swap_volumes(view: Server) -> Step | None:
    """Whatever the guest writes to the old volume it writes to the new one too: from now on that is the one."""
    for volume in view.volumes:
        if filling(view, volume) and not volume.detaching and _copy(view, volume) == "ready":
            assert volume.replaces is not None
            return (SwapVolume(volume.replaces, volume.attachment),)
    return None


def _unpluggable(guest: Claim) -> str | None:
    """The device that could not be plugged in, if that is why the guest is not as it should be."""
    cause = str(guest.facts.get("cause", "")) if guest.error is not None else ""
    return cause.removeprefix("plug ") if cause.startswith("plug ") else None


def well(guest: Claim) -> bool:
    """True if only a device of a guest is not as it should be: not plugged in, or not let go."""
    return guest.error is None or guest.facts.get("cause") == "device" or _unpluggable(guest) is not None


def want_volume(view: Server, volume: Volume, host: str) -> Iterator[Change]:
    if volume.detaching or not volume.ready or volume.agent is None:
        return
    if open_part(view, volume.attachment, "export", "connection"):
        return
    yield from volume_claims(view, volume, host)
    yield SetAttachment(volume.attachment, "attaching", host)


def volume_claims(view: Server, volume: Volume, host: str) -> Iterator[Change]:
    """What makes a volume usable on a host."""
    assert volume.agent is not None
    spec = {"volume": volume.volume, "host": name(view.agents, host), **volume.spec}
    yield Open("export", volume.agent, spec, (volume.claim,) if volume.claim else (), volume.attachment)
    if volume.connects:
        yield Open("connection", host, spec, (("export", volume.attachment),), volume.attachment)


def unwant_what_was_unplugged(view: Server) -> Step | None:
    """Once the guest has let go of a device, nothing needs the device's claims."""
    guest = the_guest(view)
    if guest is None or not guest.ready:
        return None
    kept = {part["part"] for part in [*guest.spec.get("nics", ()), *guest.spec.get("volumes", ())]}
    asked = {port.id for port in view.ports if not port.detaching}
    asked |= {volume.attachment for volume in view.volumes if not volume.detaching}
    kept |= {volume["into"]["part"] for volume in guest.spec.get("volumes", ()) if "into" in volume}
    kept |= {*guest.spec.get("disks", ())}
    asked |= {disk.part for disk in view.disks}
    gone = [
        claim
        for claim in of(view, "disk", "tap", "connection", "export")
        if here(view, claim)
        and claim.part not in kept
        and claim.part not in asked
        and (claim.wanted or claim.id in guest.needs)
    ]
    if not gone:
        return None
    drops = [DropNeed(guest.id, claim.id) for claim in gone if claim.id in guest.needs]
    return (*drops, Unwant(tuple(claim.id for claim in gone if claim.wanted)))


def show_attachments(view: Server) -> Step | None:
    guest = the_guest(view)
    if guest is None or not guest.ready:
        return None
    plugged = {volume["part"] for volume in guest.spec.get("volumes", ())}
    changes = []
    for volume in view.volumes:
        if volume.attachment in plugged and volume.status in ("reserved", "attaching"):
            export = named(view, "export", volume.attachment)
            info = export.facts if export else {}
            changes.append(SetAttachment(volume.attachment, "attached", view.host or "", info))
    return changes or None


def tell_that_devices_are_there(view: Server) -> Step | None:
    if not view.devices_pending or any(not claim.ready for claim in view.claims):
        return None
    if any(volume.extending or volume.replaces is not None for volume in view.volumes):
        return None
    return (Set({"devices_pending": False}), Arrived())


def wait_for_devices(view: Server) -> Step | None:
    """What is being attached or detached does not keep the rest of the server waiting."""
    waits = [claim for claim in view.claims if not claim.ready]
    return waiting_for(waits, view.agents, view.patience) if waits else None
