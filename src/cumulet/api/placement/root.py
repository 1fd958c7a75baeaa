"""Placement's version document, which needs no token."""

from __future__ import annotations

from cumulet.api.asgi import Route
from cumulet.api.microversion import Versions, text
from cumulet.api.placement.answer import fresh
from cumulet.api.request import Request, Response

VERSIONS = Versions(service="placement", minimum=(1, 0), maximum=(1, 39))


async def home(request: Request) -> Response:
    """GET /"""
    version = {
        "id": f"v{text(VERSIONS.minimum)}",
        "min_version": text(VERSIONS.minimum),
        "max_version": text(VERSIONS.maximum),
        "status": "CURRENT",
        "links": [{"rel": "self", "href": ""}],
    }
    return fresh(request, {"versions": [version]})


ROUTES = (Route("GET", "/", home),)
