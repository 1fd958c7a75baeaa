"""Backups of volumes: copies that outlive their volume, at the same back end, and volumes restored from them.

An incremental backup is whole in itself; that it goes with another one is only what users are told, and what keeps
the other one from being deleted.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from cumulet.core import snapshots
from cumulet.core.volumes import change, lifecycle, listing, usage
from cumulet.db.engine import Row, Tx
from cumulet.db.query import MarkerNotFound, Query, Where, page
from cumulet.errors import Forbidden, Invalid, NotFound
from cumulet.reconcile import holders, ledger
from cumulet.values import Caller

#: What one can sort by, and the expression for it.
SORTABLE: Mapping[str, str] = {
    "created_at": "b.created_at",
    "data_timestamp": "b.data_timestamp",
    "display_name": "coalesce(b.name, '')",
    "id": "b.id",
    "name": "coalesce(b.name, '')",
    "project_id": "b.project_id",
    "size": "b.size",
    "status": "b.status",
    "updated_at": "b.updated_at",
    "volume_id": "b.volume_id",
}
_EQUAL: Mapping[str, str] = {
    "id": "b.id",
    "name": "b.name",
    "display_name": "b.name",
    "description": "b.description",
    "status": "b.status",
    "volume_id": "b.volume_id",
    "snapshot_id": "b.snapshot_id",
    "parent_id": "b.parent_id",
    "project_id": "b.project_id",
    "user_id": "b.user_id",
    "container": "b.container",
    "availability_zone": "b.zone",
}
_SOURCE = "volume_backups b"
_COLUMNS = "b.*, (select count(*) from volume_backups d where d.parent_id = b.id) as dependents"
#: What a status can be set to.
STATUSES = frozenset({"available", "error"})
#: Who writes backups, as records name it.
SERVICE = "cinder.backup.drivers.cumulet"
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")


def find(tx: Tx, caller: Caller, id: str, *, lock: bool = False) -> Row:
    """A backup, if the caller sees it. Raises NotFound. ``lock``: for who is going to change it."""
    if lock:
        tx.lock("holders", id)
    row = tx.one(f"select {_COLUMNS} from {_SOURCE} where b.id = :id", id=id)
    if row is None or not caller.sees(row["project_id"]):
        raise NotFound(f"Backup {id} could not be found.")
    return row


def backups(tx: Tx, caller: Caller, query: Query, filters: listing.Filters) -> list[Row]:
    """A page of the backups that the caller sees. Raises NotFound for the marker."""
    where = _where(caller, filters)
    try:
        return page(tx, _SOURCE, where, query, SORTABLE, columns=_COLUMNS, key="b.id")
    except MarkerNotFound as error:
        raise NotFound(f"Backup {error} could not be found.") from None


def count(tx: Tx, caller: Caller, filters: listing.Filters) -> int:
    """How many backups a list has on all its pages."""
    where = _where(caller, filters)
    return int(tx.value(f"select count(*) from {_SOURCE} where {where.sql}", **where.params))


def _where(caller: Caller, filters: listing.Filters) -> Where:
    where = Where()
    if not (filters.everybody and caller.is_admin):
        where.equal("b.project_id", caller.project_id)
    for name, value in filters.equal.items():
        values = value if isinstance(value, list | tuple) else [value]
        if name in _EQUAL:
            where.among(_EQUAL[name], [str(one) for one in values])
        elif name == "size":
            where.among("b.size", [int(one) for one in values if str(one).isdigit()])
        else:
            where.add("1 = 0")
    for name, part in filters.like.items():
        if name in _EQUAL:
            where.add(f"{_EQUAL[name]} like :like_{name} escape '!'", **{f"like_{name}": listing.like(part)})
        else:
            where.add("1 = 0")
    return where


# --- making ---


class New(msgspec.Struct, frozen=True):
    """What is asked for."""

    volume_id: str
    snapshot_id: str | None = None
    name: str | None = None
    description: str | None = None
    container: str | None = None
    zone: str | None = None
    metadata: Mapping[str, str] = {}
    incremental: bool = False
    #: Of a volume that is in use as well.
    force: bool = False


def create(tx: Tx, caller: Caller, new: New) -> Row:
    """Make a backup; it is ``creating`` until the back end has it, and its volume is ``backing-up``.

    Raises NotFound, Invalid, OverQuota.
    """
    if caller.project_id is None:
        raise Forbidden("A backup belongs to a project; ask with a token that is scoped to one.")
    volume = listing.find(tx, caller, new.volume_id, lock=True)
    snapshot = _snapshot(tx, caller, new, volume) if new.snapshot_id is not None else None
    if snapshot is None:
        _check(volume, force=new.force)
    change.check_thawed(tx, volume)
    moment = snapshot["created_at"] if snapshot is not None else tx.now
    parent = _parent(tx, caller, volume["id"], moment, snapshot is not None) if new.incremental else None
    size = snapshot["size"] if snapshot is not None else volume["size"]
    usage.check(tx, caller.project_id, None, backups=1, backup_gigabytes=size)
    id = tx.uuid()
    holders.create(tx, id, "backup", caller.project_id)
    tx.insert(
        "volume_backups", id=id, project_id=caller.project_id, user_id=caller.user_id, volume_id=volume["id"],
        snapshot_id=new.snapshot_id, parent_id=parent, name=new.name, description=new.description,
        container=new.container, zone=new.zone or volume["zone"], desired="available", status="creating", size=size,
        agent=volume["agent"], metadata=dict(new.metadata), volume=_remembered(volume), request_id=caller.request_id,
        data_timestamp=moment, created_at=tx.now, updated_at=tx.now,
    )  # fmt: skip
    original = ("volumes", volume["id"]) if snapshot is None else ("snapshots", snapshot["id"])
    tx.update(*original, status="backing-up", updated_at=tx.now)
    holders.touch(tx, id)
    return find(tx, caller, id)


def _snapshot(tx: Tx, caller: Caller, new: New, volume: Row) -> Row:
    snapshot = snapshots.find(tx, caller, str(new.snapshot_id), lock=True)
    if snapshot["volume_id"] != volume["id"]:
        raise Invalid(
            f"Invalid volume: volume {volume['id']} does not match with snapshot.volume_id {snapshot['volume_id']}."
        )
    if snapshot["status"] != "available":
        raise Invalid(
            "Invalid snapshot: snapshot to be backed up must be available, but the current status is "
            f'"{snapshot["status"]}".'
        )
    return snapshot


def _check(volume: Row, *, force: bool) -> None:
    if volume["shown"] not in ("available", "in-use"):
        raise Invalid(
            "Invalid volume: volume to be backed up must be available or in-use, but the current status is "
            f'"{volume["shown"]}".'
        )
    if volume["shown"] == "in-use" and not force:
        raise Invalid("Invalid volume: backing up an in-use volume must use the force flag.")


def _parent(tx: Tx, caller: Caller, volume_id: str, moment: float, of_snapshot: bool) -> str:
    """The newest backup of the volume that an incremental one goes with. Raises Invalid if there is none."""
    sign = "<" if of_snapshot else "<="
    found = tx.value(
        "select id from volume_backups where volume_id = :volume and project_id = :project and status = 'available' "
        f"and data_timestamp {sign} :moment order by data_timestamp desc, id desc limit 1",
        volume=volume_id, project=caller.project_id, moment=moment,
    )  # fmt: skip
    if found is None:
        raise Invalid("Invalid backup: no backups available to do an incremental backup.")
    return str(found)


def _remembered(volume: Row) -> dict[str, Any]:
    names = ("name", "metadata", "image_metadata", "bootable", "volume_type_id")
    return {name: volume[name] for name in names}


# --- changing and removing ---


def update(tx: Tx, caller: Caller, id: str, changes: Mapping[str, Any]) -> Row:
    """Change name, description or metadata. Raises NotFound."""
    find(tx, caller, id)
    if changes:
        tx.update("volume_backups", id, **changes, updated_at=tx.now)
    return find(tx, caller, id)


def delete(tx: Tx, caller: Caller, id: str, *, force: bool = False) -> None:
    """Delete a backup; it is ``deleting`` until the back end has removed it. Raises NotFound, Invalid."""
    row = find(tx, caller, id, lock=True)
    if row["desired"] == "gone":
        return
    if not force and row["status"] not in ("available", "error"):
        raise Invalid(
            f"Invalid backup: backup status must be available or error to be deleted, it is {row['status']}."
        )
    if row["dependents"]:
        raise Invalid("Invalid backup: incremental backups exist for this backup.")
    change.check_thawed(tx, row)
    lifecycle.delete_inner(tx, "backup", id)


def reset_status(tx: Tx, caller: Caller, id: str, status: str) -> None:
    """Set what a backup shows; one that was never made is made again. Raises NotFound, Invalid."""
    row = find(tx, caller, id, lock=True)
    if row["desired"] == "gone":
        raise Invalid(f"Backup {id} is being deleted.")
    if status == "available" and row["launched_at"] is None:
        status = "creating"
    tx.update("volume_backups", id, status=status, updated_at=tx.now)
    holders.touch(tx, id)


# --- restoring ---


def restorable(tx: Tx, caller: Caller, id: str) -> Row:
    """The backup, locked, if a volume can be restored from it. Raises NotFound, Invalid."""
    row = find(tx, caller, id, lock=True)
    if row["status"] != "available":
        raise Invalid(f"Invalid backup: backup status must be available, it is {row['status']}.")
    return row


def restore(tx: Tx, caller: Caller, id: str, volume_id: str | None, name: str | None) -> Row:
    """Restore a backup into a volume, or into a new one; return the volume. Raises NotFound, Invalid, OverQuota."""
    if volume_id is not None:
        return _into(tx, caller, id, volume_id)
    if caller.project_id is None:
        raise Forbidden("A volume belongs to a project; ask with a token that is scoped to one.")
    backup = restorable(tx, caller, id)
    name = name if name is not None else f"restore_backup_{id}"
    description = "auto-created_from_restore_from_backup"
    return new_volume(tx, caller, backup, size=backup["size"], name=name, description=description)


def new_volume(
    tx: Tx, caller: Caller, backup: Row, *, size: int, name: str | None, description: str | None,
    volume_type_id: str | None = None, metadata: Mapping[str, str] | None = None,
) -> Row:  # fmt: skip
    """A volume with what is in a restorable backup."""
    remembered = backup["volume"]
    known = tx.one("select id from volume_types where id = :id", id=remembered.get("volume_type_id") or "")
    id = lifecycle.create_inner(
        tx, project_id=str(caller.project_id), user_id=caller.user_id, size=size, name=name, description=description,
        volume_type_id=volume_type_id or (known["id"] if known is not None else None),
        metadata={**remembered.get("metadata", {}), **(metadata or {})},
        image_metadata=remembered.get("image_metadata", {}), bootable=bool(remembered.get("bootable")),
        request_id=caller.request_id,
    )  # fmt: skip
    tx.update("volumes", id, agent=backup["agent"], status="restoring-backup", restore_backup_id=backup["id"])
    _begin(tx, backup, id)
    return listing.find(tx, caller, id)


def _into(tx: Tx, caller: Caller, id: str, volume_id: str) -> Row:
    volume = listing.find(tx, caller, volume_id, lock=True)
    backup = restorable(tx, caller, id)
    if volume["shown"] != "available" or volume["launched_at"] is None:
        raise Invalid(f"Invalid volume: volume to be restored to must be available, it is {volume['shown']}.")
    if volume["size"] < backup["size"]:
        raise Invalid(
            f"Invalid volume: volume size {volume['size']} is too small to restore backup of size {backup['size']}."
        )
    if volume["agent"] != backup["agent"]:
        raise Invalid("Invalid volume: the volume is at another back end than the backup.")
    change.check_thawed(tx, volume)
    remembered = backup["volume"]
    tx.update(
        "volumes", volume_id, status="restoring-backup", error=None, launched_at=None, restore_backup_id=id,
        generation=volume["generation"] + 1, bootable=bool(remembered.get("bootable")),
        metadata=remembered.get("metadata", {}), image_metadata=remembered.get("image_metadata", {}),
        request_id=caller.request_id, updated_at=tx.now,
    )  # fmt: skip
    _begin(tx, backup, volume_id)
    return listing.find(tx, caller, volume_id)


def _begin(tx: Tx, backup: Row, volume_id: str) -> None:
    tx.update("volume_backups", backup["id"], status="restoring", updated_at=tx.now)
    holders.touch(tx, volume_id)


# --- records ---


class Record(msgspec.Struct, frozen=True):
    """A backup outside of this cloud's database: enough to find its bytes again."""

    id: str
    volume_id: str
    size: int
    #: The claim that names the bytes, and the back end's agent.
    thing: str
    agent: str
    display_name: str | None = None
    display_description: str | None = None
    container: str | None = None
    availability_zone: str | None = None
    backup_metadata: dict[str, str] = {}
    volume: dict[str, Any] = {}
    data_timestamp: float | None = None


def export_record(tx: Tx, caller: Caller, id: str) -> str:
    """A backup as a record. Raises NotFound, Invalid."""
    row = find(tx, caller, id)
    claim = _claim(tx, id)
    if row["status"] != "available" or claim is None:
        raise Invalid(f"Invalid backup: backup status must be available and not {row['status']}.")
    record = Record(
        id=id, volume_id=row["volume_id"], size=row["size"], thing=claim, agent=row["agent"], display_name=row["name"],
        display_description=row["description"], container=row["container"], availability_zone=row["zone"],
        backup_metadata=row["metadata"], volume=row["volume"], data_timestamp=row["data_timestamp"],
    )  # fmt: skip
    return base64.b64encode(msgspec.json.encode(record)).decode()


def _claim(tx: Tx, id: str) -> str | None:
    found = tx.value(
        "select id from claims where holder = :id and kind = 'backup' and wanted and seen = 'present'", id=id
    )
    return None if found is None else str(found)


def import_record(tx: Tx, caller: Caller, service: str, text: str) -> Row:
    """A backup of a record. Its bytes are copied from a backup that has them, or are those that nobody has.

    Raises Invalid.
    """
    if caller.project_id is None:
        raise Forbidden("A backup belongs to a project; ask with a token that is scoped to one.")
    if service != SERVICE:
        raise Invalid(f"Invalid input received: backups of {service[:80]} cannot be read; {SERVICE} can.")
    record = _decoded(text)
    if tx.one("select 1 from holders where id = :id", id=record.id) is not None:
        raise Invalid("Invalid backup: backup already exists in database.")
    holder = tx.value(
        "select b.id from claims c join volume_backups b on b.id = c.holder where c.id = :id and c.agent = :agent and c.wanted",
        id=record.thing,
        agent=record.agent,
    )
    orphan = tx.one(
        "select 1 from orphans where agent = :agent and thing = :thing and kind = 'backup'",
        agent=record.agent,
        thing=record.thing,
    )
    if holder is None and orphan is None:
        raise Invalid("Invalid backup: the back end does not have the bytes that the record names.")
    usage.check(tx, caller.project_id, None, backups=1, backup_gigabytes=record.size)
    holders.create(tx, record.id, "backup", caller.project_id)
    tx.insert(
        "volume_backups", id=record.id, project_id=caller.project_id, user_id=caller.user_id,
        volume_id=record.volume_id, source_backup_id=holder, imported=True, name=record.display_name,
        description=record.display_description, container=record.container, zone=record.availability_zone,
        desired="available", status="creating", size=record.size, agent=record.agent, metadata=record.backup_metadata,
        volume=record.volume, request_id=caller.request_id, data_timestamp=record.data_timestamp or tx.now,
        created_at=tx.now, updated_at=tx.now,
    )  # fmt: skip
    if holder is None:
        spec = {"volume": record.volume_id, "size_gb": record.size, "source": None}
        ledger.open(
            tx, holder=record.id, kind="backup", agent=record.agent, spec=spec, project_id=caller.project_id,
            id=record.thing,
        )  # fmt: skip
        tx.run(
            "delete from orphans where agent = :agent and thing = :thing",
            agent=record.agent,
            thing=record.thing,
        )
    holders.touch(tx, record.id)
    return find(tx, caller, record.id)


def _decoded(text: str) -> Record:
    try:
        record = msgspec.json.decode(base64.b64decode(text, validate=True), type=Record)
    except (binascii.Error, ValueError, msgspec.DecodeError) as error:
        raise Invalid(f"Invalid input received: can't decode backup record: {error}") from None
    if not _ID.match(record.id) or not _ID.match(record.volume_id) or not 1 <= record.size < 1 << 31:
        raise Invalid("Invalid input received: the backup record has no proper ids, or no proper size.")
    return record
