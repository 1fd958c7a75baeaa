"""Volumes of a server: attached to it, detached from it. See the compute API reference, "Servers with volume attachments".

The attachment of a volume and the block device of the server are rows of one transaction; the plan makes and
removes what stands for them on the host and at the back end.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cumulet.core import history, volumes
from cumulet.core.servers import actions, devices, find
from cumulet.db.engine import Row, Tx
from cumulet.errors import Conflict, Forbidden, Invalid, NotFound
from cumulet.reconcile import holders
from cumulet.values import Caller

#: Devices of one server at the most, as with the virtio bus of the upstream default.
MOST = 26
#: In which a volume is attached, and detached.
_ATTACHABLE = ("active", "paused", "stopped", "resized", "soft-delete", "shelved", "shelved_offloaded")
_SWAPPABLE = ("active", "paused", "resized")


class Attached(msgspec.Struct, frozen=True):
    """A volume of a server."""

    #: Of the block device.
    id: str
    server_id: str
    volume_id: str
    attachment_id: str | None
    device: str | None
    tag: str | None
    delete_on_termination: bool


class Attach(msgspec.Struct, frozen=True, kw_only=True):
    """What a request to attach says."""

    volume_id: str
    device: str | None = None
    tag: str | None = None
    delete_on_termination: bool = False
    #: The caller knows of volumes with several attachments (since 2.60).
    multiattach: bool = True
    #: The caller may attach to a shelved server (since 2.20).
    shelved: bool = True


_SELECT = (
    "select b.id, b.server_id, b.volume_id, b.device_name as device, b.tag, b.delete_on_termination, b.boot_index, "
    "b.detaching, t.id as attachment_id, t.status from block_devices b "
    "left join attachments t on t.volume_id = b.volume_id and t.server_id = b.server_id and not t.by_client "
    "where b.server_id = :server and b.volume_id is not null and b.replaces is null"
)


def listing(tx: Tx, caller: Caller, server_id: str) -> list[Attached]:
    """The volumes of a server, in the order of its devices. Raises NotFound."""
    find.find(tx, caller, server_id)
    rows = tx.all(f"{_SELECT} order by b.position, b.created_at, b.id", server=server_id)
    return [_attached(row) for row in rows]


def show(tx: Tx, caller: Caller, server_id: str, volume_id: str) -> Attached:
    """One of them. Raises NotFound."""
    find.find(tx, caller, server_id)
    return _attached(_row(tx, server_id, volume_id))


def _row(tx: Tx, server_id: str, volume_id: str) -> Row:
    row = tx.one(f"{_SELECT} and b.volume_id = :volume", server=server_id, volume=volume_id)
    if row is None:
        raise NotFound(f"Instance {server_id} is not attached to volume {volume_id}")
    return row


def _attached(row: Row) -> Attached:
    return Attached(**{name: row[name] for name in Attached.__struct_fields__})


def attach(tx: Tx, caller: Caller, server_id: str, asked: Attach) -> Attached:
    """Attach a volume. Raises NotFound, Conflict, Invalid (the volume is not available), Forbidden (too many)."""
    states = _without_shelved(_ATTACHABLE, shelved=asked.shelved)
    server = actions.ready(tx, caller, server_id, "attach_volume", states)
    volume = tx.one("select * from volumes where id = :id", id=asked.volume_id)
    if volume is None or volume["desired"] == "gone" or not caller.sees(volume["project_id"]):
        raise NotFound(f"Volume {asked.volume_id} could not be found.")
    offloaded = server["vm_state"] == "shelved_offloaded"
    _check_volume(tx, server, volume, asked, offloaded=offloaded)
    taken = tx.all("select device_name, position from block_devices where server_id = :id", id=server_id)
    if len(taken) >= MOST:
        raise Forbidden(
            f"The maximum allowed number of disk devices ({MOST}) to attach to a single instance has been exceeded."
        )
    device = devices.choose_name([row["device_name"] for row in taken if row["device_name"]], asked.device)
    attachment = volumes.reserve(tx, asked.volume_id, server_id=server_id, project_id=server["project_id"])
    if offloaded:
        # There is no host that could connect it; it is the server's all the same.
        volumes.set_attachment(tx, attachment, status="attached", host=None, info={})
    id = tx.uuid()
    tx.insert(
        "block_devices", id=id, server_id=server_id, position=max((row["position"] for row in taken), default=-1) + 1,
        source_type="volume", destination_type="volume", device_name=device, size=volume["size"], tag=asked.tag,
        delete_on_termination=asked.delete_on_termination, volume_id=asked.volume_id, created_at=tx.now,
    )  # fmt: skip
    _begin(tx, caller, server, "attach_volume")
    return Attached(
        id, server_id, asked.volume_id, attachment, device, asked.tag, asked.delete_on_termination
    )


def _without_shelved(states: Sequence[str], *, shelved: bool) -> Sequence[str]:
    return states if shelved else [state for state in states if not state.startswith("shelved")]


def _check_volume(tx: Tx, server: Row, volume: Row, asked: Attach, *, offloaded: bool) -> None:
    """Raise Invalid if the server cannot have the volume."""
    here = tx.one(
        "select 1 from block_devices where server_id = :server and volume_id = :volume",
        server=server["id"], volume=volume["id"],
    )  # fmt: skip
    if here is not None:
        raise Invalid(f"Invalid volume: volume {volume['id']} is already attached to instance {server['id']}")
    if volume["status"] != "available":
        raise Invalid(
            f"Invalid volume: volume {volume['id']} status must be available, it is {volume['status']}."
        )
    if volume["multiattach"] and not asked.multiattach:
        raise Invalid("Multiattach volumes are only supported starting with compute API version 2.60.")
    if offloaded and volume["multiattach"]:
        raise Invalid("Attaching multiattach volumes is not supported for shelved-offloaded instances.")
    if offloaded and asked.tag is not None:
        raise Invalid("Tagged volume attachment is not supported for shelved-offloaded instances.")


def _begin(tx: Tx, caller: Caller, server: Row, action: str) -> None:
    tx.update("servers", server["id"], devices_pending=True, updated_at=tx.now)
    history.begin(tx, server["id"], action, caller, host=find.host_name(tx, server))
    holders.touch(tx, server["id"])


def update(tx: Tx, caller: Caller, server_id: str, volume_id: str, asked: dict[str, object]) -> None:
    """Change whether the volume is deleted with the server; nothing else of an attachment can change.

    Raises NotFound, Invalid that names what was to change.
    """
    find.locked(tx, caller, server_id)
    row = _row(tx, server_id, volume_id)
    for name, value in (
        ("id", volume_id),
        ("serverId", server_id),
        ("device", row["device"]),
        ("tag", row["tag"]),
    ):
        if name in asked and asked[name] != value:
            raise Invalid(f"The {name} property is not mutable")
    if "delete_on_termination" in asked:
        tx.update("block_devices", row["id"], delete_on_termination=asked["delete_on_termination"])


def swap(tx: Tx, caller: Caller, server_id: str, volume_id: str, new_id: str) -> None:
    """Have another volume take a volume's place, with all that is in it; the guest does not notice.

    The new one is a device of its own until then, which ``replaces`` the old one's and is filled by the guest. Only
    for a volume that is on its way to another one (its migration status says so; upstream's rule since bug 2112187).
    Raises NotFound, Conflict, Invalid.
    """
    server = find.locked(tx, caller, server_id)
    old = _visible(tx, caller, volume_id)
    if old is None:
        raise NotFound(f"Volume {volume_id} could not be found.")
    if not old["migration_status"]:
        raise Conflict(
            f"volume {volume_id} is not migrating; this API should only be called by the volume service"
        )
    new = _visible(tx, caller, new_id)
    if new is None:
        raise Invalid(f"Volume {new_id} could not be found.")
    server = actions.ready(tx, caller, server_id, "swap_volume", _SWAPPABLE)
    for id in sorted((volume_id, new_id)):
        tx.lock("holders", id)
    row = tx.one(f"{_SELECT} and b.volume_id = :volume", server=server_id, volume=volume_id)
    _check_swap(tx, row, old, new)
    assert row is not None
    device = tx.one("select * from block_devices where id = :id", id=row["id"])
    assert device is not None
    volumes.reserve(tx, new_id, server_id=server_id, project_id=server["project_id"])
    tx.insert(
        "block_devices", id=tx.uuid(), server_id=server_id, position=device["position"], source_type="volume",
        destination_type="volume", device_name=device["device_name"], disk_bus=device["disk_bus"], size=new["size"],
        volume_id=new_id, replaces=device["id"], created_at=tx.now,
    )  # fmt: skip
    tx.update("attachments", row["attachment_id"], status="detaching")
    tx.update("volumes", volume_id, updated_at=tx.now)
    _begin(tx, caller, server, "swap_volume")


def _visible(tx: Tx, caller: Caller, id: str) -> Row | None:
    row = tx.one("select * from volumes where id = :id", id=id)
    return row if row is not None and row["desired"] != "gone" and caller.sees(row["project_id"]) else None


def _check_swap(tx: Tx, row: Row | None, old: Row, new: Row) -> None:
    """Raise Invalid if the new volume cannot take the old one's place."""
    if row is None or row["attachment_id"] is None:
        raise Invalid("Invalid volume: Old volume is attached to a different instance.")
    if tx.one("select 1 from attachments where volume_id = :id and attached_at is not null", id=new["id"]):
        raise Invalid("Invalid volume: New volume must be detached in order to swap.")
    if new["size"] < old["size"]:
        raise Invalid("Invalid volume: New volume must be the same size or larger.")
    if row["detaching"] or row["status"] != "attached" or old["status"] != "available":
        raise Invalid(f"Invalid volume: unable to detach volume {old['id']}: it must be in-use.")
    writers = tx.value(
        "select count(*) from attachments where volume_id = :id and mode = 'rw' and status <> 'connected'",
        id=old["id"],
    )
    if writers > 1:
        raise Invalid(
            "Swapping multi-attach volumes with more than one read/write attachment is not supported."
        )


def swapped(tx: Tx, server_id: str, old: str, new: str) -> None:
    """The volume of the attachment ``new`` takes the place of the other one, which is detached from now on."""
    devices = {
        row["attachment"]: row
        for row in tx.all(
            "select b.*, t.id as attachment from block_devices b join attachments t on t.volume_id = b.volume_id "
            "and t.server_id = b.server_id where b.server_id = :server and t.id in :ids",
            server=server_id, ids=(old, new),
        )
    }  # fmt: skip
    before, after = devices[old], devices[new]
    kept = ("boot_index", "tag", "delete_on_termination", "device_type", "guest_format")
    tx.update("block_devices", after["id"], **{name: before[name] for name in kept})
    tx.update(
        "block_devices", before["id"], detaching=True, boot_index=None, tag=None, delete_on_termination=False
    )
    tx.update("volumes", before["volume_id"], migration_status=None, updated_at=tx.now)


def keep_replaced(tx: Tx, server_id: str, attachment: str) -> None:
    """The volume of the attachment will not take another one's place: that one stays."""
    tx.run(
        "update attachments set status = 'attached' where status = 'detaching' and server_id = :server and volume_id in "
        "(select old.volume_id from block_devices b join attachments t on t.volume_id = b.volume_id "
        "join block_devices old on old.id = b.replaces where t.id = :id and not old.detaching)",
        server=server_id, id=attachment,
    )  # fmt: skip


def detach(tx: Tx, caller: Caller, server_id: str, volume_id: str, *, shelved: bool = True) -> None:
    """Take a volume away from a server. Raises NotFound, Conflict, Invalid (root device, detached already)."""
    server = find.locked(tx, caller, server_id)
    row = _row(tx, server_id, volume_id)
    if row["boot_index"] == 0:
        raise Invalid("Cannot detach a root device volume")
    server = actions.ready(
        tx, caller, server_id, "detach_volume", _without_shelved(_ATTACHABLE, shelved=shelved)
    )
    if row["detaching"] or row["status"] == "detaching":
        raise Invalid(f"Invalid volume: volume {volume_id} is being detached already.")
    tx.update("block_devices", row["id"], detaching=True)
    if row["attachment_id"] is not None:
        tx.update("attachments", row["attachment_id"], status="detaching")
        tx.update("volumes", volume_id, updated_at=tx.now)
    _begin(tx, caller, server, "detach_volume")
