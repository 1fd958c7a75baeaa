"""Usage reports. See the compute API reference, "Usage reports (os-simple-tenant-usage)"."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from cumulet.api.asgi import Route
from cumulet.api.compute import permit
from cumulet.api.compute.links import page_of, unknown_marker, with_more
from cumulet.api.query import only
from cumulet.api.request import Request, Response, ok
from cumulet.core import tenant_usage
from cumulet.core.policy import ADMIN, READER
from cumulet.core.tenant_usage import ServerUsage
from cumulet.db.query import MarkerNotFound, Query
from cumulet.errors import Invalid
from cumulet.wire import forms

_FORMS = ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S.%f", "%Y-%m-%d %H:%M:%S.%f")


def _moment(text: str, name: str) -> float:
    for form in _FORMS:
        try:
            return datetime.strptime(text, form).replace(tzinfo=UTC).timestamp()
        except (ValueError, OverflowError):
            continue
    raise Invalid(
        f"Invalid input for query parameters {name}: datetime {text[:50]!r} is in an invalid format."
    )


def _period(request: Request) -> tuple[float, float]:
    """From when to when; what is not said is now. Raises Invalid."""
    now = request.cloud.chance.now()
    start, stop = request.args("start"), request.args("end")
    until = _moment(stop[0], "end") if stop and stop[0] else now
    since = _moment(start[0], "start") if start and start[0] else min(until, now)
    if since >= until and start:
        raise Invalid("Invalid start time. The start time cannot occur after the end time.")
    return since, min(until, now)


async def _look(
    request: Request, project_id: str | None = None
) -> tuple[list[ServerUsage], float, float, Query]:
    paged = request.version >= (2, 40)
    if request.version >= (2, 75):
        extra = [] if project_id is not None else ["detailed"]
        only(request, "start", "end", "limit", "marker", *extra)
    start, stop = _period(request)
    query = page_of(request) if paged else Query(limit=1000)
    try:
        found = await request.cloud.db.read(
            tenant_usage.usages, start, stop, project_id=project_id, limit=query.limit, marker=query.marker
        )
    except MarkerNotFound as error:
        raise unknown_marker(error) from None
    return found, start, stop, query


def _summary(project_id: str, found: list[ServerUsage], start: float, stop: float) -> dict[str, Any]:
    return {
        "tenant_id": project_id,
        "start": forms.precise(start),
        "stop": forms.precise(stop),
        "total_hours": sum(one.hours for one in found),
        "total_vcpus_usage": sum(one.vcpus * one.hours for one in found),
        "total_memory_mb_usage": sum(one.memory_mb * one.hours for one in found),
        "total_local_gb_usage": sum(one.local_gb * one.hours for one in found),
    }


def _line(one: ServerUsage) -> dict[str, Any]:
    return {
        "instance_id": one.id,
        "name": one.name,
        "tenant_id": one.project_id,
        "flavor": one.flavor,
        "vcpus": one.vcpus,
        "memory_mb": one.memory_mb,
        "local_gb": one.local_gb,
        "state": one.state,
        "hours": one.hours,
        "started_at": forms.precise(one.started_at),
        "ended_at": forms.precise_or_none(one.ended_at),
        "uptime": one.uptime,
    }


def _with_links(
    request: Request, body: dict[str, Any], name: str, query: Query, found: list[ServerUsage]
) -> Response:
    if request.version >= (2, 40):
        with_more(body, name, request, query, [one.id for one in found])
    return ok(body)


async def index(request: Request) -> Response:
    """GET /os-simple-tenant-usage; in pages since 2.40"""
    found, start, stop, query = await _look(request)
    detailed = request.args("detailed")[:1] == ["1"]
    usages = []
    for project_id in dict.fromkeys(one.project_id for one in found):
        here = [one for one in found if one.project_id == project_id]
        usage = _summary(project_id, here, start, stop)
        if detailed:
            usage["server_usages"] = [_line(one) for one in here]
        usages.append(usage)
    return _with_links(request, {"tenant_usages": usages}, "tenant_usages", query, found)


async def show(request: Request) -> Response:
    """GET /os-simple-tenant-usage/{project}"""
    project_id = request.params["project"]
    permit.require(request, f"{_RULE}:show", project_id=project_id)
    found, start, stop, query = await _look(request, project_id)
    usage = _summary(project_id, found, start, stop) if found else {}
    if found:
        usage["server_usages"] = [_line(one) for one in found]
    return _with_links(request, {"tenant_usage": usage}, "tenant_usage", query, found)


_RULE = "os_compute_api:os-simple-tenant-usage"

ROUTES = (
    Route("GET", "/v2.1/os-simple-tenant-usage", index, f"{_RULE}:list", ADMIN),
    Route("GET", "/v2.1/os-simple-tenant-usage/{project}", show, f"{_RULE}:show", READER),
)
