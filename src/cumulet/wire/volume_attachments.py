"""Bodies of attachments. See the Block Storage API reference, "Attachments (attachments)"."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Struct

from cumulet.wire import volume_forms as forms
from cumulet.wire.body import since


class NewAttachment(Struct, forbid_unknown_fields=True):
    volume_uuid: str
    instance_uuid: str | None = None
    connector: dict[str, Any] | None = None
    mode: Annotated[str | None, since(3, 54)] = None

    def __post_init__(self) -> None:
        forms.uuid(self.volume_uuid, "volume_uuid")
        forms.uuid(self.instance_uuid, "instance_uuid")
        if self.mode not in (None, "rw", "ro"):
            raise ValueError(f"mode {self.mode!r} is neither rw nor ro")


class Create(Struct, forbid_unknown_fields=True):
    attachment: NewAttachment


class Change(Struct, forbid_unknown_fields=True):
    connector: dict[str, Any]

    def __post_init__(self) -> None:
        if not self.connector:
            raise ValueError("connector must not be empty")


class Update(Struct, forbid_unknown_fields=True):
    attachment: Change


class Basic(Struct, frozen=True):
    """An attachment in a list."""

    id: str
    status: str
    instance: str | None
    volume_id: str


class Full(Struct, frozen=True):
    """An attachment with all that it says."""

    id: str
    status: str
    instance: str | None
    volume_id: str
    attached_at: str
    detached_at: str
    attach_mode: str
    connection_info: dict[str, Any]
