"""Bodies of compute services. See the compute API reference, "Compute services"."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from cumulet.wire.body import since
from cumulet.wire.forms import Word

HostName = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[a-zA-Z0-9\-._]*\Z")]


class Named(Struct, forbid_unknown_fields=True):
    """A change, until 2.52: the service is named by host and binary."""

    host: HostName
    binary: Word
    disabled_reason: Word | UnsetType = UNSET
    forced_down: Annotated[bool | str | UnsetType, since(2, 11)] = UNSET


class Change(Struct, forbid_unknown_fields=True):
    """A change, since 2.53."""

    status: Literal["enabled", "disabled"] | UnsetType = UNSET
    disabled_reason: Word | UnsetType = UNSET
    forced_down: bool | str | UnsetType = UNSET


class Service(Struct, frozen=True):
    id: int | str
    binary: str
    host: str
    zone: str
    status: str
    state: str
    updated_at: str | None
    disabled_reason: str | None
    forced_down: Annotated[bool, since(2, 11)]
