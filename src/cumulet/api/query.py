"""Limit, marker and sort keys of a list request, and the links to its next page."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import quote, urlencode

from cumulet.api.request import Request
from cumulet.db.query import Query
from cumulet.errors import Invalid


def whole(request: Request, name: str, *, minimum: int = 0) -> int | None:
    """A query parameter as a whole number; None if it is not there. Raises Invalid."""
    text = request.arg(name)
    if text is None:
        return None
    try:
        number = int(text)
    except ValueError:
        raise Invalid(f"Invalid input for query parameters {name}: {text!r} is not a whole number.") from None
    if not minimum <= number < 1 << 62:
        raise Invalid(
            f"Invalid input for query parameters {name}: {number} is less than the minimum of {minimum}."
        )
    return number


def paging(
    request: Request, sortable: Collection[str], *, maximum: int = 1000, default_limit: int | None = None
) -> Query:
    """The request's page, in the form of compute, volume and image: limit, marker, sort_key, sort_dir, sort.

    Raises Invalid for what cannot be understood or sorted by.
    """
    limit = whole(request, "limit")
    limit = default_limit or maximum if limit is None else min(limit, maximum)
    return Query(
        limit=limit,
        marker=request.arg("marker"),
        sort=sort(request, sortable),
        offset=whole(request, "offset") or 0,
    )


def sort(
    request: Request, sortable: Collection[str], *, unknown: str = "refuse"
) -> tuple[tuple[str, str], ...]:
    """Sort keys: ``sort_key=a&sort_dir=asc&sort_key=b`` or ``sort=a:asc,b``. A missing direction is desc.

    Unknown keys are refused, or passed over with ``unknown="ignore"``.
    """
    together = request.arg("sort")
    if together:
        pairs = [([*part.split(":", 1), "desc"])[:2] for part in together.split(",") if part]
    else:
        directions = request.args("sort_dir")
        pairs = []
        for i, name in enumerate(request.args("sort_key")):
            direction = directions[i] if i < len(directions) else directions[-1] if directions else "desc"
            pairs.append([name, direction])
    found = []
    for name, direction in pairs[:8]:
        if name not in sortable:
            if unknown == "ignore":
                continue
            raise Invalid(
                f"Invalid input for sort_key: {name!r}. One can sort by {', '.join(sorted(sortable))}."
            )
        if direction not in ("asc", "desc"):
            raise Invalid(f"Invalid input for sort_dir: {direction!r} is neither asc nor desc.")
        found.append((name, direction))
    return tuple(found)


def next_link(request: Request, marker: str, path: str | None = None) -> str:
    """The address of the page behind ``marker``."""
    pairs = [(key, value) for key, value in request.query if key != "marker"] + [("marker", marker)]
    return f"{request.base}{path or quote(request.path)}?{urlencode(pairs)}"


def only(request: Request, *names: str) -> None:
    """Refuse query parameters other than these, as newer versions of the APIs do. Raises Invalid."""
    for name, _ in request.query:
        if name not in names:
            raise Invalid(
                f"Invalid input for query parameters: additional properties are not allowed "
                f"({name!r} was unexpected)"
            )
