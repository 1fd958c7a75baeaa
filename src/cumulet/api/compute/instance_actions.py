"""What was done to servers, and what other services tell of them.

See the compute API reference, "Servers actions logs" and "Server external events".
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from cumulet.api.asgi import Route
from cumulet.api.compute import permit
from cumulet.api.compute.links import page_of, unknown_marker
from cumulet.api.compute.server_body import host_id
from cumulet.api.compute.server_filters import moment
from cumulet.api.query import next_link, only
from cumulet.api.request import Request, Response, ok
from cumulet.core.policy import ADMIN, READER
from cumulet.core.servers import instance_actions
from cumulet.core.servers.instance_actions import Action, Between
from cumulet.db.engine import Row
from cumulet.db.query import MarkerNotFound, Query
from cumulet.errors import Invalid
from cumulet.wire import server_parts as wire
from cumulet.wire.body import encode
from cumulet.wire.forms import precise, precise_or_none

_RULE = "os_compute_api:os-instance-actions"


def _deleted(request: Request) -> bool:
    """Since 2.21 one can read of servers that are gone."""
    return request.version >= (2, 21)


async def index(request: Request) -> Response:
    """GET /servers/{server_id}/os-instance-actions; in pages since 2.58"""
    paged = request.version >= (2, 58)
    query, between = (page_of(request), _between(request)) if paged else (Query(), Between())
    try:
        rows = await request.cloud.db.read(
            instance_actions.listing,
            request.caller,
            request.params["server_id"],
            query,
            between,
            deleted=_deleted(request),
        )
    except MarkerNotFound as error:
        raise unknown_marker(error) from None
    body: dict[str, Any] = {"instanceActions": [encode(_action(row), request.version) for row in rows]}
    if paged and rows and len(rows) == query.limit:
        body["links"] = [{"rel": "next", "href": next_link(request, rows[-1]["request_id"])}]
    return ok(body)


def _between(request: Request) -> Between:
    names = ["limit", "marker", "changes-since"]
    if request.version >= (2, 66):
        names.append("changes-before")
    only(request, *names)
    since, before = request.arg("changes-since"), request.arg("changes-before")
    between = Between(
        since=moment(since, "changes-since") if since is not None else None,
        before=moment(before, "changes-before") if before is not None else None,
    )
    if between.since is not None and between.before is not None and between.before < between.since:
        raise Invalid("The value of changes-since must be less than or equal to changes-before.")
    return between


def _action(row: Row) -> wire.Action:
    return wire.Action(
        action=row["action"],
        instance_uuid=row["server_id"],
        request_id=row["request_id"],
        user_id=row["user_id"],
        project_id=row["project_id"],
        start_time=precise(row["started_at"]),
        message=row["message"],
        updated_at=precise(row["updated_at"]),
    )


async def show(request: Request) -> Response:
    """GET /servers/{server_id}/os-instance-actions/{request_id}"""
    found = await request.cloud.db.read(
        instance_actions.show,
        request.caller,
        request.params["server_id"],
        request.params["request_id"],
        deleted=_deleted(request),
    )
    body = encode(_action(found.row), request.version)
    everything = permit.allows(request, f"{_RULE}:events")
    if everything or request.version >= (2, 51):
        body["events"] = [encode(event, request.version) for event in _events(request, found, everything)]
    return ok({"instanceAction": body})


def _events(request: Request, found: Action, everything: bool) -> list[wire.Event]:
    """The events; tracebacks, hosts and details only for whom they are meant."""
    details = permit.allows(request, f"{_RULE}:events:details")
    return [
        wire.Event(
            event=row["event"],
            start_time=precise(row["started_at"]),
            finish_time=precise_or_none(row["finished_at"]),
            result=row["result"],
            traceback=None if everything else UNSET,
            host=row["host"] if everything else UNSET,
            host_id=host_id(found.project_id, row["host"]),
            details=row["details"] if details else UNSET,
        )
        for row in found.events
    ]


async def external_events(request: Request) -> Response:
    """POST /os-server-external-events"""
    asked = (await request.struct(wire.ExternalEvents)).events
    for event in asked:
        if wire.EVENTS.get(event.name, (9, 0)) > request.version:
            raise Invalid(
                f"Invalid input for field/attribute name: {event.name!r} is no event at this version"
            )
    codes = await request.cloud.db.write(
        instance_actions.take,
        request.caller,
        [
            instance_actions.Event(
                event.server_uuid, event.name, event.tag if isinstance(event.tag, str) else None
            )
            for event in asked
        ],
    )
    events = []
    for event, code in zip(asked, codes, strict=True):
        body: dict[str, Any] = {
            "name": event.name,
            "server_uuid": event.server_uuid,
            "status": "completed" if code == 200 else "failed",
            "code": code,
        }
        if isinstance(event.tag, str):
            body["tag"] = event.tag
        events.append(body)
    return Response(200 if set(codes) == {200} else 207, {"events": events})


RULES = {f"{_RULE}:events": ADMIN, f"{_RULE}:events:details": ADMIN}

_ALL = "/v2.1/servers/{server_id}/os-instance-actions"
_SERVICE = "rule:service_api"

ROUTES = (
    Route("GET", _ALL, index, f"{_RULE}:list", READER),
    Route("GET", f"{_ALL}/{{request_id}}", show, f"{_RULE}:show", READER),
    Route(
        "POST", "/v2.1/os-server-external-events", external_events,
        "os_compute_api:os-server-external-events:create", _SERVICE,
    ),
)  # fmt: skip
