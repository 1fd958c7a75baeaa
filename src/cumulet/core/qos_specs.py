"""QoS specs: how fast volumes of a type may be, and who sees to it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from cumulet.core import volume_types
from cumulet.db.engine import Row, Tx
from cumulet.db.query import MarkerNotFound, Query, Where, page
from cumulet.errors import Conflict, Invalid, NotFound
from cumulet.values import Caller

#: Pairs of one set of specs at the most.
SPECS = 256
SORTABLE: Mapping[str, str] = {name: name for name in ("created_at", "id", "name", "consumer")}


class Qos(msgspec.Struct, frozen=True):
    """A set of specs."""

    id: str
    name: str
    consumer: str
    specs: Mapping[str, str]


def _qos(row: Row) -> Qos:
    return Qos(row["id"], row["name"], row["consumer"], row["specs"])


def find(tx: Tx, id: str) -> Qos:
    """One set of specs. Raises NotFound."""
    row = tx.one("select * from qos_specs where id = :id", id=id)
    if row is None:
        raise NotFound(f"No such qos specs {id}.")
    return _qos(row)


def listing(tx: Tx, query: Query, filters: Mapping[str, str]) -> list[Qos]:
    """A page of them. Raises NotFound for the marker."""
    where = Where()
    for name, value in filters.items():
        if name in ("id", "name", "consumer"):
            where.equal(name, value)
        else:
            where.add("1 = 0")
    try:
        return [_qos(row) for row in page(tx, "qos_specs", where, query, SORTABLE)]
    except MarkerNotFound as error:
        raise NotFound(f"No such qos specs {error}.") from None


def create(tx: Tx, name: str, consumer: str, specs: Mapping[str, str]) -> Qos:
    """Make one. Raises Conflict for a name that is taken."""
    made = Qos(tx.uuid(), name, consumer, _limited(specs))
    if tx.one("select 1 from qos_specs where name = :name", name=name) is not None or not tx.insert_new(
        "qos_specs", id=made.id, name=name, consumer=consumer, specs=dict(specs), created_at=tx.now
    ):
        raise Conflict(f"Qos specs {name} already exists.")
    return made


def update(tx: Tx, id: str, consumer: str | None, specs: Mapping[str, str]) -> None:
    """Add specs, or replace those of the same names. Raises NotFound, Invalid for too many."""
    tx.lock("qos_specs", id)
    found = find(tx, id)
    tx.update("qos_specs", id, consumer=consumer or found.consumer, specs=_limited({**found.specs, **specs}))


def _limited(specs: Mapping[str, str]) -> dict[str, str]:
    if len(specs) > SPECS:
        raise Invalid(f"There are {len(specs)} specs; at most {SPECS} fit.")
    return dict(specs)


def delete_keys(tx: Tx, id: str, keys: list[str]) -> None:
    """Remove specs. Raises NotFound, also for one that is not there."""
    tx.lock("qos_specs", id)
    found = find(tx, id)
    for key in keys:
        if key not in found.specs:
            raise NotFound(f"QoS specs {id} has no spec with key {key}.")
    rest = {name: value for name, value in found.specs.items() if name not in keys}
    tx.update("qos_specs", id, specs=rest)


def delete(tx: Tx, id: str, *, force: bool) -> None:
    """Remove one; with ``force`` also from the types that have it. Raises NotFound, Invalid while types do."""
    find(tx, id)
    if not force and associations(tx, id):
        raise Invalid("Qos specs still in use.")
    tx.delete("qos_specs", id)


# --- types that have them ---


def associations(tx: Tx, id: str) -> list[Row]:
    """The types that have the specs: {"id", "name"}. Raises NotFound."""
    find(tx, id)
    return tx.all("select id, name from volume_types where qos_specs_id = :id order by name", id=id)


def associate(tx: Tx, caller: Caller, id: str, type_id: str) -> None:
    """Give the specs to a type. Raises NotFound, Invalid for a type that has others."""
    find(tx, id)
    type_ = volume_types.find(tx, caller, type_id)
    if type_.qos_specs_id is not None and type_.qos_specs_id != id:
        raise Invalid(
            f"Invalid volume type: type {type_id} is already associated with qos specs {type_.qos_specs_id}."
        )
    tx.update("volume_types", type_id, qos_specs_id=id, updated_at=tx.now)


def disassociate(tx: Tx, caller: Caller, id: str, type_id: str | None) -> None:
    """Take the specs from a type, or from all. Raises NotFound."""
    find(tx, id)
    if type_id is None:
        tx.run("update volume_types set qos_specs_id = null where qos_specs_id = :id", id=id)
        return
    volume_types.find(tx, caller, type_id)
    tx.run(
        "update volume_types set qos_specs_id = null where id = :type and qos_specs_id = :id", type=type_id, id=id
    )  # fmt: skip


def of_volume(tx: Tx, volume_id: str) -> Mapping[str, str] | None:
    """What whoever connects a volume must see to; None for nothing."""
    row = tx.one(
        "select q.* from qos_specs q join volume_types t on t.qos_specs_id = q.id join volumes v on v.volume_type_id = t.id "
        "where v.id = :id and q.consumer in ('front-end', 'both')",
        id=volume_id,
    )
    return _qos(row).specs if row is not None else None
