"""Bodies of host aggregates. See the compute API reference, "Host aggregates"."""

from __future__ import annotations

import re
from typing import Annotated

from msgspec import UNSET, Struct, UnsetType

from cumulet.wire import forms
from cumulet.wire.body import since
from cumulet.wire.forms import Word
from cumulet.wire.services import HostName

_KEY = re.compile(r"[a-zA-Z0-9\-_:. ]{1,255}\Z")


class NewAggregate(Struct, forbid_unknown_fields=True):
    name: Word
    availability_zone: Word | None = None

    def __post_init__(self) -> None:
        forms.name(self.name)
        if self.availability_zone is not None:
            forms.name(self.availability_zone, "availability_zone", forbidden=":")


class Create(Struct, forbid_unknown_fields=True):
    aggregate: NewAggregate


class Change(Struct, forbid_unknown_fields=True):
    name: Word | UnsetType = UNSET
    availability_zone: Word | UnsetType | None = UNSET

    def __post_init__(self) -> None:
        if self.name is UNSET and self.availability_zone is UNSET:
            raise ValueError("name or availability_zone is required")
        if isinstance(self.name, str):
            forms.name(self.name.strip())
        if isinstance(self.availability_zone, str):
            forms.name(self.availability_zone, "availability_zone", forbidden=":")


class Update(Struct, forbid_unknown_fields=True):
    aggregate: Change


class Member(Struct, forbid_unknown_fields=True):
    host: HostName


class Metadata(Struct, forbid_unknown_fields=True):
    metadata: dict[str, Word | None]

    def __post_init__(self) -> None:
        for key in self.metadata:
            if not _KEY.match(key):
                raise ValueError(f"{key[:300]!r} is not a key of metadata")
        if len(self.metadata) > 1000:
            raise ValueError("metadata has more than 1000 items")


class Made(Struct, frozen=True):
    """A new aggregate; what it has not yet is not told."""

    id: int
    uuid: Annotated[str, since(2, 41)]
    name: str
    availability_zone: str | None
    created_at: str
    updated_at: str | None
    deleted: bool = False
    deleted_at: None = None


class Full(Made, frozen=True, kw_only=True):
    hosts: list[str]
    metadata: dict[str, str]
