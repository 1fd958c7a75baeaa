"""Bodies of Block Storage's services. See the API reference, "Services (os-services)"."""

from __future__ import annotations

from msgspec import Struct


class Switch(Struct, forbid_unknown_fields=True):
    host: str
    binary: str | None = None
    service: str | None = None
    cluster: str | None = None
    disabled_reason: str | None = None

    def __post_init__(self) -> None:
        if not (self.binary or self.service):
            raise ValueError("binary or service must be given")
        if not 0 < len(self.host) <= 255:
            raise ValueError("host must have 1 to 255 characters")
        if self.disabled_reason is not None and not 0 < len(self.disabled_reason.strip()) <= 255:
            raise ValueError("disabled_reason must have 1 to 255 characters that are not all spaces")


class Host(Struct, forbid_unknown_fields=True):
    host: str
    cluster: str | None = None
