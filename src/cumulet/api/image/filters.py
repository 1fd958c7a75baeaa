"""What a list of images is narrowed and sorted by. See the image API reference, "List images"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from cumulet.api.request import Request
from cumulet.core.images.finding import SORTABLE, Filters
from cumulet.db.query import Query
from cumulet.errors import Invalid
from cumulet.wire.image import VISIBILITIES

DEFAULT_LIMIT = 25
LIMIT = 1000
#: Items of an "in:" list, and filters, at the most.
ITEMS = 1000

_PAGING = frozenset(("limit", "marker", "sort", "sort_key", "sort_dir", "member_status", "tag"))
_LISTS = frozenset(("name", "id", "status", "container_format", "disk_format"))
_TEXTS = frozenset(("owner", "checksum", "os_hash_algo", "os_hash_value"))
_NUMBERS = frozenset(("size", "virtual_size", "min_disk", "min_ram"))
_MOMENTS = frozenset(("created_at", "updated_at"))
_OPERATORS = frozenset(("gt", "gte", "lt", "lte", "eq", "neq"))
#: Two numbers with 62 bits each still add up.
_MOST = 1 << 62


def page(request: Request) -> Query:
    """The page that is asked for. Raises Invalid."""
    return Query(limit=limit(request), marker=request.arg("marker"), sort=_sort(request))


def limit(request: Request) -> int:
    """How many items a page has at the most. Raises Invalid."""
    text = request.arg("limit")
    if text is None:
        return DEFAULT_LIMIT
    try:
        found = int(text)
    except ValueError:
        raise Invalid("limit param must be an integer") from None
    if found < 0:
        raise Invalid("limit param must be positive")
    return min(found, LIMIT)


def _sort(request: Request) -> tuple[tuple[str, str], ...]:
    together = request.arg("sort")
    names, directions = request.args("sort_key"), request.args("sort_dir")
    if together is not None:
        if names or directions:
            raise Invalid("Old and new sorting syntax cannot be combined")
        pairs = [part.strip().partition(":") for part in together.split(",")]
        names = [name.strip() for name, _, _ in pairs]
        directions = [direction.strip() or "desc" for _, _, direction in pairs]
    elif len(directions) > 1 and len(directions) != len(names):
        raise Invalid("Number of sort dirs does not match the number of sort keys")
    default = directions[0].strip() if len(directions) == 1 and together is None else "desc"
    if len(directions) <= 1:
        directions = [default if together is None else directions[0]] * len(names)
    found = [
        (_sort_key(name.strip()), _direction(direction.strip()))
        for name, direction in zip(names, directions, strict=True)
    ]
    _direction(default)
    for name in ("created_at", "id"):
        if all(name != key for key, _ in found):
            found.append((name, default))
    return tuple(found[:12])


def _sort_key(name: str) -> str:
    if name not in SORTABLE:
        raise Invalid(f"Invalid sort key: {name}. It must be one of the following: {', '.join(SORTABLE)}.")
    return name


def _direction(text: str) -> str:
    if text not in ("asc", "desc"):
        raise Invalid(f"Invalid sort direction: {text}")
    return text


def filters(request: Request) -> Filters:
    """What the list is narrowed by. Raises Invalid for what cannot be understood."""
    among: dict[str, Sequence[Any]] = {}
    ranges: list[tuple[str, str, int]] = []
    moments: list[tuple[str, str, float]] = []
    properties: dict[str, str] = {}
    for name, value in request.query:
        if name in _PAGING or name in ("visibility", "os_hidden", "protected"):
            continue
        if name == "changes-since":
            raise Invalid('The "changes-since" filter is no longer available on v2.')
        if name in _LISTS:
            among[name] = _list(value)
        elif name in _TEXTS:
            among[name] = [value]
        elif name in _NUMBERS:
            among[name] = [_number(name, value)]
        elif name[-4:] in ("_min", "_max") and name[:-4] in _NUMBERS:
            ranges.append((name[:-4], ">=" if name.endswith("_min") else "<=", _range(value)))
        elif name in _MOMENTS:
            moments.append((name, *_moment(name, value)))
        else:
            properties[name] = value
    return Filters(
        among=among,
        ranges=ranges,
        moments=moments,
        properties=properties,
        tags=[tag.strip() for tag in request.args("tag")],
        visibility=_one_of(request, "visibility", (*VISIBILITIES, "all"), "Invalid visibility value"),
        member_status=_one_of(
            request, "member_status", ("pending", "accepted", "rejected", "all"), "Invalid status"
        )
        or "accepted",
        os_hidden=_flag(request, "os_hidden") or False,
        protected=_flag(request, "protected"),
    )


def _one_of(request: Request, name: str, allowed: Sequence[str], wrong: str) -> str | None:
    value = request.arg(name)
    if value and value not in allowed:
        raise Invalid(f"{wrong}: {value}")
    return value or None


def _flag(request: Request, name: str) -> bool | None:
    value = request.arg(name)
    if value is None:
        return None
    if value.lower() not in ("true", "false"):
        raise Invalid(f"Invalid value '{value}' for '{name}' filter. Valid values are 'true' or 'false'.")
    return value.lower() == "true"


def _number(name: str, value: str) -> int:
    try:
        number = int(value)
    except ValueError:
        raise Invalid(f"Invalid value {value!r} for {name!r} filter: a whole number was expected.") from None
    return max(-_MOST, min(number, _MOST))


def _range(value: str) -> int:
    try:
        return max(-_MOST, min(int(value), _MOST))
    except ValueError:
        raise Invalid("Unable to filter on a range with a non-numeric value.") from None


def _list(value: str) -> list[str]:
    """``in:a,"b,c"`` as a list, ``eq:a`` and ``a`` as a list of one."""
    operator, colon, rest = value.partition(":")
    if not colon or operator == "eq":
        return [rest if colon else value]
    if operator != "in":
        raise Invalid(f"Unable to filter by unknown operator '{operator}'.")
    items = _items(rest)
    if len(items) > ITEMS:
        raise Invalid(f"The filter lists {len(items)} values; at most {ITEMS} are taken.")
    return items


_ITEM = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"(?:,|\Z)|([^",]*)(?:,|\Z)')


def _items(text: str) -> list[str]:
    found = []
    at = 0
    while at < len(text):
        match = _ITEM.match(text, at)
        if match is None:
            raise Invalid(
                f"Invalid filter value {text}. A quotation mark must be closed, and stand at a comma or an end."
            )
        found.append(match[1] if match[1] is not None else match[2])
        at = match.end()
    return found


def _moment(name: str, value: str) -> tuple[str, float]:
    operator, colon, rest = value.partition(":")
    if not colon or operator not in _OPERATORS:
        if colon and re.fullmatch(r"[a-z]+", operator):
            raise Invalid("Unable to filter on a unknown operator.")
        operator, rest = "eq", value
    try:
        parsed = datetime.fromisoformat(rest.strip())
    except ValueError:
        raise Invalid(f'Bad "{name}" query filter format. Use ISO 8601 DateTime notation.') from None
    if parsed.tzinfo is None:
        parsed = parsed.replace(tzinfo=UTC)
    try:
        return operator, float(int(parsed.timestamp()))
    except (OverflowError, ValueError):
        raise Invalid(f'Bad "{name}" query filter format. Use ISO 8601 DateTime notation.') from None
