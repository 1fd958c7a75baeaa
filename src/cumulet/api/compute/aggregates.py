"""Host aggregates. See the compute API reference, "Host aggregates"."""

from __future__ import annotations

import re
from typing import Any

from cumulet.api.asgi import Route
from cumulet.api.request import Request, Response, ok
from cumulet.core import aggregates
from cumulet.core.aggregates import Aggregate
from cumulet.core.policy import ADMIN
from cumulet.errors import Invalid
from cumulet.wire import aggregates as wire
from cumulet.wire import forms
from cumulet.wire.body import encode


def _full(request: Request, aggregate: Aggregate) -> dict[str, Any]:
    body = wire.Full(
        id=aggregate.number,
        uuid=aggregate.id,
        name=aggregate.name,
        availability_zone=aggregate.zone,
        created_at=forms.precise(aggregate.created_at),
        updated_at=forms.precise_or_none(aggregate.updated_at),
        hosts=list(aggregate.hosts),
        metadata=dict(aggregate.metadata),
    )
    return encode(body, request.version)


def _one(request: Request, aggregate: Aggregate) -> Response:
    return ok({"aggregate": _full(request, aggregate)})


def _number(request: Request) -> int:
    text = request.params["aggregate_id"]
    if not re.fullmatch(r"-?[0-9]{1,10}", text):
        raise Invalid(f"id must be an integer, not {text[:50]!r}")
    return int(text)


async def index(request: Request) -> Response:
    """GET /os-aggregates"""
    found = await request.cloud.db.read(aggregates.listing)
    return ok({"aggregates": [_full(request, aggregate) for aggregate in found]})


async def create(request: Request) -> Response:
    """POST /os-aggregates"""
    asked = (await request.struct(wire.Create)).aggregate
    made = await request.cloud.db.write(aggregates.create, asked.name, asked.availability_zone)
    body = _full(request, made)
    return ok({"aggregate": {key: body[key] for key in body if key not in ("hosts", "metadata")}})


async def show(request: Request) -> Response:
    """GET /os-aggregates/{aggregate_id}"""
    return _one(request, await request.cloud.db.read(aggregates.find, _number(request)))


async def update(request: Request) -> Response:
    """PUT /os-aggregates/{aggregate_id}"""
    asked = (await request.struct(wire.Update)).aggregate
    name = asked.name.strip() if isinstance(asked.name, str) else None
    return _one(
        request,
        await request.cloud.db.write(aggregates.update, _number(request), name, asked.availability_zone),
    )


async def delete(request: Request) -> Response:
    """DELETE /os-aggregates/{aggregate_id}"""
    await request.cloud.db.write(aggregates.delete, _number(request))
    return Response(200)


async def add_host(request: Request) -> Response:
    """POST /os-aggregates/{aggregate_id}/action {"add_host": …}"""
    asked = request.action_as(wire.Member)
    return _one(request, await request.cloud.db.write(aggregates.add_host, _number(request), asked.host))


async def remove_host(request: Request) -> Response:
    """POST /os-aggregates/{aggregate_id}/action {"remove_host": …}"""
    asked = request.action_as(wire.Member)
    return _one(request, await request.cloud.db.write(aggregates.remove_host, _number(request), asked.host))


async def set_metadata(request: Request) -> Response:
    """POST /os-aggregates/{aggregate_id}/action {"set_metadata": …}"""
    asked = request.action_as(wire.Metadata)
    return _one(
        request, await request.cloud.db.write(aggregates.set_metadata, _number(request), asked.metadata)
    )


_RULE = "os_compute_api:os-aggregates"
_ONE = "/v2.1/os-aggregates/{aggregate_id}"

ROUTES = (
    Route("GET", "/v2.1/os-aggregates", index, f"{_RULE}:index", ADMIN),
    Route("POST", "/v2.1/os-aggregates", create, f"{_RULE}:create", ADMIN),
    Route("GET", _ONE, show, f"{_RULE}:show", ADMIN),
    Route("PUT", _ONE, update, f"{_RULE}:update", ADMIN),
    Route("DELETE", _ONE, delete, f"{_RULE}:delete", ADMIN),
    Route("POST", f"{_ONE}/action", add_host, f"{_RULE}:add_host", ADMIN, action="add_host"),
    Route("POST", f"{_ONE}/action", remove_host, f"{_RULE}:remove_host", ADMIN, action="remove_host"),
    Route("POST", f"{_ONE}/action", set_metadata, f"{_RULE}:set_metadata", ADMIN, action="set_metadata"),
)
