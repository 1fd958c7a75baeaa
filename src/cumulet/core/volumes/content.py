"""What is in a volume as a whole: uploaded to an image, replaced by one, or put back to a snapshot."""

from __future__ import annotations

from cumulet.core import images
from cumulet.core.volumes import create, listing, origin
from cumulet.db.engine import Row, Tx
from cumulet.errors import Conflict, Invalid
from cumulet.reconcile import holders
from cumulet.values import Caller

#: Properties of an image that a volume's image metadata must not set.
_OWN = frozenset(
    {"image_id", "image_name", "checksum", "container_format", "disk_format", "min_disk", "min_ram", "size"}
)


def upload(
    tx: Tx, caller: Caller, id: str, *, name: str, disk_format: str, container_format: str, visibility: str,
    protected: bool, force: bool,
) -> tuple[Row, Row]:  # fmt: skip
    """Make an image of a volume; return the volume, ``uploading`` until the image is whole, and the image.

    ``force``: also of one that is in use. Raises NotFound, Invalid.
    """
    volume = listing.find(tx, caller, id, lock=True)
    allowed = ("available", "in-use") if force else ("available",)
    if volume["shown"] not in allowed:
        raise Invalid(
            f"Invalid volume: volume {id} status must be {' or '.join(allowed)}, it is {volume['shown']}."
        )
    claim = tx.one(
        "select id, agent from claims where holder = :id and kind = 'volume' and wanted and seen = 'present'",
        id=id,
    )
    if claim is None:
        raise Invalid(f"Invalid volume: the back end does not have the bytes of volume {id}.")
    properties = {
        key: value
        for key, value in volume["image_metadata"].items()
        if key not in _OWN and not key.startswith("os_glance_")
    }
    image = images.create_inner(
        tx, owner=caller.project_id, name=name, disk_format=disk_format, container_format=container_format,
        visibility=visibility, protected=protected, properties=properties,
    )  # fmt: skip
    images.fill(tx, image, {"source": {"claim": claim["id"], "agent": claim["agent"]}})
    tx.update("volumes", id, status="uploading", upload_image_id=image, updated_at=tx.now)
    holders.touch(tx, id)
    found = listing.find(tx, caller, id)
    found["type"] = tx.one("select * from volume_types where id = :id", id=volume["volume_type_id"] or "")
    row = tx.one("select * from images where id = :id", id=image)
    assert row is not None
    return found, row


def reimage(tx: Tx, caller: Caller, id: str, image_id: str, *, reserved: bool) -> None:
    """Replace what is in a volume by an image. ``reserved``: also in one that is reserved.

    Raises NotFound, Invalid, Conflict.
    """
    volume = listing.find(tx, caller, id, lock=True)
    if len(volume["attachments"]) > 1:
        raise Conflict("Cannot re-image a volume which is attached to more than one server.")
    allowed = ("available", "error", "reserved") if reserved else ("available", "error")
    if volume["shown"] not in allowed or volume["launched_at"] is None:
        raise Invalid(
            f"Invalid volume: volume {id} status must be {' or '.join(allowed)}, but current status is "
            f"{volume['shown']}."
        )
    image = create.image_by_reference(tx, caller, image_id)
    create.check_image(image, volume["size"])
    write_anew(tx, volume, image)
    holders.touch(tx, id)


def write_anew(tx: Tx, volume: Row, image: images.Image) -> None:
    """Want what is in a volume to be the image's bytes, and nothing of before."""
    tx.update(
        "volumes", volume["id"], status="downloading", error=None, launched_at=None,
        generation=volume["generation"] + 1, source_image_id=image.id, source_snapshot_id=None,
        source_volume_id=None, bootable=True, image_metadata=origin.image_metadata(image),
        request_id=tx.request_id or volume["request_id"], updated_at=tx.now,
    )  # fmt: skip


def revert(tx: Tx, caller: Caller, id: str, snapshot_id: str | None) -> None:
    """Put a volume back to its newest snapshot. Raises NotFound, Invalid, Conflict."""
    volume = listing.find(tx, caller, id, lock=True)
    newest = tx.one(
        "select * from snapshots where volume_id = :id and desired <> 'gone' order by created_at desc, id desc limit 1",
        id=id,
    )
    if newest is None:
        raise Invalid(f"Volume {id} doesn't have any snapshots.")
    if snapshot_id != newest["id"]:
        raise Invalid(f"Specified snapshot {snapshot_id} is None or not the latest one of volume {id}.")
    if newest["size"] != volume["size"]:
        raise Invalid(
            f"Can't revert volume {id} to its latest snapshot {snapshot_id}. The volume size must be equal to the "
            f"snapshot size, but they are {volume['size']} and {newest['size']} GiB."
        )
    if volume["shown"] != "available":
        raise Conflict(f"Can't revert volume {id}: its status must be available, it is {volume['shown']}.")
    if newest["status"] != "available":
        raise Conflict(f"Can't revert volume {id}: its snapshot must be available, it is {newest['status']}.")
    tx.update(
        "volumes", id, status="reverting", error=None, launched_at=None, generation=volume["generation"] + 1,
        revert_snapshot_id=newest["id"], request_id=caller.request_id, updated_at=tx.now,
    )  # fmt: skip
    holders.touch(tx, id)
