"""The clouds that are explored whole, and the mutations: clouds without one safeguard, where a law must break."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from cumulet.reconcile.plan import image as image_plan
from cumulet.reconcile.plan import server as plan
from cumulet.reconcile.plan.base import Change, DropNeed, Rule, Set, Step, Unwant
from cumulet.reconcile.plan.server import down, guest, moving, showing, up, words
from cumulet.reconcile.plan.server.view import Server
from tests.sim.model.cloud import FAULTS, Cloud, Safeguards

#: Builds and their end, with every delay of every message.
BUILDS = {
    "no fault": Cloud(faults=0),
    "one fault": Cloud(faults=1),
    "a back end that cannot fence": Cloud(faults=1, fences=False),
    "a volume that is deleted too": Cloud(faults=1, users=("deletes the volume",), attempts=1),
    "a disk, one attempt": Cloud(faults=1, with_disk=True, attempts=1, kinds=FAULTS | {"vanishes"}),
    "two faults, one attempt": Cloud(faults=2, attempts=1, fences=False),
}


def _moves(*users: str, **more: Any) -> Cloud:
    """A server that runs, and is then asked for something; agents hear at once what is new, when they ask."""
    kinds = frozenset({"fails", "dies", "silent", "power"})
    return Cloud(**{"runs": True, "prompt": True, "faults": 1, "kinds": kinds, "users": users, **more})


_DISK: dict[str, Any] = {"with_volume": False, "with_disk": True}
_IMAGE: dict[str, Any] = {**_DISK, "with_store": True, "hosts": ("h1",)}

#: What becomes of a server that is there.
MOVES = {
    "a cold move": _moves("migrates", "confirms", "reverts", **_DISK),
    "a cold move with a volume": _moves("migrates", "confirms", "reverts", connects=True),
    "a live migration": _moves("live-migrates", "aborts"),
    "a live migration with a disk": _moves("live-migrates", "aborts", **_DISK),
    "an evacuation": _moves("evacuates", unsteady=("h1",), connects=True),
    "an evacuation without a fence": _moves("evacuates", unsteady=("h1",), connects=True, fences=False),
    "an evacuation with a disk": _moves("evacuates", unsteady=("h1",), **_DISK),
    "shelved and back": _moves("shelves", "unshelves", "deletes the image", **_IMAGE),
    "an image of a server": _moves("takes an image", "deletes the image", **_IMAGE),
}


# --- rules without their safeguard ---


def _with(rules: tuple[Rule[Any], ...], old: Rule[Any], new: Rule[Any]) -> tuple[Rule[Any], ...]:
    """The rules, one of them replaced."""
    assert old in rules
    return tuple(new if rule is old else rule for rule in rules)


def _rules(old: Rule[Server], new: Rule[Server]) -> dict[str, Any]:
    return {"rules": _with(plan.RULES, old, new)}


def copy_a_disk_in_use(view: Server) -> Step | None:
    """The target's disk is filled while the guest still runs."""
    return moving.choose_a_target(view) or moving.copy_the_disks(view)


def confirm_by_itself(view: Server) -> Step | None:
    """The source's disks go before anybody has confirmed the move."""
    if view.move is not None and view.move.copies and view.move.phase == "finished":
        old = [claim for claim in words.of(view, "disk") if not words.here(view, claim) and claim.wanted]
        if old:
            return (Unwant(tuple(claim.id for claim in old)),)
    return down.want_nothing_that_must_go(view)


def give_copies_up(view: Server) -> Step | None:
    """A copy goes before the disk that is made from it is whole."""
    changes: list[Change] = []
    for copy in words.of(view, "source"):
        readers = [claim for claim in words.of(view, "disk") if copy.id in claim.needs]
        if copy.wanted and copy.made and readers:
            changes += [DropNeed(claim.id, copy.id) for claim in readers]
            changes.append(Unwant((copy.id,)))
    return changes or moving.need_no_copies(view)


def hand_over_by_the_target(view: Server) -> Step | None:
    """The guest that waits is told to run once it is there, whatever the other one does."""
    move = view.move
    if move is not None and move.live and move.phase == "moving":
        waiting = words.the_guest(view, move.target)
        if waiting is not None and waiting.ready:
            return (plan.MoveOn("finishing"),)
    return guest.wait_for_the_guest(view)


def abort_at_once(view: Server) -> Step | None:
    """Whatever fails, the guest that waits is ended; nobody asks the source which of the two it is."""
    step = moving.give_up_a_move_that_fails(view)
    if step is None or view.move is None:
        return step
    return (plan.MoveOn("failing", "failed"),)


def keep_nothing_while_aborting(view: Server) -> Step | None:
    """The guest that waits is given up as soon as a user aborts."""
    move = view.move
    if move is not None and move.phase == "aborting":
        there = [claim for claim in view.claims if words.at(view, claim, move.target) and claim.wanted]
        if there:
            return (Unwant(tuple(claim.id for claim in there)),)
    return down.want_nothing_that_must_go(view)


def believe_that_it_is_lost(view: Server) -> Step | None:
    """A guest that is gone from the source is made again there, and nobody asks the target."""
    step = moving.ask_the_target(view)
    return None if step is None else (plan.MoveOn("failing", "it is gone"),)


def want_a_second_export(view: Server) -> Step | None:
    """The volume is exported to the new host while the old one has it still."""

    def near() -> Iterator[Any]:
        return (claim for claim in view.claims if claim.kind != "export" or words.here(view, claim))

    return up.want_what_is_missing(msgspec.structs.replace(view, claims=tuple(near())))


def offload_without_the_image(view: Server) -> Step | None:
    """The host is given up once the image is on its way."""
    if view.image is not None and view.image.status == "saving":
        return None
    return showing.save_the_disk(view)


def give_the_original_up(view: image_plan.Image) -> Step | None:
    """What is copied may go as soon as the copy was asked for."""
    file = next((claim for claim in view.claims if claim.kind == "file"), None)
    source = next((claim for claim in view.claims if claim.kind == "source"), None)
    if file is None or file.made or source is None or not source.wanted:
        return image_plan.need_the_copy_no_more(view)
    return (*(DropNeed(file.id, need) for need in file.needs), Unwant((source.id,)))


def give_a_whole_copy_up(view: image_plan.Image) -> Step | None:
    """The server's disk is given up, and with it a copy that was whole already."""
    copy = next((claim for claim in view.claims if claim.kind == "source"), None)
    if (
        view.status == "saving"
        and view.source is not None
        and not view.source.there
        and copy
        and not copy.ready
    ):
        return (Set({"desired": "gone"}),)
    return image_plan.give_up_what_cannot_be_filled(view)


_NO_NEEDS = Safeguards(needs=False)

#: What each cloud does without.
MUTATIONS = {
    "revision": Cloud(Safeguards(revision=False), faults=1),
    "lock file": Cloud(Safeguards(lock_file=False), faults=1),
    "needs": Cloud(_NO_NEEDS, faults=1),
    "named removals": Cloud(Safeguards(named=False), faults=1),
    "never made again": Cloud(
        Safeguards(made_once=False), faults=1, with_disk=True, kinds=FAULTS | {"vanishes"}
    ),
    "foreign key": Cloud(Safeguards(foreign_key=False), faults=0, torn=True),
    "a disk is copied when nobody writes to it": _moves(
        "migrates", **_DISK, **_rules(moving.choose_a_target, copy_a_disk_in_use)
    ),
    "a copy stays until it was read": _moves(
        "migrates", **_DISK, **_rules(moving.need_no_copies, give_copies_up)
    ),
    "the source's disks stay until the move is confirmed": _moves(
        "migrates", "reverts", **_DISK, **_rules(down.want_nothing_that_must_go, confirm_by_itself)
    ),
    "the target is told once the guest is off": _moves(
        "live-migrates", **_rules(guest.wait_for_the_guest, hand_over_by_the_target)
    ),
    "a move that fails asks the source": _moves(
        "live-migrates", **_rules(moving.give_up_a_move_that_fails, abort_at_once)
    ),
    "an abort asks the source": _moves(
        "live-migrates", "aborts", **_rules(down.want_nothing_that_must_go, keep_nothing_while_aborting)
    ),
    "a guest on its way is not made again": _moves(
        "live-migrates", safeguards=Safeguards(made_once=False), kinds=frozenset({"power"})
    ),
    "a guest that is gone may be at the target": _moves(
        "live-migrates", kinds=frozenset({"power"}), **_rules(moving.ask_the_target, believe_that_it_is_lost)
    ),
    "an evacuation waits for the fence": _moves(
        "evacuates", unsteady=("h1",), fences=False, told_fences=True
    ),
    "an evacuation waits for the old export": _moves(
        "evacuates", unsteady=("h1",), **_rules(up.want_what_is_missing, want_a_second_export)
    ),
    "an offload waits for the image": _moves(
        "shelves", **_IMAGE, **_rules(showing.save_the_disk, offload_without_the_image)
    ),
    "a disk of a host stays until it was read": _moves(
        "shelves", **_IMAGE,
        image_rules=_with(image_plan.RULES, image_plan.need_the_copy_no_more, give_the_original_up),
    ),
    "a copy that is whole stays": _moves(
        "takes an image", **_IMAGE,
        image_rules=_with(image_plan.RULES, image_plan.give_up_what_cannot_be_filled, give_a_whole_copy_up),
    ),
    "an image stays until it was read": _moves(
        "shelves", "unshelves", "deletes the image", safeguards=_NO_NEEDS, **_IMAGE
    ),
}  # fmt: skip
