"""Compute's quota as its API shows and changes it: limits beside what is counted."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from cumulet.core import quota, server_groups
from cumulet.core.quota import UNLIMITED, Limits
from cumulet.core.servers import usage
from cumulet.db.engine import Tx
from cumulet.errors import Invalid


class Line(msgspec.Struct, frozen=True):
    """One resource: its limit, -1 for none, and how much is used."""

    limit: int
    used: int


def report(tx: Tx, project_id: str, user_id: str | None = None) -> dict[str, Line]:
    """Every resource of a project, or of one user within it."""
    used = _used(tx, project_id, user_id)
    limits = quota.limits(tx, "compute", project_id, user_id)
    return {name: Line(limits[name], used.get(name, 0)) for name in quota.DEFAULTS["compute"]}


def _used(tx: Tx, project_id: str, user_id: str | None) -> dict[str, int]:
    """What is counted. Key pairs belong to users, not to projects."""
    used = usage.used(tx, project_id, user_id)
    used["server_groups"] = server_groups.count(tx, project_id, user_id)
    if user_id is not None:
        used["key_pairs"] = tx.value("select count(*) from keypairs where user_id = :user", user=user_id)
        return used
    # They belong to the network's quota; old versions of the API show them here.
    for name, table in (("floating_ips", "floatingips"), ("security_groups", "security_groups")):
        used[name] = tx.value(f"select count(*) from {table} where project_id = :project", project=project_id)
    return used


def change(tx: Tx, project_id: str, user_id: str | None, changes: Limits, *, force: bool) -> dict[str, int]:
    """Set limits of a project, or of one user within it; return all of them.

    Unless it is forced, a limit must not be below what is used, nor a user's above what the project has left
    for it. Raises Invalid, naming the resource.
    """
    quota.check_project(tx, project_id)
    quota.lock_project(tx, project_id)
    if not force:
        lines = report(tx, project_id, user_id)
        project = quota.limits(tx, "compute", project_id)
        given = _given_to_users(tx, project_id, except_for=user_id)
        for name, limit in changes.items():
            low, high = lines[name].used, UNLIMITED
            if user_id is None:
                low = max(low, given.get(name, 0))
            elif project[name] != UNLIMITED:
                high = max(project[name] - given.get(name, 0), 0)
            _check_range(name, limit, low, high)
    owner = project_id if user_id is None else quota.user_owner(project_id, user_id)
    quota.set_limits(tx, "compute", owner, changes)
    return quota.limits(tx, "compute", project_id, user_id)


def _check_range(name: str, limit: int, low: int, high: int) -> None:
    if limit != UNLIMITED and limit < low:
        raise Invalid(
            f"Quota limit {limit} for {name} must be greater than or equal to already used and reserved {low}."
        )
    if high != UNLIMITED and (limit == UNLIMITED or limit > high):
        raise Invalid(f"Quota limit {limit} for {name} must be less than or equal to {high}.")


def _given_to_users(tx: Tx, project_id: str, *, except_for: str | None) -> Mapping[str, int]:
    """Resource → the sum of the limits of single users within the project."""
    prefix = quota.user_owner(project_id, "")
    mine = None if except_for is None else quota.user_owner(project_id, except_for)
    found: dict[str, int] = {}
    rows = tx.all(
        "select owner, resource, hard_limit from quotas where area = 'compute' and substr(owner, 1, :length) = :prefix",
        length=len(prefix),
        prefix=prefix,
    )
    for row in rows:
        if row["owner"] != mine and row["hard_limit"] > 0:
            found[row["resource"]] = found.get(row["resource"], 0) + row["hard_limit"]
    return found


def of_class(tx: Tx, name: str) -> dict[str, int]:
    """The limits of a quota class: what was set for it, else the defaults."""
    return {**quota.DEFAULTS["compute"], **quota.overrides(tx, "compute", quota.class_owner(name))}


def change_class(tx: Tx, name: str, changes: Limits) -> dict[str, int]:
    """Set limits of a quota class; return all of them. Only the class "default" has an effect."""
    quota.set_limits(tx, "compute", quota.class_owner(name), changes)
    return of_class(tx, name)
