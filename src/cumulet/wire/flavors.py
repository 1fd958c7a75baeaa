"""Bodies of flavors. See the compute API reference, "Flavors"."""

from __future__ import annotations

import re
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType, field

from cumulet.wire import forms
from cumulet.wire.body import since, until
from cumulet.wire.forms import Natural, Positive, Word

_FLAVOR_ID = re.compile(r"(?! )[a-zA-Z0-9. _-]+(?<! )\Z")
_SPEC_NAME = re.compile(r"[a-zA-Z0-9\-_:. ]{1,255}\Z")
#: The largest number of extra specs that a flavor can have.
SPECS = 256

Description = Annotated[str, Meta(max_length=65535)] | None
Links = list[dict[str, str]]


class NewFlavor(Struct, forbid_unknown_fields=True):
    name: Word
    ram: Positive
    vcpus: Positive
    disk: Natural
    id: str | int | float | None = None
    ephemeral: Natural = field(default=0, name="OS-FLV-EXT-DATA:ephemeral")
    swap: Natural = 0
    rxtx_factor: Annotated[float, Meta(gt=0, le=3.40282e38), until(2, 101)] = 1.0
    is_public: bool | str = field(default=True, name="os-flavor-access:is_public")
    description: Annotated[Description, since(2, 55)] = None

    def __post_init__(self) -> None:
        forms.name(self.name)
        if self.description:
            forms.text(self.description, "description")
        if self.id is not None and not (len(str(self.id)) <= 255 and _FLAVOR_ID.match(str(self.id))):
            raise ValueError(
                "id must consist of letters, digits, '.', '_', '-' and spaces, but neither begin nor end with "
                "one, and have at most 255 of them"
            )


class Create(Struct, forbid_unknown_fields=True):
    flavor: NewFlavor


class Change(Struct, forbid_unknown_fields=True):
    description: Description

    def __post_init__(self) -> None:
        if self.description:
            forms.text(self.description, "description")


class Update(Struct, forbid_unknown_fields=True):
    flavor: Change


class Tenant(Struct, forbid_unknown_fields=True):
    tenant: Word


class ExtraSpecs(Struct, forbid_unknown_fields=True):
    extra_specs: dict[str, str | int | float]

    def __post_init__(self) -> None:
        check_extra_specs(self.extra_specs)


def check_extra_specs(specs: dict[str, Any]) -> None:
    """Raise ValueError for names and values that are no extra specs."""
    if len(specs) > SPECS:
        raise ValueError(f"there are {len(specs)} extra specs; at most {SPECS} are taken")
    for name, value in specs.items():
        if not _SPEC_NAME.match(name):
            raise ValueError(f"{name[:300]!r} is not a name of an extra spec")
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError(f"the value of {name!r} must be text or a number")
        if len(str(value)) > 255:
            raise ValueError(f"the value of {name!r} is longer than 255 characters")
        forms.text(str(value), f"the value of {name!r}")


class Basic(Struct, frozen=True):
    """A flavor in a list."""

    id: str
    name: str
    links: Links
    description: Annotated[str | None, since(2, 55)]


class Full(Struct, frozen=True):
    """A flavor with all that it says."""

    id: str
    name: str
    ram: int
    disk: int
    swap: int | str
    ephemeral: int = field(name="OS-FLV-EXT-DATA:ephemeral")
    disabled: Annotated[bool, until(2, 101)] = field(name="OS-FLV-DISABLED:disabled")
    vcpus: int
    is_public: bool = field(name="os-flavor-access:is_public")
    rxtx_factor: Annotated[float, until(2, 101)]
    links: Links
    description: Annotated[str | None, since(2, 55)]
    extra_specs: Annotated[dict[str, str] | UnsetType, since(2, 61)] = UNSET
