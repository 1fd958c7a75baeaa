"""An image from its row to its bytes: making the row, reading the plan's view, writing its changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cumulet.core import history
from cumulet.core.images import tasks
from cumulet.db.engine import Row, Tx
from cumulet.reconcile import agents, holders, ledger
from cumulet.reconcile.plan import base
from cumulet.reconcile.plan import image as plan
from cumulet.values import Limits

#: The one store that there is.
STORE = "file"


def create_inner(
    tx: Tx, *, id: str | None = None, owner: str | None, name: str | None,
    properties: Mapping[str, str] | None = None, tags: Iterable[str] = (), **columns: Any,
) -> str:  # fmt: skip
    """A new image's row and holder, ``queued``; return its id. Raises Duplicate if a chosen id is taken."""
    id = id or tx.uuid()
    holders.create(tx, id, "image", owner)
    tx.insert(
        "images", id=id, owner=owner, name=name, desired="present", status="queued", created_at=tx.now,
        updated_at=tx.now, **columns,
    )  # fmt: skip
    for property, value in (properties or {}).items():
        tx.insert("image_properties", image_id=id, name=property, value=value)
    for tag in sorted(set(tags)):
        tx.insert("image_tags", image_id=id, tag=tag)
    return id


def fill_from_disk(tx: Tx, id: str, *, disk: str, host: str) -> None:
    """Fill a queued image from a disk claim of a host."""
    fill(tx, id, {"source": {"claim": disk, "agent": host}})


def fill(tx: Tx, id: str, origin: Mapping[str, Any], status: str = "saving") -> None:
    """Fill a queued image: from {"upload": id}, {"url": address}, {"copy": claim of another image},
    {"source": {"claim", "agent"}}, or {"snapshots": ids, "server": id}: of volumes, which are the image together.

    With an upload or an address ``limit`` is the largest number of bytes that is taken.
    """
    tx.update(
        "images", id, status=status, origin=dict(origin), error=None, cause=None, import_left=None,
        import_failed=None, updated_at=tx.now,
    )  # fmt: skip
    holders.touch(tx, id)


def abandon(tx: Tx, id: str, upload: str, reason: str, cause: str | None = None) -> None:
    """Nobody sends the bytes of an upload any more. Nothing happens if the image does not wait for it."""
    tx.lock("holders", id)
    row = tx.one("select status, origin from images where id = :id", id=id)
    if row is None or row["status"] not in plan.FILLING or (row["origin"] or {}).get("upload") != upload:
        return
    tx.update("images", id, origin={**row["origin"], "abandoned": reason, "cause": cause})
    holders.touch(tx, id)


def delete_inner(tx: Tx, id: str) -> bool:
    """Want the image no more; its row goes once its bytes are seen gone. False if there is none."""
    found = tx.run(
        "update images set desired = 'gone', updated_at = :now where id = :id and desired <> 'gone'",
        now=tx.now,
        id=id,
    )
    if found:
        holders.touch(tx, id)
        _touch_waiting(tx, id)
    return bool(found)


def _touch_waiting(tx: Tx, id: str) -> None:
    """What became of the image matters to the server that it is made of, and to the volume."""
    for server in tx.values(
        "select id from servers where shelved_image_id = :id or snapshot_image_id = :id", id=id
    ):
        holders.touch(tx, server)
    for volume in tx.values("select id from volumes where upload_image_id = :id", id=id):
        holders.touch(tx, volume)


def view(tx: Tx, id: str, limits: Limits) -> plan.Image | None:
    """The image as its plan sees it; None if there is none."""
    row = tx.one("select * from images where id = :id", id=id)
    if row is None:
        return None
    claims = ledger.of_holder(tx, id)
    origin = row["origin"] or {}
    return plan.Image(
        id=id,
        desired=row["desired"],
        status=row["status"],
        now=tx.now,
        patience=limits.patience,
        store=agents.of_kind(tx, "image") if row["status"] in plan.FILLING else None,
        incoming=bool(origin.keys() & {"upload", "url", "copy"}),
        temporary=bool(origin.get("temporary")),
        abandoned=origin.get("abandoned") or _gone(tx, origin.get("copy")),
        original=origin.get("copy"),
        cause=origin.get("cause"),
        size=row["size"],
        source=_source(tx, row, origin.get("source")),
        snapshots=_snapshots(tx, origin.get("snapshots")),
        claims=claims,
        spec={
            "format": row["disk_format"],
            **{name: origin.get(name) for name in ("upload", "url", "limit")},
        },
        agents=agents.views(tx, {claim.agent for claim in claims}),
    )


def _gone(tx: Tx, claim: str | None) -> str | None:
    """Why an image cannot be copied from a claim any more."""
    if claim is None or tx.value("select wanted from claims where id = :id", id=claim):
        return None
    return "the image that it is copied from was deleted"


def _source(tx: Tx, row: Row, source: Mapping[str, str] | None) -> plan.Source | None:
    if source is None:
        return None
    there = tx.value("select wanted from claims where id = :id", id=source["claim"])
    spec = {"image": row["id"], "format": row["disk_format"] or "qcow2"}
    return plan.Source(source["claim"], source["agent"], bool(there), spec)


def _snapshots(tx: Tx, ids: Sequence[str] | None) -> tuple[plan.Snapshot, ...] | None:
    """The snapshots that the image is made of."""
    if ids is None:
        return None
    rows = tx.all("select id, status, error from snapshots where id in :ids", ids=tuple(ids))
    found = {row["id"]: plan.Snapshot(row["status"], row["error"]) for row in rows}
    return tuple(found.get(id, plan.Snapshot("gone")) for id in ids)


def _end_snapshots(tx: Tx, id: str, error: str | None) -> None:
    """An image of volume snapshots is whole, or will not be: whoever asked for it reads so at the server."""
    server = (tx.value("select origin from images where id = :id", id=id) or {}).get("server")
    if server is not None:
        history.finish(tx, server, error=error, action="createImage")


def apply(tx: Tx, view: plan.Image, change: base.Change) -> None:
    """Write one change of an image's plan, and wake the server that waits for it."""
    match change:
        case base.Set():
            if view.snapshots is not None:
                _end_snapshots(tx, view.id, change.values.get("error"))
            tx.update("images", view.id, **change.values, updated_at=tx.now)
            if "status" in change.values or "desired" in change.values:
                _end_import(tx, view.id, change.values)
            if change.values.get("status") == "active" and view.snapshots is not None:
                # From now on they are the user's, whatever becomes of the image.
                tx.run("update snapshots set image_id = null where image_id = :id", id=view.id)
        case base.Remove():
            _end_import(tx, view.id, {"error": "the image was deleted"})
            _end_snapshots(tx, view.id, "the image was deleted")
            tx.delete("images", view.id)
            holders.remove(tx, view.id)
            for snapshot in tx.values("select id from snapshots where image_id = :id", id=view.id):
                holders.touch(tx, snapshot)
        case _:
            raise TypeError(f"an image has no {type(change).__name__}")
    tx.wakes.add(view.id)
    _touch_waiting(tx, view.id)


def _end_import(tx: Tx, id: str, values: Mapping[str, Any]) -> None:
    """The image is filled, or will not be: so ends the import that there may be."""
    task = tx.value("select import_task from images where id = :id", id=id)
    if task is None:
        return
    error = None if values.get("status") == "active" else values.get("error") or "the image was not filled"
    failed = "" if error is None else STORE
    tx.update("images", id, import_task=None, import_left="", import_failed=failed)
    tasks.end(tx, task, error, {"image_id": id} if error is None else None)
