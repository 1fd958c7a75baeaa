"""The guest: what it is asked to be, and what is seen of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from cumulet.reconcile.plan.base import Named, Respec, Set, Step, name, waiting_for
from cumulet.reconcile.plan.server.changes import Fault
from cumulet.reconcile.plan.server.devices import well
from cumulet.reconcile.plan.server.view import POWERED, Port, Server, Volume
from cumulet.reconcile.plan.server.words import (
    building,
    fails,
    filling,
    in_time,
    last_kind,
    named,
    replaced,
    the_guest,
)
from cumulet.values import Claim


def _plugged(view: Server, guest: Claim | None) -> tuple[list[Port], list[Volume]]:
    """Ports and volumes that the guest should have: those that are wanted and whose things are there.

    A guest that was never made waits for all of them.
    """

    def there(kind: str, part: str) -> bool:
        claim = named(view, kind, part)
        return (
            claim is not None and claim.wanted and (claim.ready or claim.id in guest.needs if guest else True)
        )

    if guest is None:
        return (
            [port for port in view.ports if not port.detaching],
            [volume for volume in view.volumes if not volume.detaching and volume.ready],
        )
    ports = [port for port in view.ports if not port.detaching and there("tap", port.id)]
    volumes = [v for v in view.volumes if not v.detaching and there(last_kind(v), v.attachment)]
    return ports, volumes


def guest_spec(view: Server, guest: Claim | None) -> dict[str, Any]:
    ports, volumes = _plugged(view, guest)
    spec = {
        **view.guest,
        "disks": [disk.part for disk in view.disks],
        "nics": [{"part": port.id, **port.spec} for port in ports],
        "volumes": [_volume(view, guest, v, volumes) for v in volumes if not filling(view, v)],
        "power": _power(view),
        "counters": dict(view.counters),
    }
    address = _address(view, guest)
    return spec if address is None else {**spec, "migrate_to": {"id": address[0], "address": address[1]}}


def _volume(view: Server, guest: Claim | None, volume: Volume, plugged: Sequence[Volume]) -> dict[str, Any]:
    """A volume as the guest is told of it: also what it is copied ``into``, or comes ``from``, while it is swapped."""
    spec = _as_part(volume)
    into = next((one for one in plugged if one.replaces == volume.attachment), None)
    if into is not None:
        spec["into"] = _as_part(into)
    old = replaced(view, volume)
    held = named(view, last_kind(old), old.attachment) if old is not None else None
    if old is not None and held is not None and guest is not None and held.id in guest.needs:
        spec["from"] = old.attachment
    return spec


def _as_part(volume: Volume) -> dict[str, Any]:
    return {"part": volume.attachment, "kind": last_kind(volume), "volume": volume.volume, **volume.spec}


def _power(view: Server) -> str:
    if view.move is not None and view.move.copies and view.move.phase == "moving":
        return "off"
    return POWERED.get(view.desired, "off")


def _address(view: Server, guest: Claim | None) -> tuple[str, Any] | None:
    """(move, address) of the guest that waits at the target of a live migration, once it does.

    No address: the guest hands nothing over any more. But if it is not there it is not made again either, for it may
    run where it went.
    """
    move = view.move
    if move is None or not move.live:
        return None
    if move.phase == "aborting" and guest is not None and "migrate_to" in guest.spec:
        return move.id, None
    waiting = the_guest(view, move.target) if move.phase == "moving" else None
    if waiting is None or not waiting.ready or "incoming" not in waiting.facts:
        return None
    return move.id, waiting.facts["incoming"]


def guest_needs(view: Server, guest: Claim | None) -> Iterator[Named]:
    """(kind, part) of all that the guest needs."""
    ports, volumes = _plugged(view, guest)
    for disk in view.disks:
        yield ("disk", disk.part)
    for volume in volumes:
        yield (last_kind(volume), volume.attachment)
    for port in ports:
        yield ("tap", port.id)


def tell_the_guest(view: Server) -> Step | None:
    """Power, counters and devices of the guest, where they differ from what it was asked last."""
    guest = the_guest(view)
    if guest is None:
        return None
    spec = guest_spec(view, guest)
    if spec == guest.spec:
        return None
    there = [named(view, kind, part) for kind, part in guest_needs(view, guest)]
    needs = [claim.id for claim in there if claim is not None and claim.wanted]
    return (Respec(guest.id, spec, tuple(need for need in needs if need not in guest.needs)),)


def wait_for_the_guest(view: Server) -> Step | None:
    """The guest, and all that it needs."""
    guest = the_guest(view)
    needs = guest.needs if guest else ()
    waits = [
        claim
        for claim in view.claims
        if claim.wanted and not claim.ready and (claim is guest or claim.id in needs)
    ]
    if not waits:
        return None
    if guest is not None and guest.made and not well(guest) and view.vm_state != "error":
        message = f"The guest failed on {name(view.agents, view.host)}: {guest.error}"
        return (Set({"vm_state": "error", "task_state": None}), Fault(message))
    if guest is not None and not guest.made and not building(view) and view.vm_state != "error":
        failed = next((claim for claim in waits if fails(claim)), None)
        if failed is not None:
            message = f"The {failed.kind} failed on {name(view.agents, failed.agent)}: {failed.error}"
            return (Set({"vm_state": "error", "task_state": None}), Fault(message))
    wait = waiting_for(waits, view.agents, view.patience)
    return in_time(view, wait) if building(view) else wait


def believe_the_guest(view: Server) -> Step | None:
    """A guest that powered itself off stays off: what is observed wins."""
    guest = the_guest(view)
    if (
        guest is None
        or not guest.ready
        or guest.spec.get("power") != "on"
        or guest.facts.get("power") != "off"
    ):
        return None
    if view.desired != "active" or view.move is not None:
        return None
    return (Set({"desired": "stopped"}),)
