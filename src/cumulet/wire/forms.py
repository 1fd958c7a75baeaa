"""Forms of values that many bodies share. The checks raise ValueError, which a struct's ``__post_init__`` may."""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime
from typing import Annotated

from msgspec import Meta

#: What the services' databases hold in an integer column.
MAX_INT = 0x7FFFFFFF

Positive = Annotated[int, Meta(ge=1, le=MAX_INT)]
Natural = Annotated[int, Meta(ge=0, le=MAX_INT)]
Short = Annotated[str, Meta(max_length=255)]
Word = Annotated[str, Meta(min_length=1, max_length=255)]
#: A limit of a quota: -1 for none.
Limit = Annotated[int, Meta(ge=-1, le=MAX_INT)]


def name(value: str, field: str = "name", *, forbidden: str = "") -> None:
    """Raise ValueError unless compute takes the text as a name: printable, no space at either end."""
    text(value, field)
    if not value or value != value.strip():
        raise ValueError(f"{field} must not be empty nor begin or end with a space")
    for character in forbidden:
        if character in value:
            raise ValueError(f"{field} must not contain {character!r}")


def text(value: str, field: str) -> None:
    """Raise ValueError for characters that are not printable: controls, line breaks, unassigned."""
    if not value.isprintable() and not all(map(_printable, value)):
        raise ValueError(f"{field} must consist of printable characters")


def _printable(character: str) -> bool:
    category = unicodedata.category(character)
    return not category.startswith("C") and (not category.startswith("Z") or category == "Zs")


def instant(seconds: float) -> str:
    """Seconds since the epoch as ``2026-08-01T10:20:30Z``."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")[:19] + "Z"


def instant_or_none(seconds: float | None) -> str | None:
    """``instant``, with null for None."""
    return None if seconds is None else instant(seconds)


def precise(seconds: float) -> str:
    """Seconds since the epoch as ``2026-08-01T10:20:30.000000``: UTC, without saying so."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")[:26]


def precise_or_none(seconds: float | None) -> str | None:
    """``precise``, with null for None."""
    return None if seconds is None else precise(seconds)
