"""Volumes of servers. See the compute API reference, "Servers with volume attachments"."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from cumulet.api.asgi import Route
from cumulet.api.compute import permit
from cumulet.api.compute.links import page_of
from cumulet.api.query import only
from cumulet.api.request import Request, Response, accepted, boolean, ok
from cumulet.core.policy import MEMBER, READER
from cumulet.core.servers import volume_attachments
from cumulet.core.servers.volume_attachments import Attached
from cumulet.wire import server_parts as wire
from cumulet.wire.body import encode

_RULE = "os_compute_api:os-volumes-attachments"


def _body(request: Request, one: Attached) -> dict[str, Any]:
    body = wire.VolumeAttachment(
        volumeId=one.volume_id,
        serverId=one.server_id,
        id=one.volume_id,
        device=one.device,
        tag=one.tag,
        delete_on_termination=one.delete_on_termination,
        attachment_id=one.attachment_id,
        bdm_uuid=one.id,
    )
    return encode(body, request.version)


async def index(request: Request) -> Response:
    """GET /servers/{server_id}/os-volume_attachments"""
    if request.version >= (2, 75):
        only(request, "limit", "offset")
    query = page_of(request)
    found = await request.cloud.db.read(
        volume_attachments.listing, request.caller, request.params["server_id"]
    )
    limit = query.limit or len(found)
    return ok({"volumeAttachments": [_body(request, one) for one in found[query.offset :][:limit]]})


async def show(request: Request) -> Response:
    """GET /servers/{server_id}/os-volume_attachments/{volume_id}"""
    found = await request.cloud.db.read(
        volume_attachments.show, request.caller, request.params["server_id"], request.params["volume_id"]
    )
    return ok({"volumeAttachment": _body(request, found)})


async def create(request: Request) -> Response:
    """POST /servers/{server_id}/os-volume_attachments; since 2.101 without an answer but the status"""
    asked = (await request.struct(wire.AttachVolume)).volumeAttachment
    made = await request.cloud.db.write(
        volume_attachments.attach,
        request.caller,
        request.params["server_id"],
        volume_attachments.Attach(
            volume_id=asked.volumeId,
            device=asked.device,
            tag=asked.tag if isinstance(asked.tag, str) else None,
            delete_on_termination=boolean(asked.delete_on_termination, "delete_on_termination"),
            multiattach=request.version >= (2, 60),
            shelved=request.version >= (2, 20),
        ),
    )
    if request.version >= (2, 101):
        return accepted()
    body = wire.VolumeAttached(
        id=made.volume_id,
        serverId=made.server_id,
        volumeId=made.volume_id,
        device=made.device,
        tag=made.tag,
        delete_on_termination=made.delete_on_termination,
    )
    return ok({"volumeAttachment": encode(body, request.version)})


async def update(request: Request) -> Response:
    """PUT /servers/{server_id}/os-volume_attachments/{volume_id}: until 2.84, or with another volume, a swap"""
    asked = (await request.struct(wire.ChangeVolume)).volumeAttachment
    server_id, volume_id = request.params["server_id"], request.params["volume_id"]
    swaps = request.version < (2, 85) or asked.volumeId != volume_id
    if swaps:
        permit.require(request, f"{_RULE}:swap")
    if request.version >= (2, 85):
        given = {
            name: getattr(asked, name)
            for name in ("id", "serverId", "device", "tag", "delete_on_termination")
            if getattr(asked, name) is not UNSET
        }
        if "delete_on_termination" in given:
            given["delete_on_termination"] = boolean(given["delete_on_termination"], "delete_on_termination")
        await request.cloud.db.write(volume_attachments.update, request.caller, server_id, volume_id, given)
    if swaps:
        await request.cloud.db.write(
            volume_attachments.swap, request.caller, server_id, volume_id, asked.volumeId
        )
    return accepted()


async def delete(request: Request) -> Response:
    """DELETE /servers/{server_id}/os-volume_attachments/{volume_id}"""
    await request.cloud.db.write(
        volume_attachments.detach,
        request.caller,
        request.params["server_id"],
        request.params["volume_id"],
        shelved=request.version >= (2, 20),
    )
    return accepted()


#: The upstream default is the service role alone.
RULES = {f"{_RULE}:swap": "rule:service_api"}

_ALL = "/v2.1/servers/{server_id}/os-volume_attachments"
_ONE = f"{_ALL}/{{volume_id}}"

ROUTES = (
    Route("GET", _ALL, index, f"{_RULE}:index", READER),
    Route("POST", _ALL, create, f"{_RULE}:create", MEMBER),
    Route("GET", _ONE, show, f"{_RULE}:show", READER),
    Route("PUT", _ONE, update, f"{_RULE}:update", f"{MEMBER} or rule:service_api"),
    Route("DELETE", _ONE, delete, f"{_RULE}:delete", MEMBER),
)
