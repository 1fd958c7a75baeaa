"""Bodies of volume types. See the Block Storage API reference, "Volume types (types)"."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct, UnsetType, field

from cumulet.wire import volume_forms as forms
from cumulet.wire.volume_forms import Truth


class NewType(Struct, forbid_unknown_fields=True):
    name: str
    description: str | None = None
    extra_specs: dict[str, str | None] = {}
    is_public: Truth = field(name="os-volume-type-access:is_public", default=True)

    def __post_init__(self) -> None:
        if not self.name.strip() or len(self.name) > 255:
            raise ValueError("name must have 1 to 255 characters that are not all spaces")
        forms.short(self.description, "description")
        forms.pairs(self.extra_specs, "extra_specs", nulls=True)


class Create(Struct, forbid_unknown_fields=True):
    volume_type: NewType


class Change(Struct, forbid_unknown_fields=True):
    name: str | None = None
    description: str | None = None
    is_public: Truth | None = None

    def __post_init__(self) -> None:
        if self.name is not None and (not self.name.strip() or len(self.name) > 255):
            raise ValueError("Volume type name can not be empty, nor have more than 255 characters")
        if self.name is None and self.description is None and self.is_public is None:
            raise ValueError("Specify volume type name, description, is_public or a combination thereof")
        forms.short(self.description, "description")


class Update(Struct, forbid_unknown_fields=True):
    volume_type: Change


class ExtraSpecs(Struct, forbid_unknown_fields=True):
    extra_specs: dict[str, str | None]

    def __post_init__(self) -> None:
        forms.pairs(self.extra_specs, "extra_specs", spaces=False, nulls=True)


class Project(Struct, forbid_unknown_fields=True):
    project: str

    def __post_init__(self) -> None:
        if not 0 < len(self.project) <= 255:
            raise ValueError("project must have 1 to 255 characters")


class NewEncryption(Struct):
    provider: str
    control_location: str
    cipher: str | None = None
    key_size: str | int | None = None

    def __post_init__(self) -> None:
        check_encryption(self)


class ChangedEncryption(Struct):
    provider: str | UnsetType = UNSET
    control_location: str | UnsetType = UNSET
    cipher: str | UnsetType | None = UNSET
    key_size: str | int | UnsetType | None = UNSET

    def __post_init__(self) -> None:
        check_encryption(self)


def check_encryption(specs: NewEncryption | ChangedEncryption) -> None:
    """Raise ValueError for what cannot be encryption specs."""
    if specs.control_location not in ("front-end", "back-end", UNSET):
        raise ValueError(f"control_location {specs.control_location!r} is neither front-end nor back-end")
    for name in ("provider", "cipher"):
        value = getattr(specs, name)
        if value is not UNSET:
            forms.short(value, name)
    size = specs.key_size
    if size not in (None, UNSET) and not (str(size).isdigit() and int(str(size)) <= 0x7FFFFFFF):
        raise ValueError("key_size must be an integer")


class CreateEncryption(Struct, forbid_unknown_fields=True):
    encryption: NewEncryption


class UpdateEncryption(Struct, forbid_unknown_fields=True):
    encryption: ChangedEncryption


class DefaultType(Struct, forbid_unknown_fields=True):
    volume_type: str


class SetDefaultType(Struct, forbid_unknown_fields=True):
    default_type: DefaultType


class Type(Struct, frozen=True):
    """A volume type."""

    id: str
    name: str
    is_public: bool
    description: str | None
    extra_specs: dict[str, Any] | UnsetType = UNSET
    qos_specs_id: str | UnsetType | None = UNSET
    access_is_public: bool | UnsetType = field(name="os-volume-type-access:is_public", default=UNSET)
