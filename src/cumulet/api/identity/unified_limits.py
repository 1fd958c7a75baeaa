"""/v3/registered_limits and /v3/limits. See the API reference, "Unified limits"."""

from __future__ import annotations

from typing import Any

from cumulet.api.asgi import Route
from cumulet.api.identity import lists
from cumulet.api.identity.body import changes, read
from cumulet.api.identity.checks import ADMIN, ADMIN_OR_READER
from cumulet.api.request import Request, Response, created, no_content, ok
from cumulet.core import unified_limits as limits
from cumulet.core.policy import ANYONE
from cumulet.db.engine import Row
from cumulet.db.query import MarkerNotFound
from cumulet.wire.identity import LimitChange, Limits, RegisteredLimitChange, RegisteredLimits


def registered_view(request: Request, limit: Row) -> dict[str, Any]:
    return {**limit, "links": lists.links(request, f"registered_limits/{limit['id']}")}


def view(request: Request, limit: Row) -> dict[str, Any]:
    shown = {name: value for name, value in limit.items() if name != "registered_limit_id"}
    return {**shown, "links": lists.links(request, f"limits/{limit['id']}")}


async def list_registered(request: Request) -> Response:
    """GET /v3/registered_limits"""
    query = lists.page(request)
    matches = lists.matches(request, *limits.COLUMNS)
    try:
        found = await request.cloud.db.read(limits.find_registered, matches, query)
    except MarkerNotFound as error:
        raise lists.unknown_marker(error) from None
    members = [registered_view(request, row) for row in found]
    return lists.collection(request, "registered_limits", members, query)


async def register(request: Request) -> Response:
    """POST /v3/registered_limits: several at once, all or none"""
    body = await request.struct(RegisteredLimits)
    made = await request.cloud.db.write(limits.register, [changes(one) for one in body.registered_limits])
    return created({"registered_limits": [registered_view(request, row) for row in made]})


async def show_registered(request: Request) -> Response:
    """GET /v3/registered_limits/{registered_limit_id}"""
    found = await request.cloud.db.read(limits.show_registered, request.params["registered_limit_id"])
    return ok({"registered_limit": registered_view(request, found)})


async def update_registered(request: Request) -> Response:
    """PATCH /v3/registered_limits/{registered_limit_id}"""
    body, _ = await read(request, "registered_limit", RegisteredLimitChange, own=False, strict=True)
    made = await request.cloud.db.write(
        limits.update_registered, request.params["registered_limit_id"], changes(body)
    )
    return ok({"registered_limit": registered_view(request, made)})


async def delete_registered(request: Request) -> Response:
    """DELETE /v3/registered_limits/{registered_limit_id}"""
    await request.cloud.db.write(limits.delete_registered, request.params["registered_limit_id"])
    return no_content()


async def index(request: Request) -> Response:
    """GET /v3/limits"""
    query = lists.page(request)
    matches = lists.matches(request, *limits.COLUMNS, "project_id", "domain_id")
    try:
        found = await request.cloud.db.read(limits.find, request.caller, matches, query)
    except MarkerNotFound as error:
        raise lists.unknown_marker(error) from None
    return lists.collection(request, "limits", [view(request, row) for row in found], query)


async def create(request: Request) -> Response:
    """POST /v3/limits: several at once, all or none"""
    body = await request.struct(Limits)
    made = await request.cloud.db.write(limits.create, [changes(one) for one in body.limits])
    return created({"limits": [view(request, row) for row in made]})


async def show(request: Request) -> Response:
    """GET /v3/limits/{limit_id}"""
    found = await request.cloud.db.read(limits.show, request.params["limit_id"])
    return ok({"limit": view(request, found)})


async def update(request: Request) -> Response:
    """PATCH /v3/limits/{limit_id}"""
    body, _ = await read(request, "limit", LimitChange, own=False, strict=True)
    made = await request.cloud.db.write(limits.update, request.params["limit_id"], changes(body))
    return ok({"limit": view(request, made)})


async def delete(request: Request) -> Response:
    """DELETE /v3/limits/{limit_id}"""
    await request.cloud.db.write(limits.delete, request.params["limit_id"])
    return no_content()


async def model(request: Request) -> Response:
    """GET /v3/limits/model"""
    text = "Limit enforcement and validation does not take project hierarchy into consideration."
    return ok({"model": {"name": "flat", "description": text}})


_REGISTERED = "/v3/registered_limits/{registered_limit_id}"
_SEE = (
    f"{ADMIN_OR_READER} or (domain_id:%(target.limit.domain.id)s or domain_id:%(target.limit.project.domain_id)s)"
    " or (project_id:%(target.limit.project_id)s and not None:%(target.limit.project_id)s)"
)

ROUTES = (
    Route("GET", "/v3/registered_limits", list_registered, "identity:list_registered_limits", ANYONE),
    Route("POST", "/v3/registered_limits", register, "identity:create_registered_limits", ADMIN),
    Route("GET", _REGISTERED, show_registered, "identity:get_registered_limit", ANYONE),
    Route("PATCH", _REGISTERED, update_registered, "identity:update_registered_limit", ADMIN),
    Route("DELETE", _REGISTERED, delete_registered, "identity:delete_registered_limit", ADMIN),
    Route("GET", "/v3/limits", index, "identity:list_limits", ANYONE),
    Route("POST", "/v3/limits", create, "identity:create_limits", ADMIN),
    Route("GET", "/v3/limits/model", model, "identity:get_limit_model", ANYONE),
    Route("GET", "/v3/limits/{limit_id}", show, "identity:get_limit", _SEE),
    Route("PATCH", "/v3/limits/{limit_id}", update, "identity:update_limit", ADMIN),
    Route("DELETE", "/v3/limits/{limit_id}", delete, "identity:delete_limit", ADMIN),
)
