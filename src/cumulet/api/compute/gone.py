"""APIs that compute once had and that answer 410 now, as everywhere."""

from __future__ import annotations

from cumulet.api.asgi import Route
from cumulet.api.request import Request, Response
from cumulet.core.policy import ANYONE
from cumulet.errors import CumuletError

RULE = "os_compute_api:removed"
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


_MORE = (
    ("GET", "/os-cells/capacities"),
    ("GET", "/os-cells/detail"),
    ("GET", "/os-cells/info"),
    ("POST", "/os-cells/sync_instances"),
    ("GET", "/os-cells/{id}/capacities"),
    ("POST", "/os-fixed-ips/{id}/action"),
    ("GET", "/os-floating-ip-dns/{domain}/entries/{id}"),
    ("PUT", "/os-floating-ip-dns/{domain}/entries/{id}"),
    ("DELETE", "/os-floating-ip-dns/{domain}/entries/{id}"),
    ("POST", "/os-networks/add"),
    ("POST", "/os-networks/{id}/action"),
    ("GET", "/servers/{server_id}/consoles"),
    ("POST", "/servers/{server_id}/consoles"),
    ("GET", "/servers/{server_id}/consoles/{id}"),
    ("DELETE", "/servers/{server_id}/consoles/{id}"),
    ("GET", "/servers/{server_id}/os-virtual-interfaces"),
)

ROUTES = (
    *(
        Route(method, f"/v2.1/{name}{rest}", gone, RULE, ANYONE)
        for name in _LISTS
        for method, rest in (
            ("GET", ""), ("POST", ""), ("GET", "/{id}"), ("PUT", "/{id}"), ("DELETE", "/{id}"),
        )
    ),
    *(Route(method, f"/v2.1{path}", gone, RULE, ANYONE) for method, path in _MORE),
)  # fmt: skip
