"""Quotas of volumes as they are shown and set: limits are stored, usage is counted."""

from __future__ import annotations

from collections.abc import Mapping

from cumulet.core import quota
from cumulet.core.volumes import usage
from cumulet.db.engine import Tx
from cumulet.errors import Invalid


def _resources(tx: Tx) -> list[str]:
    """Every resource: those of all clouds, and those of each type."""
    typed = [
        f"{resource}_{name}"
        for name in tx.values("select name from volume_types order by name")
        for resource in usage.TYPED
    ]
    return [*quota.DEFAULTS["volume"], *typed]


def limits(tx: Tx, project_id: str) -> dict[str, int]:
    """Every limit of a project."""
    found = quota.limits(tx, "volume", project_id)
    return {name: found.get(name, quota.UNLIMITED) for name in _resources(tx)}


def defaults(tx: Tx) -> dict[str, int]:
    """The limits of a project for which none were set."""
    found = quota.defaults(tx, "volume")
    return {name: found.get(name, quota.UNLIMITED) for name in _resources(tx)}


def with_usage(tx: Tx, project_id: str) -> dict[str, dict[str, int]]:
    """Every limit of a project, and what of it is used."""
    used = usage.used(tx, project_id)
    return {
        name: {"limit": limit, "in_use": used.get(name, 0), "reserved": 0}
        for name, limit in limits(tx, project_id).items()
    }


def change(tx: Tx, project_id: str, changes: Mapping[str, int]) -> dict[str, int]:
    """Set limits of a project; return all. Raises Invalid for unknown ones, and for less than what is used."""
    _refuse_unknown(tx, changes)
    quota.lock_project(tx, project_id)
    used = usage.used(tx, project_id)
    for name, limit in changes.items():
        if name != "per_volume_gigabytes" and limit != quota.UNLIMITED and limit < used.get(name, 0):
            raise Invalid(
                f"Quota {name} limit must be equal or greater than existing resources. Current usage is "
                f"{used[name]} and the requested limit is {limit}."
            )
    quota.set_limits(tx, "volume", project_id, changes)
    return limits(tx, project_id)


def change_class(tx: Tx, name: str, changes: Mapping[str, int]) -> dict[str, int]:
    """Set limits of a quota class; return all. Raises Invalid for unknown ones."""
    _refuse_unknown(tx, changes)
    quota.set_limits(tx, "volume", quota.class_owner(name), changes)
    return of_class(tx, name)


def of_class(tx: Tx, name: str) -> dict[str, int]:
    """Every limit of a quota class."""
    found = {**quota.DEFAULTS["volume"], **quota.overrides(tx, "volume", quota.class_owner(name))}
    return {resource: found.get(resource, quota.UNLIMITED) for resource in _resources(tx)}


def _refuse_unknown(tx: Tx, changes: Mapping[str, int]) -> None:
    unknown = set(changes) - set(_resources(tx))
    if unknown:
        raise Invalid(f"Bad key(s) in quota set: {', '.join(sorted(unknown))}")


#: Names of GET /limits.
_ABSOLUTE: Mapping[str, str] = {
    "maxTotalVolumes": "volumes",
    "maxTotalVolumeGigabytes": "gigabytes",
    "maxTotalSnapshots": "snapshots",
    "maxTotalBackups": "backups",
    "maxTotalBackupGigabytes": "backup_gigabytes",
}
_USAGE: Mapping[str, str] = {
    "totalVolumesUsed": "volumes",
    "totalGigabytesUsed": "gigabytes",
    "totalSnapshotsUsed": "snapshots",
    "totalBackupsUsed": "backups",
    "totalBackupGigabytesUsed": "backup_gigabytes",
}


def absolute(tx: Tx, project_id: str, *, with_usage: bool) -> dict[str, int]:
    """The limits by the names that GET /limits gives them, with what is used if that may be seen."""
    allowed = quota.limits(tx, "volume", project_id)
    found = {name: allowed[resource] for name, resource in _ABSOLUTE.items()}
    if with_usage:
        used = usage.used(tx, project_id)
        found.update({name: used[resource] for name, resource in _USAGE.items()})
    return found
