"""Errors in the dialect of each area.

    compute, volume   {"itemNotFound": {"code": 404, "message": …}}
    identity          {"error": {"code": 404, "title": "Not Found", "message": …}}
    network           {"NeutronError": {"type": "PortNotFound", "message": …, "detail": ""}}
    image             {"code": "404 Not Found", "title": "Not Found", "message": …}
    placement, agent  {"errors": [{"status": 404, "title": "Not Found", "detail": …, "request_id": …}]}

Whoever has no valid token gets identity's form from every area, as the services' common middleware does it.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from cumulet.api.microversion import NotAcceptable, Version, text
from cumulet.errors import CumuletError, OverQuota, Unauthorized

Dialect = Callable[[CumuletError, int, str], Any]

_NAMES = {
    400: "badRequest",
    401: "unauthorized",
    403: "forbidden",
    404: "itemNotFound",
    405: "badMethod",
    406: "notAcceptable",
    409: "conflictingRequest",
    413: "overLimit",
    415: "badMediaType",
    429: "overLimit",
    501: "notImplemented",
    503: "serviceUnavailable",
}


def title(status: int) -> str:
    return HTTPStatus(status).phrase


def compute(error: CumuletError, status: int, request_id: str) -> Any:
    return {_NAMES.get(status, "computeFault"): {"code": status, "message": error.message}}


def volume(error: CumuletError, status: int, request_id: str) -> Any:
    return {_NAMES.get(status, "computeFault"): {"code": status, "message": error.message}}


def identity(error: CumuletError, status: int, request_id: str) -> Any:
    return {"error": {"code": status, "message": error.message, "title": title(status)}}


def network(error: CumuletError, status: int, request_id: str) -> Any:
    kind = error.code or {404: "HTTPNotFound", 400: "HTTPBadRequest", 403: "PolicyNotAuthorized"}.get(
        status, type(error).__name__
    )
    return {"NeutronError": {"type": kind, "message": error.message, "detail": ""}}


def image(error: CumuletError, status: int, request_id: str) -> Any:
    return {"message": error.message, "code": f"{status} {title(status)}", "title": title(status)}


def placement(error: CumuletError, status: int, request_id: str) -> Any:
    one: dict[str, Any] = {
        "status": status,
        "title": title(status),
        "detail": error.message,
        "request_id": request_id,
    }
    if error.code:
        one["code"] = error.code
    if isinstance(error, NotAcceptable):
        one["max_version"] = text(error.versions.maximum)
        one["min_version"] = text(error.versions.minimum)
    return {"errors": [one]}


#: Over quota is 403 except where an area says otherwise.
_OVER_QUOTA = {"volume": 413, "image": 413, "network": 409}


def render(
    area: str, dialect: Dialect, error: CumuletError, request_id: str, version: Version = (0, 0)
) -> tuple[int, Any]:
    """The status and body with which an area tells of an error."""
    status = error.status
    if isinstance(error, OverQuota) and status == OverQuota.status:
        status = _OVER_QUOTA.get(area, status)
    if isinstance(error, Unauthorized):
        return status, identity(error, status, request_id)
    body = dialect(error, status, request_id)
    if dialect is placement:
        _code(body["errors"][0], version)
    return status, body


def _code(error: dict[str, Any], version: Version) -> None:
    """Placement's errors have a code since 1.23, and always one."""
    if version >= (1, 23):
        error.setdefault("code", "placement.undefined_code")
    else:
        error.pop("code", None)
