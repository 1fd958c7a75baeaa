"""The block devices that a server is asked to have: completed, checked, named. Pure.

What a request may say follows the compute API reference, "Create server", ``block_device_mapping_v2``; the
messages keep the words of the upstream errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from cumulet.errors import Invalid

#: Disks on the host that one server may have, root, ephemeral and swap disks together.
MOST_LOCAL = 3
#: Devices of one server at the most.
MOST = 128
#: Prefix of device names on each bus.
PREFIXES = {"virtio": "vd", "scsi": "sd", "sata": "sd", "usb": "sd", "ide": "hd", "fdc": "fd", "xen": "xvd"}
BUSES = frozenset({*PREFIXES, "lxc", "uml"})
_NAME = re.compile(r"(?:/dev/)?(x?[a-z]d[a-z]{1,2})\Z")


class Device(msgspec.Struct, frozen=True):
    """One device. ``size`` is in GiB, for swap in MiB."""

    source_type: str
    destination_type: str
    #: Of the image, snapshot or volume that it is made from.
    uuid: str | None = None
    boot_index: int | None = None
    size: int | None = None
    device_name: str | None = None
    device_type: str | None = None
    disk_bus: str | None = None
    guest_format: str | None = None
    delete_on_termination: bool = False
    tag: str | None = None
    volume_type: str | None = None

    @property
    def is_swap(self) -> bool:
        return self.is_blank_disk and self.guest_format == "swap"

    @property
    def is_ephemeral(self) -> bool:
        return self.is_blank_disk and self.guest_format != "swap"

    @property
    def is_blank_disk(self) -> bool:
        return self.source_type == "blank" and self.destination_type == "local"

    @property
    def is_root(self) -> bool:
        return self.boot_index == 0


def invalid(message: str) -> Invalid:
    return Invalid(f"Block Device Mapping is Invalid: {message}")


def root_of(image_id: str) -> Device:
    """The root disk of a server that is made from an image."""
    return Device(
        "image", "local", uuid=image_id, boot_index=0, device_type="disk", delete_on_termination=True
    )


class _OfImage(msgspec.Struct):
    """A device as an image's property tells it: the image of a server that booted from a volume."""

    source_type: Literal["snapshot", "volume", "blank", "image"]
    destination_type: Literal["local", "volume"]
    snapshot_id: str | None = None
    volume_id: str | None = None
    image_id: str | None = None
    boot_index: int | None = None
    volume_size: int | None = None
    device_name: str | None = None
    device_type: str | None = None
    disk_bus: str | None = None
    guest_format: str | None = None
    delete_on_termination: bool | None = None
    no_device: bool | None = None


def of_image(properties: Mapping[str, Any]) -> list[Device]:
    """The devices that an image says a server made from it has. Raises Invalid.

    They are the property ``block_device_mapping``, which the snapshot of a server that boots from a volume has.
    """
    told = properties.get("block_device_mapping")
    if not told or str(properties.get("bdm_v2", "")).lower() not in ("true", "1", "yes"):
        return []
    try:
        found = msgspec.json.decode(str(told))
        devices = msgspec.convert(found, list[_OfImage], strict=False)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise invalid(f"the image's property block_device_mapping cannot be understood: {error}") from None
    return [
        Device(
            source_type=one.source_type, destination_type=one.destination_type,
            uuid={"snapshot": one.snapshot_id, "volume": one.volume_id, "image": one.image_id}.get(one.source_type),
            boot_index=one.boot_index, size=one.volume_size, device_name=one.device_name,
            device_type=one.device_type, disk_bus=one.disk_bus, guest_format=one.guest_format,
            delete_on_termination=bool(one.delete_on_termination),
        )
        for one in devices
        if not one.no_device
    ]  # fmt: skip


def _merged(asked: Sequence[Device], imaged: Sequence[Device]) -> list[Device]:
    """What was asked for goes before what the image says of the same device; the image's root before itself."""
    if any(device.is_root for device in imaged):
        asked = [device for device in asked if not (device.is_root and device.source_type == "image")]
    names = {device.device_name for device in asked if device.device_name}
    return [*asked, *(device for device in imaged if device.device_name not in names)]


def complete(
    asked: Sequence[Device],
    image_id: str | None,
    flavor: Mapping[str, Any],
    imaged: Sequence[Device] = (),
) -> list[Device]:
    """Add what the image (``imaged``) and the flavor bring, the boot device first. Raises Invalid.

    Without any device the image is the root disk; with some, one of them must say that it is.
    """
    devices = _merged(asked, imaged) or ([root_of(image_id)] if image_id else [])
    for device in devices:
        _check_form(device, image_id)
    if flavor["ephemeral"] and not any(device.is_ephemeral for device in devices):
        devices.append(_blank(flavor["ephemeral"], None))
    if flavor["swap"] and not any(device.is_swap for device in devices):
        devices.append(_blank(flavor["swap"], "swap"))
    devices = [_sized(device, flavor) for device in devices]
    _check_whole(devices, flavor)
    return sorted(devices, key=_order)


def _blank(size: int, guest_format: str | None) -> Device:
    return Device(
        "blank", "local", size=size, guest_format=guest_format, device_type="disk", delete_on_termination=True
    )


def _check_form(device: Device, image_id: str | None) -> None:
    """Raise Invalid for a device that makes no sense by itself."""
    if device.source_type == "blank" and device.uuid:
        raise invalid("Invalid device UUID: a blank device is made from nothing.")
    if device.source_type != "blank" and not device.uuid:
        raise invalid(f"Missing device UUID: which {device.source_type} is meant?")
    if device.destination_type == "local":
        if device.source_type in ("volume", "snapshot"):
            raise invalid(f"Mapping {device.source_type} to local is not supported.")
        if device.source_type == "image" and not (image_id and device.is_root):
            raise invalid("Mapping image to local is not supported.")
        if device.volume_type:
            raise invalid("Specifying a volume_type with destination_type=local is not supported.")
    if device.source_type == "volume" and device.volume_type:
        raise invalid("Specifying volume type to existing volume is not supported.")
    if device.destination_type == "volume" and not device.size:
        if device.source_type == "image":
            raise invalid("Images with destination_type 'volume' need to have a non-zero size specified")
        if device.source_type == "blank":
            raise invalid("Blank volumes (source: 'blank', dest: 'volume') need to have non-zero size")
    if device.disk_bus is not None and device.disk_bus not in BUSES:
        raise invalid(f"disk bus {device.disk_bus} is none of {', '.join(sorted(BUSES))}.")


def _sized(device: Device, flavor: Mapping[str, Any]) -> Device:
    """With the flavor's size, where a disk on the host was asked for without one."""
    if device.destination_type != "local":
        return device
    size = {"image": flavor["disk"]}.get(device.source_type) or device.size
    if size is None:
        size = flavor["swap"] if device.is_swap else flavor["ephemeral"]
    return msgspec.structs.replace(device, size=size, delete_on_termination=True)


def _check_whole(devices: Sequence[Device], flavor: Mapping[str, Any]) -> None:
    """Raise Invalid for devices that make no sense together, or not with the flavor."""
    if len(devices) > MOST:
        raise invalid(f"{len(devices)} devices were asked for; at most {MOST} are possible.")
    boots = sorted(d.boot_index for d in devices if d.boot_index is not None and d.boot_index >= 0)
    if not boots or boots != list(range(len(boots))):
        raise invalid(
            "Boot sequence for the instance and image/block device mapping combination is not valid: boot indexes "
            f"must begin with 0 and follow one another, found {boots or 'none'}."
        )
    ephemeral = sum(device.size or 0 for device in devices if device.is_ephemeral)
    if ephemeral > flavor["ephemeral"]:
        raise invalid(
            f"Ephemeral disks requested are larger than the instance type allows: {ephemeral} of {flavor['ephemeral']} GiB."
        )
    swaps = [device for device in devices if device.is_swap]
    if len(swaps) > 1:
        raise invalid("More than one swap drive requested.")
    if swaps and (swaps[0].size or 0) > flavor["swap"]:
        raise invalid(
            f"Swap drive requested is larger than instance type allows: {swaps[0].size} of {flavor['swap']} MiB."
        )
    local = sum(1 for device in devices if device.destination_type == "local")
    if local > MOST_LOCAL:
        raise invalid(f"You specified {local} local devices, more than the limit of {MOST_LOCAL} allows.")
    volumes = [device.uuid for device in devices if device.source_type == "volume"]
    if len(volumes) != len(set(volumes)):
        raise invalid("one volume was named twice.")


def _order(device: Device) -> tuple[int, int]:
    """Root, ephemeral disks, swap, and then volumes as they were asked for."""
    if device.is_root:
        return 0, 0
    if device.is_ephemeral:
        return 1, 0
    return (2, 0) if device.is_swap else (3, 0)


def named(devices: Iterable[Device], bus: str = "virtio") -> list[Device]:
    """Each with a name of its own. A name that was asked for is given if it is free."""
    found: list[Device] = []
    taken: set[str] = set()
    for device in devices:
        name = choose_name(taken, device.device_name, device.disk_bus or bus)
        taken.add(name)
        found.append(msgspec.structs.replace(device, device_name=name))
    return found


def choose_name(taken: Iterable[str], wanted: str | None = None, bus: str = "virtio") -> str:
    """A device name that is not taken: ``/dev/vdb``; the wanted one, if it is a name of a whole device and free."""
    used = set(taken)
    match = _NAME.match(wanted) if wanted else None
    if match is not None and f"/dev/{match[1]}" not in used:
        return f"/dev/{match[1]}"
    prefix = PREFIXES.get(bus, "vd")
    return next(name for i in range(26 * 27) if (name := f"/dev/{prefix}{_letters(i)}") not in used)


def _letters(number: int) -> str:
    """0 is a, 25 is z, 26 is aa."""
    text = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, 26)
        text = chr(ord("a") + rest) + text
    return text
