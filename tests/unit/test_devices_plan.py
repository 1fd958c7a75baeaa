"""What a server's plan does when a device cannot be plugged in, or is not let go of."""

from __future__ import annotations

from typing import Any

import msgspec

from cumulet.reconcile.plan import server as plan
from cumulet.reconcile.plan.base import Set, Wait, decide
from cumulet.reconcile.plan.server.guest import guest_spec
from cumulet.values import AgentView, Claim

HOST = AgentView("host", "host", "h1")


def view(cause: str, *, volume: plan.Volume, plugged: bool) -> plan.Server:
    """An active server whose guest failed for that cause, with a volume that the guest should have, or not."""
    disk = Claim("disk", "disk", "s", "host", True, 1, "present", 1, True, part="root")
    guest = Claim(
        "guest", "guest", "s", "host", True, 2, "present", 2, True, facts={"power": "on", "cause": cause},
        error="it is said why", failing_since=0.0, needs=("disk",),
    )  # fmt: skip
    export = Claim("export", "export", "s", "back", True, 1, "present", 1, True, {"host": "h1"}, part="a")
    found = plan.Server(
        id="s", desired="active", vm_state="active", now=1.0, patience=60.0, host="host", placed=True, launched=True,
        claims=(disk, export, msgspec.structs.replace(guest, needs=("disk", "export"))), volumes=(volume,),
        disks=(plan.Disk("root"),), agents={"host": HOST}, power_state=1, allocated=True,
    )  # fmt: skip
    spec: dict[str, Any] = guest_spec(found, found.claims[2])
    assert bool(spec["volumes"]) == plugged
    return msgspec.structs.replace(
        found, claims=(disk, export, msgspec.structs.replace(found.claims[2], spec=spec))
    )


def volume(**more: Any) -> plan.Volume:
    return plan.Volume("a", "v", "back", "bytes", True, connects=False, **more)


def test_a_volume_that_cannot_be_plugged_in_goes_and_the_server_stays() -> None:
    name, step = decide(view("plug a", volume=volume(status="attaching"), plugged=True), plan.RULES)
    assert name == "give up a device that fails"
    assert step == (plan.DetachDevice("a"), plan.NotArrived("On h1 it is said why"))


def test_what_cannot_be_plugged_in_is_given_up_once() -> None:
    name, _ = decide(view("plug a", volume=volume(detaching=True), plugged=False), plan.RULES)
    assert name != "give up a device that fails"


def test_a_volume_that_the_guest_keeps_leaves_the_server_as_it_is() -> None:
    name, step = decide(
        view("device", volume=volume(status="attached", detaching=True), plugged=False), plan.RULES
    )
    assert name == "wait for the guest"
    assert isinstance(step, Wait)
    assert step.reason == "waits for h1 to make a guest: it is said why"


def test_a_guest_that_fails_is_shown() -> None:
    _, step = decide(view("", volume=volume(status="attached"), plugged=True), plan.RULES)
    assert isinstance(step, tuple)
    assert step[0] == Set({"vm_state": "error", "task_state": None})
