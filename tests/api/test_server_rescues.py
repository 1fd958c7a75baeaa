"""Servers that run from another disk for a while, with their own one beside it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cloud import TestCloud
from tests.servers import (
    NEWEST,
    URL,
    act,
    boot,
    console,
    events,
    make_image,
    make_volume,
    private,
    remove,
    settled,
    show,
    wait_for,
    wait_for_everything,
)

from cumulet.core import faults, images
from cumulet.db.engine import Tx

pytestmark = pytest.mark.anyio
RESCUE_LINE = "root is on the rescue disk"


async def disks(cloud: TestCloud, id: str) -> set[str]:
    def read(tx: Tx) -> set[str]:
        return set(tx.values("select part from claims where holder = :id and kind = 'disk'", id=id))

    return await cloud.db.read(read)


async def test_rescued_and_back(cloud: TestCloud, image: str) -> None:
    before = await settled(cloud)
    id = await boot(cloud, imageRef=image, networks=[{"uuid": await private(cloud)}])
    answer = await act(cloud, id, "rescue", {"adminPass": "geheim"})
    assert (answer.status_code, answer.json()) == (200, {"adminPass": "geheim"})
    shown = await wait_for(cloud, id, "RESCUE")
    assert (shown["OS-EXT-STS:vm_state"], shown["OS-EXT-STS:power_state"]) == ("rescued", 1)
    assert RESCUE_LINE in await console(cloud, id)
    assert await disks(cloud, id) == {"root", "rescue"}
    for action, value in (
        ("rescue", None), ("os-stop", None), ("os-start", None), ("reboot", {"type": "HARD"}), ("pause", None),
        ("suspend", None), ("shelve", None), ("createImage", {"name": "x"}), ("resize", {"flavorRef": "1"}),
        ("rebuild", {"imageRef": image}),
    ):  # fmt: skip
        assert (await act(cloud, id, action, value)).status_code == 409, action
    assert (await act(cloud, id, "unrescue")).status_code == 202
    await wait_for(cloud, id, "ACTIVE")
    assert [line for line in await console(cloud, id) if line == RESCUE_LINE] == [RESCUE_LINE]
    await settled(cloud)
    assert await disks(cloud, id) == {"root"}
    assert (await act(cloud, id, "unrescue")).status_code == 409
    assert [event[:3] for event in (await events(cloud, id))[:2]] == [
        ("unrescue", "compute_unrescue_instance", "Success"),
        ("rescue", "compute_rescue_instance", "Success"),
    ]
    await remove(cloud, id)
    await wait_for_everything(cloud, before)


async def test_from_another_image_and_from_a_stop(cloud: TestCloud, image: str) -> None:
    other = await make_image(cloud)
    id = await boot(cloud, imageRef=image)
    await act(cloud, id, "os-stop")
    await wait_for(cloud, id, "SHUTOFF")
    answer = await act(cloud, id, "rescue", {"rescue_image_ref": other})
    assert (answer.status_code, len(answer.json()["adminPass"])) == (200, 12)
    shown = await wait_for(cloud, id, "RESCUE")
    assert shown["image"]["id"] == image
    await remove(cloud, id)


async def test_what_is_refused(cloud: TestCloud, image: str) -> None:
    id = await boot(cloud, imageRef=image)
    volumes = await make_image(cloud)
    await cloud.db.write(
        lambda tx: tx.insert("image_properties", image_id=volumes, name="block_device_mapping", value="[]")
    )
    bad: list[Any] = [
        {"rescue_image_ref": "x"}, {"rescue_image_ref": "11111111-2222-3333-4444-555555555555"}, {"x": 1},
        {"adminPass": 1}, {"rescue_image_ref": volumes},
    ]  # fmt: skip
    for value in bad:
        assert (await act(cloud, id, "rescue", value)).status_code == 400, value
    assert (await act(cloud, id, "rescue", as_="other")).status_code == 404
    assert (await act(cloud, id, "rescue", as_="reader")).status_code == 403
    assert (await act(cloud, id, "unrescue", as_="reader")).status_code == 403
    await act(cloud, id, "lock")
    assert (await act(cloud, id, "rescue")).status_code == 409
    assert (await show(cloud, id))["status"] == "ACTIVE"


async def test_a_server_that_boots_from_a_volume(cloud: TestCloud, image: str) -> None:
    """Since 2.87, with an image that says how its disk is put beside the others."""
    stable = await make_image(cloud)
    for name, value in (("hw_rescue_bus", "virtio"), ("hw_rescue_device", "disk")):
        await cloud.db.write(
            lambda tx, name=name, value=value: tx.insert(
                "image_properties", image_id=stable, name=name, value=value
            )
        )
    before = await settled(cloud)
    device = {
        "boot_index": 0, "uuid": image, "source_type": "image", "destination_type": "volume", "volume_size": 1,
        "delete_on_termination": True,
    }  # fmt: skip
    id = await boot(cloud, block_device_mapping_v2=[device])
    assert (await act(cloud, id, "rescue")).status_code == 400
    plain = {"rescue_image_ref": image}
    assert (await act(cloud, id, "rescue", plain)).status_code == 400
    body = {"rescue_image_ref": stable}
    refused = await act(cloud, id, "rescue", body, version="compute 2.86")
    assert (refused.status_code, "volume-backed" in refused.text) == (400, True)
    assert (await act(cloud, id, "rescue", body, version="compute 2.87")).status_code == 200
    await wait_for(cloud, id, "RESCUE")
    assert RESCUE_LINE in await console(cloud, id)
    assert (await act(cloud, id, "unrescue")).status_code == 202
    shown = await wait_for(cloud, id, "ACTIVE")
    assert len(shown["os-extended-volumes:volumes_attached"]) == 1
    await act(cloud, id, "rescue", body)
    await wait_for(cloud, id, "RESCUE")
    await remove(cloud, id)
    await wait_for_everything(cloud, before)


async def test_volumes_come_along_but_none_is_attached_meanwhile(cloud: TestCloud, image: str) -> None:
    volume, another = await make_volume(cloud), await make_volume(cloud)
    before = await settled(cloud)
    id = await boot(cloud, imageRef=image)
    path = f"{URL}/{id}/os-volume_attachments"
    assert (
        await cloud.post(path, json={"volumeAttachment": {"volumeId": volume}}, version=NEWEST)
    ).status_code == 200
    await settled(cloud)
    assert (await act(cloud, id, "rescue")).status_code == 200
    await wait_for(cloud, id, "RESCUE")
    refused = await cloud.post(path, json={"volumeAttachment": {"volumeId": another}}, version=NEWEST)
    assert refused.status_code == 409
    assert (await cloud.delete(f"{path}/{volume}", version=NEWEST)).status_code == 409
    assert (await cloud.get(f"/volume/v3/volumes/{volume}")).json()["volume"]["status"] == "in-use"
    assert (await act(cloud, id, "unrescue")).status_code == 202
    await wait_for(cloud, id, "ACTIVE")
    await remove(cloud, id)
    await wait_for_everything(cloud, before)


async def test_the_image_is_gone_before_the_disk_is_made(cloud: TestCloud, image: str) -> None:
    other = await make_image(cloud)
    id = await boot(cloud, imageRef=image)
    await cloud.db.write(faults.add, faults.Rule(step="disk.ensure", effect="hold"))
    assert (await act(cloud, id, "rescue", {"rescue_image_ref": other})).status_code == 200
    shown = await show(cloud, id)
    assert (shown["status"], shown["OS-EXT-STS:task_state"]) == ("ACTIVE", "rescuing")
    assert await cloud.db.write(images.delete_inner, other)
    await cloud.db.write(faults.clear)
    # The disk's claim keeps the bytes that it is made from.
    await wait_for(cloud, id, "RESCUE")
    await remove(cloud, id)


async def test_rescued_and_deleted_in_between(cloud: TestCloud, image: str) -> None:
    before = await settled(cloud)
    for step in ("disk.ensure", "guest.ensure"):
        id = await boot(cloud, imageRef=image)
        await cloud.db.write(faults.add, faults.Rule(step=step, effect="hold"))
        assert (await act(cloud, id, "rescue")).status_code == 200
        assert (await cloud.delete(f"{URL}/{id}")).status_code == 204
        await cloud.db.write(faults.clear)
        await wait_for_everything(cloud, before)
