"""Placement: who has what, and who has taken how much of it."""

from __future__ import annotations

from cumulet.api import faults
from cumulet.api.asgi import Area
from cumulet.api.placement import (
    allocations,
    candidates,
    inventory,
    providers,
    reshaper,
    resource_classes,
    root,
    traits,
    usages,
)

AREA = Area(
    name="placement",
    prefix="/placement",
    dialect=faults.placement,
    routes=(
        *root.ROUTES,
        *providers.ROUTES,
        *inventory.ROUTES,
        *usages.ROUTES,
        *allocations.ROUTES,
        *candidates.ROUTES,
        *traits.ROUTES,
        *resource_classes.ROUTES,
        *reshaper.ROUTES,
    ),
    versions=root.VERSIONS,
    rules={
        "admin_or_service_api": "role:admin or role:service",
        "project_reader_api": "role:reader and project_id:%(project_id)s",
        "admin_or_project_reader_or_service_api": ("role:admin or rule:project_reader_api or role:service"),
    },
)
