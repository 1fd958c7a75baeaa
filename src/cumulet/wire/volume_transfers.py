"""Bodies of volume transfers. See the Block Storage API reference, "Volume transfers"."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from cumulet.wire import volume_forms as forms
from cumulet.wire.body import since
from cumulet.wire.volume_forms import Truth


class NewTransfer(Struct, forbid_unknown_fields=True):
    volume_id: str
    name: str | None = None
    no_snapshots: Annotated[Truth, since(3, 55)] = False

    def __post_init__(self) -> None:
        forms.uuid(self.volume_id, "volume_id")
        forms.short(self.name, "name")
        if self.name is not None and not self.name.strip():
            raise ValueError("name must not be empty")


class Create(Struct, forbid_unknown_fields=True):
    transfer: NewTransfer


class Key(Struct, forbid_unknown_fields=True):
    auth_key: str | int


class Accept(Struct, forbid_unknown_fields=True):
    accept: Key
