"""Servers that boot from a volume which is written anew: what may go wrong with it. The rest: test_server_rebuilds.py."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests import servers
from tests.cloud import TestCloud, until
from tests.volumes import NOTHING, VOLUMES, ask, gone, left, shows, things

from cumulet.core import faults

pytestmark = pytest.mark.anyio


async def boot(cloud: TestCloud, image: str) -> tuple[str, str]:
    """A server on a volume of its own: the ids of both."""
    device = {
        "boot_index": 0, "uuid": image, "source_type": "image", "destination_type": "volume", "volume_size": 1,
        "delete_on_termination": True,
    }  # fmt: skip
    server = await servers.boot(cloud, block_device_mapping_v2=[device])
    (volume,) = (await servers.show(cloud, server))["os-extended-volumes:volumes_attached"]
    return server, volume["id"]


async def rebuild(cloud: TestCloud, server: str, image: str, status: int = 202) -> Any:
    answer = await servers.act(cloud, server, "rebuild", {"imageRef": image})
    assert answer.status_code == status, answer.text
    return answer.json()


async def claim_of(cloud: TestCloud, volume: str) -> str | None:
    return await cloud.db.read(
        lambda tx: tx.value("select id from claims where holder = :id and kind = 'volume'", id=volume)
    )


async def test_its_bytes_are_others_in_the_end(cloud: TestCloud, directory: Path) -> None:
    image, other = await servers.make_image(cloud), await servers.make_image(cloud)
    server, volume = await boot(cloud, image)
    before = await claim_of(cloud, volume)
    await rebuild(cloud, server, other)
    await servers.wait_for(cloud, server, "ACTIVE")
    after = await claim_of(cloud, volume)
    assert before != after
    assert things(directory)["volume"] == [after]
    spec = await cloud.db.read(lambda tx: tx.value("select spec from claims where id = :id", id=after))
    assert spec["source"]["image"] == other


async def test_an_image_that_does_not_fit_is_refused(cloud: TestCloud) -> None:
    image = await servers.make_image(cloud)
    large = await servers.make_image(cloud, min_disk=2)
    server, volume = await boot(cloud, image)
    refused = await rebuild(cloud, server, large, 400)
    assert "minimum size is 2 GiB" in refused["badRequest"]["message"]
    assert (await shows(cloud, f"{VOLUMES}/{volume}", "in-use"))["volume_image_metadata"]["image_id"] == image


async def test_what_another_server_writes_to_is_not_written_anew(cloud: TestCloud) -> None:
    image = await servers.make_image(cloud)
    shared = await servers.make_volume(cloud, bootable=True, multiattach=True)
    device = {"boot_index": 0, "uuid": shared, "source_type": "volume", "destination_type": "volume"}
    first = await servers.boot(cloud, block_device_mapping_v2=[device])
    second = await servers.boot(cloud, block_device_mapping_v2=[device])
    refused = await rebuild(cloud, first, image, 409)
    assert "attached to more than one server" in refused["conflictingRequest"]["message"]
    await servers.remove(cloud, second)
    await rebuild(cloud, first, image)
    await servers.wait_for(cloud, first, "ACTIVE")


async def test_a_volume_that_cannot_be_written_is_shown_and_can_be_tried_again(
    cloud: TestCloud, directory: Path
) -> None:
    image = await servers.make_image(cloud)
    server, volume = await boot(cloud, image)
    rule = await cloud.db.write(
        faults.add, faults.Rule(step="volume.ensure", effect="fail", message="no room left")
    )
    await rebuild(cloud, server, image)
    shown = await servers.wait_for(cloud, server, "ERROR")
    assert "no room left" in shown["fault"]["message"]
    await shows(cloud, f"{VOLUMES}/{volume}", "error")
    await cloud.db.write(faults.remove, rule)
    await rebuild(cloud, server, image)
    await servers.wait_for(cloud, server, "ACTIVE")
    await shows(cloud, f"{VOLUMES}/{volume}", "in-use")
    await servers.remove(cloud, server)
    await gone(cloud, f"{VOLUMES}/{volume}")
    assert await left(cloud) == {}
    assert things(directory) == NOTHING


async def test_a_server_whose_volume_is_broken_can_be_deleted(cloud: TestCloud, directory: Path) -> None:
    image = await servers.make_image(cloud)
    server, volume = await boot(cloud, image)
    await cloud.db.write(faults.add, faults.Rule(step="volume.ensure", effect="fail", count=None))
    await rebuild(cloud, server, image)
    await servers.wait_for(cloud, server, "ERROR")
    await servers.remove(cloud, server)
    await gone(cloud, f"{VOLUMES}/{volume}")
    assert await left(cloud) == {}
    assert things(directory) == NOTHING


@pytest.mark.parametrize("step", ["volume.remove", "volume.ensure"])
async def test_the_image_goes_meanwhile(cloud: TestCloud, directory: Path, step: str) -> None:
    image, other = await servers.make_image(cloud), await servers.make_image(cloud)
    server, volume = await boot(cloud, image)
    rule = await cloud.db.write(faults.add, faults.Rule(step=step, effect="hold", count=None))
    await rebuild(cloud, server, other)
    await until(partial(held, cloud, step))
    await ask(cloud, "DELETE", f"/image/v2/images/{other}", 204, as_="admin")
    await cloud.db.write(faults.remove, rule)
    if step == "volume.remove":
        # Nothing was begun yet, so there is nothing that it could be made from.
        shown = await servers.wait_for(cloud, server, "ERROR")
        assert other in shown["fault"]["message"]
    else:
        await servers.wait_for(cloud, server, "ACTIVE")
    await servers.remove(cloud, server)
    await gone(cloud, f"{VOLUMES}/{volume}")
    await gone(cloud, f"/image/v2/images/{other}")
    assert await left(cloud) == {}
    assert things(directory) == NOTHING


async def held(cloud: TestCloud, step: str) -> bool:
    """True once a step is held by the fault rule."""
    hits = await cloud.db.read(
        lambda tx: tx.value("select sum(hits) from faults where step = :step", step=step)
    )
    return bool(hits)
