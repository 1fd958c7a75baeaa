"""Lists of the identity API: what a request filters by, its page, and the answer with its links."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, cast

from cumulet.api.query import next_link, sort, whole
from cumulet.api.request import Request, Response, ok
from cumulet.core.matches import How, Match
from cumulet.db.query import MarkerNotFound, Query
from cumulet.errors import NotFound

#: A page is never longer, whatever is asked for.
PAGE = 1000
#: Nor is the answer to a request that asks for no page; upstream has no such bound.
MOST = 10_000

_HOWS = ("contains", "startswith", "endswith")


def matches(request: Request, *names: str) -> tuple[Match, ...]:
    """The request's conditions on these attributes. Comparisons that are not known are passed over."""
    found = []
    for key, value in request.query:
        if key in names:
            found.append(Match(key, value))
            continue
        name, _, how = key.partition("__")
        if name not in names or not how:
            continue
        if how in _HOWS:
            found.append(Match(name, value, cast(How, how)))
        elif how[1:] in _HOWS and how[0] == "i":
            found.append(Match(name, value, cast(How, how[1:]), any_case=True))
    return tuple(found)


def given(request: Request, name: str) -> bool:
    """True if a flag of the query is there and not "0": ``?effective``, ``?effective=1``."""
    value = request.arg(name)
    return value is not None and value != "0"


def page(request: Request, sortable: Collection[str] = ()) -> Query:
    """The request's page: limit, marker, sort_key, sort_dir."""
    limit = whole(request, "limit")
    return Query(
        limit=min(limit, PAGE) if limit else MOST,
        marker=request.arg("marker"),
        sort=sort(request, sortable, unknown="ignore"),
    )


def unknown_marker(error: MarkerNotFound) -> NotFound:
    return NotFound(f"Marker {error} could not be found.")


def url(request: Request, path: str) -> str:
    """A link below /identity/v3."""
    return request.url(f"/identity/v3/{path}")


def links(request: Request, path: str) -> dict[str, Any]:
    """The links of one thing."""
    return {"self": url(request, path)}


def collection(
    request: Request, name: str, members: Sequence[dict[str, Any]], query: Query | None = None, **more: Any
) -> Response:
    """The answer to a list request; ``members`` are shown as they are."""
    body: dict[str, Any] = {
        name: members,
        "links": {"next": None, "self": request.url(request.path), "previous": None},
        **more,
    }
    if query is not None and query.limit is not None and len(members) >= query.limit and members:
        body["links"]["next"] = next_link(request, str(members[-1]["id"]))
        body["truncated"] = True
    return ok(body)
