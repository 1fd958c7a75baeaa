"""Metadata of servers. See the compute API reference, "Server metadata"."""

from __future__ import annotations

from cumulet.api.asgi import Route
from cumulet.api.request import Request, Response, no_content, ok
from cumulet.core.policy import MEMBER, READER
from cumulet.core.servers import server_metadata
from cumulet.errors import Invalid
from cumulet.wire import server_parts as wire

_RULE = "os_compute_api:server-metadata"


async def index(request: Request) -> Response:
    """GET /servers/{server_id}/metadata"""
    found = await request.cloud.db.read(server_metadata.all_of, request.caller, request.params["server_id"])
    return ok({"metadata": found})


async def show(request: Request) -> Response:
    """GET /servers/{server_id}/metadata/{key}"""
    key = request.params["key"]
    value = await request.cloud.db.read(
        server_metadata.item, request.caller, request.params["server_id"], key
    )
    return ok({"meta": {key: value}})


async def create(request: Request) -> Response:
    """POST /servers/{server_id}/metadata: these items too"""
    return await _change(request, replace=False)


async def update_all(request: Request) -> Response:
    """PUT /servers/{server_id}/metadata: these items and no others"""
    return await _change(request, replace=True)


async def _change(request: Request, *, replace: bool) -> Response:
    asked = await request.struct(wire.Metadata)
    found = await request.cloud.db.write(
        server_metadata.change, request.caller, request.params["server_id"], asked.metadata, replace=replace
    )
    return ok({"metadata": found})


async def update(request: Request) -> Response:
    """PUT /servers/{server_id}/metadata/{key}"""
    asked = await request.struct(wire.MetadataItem)
    if request.params["key"] not in asked.meta:
        raise Invalid("Request body and URI mismatch: the body must hold the item that the path names.")
    await request.cloud.db.write(
        server_metadata.change, request.caller, request.params["server_id"], asked.meta
    )
    return ok({"meta": asked.meta})


async def delete(request: Request) -> Response:
    """DELETE /servers/{server_id}/metadata/{key}"""
    await request.cloud.db.write(
        server_metadata.delete, request.caller, request.params["server_id"], request.params["key"]
    )
    return no_content()


_ALL = "/v2.1/servers/{server_id}/metadata"
_ONE = f"{_ALL}/{{key}}"

ROUTES = (
    Route("GET", _ALL, index, f"{_RULE}:index", READER),
    Route("POST", _ALL, create, f"{_RULE}:create", MEMBER),
    Route("PUT", _ALL, update_all, f"{_RULE}:update_all", MEMBER),
    Route("GET", _ONE, show, f"{_RULE}:show", READER),
    Route("PUT", _ONE, update, f"{_RULE}:update", MEMBER),
    Route("DELETE", _ONE, delete, f"{_RULE}:delete", MEMBER),
)
