"""What is done to a volume by its users and administrators, apart from attaching it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cumulet.core import history, quota, volume_types
from cumulet.core.volumes import backends, lifecycle, listing, usage
from cumulet.db.engine import Row, Tx
from cumulet.errors import Conflict, Invalid, NotFound
from cumulet.reconcile import holders
from cumulet.values import Caller

#: A volume that shows one of these can be deleted.
DELETABLE = ("available", "error", "error_restoring", "error_extending", "error_managing")
#: Pairs of metadata at the most.
METADATA = 256


def _refuse(row: Row, verb: str, *allowed: str) -> None:
    """Raise Invalid unless the volume shows one of the statuses."""
    if row["shown"] not in allowed:
        raise Invalid(
            f"Invalid volume: volume {row['id']} status must be {' or '.join(allowed)} to {verb}, it is {row['shown']}."
        )


def _keeper(row: Row) -> str:
    """Who has the volume, in words."""
    other = row["attachments"][0]
    return f"attachment {other['id']}" + (f" of server {other['server_id']}" if other["server_id"] else "")


def check_thawed(tx: Tx, row: Row) -> None:
    """Raise Invalid if the volume's back end is frozen."""
    if tx.one("select 1 from frozen_backends where agent = :agent", agent=row["agent"] or "") is not None:
        raise Invalid(
            "The service is frozen: nothing is made or removed there until an administrator thaws it."
        )


# --- delete ---


def delete(tx: Tx, caller: Caller, id: str, *, cascade: bool = False, force: bool = False) -> None:
    """Delete a volume; it is ``deleting`` until its back end has removed it. ``cascade``: its snapshots too.

    ``force`` is for administrators and passes over the status, not over what uses the volume. Raises NotFound,
    and Invalid that says what keeps the volume.
    """
    row = listing.find(tx, caller, id, lock=True)
    if force:
        _drop_reservations(tx, row)
    else:
        _refuse(row, "be deleted", *DELETABLE)
    if row["attachments"]:
        raise Invalid(
            f"Invalid volume: volume {id} must not be attached; {_keeper(row)} has it. Detach it there first."
        )
    if row["desired"] == "gone":
        return
    if row["group_id"] is not None:
        raise Invalid(
            f"Invalid volume: volume {id} must not belong to a group; it is in group {row['group_id']}."
        )
    check_thawed(tx, row)
    snapshots = tx.all("select * from snapshots where volume_id = :id", id=id)
    if snapshots and not cascade:
        raise Invalid(
            f"Invalid volume: volume {id} must not have snapshots; it has {len(snapshots)}. Delete them, or the volume "
            "with cascade."
        )
    for snapshot in snapshots:
        _check_snapshot(caller, snapshot, force=force)
    for snapshot in snapshots:
        if snapshot["desired"] != "gone":
            lifecycle.delete_inner(tx, "snapshot", snapshot["id"])
    lifecycle.delete_inner(tx, "volume", id)


def _drop_reservations(tx: Tx, row: Row) -> None:
    """What a client only reserved holds nothing, so it does not stop an administrator."""
    kept = []
    for one in row["attachments"]:
        if one["by_client"] and one["status"] == "reserved" and one["connector"] is None:
            tx.delete("attachments", one["id"])
        else:
            kept.append(one)
    row["attachments"] = kept


def _check_snapshot(caller: Caller, snapshot: Row, *, force: bool) -> None:
    if snapshot["group_snapshot_id"] is not None:
        raise Invalid(f"Invalid volume: its snapshot {snapshot['id']} belongs to a group snapshot.")
    if not force and snapshot["status"] not in ("available", "error", "deleting"):
        raise Invalid(f"Invalid volume: its snapshot {snapshot['id']} is {snapshot['status']}.")
    if not caller.sees(snapshot["project_id"]):
        raise Invalid("Invalid volume: it has snapshots that belong to another project.")


# --- what it is called, and what is remembered of it ---


def update(tx: Tx, caller: Caller, id: str, changes: Mapping[str, Any]) -> Row:
    """Change name, description or metadata. Raises NotFound, Invalid."""
    row = listing.find(tx, caller, id)
    if row["status"] == "maintenance":
        raise Invalid("Invalid volume: the volume cannot be updated during maintenance.")
    if changes:
        tx.update("volumes", id, **changes, updated_at=tx.now)
    return listing.find(tx, caller, id)


def set_metadata(
    tx: Tx, caller: Caller, id: str, pairs: Mapping[str, str], *, replace: bool = False, column: str = "metadata"
) -> dict[str, str]:  # fmt: skip
    """Add pairs to the metadata, or replace it; return what it is then. ``column``: metadata or image_metadata.

    Raises NotFound; Invalid for too many, and while the volume is being uploaded.
    """
    row = _with_metadata(tx, caller, id)
    merged = dict(pairs) if replace else {**row[column], **pairs}
    if len(merged) > METADATA:
        raise Invalid(f"The volume would have {len(merged)} pairs of metadata; at most {METADATA} fit.")
    tx.update("volumes", id, **{column: merged}, updated_at=tx.now)
    return merged


def delete_metadata(tx: Tx, caller: Caller, id: str, name: str, *, column: str = "metadata") -> None:
    """Remove one pair. Raises NotFound."""
    row = _with_metadata(tx, caller, id)
    if name not in row[column]:
        raise NotFound(f"Volume {id} has no {column.replace('_', ' ')} with key {name}.")
    rest = {key: value for key, value in row[column].items() if key != name}
    tx.update("volumes", id, **{column: rest}, updated_at=tx.now)


def _with_metadata(tx: Tx, caller: Caller, id: str) -> Row:
    row = listing.find(tx, caller, id, lock=True)
    if row["status"] in ("maintenance", "uploading"):
        raise Invalid(f"Invalid volume: metadata cannot be changed while the volume is {row['status']}.")
    return row


def set_bootable(tx: Tx, caller: Caller, id: str, bootable: bool) -> None:
    """Say whether a server can boot from it. Raises NotFound, Invalid."""
    update(tx, caller, id, {"bootable": bootable})


def set_readonly(tx: Tx, caller: Caller, id: str, readonly: bool) -> None:
    """Say whether it can be written to from its next attachment on. Raises NotFound, Invalid."""
    row = listing.find(tx, caller, id, lock=True)
    _refuse(row, "update the readonly flag", "available")
    admin = {**row["admin_metadata"], "readonly": str(readonly)}
    tx.update("volumes", id, readonly=readonly, admin_metadata=admin, updated_at=tx.now)


# --- size and type ---


def extend(tx: Tx, caller: Caller, id: str, size: int, *, attached: bool) -> None:
    """Make a volume larger; it is ``extending`` until it is. ``attached``: also one that is in use.

    Raises NotFound, Invalid, OverQuota.
    """
    row = listing.find(tx, caller, id, lock=True)
    if size <= row["size"]:
        raise Invalid(
            f"Invalid input received: new size for extend must be greater than current size (current: {row['size']}, "
            f"extended: {size})."
        )
    _refuse(row, "extend", *(("available", "in-use") if attached else ("available",)))
    check_thawed(tx, row)
    usage.check(tx, row["project_id"], row["type_name"], gigabytes=size - row["size"], largest=size)
    tx.update("volumes", id, new_size=size, status="extending", error=None, updated_at=tx.now)
    holders.touch(tx, id)
    for server in _servers(tx, id):
        if server["host"] is not None:
            # Who waits for the guest to know the size looks for this action of its server.
            tx.update("servers", server["id"], devices_pending=True)
            history.begin(tx, server["id"], "extend_volume", caller, host=server["name"])
        holders.touch(tx, server["id"])


def _servers(tx: Tx, id: str) -> list[Row]:
    """The servers that have a volume, with the names of their hosts."""
    return tx.all(
        "select s.id, s.host, a.name from block_devices b join servers s on s.id = b.server_id "
        "left join agents a on a.id = s.host where b.volume_id = :id and s.desired <> 'gone'",
        id=id,
    )


def retype(tx: Tx, caller: Caller, id: str, name_or_id: str, *, migrate: bool, may_multiattach: bool) -> None:
    """Change a volume's type, if its back end can be of that type too.

    Raises NotFound; Forbidden for a type with several attachments unless ``may_multiattach``; Invalid where only another back end could, for volumes do not move between them.
    """
    row = listing.find(tx, caller, id, lock=True)
    try:
        type_ = volume_types.named(tx, caller, name_or_id)
    except NotFound:
        raise Invalid(f"Invalid input received: invalid volume_type passed: {name_or_id}.") from None
    _refuse(row, "retype", "available", "in-use")
    if row["group_id"] is not None:
        raise Invalid(f"Invalid volume: volume {id} must not belong to a group to be retyped.")
    if type_.id == row["volume_type_id"]:
        raise Invalid(f"Invalid volume: volume {id} is of type {type_.name} already.")
    multiattach = volume_types.multiattach(type_.extra_specs)
    volume_types.permit(multiattach, may_multiattach)
    if multiattach != row["multiattach"] and row["shown"] != "available":
        raise Invalid(
            "Invalid input received: retypes affecting multiattach are only allowed on available volumes, it is "
            f"{row['shown']}."
        )
    backend = next((b for b in backends.listing(tx) if b.agent == row["agent"]), None)
    why = backends.refusal(backend, 0, row["zone"], type_.extra_specs) if backend else "gone"
    if backend is None or why not in (None, "disabled", "down", "frozen"):
        hint = "volumes do not move between back ends" if migrate else "its migration policy is never"
        raise Invalid(f"Invalid volume: its back end is {why}, which type {type_.name} asks for, and {hint}.")
    usage.check(tx, row["project_id"], None)
    _check_type_quota(tx, row, type_.name)
    tx.update("volumes", id, volume_type_id=type_.id, multiattach=multiattach, updated_at=tx.now)


def _check_type_quota(tx: Tx, row: Row, name: str) -> None:
    asked = {f"volumes_{name}": 1, f"gigabytes_{name}": int(row["size"])}
    quota.check(quota.limits(tx, "volume", row["project_id"]), usage.used(tx, row["project_id"]), asked)


# --- by administrators ---

#: What a status can be set to.
STATUSES = frozenset(
    {
        "creating", "available", "deleting", "error", "error_deleting", "error_managing", "managing", "attaching",
        "in-use", "detaching", "maintenance", "restoring-backup", "error_restoring", "reserved",
        "awaiting-transfer", "backing-up", "error_backing-up", "error_extending", "downloading", "uploading",
        "retyping", "extending",
    }
)  # fmt: skip


#: What a migration status can be set to.
MIGRATION_STATUSES = frozenset({"migrating", "error", "success", "completing", "none", "starting"})


def reset_status(
    tx: Tx, caller: Caller, id: str, *, status: str | None, attach_status: str | None, migration_status: str | None
) -> None:  # fmt: skip
    """Set what a volume shows; what is true of its bytes and attachments stays. Raises NotFound, Invalid.

    ``available`` and ``in-use`` are what attachments make of it. A volume that was never made is made again.
    """
    row = listing.find(tx, caller, id, lock=True)
    if row["desired"] == "gone":
        raise Invalid(f"Volume {id} is being deleted.")
    if status in ("deleting", "error_deleting", "detaching"):
        raise Invalid(f"Cannot reset-state to {status}.")
    attached = [one for one in row["attachments"] if one["status"] in ("attached", "detaching")]
    if status == "in-use" and not row["attachments"]:
        raise Invalid("Cannot reset-state to in-use because volume does not have any attachments.")
    if attach_status == "attached" and not attached:
        raise Invalid("Cannot reset-state to attached because volume is not attached.")
    if attach_status == "detached":
        _forget_attachments(tx, row)
    if migration_status is not None:
        told = None if migration_status == "none" else migration_status
        tx.update("volumes", id, migration_status=told, updated_at=tx.now)
    if status is None:
        return
    if row["status"] == "awaiting-transfer":
        # What does not wait for a transfer is not on offer.
        tx.run("delete from volume_transfers where volume_id = :id", id=id)
    if status in ("available", "in-use", "reserved"):
        status = "available" if row["launched_at"] is not None else "creating"
    changes: dict[str, Any] = {"status": status, "updated_at": tx.now}
    if row["status"] == "extending":
        changes["new_size"] = None
    tx.update("volumes", id, **changes, error=None if status in ("available", "creating") else row["error"])
    holders.touch(tx, id)


def _forget_attachments(tx: Tx, row: Row) -> None:
    """Clients' attachments end; a server's end with the server's own detach only."""
    for one in row["attachments"]:
        if not one["by_client"]:
            raise Conflict(
                f"Attachment {one['id']} is used by server {one['server_id']}. Detach the volume there instead."
            )
    for one in row["attachments"]:
        tx.update("attachments", one["id"], status="detaching", passed=True)
    holders.touch(tx, row["id"])
