"""Attachments: who has a volume, or is about to. The volume's shown status follows from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cumulet.db.engine import Tx
from cumulet.errors import Invalid, NotFound
from cumulet.reconcile import holders

#: What an attachment's status makes of an available volume; the last one that any attachment has wins.
IMPLIED = ("reserved", "attaching", "in-use", "detaching")
_IMPLIES = {"attached": "in-use"}

#: ``shown_status`` in SQL, of a row ``v`` of volumes.
SHOWN = (
    "case when v.status <> 'available' then v.status else "
    "case (select max(case h.status when 'detaching' then 4 when 'attached' then 3 when 'attaching' then 2 "
    "when 'reserved' then 1 else 0 end) from attachments h where h.volume_id = v.id) "
    "when 4 then 'detaching' when 3 then 'in-use' when 2 then 'attaching' when 1 then 'reserved' "
    "else 'available' end end"
)


def shown_status(status: str, attachments: Iterable[str]) -> str:
    """The status that a volume shows: its own, or what its attachments imply while it is available.

    See the attachment life in the Block Storage guide: reserved, attaching, attached (in-use), detaching.
    """
    if status != "available":
        return status
    found = {_IMPLIES.get(one, one) for one in attachments}
    return next((name for name in reversed(IMPLIED) if name in found), "available")


def reserve(
    tx: Tx,
    volume_id: str,
    *,
    server_id: str | None,
    project_id: str,
    mode: str = "rw",
    by_client: bool = False,
) -> str:
    """Reserve a volume for a server; return the attachment's id.

    The volume must be available or still be filled (``downloading``), or be multiattach. Raises NotFound, and
    Invalid that names who has it.
    """
    tx.lock("holders", volume_id)
    volume = tx.one("select * from volumes where id = :id", id=volume_id)
    if volume is None or volume["desired"] == "gone":
        raise NotFound(f"Volume {volume_id} could not be found.")
    attachments = tx.all("select id, server_id, status from attachments where volume_id = :id", id=volume_id)
    if volume["status"] not in ("available", "downloading", "creating"):
        raise Invalid(
            f"Invalid volume: volume {volume_id} status must be available, it is {volume['status']}."
        )
    for other in attachments:
        if (
            not volume["multiattach"]
            or other["status"] not in ("attached", "reserved")
            or (other["server_id"] == server_id and server_id is not None)
        ):
            raise Invalid(
                f"Invalid volume: volume {volume_id} is {_IMPLIES.get(other['status'], other['status'])} by attachment "
                f"{other['id']} of server {other['server_id']}. Detach it there first."
            )
    id = tx.uuid()
    tx.insert(
        "attachments", id=id, volume_id=volume_id, server_id=server_id, project_id=project_id, status="reserved",
        mode="ro" if volume["readonly"] else mode, by_client=by_client, created_at=tx.now,
    )  # fmt: skip
    tx.update("volumes", volume_id, updated_at=tx.now)
    return id


def set_attachment(tx: Tx, id: str, *, status: str, host: str | None, info: Mapping[str, Any]) -> None:
    """The attachment goes through its life; a host and connection info only while it has them."""
    connected = status in ("attaching", "attached")
    tx.run(
        "update attachments set status = :status, host = :host, connection_info = :info, connector = :connector, "
        "attached_at = case when :attached then coalesce(attached_at, :now) else null end where id = :id",
        status=status, host=host, info=dict(info) if info else None,
        connector={"host": host} if connected and host else None, attached=status == "attached", now=tx.now, id=id,
    )  # fmt: skip
    _volume_changed(tx, id)


def end_attachment(tx: Tx, id: str) -> None:
    """The attachment is no more, and the volume shows it; one that is not there is no error."""
    _volume_changed(tx, id)
    tx.delete("attachments", id)


def pass_attachment(tx: Tx, id: str, *, delete_volume: bool) -> None:
    """The server goes; the volume itself waits until its export is closed, ``detaching``, and then may go too."""
    tx.update("attachments", id, status="detaching", passed=True, delete_volume=delete_volume)
    _volume_changed(tx, id)


def _volume_changed(tx: Tx, attachment: str) -> None:
    volume = tx.value("select volume_id from attachments where id = :id", id=attachment)
    if volume is not None:
        tx.lock("holders", volume)
        tx.update("volumes", volume, updated_at=tx.now)
        holders.touch(tx, volume)
