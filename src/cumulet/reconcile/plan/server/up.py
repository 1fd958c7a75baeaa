"""Going up: a host, and everything that the server has there."""

from __future__ import annotations

from cumulet.reconcile.plan.base import Change, DropNeed, Open, Step, Wait
from cumulet.reconcile.plan.server.changes import BindPort, Place
from cumulet.reconcile.plan.server.devices import want_volume
from cumulet.reconcile.plan.server.guest import guest_needs, guest_spec
from cumulet.reconcile.plan.server.view import COMING, Server
from cumulet.reconcile.plan.server.words import of, open_part


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
        if not open_part(view, disk.part, "disk"):
            needs = (disk.image_claim,) if disk.image_claim else ()
            changes.append(Open("disk", view.host, disk.spec, needs, disk.part))
    for volume in view.volumes:
        changes += want_volume(view, volume, view.host)
    for port in view.ports:
        if not port.detaching and not open_part(view, port.id, "tap"):
            if port.bound != view.host:
                changes.append(BindPort(port.id, view.host))
            changes.append(Open("tap", view.host, port.spec, (), port.id))
    if not any(claim.kind == "guest" for claim in view.claims):
        changes.append(Open("guest", view.host, guest_spec(view, None), tuple(guest_needs(view, None))))
    return changes or None


def need_the_image_no_more(view: Server) -> Step | None:
    """A disk that is made needs its image no longer: the image may be deleted while the server lives."""
    mine = {claim.id for claim in view.claims}
    drops = [
        DropNeed(claim.id, need)
        for claim in of(view, "disk")
        if claim.made
        for need in claim.needs
        if need not in mine
    ]
    return drops or None


def wait_for_ports(view: Server) -> Step | None:
    """A server that comes up for the first time has its network, as after Nova's event network-vif-plugged."""
    if view.vm_state not in COMING:
        return None
    waits = [port for port in view.ports if not port.up and not port.detaching]
    return Wait(f"waits for port {waits[0].id} to be up", view.build_until) if waits else None
