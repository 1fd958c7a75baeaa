"""Images of servers that boot from volumes: snapshots of the volumes, and how a server is made from these.

Such an image has no bytes. Its property ``block_device_mapping`` says what devices a server made from it gets. See the
compute API reference, "Create image", and the guide "Block device mapping in Nova".
"""

from __future__ import annotations

from typing import Any

import msgspec

from cumulet.core import images, snapshots
from cumulet.core.volumes import listing
from cumulet.db.engine import Row, Tx
from cumulet.errors import Invalid
from cumulet.values import Caller

#: What an image remembers of a device, whatever that is made from.
_KEPT = (
    "source_type", "destination_type", "device_name", "device_type", "disk_bus", "guest_format", "boot_index", "tag",
    "volume_type", "image_id", "snapshot_id", "volume_id",
)  # fmt: skip


def snapshot_all(tx: Tx, caller: Caller, server_id: str, image_id: str) -> None:
    """Make a queued image of snapshots of all volumes of a server; the image is ``active`` once these are whole.

    If one of them cannot be made, or the image or the server is deleted before that, none of them stays. Raises Invalid for a volume
    that has no bytes to be copied now, OverQuota.
    """
    devices = tx.all(
        "select * from block_devices where server_id = :id and not detaching and replaces is null order by position, id",
        id=server_id,
    )
    name = tx.value("select name from images where id = :id", id=image_id)
    made: list[str] = []
    mapping = []
    for device in devices:
        if device["volume_id"] is not None:
            made.append(_snapshot(tx, caller, device, f"snapshot for {name}", image_id))
            device = _of_snapshot(device, made[-1])
        mapping.append(_mapping(device))
    root = tx.value("select root_device_name from servers where id = :id", id=server_id)
    properties = {"block_device_mapping": msgspec.json.encode(mapping).decode(), "bdm_v2": "True"}
    if root is not None:
        properties["root_device_name"] = root
    for key, value in properties.items():
        tx.run(
            "insert into image_properties (image_id, name, value) values (:id, :key, :value) "
            "on conflict (image_id, name) do update set value = excluded.value",
            id=image_id, key=key, value=value,
        )  # fmt: skip
    # It is not for a disk of a host, which would have to be as large as the flavor's.
    tx.update("images", image_id, min_disk=0, disk_format="raw", container_format="bare")
    images.fill(tx, image_id, {"snapshots": made, "server": server_id})


def give_up(tx: Tx, server_id: str) -> None:
    """The server goes: of its volumes no image is made any more; those that are whole stay."""
    for image in tx.values(
        "select distinct s.image_id from snapshots s join block_devices b on b.volume_id = s.volume_id "
        "where b.server_id = :id and s.image_id is not null",
        id=server_id,
    ):
        images.delete_inner(tx, image)


def _snapshot(tx: Tx, caller: Caller, device: Row, name: str, image_id: str) -> str:
    volume = listing.find(tx, caller, device["volume_id"], lock=True)
    if volume["status"] != "available":
        raise Invalid(
            f"Invalid volume: volume {volume['id']} status must be available or in-use to be copied, it is "
            f"{volume['shown']}."
        )
    return snapshots.insert(
        tx, caller, volume, name=name, description=volume["description"], metadata={}, image_id=image_id
    )


def _of_snapshot(device: Row, snapshot_id: str) -> Row:
    return {
        **device, "source_type": "snapshot", "snapshot_id": snapshot_id, "volume_id": None, "image_id": None,
        "tag": None, "volume_type": None,
    }  # fmt: skip


def _mapping(device: Row) -> dict[str, Any]:
    return {
        **{name: device[name] for name in _KEPT},
        "delete_on_termination": device["delete_on_termination"],
        "volume_size": device["size"],
        "no_device": None,
    }
