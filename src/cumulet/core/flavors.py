"""Flavors: the sizes of servers, their extra specs, and which projects may use those that are not public."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from cumulet.core import patterns, quota
from cumulet.db.engine import Row, Tx
from cumulet.db.query import Query, Where, page
from cumulet.errors import Conflict, NotFound
from cumulet.values import Caller

#: What one can sort a list by, and the expression for it. The names are those of the old database.
SORTABLE: Mapping[str, str] = {
    "created_at": "created_at",
    "description": "coalesce(description, '')",
    "disabled": "disabled",
    "ephemeral_gb": "ephemeral",
    "flavorid": "flavorid",
    "id": "created_at",
    "is_public": "is_public",
    "memory_mb": "ram",
    "name": "name",
    "root_gb": "disk",
    "rxtx_factor": "rxtx_factor",
    "swap": "swap",
    "updated_at": "created_at",
    "vcpu_weight": "1",
    "vcpus": "vcpus",
}


class Flavor(msgspec.Struct, frozen=True):
    """A flavor; ``flavorid`` is the id that users see and choose, ``id`` the row's."""

    id: str
    flavorid: str
    name: str
    vcpus: int
    ram: int
    disk: int
    ephemeral: int = 0
    swap: int = 0
    rxtx_factor: float = 1.0
    is_public: bool = True
    disabled: bool = False
    description: str | None = None
    extra_specs: Mapping[str, str] = {}


class Filters(msgspec.Struct, frozen=True):
    """What a list is narrowed by. ``is_public`` None: public and other ones, for an administrator."""

    is_public: bool | None = True
    #: An expression that is found in it.
    name: str | None = None
    min_ram: int | None = None
    min_disk: int | None = None


PUBLIC = Filters()


def _flavor(row: Row) -> Flavor:
    return Flavor(**{name: row[name] for name in Flavor.__struct_fields__})


def find(tx: Tx, caller: Caller, flavorid: str) -> Flavor:
    """The flavor with that id, if the caller may use it. Raises NotFound.

    A flavor that is not public exists for administrators and for the projects that were given access.
    """
    row = tx.one("select * from flavors where flavorid = :flavorid", flavorid=flavorid)
    if row is None or not (row["is_public"] or caller.is_admin or _has_access(tx, row["id"], caller)):
        raise NotFound(f"Flavor {flavorid} could not be found.")
    return _flavor(row)


def _has_access(tx: Tx, flavor_id: str, caller: Caller) -> bool:
    return (
        tx.one(
            "select 1 from flavor_access where flavor_id = :flavor and project_id = :project",
            flavor=flavor_id,
            project=caller.project_id,
        )
        is not None
    )


def listing(tx: Tx, caller: Caller, query: Query, filters: Filters = PUBLIC) -> list[Flavor]:
    """A page of the flavors that the caller may use. Raises MarkerNotFound, Invalid for a bad expression."""
    where = Where()
    usable = "is_public or id in (select flavor_id from flavor_access where project_id = :project)"
    if not caller.is_admin:
        where.add(usable, project=caller.project_id)
        where.add("not disabled")
    elif filters.is_public:
        where.add(usable, project=caller.project_id)
    elif filters.is_public is False:
        where.add("not is_public")
    if filters.min_ram is not None:
        where.add("ram >= :min_ram", min_ram=filters.min_ram)
    if filters.min_disk is not None:
        where.add("disk >= :min_disk", min_disk=filters.min_disk)
    if filters.name is not None:
        expression = patterns.filter_of("name", filters.name)
        known = tx.all(f"select id, name from flavors where {where.sql}", **where.params)
        where.among("id", [row["id"] for row in known if expression.found_in(row["name"])])
    rows = page(tx, "flavors", where, query, SORTABLE, (("flavorid", "asc"),), key="flavorid")
    return [_flavor(row) for row in rows]


def create(tx: Tx, /, *, flavorid: str | None, name: str, **size: Any) -> Flavor:
    """Make a flavor; ``flavorid`` None draws one. Raises Conflict for an id or name that is taken."""
    flavor = Flavor(id=tx.uuid(), flavorid=flavorid or tx.uuid(), name=name, **size)
    for column, value in (("flavorid", flavor.flavorid), ("name", name)):
        if tx.one(f"select 1 from flavors where {column} = :value", value=value) is not None:
            what = "ID" if column == "flavorid" else "name"
            raise Conflict(f"Flavor with {what} {value} already exists.")
    row = {**msgspec.structs.asdict(flavor), "extra_specs": dict(flavor.extra_specs)}
    if not tx.insert_new("flavors", **row, created_at=tx.now):
        raise Conflict(f"Flavor with ID {flavor.flavorid} or name {name} already exists.")
    return flavor


def describe(tx: Tx, caller: Caller, flavorid: str, description: str | None) -> Flavor:
    """Change the description. Raises NotFound."""
    flavor = find(tx, caller, flavorid)
    tx.update("flavors", flavor.id, description=description)
    return msgspec.structs.replace(flavor, description=description)


def delete(tx: Tx, caller: Caller, flavorid: str) -> None:
    """Remove a flavor; servers keep what they were made with. Raises NotFound."""
    tx.delete("flavors", find(tx, caller, flavorid).id)


def set_extra_specs(tx: Tx, caller: Caller, flavorid: str, specs: Mapping[str, str], most: int) -> None:
    """Add extra specs, or replace those of the same names. Raises NotFound, Conflict above ``most``."""
    flavor = _locked(tx, caller, flavorid)
    merged = {**flavor.extra_specs, **specs}
    if len(merged) > most:
        raise Conflict(f"Flavor {flavorid} would have {len(merged)} extra specs; at most {most} fit.")
    tx.update("flavors", flavor.id, extra_specs=merged)


def extra_spec(tx: Tx, caller: Caller, flavorid: str, name: str) -> str:
    """One extra spec's value. Raises NotFound."""
    return _spec(find(tx, caller, flavorid), name)


def delete_extra_spec(tx: Tx, caller: Caller, flavorid: str, name: str) -> None:
    """Remove one extra spec. Raises NotFound."""
    flavor = _locked(tx, caller, flavorid)
    _spec(flavor, name)
    rest = {key: value for key, value in flavor.extra_specs.items() if key != name}
    tx.update("flavors", flavor.id, extra_specs=rest)


def _locked(tx: Tx, caller: Caller, flavorid: str) -> Flavor:
    tx.lock("flavors", find(tx, caller, flavorid).id)
    return find(tx, caller, flavorid)


def _spec(flavor: Flavor, name: str) -> str:
    if name not in flavor.extra_specs:
        raise NotFound(f"Flavor {flavor.flavorid} has no extra specs with key {name}.")
    return flavor.extra_specs[name]


def access(tx: Tx, caller: Caller, flavorid: str) -> list[str]:
    """The projects that may use a flavor that is not public. Raises NotFound, also for public ones."""
    flavor = find(tx, caller, flavorid)
    if flavor.is_public:
        raise NotFound("Access list not available for public flavors.")
    return _projects(tx, flavor)


def _projects(tx: Tx, flavor: Flavor) -> list[str]:
    return tx.values(
        "select project_id from flavor_access where flavor_id = :id order by project_id", id=flavor.id
    )


def add_access(
    tx: Tx, caller: Caller, flavorid: str, project_id: str, *, refuse_public: bool = False
) -> list[str]:
    """Let a project use a flavor; return all that may.

    Raises NotFound, Invalid for an unknown project, Conflict if it may already or, with ``refuse_public``,
    if everybody may.
    """
    quota.check_project(tx, project_id)
    flavor = find(tx, caller, flavorid)
    if refuse_public and flavor.is_public:
        raise Conflict("Can not add access to a public flavor.")
    if not tx.insert_new("flavor_access", flavor_id=flavor.id, project_id=project_id):
        raise Conflict(
            f"Flavor access already exists for flavor {flavorid} and project {project_id} combination."
        )
    return _projects(tx, flavor)


def remove_access(tx: Tx, caller: Caller, flavorid: str, project_id: str) -> list[str]:
    """Take a project's access away; return those that still have it. Raises NotFound."""
    flavor = find(tx, caller, flavorid)
    gone = tx.run(
        "delete from flavor_access where flavor_id = :id and project_id = :project",
        id=flavor.id,
        project=project_id,
    )
    if not gone:
        raise NotFound(f"Flavor access not found for {flavorid} / {project_id} combination.")
    return _projects(tx, flavor)


#: The flavors of a new cloud: id, name, MiB of memory, CPUs, GiB of disk.
SEEDS = (
    ("1", "m1.tiny", 512, 1, 1),
    ("2", "m1.small", 2048, 1, 20),
    ("3", "m1.medium", 4096, 2, 40),
    ("4", "m1.large", 8192, 4, 80),
    ("5", "m1.xlarge", 16384, 8, 160),
    ("42", "m1.nano", 128, 1, 1),
    ("84", "m1.micro", 192, 1, 1),
)


def seed(tx: Tx) -> None:
    """Make the flavors of a new cloud, unless there are any."""
    if tx.one("select 1 from flavors") is not None:
        return
    for flavorid, name, ram, vcpus, disk in SEEDS:
        create(tx, flavorid=flavorid, name=name, ram=ram, vcpus=vcpus, disk=disk)
