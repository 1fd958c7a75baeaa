"""Images of servers: what they tell of themselves, and what becomes of one that is deleted while it is saved."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests import servers
from tests.cloud import TestCloud, running_cloud, until

from cumulet.db.engine import PostgresDatabase, SqliteDatabase

pytestmark = pytest.mark.anyio

SERVERS, IMAGES = "/compute/v2.1/servers", "/compute/v2.1/images"


@pytest.fixture
async def cloud(db: SqliteDatabase | PostgresDatabase, tmp_path: Path) -> AsyncIterator[TestCloud]:
    async with running_cloud(db, tmp_path) as made:
        yield made


async def save(cloud: TestCloud, server: str, **body: object) -> str:
    """Ask for an image; its id, which the answer's Location ends in."""
    answer = await cloud.post(f"{SERVERS}/{server}/action", json={"createImage": {"name": "saved", **body}})
    assert answer.status_code == 202, answer.text
    return answer.headers["location"].rsplit("/", 1)[1]


async def test_what_the_user_says_of_an_image_goes_before_what_the_server_says(cloud: TestCloud) -> None:
    server = await servers.boot(cloud, imageRef=await servers.make_image(cloud))
    image = await save(cloud, server, metadata={"image_type": "golden", "purpose": "test"})

    async def shown() -> dict[str, object] | None:
        found = (await cloud.get(f"{IMAGES}/{image}")).json()["image"]
        return found if found["status"] == "ACTIVE" else None

    metadata = (await until(shown))["metadata"]
    assert (metadata["image_type"], metadata["purpose"]) == ("golden", "test")
    assert metadata["instance_uuid"] == server


async def test_an_image_that_is_deleted_while_it_is_saved_is_not_there_any_more(cloud: TestCloud) -> None:
    server = await servers.boot(cloud, imageRef=await servers.make_image(cloud))
    image = await save(cloud, server)
    assert (await cloud.delete(f"{IMAGES}/{image}")).status_code == 204
    assert (await cloud.get(f"{IMAGES}/{image}")).status_code == 404
    assert (await cloud.delete(f"{IMAGES}/{image}")).status_code == 404

    async def idle() -> bool:
        return bool((await servers.show(cloud, server))["OS-EXT-STS:task_state"] is None)

    await until(idle)
    assert (await servers.show(cloud, server))["status"] == "ACTIVE"


async def test_a_server_starts_from_an_empty_volume(cloud: TestCloud) -> None:
    """As upstream: an installer may come over the network. The image tells only what the guest is like."""
    device = {
        "boot_index": 0, "source_type": "blank", "destination_type": "volume", "volume_size": 1,
        "delete_on_termination": True,
    }  # fmt: skip
    image = await servers.make_image(cloud)
    server = await servers.boot(cloud, imageRef=image, block_device_mapping_v2=[device])
    shown = await servers.show(cloud, server)
    assert shown["image"]["id"] == image
    volume = shown["os-extended-volumes:volumes_attached"][0]["id"]
    found = (await cloud.get(f"/volume/v3/volumes/{volume}")).json()["volume"]
    assert (found["status"], found["size"]) == ("in-use", 1)
    local = {**device, "destination_type": "local"}
    body = {"name": "s", "flavorRef": "1", "networks": "none", "block_device_mapping_v2": [local]}
    refused = await cloud.post(SERVERS, json={"server": body}, version="compute 2.37")
    assert refused.status_code == 400
