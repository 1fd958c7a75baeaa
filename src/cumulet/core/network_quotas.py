"""Network's quotas: what a project has is counted under its lock, in the transaction that adds to it."""

from __future__ import annotations

from collections.abc import Mapping

from cumulet.core import quota
from cumulet.db.engine import Tx
from cumulet.errors import Invalid, NotFound, OverQuota

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


def limits(tx: Tx, project_id: str) -> dict[str, int]:
    """Every limit of a project."""
    found = quota.limits(tx, "network", project_id)
    return {resource: found[resource] for resource in TABLES}


def defaults(tx: Tx) -> dict[str, int]:
    """The limits of a project for which none were set."""
    found = quota.defaults(tx, "network")
    return {resource: found[resource] for resource in TABLES}


def details(tx: Tx, project_id: str) -> dict[str, dict[str, int]]:
    """Every limit of a project, and what is used of it."""
    return {
        resource: {"limit": limit, "used": used_of(tx, project_id, resource), "reserved": 0}
        for resource, limit in limits(tx, project_id).items()
    }


def page(tx: Tx) -> dict[str, dict[str, int]]:
    """The limits of every project for which some were set."""
    owners = tx.values("select distinct owner from quotas where area = 'network' order by owner")
    return {owner: limits(tx, owner) for owner in owners if not owner.startswith(("class:", "user:"))}


def update(
    tx: Tx, project_id: str, changes: Mapping[str, int], *, check_used: bool = False
) -> dict[str, int]:
    """Set limits of a project; returns all. ``check_used``: raise Invalid for one below what is used."""
    quota.lock_project(tx, project_id)
    if check_used:
        for resource, limit in changes.items():
            used = used_of(tx, project_id, resource)
            if limit != quota.UNLIMITED and limit < used:
                raise Invalid(
                    f"Invalid input for operation: The new limit of {resource}, {limit}, is below the {used} that "
                    "are used.",
                    code="InvalidInput",
                )
    quota.set_limits(tx, "network", project_id, changes)
    return limits(tx, project_id)


def delete(tx: Tx, project_id: str) -> None:
    """Go back to the defaults. Raises NotFound if no limits were set."""
    if not quota.overrides(tx, "network", project_id):
        raise NotFound(f"Quota for project {project_id} could not be found.", code="TenantQuotaNotFound")
    quota.forget_limits(tx, "network", project_id)
