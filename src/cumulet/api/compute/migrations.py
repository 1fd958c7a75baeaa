"""Moves of servers from host to host. There are none to show: servers do not move yet.

See the compute API reference, "Migrations (os-migrations)".
"""

from __future__ import annotations

from cumulet.api.asgi import Route
from cumulet.api.compute.server_filters import moment
from cumulet.api.query import only, whole
from cumulet.api.request import Request, Response, ok
from cumulet.core.policy import ADMIN
from cumulet.errors import Invalid

_FILTERS = ("hidden", "host", "instance_uuid", "source_compute", "status", "migration_type")
_ONCE = ("limit", "marker", "changes-since", "changes-before", "user_id", "project_id")


async def index(request: Request) -> Response:
    """GET /os-migrations; in pages since 2.59"""
    if request.version >= (2, 59):
        _check(request)
    return ok({"migrations": []})


def _check(request: Request) -> None:
    known = [*_FILTERS, "limit", "marker", "changes-since"]
    if request.version >= (2, 66):
        known.append("changes-before")
    if request.version >= (2, 80):
        known += ["user_id", "project_id"]
    only(request, *known)
    for name in _ONCE:
        if len(request.args(name)) > 1:
            raise Invalid(f"Invalid input for query parameters {name}: it can be given once.")
    whole(request, "limit")
    times = {name: request.arg(name) for name in ("changes-since", "changes-before")}
    since, before = (moment(text, name) if text else None for name, text in times.items())
    if since is not None and before is not None and before < since:
        raise Invalid("The value of changes-since must be less than or equal to changes-before.")
    marker = request.arg("marker")
    if marker:
        raise Invalid(f"Marker {marker[:255]} could not be found.")


ROUTES = (Route("GET", "/v2.1/os-migrations", index, "os_compute_api:os-migrations:index", ADMIN),)
