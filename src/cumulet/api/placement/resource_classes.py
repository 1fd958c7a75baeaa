"""Resource classes. See the Placement API reference, "Resource Classes"."""

from __future__ import annotations

from typing import Any

from cumulet.api.asgi import Route
from cumulet.api.placement.answer import PREFIX, check_accept, fresh, made, struct
from cumulet.api.placement.providers import CHECK
from cumulet.api.request import Request, Response, no_content
from cumulet.core import resource_classes
from cumulet.errors import Conflict
from cumulet.wire import placement as wire
from cumulet.wire.body import decode


def _body(name: str) -> dict[str, Any]:
    return {"name": name, "links": [{"rel": "self", "href": f"{PREFIX}/resource_classes/{name}"}]}


async def index(request: Request) -> Response:
    """GET /resource_classes"""
    check_accept(request)
    found = await request.cloud.db.read(resource_classes.listing)
    body = {"resource_classes": [_body(row["name"]) for row in found]}
    return fresh(request, body, [row["created_at"] for row in found])


async def create(request: Request) -> Response:
    """POST /resource_classes"""
    name = (await struct(request, wire.NamedClass)).name
    if not await request.cloud.db.write(resource_classes.create, name):
        raise Conflict(f"Conflicting resource class already exists: {name}")
    return made(request, 201, f"/resource_classes/{name}")


async def show(request: Request) -> Response:
    """GET /resource_classes/{name}"""
    check_accept(request)
    row = await request.cloud.db.read(resource_classes.find, request.params["name"])
    return fresh(request, _body(row["name"]), [row["created_at"]])


async def rename(request: Request) -> Response:
    """PUT /resource_classes/{name}, until 1.6"""
    to = (await struct(request, wire.NamedClass)).name
    await request.cloud.db.write(resource_classes.rename, request.params["name"], to)
    return Response(200, _body(to))


async def ensure(request: Request) -> Response:
    """PUT /resource_classes/{name}, since 1.7: make it, unless it is there"""
    name = decode({"name": request.params["name"]}, wire.NamedClass, request.version).name
    new = await request.cloud.db.write(resource_classes.create, name)
    return made(request, 201 if new else 204, f"/resource_classes/{name}")


async def delete(request: Request) -> Response:
    """DELETE /resource_classes/{name}"""
    await request.cloud.db.write(resource_classes.delete, request.params["name"])
    return no_content()


_ONE = "/resource_classes/{name}"
_RULE = "placement:resource_classes"

ROUTES = (
    Route("GET", "/resource_classes", index, f"{_RULE}:list", CHECK, since=(1, 2)),
    Route("POST", "/resource_classes", create, f"{_RULE}:create", CHECK, since=(1, 2)),
    Route("GET", _ONE, show, f"{_RULE}:show", CHECK, since=(1, 2)),
    Route("PUT", _ONE, rename, f"{_RULE}:update", CHECK, since=(1, 2), until=(1, 6)),
    Route("PUT", _ONE, ensure, f"{_RULE}:update", CHECK, since=(1, 7)),
    Route("DELETE", _ONE, delete, f"{_RULE}:delete", CHECK, since=(1, 2)),
)
