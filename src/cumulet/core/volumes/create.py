"""New volumes: blank, or from an image, a snapshot or another volume."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

import msgspec

from cumulet.core import backups, images, volume_types
from cumulet.core.images import finding
from cumulet.core.volumes import backends, lifecycle, listing
from cumulet.db.engine import Row, Tx
from cumulet.db.query import Query
from cumulet.errors import Conflict, Forbidden, Invalid, NotFound
from cumulet.values import Caller

GIB = 1 << 30


class New(msgspec.Struct, frozen=True):
    """What is asked for."""

    size: int | None = None
    name: str | None = None
    description: str | None = None
    #: Id or name.
    volume_type: str | None = None
    metadata: Mapping[str, str] = {}
    zone: str | None = None
    #: Id or name.
    image: str | None = None
    snapshot_id: str | None = None
    source_volume_id: str | None = None
    group_id: str | None = None
    backup_id: str | None = None
    #: The caller may have a volume with several attachments.
    may_multiattach: bool = True
    #: An image that is made of volume snapshots gives its boot volume's.
    of_snapshots: bool = True


def create(tx: Tx, caller: Caller, new: New) -> Row:
    """Make a volume; it is ``creating`` until its back end has it.

    Raises NotFound for a type, snapshot, volume or group that the caller does not see, Invalid for what does not
    go together, Forbidden, OverQuota.
    """
    made = _create(tx, caller, new)
    # Its type may be that of its source, or of its project.
    volume_types.permit(made["multiattach"], new.may_multiattach)
    return made


def _create(tx: Tx, caller: Caller, new: New) -> Row:
    if caller.project_id is None:
        raise Forbidden("A volume belongs to a project; ask with a token that is scoped to one.")
    given = [
        name
        for name, value in (
            ("snapshot", new.snapshot_id),
            ("imageRef", new.image),
            ("source_volume", new.source_volume_id),
            ("backup", new.backup_id),
        )
        if value is not None
    ]
    if len(given) > 1:
        raise Invalid(f"May specify only one of {', '.join(given)}.")
    type_ = volume_types.named(tx, caller, new.volume_type) if new.volume_type else None
    if type_ is not None:
        volume_types.refuse_encrypted(tx, type_)
    if new.backup_id is not None:
        return _from_backup(tx, caller, new, new.backup_id, type_)
    if new.image is not None:
        new = _of_its_snapshot(tx, caller, new, new.image)
    snapshot = _snapshot(tx, caller, new.snapshot_id) if new.snapshot_id is not None else None
    source = _volume(tx, caller, new.source_volume_id) if new.source_volume_id is not None else None
    size = _size(new.size, snapshot, source)
    image = _image(tx, caller, new.image, size) if new.image is not None else None
    if new.group_id is not None:
        _check_group(tx, caller, new.group_id, type_)
    id = lifecycle.create_inner(
        tx, project_id=caller.project_id, user_id=caller.user_id, size=size, name=new.name, description=new.description,
        volume_type_id=type_.id if type_ else None, zone=_zone(tx, new.zone, snapshot, source), metadata=new.metadata,
        image_id=image.id if image else None, snapshot_id=new.snapshot_id, source_volume_id=new.source_volume_id,
        group_id=new.group_id, request_id=caller.request_id,
    )  # fmt: skip
    return listing.find(tx, caller, id)


def _snapshot(tx: Tx, caller: Caller, id: str) -> Row:
    row = tx.one(
        "select s.*, v.zone from snapshots s join volumes v on v.id = s.volume_id where s.id = :id", id=id
    )
    if row is None or not caller.sees(row["project_id"]):
        raise NotFound(f"Snapshot {id} could not be found.")
    if row["status"] != "available":
        raise Invalid(
            f"Invalid snapshot: originating snapshot {id} must be available, it is {row['status']}."
        )
    return row


def _volume(tx: Tx, caller: Caller, id: str) -> Row:
    row = listing.find(tx, caller, id)
    if row["shown"] not in ("available", "in-use"):
        raise Invalid(
            f"Invalid volume: source volume {id} must be available or in-use, it is {row['shown']}."
        )
    return row


def _from_backup(tx: Tx, caller: Caller, new: New, id: str, type_: volume_types.Type | None) -> Row:
    backup = backups.restorable(tx, caller, id)
    size = backup["size"] if new.size is None else new.size
    if size < backup["size"]:
        raise Invalid(
            f"Invalid input received: volume size {size} GiB cannot be smaller than the backup size {backup['size']} GiB."
        )
    return backups.new_volume(
        tx, caller, backup, size=size, name=new.name, description=new.description, metadata=new.metadata,
        volume_type_id=type_.id if type_ else None,
    )  # fmt: skip


def _size(asked: int | None, snapshot: Row | None, source: Row | None) -> int:
    original = snapshot or source
    if asked is None and original is not None:
        return int(original["size"])
    if asked is None:
        raise Invalid(
            "Invalid input received: volume size must be given; it is a whole number of GiB above 0."
        )
    if original is not None and asked < original["size"]:
        word = "snapshot" if snapshot else "original volume"
        raise Invalid(
            f"Invalid input received: volume size {asked} GiB cannot be smaller than the {word} size "
            f"{original['size']} GiB."
        )
    return asked


def _of_its_snapshot(tx: Tx, caller: Caller, new: New, reference: str) -> New:
    """The snapshot of the boot volume instead of an image that is made of snapshots.

    See the API's history of versions, 3.46. Raises NotFound for a snapshot that is not there, Invalid for an image
    without bytes of its own where its snapshots do not count.
    """
    image = image_by_reference(tx, caller, reference)
    snapshot = _boot_snapshot(image.properties)
    if snapshot is None:
        return new
    if not new.of_snapshots:
        if image.size:
            return new
        raise Invalid(
            f"Image {image.id} has no bytes of its own, it is made of volume snapshots: ask for its volume at version "
            "3.46 or newer."
        )
    return msgspec.structs.replace(new, image=None, snapshot_id=snapshot)


def _boot_snapshot(properties: Mapping[str, str]) -> str | None:
    """The snapshot of the boot volume that an image tells of; what cannot be understood tells of none."""
    try:
        devices = msgspec.json.decode(properties.get("block_device_mapping") or "[]")
    except (msgspec.DecodeError, RecursionError):
        return None
    for device in devices if isinstance(devices, list) else ():
        if (
            isinstance(device, dict)
            and device.get("source_type") == "snapshot"
            and device.get("boot_index") == 0
            and isinstance(device.get("snapshot_id"), str)
        ):
            return str(device["snapshot_id"])
    return None


def _image(tx: Tx, caller: Caller, reference: str, size: int) -> images.Image:
    image = image_by_reference(tx, caller, reference)
    check_image(image, size)
    return image


def check_image(image: images.Image, size: int) -> None:
    """Raise Invalid for an image that cannot become a volume of so many GiB."""
    if image.status != "active":
        raise Invalid(f"Invalid input received: image {image.id} is not active, it is {image.status}.")
    needed = -(-(image.size or 0) // GIB)
    if needed > size:
        raise Invalid(
            f"Invalid input received: size of specified image {needed} GiB is larger than volume size {size} GiB."
        )
    if image.min_disk > size:
        raise Invalid(
            f"Invalid input received: volume size {size} GiB cannot be smaller than the image minDisk size "
            f"{image.min_disk} GiB."
        )
    virtual = -(-(image.virtual_size or 0) // GIB)
    if virtual > size:
        raise Invalid(
            f"Image {image.id} is unacceptable: its virtual size is {virtual} GiB and does not fit into {size} GiB."
        )
    problem = images.mismatch(image.disk_format, image.inspected)
    if problem is not None:
        raise Invalid(f"Image {image.id} is unacceptable: {problem}.")


def image_by_reference(tx: Tx, caller: Caller, reference: str) -> images.Image:
    """An image by id, by an address that ends in its id, or by a name that only one has.

    Raises Invalid for none, Conflict for several.
    """
    with contextlib.suppress(NotFound):
        return images.find(tx, caller, reference.rsplit("/", 1)[-1])
    named = finding.listing(tx, caller, Query(limit=2), finding.Filters(among={"name": [reference]}))
    if len(named) > 1:
        raise Conflict(f"Multiple matches found for '{reference}', use an ID to be more specific.")
    if not named:
        raise Invalid(f"Invalid image identifier or unable to access requested image: {reference[:255]}.")
    return named[0]


def _zone(tx: Tx, asked: str | None, snapshot: Row | None, source: Row | None) -> str:
    original = snapshot or source
    zone = asked or (original["zone"] if original else "nova")
    if zone not in backends.zones(tx):
        raise Invalid(f"Availability zone '{zone}' is invalid.")
    if original is not None and zone != original["zone"]:
        raise Invalid(
            f"Invalid input received: the volume must be in the zone of its original, {original['zone']}."
        )
    return str(zone)


def _check_group(tx: Tx, caller: Caller, id: str, type_: volume_types.Type | None) -> None:
    group = tx.one("select * from volume_groups where id = :id", id=id)
    if group is None or not caller.sees(group["project_id"]):
        raise NotFound(f"Group {id} could not be found.")
    if type_ is None:
        raise Invalid(
            "Invalid input received: volume_type must be provided when creating a volume in a group."
        )
    if group["status"] not in ("available", "creating"):
        raise Invalid(f"Invalid Group: originating group must be available, it is {group['status']}.")
    types = tx.values("select volume_type_id from volume_group_volume_types where group_id = :id", id=id)
    if type_.id not in types:
        raise Invalid(
            f"Invalid input received: invalid volume_type provided: {type_.name} (requested type must be supported "
            "by this group)."
        )
