"""Snapshots of volumes: copies as they were at one moment, at the same back end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cumulet.core.volumes import backends, change, lifecycle, listing, usage
from cumulet.db.engine import Row, Tx
from cumulet.db.query import MarkerNotFound, Query, Where, page
from cumulet.errors import Invalid, NotFound
from cumulet.reconcile import holders
from cumulet.values import Caller

_SOURCE = "snapshots s join volumes v on v.id = s.volume_id"
_COLUMNS = "s.*, v.zone, v.agent"

#: What one can sort by, and the expression for it.
SORTABLE: Mapping[str, str] = {
    "created_at": "s.created_at",
    "description": "coalesce(s.description, '')",
    "display_description": "coalesce(s.description, '')",
    "display_name": "coalesce(s.name, '')",
    "id": "s.id",
    "name": "coalesce(s.name, '')",
    "project_id": "s.project_id",
    "status": "s.status",
    "updated_at": "s.updated_at",
    "user_id": "s.user_id",
    "volume_id": "s.volume_id",
    "volume_size": "s.size",
}
_EQUAL: Mapping[str, str] = {
    "id": "s.id",
    "name": "s.name",
    "display_name": "s.name",
    "description": "s.description",
    "status": "s.status",
    "volume_id": "s.volume_id",
    "project_id": "s.project_id",
    "user_id": "s.user_id",
    "availability_zone": "v.zone",
    "group_snapshot_id": "s.group_snapshot_id",
}
#: Rows that a filter on metadata may leave over: their ids travel in the next statement.
_METADATA_LIMIT = 10_000
#: What a status can be set to.
STATUSES = frozenset(
    {"creating", "available", "deleting", "error", "error_deleting", "backing-up", "restoring", "unmanaging"}
)


def find(tx: Tx, caller: Caller, id: str, *, lock: bool = False) -> Row:
    """A snapshot, if the caller sees it. Raises NotFound. ``lock``: for who is going to change it."""
    if lock:
        tx.lock("holders", id)
    row = tx.one(f"select {_COLUMNS} from {_SOURCE} where s.id = :id", id=id)
    if row is None or not caller.sees(row["project_id"]):
        raise NotFound(f"Snapshot {id} could not be found.")
    return row


def snapshots(tx: Tx, caller: Caller, query: Query, filters: listing.Filters) -> list[Row]:
    """A page of the snapshots that the caller sees. Raises NotFound for the marker."""
    where = _where(tx, caller, filters)
    try:
        return page(tx, _SOURCE, where, query, SORTABLE, columns=_COLUMNS, key="s.id")
    except MarkerNotFound as error:
        raise NotFound(f"Snapshot {error} could not be found.") from None


def count(tx: Tx, caller: Caller, filters: listing.Filters) -> int:
    """How many snapshots a list has on all its pages."""
    where = _where(tx, caller, filters)
    return int(tx.value(f"select count(*) from {_SOURCE} where {where.sql}", **where.params))


def _where(tx: Tx, caller: Caller, filters: listing.Filters) -> Where:
    where = Where()
    if not (filters.everybody and caller.is_admin):
        where.equal("s.project_id", caller.project_id)
    for name, value in filters.equal.items():
        values = value if isinstance(value, list | tuple) else [value]
        if name in _EQUAL:
            where.among(_EQUAL[name], [str(one) for one in values])
        elif name == "volume_size":
            where.among("s.size", [int(one) for one in values if str(one).isdigit()])
        elif name == "consumes_quota":
            where.add("1 = 1" if value else "1 = 0")
        elif name == "host":
            agents = [b.agent for b in backends.listing(tx) if {b.host, b.pool} & set(values)]
            where.among("v.agent", agents)
        else:
            where.add("1 = 0")
    for name, part in filters.like.items():
        if name in _EQUAL:
            where.add(f"{_EQUAL[name]} like :like_{name} escape '!'", **{f"like_{name}": listing.like(part)})
        else:
            where.add("1 = 0")
    for name, conditions in filters.times.items():
        for i, (sign, moment) in enumerate(conditions):
            where.add(f"s.{name} {listing.SIGNS[sign]} :{name}_{i}", **{f"{name}_{i}": moment})
    if filters.metadata:
        where.among("s.id", _with_metadata(tx, where, filters.metadata))
    return where


def _with_metadata(tx: Tx, where: Where, wanted: Mapping[str, str]) -> list[str]:
    rows = tx.all(f"select s.id, s.metadata from {_SOURCE} where {where.sql}", **where.params)
    found = [
        row["id"] for row in rows if all(row["metadata"].get(name) == value for name, value in wanted.items())
    ]
    if len(found) > _METADATA_LIMIT:
        raise Invalid(f"More than {_METADATA_LIMIT} snapshots have that metadata; add another filter.")
    return found


def create(
    tx: Tx, caller: Caller, volume_id: str, *, name: str | None, description: str | None,
    metadata: Mapping[str, str], in_use: bool,
) -> Row:  # fmt: skip
    """Take a snapshot; it is ``creating`` until the back end has it. ``in_use``: also of an attached volume.

    Raises NotFound, Invalid, OverQuota.
    """
    volume = listing.find(tx, caller, volume_id, lock=True)
    allowed = ("available", "in-use") if in_use else ("available",)
    if volume["shown"] not in allowed:
        raise Invalid(
            f"Invalid volume: volume {volume_id} status must be {' or '.join(allowed)}, but current status is: "
            f"{volume['shown']}."
        )
    change.check_thawed(tx, volume)
    id = insert(tx, caller, volume, name=name, description=description, metadata=metadata)
    return find(tx, caller, id)


def insert(
    tx: Tx, caller: Caller, volume: Row, *, name: str | None, description: str | None, metadata: Mapping[str, str],
    group_snapshot_id: str | None = None, image_id: str | None = None,
) -> str:  # fmt: skip
    """The row and holder of a new snapshot, after its quota was checked; return its id. Raises OverQuota.

    ``image_id``: an image that is being made of it, and others; it goes unless the image becomes whole.
    """
    project_id = caller.project_id or volume["project_id"]
    usage.check(tx, project_id, volume["type_name"], snapshots=1, gigabytes=volume["size"])
    id = tx.uuid()
    holders.create(tx, id, "snapshot", project_id)
    tx.insert(
        "snapshots", id=id, project_id=project_id, user_id=caller.user_id, volume_id=volume["id"],
        volume_type_id=volume["volume_type_id"], group_snapshot_id=group_snapshot_id, image_id=image_id, name=name,
        description=description, desired="available", status="creating", size=volume["size"], metadata=dict(metadata), request_id=caller.request_id,
        created_at=tx.now, updated_at=tx.now,
    )  # fmt: skip
    return id


def update(tx: Tx, caller: Caller, id: str, changes: Mapping[str, Any]) -> Row:
    """Change name or description. Raises NotFound."""
    find(tx, caller, id)
    if changes:
        tx.update("snapshots", id, **changes, updated_at=tx.now)
    return find(tx, caller, id)


def delete(tx: Tx, caller: Caller, id: str, *, force: bool = False) -> None:
    """Delete a snapshot; it is ``deleting`` until the back end has removed it. Raises NotFound, Invalid."""
    row = find(tx, caller, id, lock=True)
    if row["desired"] == "gone" and force:
        return
    if not force and row["status"] not in ("available", "error"):
        raise Invalid(
            f"Invalid snapshot: snapshot {id} status must be available or error to be deleted, it is {row['status']}."
        )
    if row["group_snapshot_id"] is not None:
        raise Invalid(
            f"Invalid snapshot: snapshot {id} must not be part of a group; it is of group snapshot "
            f"{row['group_snapshot_id']}."
        )
    change.check_thawed(tx, row)
    lifecycle.delete_inner(tx, "snapshot", id)


def set_metadata(
    tx: Tx, caller: Caller, id: str, pairs: Mapping[str, str], *, replace: bool = False
) -> dict[str, str]:
    """Add pairs to the metadata, or replace it; return what it is then. Raises NotFound, Invalid for too many."""
    row = find(tx, caller, id, lock=True)
    merged = dict(pairs) if replace else {**row["metadata"], **pairs}
    if len(merged) > change.METADATA:
        raise Invalid(
            f"The snapshot would have {len(merged)} pairs of metadata; at most {change.METADATA} fit."
        )
    tx.update("snapshots", id, metadata=merged, updated_at=tx.now)
    return merged


def delete_metadata(tx: Tx, caller: Caller, id: str, name: str) -> None:
    """Remove one pair. Raises NotFound."""
    row = find(tx, caller, id, lock=True)
    if name not in row["metadata"]:
        raise NotFound(f"Snapshot {id} has no metadata with key {name}.")
    rest = {key: value for key, value in row["metadata"].items() if key != name}
    tx.update("snapshots", id, metadata=rest, updated_at=tx.now)


# --- by administrators ---


def reset_status(tx: Tx, caller: Caller, id: str, status: str) -> None:
    """Set what a snapshot shows; one that was never made is made again. Raises NotFound, Invalid."""
    row = find(tx, caller, id, lock=True)
    if row["desired"] == "gone":
        raise Invalid(f"Snapshot {id} is being deleted.")
    if status == "available" and row["launched_at"] is None:
        status = "creating"
    tx.update("snapshots", id, status=status, updated_at=tx.now)
    holders.touch(tx, id)


#: What one may make of a snapshot's status, for those that write snapshots by themselves.
_STEPS: Mapping[str, tuple[str, ...]] = {
    "creating": ("creating", "available", "error"),
    "deleting": ("deleting", "error_deleting"),
}


def update_status(tx: Tx, caller: Caller, id: str, status: str, progress: str | None) -> None:
    """Say how far a snapshot is. Raises NotFound, Invalid for a step that is not allowed."""
    row = find(tx, caller, id, lock=True)
    if row["status"] not in _STEPS:
        raise Invalid(f"Snapshot status {row['status']} not allowed for update_snapshot_status.")
    if status not in _STEPS[row["status"]]:
        raise Invalid(
            f"Provided snapshot status {status} not allowed for snapshot with status {row['status']}."
        )
    changes: dict[str, Any] = {} if progress is None else {"progress": progress}
    tx.update("snapshots", id, status=status, **changes, updated_at=tx.now)
