"""APIs that compute once had and that answer 410 now, as everywhere."""

from __future__ import annotations

from cumulet.api.asgi import Route
from cumulet.api.request import Request, Response
from cumulet.core.policy import ANYONE
from cumulet.errors import CumuletError

_RULE = "os_compute_api:removed"
_LISTS = (
    "os-agents",
    "os-certificates",
    "os-cells",
    "os-cloudpipe",
    "os-fping",
    "os-fixed-ips",
    "os-floating-ip-dns",
    "os-floating-ips-bulk",
    "os-security-group-default-rules",
)


async def gone(request: Request) -> Response:
    raise CumuletError("This API was removed from compute; nothing stands in its place.", status=410)


ROUTES = tuple(
    Route(method, f"/v2.1/{name}{rest}", gone, _RULE, ANYONE)
    for name in _LISTS
    for method, rest in (
        ("GET", ""), ("POST", ""), ("GET", "/{id}"), ("PUT", "/{id}"), ("DELETE", "/{id}"),
    )
)  # fmt: skip
