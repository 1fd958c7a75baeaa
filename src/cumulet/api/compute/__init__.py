"""Compute: servers, and all that they are chosen from."""

from __future__ import annotations

from cumulet.api import faults
from cumulet.api.asgi import Area
from cumulet.api.compute import flavors, keypairs, versions

AREA = Area(
    name="compute",
    prefix="/compute",
    dialect=faults.compute,
    routes=(*versions.ROUTES, *flavors.ROUTES, *keypairs.ROUTES),
    versions=versions.VERSIONS,
    project_root="/v2.1",
    old_root="/v2",
)
