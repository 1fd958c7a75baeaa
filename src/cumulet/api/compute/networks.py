"""Networks, as compute showed them until 2.35. What nova-network once told of them is null.

See the compute API reference, "Networks (DEPRECATED)" and "Project networks (DEPRECATED)".
"""

from __future__ import annotations

from typing import Any

from cumulet.api.asgi import Route
from cumulet.api.compute.gone import gone
from cumulet.api.network.collection import rights
from cumulet.api.request import Request, Response, ok
from cumulet.core import networks
from cumulet.core.network_resources import Listing
from cumulet.core.policy import ADMIN, READER
from cumulet.db.engine import Row

_FIELDS = (
    "cidr", "netmask", "gateway", "broadcast", "dns1", "dns2", "cidr_v6", "gateway_v6", "netmask_v6",
)  # fmt: skip
_ADMIN_FIELDS = (
    "created_at", "updated_at", "deleted_at", "deleted", "injected", "bridge", "vlan", "vpn_public_address",
    "vpn_public_port", "vpn_private_address", "dhcp_start", "project_id", "host", "bridge_interface", "multi_host",
    "priority", "rxtx_base", "mtu", "dhcp_server", "enable_dhcp", "share_address",
)  # fmt: skip


def _network(request: Request, row: Row) -> dict[str, Any]:
    fields = _FIELDS + (_ADMIN_FIELDS if request.caller.is_admin else ())
    return {"id": row["id"], "label": row["name"], **dict.fromkeys(fields)}


def _tenant_network(request: Request, row: Row) -> dict[str, Any]:
    return {"id": row["id"], "label": row["name"], "cidr": "None"}


async def _seen(request: Request) -> list[Row]:
    return await request.cloud.db.read(networks.page, rights(request), Listing())


async def _one(request: Request) -> Row:
    return await request.cloud.db.read(networks.find, rights(request), request.params["id"])


async def index(request: Request) -> Response:
    """GET /os-networks"""
    return ok({"networks": [_network(request, row) for row in await _seen(request)]})


async def show(request: Request) -> Response:
    """GET /os-networks/{id}"""
    return ok({"network": _network(request, await _one(request))})


async def tenant_index(request: Request) -> Response:
    """GET /os-tenant-networks"""
    return ok({"networks": [_tenant_network(request, row) for row in await _seen(request)]})


async def tenant_show(request: Request) -> Response:
    """GET /os-tenant-networks/{id}"""
    return ok({"network": _tenant_network(request, await _one(request))})


_LAST = (2, 35)

ROUTES = tuple(
    line
    for name, list_all, show_one in (
        ("os-networks", index, show),
        ("os-tenant-networks", tenant_index, tenant_show),
    )
    for line in (
        Route("GET", f"/v2.1/{name}", list_all, f"os_compute_api:{name}:list", READER, until=_LAST),
        Route("GET", f"/v2.1/{name}/{{id}}", show_one, f"os_compute_api:{name}:show", READER, until=_LAST),
        Route("POST", f"/v2.1/{name}", gone, f"os_compute_api:{name}", ADMIN),
        Route("DELETE", f"/v2.1/{name}/{{id}}", gone, f"os_compute_api:{name}", ADMIN),
    )
)
