"""Interfaces and addresses of servers. See the compute API reference, "Port interfaces" and "Servers IPs"."""

from __future__ import annotations

from typing import Any

from cumulet.api.asgi import Route
from cumulet.api.compute import permit
from cumulet.api.compute.server_body import addresses
from cumulet.api.request import Request, Response, accepted, ok
from cumulet.core.policy import MEMBER, READER
from cumulet.core.servers import interfaces
from cumulet.core.servers import show as showing
from cumulet.core.servers.interfaces import Interface
from cumulet.core.servers.networking import Nic
from cumulet.errors import Invalid, NotFound
from cumulet.wire import server_parts as wire
from cumulet.wire.body import encode

_RULE = "os_compute_api:os-attach-interfaces"


def _body(request: Request, one: Interface) -> dict[str, Any]:
    body = wire.InterfaceAttachment(
        net_id=one.network_id,
        port_id=one.port_id,
        mac_addr=one.mac_address,
        port_state=one.status,
        fixed_ips=list(one.fixed_ips),
        tag=one.tag,
    )
    return encode(body, request.version)


async def index(request: Request) -> Response:
    """GET /servers/{server_id}/os-interface"""
    found = await request.cloud.db.read(interfaces.listing, request.caller, request.params["server_id"])
    return ok({"interfaceAttachments": [_body(request, one) for one in found]})


async def show(request: Request) -> Response:
    """GET /servers/{server_id}/os-interface/{port_id}"""
    found = await request.cloud.db.read(
        interfaces.show, request.caller, request.params["server_id"], request.params["port_id"]
    )
    return ok({"interfaceAttachment": _body(request, found)})


async def create(request: Request) -> Response:
    """POST /servers/{server_id}/os-interface"""
    asked = wire.NewInterface()
    if await request.body():
        asked = (await request.struct(wire.AttachInterface)).interfaceAttachment
    network = asked.net_id if isinstance(asked.net_id, str) else None
    port = asked.port_id if isinstance(asked.port_id, str) else None
    fixed_ip = asked.fixed_ips[0].ip_address if isinstance(asked.fixed_ips, list) else None
    if network and port:
        raise Invalid("Must not input both network_id and port_id")
    if fixed_ip and not network:
        raise Invalid("Must input network_id when request IP address")
    tag = asked.tag if isinstance(asked.tag, str) else None
    made = await request.cloud.db.write(
        interfaces.attach,
        request.caller,
        request.params["server_id"],
        Nic(network=network, port=port, fixed_ip=fixed_ip, tag=tag),
        external=permit.allows(request, permit.EXTERNAL),
    )
    return ok({"interfaceAttachment": _body(request, made)})


async def delete(request: Request) -> Response:
    """DELETE /servers/{server_id}/os-interface/{port_id}"""
    await request.cloud.db.write(
        interfaces.detach, request.caller, request.params["server_id"], request.params["port_id"]
    )
    return accepted()


async def _addresses(request: Request) -> dict[str, list[dict[str, Any]]]:
    found = await request.cloud.db.read(showing.show, request.caller, request.params["server_id"])
    return {
        name: [{"version": ip["version"], "addr": ip["addr"]} for ip in ips]
        for name, ips in addresses(found.ports).items()
    }


async def list_addresses(request: Request) -> Response:
    """GET /servers/{server_id}/ips"""
    return ok({"addresses": await _addresses(request)})


async def show_addresses(request: Request) -> Response:
    """GET /servers/{server_id}/ips/{network}: a network is named by its name"""
    name = request.params["network"]
    found = await _addresses(request)
    if name not in found:
        raise NotFound("Instance is not a member of specified network")
    return ok({name: found[name]})


_ALL = "/v2.1/servers/{server_id}/os-interface"
_IPS = "/v2.1/servers/{server_id}/ips"

ROUTES = (
    Route("GET", _ALL, index, f"{_RULE}:list", READER),
    Route("POST", _ALL, create, f"{_RULE}:create", MEMBER),
    Route("GET", f"{_ALL}/{{port_id}}", show, f"{_RULE}:show", READER),
    Route("DELETE", f"{_ALL}/{{port_id}}", delete, f"{_RULE}:delete", MEMBER),
    Route("GET", _IPS, list_addresses, "os_compute_api:ips:index", READER),
    Route("GET", f"{_IPS}/{{network}}", show_addresses, "os_compute_api:ips:show", READER),
)
