"""What a server is made from: images, volumes and snapshots that the caller may use, and whether the flavor fits.

Everything that is not there, or not for this caller, is the request's fault here: Invalid, not NotFound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cumulet.core import images
from cumulet.core.images import Image
from cumulet.core.servers.devices import Device, invalid
from cumulet.db.engine import Row, Tx
from cumulet.errors import Forbidden, Invalid, NotFound
from cumulet.values import Caller

GIB = 1 << 30


def image(tx: Tx, caller: Caller, id: str) -> Image:
    """An image that a server can be made from. Raises Invalid."""
    try:
        found = images.find(tx, caller, id)
    except NotFound as error:
        raise Invalid(error.message) from None
    if found.status != "active":
        raise Invalid(f"Image {id} is not active: its status is {found.status}.")
    return found


def size_of(image: Image) -> int:
    """Bytes that a disk must have room for."""
    return max(image.size or 0, image.virtual_size or 0)


def fits_memory(flavor: Mapping[str, Any], min_ram: int) -> None:
    """Raise Invalid if the image needs more memory than the flavor has."""
    if flavor["ram"] < min_ram:
        raise Invalid(
            f"Flavor's memory is too small for requested image: it has {flavor['ram']} MiB, the image needs {min_ram}."
        )


def fits_disk(flavor: Mapping[str, Any], image: Image, *, zero_disk: bool) -> None:
    """Raise Invalid if the image does not fit on the flavor's root disk.

    A flavor with a disk of 0 gives the root disk the size of the image; only who may overrule that
    (``zero_disk``) can use it without a volume, others get Forbidden.
    """
    disk = flavor["disk"]
    if disk == 0:
        if not zero_disk:
            raise Forbidden("Only volume-backed servers are allowed for flavors with zero disk.")
        return
    size = size_of(image)
    if size > disk * GIB:
        raise Invalid(
            f"Flavor's disk is too small for requested image. Flavor disk is {disk * GIB} bytes, image is {size} bytes."
        )
    if image.min_disk > disk:
        raise Invalid(
            f"Flavor's disk is smaller than the minimum size specified in image metadata. Flavor disk is {disk} GiB, "
            f"minimum size is {image.min_disk} GiB."
        )


def fits_volume(size: int, bytes_: int, min_disk: int) -> None:
    """Raise Invalid if an image of ``bytes_`` does not fit on a volume of ``size`` GiB."""
    if bytes_ > size * GIB:
        raise Invalid(
            f"Volume is too small for requested image. Volume size is {size * GIB} bytes, image is {bytes_} bytes."
        )
    if min_disk > size:
        raise Invalid(
            f"Volume is smaller than the minimum size specified in image metadata. Volume size is {size} GiB, "
            f"minimum size is {min_disk} GiB."
        )


def volume(tx: Tx, caller: Caller, id: str) -> Row:
    """A volume that the caller may attach. Raises Invalid."""
    row = tx.one("select * from volumes where id = :id", id=id)
    if row is None or row["desired"] == "gone" or not caller.sees(row["project_id"]):
        raise invalid(f"failed to get volume {id}.")
    return row


def bootable(volume: Row) -> Mapping[str, Any]:
    """What a boot volume remembers of its image. Raises Invalid if one cannot boot from it."""
    if not volume["bootable"]:
        raise Invalid(f"Block Device {volume['id']} is not bootable.")
    remembered: Mapping[str, Any] = volume["image_metadata"]
    return remembered


def snapshot(tx: Tx, caller: Caller, id: str) -> Row:
    """A volume snapshot that the caller may use, with what its volume remembers of an image. Raises Invalid."""
    row = tx.one(
        "select s.*, v.bootable, v.image_metadata from snapshots s join volumes v on v.id = s.volume_id where s.id = :id",
        id=id,
    )
    if row is None or row["desired"] == "gone" or not caller.sees(row["project_id"]):
        raise invalid(f"failed to get snapshot {id}.")
    if row["status"] != "available":
        raise invalid(f"snapshot {id} is not available: its status is {row['status']}.")
    return row


def volume_type(tx: Tx, caller: Caller, name: str) -> str:
    """The id of a volume type, given by id or name. Raises Invalid."""
    row = tx.one(
        "select * from volume_types where id = :name or name = :name order by case when id = :name then 0 else 1 end limit 1",
        name=name,
    )
    if row is None or not (row["is_public"] or caller.is_admin or _has_access(tx, row["id"], caller)):
        raise Invalid(f"Volume type {name} could not be found.")
    return str(row["id"])


def _has_access(tx: Tx, type_id: str, caller: Caller) -> bool:
    return (
        tx.one(
            "select 1 from volume_type_access where volume_type_id = :id and project_id = :project",
            id=type_id, project=caller.project_id,
        )
        is not None
    )  # fmt: skip


def image_metadata(image: Image) -> dict[str, Any]:
    """What a volume that is made from the image remembers of it."""
    found = {name: str(value) for name, value in image.properties.items() if value is not None}
    for name in ("checksum", "container_format", "disk_format", "min_disk", "min_ram", "size"):
        value = getattr(image, name)
        if value is not None:
            found[name] = str(value)
    return {**found, "image_id": image.id, "image_name": image.name or ""}


def root_of(devices: Sequence[Device]) -> Device:
    """The boot device of completed devices."""
    return next(device for device in devices if device.is_root)


def boots_from_volume(tx: Tx, id: str) -> bool:
    """True if the server's root disk is a volume."""
    found = tx.one(
        "select 1 from block_devices where server_id = :id and boot_index = 0 and destination_type = 'volume'",
        id=id,
    )
    return found is not None
