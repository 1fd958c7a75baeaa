"""Volumes as their users see them: one, a page of them, how many there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from cumulet.core.volumes import backends
from cumulet.core.volumes.attachments import SHOWN
from cumulet.db.engine import Row, Tx
from cumulet.db.query import MarkerNotFound, Query, Where, page
from cumulet.errors import Invalid, NotFound
from cumulet.values import Caller

_SOURCE = "volumes v left join volume_types t on t.id = v.volume_type_id"
_COLUMNS = f"v.*, {SHOWN} as shown, t.name as type_name"

#: What one can sort by, and the expression for it.
SORTABLE: Mapping[str, str] = {
    "availability_zone": "v.zone",
    "bootable": "case when v.bootable then 1 else 0 end",
    "created_at": "v.created_at",
    "description": "coalesce(v.description, '')",
    "display_description": "coalesce(v.description, '')",
    "display_name": "coalesce(v.name, '')",
    "host": "coalesce(v.agent, '')",
    "id": "v.id",
    "launched_at": "coalesce(v.launched_at, 0)",
    "name": "coalesce(v.name, '')",
    "project_id": "v.project_id",
    "size": "v.size",
    "snapshot_id": "coalesce(v.source_snapshot_id, '')",
    "source_volid": "coalesce(v.source_volume_id, '')",
    "status": SHOWN,
    "updated_at": "v.updated_at",
    "user_id": "v.user_id",
    "volume_type_id": "coalesce(v.volume_type_id, '')",
}

#: Filters that compare with one column: name → expression.
_EQUAL: Mapping[str, str] = {
    "id": "v.id",
    "name": "v.name",
    "display_name": "v.name",
    "description": "v.description",
    "display_description": "v.description",
    "status": SHOWN,
    "availability_zone": "v.zone",
    "project_id": "v.project_id",
    "user_id": "v.user_id",
    "volume_type_id": "v.volume_type_id",
    "snapshot_id": "v.source_snapshot_id",
    "source_volid": "v.source_volume_id",
    "group_id": "v.group_id",
}
_FLAGS: Mapping[str, str] = {
    "bootable": "v.bootable",
    "multiattach": "v.multiattach",
    "encrypted": "v.encrypted",
}
_TIMES = ("created_at", "updated_at")
SIGNS: Mapping[str, str] = {"gt": ">", "gte": ">=", "eq": "=", "neq": "<>", "lt": "<", "lte": "<="}
#: Rows that a filter on metadata may leave over: their ids travel in the next statement.
_METADATA_LIMIT = 10_000


class Filters(msgspec.Struct, frozen=True):
    """What a list is narrowed by."""

    #: Every project's, for an administrator.
    everybody: bool = False
    #: name → value, or values of which one must be had; what is not known selects nothing.
    equal: Mapping[str, Any] = {}
    #: name → a part of the value.
    like: Mapping[str, str] = {}
    #: name → ((operator, seconds since the epoch), …)
    times: Mapping[str, Sequence[tuple[str, float]]] = {}
    metadata: Mapping[str, str] = {}
    image_metadata: Mapping[str, str] = {}


NO_FILTERS = Filters()


def find(tx: Tx, caller: Caller, id: str, *, lock: bool = False) -> Row:
    """A volume with its attachments, if the caller sees it. Raises NotFound.

    ``lock``: for who is going to change it. What is locked is the holder's row, as the reconciler does first.
    """
    if lock:
        tx.lock("holders", id)
    row = tx.one(f"select {_COLUMNS} from {_SOURCE} where v.id = :id", id=id)
    if row is None or not caller.sees(row["project_id"]):
        raise NotFound(f"Volume {id} could not be found.")
    return _whole(tx, [row])[0]


def listing(tx: Tx, caller: Caller, query: Query, filters: Filters = NO_FILTERS) -> list[Row]:
    """A page of the volumes that the caller sees, with their attachments. Raises NotFound for the marker."""
    where = _where(tx, caller, filters)
    try:
        return _whole(tx, page(tx, _SOURCE, where, query, SORTABLE, columns=_COLUMNS, key="v.id"))
    except MarkerNotFound as error:
        raise NotFound(f"Volume {error} could not be found.") from None


def count(tx: Tx, caller: Caller, filters: Filters = NO_FILTERS) -> int:
    """How many volumes a list has on all its pages."""
    where = _where(tx, caller, filters)
    return int(tx.value(f"select count(*) from {_SOURCE} where {where.sql}", **where.params))


def summary(tx: Tx, caller: Caller, *, everybody: bool) -> tuple[int, int, dict[str, list[str]]]:
    """Number and size of all volumes, and all that is in their metadata: name → the values that it has."""
    where = _where(tx, caller, Filters(everybody=everybody))
    rows = tx.all(f"select v.size, v.metadata from {_SOURCE} where {where.sql}", **where.params)
    metadata: dict[str, list[str]] = {}
    for row in rows:
        for name, value in row["metadata"].items():
            if value not in metadata.setdefault(name, []):
                metadata[name].append(value)
    return len(rows), sum(int(row["size"]) for row in rows), metadata


def _whole(tx: Tx, rows: list[Row]) -> list[Row]:
    """Rows with ``attachments``, and ``host``: the back end's name as services and hosts have it."""
    if not rows:
        return rows
    attached: dict[str, list[Row]] = {}
    for one in tx.all(
        "select h.*, coalesce(h.mountpoint, b.device_name) as device from attachments h "
        "left join block_devices b on b.server_id = h.server_id and b.volume_id = h.volume_id and not h.by_client "
        "where h.volume_id in :ids order by h.created_at, h.id",
        ids=tuple(row["id"] for row in rows),
    ):
        attached.setdefault(one["volume_id"], []).append(one)
    pools = {backend.agent: backend.pool for backend in backends.listing(tx)}
    for row in rows:
        row["attachments"] = attached.get(row["id"], [])
        row["host"] = pools.get(row["agent"] or "")
    return rows


def _where(tx: Tx, caller: Caller, filters: Filters) -> Where:
    where = Where()
    if not (filters.everybody and caller.is_admin):
        where.equal("v.project_id", caller.project_id)
    for name, value in filters.equal.items():
        _equal(tx, where, name, value)
    for name, value in filters.like.items():
        if name in _EQUAL:
            where.add(f"{_EQUAL[name]} like :like_{name} escape '!'", **{f"like_{name}": like(value)})
        else:
            where.add("1 = 0")
    for name, conditions in filters.times.items():
        for i, (sign, moment) in enumerate(conditions):
            where.add(f"v.{name} {SIGNS[sign]} :{name}_{i}", **{f"{name}_{i}": moment})
    for column, wanted in (("metadata", filters.metadata), ("image_metadata", filters.image_metadata)):
        if wanted:
            where.among("v.id", _with_metadata(tx, where, column, wanted))
    return where


def _equal(tx: Tx, where: Where, name: str, value: Any) -> None:
    if name in _FLAGS:
        where.add(_FLAGS[name] if value else f"not {_FLAGS[name]}")
    elif name == "consumes_quota":
        where.add("1 = 1" if value else "1 = 0")
    elif name == "migration_status":
        if value in (None, "none"):
            where.add("v.migration_status is null")
        else:
            where.among("v.migration_status", [str(one) for one in _several(value)])
    elif name == "size":
        sizes = [int(one) for one in _several(value) if str(one).isdigit()]
        where.among("v.size", sizes)
    elif name == "host":
        agents = [b.agent for b in backends.listing(tx) if set(_several(value)) & {b.host, b.pool}]
        where.among("v.agent", agents)
    elif name in _EQUAL:
        where.among(_EQUAL[name], [str(one) for one in _several(value)])
    else:
        where.add("1 = 0")


def _several(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def like(text: str) -> str:
    """A pattern for what contains the text; ``!`` escapes."""
    for sign in ("!", "%", "_"):
        text = text.replace(sign, "!" + sign)
    return f"%{text}%"


def _with_metadata(tx: Tx, where: Where, column: str, wanted: Mapping[str, str]) -> list[str]:
    """Ids of the rows, narrowed by the conditions so far, that have all these pairs. Raises Invalid for too many."""
    rows = tx.all(f"select v.id, v.{column} from {_SOURCE} where {where.sql}", **where.params)
    found = [
        row["id"] for row in rows if all(row[column].get(name) == value for name, value in wanted.items())
    ]
    if len(found) > _METADATA_LIMIT:
        raise Invalid(f"More than {_METADATA_LIMIT} volumes have that metadata; add another filter.")
    return found
