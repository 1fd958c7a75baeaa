"""Metadata definitions: what properties of images, volumes, flavors and servers mean, for clients to offer.

A namespace holds definitions of properties, objects (groups of properties) and tags, and says which types of
resources they are for. See the image API reference, "Metadata Definitions Service API v2".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from cumulet.db.engine import Row, Tx
from cumulet.db.query import Query, Where, page
from cumulet.errors import Conflict, Forbidden, NotFound
from cumulet.values import Caller

Kind = Literal["object", "property", "tag", "resource_type"]
#: Definitions of one kind in one namespace at the most.
PARTS = 1000

SORTABLE: Mapping[str, str] = {
    name: name for name in ("namespace", "visibility", "protected", "created_at", "updated_at")
}  # fmt: skip
SORTABLE_PARTS: Mapping[str, str] = {name: name for name in ("name", "created_at", "updated_at")}

#: Types of resources that every cloud knows.
RESOURCE_TYPES = (
    "OS::Cinder::Volume",
    "OS::Glance::Image",
    "OS::Nova::Aggregate",
    "OS::Nova::Flavor",
    "OS::Nova::Server",
    "OS::Trove::Instance",
)


class Namespace(msgspec.Struct, frozen=True):
    """A set of definitions."""

    id: str
    namespace: str
    display_name: str | None
    description: str | None
    visibility: str
    protected: bool
    owner: str | None
    created_at: float
    updated_at: float


class Part(msgspec.Struct, frozen=True):
    """A definition: what it says beside its name depends on its kind."""

    kind: str
    name: str
    content: Mapping[str, Any]
    created_at: float
    updated_at: float


class ResourceType(msgspec.Struct, frozen=True):
    name: str
    created_at: float


#: Raises Forbidden, or NotFound, unless the caller may do what is asked to the namespace.
Check = Callable[[Namespace], None]


def _namespace(row: Row) -> Namespace:
    return Namespace(**{name: row[name] for name in Namespace.__struct_fields__})


def _part(row: Row) -> Part:
    return Part(**{name: row[name] for name in Part.__struct_fields__})


# --- namespaces ---


def find(tx: Tx, caller: Caller, name: str, check: Check, *, lock: bool = False) -> Namespace:
    """The namespace, if it exists for the caller. Raises NotFound, and what ``check`` raises.

    It exists for its owner's project and for administrators, and for everybody if it is public.
    """
    row = tx.one(
        f"select * from metadef_namespaces where namespace = :name{tx.for_update if lock else ''}", name=name
    )
    if row is None or not (
        row["visibility"] == "public" or row["owner"] is None or caller.sees(row["owner"])
    ):
        raise NotFound(f"Metadata definition namespace={name} was not found.")
    found = _namespace(row)
    check(found)
    return found


def listing(
    tx: Tx, caller: Caller, query: Query, *, visibility: str | None = None, owner: str | None = None,
    resource_types: Sequence[str] = (),
) -> list[Namespace]:  # fmt: skip
    """A page of the namespaces that exist for the caller. Raises MarkerNotFound."""
    where = Where()
    if not caller.is_admin:
        where.add("visibility = 'public' or owner = :project or owner is null", project=caller.project_id)
    if visibility is not None:
        where.equal("visibility", visibility)
    if owner is not None:
        where.equal("owner", owner)
    if resource_types:
        where.add(
            "id in (select namespace_id from metadef_parts where kind = 'resource_type' and name in :types)",
            types=tuple(resource_types),
        )
    rows = page(tx, "metadef_namespaces", where, query, SORTABLE, key="namespace")
    return [_namespace(row) for row in rows]


def create(
    tx: Tx, /, name: str, parts: Mapping[Kind, Mapping[str, Mapping[str, Any]]], **columns: Any
) -> Namespace:
    """Make a namespace with definitions: {kind: {name: content}}. Raises Conflict for a name that is taken."""
    id = tx.uuid()
    made = tx.insert_new(
        "metadef_namespaces", id=id, namespace=name, created_at=tx.now, updated_at=tx.now, **columns
    )
    if not made:
        raise Conflict(f"The metadata definition namespace={name} already exists.")
    for kind, named in parts.items():
        for part, content in named.items():
            _insert(tx, id, kind, part, content)
    row = tx.one("select * from metadef_namespaces where id = :id", id=id)
    assert row is not None
    return _namespace(row)


def update(tx: Tx, caller: Caller, name: str, check: Check, changes: Mapping[str, Any]) -> Namespace:
    """Replace what a namespace says of itself, its name included. Raises NotFound, Conflict."""
    before = find(tx, caller, name, check, lock=True)
    other = changes["namespace"]
    if other != name and tx.one("select 1 from metadef_namespaces where namespace = :n", n=other) is not None:
        raise Conflict(f"The metadata definition namespace={other} already exists.")
    tx.update("metadef_namespaces", before.id, **changes, updated_at=tx.now)
    row = tx.one("select * from metadef_namespaces where id = :id", id=before.id)
    assert row is not None
    return _namespace(row)


def delete(tx: Tx, caller: Caller, name: str, check: Check) -> None:
    """Remove a namespace with all its definitions. Raises NotFound, Forbidden if it is protected."""
    tx.delete("metadef_namespaces", _unprotected(find(tx, caller, name, check, lock=True)).id)


def _unprotected(found: Namespace) -> Namespace:
    if found.protected:
        raise Forbidden(
            f"Metadata definition namespace {found.namespace} is protected and cannot be deleted."
        )
    return found


# --- definitions ---


def parts(tx: Tx, ids: Sequence[str], *kinds: Kind) -> dict[str, list[Part]]:
    """The definitions in some namespaces, by the namespaces' ids."""
    found: dict[str, list[Part]] = {}
    rows = tx.all(
        "select * from metadef_parts where namespace_id in :ids and kind in :kinds order by created_at, name",
        ids=tuple(ids), kinds=kinds,
    )  # fmt: skip
    for row in rows:
        found.setdefault(row["namespace_id"], []).append(_part(row))
    return found


def whole(tx: Tx, caller: Caller, name: str, check: Check) -> tuple[Namespace, list[Part]]:
    """A namespace with its definitions. Raises NotFound."""
    found = find(tx, caller, name, check)
    return found, parts(tx, [found.id], "object", "property", "tag", "resource_type").get(found.id, [])


def list_parts(
    tx: Tx, caller: Caller, namespace: str, kind: Kind, check: Check, query: Query | None = None
) -> list[Part]:
    """The definitions of one kind in a namespace. Raises NotFound, MarkerNotFound."""
    found = find(tx, caller, namespace, check)
    where = Where()
    where.equal("namespace_id", found.id)
    where.equal("kind", kind)
    rows = page(
        tx, "metadef_parts", where, query or Query(), SORTABLE_PARTS, (("created_at", "desc"),), key="name"
    )
    return [_part(row) for row in rows]


def part(tx: Tx, caller: Caller, namespace: str, kind: Kind, name: str, check: Check) -> Part:
    """One definition. Raises NotFound."""
    return _find_part(tx, find(tx, caller, namespace, check), kind, name)


def _find_part(tx: Tx, namespace: Namespace, kind: Kind, name: str) -> Part:
    row = tx.one(
        "select * from metadef_parts where namespace_id = :id and kind = :kind and name = :name",
        id=namespace.id, kind=kind, name=name,
    )  # fmt: skip
    if row is None:
        raise NotFound(
            f"The metadata definition {kind} with name={name} was not found in namespace={namespace.namespace}."
        )
    return _part(row)


def add_part(
    tx: Tx, caller: Caller, namespace: str, kind: Kind, name: str, content: Mapping[str, Any], check: Check
) -> Part:
    """Add a definition. Raises NotFound, Conflict for a name that is taken."""
    found = find(tx, caller, namespace, check, lock=True)
    _limit(tx, found, kind, 1)
    _insert(tx, found.id, kind, name, content)
    return _find_part(tx, found, kind, name)


def add_tags(
    tx: Tx, caller: Caller, namespace: str, names: Sequence[str], check: Check, *, append: bool
) -> None:
    """Define tags: instead of those that there are, or (``append``) beside them. Raises NotFound, Conflict."""
    found = find(tx, caller, namespace, check, lock=True)
    if not append:
        _remove_all(tx, found, "tag")
    _limit(tx, found, "tag", len(names))
    for name in names:
        _insert(tx, found.id, "tag", name, {})


def _limit(tx: Tx, namespace: Namespace, kind: Kind, more: int) -> None:
    number = tx.value(
        "select count(*) from metadef_parts where namespace_id = :id and kind = :kind",
        id=namespace.id,
        kind=kind,
    )
    if int(number) + more > PARTS:
        raise Conflict(f"A namespace has at most {PARTS} definitions of one kind.")


def _insert(tx: Tx, namespace_id: str, kind: Kind, name: str, content: Mapping[str, Any]) -> None:
    made = tx.insert_new(
        "metadef_parts", namespace_id=namespace_id, kind=kind, name=name, content=dict(content),
        created_at=tx.now, updated_at=tx.now,
    )  # fmt: skip
    if not made:
        raise Conflict(f"A metadata definition {kind} with name={name} already exists in this namespace.")
    if kind == "resource_type":
        tx.insert_new("metadef_resource_types", name=name, created_at=tx.now)


def change_part(
    tx: Tx, caller: Caller, namespace: str, kind: Kind, name: str, new_name: str, content: Mapping[str, Any],
    check: Check,
) -> Part:  # fmt: skip
    """Replace a definition, its name included. Raises NotFound, Conflict."""
    found = find(tx, caller, namespace, check, lock=True)
    before = _find_part(tx, found, kind, name)
    if new_name != name:
        _remove(tx, found, kind, name)
        _insert(tx, found.id, kind, new_name, content)
    tx.run(
        "update metadef_parts set content = :content, created_at = :created, updated_at = :now "
        "where namespace_id = :id and kind = :kind and name = :name",
        content=dict(content), created=before.created_at, now=tx.now, id=found.id, kind=kind, name=new_name,
    )  # fmt: skip
    return _find_part(tx, found, kind, new_name)


def remove_part(tx: Tx, caller: Caller, namespace: str, kind: Kind, name: str, check: Check) -> None:
    """Remove a definition. Raises NotFound."""
    found = find(tx, caller, namespace, check, lock=True)
    _find_part(tx, found, kind, name)
    _remove(tx, found, kind, name)


def _remove(tx: Tx, namespace: Namespace, kind: Kind, name: str) -> None:
    tx.run(
        "delete from metadef_parts where namespace_id = :id and kind = :kind and name = :name",
        id=namespace.id, kind=kind, name=name,
    )  # fmt: skip


def remove_parts(tx: Tx, caller: Caller, namespace: str, kind: Kind, check: Check) -> None:
    """Remove all definitions of a kind. Raises NotFound, Forbidden if the namespace is protected."""
    _remove_all(tx, _unprotected(find(tx, caller, namespace, check, lock=True)), kind)


def _remove_all(tx: Tx, namespace: Namespace, kind: Kind) -> None:
    tx.run("delete from metadef_parts where namespace_id = :id and kind = :kind", id=namespace.id, kind=kind)


# --- types of resources ---


def resource_types(tx: Tx) -> list[ResourceType]:
    """All types of resources that definitions can be, or once were, for."""
    rows = tx.all("select name, created_at from metadef_resource_types order by name limit 10000")
    return [ResourceType(row["name"], row["created_at"]) for row in rows]


def seed(tx: Tx) -> None:
    """Make the types of resources of a new cloud."""
    for name in RESOURCE_TYPES:
        tx.insert_new("metadef_resource_types", name=name, created_at=tx.now)
