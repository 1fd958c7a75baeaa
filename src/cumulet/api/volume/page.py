"""Links of Block Storage's bodies, pages of its lists, and what lists are narrowed by."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from cumulet.api.query import next_link, paging
from cumulet.api.request import Request, boolean
from cumulet.core.volumes.listing import SIGNS, Filters
from cumulet.db.query import Query
from cumulet.errors import Invalid

#: The largest page of a list.
PAGE = 1000
#: Parameters that are about the page, not about what is on it.
PAGING = frozenset({"limit", "marker", "offset", "sort", "sort_key", "sort_dir"})
_ROOT = re.compile(r"/volume/v3/(?:([0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})/)?")

#: What users can narrow lists by, by resource; see resource_filters in the API reference.
RESOURCE_FILTERS: Mapping[str, tuple[str, ...]] = {
    "volume": (
        "name", "status", "metadata", "bootable", "migration_status", "availability_zone", "group_id", "size",
        "created_at", "updated_at", "consumes_quota",
    ),
    "snapshot": ("name", "status", "volume_id", "metadata", "availability_zone", "consumes_quota"),
    "backup": ("name", "status", "volume_id"),
    "group": ("name",),
    "group_snapshot": ("name", "status", "group_id"),
    "attachment": ("volume_id", "status", "instance_id", "attach_status"),
    "message": ("resource_uuid", "resource_type", "event_id", "request_id", "message_level"),
    "pool": ("name", "volume_type"),
    "volume_type": ("is_public", "extra_specs"),
}  # fmt: skip


def project_root(request: Request) -> str:
    """The project's id with a slash if the request's path has it, as links then have it too."""
    match = _ROOT.match(request.path)
    return f"{match[1]}/" if match and match[1] else ""


def links(request: Request, collection: str, id: str) -> list[dict[str, str]]:
    """The links of one thing: with the version in the path, and without."""
    inside = f"{project_root(request)}{collection}/{id}"
    return [
        {"rel": "self", "href": request.url(f"/volume/v3/{inside}")},
        {"rel": "bookmark", "href": request.url(f"/volume/{inside}")},
    ]


def page_of(request: Request, sortable: Collection[str]) -> Query:
    """The page that the request asks for, the newest first where it does not say. Raises Invalid."""
    if request.arg("sort") is not None and (
        request.arg("sort_key") is not None or request.arg("sort_dir") is not None
    ):
        raise Invalid(
            "The 'sort_key' and 'sort_dir' parameters are deprecated and cannot be used with 'sort'."
        )
    query = paging(request, sortable, maximum=PAGE)
    direction = request.arg("sort_dir") or "desc"
    if direction not in ("asc", "desc"):
        raise Invalid(f"Unknown sort direction {direction!r}, must be 'desc' or 'asc'.")
    sort = query.sort
    if not any(name == "created_at" for name, _ in sort) and "created_at" in sortable:
        sort = (*sort, ("created_at", sort[0][1] if sort else direction))
    return Query(limit=query.limit, marker=query.marker, sort=sort, offset=query.offset)


def with_more(
    body: dict[str, Any], name: str, request: Request, query: Query, ids: Sequence[str]
) -> dict[str, Any]:
    """The body of a list; a full page gets a link to the next one."""
    if ids and len(ids) == query.limit:
        body[name] = [{"rel": "next", "href": next_link(request, ids[-1])}]
    return body


def parameters(
    request: Request, resource: str, *, drop: Collection[str] = (), allowed: Collection[str] | None = None
) -> dict[str, str]:
    """The parameters that narrow a list, by name. Raises Invalid for those that a user may not use, since 3.31.

    Before that they are passed over. Administrators may use all. ``drop``: names that are no filters here.
    ``allowed``: what users may use before 3.31, where that differs.
    """
    found = {name: value for name, value in request.query if name not in PAGING and name not in drop}
    if request.caller.is_admin:
        return found
    modern = request.version >= (3, 31)
    known = RESOURCE_FILTERS[resource] if modern or allowed is None else allowed
    unknown = [name for name in found if name not in known and name != "all_tenants"]
    if unknown and modern:
        raise Invalid(f"Invalid filters {','.join(sorted(unknown))} are found in query options.")
    return {name: value for name, value in found.items() if name in known}


def filters(request: Request, found: Mapping[str, str]) -> Filters:
    """Parameters as filters of volumes or snapshots. Raises Invalid."""
    strict = request.version >= (3, 2)
    equal: dict[str, Any] = {}
    like: dict[str, str] = {}
    times: dict[str, Sequence[tuple[str, float]]] = {}
    pairs: dict[str, Mapping[str, str]] = {}
    for name, value in found.items():
        if name == "all_tenants":
            continue
        if name in ("created_at", "updated_at"):
            times[name] = _moments(name, value)
        elif name in ("metadata", "glance_metadata"):
            parsed = literal(value)
            if not isinstance(parsed, dict):
                equal["none"] = value  # what cannot be understood selects nothing
            else:
                pairs[name] = {str(key): str(one) for key, one in parsed.items()}
        elif name in ("bootable", "multiattach", "encrypted"):
            equal[name] = boolean(value, name) if strict else value.lower() != "false"
        elif name == "consumes_quota":
            equal[name] = boolean(value, name)
        elif name.endswith("~"):
            like[name[:-1]] = value
        elif name in ("name", "display_name"):
            equal[name] = value
        else:
            parsed = literal(value)
            equal[name] = parsed if isinstance(parsed, list) else value
    return Filters(
        everybody=everybody(request),
        equal=equal,
        like=like,
        times=times,
        metadata=pairs.get("metadata", {}),
        image_metadata=pairs.get("glance_metadata", {}),
    )


def everybody(request: Request) -> bool:
    """True if an administrator asks for every project's."""
    return request.caller.is_admin and request.flag("all_tenants")


def literal(text: str) -> Any:
    """A value in the form that clients send lists and dictionaries in; the text itself if it is none."""
    if not text.startswith(("[", "{")) or len(text) > 4096:
        return text
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return text


def _moments(name: str, text: str) -> list[tuple[str, float]]:
    """``gt:2026-01-01T00:00:00,lte:…`` as (operator, seconds since the epoch)."""
    found = []
    for part in text.split(",")[:10]:
        sign, colon, moment = part.partition(":")
        if not colon:
            raise Invalid(f"Invalid {name} value.")
        if sign not in SIGNS:
            raise Invalid(f"Invalid {sign} operator.")
        try:
            parsed = datetime.fromisoformat(moment)
        except ValueError:
            raise Invalid(f"Invalid {moment} value.") from None
        found.append((sign, (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()))
    return found
