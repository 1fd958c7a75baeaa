"""Images that are made of servers. See the compute API reference, "Create image" and "Create server back up"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cumulet.core import history, images
from cumulet.core.servers import actions, boot, create, find, snapshot_volumes
from cumulet.db.engine import Row, Tx
from cumulet.errors import Forbidden, Invalid
from cumulet.values import Caller

_STATES = ("active", "stopped", "paused", "suspended")
#: Backups that one image type keeps at the most.
MOST = 1000


def create_image(
    tx: Tx, caller: Caller, id: str, name: str, metadata: Mapping[str, str], *, counted: bool = False,
    volume_backed: bool = True,
) -> str:  # fmt: skip
    """Make an image of a server's disk while it runs on; return the image's id. Raises NotFound, Conflict, OverQuota.

    ``counted``: the metadata counts against the quota of servers' metadata (until 2.38). ``volume_backed``: the caller
    may do it with a server that boots from a volume; else Forbidden. A lock is no obstacle: the server stays as it is.
    """
    row = _ready(tx, caller, id, "createImage")
    if counted:
        create.check_metadata(tx, caller, metadata)
    if boot.boots_from_volume(tx, id):
        if not volume_backed:
            raise Forbidden("Policy doesn't allow images of servers that boot from volumes.")
        return _of_volumes(tx, caller, row, name, metadata)
    image = image_of(tx, row, name, "snapshot", metadata)
    actions.begin(tx, caller, row, "createImage", "image_snapshot", snapshot_image_id=image)
    return image


def _of_volumes(tx: Tx, caller: Caller, row: Row, name: str, metadata: Mapping[str, str]) -> str:
    """Snapshots of all its volumes, which the server does not notice."""
    image = image_of(tx, row, name, "snapshot", metadata)
    history.begin(tx, row["id"], "createImage", caller, host=find.host_name(tx, row))
    snapshot_volumes.snapshot_all(tx, caller, row["id"], image)
    return image


def create_backup(
    tx: Tx, caller: Caller, id: str, name: str, type: str, rotation: int, metadata: Mapping[str, str], *,
    counted: bool = False,
) -> str:  # fmt: skip
    """The same as a backup, of which only the newest ``rotation`` of a type are kept; return the image's id.

    With a rotation of 0 it goes with all others once it is whole. Raises NotFound, Conflict, Invalid (boots from a
    volume), OverQuota.
    """
    row = _ready(tx, caller, id, "createBackup")
    if counted:
        create.check_metadata(tx, caller, metadata)
    if boot.boots_from_volume(tx, id):
        raise Invalid("Backup is not supported for volume-backed instances.")
    image = image_of(tx, row, name, "backup", {**metadata, "backup_type": type})
    pending = {"name": "createBackup", "type": type, "rotation": rotation}
    actions.begin(tx, caller, row, "createBackup", "image_backup", snapshot_image_id=image, pending=pending)
    return image


def _ready(tx: Tx, caller: Caller, id: str, action: str) -> Row:
    row = find.locked(tx, caller, id)
    find.require_state(row, action, _STATES)
    return row


def image_of(tx: Tx, row: Row, name: str, type: str, metadata: Mapping[str, str] | None = None) -> str:
    """A queued image for a server's disk: its id. It belongs to the server's project, and says what it is of."""
    kept: dict[str, Any] = {
        key: str(value) for key, value in row["image_properties"].items() if value is not None
    }
    source = tx.one("select min_ram from images where id = :id", id=row["image_id"] or "")
    return images.create_inner(
        tx, owner=row["project_id"], name=name, visibility="private", container_format="bare", disk_format="qcow2",
        min_disk=row["flavor"]["disk"], min_ram=source["min_ram"] if source else 0,
        properties={
            **kept,
            "image_type": type,
            "instance_uuid": row["id"],
            "user_id": row["user_id"],
            "base_image_ref": row["image_id"] or "",
            # What the user says of the image goes before what the server says of it.
            **(metadata or {}),
        },
    )  # fmt: skip


def end(tx: Tx, server_id: str, error: str | None) -> None:
    """The image is whole, or will not be: the server shows no task any more, and old backups go."""
    row = tx.one("select * from servers where id = :id", id=server_id)
    assert row is not None
    pending = row["pending"] or {}
    tx.update("servers", server_id, snapshot_image_id=None, pending=None, task_state=None, updated_at=tx.now)
    history.finish(tx, server_id, error=error)
    if error is not None:
        images.delete_inner(tx, row["snapshot_image_id"])
    elif pending.get("name") == "createBackup":
        rotate(tx, row, pending["type"], pending["rotation"])


def give_up(tx: Tx, row: Row) -> None:
    """The server goes: an image that was not begun is not made. One whose copy is whole becomes whole, too."""
    image = row["snapshot_image_id"] or ""
    if tx.value("select status from images where id = :id", id=image) == "queued":
        images.delete_inner(tx, image)


def rotate(tx: Tx, row: Row, type: str, keep: int) -> None:
    """Delete a server's backups of a type but for the newest ones."""
    ids = tx.values(
        "select i.id from images i join image_properties t on t.image_id = i.id and t.name = 'backup_type' "
        "join image_properties s on s.image_id = i.id and s.name = 'instance_uuid' "
        "where i.owner = :owner and i.desired <> 'gone' and i.status = 'active' and t.value = :type and s.value = :server "
        "order by i.created_at desc, i.id",
        owner=row["project_id"], type=type, server=row["id"],
    )  # fmt: skip
    for id in ids[keep : keep + MOST]:
        images.delete_inner(tx, id)
