"""Network v2.0: networks, subnets, ports, routers, floating IPs, security groups."""

from __future__ import annotations

from cumulet.api import faults
from cumulet.api.asgi import Area
from cumulet.api.network import (
    floatingips,
    networks,
    ports,
    routers,
    securitygroups,
    subnetpools,
    subnets,
    versions,
)
from cumulet.api.network.rules import RULES

AREA = Area(
    name="network",
    prefix="/network",
    dialect=faults.network,
    routes=(
        *versions.ROUTES,
        *networks.ROUTES,
        *subnets.ROUTES,
        *subnetpools.ROUTES,
        *ports.ROUTES,
        *securitygroups.ROUTES,
        *routers.ROUTES,
        *floatingips.ROUTES,
    ),
    rules=RULES,
)
