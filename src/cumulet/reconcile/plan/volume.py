"""The plan of a volume, and of a volume snapshot. Pure.

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


class Attachment(msgspec.Struct, frozen=True):
    """An attachment that the volume itself waits for: its server has gone without it."""

    id: str
    delete_volume: bool = False


class Source(msgspec.Struct, frozen=True):
    """What the bytes are copied from."""

    claim: str | None
    ready: bool
    #: The source is gone or broken; the copy cannot be made any more.
    error: str | None = None


class Volume(msgspec.Struct, frozen=True):
    """All that the plan knows of a volume or a snapshot."""

    id: str
    #: "volume" or "snapshot"; also the kind of its claim.
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
    agents: Mapping[str, AgentView] = {}
    held: frozenset[str] = frozenset()


class ChooseBackend(Change, frozen=True):
    """Choose a back end with room; the answer is the volume's agent, or the status error."""


class EndPassed(Change, frozen=True):
    """An attachment whose export is closed goes; the volume may go with it."""

    attachment: str
    delete: bool


def _bytes(view: Volume) -> Claim | None:
    return next((claim for claim in view.claims if claim.kind == view.kind), None)


def end_attachments(view: Volume) -> Step | None:
    open_parts = {claim.part for claim in view.claims if claim.kind == "export"}
    return [EndPassed(a.id, a.delete_volume) for a in view.passed if a.id not in open_parts] or None


def want_it_no_more(view: Volume) -> Step | None:
    if view.desired != "gone":
        return None
    wanted = tuple(claim.id for claim in view.claims if claim.wanted)
    return (Unwant(wanted),) if wanted else None


def wait_until_it_is_removed(view: Volume) -> Step | None:
    if view.desired != "gone" or not view.claims:
        return None
    return waiting_for(list(reversed(view.claims)), view.agents, view.patience)


def remove_the_record(view: Volume) -> Step | None:
    return (Remove(),) if view.desired == "gone" else None


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


def want_it_as_it_should_be(view: Volume) -> Step | None:
    """A new size, for one."""
    claim = _bytes(view)
    if claim is None or not claim.wanted or claim.spec == view.spec:
        return None
    return (Respec(claim.id, view.spec),)


def wait_for_the_back_end(view: Volume) -> Step | None:
    claim = _bytes(view)
    if claim is None or claim.ready:
        return None
    return waiting_for([claim], view.agents, view.patience)


def show_it_available(view: Volume) -> Step | None:
    if view.status in ("creating", "downloading", "extending"):
        return (Set({"status": "available", "error": None}),)
    return None


def wait_for_exports(view: Volume) -> Step | None:
    exports = [claim for claim in view.claims if claim.kind == "export"]
    return waiting_for(exports, view.agents, view.patience) if exports else None


RULES: tuple[Rule[Volume], ...] = (
    end_attachments,
    want_it_no_more,
    wait_until_it_is_removed,
    remove_the_record,
    give_up_a_creation_that_fails,
    report_lost_data,
    rest_in_error,
    wait_for_the_source,
    choose_a_back_end,
    want_its_bytes,
    need_the_source_no_more,
    want_it_as_it_should_be,
    wait_for_the_back_end,
    show_it_available,
    wait_for_exports,
)
