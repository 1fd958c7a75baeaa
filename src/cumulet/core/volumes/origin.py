"""What a volume or snapshot is made from: an image, a snapshot, another volume."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from cumulet.core.images import finding
from cumulet.db.engine import Row, Tx
from cumulet.reconcile.plan import volume as plan
from cumulet.values import Claim


class Inherited(msgspec.Struct, frozen=True):
    """What goes with the bytes."""

    volume_type_id: str | None = None
    bootable: bool = False
    image_metadata: Mapping[str, Any] = {}


def inherited(
    tx: Tx, image_id: str | None, snapshot_id: str | None, source_volume_id: str | None
) -> Inherited:
    """What a new volume gets from what it is made from."""
    if image_id is not None:
        rows = tx.all("select * from images where id = :id", id=image_id)
        return Inherited(
            bootable=True, image_metadata=image_metadata(finding.complete(tx, rows)[0]) if rows else {}
        )
    if snapshot_id is not None:
        source_volume_id = tx.value("select volume_id from snapshots where id = :id", id=snapshot_id)
    volume = tx.one(
        "select volume_type_id, bootable, image_metadata from volumes where id = :id",
        id=source_volume_id or "",
    )
    return Inherited(**volume) if volume is not None else Inherited()


def image_metadata(image: finding.Image) -> dict[str, str]:
    """What a volume remembers of its image: text by name, as Block Storage keeps it."""
    known = {
        "image_id": image.id,
        "image_name": image.name,
        "checksum": image.checksum,
        "container_format": image.container_format,
        "disk_format": image.disk_format,
        "min_disk": image.min_disk,
        "min_ram": image.min_ram,
        "size": image.size,
    }
    return {**image.properties, **{name: str(value) for name, value in known.items() if value is not None}}


def described(tx: Tx, row: Row) -> dict[str, Any] | None:
    """The source as the back end is told of it, in the spec of the bytes' claim."""
    if row["revert_snapshot_id"] is not None:
        return {"snapshot": row["revert_snapshot_id"]}
    if row["restore_backup_id"] is not None:
        return {"backup": row["restore_backup_id"]}
    if row["source_image_id"] is not None:
        image = tx.one(
            "select disk_format, size, virtual_size, os_hash_value from images where id = :id", id=row["source_image_id"]
        )  # fmt: skip
        found: dict[str, Any] = {"image": row["source_image_id"]}
        if image is not None:
            found.update(
                format=image["disk_format"], size=image["size"], virtual_size=image["virtual_size"],
                sha512=image["os_hash_value"],
            )  # fmt: skip
        return found
    for name in ("snapshot", "volume"):
        if row[f"source_{name}_id"] is not None:
            return {name: row[f"source_{name}_id"]}
    return None


def _wanted(kind: str, row: Row) -> tuple[str, str] | None:
    """Holder and kind of the claim that the bytes are copied from."""
    if kind == "snapshot":
        return row["volume_id"], "volume"
    if kind == "backup":
        return _of_backup(row)
    if row["revert_snapshot_id"] is not None:
        return row["revert_snapshot_id"], "snapshot"
    if row["restore_backup_id"] is not None:
        return row["restore_backup_id"], "backup"
    for name, kind_ in (("image", "file"), ("snapshot", "snapshot"), ("volume", "volume")):
        if row[f"source_{name}_id"] is not None:
            return row[f"source_{name}_id"], kind_
    return None


def _of_backup(row: Row) -> tuple[str, str] | None:
    if row["source_backup_id"] is not None:
        return row["source_backup_id"], "backup"
    if row["imported"]:
        return None  # the bytes are there
    return (
        (row["snapshot_id"], "snapshot") if row["snapshot_id"] is not None else (row["volume_id"], "volume")
    )


def claim_of(tx: Tx, kind: str, row: Row, mine: Claim | None) -> plan.Source | None:
    """The claim that the bytes are copied from; None if they come from nowhere, or were copied.

    A source that is deleted while it is copied stays until the copy is whole: the copy's claim needs it.
    """
    wanted = _wanted(kind, row)
    if wanted is None or (mine is not None and mine.made):
        return None
    if mine is not None and mine.needs:
        claim = tx.one("select * from claims where id in :ids", ids=mine.needs)
    else:
        claim = tx.one(
            "select * from claims where holder = :holder and kind = :kind and wanted",
            holder=wanted[0],
            kind=wanted[1],
        )
    if claim is None:
        return plan.Source(None, ready=False, error=f"the {wanted[1]} of {wanted[0]} is gone")
    if claim["seen"] == "absent" and (claim["made"] or not claim["wanted"]):
        return plan.Source(claim["id"], ready=False, error=f"the {wanted[1]} of {wanted[0]} is lost")
    return plan.Source(claim["id"], claim["seen"] == "present" and claim["acted"] >= claim["revision"])
