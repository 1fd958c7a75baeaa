"""Network v2.0: networks, subnets, ports, routers, floating IPs, security groups."""

from __future__ import annotations

from cumulet.api import faults
from cumulet.api.asgi import Area
from cumulet.api.network import (
    agents,
    auto_topology,
    extensions,
    floatingips,
    ip_availability,
    networks,
    ports,
    quotas,
    rbac_policies,
    routers,
    rules,
    securitygroups,
    subnetpools,
    subnets,
    tags,
    trunks,
    versions,
)

AREA = Area(
    name="network",
    prefix="/network",
    dialect=faults.network,
    routes=(
        *versions.ROUTES,
        *extensions.ROUTES,
        *networks.ROUTES,
        *subnets.ROUTES,
        *subnetpools.ROUTES,
        *ports.ROUTES,
        *securitygroups.ROUTES,
        *routers.ROUTES,
        *floatingips.ROUTES,
        *tags.ROUTES,
        *quotas.ROUTES,
        *rbac_policies.ROUTES,
        *ip_availability.ROUTES,
        *auto_topology.ROUTES,
        *agents.ROUTES,
        *trunks.ROUTES,
    ),
    rules={**rules.RULES, **tags.RULES},
)
