"""Group types: names for kinds of volume groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cumulet.db.engine import Row, StillHeld, Tx
from cumulet.db.query import MarkerNotFound, Query, Where, page
from cumulet.errors import Conflict, Invalid, NotFound
from cumulet.values import Caller

#: The group type that ``default`` stands for, if there is one of the name.
DEFAULT = "default"
#: Specs of one group type at the most.
SPECS = 256
SORTABLE: Mapping[str, str] = {
    "created_at": "created_at",
    "description": "coalesce(description, '')",
    "id": "id",
    "is_public": "case when is_public then 1 else 0 end",
    "name": "name",
    "updated_at": "coalesce(updated_at, created_at)",
}


def find(tx: Tx, caller: Caller, id: str) -> Row:
    """The group type with that id, if the caller may use it. Raises NotFound."""
    return _one(tx, caller, "id", id)


def named(tx: Tx, caller: Caller, name_or_id: str) -> Row:
    """The group type with that id or name, if the caller may use it. Raises NotFound."""
    try:
        return _one(tx, caller, "id", name_or_id)
    except NotFound:
        return _one(tx, caller, "name", name_or_id)


def _one(tx: Tx, caller: Caller, column: str, value: str) -> Row:
    row = tx.one(f"select * from volume_group_types where {column} = :value", value=value)
    if row is None or not (row["is_public"] or caller.is_admin):
        raise NotFound(f"Group type {value} could not be found.")
    return row


def listing(tx: Tx, caller: Caller, query: Query, *, is_public: bool | None) -> list[Row]:
    """A page of the group types that the caller may use. Raises NotFound for the marker."""
    where = Where()
    if not caller.is_admin or is_public:
        where.add("is_public")
    elif is_public is False:
        where.add("not is_public")
    try:
        return page(tx, "volume_group_types", where, query, SORTABLE)
    except MarkerNotFound as error:
        raise NotFound(f"Group type {error} could not be found.") from None


def create(
    tx: Tx, *, name: str, description: str | None, is_public: bool, group_specs: Mapping[str, str | None]
) -> Row:
    """Make a group type. Raises Conflict for a name that is taken."""
    id = tx.uuid()
    taken = tx.one("select 1 from volume_group_types where name = :name", name=name) is not None
    if taken or not tx.insert_new(
        "volume_group_types", id=id, name=name, description=description, is_public=is_public,
        group_specs=_limited(group_specs), created_at=tx.now,
    ):  # fmt: skip
        raise Conflict(f"Group Type {name} already exists.")
    return _written(tx, id)


def _written(tx: Tx, id: str) -> Row:
    row = tx.one("select * from volume_group_types where id = :id", id=id)
    assert row is not None
    return row


def _limited(specs: Mapping[str, str | None]) -> dict[str, str | None]:
    if len(specs) > SPECS:
        raise Invalid(f"There are {len(specs)} group specs; at most {SPECS} fit.")
    return dict(specs)


def update(tx: Tx, caller: Caller, id: str, changes: Mapping[str, Any]) -> Row:
    """Change name, description or who sees it. Raises NotFound, Conflict for a name that is taken."""
    row = find(tx, caller, id)
    name = changes.get("name")
    other = tx.one(
        "select 1 from volume_group_types where name = :name and id <> :id", name=name or "", id=row["id"]
    )
    if other is not None:
        raise Conflict(f"Group Type {name} already exists.")
    tx.update("volume_group_types", id, **changes, updated_at=tx.now)
    return _written(tx, id)


def delete(tx: Tx, caller: Caller, id: str) -> None:
    """Remove a group type. Raises NotFound, Invalid while there are groups of it."""
    find(tx, caller, id)
    for table in ("volume_groups", "volume_group_snapshots"):
        if tx.one(f"select 1 from {table} where group_type_id = :id limit 1", id=id) is not None:
            raise Invalid("Target group type is still in use.")
    try:
        tx.delete("volume_group_types", id)
    except StillHeld:
        raise Invalid("Target group type is still in use.") from None


def set_specs(tx: Tx, caller: Caller, id: str, specs: Mapping[str, str | None]) -> None:
    """Add group specs, or replace those of the same names. Raises NotFound, Invalid for too many."""
    tx.lock("volume_group_types", id)
    row = find(tx, caller, id)
    tx.update(
        "volume_group_types", id, group_specs=_limited({**row["group_specs"], **specs}), updated_at=tx.now
    )


def delete_spec(tx: Tx, caller: Caller, id: str, name: str) -> None:
    """Remove one group spec. Raises NotFound."""
    tx.lock("volume_group_types", id)
    row = find(tx, caller, id)
    if name not in row["group_specs"]:
        raise NotFound(f"Group Type {id} has no specs with key {name}.")
    rest = {key: value for key, value in row["group_specs"].items() if key != name}
    tx.update("volume_group_types", id, group_specs=rest, updated_at=tx.now)
