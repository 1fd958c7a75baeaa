"""Agents, what they have, and zones. See Neutron's API reference, "Networking agents", "Availability zones"."""

from __future__ import annotations

from cumulet.api.asgi import Handler, Route
from cumulet.api.network.collection import Calls, Checks, identifier, rights, routes
from cumulet.api.network.rules import ADMIN
from cumulet.api.request import Request, Response, ok
from cumulet.core import network_agents, networks, routers
from cumulet.wire.network import agents as wire
from cumulet.wire.network import networks as networks_wire
from cumulet.wire.network import routers as routers_wire

CALLS = Calls(
    noun=network_agents.NOUN,
    attributes={},
    view=wire.view,
    page=network_agents.page,
    show=network_agents.show,
)


def _having(table: str) -> Handler:
    """The agents that have a network or router."""

    async def call(request: Request) -> Response:
        rows = await request.cloud.db.read(
            network_agents.of_holder, rights(request), table, identifier(request)
        )
        return ok({"agents": list(map(wire.view, rows))})

    return call


async def networks_of(request: Request) -> Response:
    """GET /agents/{id}/dhcp-networks"""
    rows = await request.cloud.db.read(networks.at_agent, rights(request), identifier(request))
    return ok({"networks": list(map(networks_wire.view, rows))})


async def routers_of(request: Request) -> Response:
    """GET /agents/{id}/l3-routers"""
    rows = await request.cloud.db.read(routers.at_agent, rights(request), identifier(request))
    return ok({"routers": list(map(routers_wire.view, rows))})


async def zones(request: Request) -> Response:
    """GET /availability_zones"""
    names = await request.cloud.db.read(network_agents.zones)
    found = [
        {"name": name, "resource": resource, "state": "available"}
        for name in names
        for resource in ("network", "router")
        if request.arg("name", name) == name and request.arg("resource", resource) == resource
    ]
    return ok({"availability_zones": found})


ROUTES = (
    *routes(CALLS, Checks(get=ADMIN)),
    Route("GET", "/v2.0/networks/{id}/dhcp-agents", _having("networks"), rule="get_dhcp-agents", check=ADMIN),
    Route("GET", "/v2.0/routers/{id}/l3-agents", _having("routers"), rule="get_l3-agents", check=ADMIN),
    Route("GET", "/v2.0/agents/{id}/dhcp-networks", networks_of, rule="get_dhcp-networks", check=ADMIN),
    Route("GET", "/v2.0/agents/{id}/l3-routers", routers_of, rule="get_l3-routers", check=ADMIN),
    Route("GET", "/v2.0/availability_zones", zones, rule="get_availability_zone", check="role:reader"),
)
