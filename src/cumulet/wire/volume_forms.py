"""Forms of values that Block Storage's bodies share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct, structs

from cumulet.errors import Invalid
from cumulet.wire.forms import MAX_INT

_KEY = re.compile(r"[a-zA-Z0-9\-_:. /]{1,255}\Z")
_KEY_WITHOUT_SPACES = re.compile(r"[a-zA-Z0-9\-_:.]{1,255}\Z")
_UUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}\Z", re.IGNORECASE)
#: Characters of a piece of image metadata at the most.
LONG = 65535

#: GiB.
Size = Annotated[int, Meta(ge=1, le=MAX_INT)]
#: True, false, or a word for it.
Truth = bool | str


def clean(text: str | None) -> str | None:
    """A name or description as it is kept: without spaces around it."""
    return None if text is None else text.strip()


def short(text: str | None, field: str) -> None:
    """Raise ValueError for a name or description that is too long."""
    if text is not None and len(text.strip()) > 255:
        raise ValueError(f"{field} has {len(text.strip())} characters, more than 255")


def uuid(text: str | None, field: str) -> None:
    """Raise ValueError for what is no id."""
    if text is not None and not _UUID.match(text):
        raise ValueError(f"{field} {text[:80]!r} is not a 'uuid'")


def pairs(
    found: Mapping[str, Any] | None, field: str, *, longest: int = 255, spaces: bool = True, nulls: bool = False
) -> None:  # fmt: skip
    """Raise ValueError for metadata whose names or values are not acceptable."""
    form = _KEY if spaces else _KEY_WITHOUT_SPACES
    for name, value in (found or {}).items():
        if not form.match(name):
            raise ValueError(
                f"{field}: {name[:300]!r} is not a name of 1 to 255 letters, digits and -_:. characters"
            )
        if value is None and nulls:
            continue
        if not isinstance(value, str):
            raise ValueError(f"{field}: the value of {name!r} must be text")
        if len(value) > longest:
            raise ValueError(f"{field}: the value of {name!r} is longer than {longest} characters")


def only_known(raw: Any, shape: type[Struct], where: str) -> None:
    """Raise Invalid for fields that the shape does not have."""
    known = {field.encode_name for field in structs.fields(shape)}
    unknown = [name for name in raw if name not in known] if isinstance(raw, dict) else []
    if unknown:
        raise Invalid(
            f"Invalid input for field/attribute {where}: Additional properties are not allowed "
            f"({', '.join(map(repr, unknown[:5]))} was unexpected)"
        )
