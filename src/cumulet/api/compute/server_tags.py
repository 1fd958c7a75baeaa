"""Tags of servers, since 2.26. See the compute API reference, "Server tags"."""

from __future__ import annotations

from urllib.parse import quote

from cumulet.api.asgi import Route
from cumulet.api.compute.links import PREFIX
from cumulet.api.request import Request, Response, no_content, ok
from cumulet.core.policy import MEMBER, READER
from cumulet.core.servers import tags
from cumulet.errors import Invalid
from cumulet.wire import server_parts as wire
from cumulet.wire import servers

_RULE = "os_compute_api:os-server-tags"


async def index(request: Request) -> Response:
    """GET /servers/{server_id}/tags"""
    found = await request.cloud.db.read(tags.listing, request.caller, request.params["server_id"])
    return ok({"tags": found})


async def show(request: Request) -> Response:
    """GET /servers/{server_id}/tags/{tag}: is it there?"""
    await request.cloud.db.read(
        tags.check, request.caller, request.params["server_id"], request.params["tag"]
    )
    return no_content()


async def update(request: Request) -> Response:
    """PUT /servers/{server_id}/tags/{tag}"""
    server_id, tag = request.params["server_id"], request.params["tag"]
    try:
        servers.check_tag(tag)
    except ValueError as error:
        raise Invalid(f"Tag is invalid: {error}") from None
    if not await request.cloud.db.write(tags.add, request.caller, server_id, tag):
        return no_content()
    place = request.url(f"{PREFIX}/v2.1/servers/{server_id}/tags/{quote(tag, safe='')}")
    return Response(201, headers=[("Location", place)])


async def update_all(request: Request) -> Response:
    """PUT /servers/{server_id}/tags"""
    asked = await request.struct(wire.Tags)
    found = await request.cloud.db.write(
        tags.replace, request.caller, request.params["server_id"], asked.tags
    )
    return ok({"tags": found})


async def delete(request: Request) -> Response:
    """DELETE /servers/{server_id}/tags/{tag}"""
    await request.cloud.db.write(
        tags.remove, request.caller, request.params["server_id"], request.params["tag"]
    )
    return no_content()


async def delete_all(request: Request) -> Response:
    """DELETE /servers/{server_id}/tags"""
    await request.cloud.db.write(tags.clear, request.caller, request.params["server_id"])
    return no_content()


_ALL = "/v2.1/servers/{server_id}/tags"
_ONE = f"{_ALL}/{{tag}}"
_SINCE = (2, 26)

ROUTES = (
    Route("GET", _ALL, index, f"{_RULE}:index", READER, since=_SINCE),
    Route("PUT", _ALL, update_all, f"{_RULE}:update_all", MEMBER, since=_SINCE),
    Route("DELETE", _ALL, delete_all, f"{_RULE}:delete_all", MEMBER, since=_SINCE),
    Route("GET", _ONE, show, f"{_RULE}:show", READER, since=_SINCE),
    Route("PUT", _ONE, update, f"{_RULE}:update", MEMBER, since=_SINCE),
    Route("DELETE", _ONE, delete, f"{_RULE}:delete", MEMBER, since=_SINCE),
)
