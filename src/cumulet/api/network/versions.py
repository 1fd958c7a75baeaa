"""What is served: the version documents. They need no token."""

from __future__ import annotations

from cumulet.api.asgi import Route
from cumulet.api.request import Request, Response, ok

#: Neutron's core resources; the rest are extensions.
_CORE = {"network": "networks", "subnet": "subnets", "subnetpool": "subnetpools", "port": "ports"}


async def root(request: Request) -> Response:
    """GET /"""
    version = {
        "id": "v2.0",
        "status": "CURRENT",
        "links": [{"rel": "self", "href": request.url("/network/v2.0/")}],
    }
    return ok({"versions": [version]})


async def resources(request: Request) -> Response:
    """GET /v2.0/"""
    found = [
        {
            "name": one,
            "collection": many,
            "links": [{"rel": "self", "href": request.url(f"/network/v2.0/{many}")}],
        }
        for one, many in _CORE.items()
    ]
    return ok({"resources": found})


ROUTES = (Route("GET", "/", root), Route("GET", "/v2.0", resources))
