"""Groups of volumes, and snapshots of all volumes of a group.

A group is a row that volumes name. What it shows follows from them while it is being made from another group,
and it goes with the last of the volumes that are deleted with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cumulet.core import snapshots, volume_group_types, volume_types
from cumulet.core.volumes import backends, change, lifecycle, listing, usage
from cumulet.db.engine import Row, Tx
from cumulet.db.query import MarkerNotFound, Query, Where, page
from cumulet.errors import Forbidden, Invalid, NotFound
from cumulet.values import Caller

#: Volumes that one request can name.
MOST = 500
STATUSES = frozenset(
    {"error", "available", "creating", "deleting", "deleted", "updating", "in-use", "error_deleting"}
)
SNAPSHOT_STATUSES = frozenset(
    {"error", "available", "creating", "deleting", "deleted", "updating", "error_deleting"}
)

#: What is shown of a row ``g``: while its first volumes are being made it is too.
_SHOWN = (
    "case when g.status <> 'available' then g.status "
    "when exists (select 1 from volumes v where v.group_id = g.id and v.created_at = g.created_at and v.launched_at is null "
    "and v.status = 'error') then 'error' "
    "when exists (select 1 from volumes v where v.group_id = g.id and v.created_at = g.created_at and v.launched_at is null) "
    "then 'creating' else 'available' end"
)
_SNAPSHOT_SHOWN = (
    "case when g.status <> 'available' then g.status "
    "when exists (select 1 from snapshots s where s.group_snapshot_id = g.id and s.status = 'error') then 'error' "
    "when exists (select 1 from snapshots s where s.group_snapshot_id = g.id and s.launched_at is null) then 'creating' "
    "else 'available' end"
)
SORTABLE: Mapping[str, str] = {
    "created_at": "g.created_at",
    "id": "g.id",
    "name": "coalesce(g.name, '')",
    "status": "g.status",
    "updated_at": "g.updated_at",
}
_FILTERS: Mapping[str, str] = {
    "id": "g.id",
    "name": "g.name",
    "description": "g.description",
    "group_id": "g.group_id",
}


def _listing(
    tx: Tx,
    caller: Caller,
    query: Query,
    filters: Mapping[str, str],
    *,
    everybody: bool,
    table: str,
    shown: str,
) -> list[Row]:
    where = Where()
    if not (everybody and caller.is_admin):
        where.equal("g.project_id", caller.project_id)
    for name, value in filters.items():
        if name == "status":
            where.equal(shown, value)
        elif name in _FILTERS and (name != "group_id" or table == "volume_group_snapshots"):
            where.equal(_FILTERS[name], value)
        else:
            where.add("1 = 0")
    try:
        return page(tx, f"{table} g", where, query, SORTABLE, columns=f"g.*, {shown} as shown", key="g.id")
    except MarkerNotFound as error:
        raise NotFound(f"Group {error} could not be found.") from None


# --- groups ---


def find(tx: Tx, caller: Caller, id: str, *, lock: bool = False) -> Row:
    """A group with its volumes' ids and types, if the caller sees it. Raises NotFound."""
    if lock:
        tx.lock("volume_groups", id)
    row = tx.one(f"select g.*, {_SHOWN} as shown from volume_groups g where g.id = :id", id=id)
    if row is None or not caller.sees(row["project_id"]):
        raise NotFound(f"Group {id} could not be found.")
    return _whole(tx, [row])[0]


def groups(tx: Tx, caller: Caller, query: Query, filters: Mapping[str, str], *, everybody: bool) -> list[Row]:
    """A page of the groups that the caller sees. Raises NotFound for the marker."""
    rows = _listing(tx, caller, query, filters, everybody=everybody, table="volume_groups", shown=_SHOWN)
    return _whole(tx, rows)


def _whole(tx: Tx, rows: list[Row]) -> list[Row]:
    ids = tuple(row["id"] for row in rows)
    types: dict[str, list[str]] = {}
    volumes: dict[str, list[str]] = {}
    if ids:
        for one in tx.all(
            "select group_id, volume_type_id from volume_group_volume_types where group_id in :ids order by volume_type_id",
            ids=ids,
        ):
            types.setdefault(one["group_id"], []).append(one["volume_type_id"])
        for one in tx.all(
            "select group_id, id from volumes where group_id in :ids order by created_at, id", ids=ids
        ):
            volumes.setdefault(one["group_id"], []).append(one["id"])
    for row in rows:
        row["volume_types"] = types.get(row["id"], [])
        row["volumes"] = volumes.get(row["id"], [])
    return rows


def _insert(tx: Tx, caller: Caller, types: Sequence[str], **columns: Any) -> str:
    if caller.project_id is None:
        raise Forbidden("A group belongs to a project; ask with a token that is scoped to one.")
    usage.check(tx, caller.project_id, None, groups=1)
    id = tx.uuid()
    tx.insert(
        "volume_groups", id=id, project_id=caller.project_id, user_id=caller.user_id, status="available",
        created_at=tx.now, updated_at=tx.now, **columns,
    )  # fmt: skip
    for type_id in types:
        tx.insert("volume_group_volume_types", group_id=id, volume_type_id=type_id)
    return id


def create(
    tx: Tx, caller: Caller, *, name: str | None, description: str | None, group_type: str, types: Sequence[str],
    zone: str | None,
) -> Row:  # fmt: skip
    """Make an empty group for volumes of some types. Raises NotFound, Invalid, OverQuota."""
    kind = volume_group_types.named(tx, caller, group_type)
    ids = sorted({volume_types.named(tx, caller, one).id for one in types})
    if zone is not None and zone not in backends.zones(tx):
        raise Invalid(f"Availability zone '{zone}' is invalid.")
    id = _insert(
        tx, caller, ids, name=name, description=description, group_type_id=kind["id"], zone=zone or "nova"
    )
    return find(tx, caller, id)


def create_from(
    tx: Tx, caller: Caller, *, name: str | None, description: str | None, group_id: str | None,
    group_snapshot_id: str | None,
) -> Row:  # fmt: skip
    """Make a group with copies of the volumes of another one, as they are or as they were. Raises NotFound, Invalid."""
    if group_snapshot_id is not None:
        taken = find_snapshot(tx, caller, group_snapshot_id)
        if taken["shown"] != "available":
            raise Invalid(f"Invalid group snapshot: it must be available, it is {taken['shown']}.")
        source = find(tx, caller, taken["group_id"])
        rows = tx.all(
            "select s.id as snapshot_id, s.size, s.volume_type_id, s.name, v.zone from snapshots s "
            "join volumes v on v.id = s.volume_id where s.group_snapshot_id = :id order by s.created_at, s.id",
            id=group_snapshot_id,
        )
    else:
        source = find(tx, caller, str(group_id))
        if source["shown"] != "available":
            raise Invalid(f"Invalid Group: source group must be available, it is {source['shown']}.")
        rows = tx.all(
            "select id as source_volume_id, size, volume_type_id, name, zone, launched_at from volumes "
            "where group_id = :id order by created_at, id",
            id=group_id,
        )
        if any(row.pop("launched_at") is None for row in rows):
            raise Invalid("Invalid Group: a volume of the source group is not available.")
    if not rows:
        raise Invalid("Invalid Group: the source has no volumes, so nothing can be made from it.")
    id = _insert(
        tx, caller, source["volume_types"], name=name, description=description,
        group_type_id=source["group_type_id"], zone=source["zone"], group_snapshot_id=group_snapshot_id,
        source_group_id=group_id,
    )  # fmt: skip
    for row in rows:
        lifecycle.create_inner(
            tx, project_id=str(caller.project_id), user_id=caller.user_id, group_id=id, request_id=caller.request_id,
            **row,
        )  # fmt: skip
    return find(tx, caller, id)


def update(
    tx: Tx, caller: Caller, id: str, changes: Mapping[str, Any], add: Sequence[str], remove: Sequence[str]
) -> None:
    """Change name or description, put volumes into the group, take volumes out of it. Raises NotFound, Invalid."""
    group = find(tx, caller, id, lock=True)
    both = set(add) & set(remove)
    if both:
        raise Invalid(f"Invalid volume: {', '.join(sorted(both))} are in both add and remove volume list.")
    if len(add) + len(remove) > MOST:
        raise Invalid(f"Invalid Group: at most {MOST} volumes can be named in one request.")
    fresh = [volume_id for volume_id in add if volume_id not in group["volumes"]]
    real = {name: value for name, value in changes.items() if value is not None and value != group[name]}
    if not (real or fresh or remove):
        raise Invalid(
            f"Invalid Group: cannot update group {id} because no valid name, description, add_volumes, or "
            "remove_volumes were provided."
        )
    if (fresh or remove) and group["shown"] != "available":
        raise Invalid(f"Invalid Group: group status must be available, it is {group['shown']}.")
    for volume_id in fresh:
        _put_in(tx, caller, group, volume_id)
    for volume_id in remove:
        _take_out(tx, caller, group, volume_id)
    tx.update("volume_groups", id, **real, updated_at=tx.now)


def _put_in(tx: Tx, caller: Caller, group: Row, volume_id: str) -> None:
    why = f"Invalid volume: cannot add volume {volume_id} to group {group['id']} because"
    try:
        volume = listing.find(tx, caller, volume_id, lock=True)
    except NotFound:
        raise Invalid(f"{why} volume cannot be found.") from None
    if volume["group_id"] is not None:
        raise Invalid(f"{why} it is already in group {volume['group_id']}.")
    if volume["project_id"] != group["project_id"]:
        raise Invalid(f"{why} they belong to different projects.")
    if volume["volume_type_id"] not in group["volume_types"]:
        raise Invalid(f"{why} volume type {volume['type_name']} is not supported by the group.")
    if volume["shown"] not in ("available", "in-use"):
        raise Invalid(f"{why} volume must be available or in-use, it is {volume['shown']}.")
    tx.update("volumes", volume_id, group_id=group["id"], updated_at=tx.now)


def _take_out(tx: Tx, caller: Caller, group: Row, volume_id: str) -> None:
    if volume_id not in group["volumes"]:
        raise Invalid(
            f"Invalid volume: cannot remove volume {volume_id} from group {group['id']} because it is not in the group."
        )
    volume = listing.find(tx, caller, volume_id, lock=True)
    if volume["shown"] not in ("available", "in-use", "error", "error_deleting"):
        raise Invalid(
            f"Invalid volume: cannot remove volume {volume_id} from group {group['id']} because volume is in an invalid "
            f"state: {volume['shown']}."
        )
    tx.update("volumes", volume_id, group_id=None, updated_at=tx.now)


def delete(tx: Tx, caller: Caller, id: str, *, with_volumes: bool) -> None:
    """Delete a group, and with ``with_volumes`` what is in it. Raises NotFound, Invalid."""
    group = find(tx, caller, id, lock=True)
    if not with_volumes and group["shown"] not in ("available", "error"):
        raise Invalid(
            f"Invalid Group: group status must be available or error, but current status is: {group['shown']}."
        )
    if tx.one("select 1 from volume_group_snapshots where group_id = :id", id=id) is not None:
        raise Invalid("Invalid Group: group has existing snapshots.")
    if group["volumes"] and not with_volumes:
        raise Invalid(
            f"Invalid Group: group {id} still contains volumes. The delete-volumes flag is required to delete it."
        )
    volumes = [listing.find(tx, caller, one, lock=True) for one in group["volumes"]]
    for volume in volumes:
        if volume["attachments"]:
            raise Invalid(
                f"Invalid Group: volume {volume['id']} in group {id} is attached. Need to detach first."
            )
        if tx.one("select 1 from snapshots where volume_id = :id", id=volume["id"]) is not None:
            raise Invalid(f"Invalid Group: volume {volume['id']} in group still has dependent snapshots.")
        change.check_thawed(tx, volume)
    if not volumes:
        tx.delete("volume_groups", id)
        return
    # The row goes with the last of its volumes, see core.volumes.lifecycle.
    tx.update("volume_groups", id, status="deleting", updated_at=tx.now)
    for volume in volumes:
        lifecycle.delete_inner(tx, "volume", volume["id"])


def reset_status(tx: Tx, caller: Caller, id: str, status: str) -> None:
    """Set what a group shows. Raises NotFound."""
    find(tx, caller, id, lock=True)
    tx.update("volume_groups", id, status=status, updated_at=tx.now)


# --- group snapshots ---


def find_snapshot(tx: Tx, caller: Caller, id: str) -> Row:
    """A group snapshot, if the caller sees it. Raises NotFound."""
    row = tx.one(
        f"select g.*, {_SNAPSHOT_SHOWN} as shown from volume_group_snapshots g where g.id = :id", id=id
    )
    if row is None or not caller.sees(row["project_id"]):
        raise NotFound(f"GroupSnapshot {id} could not be found.")
    return row


def group_snapshots(
    tx: Tx, caller: Caller, query: Query, filters: Mapping[str, str], *, everybody: bool
) -> list[Row]:
    """A page of the group snapshots that the caller sees. Raises NotFound for the marker."""
    return _listing(
        tx, caller, query, filters, everybody=everybody, table="volume_group_snapshots", shown=_SNAPSHOT_SHOWN
    )


def take(tx: Tx, caller: Caller, group_id: str, *, name: str | None, description: str | None) -> Row:
    """Take a snapshot of every volume of a group. Raises NotFound, Invalid, OverQuota."""
    group = find(tx, caller, group_id, lock=True)
    volumes = [listing.find(tx, caller, one, lock=True) for one in group["volumes"]]
    if not volumes:
        raise Invalid(f"Invalid Group: group {group_id} has no volumes.")
    for volume in volumes:
        if volume["shown"] not in ("available", "in-use"):
            raise Invalid(
                f"Invalid volume: volume {volume['id']} must be available or in-use, it is {volume['shown']}."
            )
        change.check_thawed(tx, volume)
    id = tx.uuid()
    tx.insert(
        "volume_group_snapshots", id=id, project_id=group["project_id"], user_id=caller.user_id, group_id=group_id,
        group_type_id=group["group_type_id"], name=name, description=description, status="available",
        created_at=tx.now, updated_at=tx.now,
    )  # fmt: skip
    for volume in volumes:
        snapshots.insert(
            tx, caller, volume, name=name, description=description, metadata={}, group_snapshot_id=id
        )
    return find_snapshot(tx, caller, id)


def delete_snapshot(tx: Tx, caller: Caller, id: str) -> None:
    """Delete a group snapshot with its snapshots. Raises NotFound, Invalid."""
    tx.lock("volume_group_snapshots", id)
    row = find_snapshot(tx, caller, id)
    if row["shown"] not in ("available", "error"):
        raise Invalid(
            f"Invalid group snapshot: GroupSnapshot status must be available or error, it is {row['shown']}."
        )
    taken = tx.values("select id from snapshots where group_snapshot_id = :id", id=id)
    if not taken:
        tx.delete("volume_group_snapshots", id)
        return
    tx.update("volume_group_snapshots", id, status="deleting", updated_at=tx.now)
    for one in taken:
        lifecycle.delete_inner(tx, "snapshot", one)


def reset_snapshot_status(tx: Tx, caller: Caller, id: str, status: str) -> None:
    """Set what a group snapshot shows. Raises NotFound."""
    find_snapshot(tx, caller, id)
    tx.update("volume_group_snapshots", id, status=status, updated_at=tx.now)
