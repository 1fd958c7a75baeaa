"""Attachments. See the Block Storage API reference, "Attachments (attachments)", since 3.27."""

from __future__ import annotations

from typing import Any

from cumulet.api.asgi import Route
from cumulet.api.request import Request, Response, no_content, ok
from cumulet.api.volume import page
from cumulet.api.volume.exports import ended, exported
from cumulet.core.policy import MEMBER, READER
from cumulet.core.volumes import clients
from cumulet.db.engine import Row
from cumulet.wire import volume_attachments as wire
from cumulet.wire.body import encode
from cumulet.wire.forms import precise

_USABLE = ("volume_id", "status", "instance_id", "attach_status")


def _basic(request: Request, row: Row) -> dict[str, Any]:
    body = wire.Basic(
        id=row["id"], status=row["status"], instance=row["server_id"], volume_id=row["volume_id"]
    )
    return encode(body, request.version)


def _full(request: Request, row: Row) -> dict[str, Any]:
    body = wire.Full(
        id=row["id"],
        status=row["status"],
        instance=row["server_id"],
        volume_id=row["volume_id"],
        attached_at=precise(row["attached_at"]) if row["attached_at"] is not None else "",
        detached_at="",
        attach_mode=row["mode"],
        connection_info=_info(row),
    )
    return encode(body, request.version)


def _info(row: Row) -> dict[str, Any]:
    """How to reach the volume; nothing while it is not exported."""
    info = row["connection_info"]
    if info is None:
        return {}
    return {
        **{name: value for name, value in info.items() if name != "driver"},
        "driver_volume_type": info.get("driver"),
        "attachment_id": row["id"],
        "volume_id": row["volume_id"],
        "access_mode": row["mode"],
        "encrypted": False,
        "cacheable": False,
        "qos_specs": row.get("qos"),
    }


async def index(request: Request) -> Response:
    """GET /attachments"""
    return ok({"attachments": [_basic(request, row) for row in await _list(request)]})


async def detail(request: Request) -> Response:
    """GET /attachments/detail"""
    return ok({"attachments": [_full(request, row) for row in await _list(request)]})


async def _list(request: Request) -> list[Row]:
    query = page.page_of(request, clients.SORTABLE)
    found = page.parameters(request, "attachment", allowed=_USABLE)
    found.pop("all_tenants", None)
    return await request.cloud.db.read(
        clients.attachments, request.caller, query, found, everybody=page.everybody(request)
    )


async def show(request: Request) -> Response:
    """GET /attachments/{attachment_id}"""
    row = await request.cloud.db.read(clients.find, request.caller, request.params["attachment_id"])
    return ok({"attachment": _full(request, row)})


async def create(request: Request) -> Response:
    """POST /attachments; with a connector the answer says how to reach the volume"""
    asked = (await request.struct(wire.Create)).attachment
    row = await request.cloud.db.write(
        clients.create, request.caller, asked.volume_uuid, asked.instance_uuid, asked.connector, asked.mode
    )
    if asked.connector:
        row = await exported(request, row["volume_id"], row["id"])
    return ok({"attachment": _full(request, row)})


async def update(request: Request) -> Response:
    """PUT /attachments/{attachment_id}; the answer says how to reach the volume"""
    asked = (await request.struct(wire.Update)).attachment
    row = await request.cloud.db.write(
        clients.connect, request.caller, request.params["attachment_id"], asked.connector
    )
    return ok({"attachment": _full(request, await exported(request, row["volume_id"], row["id"]))})


async def complete(request: Request) -> Response:
    """POST /attachments/{attachment_id}/action {"os-complete": null}, since 3.44"""
    await request.cloud.db.write(clients.complete, request.caller, request.params["attachment_id"])
    return no_content()


async def delete(request: Request) -> Response:
    """DELETE /attachments/{attachment_id}; answers what other attachments the volume has"""
    id = request.params["attachment_id"]
    volume = await request.cloud.db.write(clients.delete, request.caller, id)
    await ended(request, volume, [id])
    rest = await request.cloud.db.read(clients.of_volume, volume)
    return ok({"attachments": [_basic(request, row) for row in rest]})


_ALL = "/v3/attachments"
_ONE = f"{_ALL}/{{attachment_id}}"
_SINCE = (3, 27)
# Reading attachments has no rule upstream: whoever sees the volume may.
_READ = "volume:attachment_get"

ROUTES = (
    Route("GET", _ALL, index, _READ, READER, since=_SINCE),
    Route("POST", _ALL, create, "volume:attachment_create", MEMBER, since=_SINCE),
    Route("GET", f"{_ALL}/detail", detail, _READ, READER, since=_SINCE),
    Route("GET", _ONE, show, _READ, READER, since=_SINCE),
    Route("PUT", _ONE, update, "volume:attachment_update", MEMBER, since=_SINCE),
    Route("DELETE", _ONE, delete, "volume:attachment_delete", MEMBER, since=_SINCE),
    Route("POST", f"{_ONE}/action", complete, "volume:attachment_complete", MEMBER, since=(3, 44), action="os-complete"),
)  # fmt: skip
