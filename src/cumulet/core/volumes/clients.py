"""Attachments that clients make by themselves, without a server of ours: through the attachments API, or by the
actions of the time before it.

What such a client connects is exported by the volume itself. What a server of ours uses is the server's: only
the server lets go of it, whoever asks here (upstream's rule since bug 2004555).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from cumulet.core import qos_specs
from cumulet.core.volumes import listing
from cumulet.core.volumes.attachments import reserve
from cumulet.db.engine import Row, Tx
from cumulet.db.query import MarkerNotFound, Query, Where, page
from cumulet.errors import Conflict, Invalid, NotFound
from cumulet.reconcile import holders
from cumulet.values import Caller

#: Bytes of a connector at the most.
CONNECTOR_LIMIT = 16384

SORTABLE: Mapping[str, str] = {
    "attach_status": "status",
    "attach_time": "coalesce(attached_at, 0)",
    "created_at": "created_at",
    "id": "id",
    "instance_uuid": "coalesce(server_id, '')",
    "mountpoint": "coalesce(mountpoint, '')",
    "updated_at": "created_at",
    "volume_id": "volume_id",
}
#: What a list can be narrowed by: name → column.
FILTERS: Mapping[str, str] = {
    "volume_id": "volume_id",
    "status": "status",
    "attach_status": "status",
    "instance_id": "server_id",
    "instance_uuid": "server_id",
    "id": "id",
    "attached_host": "host",
    "project_id": "project_id",
}


class Found(msgspec.Struct, frozen=True):
    """How far a connection is."""

    attachment: Row
    #: Why it is not there yet.
    waits: str | None = None
    error: str | None = None


def find(tx: Tx, caller: Caller, id: str) -> Row:
    """An attachment, if the caller sees its volume. Raises NotFound."""
    row = tx.one(
        "select a.*, v.project_id as owner from attachments a join volumes v on v.id = a.volume_id "
        "where a.id = :id and a.status <> 'connected'",
        id=id,
    )
    if row is None or not caller.sees(row["owner"]):
        raise NotFound(f"Volume attachment could not be found with filter: attachment_id = {id}.")
    row["qos"] = qos_specs.of_volume(tx, row["volume_id"])
    return row


def attachments(
    tx: Tx, caller: Caller, query: Query, filters: Mapping[str, str], *, everybody: bool
) -> list[Row]:
    """A page of the attachments of volumes that the caller sees. Raises NotFound for the marker."""
    where = Where()
    where.add("status <> 'connected'")
    if not (everybody and caller.is_admin):
        where.equal("project_id", caller.project_id)
    for name, value in filters.items():
        if name in FILTERS:
            where.equal(FILTERS[name], value)
        else:
            where.add("1 = 0")
    try:
        return page(tx, "attachments", where, query, SORTABLE)
    except MarkerNotFound as error:
        raise NotFound(
            f"Volume attachment could not be found with filter: attachment_id = {error}."
        ) from None


def of_volume(tx: Tx, volume_id: str) -> list[Row]:
    """The attachments of a volume."""
    return tx.all(
        "select * from attachments where volume_id = :id and status <> 'connected' order by created_at, id",
        id=volume_id,
    )


# --- the attachments API ---


def create(
    tx: Tx, caller: Caller, volume_id: str, server_id: str | None, connector: Mapping[str, Any] | None, mode: str | None
) -> Row:  # fmt: skip
    """Reserve a volume; with a connector, also have it exported. Raises NotFound, Invalid."""
    volume = listing.find(tx, caller, volume_id, lock=True)
    if volume["shown"].startswith("error"):
        raise Invalid(
            f"Invalid volume: attachments can not be created if the volume is in an error state, it is {volume['shown']}."
        )
    if volume["status"] == "creating":
        raise Invalid(
            f"Invalid volume: volume {volume_id} status must be available to reserve, it is creating."
        )
    id = reserve(
        tx, volume_id, server_id=server_id, project_id=volume["project_id"], mode=mode or "rw", by_client=True
    )
    if connector:
        _connect(tx, id, connector)
        holders.touch(tx, volume_id)
    return find(tx, caller, id)


def connect(tx: Tx, caller: Caller, id: str, connector: Mapping[str, Any]) -> Row:
    """Have a reserved volume exported for a host. Raises NotFound; Conflict where that is not the caller's to say."""
    attachment = find(tx, caller, id)
    volume = listing.find(tx, caller, attachment["volume_id"], lock=True)
    if volume["shown"].startswith("error"):
        raise Conflict(
            f"Volume attachments can not be updated if the volume is in an error state, it is {volume['shown']}."
        )
    _refuse_servers(attachment)
    if attachment["passed"]:
        raise Conflict(f"Attachment {id} is being deleted.")
    others = [one for one in volume["attachments"] if one["id"] != id and one["connector"] is not None]
    if others and not volume["multiattach"]:
        raise Conflict(
            f"Duplicate connectors detected on volume {volume['id']}: {others[0]['id']} has one too."
        )
    if attachment["connector"] is not None and dict(connector) != attachment["connector"]:
        raise Conflict(f"Attachment {id} has another connector already. Delete it and make a new one.")
    if attachment["connector"] is None:
        _connect(tx, id, connector)
        holders.touch(tx, volume["id"])
    return find(tx, caller, id)


def _connect(tx: Tx, id: str, connector: Mapping[str, Any]) -> None:
    if len(msgspec.json.encode(connector)) > CONNECTOR_LIMIT:
        raise Invalid(
            f"Invalid input for field/attribute connector: it is larger than {CONNECTOR_LIMIT} bytes."
        )
    host = connector.get("host")
    if not isinstance(host, str) or not 0 < len(host) <= 255:
        raise Invalid("Invalid input for field/attribute connector: it must name its host.")
    changes: dict[str, Any] = {}
    if connector.get("mode") in ("rw", "ro"):
        changes["mode"] = connector["mode"]
    if isinstance(connector.get("mountpoint"), str):
        changes["mountpoint"] = connector["mountpoint"][:255]
    tx.run("update attachments set status = 'attaching' where id = :id and status = 'reserved'", id=id)
    tx.update("attachments", id, connector=dict(connector), host=host, **changes)


def connection(tx: Tx, id: str) -> Found | None:
    """How far an attachment's export is; None if there is no such attachment any more."""
    attachment = tx.one("select * from attachments where id = :id", id=id)
    if attachment is None:
        return None
    attachment["qos"] = qos_specs.of_volume(tx, attachment["volume_id"])
    error = tx.value(
        "select error from claims where holder = :volume and kind = 'export' and part = :id and wanted",
        volume=attachment["volume_id"], id=id,
    )  # fmt: skip
    waits = tx.value("select waiting from holders where id = :id", id=attachment["volume_id"])
    return Found(attachment, waits, error)


def complete(tx: Tx, caller: Caller, id: str) -> None:
    """The host has connected the volume: it is in use. Raises NotFound, Conflict."""
    attachment = find(tx, caller, id)
    _refuse_servers(attachment)
    if attachment["passed"]:
        raise Conflict(f"Attachment {id} is being deleted.")
    tx.update("attachments", id, status="attached", attached_at=attachment["attached_at"] or tx.now)
    tx.update("volumes", attachment["volume_id"], updated_at=tx.now)


def delete(tx: Tx, caller: Caller, id: str) -> str:
    """End an attachment: at once, or when its export is closed; return its volume's id.

    Raises NotFound, Conflict for what a server uses.
    """
    attachment = find(tx, caller, id)
    tx.lock("holders", attachment["volume_id"])
    if not attachment["by_client"]:
        _give_back(tx, attachment)
    else:
        _end(tx, attachment)
    return str(attachment["volume_id"])


def _end(tx: Tx, attachment: Row) -> None:
    if not attachment["passed"]:
        status = "detaching" if attachment["status"] != "connected" else "connected"
        tx.update("attachments", attachment["id"], status=status, passed=True)
        tx.update("volumes", attachment["volume_id"], updated_at=tx.now)
        holders.touch(tx, attachment["volume_id"])


def _refuse_servers(attachment: Row) -> None:
    if not attachment["by_client"]:
        raise Conflict(
            f"Attachment {attachment['id']} is used by server {attachment['server_id']}, which sees to it itself. "
            "Detach the volume from the server instead."
        )


def _give_back(tx: Tx, attachment: Row) -> None:
    """A server whose build gave up keeps its volumes reserved, and its user may take them back here."""
    server = tx.one("select id, desired from servers where id = :id", id=attachment["server_id"] or "")
    if server is not None and server["desired"] != "failed":
        _refuse_servers(attachment)
    if attachment["status"] != "reserved" or attachment["passed"]:
        _refuse_servers(attachment)
    if server is not None:
        tx.run(
            "delete from block_devices where server_id = :server and volume_id = :volume",
            server=server["id"], volume=attachment["volume_id"],
        )  # fmt: skip
    tx.delete("attachments", attachment["id"])
    tx.update("volumes", attachment["volume_id"], updated_at=tx.now)
    holders.touch(tx, attachment["volume_id"])


# --- the actions of the time before it ---


def reserve_by_action(tx: Tx, caller: Caller, volume_id: str) -> None:
    """Mark a volume as being attached. Raises NotFound, Invalid."""
    volume = listing.find(tx, caller, volume_id, lock=True)
    allowed = ("available", "in-use") if volume["multiattach"] else ("available",)
    if volume["shown"] not in allowed:
        raise Invalid(
            f"Invalid volume: volume status must be {' or '.join(allowed)} to reserve, but the status is "
            f"{volume['shown']}."
        )
    tx.update("volumes", volume_id, status="attaching", updated_at=tx.now)


def unreserve_by_action(tx: Tx, caller: Caller, volume_id: str) -> None:
    """Take the mark away; one that is not there is no error. Raises NotFound."""
    _unmark(tx, listing.find(tx, caller, volume_id, lock=True), "attaching")


def begin_detaching(tx: Tx, caller: Caller, volume_id: str) -> None:
    """Mark a volume as being detached. Raises NotFound, Invalid."""
    volume = listing.find(tx, caller, volume_id, lock=True)
    if volume["shown"] != "in-use":
        raise Invalid(
            f"Invalid volume: unable to detach volume. Volume status must be 'in-use', it is {volume['shown']}."
        )
    tx.update("volumes", volume_id, status="detaching", updated_at=tx.now)


def roll_detaching(tx: Tx, caller: Caller, volume_id: str) -> None:
    """Take that mark away; one that is not there is no error. Raises NotFound."""
    _unmark(tx, listing.find(tx, caller, volume_id, lock=True), "detaching")


def _unmark(tx: Tx, volume: Row, mark: str) -> None:
    if volume["status"] == mark:
        tx.update("volumes", volume["id"], status="available", updated_at=tx.now)


def attach(
    tx: Tx, caller: Caller, volume_id: str, *, server_id: str | None, host: str | None, mountpoint: str, mode: str
) -> None:  # fmt: skip
    """Write down that a volume is attached somewhere. Raises NotFound, Invalid."""
    volume = listing.find(tx, caller, volume_id, lock=True)
    if volume["readonly"] and mode != "ro":
        raise Invalid(f"Invalid attaching mode '{mode}' for volume {volume_id}: it is read-only.")
    allowed = ("available", "attaching", "in-use") if volume["multiattach"] else ("available", "attaching")
    if volume["shown"] not in allowed:
        raise Invalid(
            f"Error attaching volume: volume status must be {' or '.join(allowed)}, but the status is {volume['shown']}."
        )
    if any(one["status"] not in ("connected", "attached") for one in volume["attachments"]):
        raise Invalid(f"Error attaching volume: volume {volume_id} is already reserved by somebody else.")
    tx.insert(
        "attachments", id=tx.uuid(), volume_id=volume_id, server_id=server_id, project_id=volume["project_id"],
        status="attached", mode=mode, host=host, mountpoint=mountpoint, by_client=True, by_action=True,
        created_at=tx.now, attached_at=tx.now,
    )  # fmt: skip
    status = "available" if volume["status"] == "attaching" else volume["status"]
    tx.update("volumes", volume_id, status=status, updated_at=tx.now)


def detach(tx: Tx, caller: Caller, volume_id: str, attachment_id: str | None) -> None:
    """Write down that a volume is attached no more. Raises NotFound, Invalid, Conflict for what a server uses."""
    volume = listing.find(tx, caller, volume_id, lock=True)
    attached = [one for one in volume["attachments"] if one["status"] != "connected"]
    if attachment_id is not None:
        attached = [one for one in attached if one["id"] == attachment_id]
        if not attached:
            raise Invalid(f"Error detaching volume: volume {volume_id} has no attachment {attachment_id}.")
    if len(attached) > 1:
        raise Invalid("Error detaching volume: it is attached more than once; name one attachment.")
    for one in attached:
        _refuse_servers(one)
        _end(tx, one)
    if not attached or len(volume["attachments"]) > len(attached):
        _end_connections(tx, volume, None)
    _unmark(tx, volume, "detaching")
    if volume["status"] == "error" and attached and volume["launched_at"] is not None:
        # A detach that is forced is how an administrator gets a volume out of an error.
        tx.update("volumes", volume_id, status="available", error=None)


def initialize_connection(tx: Tx, caller: Caller, volume_id: str, connector: Mapping[str, Any]) -> str:
    """Have a volume exported for a host without attaching it; return the id to ask ``connection`` with.

    Raises NotFound, Invalid.
    """
    volume = listing.find(tx, caller, volume_id, lock=True)
    if (
        volume["launched_at"] is None
        or volume["desired"] == "gone"
        or volume["shown"].startswith("error")
        or volume["status"] == "maintenance"
    ):
        raise Invalid(f"Invalid volume: volume {volume_id} cannot be connected, it is {volume['shown']}.")
    if any(not one["by_client"] for one in volume["attachments"]) and not volume["multiattach"]:
        _refuse_servers(volume["attachments"][0])
    for one in volume["attachments"]:
        if one["status"] == "connected" and one["connector"] == dict(connector) and not one["passed"]:
            return str(one["id"])
    id = tx.uuid()
    tx.insert(
        "attachments", id=id, volume_id=volume_id, project_id=volume["project_id"], status="connected",
        mode="ro" if volume["readonly"] else "rw", by_client=True, by_action=True, created_at=tx.now,
    )  # fmt: skip
    _connect(tx, id, connector)
    holders.touch(tx, volume_id)
    return id


def terminate_connection(
    tx: Tx, caller: Caller, volume_id: str, connector: Mapping[str, Any] | None
) -> list[str]:
    """End a host's connection, or every one without a connector; return the ids of what ends.

    Raises NotFound, Conflict for what a server uses.
    """
    volume = listing.find(tx, caller, volume_id, lock=True)
    for one in volume["attachments"]:
        if not one["by_client"] and one["connection_info"] is not None:
            _refuse_servers(one)
    ended = _end_connections(tx, volume, (connector or {}).get("host"))
    _unmark(tx, volume, "attaching")
    return ended


def _end_connections(tx: Tx, volume: Row, host: str | None) -> list[str]:
    ended = []
    for one in volume["attachments"]:
        if one["status"] == "connected" and host in (None, one["host"]):
            _end(tx, one)
            ended.append(str(one["id"]))
    return ended


def force_detach(tx: Tx, caller: Caller, volume_id: str, attachment_id: str | None) -> None:
    """An administrator's detach after the host has let go. Raises NotFound, Invalid, Conflict."""
    terminate_connection(tx, caller, volume_id, None)
    detach(tx, caller, volume_id, attachment_id)
