"""Compute: servers, and all that they are chosen from."""

from __future__ import annotations

from cumulet.api import faults
from cumulet.api.asgi import Area
from cumulet.api.compute import (
    aggregates,
    audit_log,
    extensions,
    flavors,
    floating_ips,
    gone,
    hosts,
    hypervisors,
    images,
    keypairs,
    limits,
    networks,
    quota_sets,
    security_groups,
    server_groups,
    servers,
    services,
    tenant_usage,
    versions,
    zones,
)

AREA = Area(
    name="compute",
    prefix="/compute",
    dialect=faults.compute,
    routes=(
        *versions.ROUTES,
        *flavors.ROUTES,
        *keypairs.ROUTES,
        *services.ROUTES,
        *hypervisors.ROUTES,
        *hosts.ROUTES,
        *aggregates.ROUTES,
        *zones.ROUTES,
        *server_groups.ROUTES,
        *quota_sets.ROUTES,
        *limits.ROUTES,
        *tenant_usage.ROUTES,
        *audit_log.ROUTES,
        *extensions.ROUTES,
        *gone.ROUTES,
        *servers.ROUTES,
        *networks.ROUTES,
        *floating_ips.ROUTES,
        *security_groups.ROUTES,
        *images.ROUTES,
    ),
    rules={**server_groups.RULES, **limits.RULES, **servers.RULES},
    versions=versions.VERSIONS,
    project_root="/v2.1",
    old_root="/v2",
)
