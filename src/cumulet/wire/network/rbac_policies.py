"""Shares. See Neutron's API reference, "RBAC policies"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cumulet.wire.network import checks
from cumulet.wire.network.attributes import ABSENT, READ_ONLY, Attribute, Table

_TARGET = Attribute(post=True, put=True, default=ABSENT, check=checks.filled_name())

ATTRIBUTES: Table = {
    "id": READ_ONLY,
    "project_id": Attribute(post=True, default=ABSENT, check=checks.text(255)),
    "object_type": Attribute(post=True, check=checks.among(("network", "security_group"))),
    "object_id": Attribute(post=True, check=checks.uuid),
    "action": Attribute(post=True, check=checks.text(255)),
    "target_project": _TARGET,
    "target_tenant": _TARGET,
}


def view(row: Mapping[str, Any]) -> dict[str, Any]:
    """A share in an answer."""
    return {
        "id": row["id"],
        "project_id": row["project_id"],
        "tenant_id": row["project_id"],
        "object_type": row["object_type"],
        "object_id": row["object_id"],
        "action": row["action"],
        "target_tenant": row["target_project"],
    }
