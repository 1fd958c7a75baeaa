"""What is shown of a server that is as desired."""

from __future__ import annotations

from typing import Any

from cumulet.reconcile.plan.base import Change, Rest, Set, Step, Wait
from cumulet.reconcile.plan.server.changes import Arrived, DropImage, EndSnapshot, Fault, TakeImage
from cumulet.reconcile.plan.server.view import POWER, SHOWN, Server
from cumulet.reconcile.plan.server.words import named, shown_as, shows, the_guest


def save_the_disk(view: Server) -> Step | None:
    """A shelved server's disk becomes an image before the host is left; one that has no disk needs none."""
    if view.desired != "shelved" or view.image is None:
        return None
    if view.image.status == "active":
        return None
    if view.image.status in ("error", "gone"):
        message = f"The image of the disk could not be made: {view.image.status}"
        return (Set({"desired": "stopped", "task_state": None}), DropImage(view.image.id), Fault(message))
    root = named(view, "disk", "root")
    if view.image.status == "queued" and root is not None and view.host is not None:
        return (TakeImage(view.image.id, root.id, view.host),)
    return Wait("waits for the image of the disk")


def show_it_shelved(view: Server) -> Step | None:
    if view.desired != "shelved":
        return None
    if not shows(view, "shelved") or view.shelved_at is None:
        values = {"task_state": None, "power_state": 4, "shelved_at": view.now}
        return (Set({**shown_as(view, "shelved"), **values}), Arrived())
    if view.offload_after < 0:
        return Rest()
    due = (view.shelved_at or view.now) + view.offload_after
    if view.now < due:
        return Wait("is shelved, and will be offloaded", due)
    return (Set({"desired": "offloaded", "task_state": "shelving_offloading"}),)


def make_the_snapshot(view: Server) -> Step | None:
    """An image is filled from the server's disk while it runs on."""
    if view.snapshot is None:
        return None
    image, status = view.snapshot.image, view.snapshot.status
    if status == "active":
        return (EndSnapshot(image),)
    root = named(view, "disk", "root")
    if status not in ("queued", "saving", "importing") or (status == "queued" and root is None):
        return (EndSnapshot(image, f"The image of the disk could not be made: {status}"),)
    if status == "queued" and root is not None and view.host is not None:
        return (TakeImage(image, root.id, view.host), Set({"task_state": "image_uploading"}))
    return Wait("waits for the image of the disk")


def show_it_soft_deleted(view: Server) -> Step | None:
    """It is powered off, keeps all that it has, and goes when its time is over."""
    if view.desired != "soft_deleted":
        return None
    if not shows(view, "soft-delete") or view.task_state is not None:
        values = {"task_state": None, "power_state": POWER["off"]}
        return (Set({**shown_as(view, "soft-delete"), **values}), Arrived())
    if view.reclaim_at is None:
        return Rest()
    if view.now < view.reclaim_at:
        return Wait("is deleted, and can be restored", view.reclaim_at)
    return (Set({"desired": "gone", "task_state": "deleting"}),)


def show_it_as_it_is(view: Server) -> Step | None:
    guest = the_guest(view)
    if guest is None:
        return None
    power = POWER.get(str(guest.facts.get("power", "off")), 0)
    resized = view.move is not None and view.move.phase in ("finished", "confirming", "reverting")
    state = "resized" if resized else SHOWN.get(view.desired, "stopped")
    values: dict[str, Any] = {}
    if not shows(view, state):
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
