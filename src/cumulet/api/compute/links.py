"""Links of compute's bodies, and pages of its lists."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from cumulet.api.query import next_link, paging
from cumulet.api.request import Request
from cumulet.db.query import MarkerNotFound, Query
from cumulet.errors import Invalid

PREFIX = "/compute"
#: The largest page of a list.
PAGE = 1000


def links(request: Request, collection: str, key: str) -> list[dict[str, str]]:
    """The links of one thing: with the version in the path, and without."""
    return [
        {"rel": "self", "href": request.url(f"{PREFIX}/v2.1/{collection}/{key}")},
        {"rel": "bookmark", "href": request.url(f"{PREFIX}/{collection}/{key}")},
    ]


def page_of(request: Request, sortable: Collection[str] = ()) -> Query:
    """The page that the request asks for. Raises Invalid."""
    return paging(request, sortable, maximum=PAGE)


def with_more(
    body: dict[str, Any], name: str, request: Request, query: Query, keys: Sequence[str]
) -> dict[str, Any]:
    """The body of a list; ``keys`` are its items' ids. A full page gets a link to the next one."""
    if keys and len(keys) == query.limit:
        body[f"{name}_links"] = [{"rel": "next", "href": next_link(request, keys[-1])}]
    return body


def unknown_marker(error: MarkerNotFound) -> Invalid:
    """What compute says of a marker that is not there."""
    return Invalid(f"marker [{error}] not found")
