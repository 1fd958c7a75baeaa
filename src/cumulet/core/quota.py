"""Quotas of all areas: limits are stored, usage is counted, under the project's lock, in one transaction.

    quota.lock_project(tx, project_id)
    quota.check(quota.limits(tx, "compute", project_id), {"instances": counted}, {"instances": 1})

A limit comes from the first that has one: the user within the project, the project, the default class, the
table below (the services' own defaults). -1 is no limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from cumulet.db.engine import Tx
from cumulet.errors import Invalid, OverQuota

Area = Literal["compute", "volume", "network", "image"]
Limits = Mapping[str, int]

UNLIMITED = -1
#: Owner of the limits that replace the defaults of the whole cloud.
DEFAULT_CLASS = "class:default"

DEFAULTS: Mapping[Area, Limits] = {
    "compute": {
        "instances": 10,
        "cores": 20,
        "ram": 51200,
        "fixed_ips": UNLIMITED,
        "floating_ips": UNLIMITED,
        "security_groups": UNLIMITED,
        "security_group_rules": UNLIMITED,
        "metadata_items": 128,
        "injected_files": 5,
        "injected_file_content_bytes": 10240,
        "injected_file_path_bytes": 255,
        "key_pairs": 100,
        "server_groups": 10,
        "server_group_members": 10,
    },
    "volume": {
        "volumes": 10,
        "snapshots": 10,
        "gigabytes": 1000,
        "backups": 10,
        "backup_gigabytes": 1000,
        "per_volume_gigabytes": UNLIMITED,
        "groups": 10,
    },
    "network": {
        "network": 100,
        "subnet": 100,
        "port": 500,
        "router": 10,
        "floatingip": 50,
        "security_group": 10,
        "security_group_rule": 100,
        "subnetpool": UNLIMITED,
        "rbac_policy": 10,
    },
    "image": {
        "image_size_total": UNLIMITED,
        "image_stage_total": UNLIMITED,
        "image_count_total": UNLIMITED,
        "image_count_uploading": UNLIMITED,
    },
}


def class_owner(name: str) -> str:
    """The owner of a quota class's limits. Only the class "default" counts, as upstream."""
    return f"class:{name}"


def user_owner(project_id: str, user_id: str) -> str:
    """The owner of the limits of one user within one project."""
    return f"user:{project_id}:{user_id}"


def lock_project(tx: Tx, project_id: str) -> None:
    """Keep others from counting for the project until the end of the transaction.

    Call it before the rows are counted: on PostgreSQL a statement sees what was committed when it began, so
    whoever waited here then counts what the other one made. On SQLite there is one writer.
    """
    if tx.dialect == "sqlite":
        return
    tx.run("insert into project_locks (id) values (:id) on conflict do nothing", id=project_id)
    tx.lock("project_locks", project_id)


def check_project(tx: Tx, project_id: str) -> None:
    """Raise Invalid unless there is such a project; for requests that name one that is not the caller's."""
    if tx.one("select 1 from projects where id = :id and not is_domain", id=project_id) is None:
        raise Invalid(f"Project ID {project_id} is not a valid project.")


def overrides(tx: Tx, area: Area, owner: str) -> dict[str, int]:
    """The limits that were set for one owner: a project's id, ``class_owner`` or ``user_owner``."""
    rows = tx.all(
        "select resource, hard_limit from quotas where area = :area and owner = :owner",
        area=area,
        owner=owner,
    )
    return {row["resource"]: row["hard_limit"] for row in rows}


def defaults(tx: Tx, area: Area) -> dict[str, int]:
    """The limits of a project for which none were set."""
    return {**DEFAULTS[area], **overrides(tx, area, DEFAULT_CLASS)}


def limits(tx: Tx, area: Area, project_id: str, user_id: str | None = None) -> dict[str, int]:
    """Every limit of a project, or of one user within it: {resource: limit}, -1 for none.

    Limits that were set for resources of an operator's making (volumes of one type) are among them.
    """
    owners = [DEFAULT_CLASS, project_id]
    if user_id is not None:
        owners.append(user_owner(project_id, user_id))
    rows = tx.all(
        "select owner, resource, hard_limit from quotas where area = :area and owner in :owners",
        area=area,
        owners=tuple(owners),
    )
    found = dict(DEFAULTS[area])
    for row in sorted(rows, key=lambda row: owners.index(row["owner"])):
        found[row["resource"]] = row["hard_limit"]
    return found


def set_limits(tx: Tx, area: Area, owner: str, changes: Limits) -> None:
    """Store limits for an owner; other limits of the owner stay."""
    for resource, limit in changes.items():
        tx.run(
            "insert into quotas (area, owner, resource, hard_limit) values (:area, :owner, :resource, :hard) "
            "on conflict (area, owner, resource) do update set hard_limit = excluded.hard_limit",
            area=area,
            owner=owner,
            resource=resource,
            hard=limit,
        )


def forget_limits(tx: Tx, area: Area, owner: str) -> None:
    """Go back to the defaults: for a user only, or for a project and all users within it."""
    tx.run("delete from quotas where area = :area and owner = :owner", area=area, owner=owner)
    if not owner.startswith(("class:", "user:")):
        prefix = user_owner(owner, "")
        tx.run(
            "delete from quotas where area = :area and substr(owner, 1, :length) = :prefix",
            area=area,
            length=len(prefix),
            prefix=prefix,
        )


def check(limits: Limits, used: Limits, asked: Limits) -> None:
    """Raise OverQuota, naming what was asked, used and allowed, if something does not fit.

    What is not asked for (0, or less) always fits, even above a limit that was lowered later. A resource
    without a limit fits.
    """
    over = [
        name for name, more in asked.items() if _over(limits.get(name, UNLIMITED), used.get(name, 0), more)
    ]
    if not over:
        return
    details = "; ".join(
        f"{name}: requested {asked[name]}, used {used.get(name, 0)}, limit {limits[name]}" for name in over
    )
    raise OverQuota(
        f"Quota exceeded for {', '.join(over)} ({details}). Free some, or ask an administrator for more."
    )


def _over(limit: int, used: int, more: int) -> bool:
    return more > 0 and limit != UNLIMITED and used + more > limit
