"""What is served below no service's prefix: the list of services, and a health check."""

from __future__ import annotations

from cumulet import __version__
from cumulet.api import faults
from cumulet.api.asgi import Area, Route
from cumulet.api.request import Request, Response, ok
from cumulet.core.catalog import SERVED


async def index(request: Request) -> Response:
    """Where the services are."""
    services = {served.type: request.url(served.path) for served in SERVED}
    return ok({"name": "cumulet", "version": __version__, "services": services})


async def health(request: Request) -> Response:
    """200 while the database answers; errors.Unavailable becomes 503."""
    await request.cloud.db.read(lambda tx: tx.value("select 1"))
    return ok({"status": "ok"})


ROUTES = (
    Route("GET", "/", index),
    Route("GET", "/healthz", health),
)
AREA = Area(name="root", prefix="/", dialect=faults.identity, routes=ROUTES)
