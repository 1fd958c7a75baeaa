"""The image service's version documents.

All versions are served below /v2; a client learns from the newest one which calls there are. What is not in the
list needs a cache of images (2.14, 2.16, 2.18) or stores that images are only registered in (2.17).
"""

from __future__ import annotations

from typing import Any

from cumulet.api.asgi import Route
from cumulet.api.request import Request, Response, ok

VERSIONS = ("2.15", *(f"2.{minor}" for minor in range(13, -1, -1)))


def _document(request: Request) -> dict[str, Any]:
    links = [{"rel": "self", "href": request.url("/image/v2/")}]
    return {
        "versions": [
            {
                "id": f"v{version}",
                "status": "CURRENT" if version == VERSIONS[0] else "SUPPORTED",
                "links": links,
            }
            for version in VERSIONS
        ]
    }


async def choices(request: Request) -> Response:
    """GET /image: 300, as several versions could be chosen from."""
    return Response(300, _document(request))


async def versions(request: Request) -> Response:
    """GET /image/versions"""
    return ok(_document(request))


ROUTES = (
    Route("GET", "/", choices),
    Route("GET", "/versions", versions),
)
