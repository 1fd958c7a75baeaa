"""Images: what servers and volumes are made from."""

from __future__ import annotations

from cumulet.api import faults
from cumulet.api.asgi import Area
from cumulet.api.image import data, images, imports, members, metadefs, permit, schemas, versions

AREA = Area(
    name="image",
    prefix="/image",
    dialect=faults.image,
    routes=(
        *versions.ROUTES,
        *images.ROUTES,
        *data.ROUTES,
        *members.ROUTES,
        *imports.ROUTES,
        *schemas.ROUTES,
        *metadefs.ROUTES,
    ),
    rules={**permit.RULES, **metadefs.RULES},
    target=permit.target,
    exact=True,
)
