"""Backups of volumes, of a cloud that makes none: no backup service runs here.

Clients that clean up or count a project ask for its backups before anything else, and take a missing route for a
broken service. See the Block Storage API reference, "Backups".
"""

from __future__ import annotations

from cumulet.api.asgi import Route
from cumulet.api.request import Request, Response, ok
from cumulet.api.volume import page
from cumulet.core.policy import MEMBER, READER
from cumulet.core.volumes import listing
from cumulet.errors import Invalid, NotFound, Unavailable

_SORTABLE = frozenset({"id", "status", "volume_id", "created_at", "name", "size"})


class _NoService(Unavailable):
    #: It does not come by waiting.
    retry_after = None


async def index(request: Request) -> Response:
    """GET /backups and /backups/detail"""
    query = page.page_of(request, _SORTABLE)
    if query.marker is not None:
        raise _missing(query.marker)
    return ok({"backups": []})


async def create(request: Request) -> Response:
    """POST /backups"""
    body = (await request.document()).get("backup")
    id = body.get("volume_id") if isinstance(body, dict) else None
    if not isinstance(id, str):
        raise Invalid("Invalid input for field/attribute backup.volume_id: the id of a volume was expected.")
    await request.cloud.db.read(listing.find, request.caller, id)
    raise _NoService("Service cinder-backup could not be found. This cloud makes no backups of volumes.")


async def show(request: Request) -> Response:
    """GET, PUT and DELETE /backups/{backup_id}"""
    raise _missing(request.params["backup_id"])


def _missing(id: str) -> NotFound:
    return NotFound(f"Backup {id} could not be found.")


ROUTES = (
    Route("GET", "/v3/backups", index, "backup:get_all", READER),
    Route("POST", "/v3/backups", create, "backup:create", MEMBER),
    Route("GET", "/v3/backups/detail", index, "backup:get_all", READER),
    Route("GET", "/v3/backups/{backup_id}", show, "backup:get", READER),
    Route("PUT", "/v3/backups/{backup_id}", show, "backup:update", MEMBER, since=(3, 9)),
    Route("DELETE", "/v3/backups/{backup_id}", show, "backup:delete", MEMBER),
)
