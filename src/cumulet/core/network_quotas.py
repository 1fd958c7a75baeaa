"""Network's quotas: what a project has is counted under its lock, in the transaction that adds to it."""

from __future__ import annotations

from collections.abc import Mapping

from cumulet.core import quota
from cumulet.db.engine import Row, Tx
from cumulet.errors import OverQuota

#: Resource → the table whose rows of a project are counted.
TABLES: Mapping[str, str] = {
    "network": "networks",
    "subnet": "subnets",
    "subnetpool": "subnetpools",
    "port": "ports",
    "router": "routers",
    "floatingip": "floatingips",
    "security_group": "security_groups",
    "security_group_rule": "security_group_rules",
    "rbac_policy": "rbac_policies",
}


def check(tx: Tx, project_id: str, resource: str, more: int = 1) -> None:
    """Raise OverQuota unless the project may have ``more`` of a resource; nobody else counts meanwhile."""
    if not project_id:
        return
    quota.lock_project(tx, project_id)
    limit = quota.limits(tx, "network", project_id)[resource]
    if limit == quota.UNLIMITED:
        return
    used = used_of(tx, project_id, resource)
    if used + more > limit:
        raise OverQuota(
            f"Quota exceeded for resources: ['{resource}']. Requested {more}, used {used}, limit {limit}. "
            "Delete some, or ask an administrator for more.",
            code="OverQuota",
        )


def lock(tx: Tx, project_id: str) -> None:
    """Keep others from adding to the project until the end of the transaction."""
    quota.lock_project(tx, project_id)


def used_of(tx: Tx, project_id: str, resource: str) -> int:
    """How many of a resource a project has."""
    table = TABLES[resource]
    return int(tx.value(f"select count(*) from {table} where project_id = :project", project=project_id))


def limits(tx: Tx, project_id: str) -> Row:
    """Every limit of a project."""
    return quota.limits(tx, "network", project_id)
