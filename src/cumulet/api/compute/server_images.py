"""Images that are made of servers. See the compute API reference, "Create image" and "Create server back up"."""

from __future__ import annotations

from cumulet.api.asgi import Route
from cumulet.api.compute import permit
from cumulet.api.compute.links import PREFIX
from cumulet.api.request import Request, Response, accepted
from cumulet.core.policy import MEMBER
from cumulet.core.servers import snapshots
from cumulet.wire import server_actions as wire

_VOLUME_BACKED = "os_compute_api:servers:create_image:allow_volume_backed"


async def create_image(request: Request) -> Response:
    """{"createImage": {"name": …}}"""
    asked = request.action_as(wire.Image)
    id = await request.cloud.db.write(
        snapshots.create_image,
        request.caller,
        request.params["server_id"],
        asked.name,
        asked.metadata,
        counted=request.version < (2, 39),
        volume_backed=permit.allows(request, _VOLUME_BACKED),
    )
    return _made(request, id, f"/image/v2/images/{id}")


async def create_backup(request: Request) -> Response:
    """{"createBackup": {"name": …, "backup_type": …, "rotation": 1}}"""
    asked = request.action_as(wire.Backup)
    id = await request.cloud.db.write(
        snapshots.create_backup,
        request.caller,
        request.params["server_id"],
        asked.name,
        asked.backup_type,
        asked.rotation,
        asked.metadata,
        counted=request.version < (2, 39),
    )
    # One that no rotation keeps is nowhere to be found.
    return _made(request, id, f"{PREFIX}/v2.1/images/{id}" if asked.rotation else None)


def _made(request: Request, id: str, path: str | None) -> Response:
    """Since 2.45 the id is in the body; before, it ends the address in a header."""
    if request.version >= (2, 45):
        return accepted({"image_id": id})
    return accepted(None, ("Location", request.url(path))) if path is not None else accepted()


RULES = {_VOLUME_BACKED: MEMBER}

_ACTION = "/v2.1/servers/{server_id}/action"

ROUTES = (
    Route("POST", _ACTION, create_image, "os_compute_api:servers:create_image", MEMBER, action="createImage"),
    Route("POST", _ACTION, create_backup, "os_compute_api:os-create-backup", MEMBER, action="createBackup"),
)
