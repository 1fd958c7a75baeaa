"""Block Storage v3: volumes, snapshots, attachments, types, and what surrounds them."""

from __future__ import annotations

from cumulet.api import faults
from cumulet.api.asgi import Area
from cumulet.api.volume import (
    attachments,
    backups,
    group_types,
    groups,
    messages,
    qos_specs,
    quotas,
    services,
    snapshots,
    transfers,
    types,
    unmanaged,
    versions,
    volume_actions,
    volumes,
)

AREA = Area(
    name="volume",
    prefix="/volume",
    exact=True,
    dialect=faults.volume,
    routes=(
        *versions.ROUTES,
        *volumes.ROUTES,
        *volume_actions.ROUTES,
        *snapshots.ROUTES,
        *attachments.ROUTES,
        *types.ROUTES,
        *quotas.ROUTES,
        *services.ROUTES,
        *messages.ROUTES,
        *transfers.ROUTES,
        *groups.ROUTES,
        *group_types.ROUTES,
        *qos_specs.ROUTES,
        *backups.ROUTES,
        *unmanaged.ROUTES,
    ),
    versions=versions.VERSIONS,
    project_root="/v3",
    rules={
        **volumes.RULES,
        **volume_actions.RULES,
        **snapshots.RULES,
        **backups.RULES,
        **types.RULES,
        **quotas.RULES,
        **groups.RULES,
        **group_types.RULES,
    },
)
