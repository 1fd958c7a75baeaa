"""User messages. See the Block Storage API reference, "Messages", since 3.3."""

from __future__ import annotations

from typing import Any

from cumulet.api.asgi import Route
from cumulet.api.request import Request, Response, no_content, ok
from cumulet.api.volume import page
from cumulet.core import volume_messages
from cumulet.core.policy import MEMBER, READER
from cumulet.db.engine import Row
from cumulet.db.query import MarkerNotFound, Query
from cumulet.errors import NotFound
from cumulet.wire.forms import precise


def _shown(request: Request, row: Row) -> dict[str, Any]:
    return {
        "id": row["id"],
        "event_id": row["event_id"],
        "user_message": row["user_message"],
        "message_level": row["message_level"],
        "created_at": precise(row["created_at"]),
        "guaranteed_until": precise(row["expires_at"]),
        "request_id": row["request_id"],
        "resource_type": row["resource_type"],
        "resource_uuid": row["resource_uuid"],
        "links": page.links(request, "messages", row["id"]),
    }


async def index(request: Request) -> Response:
    """GET /messages; in pages since 3.5"""
    query, found = Query(limit=page.PAGE), {}
    if request.version >= (3, 5):
        query = page.page_of(request, volume_messages.SORTABLE)
        found = page.parameters(request, "message")
    try:
        rows = await request.cloud.db.read(volume_messages.listing, request.caller, query, found)
    except MarkerNotFound as error:
        raise NotFound(f"Message {error} could not be found.") from None
    body = {"messages": [_shown(request, row) for row in rows]}
    return ok(page.with_more(body, "messages_links", request, query, [row["id"] for row in rows]))


async def show(request: Request) -> Response:
    """GET /messages/{message_id}"""
    row = await request.cloud.db.read(volume_messages.find, request.caller, request.params["message_id"])
    return ok({"message": _shown(request, row)})


async def delete(request: Request) -> Response:
    """DELETE /messages/{message_id}"""
    await request.cloud.db.write(volume_messages.delete, request.caller, request.params["message_id"])
    return no_content()


ROUTES = (
    Route("GET", "/v3/messages", index, "message:get_all", READER, since=(3, 3)),
    Route("GET", "/v3/messages/{message_id}", show, "message:get", READER, since=(3, 3)),
    Route("DELETE", "/v3/messages/{message_id}", delete, "message:delete", MEMBER, since=(3, 3)),
)
