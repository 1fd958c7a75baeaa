"""Compute's version documents: what a client reads first, without a token."""

from __future__ import annotations

from typing import Any

from cumulet.api.asgi import Route
from cumulet.api.microversion import Versions, text
from cumulet.api.request import Request, Response, ok
from cumulet.core.policy import ANYONE
from cumulet.errors import NotFound

VERSIONS = Versions(
    service="compute", minimum=(2, 1), maximum=(2, 104), legacy_header="x-openstack-nova-api-version"
)

_CURRENT: dict[str, str] = {
    "id": "v2.1",
    "status": "CURRENT",
    "version": text(VERSIONS.maximum),
    "min_version": text(VERSIONS.minimum),
    "updated": "2013-07-23T11:33:21Z",
}
#: The same routes without microversions, for clients of the time before them.
_OLD: dict[str, str] = {
    "id": "v2.0",
    "status": "DEPRECATED",
    "version": "",
    "min_version": "",
    "updated": "2025-07-04T12:00:00Z",
}


def _self(request: Request, path: str) -> dict[str, str]:
    return {"rel": "self", "href": request.url(f"/compute/{path}/")}


async def index(request: Request) -> Response:
    """GET /"""
    versions = [
        {**_OLD, "links": [_self(request, "v2")]},
        {**_CURRENT, "links": [_self(request, "v2.1")]},
    ]
    return ok({"versions": versions})


async def show(request: Request) -> Response:
    """GET /v2.1/"""
    return _document(request, _CURRENT, "v2.1", "2.1")


async def show_old(request: Request) -> Response:
    """GET /v2/"""
    return _document(request, _OLD, "v2", "2")


async def show_one(request: Request) -> Response:
    """GET /v2.1/versions/{id}"""
    if request.path.startswith("/compute/v2/") or request.params["id"] == "v2.0":
        return await show_old(request)
    if request.params["id"] != "v2.1":
        raise NotFound("The resource could not be found.")
    return await show(request)


def _document(request: Request, version: dict[str, str], path: str, number: str) -> Response:
    body: dict[str, Any] = {
        **version,
        "links": [
            _self(request, path),
            {"rel": "describedby", "type": "text/html", "href": "http://docs.openstack.org/"},
        ],
        "media-types": [
            {
                "base": "application/json",
                "type": f"application/vnd.openstack.compute+json;version={number}",
            }
        ],
    }
    return ok({"version": body})


ROUTES = (
    Route("GET", "/", index),
    Route("GET", "/v2.1", show),
    Route("GET", "/v2", show_old),
    Route("GET", "/v2.1/versions/{id}", show_one, "os_compute_api:versions", ANYONE),
)
