"""What is served below no service's prefix: the list of services, and a health check."""

from __future__ import annotations

from typing import Any

from cumulet import __version__
from cumulet.api import faults
from cumulet.api.asgi import Area, Route
from cumulet.api.request import Request, Response, ok
from cumulet.core.catalog import SERVED
from cumulet.db.engine import Tx
from cumulet.reconcile import agents, mode


async def index(request: Request) -> Response:
    """Where the services are."""
    services = {served.type: request.url(served.path) for served in SERVED}
    return ok({"name": "cumulet", "version": __version__, "services": services})


async def health(request: Request) -> Response:
    """200 while the database answers and every part of the process runs; 503 else."""
    found = await request.cloud.db.read(_health)
    parts = {name: "ended" if task.done() else "running" for name, task in request.cloud.parts.items()}
    well = "ended" not in parts.values()
    status = ("report-only" if found["mode"] else "ok") if well else "failed"
    body = {
        "status": status,
        "version": __version__,
        "database": request.cloud.db.dialect,
        "agents": found["agents"],
        "parts": parts,
        "report_only": found["mode"],
    }
    return Response(200 if well else 503, body)


def _health(tx: Tx) -> dict[str, Any]:
    states = {"up": 0, "silent": 0, "new": 0}
    for (_, state), number in agents.counts(tx).items():
        states[state] += number
    return {"agents": states, "mode": mode.report_only(tx)}


async def metrics(request: Request) -> Response:
    """Counts for Prometheus. They name no project and no thing."""
    cloud = request.cloud
    body = await cloud.metrics.text(cloud.db, cloud.parts)
    return Response(200, body, media_type="text/plain; version=0.0.4; charset=utf-8")


ROUTES = (
    Route("GET", "/", index),
    Route("GET", "/healthz", health),
    Route("GET", "/metrics", metrics),
)
AREA = Area(name="root", prefix="/", dialect=faults.identity, routes=ROUTES)
