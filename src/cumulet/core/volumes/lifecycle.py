"""A volume, snapshot or backup from its row to its bytes: making the row, reading the plan's view, writing its changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cumulet.core import history, volume_messages, volume_types
from cumulet.core.volumes import attachments, backends, origin, usage
from cumulet.db.engine import Row, Tx
from cumulet.reconcile import agents, holders, ledger
from cumulet.reconcile.plan import base
from cumulet.reconcile.plan import volume as plan
from cumulet.values import Claim, Limits

#: Table of each kind.
TABLES = {"volume": "volumes", "snapshot": "snapshots", "backup": "volume_backups"}


def create_inner(
    tx: Tx, *, project_id: str, user_id: str, size: int, name: str | None = None, description: str | None = None,
    volume_type_id: str | None = None, zone: str = "nova", metadata: Mapping[str, str] | None = None,
    image_id: str | None = None, snapshot_id: str | None = None, source_volume_id: str | None = None,
    multiattach: bool = False, bootable: bool = False, image_metadata: Mapping[str, Any] | None = None,
    group_id: str | None = None, request_id: str = "",
) -> str:  # fmt: skip
    """A new volume's row and holder, after its quota was checked; return its id. Raises OverQuota.

    Without a type it gets its source's, or the project's default one. What an image, snapshot or volume says of
    the bytes (bootable, image metadata) goes with them.
    """
    inherited = origin.inherited(tx, image_id, snapshot_id, source_volume_id)
    type_id = volume_type_id or inherited.volume_type_id or volume_types.default_id(tx, project_id)
    type_ = tx.one("select * from volume_types where id = :id", id=type_id) if type_id else None
    usage.check(tx, project_id, type_["name"] if type_ else None, volumes=1, gigabytes=size, largest=size)
    id = tx.uuid()
    holders.create(tx, id, "volume", project_id)
    tx.insert(
        "volumes", id=id, project_id=project_id, user_id=user_id, name=name, description=description, size=size,
        desired="available", status="downloading" if image_id else "creating", volume_type_id=type_id, zone=zone,
        metadata=dict(metadata or {}), source_image_id=image_id, source_snapshot_id=snapshot_id,
        source_volume_id=source_volume_id, group_id=group_id, request_id=request_id,
        multiattach=multiattach or (type_ is not None and volume_types.multiattach(type_["extra_specs"])),
        bootable=bootable or inherited.bootable,
        image_metadata={**inherited.image_metadata, **(image_metadata or {})}, created_at=tx.now, updated_at=tx.now,
    )  # fmt: skip
    return id


def delete_inner(tx: Tx, kind: str, id: str) -> None:
    """Want the volume or snapshot no more; its row goes once its bytes are seen gone."""
    tx.update(TABLES[kind], id, desired="gone", status="deleting", updated_at=tx.now)
    holders.touch(tx, id)


def delete_with_server(tx: Tx, id: str) -> bool:
    """Delete a volume whose server is deleted; False if it has to stay.

    One that has snapshots or another attachment stays available, as in Nova, whose request to delete it is
    refused then.
    """
    row = tx.one("select desired from volumes where id = :id", id=id)
    if row is None or row["desired"] == "gone":
        return False
    if tx.one("select 1 from snapshots where volume_id = :id and desired <> 'gone'", id=id) is not None:
        return False
    if tx.one("select 1 from attachments where volume_id = :id", id=id) is not None:
        return False
    delete_inner(tx, "volume", id)
    return True


def view(tx: Tx, id: str, limits: Limits) -> plan.Volume | None:
    """The volume or snapshot as its plan sees it; None if there is none."""
    kind = tx.value("select kind from holders where id = :id", id=id)
    row = tx.one(f"select * from {TABLES[kind]} where id = :id", id=id)
    if row is None:
        return None
    claims = ledger.of_holder(tx, id)
    mine = next((claim for claim in claims if claim.kind == kind), None)
    agent = backends.of(tx, row["volume_id"]) if kind == "snapshot" else row["agent"]
    passed, exports = _attachments(tx, row) if kind == "volume" else ((), ())
    return plan.Volume(
        id=id,
        kind=kind,
        desired=row["desired"],
        status=row["status"],
        now=tx.now,
        patience=limits.patience,
        agent=agent,
        claims=claims,
        spec=_spec(tx, kind, row, mine),
        source=origin.claim_of(tx, kind, row, mine),
        passed=passed,
        exports=exports,
        snapshots=_snapshots(tx, row) if row["desired"] == "gone" and kind == "volume" else 0,
        launched=row["launched_at"] is not None,
        new_size=row.get("new_size"),
        backed_up=row["status"] == "backing-up" and not _backups(tx, kind, id),
        unwanted=kind == "snapshot" and row["image_id"] is not None and not _image(tx, row["image_id"]),
        uploaded=kind == "volume" and row["status"] == "uploading" and _uploaded(tx, row["upload_image_id"]),
        agents=agents.views(tx, {claim.agent for claim in claims} | ({agent} if agent else set())),
        held=frozenset(
            tx.values("select step from faults where effect = 'hold' and step = 'volume.schedule'")
        )
        if agent is None
        else frozenset(),
    )


def _attachments(tx: Tx, row: Row) -> tuple[tuple[plan.Attachment, ...], tuple[plan.Export, ...]]:
    """What the volume itself waits for the end of, and what clients connect by themselves."""
    rows = tx.all(
        "select * from attachments where volume_id = :id and (passed or by_client) order by created_at, id",
        id=row["id"],
    )
    passed = tuple(plan.Attachment(one["id"], one["delete_volume"]) for one in rows if one["passed"])
    exports = tuple(
        plan.Export(
            attachment=one["id"],
            spec={
                "volume": row["id"],
                "host": one["host"],
                "mode": one["mode"],
                "connector": one["connector"],
            },
            told=one["connection_info"] is not None,
        )
        for one in rows
        if not one["passed"] and one["connector"] is not None
    )
    return passed, exports


def _snapshots(tx: Tx, row: Row) -> int:
    return int(tx.value("select count(*) from snapshots where volume_id = :id", id=row["id"]))


def _backups(tx: Tx, kind: str, id: str) -> bool:
    """True while a backup of the volume or snapshot is being made."""
    where = "snapshot_id = :id" if kind == "snapshot" else "volume_id = :id and snapshot_id is null"
    sql = f"select 1 from volume_backups where {where} and status = 'creating' and desired <> 'gone' limit 1"
    return tx.one(sql, id=id) is not None


def _image(tx: Tx, id: str) -> bool:
    """True while the image that a snapshot is made for is wanted."""
    return tx.one("select 1 from images where id = :id and desired <> 'gone'", id=id) is not None


def _uploaded(tx: Tx, image_id: str | None) -> bool:
    status = tx.value("select status from images where id = :id and desired <> 'gone'", id=image_id or "")
    return status not in ("queued", "saving")


def _spec(tx: Tx, kind: str, row: Row, claim: Claim | None) -> dict[str, Any]:
    if kind in ("snapshot", "backup"):
        return {"volume": row["volume_id"], "size_gb": row["size"]}
    spec: dict[str, Any] = {"size_gb": row["new_size"] or row["size"]}
    if row["generation"]:
        spec["generation"] = row["generation"]
    if claim is not None and claim.spec.get("generation", 0) == row["generation"]:
        # What it was made from may have changed since, or be gone, and does not matter any more.
        spec["source"] = claim.spec.get("source")
    else:
        spec["source"] = origin.described(tx, row)
    return spec


def apply(tx: Tx, view: plan.Volume, change: base.Change) -> None:
    """Write one change of a volume's or snapshot's plan, and wake whoever waits for it."""
    match change:
        case base.Set():
            _set(tx, view, change)
        case base.Remove():
            _remove(tx, view)
        case plan.ChooseBackend():
            _choose_backend(tx, view)
        case plan.EndPassed():
            attachments.end_attachment(tx, change.attachment)
            if change.delete:
                delete_with_server(tx, view.id)
            holders.touch(tx, view.id)
        case plan.Exported():
            tx.update("attachments", change.attachment, connection_info=dict(change.info))
        case base.Leave():
            raise TypeError("a volume's claim is never left: its data would be nobody's")
        case _:
            raise TypeError(f"a volume has no {type(change).__name__}")
    tx.wakes.add(view.id)


def _set(tx: Tx, view: plan.Volume, change: base.Set) -> None:
    values = dict(change.values)
    status = values.get("status")
    if status == "available" and view.status in plan.BEGINNING:
        values["launched_at"] = tx.now
        if view.kind == "volume":
            values["revert_snapshot_id"] = None
    if view.status == "restoring-backup" and status is not None:
        _end_restore(tx, view.id)
        values["restore_backup_id"] = None
    tx.update(TABLES[view.kind], view.id, **values, updated_at=tx.now)
    if status is not None and status.startswith("error"):
        volume_messages.tell_of_failure(tx, view.kind, view.id, view.status, bool(view.source))
    if status == "error_extending":
        for server in tx.values("select server_id from block_devices where volume_id = :id", id=view.id):
            history.finish(tx, server, error=values["error"], action="extend_volume")
    if view.kind == "volume":
        _wake_servers(tx, view.id)
    if view.kind == "backup":
        _wake_original(tx, view.id)
    if view.kind == "snapshot":
        _wake_image(tx, tx.value("select image_id from snapshots where id = :id", id=view.id))


def _wake_image(tx: Tx, image: str | None) -> None:
    """An image that is being made of a snapshot waits for it."""
    if image is not None:
        holders.touch(tx, image)


def _end_restore(tx: Tx, volume_id: str) -> None:
    """Nobody reads the backup any more, unless another volume is restored from it as well."""
    backup = tx.value("select restore_backup_id from volumes where id = :id", id=volume_id)
    other = tx.one(
        "select 1 from volumes where restore_backup_id = :backup and id <> :id limit 1",
        backup=backup or "",
        id=volume_id,
    )
    if other is None:
        tx.run(
            "update volume_backups set status = 'available' where id = :id and status = 'restoring'",
            id=backup or "",
        )


def _wake_original(tx: Tx, backup_id: str) -> None:
    """What a backup was made of shows no more that it is being made."""
    row = tx.one("select volume_id, snapshot_id from volume_backups where id = :id", id=backup_id)
    if row is not None:
        holders.touch(tx, row["snapshot_id"] or row["volume_id"])


def _remove(tx: Tx, view: plan.Volume) -> None:
    if view.kind == "backup":
        _wake_original(tx, view.id)
        tx.delete("volume_backups", view.id)
    elif view.kind == "volume":
        _wake_servers(tx, view.id)
        _end_restore(tx, view.id)
        group = tx.value("select group_id from volumes where id = :id", id=view.id)
        tx.delete("volumes", view.id)
        if tx.one("select 1 from volumes where group_id = :id limit 1", id=group or "") is None:
            # A group that is being deleted goes with the last of its volumes.
            tx.run("delete from volume_groups where id = :id and status = 'deleting'", id=group or "")
    else:
        _remove_snapshot(tx, view.id)
    holders.remove(tx, view.id)


def _remove_snapshot(tx: Tx, id: str) -> None:
    row = tx.one("select volume_id, group_snapshot_id, image_id from snapshots where id = :id", id=id)
    assert row is not None
    tx.delete("snapshots", id)
    _wake_image(tx, row["image_id"])
    group = row["group_snapshot_id"] or ""
    if tx.one("select 1 from snapshots where group_snapshot_id = :id limit 1", id=group) is None:
        tx.run("delete from volume_group_snapshots where id = :id and status = 'deleting'", id=group)
    if tx.one("select 1 from volumes where id = :id and desired = 'gone'", id=row["volume_id"]) is not None:
        holders.touch(tx, row["volume_id"])


def _wake_servers(tx: Tx, volume_id: str) -> None:
    """Servers that are to get the volume wait for it."""
    for server in tx.values("select server_id from block_devices where volume_id = :id", id=volume_id):
        holders.touch(tx, server)


def _choose_backend(tx: Tx, view: plan.Volume) -> None:
    row = tx.one("select * from volumes where id = :id", id=view.id)
    assert row is not None
    agent, why = backends.choose(tx, row)
    if agent is not None:
        tx.update("volumes", view.id, agent=agent, updated_at=tx.now)
        return
    tx.update("volumes", view.id, status="error", error=why, updated_at=tx.now)
    volume_messages.tell(tx, "volume", view.id, volume_messages.ALLOCATE, volume_messages.NO_BACKEND)
    _wake_servers(tx, view.id)
