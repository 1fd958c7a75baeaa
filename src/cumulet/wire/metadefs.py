"""Bodies of metadata definitions. See the image API reference, "Metadata Definitions Service API v2"."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

Name = Annotated[str, Meta(min_length=1, max_length=80)]
Text = Annotated[str, Meta(max_length=65535)]
Natural = Annotated[int, Meta(ge=0)]
Type = Literal["array", "boolean", "integer", "number", "object", "string"]
#: Definitions of one body at the most.
PARTS = 1000


class Items(Struct, forbid_unknown_fields=True, omit_defaults=True):
    type: Type
    enum: list[Any] | UnsetType = UNSET


class Property(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A property's definition; its name stands before it, or in it where it stands alone."""

    title: Text
    type: Type
    description: Text | UnsetType = UNSET
    operators: list[str] | UnsetType = UNSET
    default: Any = UNSET
    readonly: bool | UnsetType = UNSET
    required: list[str] | UnsetType = UNSET
    minimum: float | int | UnsetType = UNSET
    maximum: float | int | UnsetType = UNSET
    enum: list[Any] | UnsetType = UNSET
    pattern: Text | UnsetType = UNSET
    minLength: Natural | UnsetType = UNSET
    maxLength: Natural | UnsetType = UNSET
    confidential: bool | UnsetType = UNSET
    items: Items | UnsetType = UNSET
    uniqueItems: bool | UnsetType = UNSET
    minItems: Natural | UnsetType = UNSET
    maxItems: Natural | UnsetType = UNSET
    additionalItems: bool | UnsetType = UNSET


class NamedProperty(Property, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    name: Name


Properties = Annotated[dict[Name, Property], Meta(max_length=PARTS)]


class Object(Struct, forbid_unknown_fields=True, omit_defaults=True):
    name: Name
    description: Text | UnsetType = UNSET
    required: list[str] | UnsetType = UNSET
    properties: Properties | UnsetType = UNSET


class Tag(Struct, forbid_unknown_fields=True):
    name: Name


class Tags(Struct, forbid_unknown_fields=True):
    tags: Annotated[list[Tag], Meta(max_length=PARTS)] = field(default_factory=list)


class Association(Struct, forbid_unknown_fields=True, omit_defaults=True):
    name: Name
    prefix: Annotated[str, Meta(max_length=80)] | UnsetType = UNSET
    properties_target: Annotated[str, Meta(max_length=80)] | UnsetType = UNSET


class Namespace(Struct, forbid_unknown_fields=True):
    namespace: Name
    display_name: Annotated[str, Meta(max_length=80)] | None = None
    description: Annotated[str, Meta(max_length=500)] | None = None
    visibility: Literal["public", "private"] = "private"
    protected: bool = False
    owner: Annotated[str, Meta(max_length=255)] | UnsetType = UNSET
    resource_type_associations: Annotated[list[Association], Meta(max_length=PARTS)] = field(
        default_factory=list
    )
    properties: Properties = field(default_factory=dict)
    objects: Annotated[list[Object], Meta(max_length=PARTS)] = field(default_factory=list)
    tags: Annotated[list[Tag], Meta(max_length=PARTS)] = field(default_factory=list)
