"""The block devices that a request asks for: completed, checked, named."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cumulet.core.servers.devices import Device, choose_name, complete, named, of_image
from cumulet.errors import Invalid

FLAVOR = {"disk": 10, "ephemeral": 0, "swap": 0}
RICH = {"disk": 10, "ephemeral": 4, "swap": 512}


def kinds(devices: list[Device]) -> list[tuple[str, str, int | None]]:
    return [(device.source_type, device.destination_type, device.size) for device in devices]


def test_what_image_and_flavor_bring() -> None:
    assert kinds(complete([], "i", FLAVOR)) == [("image", "local", 10)]
    found = complete([], "i", RICH)
    assert kinds(found) == [("image", "local", 10), ("blank", "local", 4), ("blank", "local", 512)]
    assert [device.guest_format for device in found] == [None, None, "swap"]
    assert all(device.delete_on_termination for device in found)


def test_order_and_names() -> None:
    asked = [
        Device("volume", "volume", uuid="v", device_name="/dev/vdd"),
        Device("blank", "volume", size=1, device_name="vdb1"),
        Device("image", "local", uuid="i", boot_index=0),
        Device("snapshot", "volume", uuid="s", disk_bus="scsi"),
    ]
    found = named(complete(asked, "i", RICH))
    assert [(d.source_type, d.device_name) for d in found] == [
        ("image", "/dev/vda"), ("blank", "/dev/vdb"), ("blank", "/dev/vdc"), ("volume", "/dev/vdd"),
        ("blank", "/dev/vde"), ("snapshot", "/dev/sda"),
    ]  # fmt: skip
    assert choose_name([f"/dev/vd{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]) == "/dev/vdaa"
    assert choose_name(["/dev/vdb"], "vdb") == "/dev/vda"


ROOT = Device("image", "local", uuid="i", boot_index=0)
BLANK = Device("blank", "local", size=1)


@pytest.mark.parametrize(
    ("asked", "flavor"),
    [
        ([Device("volume", "volume", uuid="v")], FLAVOR),
        ([Device("volume", "volume", uuid="v", boot_index=1)], FLAVOR),
        ([ROOT, Device("volume", "volume", uuid="v", boot_index=0)], FLAVOR),
        ([ROOT, Device("volume", "volume", uuid="v"), Device("volume", "volume", uuid="v")], FLAVOR),
        ([ROOT, Device("volume", "volume")], FLAVOR),
        ([ROOT, Device("volume", "local", uuid="v")], FLAVOR),
        ([ROOT, Device("blank", "volume")], FLAVOR),
        ([ROOT, Device("blank", "volume", uuid="v", size=1)], FLAVOR),
        ([ROOT, Device("image", "volume", uuid="i")], FLAVOR),
        ([ROOT, Device("image", "local", uuid="i", boot_index=1)], FLAVOR),
        ([ROOT, Device("volume", "volume", uuid="v", volume_type="t")], FLAVOR),
        ([ROOT, Device("blank", "local", size=1, volume_type="t")], RICH),
        ([ROOT, Device("volume", "volume", uuid="v", disk_bus="moon")], FLAVOR),
        ([ROOT, BLANK], FLAVOR),
        ([ROOT, Device("blank", "local", size=5)], RICH),
        ([ROOT, Device("blank", "local", size=513, guest_format="swap")], RICH),
        ([ROOT, *[Device("blank", "local", size=1, guest_format="swap")] * 2], RICH),
        ([ROOT, BLANK, BLANK, BLANK], RICH),
    ],
)
def test_what_makes_no_sense(asked: list[Device], flavor: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        complete(asked, "i", flavor)


def test_devices_that_an_image_brings() -> None:
    told = [
        {
            "source_type": "snapshot", "destination_type": "volume", "snapshot_id": "s", "boot_index": 0,
            "device_name": "/dev/vda", "volume_size": 3, "delete_on_termination": None, "tag": None,
        },
        {"source_type": "snapshot", "destination_type": "volume", "snapshot_id": "t", "device_name": "/dev/vdb"},
        {"source_type": "blank", "destination_type": "local", "no_device": True},
    ]  # fmt: skip
    properties = {"bdm_v2": "True", "block_device_mapping": json.dumps(told)}
    imaged = of_image(properties)
    assert [(d.uuid, d.boot_index, d.size) for d in imaged] == [("s", 0, 3), ("t", None, None)]
    # The client names the image as its root disk; the image says that its root is a snapshot.
    found = complete(
        [ROOT, Device("volume", "volume", uuid="v", device_name="/dev/vdb")], "i", FLAVOR, imaged
    )
    assert [(d.source_type, d.uuid) for d in found] == [("snapshot", "s"), ("volume", "v")]
    assert of_image({"block_device_mapping": "[]"}) == []
    for bad in ("{", "[{}]", '[{"source_type": "moon", "destination_type": "local"}]', "7"):
        with pytest.raises(Invalid):
            of_image({"bdm_v2": "True", "block_device_mapping": bad})
