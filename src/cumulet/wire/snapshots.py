"""Bodies of snapshots. See the Block Storage API reference, "Volume snapshots (snapshots)"."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Struct, UnsetType, field

from cumulet.wire import volume_forms as forms
from cumulet.wire.body import since
from cumulet.wire.volume_forms import Truth


class NewSnapshot(Struct, forbid_unknown_fields=True):
    volume_id: str | None
    name: str | None = None
    display_name: str | None = None
    description: str | None = None
    force: Truth | None = None
    metadata: dict[str, str] | None = None

    def __post_init__(self) -> None:
        for name in ("name", "display_name", "description"):
            forms.short(getattr(self, name), name)
        if self.volume_id is not None:
            forms.uuid(self.volume_id, "volume_id")
        forms.pairs(self.metadata, "metadata")


class Create(Struct, forbid_unknown_fields=True):
    snapshot: NewSnapshot


class Change(Struct, forbid_unknown_fields=True):
    name: str | UnsetType | None = UNSET
    description: str | UnsetType | None = UNSET
    display_name: str | UnsetType | None = UNSET
    display_description: str | UnsetType | None = UNSET

    def __post_init__(self) -> None:
        given = [
            getattr(self, name) for name in ("name", "description", "display_name", "display_description")
        ]
        if all(value is UNSET for value in given):
            raise ValueError("name or description must be given")
        for value in given:
            forms.short(None if value is UNSET else value, "the name or description")


class Update(Struct, forbid_unknown_fields=True):
    snapshot: Change


class Status(Struct, forbid_unknown_fields=True):
    status: str


class StatusAndProgress(Struct, forbid_unknown_fields=True):
    status: str
    progress: str | None = None

    def __post_init__(self) -> None:
        number = (self.progress or "0%").removesuffix("%")
        if self.progress and not (self.progress.endswith("%") and number.isdigit() and int(number) <= 100):
            raise ValueError("progress must be a whole percentage from 0% to 100%")


class Snapshot(Struct, frozen=True):
    """A snapshot; in lists and answers to POST and PUT without what only administrators and owners read."""

    id: str
    created_at: str
    updated_at: str | None
    name: str | None
    description: str | None
    volume_id: str
    status: str
    size: int
    metadata: dict[str, str]
    group_snapshot_id: Annotated[str | UnsetType | None, since(3, 14)] = UNSET
    user_id: Annotated[str | UnsetType, since(3, 41)] = UNSET
    consumes_quota: Annotated[bool | UnsetType, since(3, 65)] = UNSET
    progress: str | UnsetType = field(name="os-extended-snapshot-attributes:progress", default=UNSET)
    project_id: str | UnsetType = field(name="os-extended-snapshot-attributes:project_id", default=UNSET)
