"""The plan of an image. Pure.

An image's bytes are the claim ``file`` of the image store. They come from an upload, which the store fetches
from the process that has the client, from an address on the web, which the store reads, from another image, or
from a ``source``: a copy of a disk or volume, made where that is. An image of a server that boots from volumes has
no bytes: it consists of snapshots of these.

What is staged (``uploading``) has its bytes in the store already, and becomes ``active`` when it is imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from cumulet.reconcile.plan.base import (
    DropNeed,
    Open,
    Remove,
    Rest,
    Rule,
    Set,
    Step,
    Unwant,
    Wait,
    away,
    failing,
    waiting_for,
)
from cumulet.values import AgentView, Claim

#: An image in one of these gets its bytes.
FILLING = ("saving", "uploading", "importing")
#: Statuses of a snapshot that will not be whole.
_BROKEN = ("error", "deleting", "error_deleting", "gone")


class Source(msgspec.Struct, frozen=True):
    """Where the bytes are copied from: a claim of somebody else, at an agent."""

    claim: str
    agent: str
    #: The claim is still wanted and there; a copy of what is being removed is given up.
    there: bool
    spec: Mapping[str, Any] = {}


class Snapshot(msgspec.Struct, frozen=True):
    """A volume snapshot that the image consists of."""

    status: str
    error: str | None = None


class Image(msgspec.Struct, frozen=True):
    """All that the plan knows of an image."""

    id: str
    #: present or gone
    desired: str
    #: queued, saving, uploading, importing, active, killed, …
    status: str
    now: float
    patience: float
    #: The image store.
    store: str | None = None
    #: Its bytes come from a client or from the web: it goes back to be tried again if they do not come.
    incoming: bool = False
    #: The claim of another image's bytes that it is a copy of.
    original: str | None = None
    #: It was made for its import alone, and goes if that fails.
    temporary: bool = False
    #: Why nobody sends the bytes any more, and the kind of reason.
    abandoned: str | None = None
    cause: str | None = None
    #: Bytes of what is staged, once that is known.
    size: int | None = None
    source: Source | None = None
    #: The volume snapshots that it consists of, if it does.
    snapshots: tuple[Snapshot, ...] | None = None
    claims: tuple[Claim, ...] = ()
    spec: Mapping[str, Any] = {}
    agents: Mapping[str, AgentView] = {}


def _claim(view: Image, kind: str) -> Claim | None:
    return next((claim for claim in view.claims if claim.kind == kind), None)


def want_it_no_more(view: Image) -> Step | None:
    if view.desired != "gone":
        return None
    wanted = tuple(claim.id for claim in view.claims if claim.wanted)
    return (Unwant(wanted),) if wanted else None


def wait_until_it_is_removed(view: Image) -> Step | None:
    if view.desired != "gone" or not view.claims:
        return None
    return waiting_for(list(reversed(view.claims)), view.agents, view.patience)


def remove_the_record(view: Image) -> Step | None:
    return (Remove(),) if view.desired == "gone" else None


def report_lost_data(view: Image) -> Step | None:
    file = _claim(view, "file")
    if file is None or not file.lost:
        return None
    return (
        (Set({"status": "killed", "origin": None}),) if view.status != "killed" else Wait("its data is lost")
    )


def wait_for_its_snapshots(view: Image) -> Step | None:
    """It is whole when they all are; without one of them it would be of no use, and the others go with it."""
    if view.status not in FILLING or view.snapshots is None:
        return None
    for snapshot in view.snapshots:
        if snapshot.status in _BROKEN:
            reason = snapshot.error or f"a snapshot is {snapshot.status}"
            return (Set({"desired": "gone", "error": f"The volumes could not be copied: {reason}"}),)
    if any(snapshot.status == "creating" for snapshot in view.snapshots):
        return Wait("waits for the snapshots of the volumes")
    return (Set({"status": "active", "size": 0, "origin": None}),)


def give_up_what_cannot_be_filled(view: Image) -> Step | None:
    """An image whose bytes will not become whole does not stay: an upload's goes back to be tried again."""
    if view.status not in FILLING:
        return None
    file, source = _claim(view, "file"), _claim(view, "source")
    if file is not None and file.made and file.wanted:
        return None
    broken = file is not None and file.wanted and file.error is not None
    if view.incoming:
        return _try_again(view, file)
    if view.source is None:
        return (Set({"desired": "gone"}),)
    if source is not None and source.error is not None:
        broken = True
    slow = source is not None and (away(view.agents, source) or failing(source, view.now, view.patience))
    # A copy that was whole once stays, whatever became of the disk since.
    if broken or slow or (not view.source.there and not (source is not None and source.made)):
        return (Set({"desired": "gone"}),)
    return None


def _try_again(view: Image, file: Claim | None) -> Step | None:
    reason, cause = view.abandoned, view.cause
    if file is not None and file.wanted:
        if file.error is not None:
            reason, cause = file.error, file.facts.get("cause")
        elif reason is None and away(view.agents, file):
            reason = "the image store does not answer"
    if reason is None:
        return None
    if view.temporary:
        return (Set({"desired": "gone", "error": reason, "cause": cause}),)
    back = Set({"status": "queued", "origin": None, "size": None, "error": reason, "cause": cause})
    return (Unwant((file.id,)), back) if file is not None and file.wanted else (back,)


def want_a_copy(view: Image) -> Step | None:
    if view.source is None or view.status != "saving" or _claim(view, "source") is not None:
        return None
    file = _claim(view, "file")
    if file is not None and file.made:
        return None
    return (Open("source", view.source.agent, view.source.spec, (view.source.claim,), view.id),)


def let_the_original_go(view: Image) -> Step | None:
    """The copy is whole: the server may be deleted while it is read."""
    source = _claim(view, "source")
    if source is None or not source.made or not source.needs:
        return None
    return [DropNeed(source.id, need) for need in source.needs]


def want_its_bytes(view: Image) -> Step | None:
    if view.status not in FILLING or _claim(view, "file") is not None:
        return None
    if view.store is None:
        return Wait("there is no image store")
    source = _claim(view, "source")
    origin = source.id if source else view.original
    return (Open("file", view.store, view.spec, (origin,) if origin else ()),)


def show_it_active(view: Image) -> Step | None:
    file = _claim(view, "file")
    if view.status not in ("saving", "importing") or file is None or not file.ready:
        return None
    facts = file.facts
    return (
        Set(
            {
                "status": "active",
                "error": None,
                "cause": None,
                "origin": None,
                "size": facts.get("size"),
                "virtual_size": facts.get("virtual_size"),
                "checksum": facts.get("checksum"),
                "os_hash_algo": "sha512" if facts.get("sha512") else None,
                "os_hash_value": facts.get("sha512"),
                "inspected": facts.get("inspected"),
            }
        ),
    )


def show_what_is_staged(view: Image) -> Step | None:
    file = _claim(view, "file")
    if view.status != "uploading" or view.size is not None or file is None or not file.ready:
        return None
    return (Set({"size": file.facts.get("size", 0)}),)


def need_the_copy_no_more(view: Image) -> Step | None:
    """The bytes are here: what they were copied from may go, and a copy that was made for them does."""
    file, source = _claim(view, "file"), _claim(view, "source")
    if file is None or not file.made:
        return None
    drops = tuple(DropNeed(file.id, need) for need in file.needs)
    unwant = (Unwant((source.id,)),) if source is not None and source.wanted else ()
    return (*drops, *unwant) or None


def wait_for_the_bytes(view: Image) -> Step | None:
    waits = [claim for claim in view.claims if not claim.ready]
    return waiting_for(waits, view.agents, view.patience) if waits else Rest()


RULES: tuple[Rule[Image], ...] = (
    want_it_no_more,
    wait_until_it_is_removed,
    remove_the_record,
    report_lost_data,
    wait_for_its_snapshots,
    give_up_what_cannot_be_filled,
    want_a_copy,
    let_the_original_go,
    want_its_bytes,
    show_it_active,
    show_what_is_staged,
    need_the_copy_no_more,
    wait_for_the_bytes,
)
