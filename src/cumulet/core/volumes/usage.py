"""What a project has of volumes and snapshots, counted, and what it may have.

Per type the resources are named ``volumes_NAME``, ``snapshots_NAME`` and ``gigabytes_NAME``. See the Block
Storage administrator's guide, "Quotas".
"""

from __future__ import annotations

from cumulet.core import quota
from cumulet.db.engine import Tx

#: Resources that are also counted for each type.
TYPED = ("volumes", "snapshots", "gigabytes")


def check(
    tx: Tx, project_id: str, type_name: str | None, *, volumes: int = 0, snapshots: int = 0, gigabytes: int = 0,
    largest: int = 0, groups: int = 0, backups: int = 0, backup_gigabytes: int = 0,
) -> None:  # fmt: skip
    """Raise OverQuota if the project may not have so much more, or no volume as large as ``largest``.

    Locks the project's counting until the end of the transaction.
    """
    quota.lock_project(tx, project_id)
    asked = {"volumes": volumes, "snapshots": snapshots, "gigabytes": gigabytes}
    if type_name is not None:
        asked.update({f"{name}_{type_name}": amount for name, amount in asked.items()})
    asked.update(groups=groups, backups=backups, backup_gigabytes=backup_gigabytes)
    limits = quota.limits(tx, "volume", project_id)
    quota.check(limits, used(tx, project_id), asked)
    quota.check(limits, {}, {"per_volume_gigabytes": largest})


def used(tx: Tx, project_id: str) -> dict[str, int]:
    """What the project has: everything that still exists, whatever its state."""
    names = {row["id"]: row["name"] for row in tx.all("select id, name from volume_types")}
    found = dict.fromkeys((*TYPED, "backups", "backup_gigabytes", "per_volume_gigabytes"), 0)
    for type_name in names.values():
        found.update(dict.fromkeys((f"{resource}_{type_name}" for resource in TYPED), 0))
    for table, size in (("volumes", "coalesce(new_size, size)"), ("snapshots", "size")):
        for row in tx.all(
            f"select volume_type_id, count(*) as n, sum({size}) as gb from {table} where project_id = :project "
            "group by volume_type_id",
            project=project_id,
        ):
            suffixes = ("", f"_{names[row['volume_type_id']]}") if row["volume_type_id"] in names else ("",)
            for suffix in suffixes:
                found[table + suffix] += int(row["n"])
                found["gigabytes" + suffix] += int(row["gb"])
    backups = tx.one(
        "select count(*) as n, coalesce(sum(size), 0) as gb from volume_backups where project_id = :project",
        project=project_id,
    )
    assert backups is not None
    found.update(backups=int(backups["n"]), backup_gigabytes=int(backups["gb"]))
    found["groups"] = int(
        tx.value("select count(*) from volume_groups where project_id = :project", project=project_id)
    )
    return found
