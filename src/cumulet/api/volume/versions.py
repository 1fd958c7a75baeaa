"""Block Storage's version documents: what a client reads first, without a token."""

from __future__ import annotations

from typing import Any

from cumulet.api.asgi import Route
from cumulet.api.microversion import Versions, text
from cumulet.api.request import Request, Response, ok

VERSIONS = Versions(service="volume", minimum=(3, 0), maximum=(3, 71))


def _document(request: Request) -> dict[str, Any]:
    version: dict[str, Any] = {
        "id": "v3.0",
        "status": "CURRENT",
        "version": text(VERSIONS.maximum),
        "min_version": text(VERSIONS.minimum),
        "updated": "2023-08-31T00:00:00Z",
        "links": [
            {"rel": "describedby", "type": "text/html", "href": "https://docs.openstack.org/"},
            {"rel": "self", "href": request.url("/volume/v3/")},
        ],
        "media-types": [
            {"base": "application/json", "type": "application/vnd.openstack.volume+json;version=3"}
        ],
    }
    return {"versions": [version]}


async def index(request: Request) -> Response:
    """GET /"""
    return Response(300, _document(request))


async def show(request: Request) -> Response:
    """GET /v3/"""
    return ok(_document(request))


ROUTES = (
    Route("GET", "/", index),
    Route("GET", "/v3", show),
)
