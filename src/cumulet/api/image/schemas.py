"""Schemas of the bodies. See the image API reference, "Image Schemas"."""

from __future__ import annotations

from cumulet.api.asgi import Route
from cumulet.api.request import Request, Response, ok
from cumulet.wire.imageschemas import SCHEMAS


async def show(request: Request) -> Response:
    """GET /v2/schemas/{name}"""
    return ok(SCHEMAS[request.path.split("/schemas/", 1)[1]])


ROUTES = tuple(Route("GET", f"/v2/schemas/{name}", show, "cumulet:image_info", "@") for name in SCHEMAS)
