"""Volume types: names for kinds of volumes, what their back end must be able to do, and who may use them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from cumulet.core import quota
from cumulet.db.engine import Row, StillHeld, Tx
from cumulet.db.query import Query, Where, page
from cumulet.errors import Conflict, Forbidden, Invalid, NotFound
from cumulet.values import Caller

#: The type of volumes for which none is named and whose project has no default type of its own.
DEFAULT = "__DEFAULT__"
#: Extra specs that everybody who may use a type sees; the others are for administrators.
VISIBLE_SPECS = frozenset({"RESKEY:availability_zones", "multiattach", "replication_enabled"})
#: Extra specs of one type at the most.
SPECS = 256

SORTABLE: Mapping[str, str] = {
    "created_at": "created_at",
    "description": "coalesce(description, '')",
    "id": "id",
    "is_public": "is_public",
    "name": "name",
    "qos_specs_id": "coalesce(qos_specs_id, '')",
    "updated_at": "coalesce(updated_at, created_at)",
}


class Type(msgspec.Struct, frozen=True):
    """A volume type."""

    id: str
    name: str
    description: str | None = None
    is_public: bool = True
    extra_specs: Mapping[str, str | None] = {}
    qos_specs_id: str | None = None


class Filters(msgspec.Struct, frozen=True):
    """What a list is narrowed by. ``is_public`` None: public and other ones, for an administrator."""

    is_public: bool | None = True
    extra_specs: Mapping[str, str] = {}


def _type(row: Row) -> Type:
    return Type(**{name: row[name] for name in Type.__struct_fields__})


#: Asked of whoever makes a volume of a type with several attachments, or makes it one.
MULTIATTACH = "volume:multiattach"


def permit(multiattach: bool, allowed: bool) -> None:
    """Raise Forbidden for a volume with several attachments that the caller may not have."""
    if multiattach and not allowed:
        raise Forbidden(f"Policy doesn't allow {MULTIATTACH} to be performed.")


def multiattach(specs: Mapping[str, str | None]) -> bool:
    """True if volumes of a type with these extra specs can be attached more than once."""
    return specs.get("multiattach") == "<is> True"


def _usable(tx: Tx, caller: Caller, row: Row | None) -> bool:
    if row is None:
        return False
    if row["is_public"] or caller.is_admin:
        return True
    given = tx.one(
        "select 1 from volume_type_access where volume_type_id = :type and project_id = :project",
        type=row["id"],
        project=caller.project_id,
    )
    return given is not None


def find(tx: Tx, caller: Caller, id: str) -> Type:
    """The type with that id, if the caller may use it. Raises NotFound."""
    row = tx.one("select * from volume_types where id = :id", id=id)
    if row is None or not _usable(tx, caller, row):
        raise NotFound(f"Volume type {id} could not be found.")
    return _type(row)


def named(tx: Tx, caller: Caller, name_or_id: str) -> Type:
    """The type with that id or name, if the caller may use it. Raises NotFound."""
    row = tx.one(
        "select * from volume_types where id = :word or name = :word order by case when id = :word then 0 else 1 end",
        word=name_or_id,
    )
    if row is None or not _usable(tx, caller, row):
        raise NotFound(f"Volume type {name_or_id} could not be found.")
    return _type(row)


def default_id(tx: Tx, project_id: str | None) -> str | None:
    """The id of the type of a project's volumes for which none is named; None in a cloud without types."""
    found = tx.value(
        "select volume_type_id from volume_default_types where project_id = :id", id=project_id or ""
    )
    if found is None:
        found = tx.value("select id from volume_types where name = :name", name=DEFAULT)
    return str(found) if found is not None else None


def default(tx: Tx, caller: Caller) -> Type:
    """The type that the caller's volumes get when none is named. Raises NotFound."""
    id = default_id(tx, caller.project_id)
    row = tx.one("select * from volume_types where id = :id", id=id or "")
    if row is None:
        raise NotFound("Default volume type can not be found.")
    return _type(row)


def listing(tx: Tx, caller: Caller, query: Query, filters: Filters) -> list[Type]:
    """A page of the types that the caller may use. Raises MarkerNotFound."""
    where = Where()
    given = "id in (select volume_type_id from volume_type_access where project_id = :project)"
    if filters.is_public or not caller.is_admin:
        where.add(f"is_public or {given}", project=caller.project_id)
    elif filters.is_public is False:
        where.add("not is_public")
    if filters.extra_specs:
        ids = [
            row["id"]
            for row in tx.all("select id, extra_specs from volume_types")
            if all(row["extra_specs"].get(name) == value for name, value in filters.extra_specs.items())
        ]
        where.among("id", ids)
    return [_type(row) for row in page(tx, "volume_types", where, query, SORTABLE)]


def create(
    tx: Tx, /, *, name: str, description: str | None = None, is_public: bool = True,
    extra_specs: Mapping[str, str | None] | None = None,
) -> Type:  # fmt: skip
    """Make a type. Raises Conflict for a name that is taken."""
    _check_specs(extra_specs or {})
    type_ = Type(tx.uuid(), name, description, is_public, dict(extra_specs or {}))
    row = {**msgspec.structs.asdict(type_), "extra_specs": dict(type_.extra_specs)}
    if tx.one("select 1 from volume_types where name = :name", name=name) is not None or not tx.insert_new(
        "volume_types", **row, created_at=tx.now
    ):
        raise Conflict(f"Volume Type {name} already exists.")
    return type_


def update(tx: Tx, caller: Caller, id: str, changes: Mapping[str, Any]) -> Type:
    """Change name, description or who sees it. Raises NotFound, Conflict for a name that is taken."""
    type_ = find(tx, caller, id)
    name = changes.get("name")
    if name is not None and name != type_.name:
        if tx.one("select 1 from volume_types where name = :name", name=name) is not None:
            raise Conflict(f"Volume Type {name} already exists.")
        if type_.name == DEFAULT:
            raise Invalid(f"The volume type {DEFAULT} is the default one and keeps its name.")
        _rename_quotas(tx, type_.name, name)
    tx.update("volume_types", id, **changes, updated_at=tx.now)
    return msgspec.structs.replace(type_, **changes)


def _rename_quotas(tx: Tx, old: str, new: str) -> None:
    """Limits of a type's volumes are named by the type."""
    for resource in ("volumes", "snapshots", "gigabytes"):
        tx.run(
            "update quotas set resource = :new where area = 'volume' and resource = :old",
            new=f"{resource}_{new}", old=f"{resource}_{old}",
        )  # fmt: skip


def delete(tx: Tx, caller: Caller, id: str) -> None:
    """Remove a type. Raises NotFound; Invalid while volumes, snapshots, groups or defaults are of it."""
    type_ = find(tx, caller, id)
    if type_.name == DEFAULT:
        raise Invalid(f"The volume type {type_.id} is the default volume type and cannot be deleted.")
    if in_use(tx, id):
        raise Invalid("Target volume type is still in use.")
    if tx.one("select 1 from volume_default_types where volume_type_id = :id", id=id) is not None:
        raise Invalid(f"The volume type {id} is the default type of a project and cannot be deleted.")
    try:
        tx.delete("volume_types", id)
    except StillHeld:
        raise Invalid("Target volume type is still in use.") from None
    for resource in ("volumes", "snapshots", "gigabytes"):
        tx.run(
            "delete from quotas where area = 'volume' and resource = :name", name=f"{resource}_{type_.name}"
        )


def in_use(tx: Tx, id: str) -> bool:
    """True while there is a volume, snapshot or group of the type."""
    return any(
        tx.one(f"select 1 from {table} where volume_type_id = :id limit 1", id=id) is not None
        for table in ("volumes", "snapshots", "volume_group_volume_types")
    )


# --- extra specs ---


def visible(specs: Mapping[str, str | None], *, all_of_them: bool) -> dict[str, str | None]:
    """The extra specs that somebody may see."""
    return {name: value for name, value in specs.items() if all_of_them or name in VISIBLE_SPECS}


def _check_specs(specs: Mapping[str, str | None]) -> None:
    if len(specs) > SPECS:
        raise Invalid(f"There are {len(specs)} extra specs; at most {SPECS} fit.")
    if multiattach(specs) and specs.get("cacheable") == "<is> True":
        raise Invalid("cacheable cannot be set with multiattach.")


def set_extra_specs(tx: Tx, caller: Caller, id: str, specs: Mapping[str, str | None]) -> None:
    """Add extra specs, or replace those of the same names. Raises NotFound, Invalid while the type is in use."""
    type_ = _changeable(tx, caller, id)
    merged = {**type_.extra_specs, **specs}
    _check_specs(merged)
    tx.update("volume_types", id, extra_specs=merged, updated_at=tx.now)


def delete_extra_spec(tx: Tx, caller: Caller, id: str, name: str) -> None:
    """Remove one extra spec. Raises NotFound, Invalid while the type is in use."""
    type_ = _changeable(tx, caller, id)
    if name not in type_.extra_specs:
        raise NotFound(f"Volume Type {id} has no extra specs with key {name}.")
    rest = {key: value for key, value in type_.extra_specs.items() if key != name}
    tx.update("volume_types", id, extra_specs=rest, updated_at=tx.now)


def _changeable(tx: Tx, caller: Caller, id: str) -> Type:
    """What a type asks of a back end must not change under the volumes that were placed by it."""
    tx.lock("volume_types", id)
    type_ = find(tx, caller, id)
    if tx.one("select 1 from volumes where volume_type_id = :id limit 1", id=id) is not None:
        raise Invalid("Volume Type is currently in use.")
    return type_


# --- access ---


def access(tx: Tx, caller: Caller, id: str) -> list[str]:
    """The projects that may use a type that is not public. Raises NotFound, also for public ones."""
    if find(tx, caller, id).is_public:
        raise NotFound("Access list not available for public volume types.")
    return tx.values(
        "select project_id from volume_type_access where volume_type_id = :id order by project_id", id=id
    )


def add_access(tx: Tx, caller: Caller, id: str, project_id: str) -> None:
    """Let a project use a type. Raises NotFound, Invalid for public ones, Conflict if it may already."""
    if find(tx, caller, id).is_public:
        raise Invalid("Type access modification is not applicable to public volume type.")
    quota.check_project(tx, project_id)
    if not tx.insert_new("volume_type_access", volume_type_id=id, project_id=project_id):
        raise Conflict(f"Volume type access for {id} / {project_id} combination already exists.")


def remove_access(tx: Tx, caller: Caller, id: str, project_id: str) -> None:
    """Take a project's access away. Raises NotFound, Invalid for public ones."""
    if find(tx, caller, id).is_public:
        raise Invalid("Type access modification is not applicable to public volume type.")
    gone = tx.run(
        "delete from volume_type_access where volume_type_id = :id and project_id = :project", id=id, project=project_id
    )  # fmt: skip
    if not gone:
        raise NotFound(f"Volume type access not found for {id} / {project_id} combination.")


# --- encryption ---


def encryption(tx: Tx, caller: Caller, id: str) -> Row | None:
    """How volumes of a type are encrypted; None for not at all. Raises NotFound."""
    find(tx, caller, id)
    return tx.one("select * from volume_type_encryption where volume_type_id = :id", id=id)


def set_encryption(tx: Tx, caller: Caller, id: str, specs: Mapping[str, Any], *, new: bool) -> str:
    """Say how volumes of a type are to be encrypted; gives the id of that.

    Raises NotFound, Invalid for what is there or in use already.
    """
    found = encryption(tx, caller, id)
    if tx.one("select 1 from volumes where volume_type_id = :id limit 1", id=id) is not None:
        raise Invalid(f"Cannot {'create' if new else 'update'} encryption specs. Volume type in use.")
    if new and found is not None:
        raise Invalid(f"Volume type encryption for type {id} already exists.")
    if found is not None:
        tx.update("volume_type_encryption", found["id"], **specs, updated_at=tx.now)
        return str(found["id"])
    if not new:
        raise NotFound(f"Volume type encryption for type {id} does not exist.")
    made = tx.uuid()
    tx.insert("volume_type_encryption", id=made, volume_type_id=id, **specs, created_at=tx.now)
    return made


def delete_encryption(tx: Tx, caller: Caller, id: str) -> None:
    """Volumes of the type are not to be encrypted any more. Raises NotFound, Invalid while the type is in use."""
    found = encryption(tx, caller, id)
    if found is None:
        raise NotFound(f"Volume type encryption for type {id} does not exist.")
    if tx.one("select 1 from volumes where volume_type_id = :id limit 1", id=id) is not None:
        raise Invalid("Cannot delete encryption specs. Volume type in use.")
    tx.delete("volume_type_encryption", found["id"])


def refuse_encrypted(tx: Tx, type_: Type) -> None:
    """Raise Invalid for a type whose volumes are to be encrypted: no back end here does that."""
    if tx.one("select 1 from volume_type_encryption where volume_type_id = :id", id=type_.id) is not None:
        raise Invalid(
            f"Volume type {type_.name} asks for encryption, which no back end of this cloud can do."
        )


# --- defaults of projects ---


def project_defaults(tx: Tx) -> list[Row]:
    """Every project with a default type of its own: {"project_id", "volume_type_id"}."""
    return tx.all("select * from volume_default_types order by project_id")


def project_default(tx: Tx, project_id: str) -> Row:
    """A project's own default type. Raises NotFound."""
    row = tx.one("select * from volume_default_types where project_id = :id", id=project_id)
    if row is None:
        raise NotFound(f"Default type for project {project_id} not found.")
    return row


def set_project_default(tx: Tx, caller: Caller, project_id: str, name_or_id: str) -> Row:
    """Give a project a default type. Raises NotFound for an unknown project, Invalid for an unknown type."""
    _check_project(tx, project_id)
    try:
        type_ = named(tx, caller, name_or_id)
    except NotFound as error:
        raise Invalid(error.message) from None
    tx.run(
        "insert into volume_default_types (project_id, volume_type_id) values (:project, :type) "
        "on conflict (project_id) do update set volume_type_id = excluded.volume_type_id",
        project=project_id, type=type_.id,
    )  # fmt: skip
    return project_default(tx, project_id)


def forget_project_default(tx: Tx, project_id: str) -> None:
    """The project's volumes get the cloud's default type again; it is no error if they do already."""
    tx.run("delete from volume_default_types where project_id = :id", id=project_id)


def _check_project(tx: Tx, project_id: str) -> None:
    if tx.one("select 1 from projects where id = :id and not is_domain", id=project_id) is None:
        raise NotFound(f"Project with id {project_id} not found.")


#: The types of a new cloud: name, description.
SEEDS: Sequence[tuple[str, str]] = (
    (DEFAULT, "The type of volumes for which none is named"),
    ("standard", "Ordinary volumes"),
)


def seed(tx: Tx) -> None:
    """Make the types of a new cloud, unless there are any."""
    if tx.one("select 1 from volume_types") is not None:
        return
    for name, description in SEEDS:
        create(tx, name=name, description=description)
