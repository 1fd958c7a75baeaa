"""Bodies of groups, group snapshots and group types. See the Block Storage API reference, "Generic volume groups"."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType, field

from cumulet.wire import volume_forms as forms
from cumulet.wire.body import since
from cumulet.wire.volume_forms import Truth


def _texts(body: Any) -> None:
    forms.short(body.name, "name")
    forms.short(body.description, "description")


class NewGroup(Struct, forbid_unknown_fields=True):
    group_type: str
    volume_types: Annotated[list[str], Meta(min_length=1, max_length=200)]
    name: str | None = None
    description: str | None = None
    availability_zone: str | None = None

    def __post_init__(self) -> None:
        _texts(self)
        forms.short(self.availability_zone, "availability_zone")
        if not self.group_type.strip():
            raise ValueError("group_type must not be empty")
        if len(set(self.volume_types)) != len(self.volume_types):
            raise ValueError("volume_types names a type twice")


class Create(Struct, forbid_unknown_fields=True):
    group: NewGroup


class FromSource(Struct, forbid_unknown_fields=True):
    name: str | None = None
    description: str | None = None
    source_group_id: str | None = None
    group_snapshot_id: str | None = None

    def __post_init__(self) -> None:
        _texts(self)
        if (self.source_group_id is None) == (self.group_snapshot_id is None):
            raise ValueError("one of source_group_id and group_snapshot_id must be given")
        forms.uuid(self.source_group_id, "source_group_id")
        forms.uuid(self.group_snapshot_id, "group_snapshot_id")


class Change(Struct, forbid_unknown_fields=True):
    name: str | None = None
    description: str | None = None
    add_volumes: str | None = None
    remove_volumes: str | None = None

    def __post_init__(self) -> None:
        _texts(self)


class Update(Struct, forbid_unknown_fields=True):
    group: Change


class Delete(Struct, forbid_unknown_fields=True):
    with_volumes: Truth = field(name="delete-volumes", default=False)


class Status(Struct, forbid_unknown_fields=True):
    status: str


class Group(Struct, frozen=True):
    id: str
    status: str
    availability_zone: str
    created_at: str
    name: str | None
    description: str | None
    group_type: str
    volume_types: list[str]
    group_snapshot_id: Annotated[str | None, since(3, 14)]
    source_group_id: Annotated[str | None, since(3, 14)]
    volumes: Annotated[list[str] | UnsetType, since(3, 25)] = UNSET
    replication_status: Annotated[str, since(3, 38)] = "disabled"
    project_id: Annotated[str | UnsetType, since(3, 58)] = UNSET


# --- group snapshots ---


class NewSnapshot(Struct, forbid_unknown_fields=True):
    group_id: str
    name: str | None = None
    description: str | None = None

    def __post_init__(self) -> None:
        _texts(self)
        forms.uuid(self.group_id, "group_id")


class CreateSnapshot(Struct, forbid_unknown_fields=True):
    group_snapshot: NewSnapshot


class GroupSnapshot(Struct, frozen=True):
    id: str
    group_id: str
    group_type_id: str
    status: str
    created_at: str
    name: str | None
    description: str | None
    project_id: Annotated[str | UnsetType, since(3, 58)] = UNSET


# --- group types ---


class NewType(Struct, forbid_unknown_fields=True):
    name: str
    description: str | None = None
    is_public: Truth = True
    group_specs: dict[str, str] | None = None

    def __post_init__(self) -> None:
        if not self.name.strip() or len(self.name) > 255:
            raise ValueError("name must have 1 to 255 characters that are not all spaces")
        forms.short(self.description, "description")
        forms.pairs(self.group_specs, "group_specs")


class CreateType(Struct, forbid_unknown_fields=True):
    group_type: NewType


class ChangedType(Struct, forbid_unknown_fields=True):
    name: str | None = None
    description: str | None = None
    is_public: Truth | None = None

    def __post_init__(self) -> None:
        if self.name is not None and (not self.name.strip() or len(self.name) > 255):
            raise ValueError("Group type name can not be empty, nor have more than 255 characters")
        if self.name is None and self.description is None and self.is_public is None:
            raise ValueError("Specify group type name, description or a combination thereof")
        forms.short(self.description, "description")


class UpdateType(Struct, forbid_unknown_fields=True):
    group_type: ChangedType


class Specs(Struct, forbid_unknown_fields=True):
    group_specs: dict[str, str | None]

    def __post_init__(self) -> None:
        forms.pairs(self.group_specs, "group_specs", spaces=False, nulls=True)
