"""Bodies of managing what is at a back end. See the Block Storage API reference, "Volume manage extension"."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Struct

from cumulet.wire import volume_forms as forms
from cumulet.wire.body import since
from cumulet.wire.volume_forms import Truth


class NewVolume(Struct, forbid_unknown_fields=True):
    ref: dict[str, Any] | str
    host: str | None = None
    cluster: Annotated[str | None, since(3, 16)] = None
    name: str | None = None
    description: str | None = None
    metadata: dict[str, str] | None = None
    volume_type: str | None = None
    availability_zone: str | None = None
    bootable: Truth = False

    def __post_init__(self) -> None:
        for name in ("name", "description", "volume_type", "availability_zone", "host", "cluster"):
            forms.short(getattr(self, name), name)
        forms.pairs(self.metadata, "metadata")


class Volume(Struct, forbid_unknown_fields=True):
    volume: NewVolume


class NewSnapshot(Struct, forbid_unknown_fields=True):
    ref: dict[str, Any] | str | None
    volume_id: str
    name: str | None = None
    description: str | None = None
    metadata: dict[str, str] | None = None

    def __post_init__(self) -> None:
        for name in ("name", "description"):
            forms.short(getattr(self, name), name)
        forms.uuid(self.volume_id, "volume_id")
        forms.pairs(self.metadata, "metadata")


class Snapshot(Struct, forbid_unknown_fields=True):
    snapshot: NewSnapshot
