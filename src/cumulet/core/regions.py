"""Regions of the catalogue. See the API reference, "Regions"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cumulet.core.assignments import DEPTH
from cumulet.core.matches import Match, narrow
from cumulet.db.engine import Duplicate, Row, StillHeld, Tx
from cumulet.db.query import Query, Where, page
from cumulet.errors import Conflict, Forbidden, Invalid, NotFound

SORTABLE = {"id": "id"}


def show(tx: Tx, region_id: str) -> Row:
    """One region. Raises NotFound."""
    region = tx.one("select * from regions where id = :id", id=region_id)
    if region is None:
        raise NotFound(f"Could not find region: {region_id[:255]}.")
    return region


def find(tx: Tx, matches: Sequence[Match], query: Query) -> list[Row]:
    """Regions that match. Raises MarkerNotFound."""
    where = Where()
    narrow(where, matches, {"parent_region_id": "parent_region_id"})
    return page(tx, "regions", where, query, SORTABLE, (("id", "asc"),))


def create(
    tx: Tx, *, region_id: str | None, parent_id: str | None, description: str, extra: Mapping[str, Any]
) -> Row:
    """Make a region. Raises NotFound for a parent that does not exist, Conflict for an id that is taken."""
    if parent_id is not None:
        show(tx, parent_id)
    region_id = region_id or tx.uuid().replace("-", "")
    try:
        tx.insert(
            "regions", id=region_id, parent_region_id=parent_id, description=description, extra=dict(extra)
        )
    except Duplicate:
        raise Conflict(f"Conflict occurred attempting to store region - Duplicate ID, {region_id}.") from None
    return show(tx, region_id)


def update(tx: Tx, region_id: str, changes: Mapping[str, Any], extra: Mapping[str, Any]) -> Row:
    """Change a region. Raises NotFound, Invalid for a region that would be below itself."""
    region = show(tx, region_id)
    columns: dict[str, Any] = {"extra": {**region["extra"], **extra}}
    if "description" in changes:
        columns["description"] = changes["description"] or ""
    if "parent_region_id" in changes:
        columns["parent_region_id"] = changes["parent_region_id"]
        _check_parent(tx, region_id, changes["parent_region_id"])
    tx.update("regions", region_id, **columns)
    return show(tx, region_id)


def _check_parent(tx: Tx, region_id: str, parent_id: str | None) -> None:
    for _ in range(DEPTH):
        if parent_id is None:
            return
        if parent_id == region_id:
            raise Invalid("The specified parent region would create a circular region hierarchy.")
        parent_id = show(tx, parent_id)["parent_region_id"]
    raise Invalid(f"Regions can be nested {DEPTH} deep at most.")


def delete(tx: Tx, region_id: str) -> None:
    """Remove a region with those below it. Raises NotFound, Forbidden while there are endpoints or limits in one."""
    show(tx, region_id)
    levels = [[region_id]]
    while levels[-1]:
        levels.append(
            tx.values("select id from regions where parent_region_id in :ids", ids=tuple(levels[-1]))
        )
    try:
        for level in reversed(levels):
            tx.run("delete from regions where id in :ids", ids=tuple(level))
    except StillHeld:
        raise Forbidden(
            f"Unable to delete region {region_id} because it or its child regions have associated endpoints or limits."
        ) from None
