"""Bodies of Placement. See the Placement API reference."""

from __future__ import annotations

import re
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from cumulet.wire.body import since

_UUID = re.compile(r"[0-9a-f]{32}\Z")
MAX_INT = 0x7FFFFFFF

#: The form of ids that are keys of a body.
Key = Annotated[str, Meta(pattern="^[0-9a-fA-F-]{36}$")]
Class = Annotated[str, Meta(pattern="^[A-Z0-9_]+\\Z", max_length=255)]
Custom = Annotated[str, Meta(pattern="^CUSTOM_[A-Z0-9_]+\\Z", max_length=255)]
Trait = Annotated[str, Meta(min_length=1, max_length=255)]
Whose = Annotated[str, Meta(min_length=1, max_length=255)]
Amount = Annotated[int, Meta(ge=1, le=MAX_INT)]
Generation = Annotated[int, Meta(ge=-(1 << 62), le=1 << 62)]
Resources = Annotated[dict[Class, Amount], Meta(min_length=1, max_length=1000)]


def uuid(text: str, field: str) -> str:
    """An id in its usual form, from any that is one. Raises ValueError."""
    plain = text.lower().replace("-", "")
    if not _UUID.match(plain):
        raise ValueError(f"{field} is not a UUID: {text[:100]!r}")
    return f"{plain[:8]}-{plain[8:12]}-{plain[12:16]}-{plain[16:20]}-{plain[20:]}"


def _uuid_or_none(value: str | UnsetType | None, field: str) -> str | UnsetType | None:
    return uuid(value, field) if isinstance(value, str) else value


ProviderName = Annotated[str, Meta(min_length=1, max_length=200)]


class NewProvider(Struct, forbid_unknown_fields=True):
    name: ProviderName
    uuid: str | UnsetType = UNSET
    parent_provider_uuid: Annotated[str | UnsetType | None, since(1, 14)] = UNSET

    def __post_init__(self) -> None:
        if isinstance(self.uuid, str):
            self.uuid = uuid(self.uuid, "uuid")
        self.parent_provider_uuid = _uuid_or_none(self.parent_provider_uuid, "parent_provider_uuid")


class ChangedProvider(Struct, forbid_unknown_fields=True):
    name: ProviderName
    parent_provider_uuid: Annotated[str | UnsetType | None, since(1, 14)] = UNSET

    def __post_init__(self) -> None:
        self.parent_provider_uuid = _uuid_or_none(self.parent_provider_uuid, "parent_provider_uuid")


class Aggregates(Struct, forbid_unknown_fields=True):
    """Since 1.19; before that the list alone."""

    aggregates: Annotated[list[str], Meta(max_length=1000)]
    resource_provider_generation: Generation | UnsetType = UNSET

    def __post_init__(self) -> None:
        self.aggregates = [uuid(one, "aggregates") for one in self.aggregates]
        if len(set(self.aggregates)) < len(self.aggregates):
            raise ValueError("aggregates has non-unique elements")


Ratio = Annotated[float, Meta(ge=0, le=3.40282e38)]


class Line(Struct, forbid_unknown_fields=True):
    """One line of an inventory."""

    total: Amount
    reserved: Annotated[int, Meta(ge=0, le=MAX_INT)] = 0
    min_unit: Amount = 1
    max_unit: Amount = MAX_INT
    step_size: Amount = 1
    allocation_ratio: Ratio = 1.0
    resource_provider_generation: Generation | UnsetType = UNSET


class NewLine(Line):
    resource_class: Class = ""


class Lines(Struct, forbid_unknown_fields=True):
    """A whole inventory."""

    resource_provider_generation: Generation
    inventories: Annotated[dict[Class, Line], Meta(max_length=1000)]


class Traits(Struct, forbid_unknown_fields=True):
    resource_provider_generation: Generation
    traits: Annotated[list[Trait], Meta(max_length=1000)]


class NamedClass(Struct, forbid_unknown_fields=True):
    name: Custom


class OldProvider(Struct, forbid_unknown_fields=True):
    uuid: Key


class OldAllocation(Struct, forbid_unknown_fields=True):
    resource_provider: OldProvider
    resources: Resources


class OldAllocations(Struct, forbid_unknown_fields=True):
    """Until 1.11."""

    allocations: Annotated[list[OldAllocation], Meta(min_length=1, max_length=1000)]
    project_id: Annotated[Whose | UnsetType, since(1, 8)] = UNSET
    user_id: Annotated[Whose | UnsetType, since(1, 8)] = UNSET


class Allocation(Struct, forbid_unknown_fields=True):
    resources: Resources
    #: Taken and not looked at, so that what was read can be sent back.
    generation: Generation | UnsetType = UNSET


class Allocations(Struct, forbid_unknown_fields=True):
    """Since 1.12: what one consumer is to have."""

    allocations: Annotated[dict[Key, Allocation], Meta(max_length=1000)]
    project_id: Whose
    user_id: Whose
    consumer_generation: Annotated[Generation | UnsetType | None, since(1, 28)] = UNSET
    #: Taken and not looked at: which groups of a request the providers meet.
    mappings: Annotated[dict[str, Any] | UnsetType, since(1, 34)] = UNSET
    consumer_type: Annotated[Class | UnsetType, since(1, 38)] = UNSET

    def __post_init__(self) -> None:
        if isinstance(self.mappings, dict):
            _check_mappings(self.mappings)


_SUFFIX = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def _check_mappings(mappings: dict[str, Any]) -> None:
    if not mappings:
        raise ValueError("mappings does not have enough properties")
    for suffix, keys in mappings.items():
        if _SUFFIX.search(suffix) is None:
            continue
        if not isinstance(keys, list) or not keys:
            raise ValueError(f"mappings.{suffix} must be a list of resource providers that is not empty")
        for key in keys:
            if not isinstance(key, str):
                raise ValueError(f"mappings.{suffix} must hold ids of resource providers")
            uuid(key, f"mappings.{suffix}")


class Reshape(Struct, forbid_unknown_fields=True):
    inventories: Annotated[dict[Key, Lines], Meta(min_length=1, max_length=1000)]
    allocations: Annotated[dict[Key, Allocations], Meta(max_length=100_000)]
