"""The identity service's version documents."""

from __future__ import annotations

from typing import Any

from cumulet.api.asgi import Route
from cumulet.api.request import Request, Response, ok


def _version(request: Request) -> dict[str, Any]:
    return {
        "id": "v3.14",
        "status": "stable",
        "updated": "2020-04-07T00:00:00Z",
        "links": [{"rel": "self", "href": request.url("/identity/v3/")}],
        "media-types": [{"base": "application/json", "type": "application/vnd.openstack.identity-v3+json"}],
    }


async def versions(request: Request) -> Response:
    """GET /identity: 300, as several versions could be chosen from."""
    return Response(300, {"versions": {"values": [_version(request)]}}, [("Vary", "X-Auth-Token")])


async def version(request: Request) -> Response:
    """GET /identity/v3"""
    return ok({"version": _version(request)})


ROUTES = (
    Route("GET", "/", versions),
    Route("GET", "/v3", version),
)
