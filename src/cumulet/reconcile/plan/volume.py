"""The plan of a volume, of a volume snapshot and of a backup. Pure.

A volume that was made keeps data: it is never made again. A creation that fails gives up at once, as users
of Block Storage expect, and stays in ``error`` until somebody deletes it; a removal goes on for ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from cumulet.reconcile.plan.base import (
    Change,
    DropNeed,
    Open,
    Remove,
    Respec,
    Rest,
    Rule,
    Set,
    Step,
    Unwant,
    Wait,
    waiting_for,
)
from cumulet.values import AgentView, Claim

#: What is shown of one whose bytes are not whole yet.
BEGINNING = ("creating", "downloading", "reverting", "restoring-backup", "managing")


class Attachment(msgspec.Struct, frozen=True):
    """An attachment that the volume itself waits for: its server has gone without it."""

    id: str
    delete_volume: bool = False


class Export(msgspec.Struct, frozen=True):
    """An attachment that a client made by itself and connects to a host of its own."""

    attachment: str
    spec: Mapping[str, Any] = {}
    #: The client knows how to reach the volume.
    told: bool = False


class Source(msgspec.Struct, frozen=True):
    """What the bytes are copied from."""

    claim: str | None
    ready: bool
    #: The source is gone or broken; the copy cannot be made any more.
    error: str | None = None


class Volume(msgspec.Struct, frozen=True):
    """All that the plan knows of a volume, a snapshot or a backup."""

    id: str
    #: "volume", "snapshot" or "backup"; also the kind of its claim.
    kind: str
    #: available or gone
    desired: str
    status: str
    now: float
    patience: float
    agent: str | None = None
    claims: tuple[Claim, ...] = ()
    spec: Mapping[str, Any] = {}
    source: Source | None = None
    #: Attachments that were passed on to it.
    passed: tuple[Attachment, ...] = ()
    #: What clients connect by themselves.
    exports: tuple[Export, ...] = ()
    #: How many snapshots of it there are.
    snapshots: int = 0
    #: It was available once.
    launched: bool = False
    #: The size that it is being extended to.
    new_size: int | None = None
    #: The image that it is uploaded to has its bytes, or will never have them.
    uploaded: bool = False
    #: Nobody makes a backup of it any more.
    backed_up: bool = False
    #: It was made for an image that there will not be.
    unwanted: bool = False
    agents: Mapping[str, AgentView] = {}
    held: frozenset[str] = frozenset()


class ChooseBackend(Change, frozen=True):
    """Choose a back end with room; the answer is the volume's agent, or the status error."""


class EndPassed(Change, frozen=True):
    """An attachment whose export is closed goes; the volume may go with it."""

    attachment: str
    delete: bool


class Exported(Change, frozen=True):
    """The volume can be reached by who made the attachment, in the way that ``info`` says."""

    attachment: str
    info: Mapping[str, Any]


def _bytes(view: Volume) -> Claim | None:
    return next((claim for claim in view.claims if claim.kind == view.kind), None)


def _exports(view: Volume) -> list[Claim]:
    return [claim for claim in view.claims if claim.kind == "export"]


def end_attachments(view: Volume) -> Step | None:
    open_parts = {claim.part for claim in _exports(view)}
    return [EndPassed(a.id, a.delete_volume) for a in view.passed if a.id not in open_parts] or None


def want_no_export_that_is_not_used(view: Volume) -> Step | None:
    used = {export.attachment for export in view.exports}
    gone = tuple(claim.id for claim in _exports(view) if claim.wanted and claim.part not in used)
    return (Unwant(gone),) if gone else None


def go_with_its_image(view: Volume) -> Step | None:
    if not view.unwanted or view.desired == "gone":
        return None
    return (Set({"desired": "gone", "status": "deleting"}),)


def want_it_no_more(view: Volume) -> Step | None:
    if view.desired != "gone":
        return None
    wanted = tuple(claim.id for claim in view.claims if claim.wanted)
    return (Unwant(wanted),) if wanted else None


def wait_until_it_is_removed(view: Volume) -> Step | None:
    if view.desired != "gone" or not view.claims:
        return None
    return waiting_for(list(reversed(view.claims)), view.agents, view.patience)


def wait_for_its_snapshots(view: Volume) -> Step | None:
    """A snapshot names its volume, so it goes first."""
    if view.desired != "gone" or not view.snapshots:
        return None
    return Wait("waits for its snapshots to be removed")


def remove_the_record(view: Volume) -> Step | None:
    return (Remove(),) if view.desired == "gone" else None


def give_up_an_extension_that_fails(view: Volume) -> Step | None:
    """The volume keeps the size that it had."""
    claim = _bytes(view)
    if view.status != "extending" or claim is None or not claim.made or claim.spec != view.spec:
        return None
    if claim.error is None or claim.acted < claim.revision:
        return None
    error = f"It could not be extended: {claim.error}"
    return (Set({"status": "error_extending", "new_size": None, "error": error}),)


def rest_in_error(view: Volume) -> Step | None:
    """Its creation failed: nothing is wanted; what was begun is removed."""
    claim = _bytes(view)
    if view.status != "error" or (claim is not None and claim.made and claim.wanted):
        return None
    return waiting_for(list(view.claims), view.agents, view.patience) if view.claims else Rest()


def wait_for_the_source(view: Volume) -> Step | None:
    if view.source is None or _bytes(view) is not None:
        return None
    if view.source.error is not None:
        return (Set({"status": "error", "error": view.source.error}),)
    return None if view.source.ready else Wait("waits for what it is made from")


def choose_a_back_end(view: Volume) -> Step | None:
    if view.agent is not None:
        return None
    if "volume.schedule" in view.held:
        return Wait("a fault rule holds the step volume.schedule")
    return (ChooseBackend(),)


def want_its_bytes(view: Volume) -> Step | None:
    if _bytes(view) is not None:
        return None
    assert view.agent is not None
    needs = (view.source.claim,) if view.source and view.source.claim else ()
    return (Open(view.kind, view.agent, view.spec, needs, ""),)


def give_up_a_creation_that_fails(view: Volume) -> Step | None:
    claim = _bytes(view)
    if claim is None or not claim.wanted or claim.made:
        return None
    problem = claim.error or (view.source.error if view.source else None)
    if problem is None:
        return None
    return (Unwant((claim.id,)), Set({"status": "error", "error": f"It could not be made: {problem}"}))


def report_lost_data(view: Volume) -> Step | None:
    claim = _bytes(view)
    if claim is None or not claim.lost:
        return None
    if view.status != "error":
        return (
            Set({"status": "error", "error": "Its data is lost: the back end does not have it any more"}),
        )
    return Wait("its data is lost")


def need_the_source_no_more(view: Volume) -> Step | None:
    """The copy is whole: what it was made from may go."""
    claim = _bytes(view)
    if claim is None or not claim.made or not claim.needs:
        return None
    return [DropNeed(claim.id, need) for need in claim.needs]


def replace_its_bytes(view: Volume) -> Step | None:
    """Its content is to be another one as a whole: what was there goes, and a new thing comes."""
    claim = _bytes(view)
    if claim is None or not claim.wanted or _generation(claim.spec) == _generation(view.spec):
        return None
    return (Unwant((claim.id,)),)


def _generation(spec: Mapping[str, Any]) -> int:
    return int(spec.get("generation", 0))


def want_it_as_it_should_be(view: Volume) -> Step | None:
    """A new size, for one."""
    claim = _bytes(view)
    if claim is None or not claim.wanted or claim.spec == view.spec:
        return None
    return (Respec(claim.id, view.spec),)


def export_it(view: Volume) -> Step | None:
    """For clients that connect it by themselves; servers of ours hold their own exports."""
    claim = _bytes(view)
    if claim is None or not claim.wanted or view.agent is None:
        return None
    there = {export.part for export in _exports(view)}
    return [
        Open("export", view.agent, export.spec, (claim.id,), export.attachment)
        for export in view.exports
        if export.attachment not in there
    ] or None


def tell_how_to_reach_it(view: Volume) -> Step | None:
    ready = {claim.part: claim for claim in _exports(view) if claim.ready}
    return [
        Exported(export.attachment, ready[export.attachment].facts)
        for export in view.exports
        if not export.told and export.attachment in ready
    ] or None


def wait_for_the_back_end(view: Volume) -> Step | None:
    claim = _bytes(view)
    if claim is None or claim.ready:
        return None
    return waiting_for([claim], view.agents, view.patience)


def show_it_available(view: Volume) -> Step | None:
    if view.status in BEGINNING and not view.launched:
        return (Set({"status": "available", "error": None}),)
    if view.status == "extending" and view.new_size is not None:
        return (Set({"status": "available", "error": None, "size": view.new_size, "new_size": None}),)
    return None


def end_an_upload(view: Volume) -> Step | None:
    if view.status != "uploading" or not view.uploaded:
        return None
    return (Set({"status": "available", "upload_image_id": None}),)


def end_a_backup(view: Volume) -> Step | None:
    if view.status != "backing-up" or not view.backed_up:
        return None
    return (Set({"status": "available"}),)


def wait_for_exports(view: Volume) -> Step | None:
    waits = [claim for claim in _exports(view) if not claim.ready]
    return waiting_for(waits, view.agents, view.patience) if waits else None


RULES: tuple[Rule[Volume], ...] = (
    end_attachments,
    want_no_export_that_is_not_used,
    go_with_its_image,
    want_it_no_more,
    wait_until_it_is_removed,
    wait_for_its_snapshots,
    remove_the_record,
    give_up_a_creation_that_fails,
    give_up_an_extension_that_fails,
    report_lost_data,
    rest_in_error,
    wait_for_the_source,
    choose_a_back_end,
    replace_its_bytes,
    want_its_bytes,
    need_the_source_no_more,
    want_it_as_it_should_be,
    export_it,
    tell_how_to_reach_it,
    wait_for_the_back_end,
    show_it_available,
    end_an_upload,
    end_a_backup,
    wait_for_exports,
)
