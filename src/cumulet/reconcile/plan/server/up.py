"""Going up: a host, and everything that the server has there."""

from __future__ import annotations

from collections.abc import Sequence

from cumulet.reconcile.plan.base import Change, DropNeed, Named, Open, Set, Step, Wait, waiting_for
from cumulet.reconcile.plan.server.changes import BindPort, Fault, Place
from cumulet.reconcile.plan.server.devices import want_volume
from cumulet.reconcile.plan.server.guest import guest_needs, guest_spec
from cumulet.reconcile.plan.server.view import COMING, Server, Volume
from cumulet.reconcile.plan.server.words import here, named, of, open_part
from cumulet.values import Claim


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
    """Open the claims of everything that the server has on its host and is not in the ledger yet.

    What it has on another host still is made here once that has gone; the guest comes last, and has all.
    """
    assert view.host is not None
    changes: list[Change] = []
    for disk in view.disks:
        if named(view, "disk", disk.part) is None and disk.image_ready and disk.error is None:
            needs = (disk.image_claim,) if disk.image_claim else ()
            changes.append(Open("disk", view.host, disk.spec, needs, disk.part))
    for volume in view.volumes:
        changes += want_volume(view, volume, view.host)
    for port in view.ports:
        if not port.detaching and not open_part(view, port.id, "tap"):
            if port.bound != view.host:
                changes.append(BindPort(port.id, view.host))
            changes.append(Open("tap", view.host, port.spec, (), port.id))
    if any(claim.kind == "guest" and here(view, claim) for claim in view.claims):
        return changes or None
    guest = _the_guest_itself(view, changes)
    if isinstance(guest, Open):
        return [*changes, guest]
    return changes or guest


def _the_guest_itself(view: Server, opened: Sequence[Change]) -> Open | Step:
    """A guest with all that it needs; or what it waits for."""
    left = [claim for claim in view.claims if claim.kind == "guest" or not here(view, claim)]
    new = {(change.kind, change.part) for change in opened if isinstance(change, Open)}
    needs: list[str | Named] = []
    for kind, part in guest_needs(view, None):
        claim = named(view, kind, part)
        if claim is not None and claim.wanted:
            needs.append(claim.id)
        elif (kind, part) in new:
            needs.append((kind, part))
        else:
            return _missing(view, left)
    if any(claim.kind == "guest" for claim in view.claims) or _unready(view):
        return _missing(view, left)
    assert view.host is not None
    return Open("guest", view.host, guest_spec(view, None), tuple(needs))


def _unready(view: Server) -> list[Volume]:
    return [volume for volume in view.volumes if not volume.detaching and not volume.ready]


def _missing(view: Server, left: Sequence[Claim]) -> Step:
    """Why the guest cannot be made yet."""
    broken = _broken(view)
    if broken is not None and (view.vm_state != "error" or view.task_state is not None):
        return (Set({"vm_state": "error", "task_state": None}), Fault(broken))
    unready = _unready(view)
    if unready:
        return Wait(f"waits for volume {unready[0].volume} to become available", view.build_until)
    if left:
        return waiting_for(left, view.agents, view.patience)
    waits = [claim for claim in view.claims if not claim.ready]
    if waits:
        return waiting_for(waits, view.agents, view.patience)
    return Wait("waits for the image's data", view.build_until)


def _broken(view: Server) -> str | None:
    """What the guest would have and cannot, in words."""
    for disk in view.disks:
        if disk.error is not None:
            return f"The disk cannot be made: {disk.error}"
    for volume in view.volumes:
        if volume.error is not None and not volume.detaching:
            return f"Volume {volume.volume} cannot be used: {volume.error}"
    return None


def need_the_image_no_more(view: Server) -> Step | None:
    """A disk that is made needs nothing that it was made from: the image may be deleted while the server lives."""
    return [
        DropNeed(claim.id, need) for claim in of(view, "disk") if claim.made for need in claim.needs
    ] or None


def wait_for_ports(view: Server) -> Step | None:
    """A server that comes up for the first time has its network, as after Nova's event network-vif-plugged."""
    if view.vm_state not in COMING and (view.move is None or view.move.phase == "finished"):
        return None
    waits = [port for port in view.ports if not port.up and not port.detaching]
    return Wait(f"waits for port {waits[0].id} to be up", view.build_until) if waits else None
