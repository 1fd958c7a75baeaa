"""Bodies of images. See the image API reference, "Images", "Image data" and "Sharing"."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from cumulet.errors import Forbidden, Invalid
from cumulet.wire.body import decode
from cumulet.wire.forms import MAX_INT, Short

CONTAINER_FORMATS = ("ami", "ari", "aki", "bare", "ovf", "ova", "docker", "compressed")
DISK_FORMATS = ("ami", "ari", "aki", "vhd", "vhdx", "vmdk", "raw", "qcow2", "vdi", "iso", "ploop")
VISIBILITIES = ("community", "public", "private", "shared")
STATUSES = (
    "queued", "saving", "active", "killed", "deleted", "uploading", "importing", "pending_delete", "deactivated",
)  # fmt: skip

#: What only the service writes.
READ_ONLY = frozenset(
    ("created_at", "updated_at", "status", "checksum", "size", "virtual_size", "direct_url", "self", "file", "schema",
     "stores", "id", "os_hash_algo", "os_hash_value")
)  # fmt: skip
#: Names that have, or once had, a meaning of their own.
RESERVED = frozenset(("location", "deleted", "deleted_at"))
RESERVED_PREFIX = "os_glance"
#: Characters of a property's value, and bytes of a whole image's, at the most.
VALUE = 65535

_ID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\Z")

Natural = Annotated[int, Meta(ge=0, le=MAX_INT)]
ContainerFormat = Literal["ami", "ari", "aki", "bare", "ovf", "ova", "docker", "compressed"]
DiskFormat = Literal["ami", "ari", "aki", "vhd", "vhdx", "vmdk", "raw", "qcow2", "vdi", "iso", "ploop"]
Visibility = Literal["community", "public", "private", "shared"]


class Fields(Struct, forbid_unknown_fields=True):
    """What users write of an image's own fields."""

    name: Short | UnsetType | None = UNSET
    visibility: Visibility | UnsetType = UNSET
    protected: bool | UnsetType = UNSET
    os_hidden: bool | UnsetType = UNSET
    container_format: ContainerFormat | UnsetType | None = UNSET
    disk_format: DiskFormat | UnsetType | None = UNSET
    min_disk: Natural | UnsetType = UNSET
    min_ram: Natural | UnsetType = UNSET
    owner: Short | UnsetType | None = UNSET
    tags: list[Short] | UnsetType = UNSET


FIELDS = frozenset(Fields.__struct_fields__)


def fields(raw: dict[str, Any]) -> dict[str, Any]:
    """Checked values of an image's own fields. Raises Invalid, naming the field."""
    try:
        found = msgspec.convert(raw, Fields, strict=True)
    except msgspec.ValidationError:
        # Once more through the common decoder, for its words.
        decode(raw, Fields, (1, 0))
        raise Invalid(f"Provided object does not match schema 'image': {_odd(raw)}") from None
    return {name: getattr(found, name) for name in raw}


def _odd(raw: dict[str, Any]) -> str:
    for name, value in raw.items():
        try:
            msgspec.convert({name: value}, Fields, strict=True)
        except msgspec.ValidationError as error:
            return f"{name}: {str(error).split(' - at', 1)[0]}"
    return "it is of the wrong form"


def property_name(name: str) -> None:
    """Raise Forbidden or Invalid unless users may write a property of that name."""
    if name in READ_ONLY:
        raise Forbidden(f"Attribute '{name}' is read-only.")
    if name in RESERVED or name.startswith(RESERVED_PREFIX):
        raise Forbidden(f"Attribute '{name}' is reserved.")
    if not name or len(name) > 255:
        raise Invalid("Custom property should not be greater than 255 characters, nor empty.")


def property_value(name: str, value: Any) -> None:
    """Raise Invalid unless a property may have the value."""
    if not isinstance(value, str):
        raise Invalid(
            f"Provided object does not match schema 'image': {value!r} is not of type 'string'. "
            f"Failed validating the property {name!r}."
        )
    if len(value) > VALUE:
        raise Invalid(f"The value of the property {name!r} is longer than {VALUE} characters.")
    if "\0" in value:
        raise Invalid(f"The value of the property {name!r} holds a null character.")


def new(raw: dict[str, Any]) -> tuple[str | None, dict[str, Any], dict[str, str]]:
    """The body of a create: (id, own fields, properties). Raises Invalid, Forbidden for what is read-only."""
    own: dict[str, Any] = {}
    properties: dict[str, str] = {}
    id = raw.get("id")
    if "id" in raw and not (isinstance(id, str) and _ID.match(id)):
        raise Invalid("Provided object does not match schema 'image': id must be a UUID.")
    for name, value in raw.items():
        if name == "id":
            continue
        if name in FIELDS:
            own[name] = value
            continue
        property_name(name)
        if name == "locations":
            raise Forbidden("Attribute 'locations' is reserved.")
        property_value(name, value)
        properties[name] = value
    return id, fields(own), properties


class NewMember(Struct):
    member: Annotated[str, Meta(min_length=1, max_length=255)]


class Answer(Struct):
    status: Literal["pending", "accepted", "rejected"]
