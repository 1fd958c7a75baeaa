"""Bodies of backups. See the Block Storage API reference, "Backups (backups)"."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Struct, UnsetType, field

from cumulet.wire import volume_forms as forms
from cumulet.wire.body import since
from cumulet.wire.volume_forms import Truth

Links = list[dict[str, str]]


class NewBackup(Struct, forbid_unknown_fields=True):
    volume_id: str
    name: str | None = None
    description: str | None = None
    container: str | None = None
    snapshot_id: str | None = None
    incremental: Truth = False
    force: Truth = False
    metadata: Annotated[dict[str, str] | None, since(3, 43)] = None
    availability_zone: Annotated[str | None, since(3, 51)] = None

    def __post_init__(self) -> None:
        for name in ("name", "description", "container", "availability_zone"):
            forms.short(getattr(self, name), name)
        for name in ("volume_id", "snapshot_id"):
            forms.uuid(getattr(self, name), name)
        forms.pairs(self.metadata, "metadata")


class Create(Struct, forbid_unknown_fields=True):
    backup: NewBackup


class Change(Struct, forbid_unknown_fields=True):
    name: str | UnsetType | None = UNSET
    description: str | UnsetType | None = UNSET
    metadata: Annotated[dict[str, str] | UnsetType, since(3, 43)] = UNSET

    def __post_init__(self) -> None:
        for name in ("name", "description"):
            value = getattr(self, name)
            forms.short(None if value is UNSET else value, name)
        forms.pairs(None if self.metadata is UNSET else self.metadata, "metadata")


class Update(Struct, forbid_unknown_fields=True):
    backup: Change | None


class Target(Struct, forbid_unknown_fields=True):
    volume_id: str | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        forms.uuid(self.volume_id, "volume_id")
        forms.short(self.name, "name")


class Restore(Struct, forbid_unknown_fields=True):
    restore: Target | None


class Record(Struct, forbid_unknown_fields=True):
    backup_service: str
    backup_url: str

    def __post_init__(self) -> None:
        forms.short(self.backup_service, "backup_service")


class Import(Struct, forbid_unknown_fields=True):
    record: Record = field(name="backup-record")


class Status(Struct, forbid_unknown_fields=True):
    status: str


class Backup(Struct, frozen=True):
    """A backup."""

    id: str
    status: str
    size: int
    availability_zone: str | None
    container: str | None
    created_at: str
    updated_at: str | None
    name: str | None
    description: str | None
    fail_reason: str | None
    volume_id: str
    links: Links
    is_incremental: bool
    has_dependent_backups: bool
    snapshot_id: str | None
    data_timestamp: str
    object_count: int = 0
    metadata: Annotated[dict[str, Any], since(3, 43)] = {}
    project_id: Annotated[str | UnsetType, since(3, 18)] = field(
        name="os-backup-project-attr:project_id", default=UNSET
    )
    user_id: Annotated[str | UnsetType, since(3, 56)] = UNSET
    encryption_key_id: Annotated[str | UnsetType, since(3, 64)] = UNSET
