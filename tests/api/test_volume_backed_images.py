"""Images of servers that boot from volumes: volume snapshots, and how a server is made from them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests import servers
from tests.cloud import TestCloud, until
from tests.volumes import NOTHING, SNAPSHOTS, VOLUMES, ask, gone, left, things

from cumulet.core import faults
from cumulet.core.servers import snapshots as images_of_servers
from cumulet.values import Caller

pytestmark = pytest.mark.anyio

IMAGES = "/image/v2/images"


async def boot(cloud: TestCloud, **more: Any) -> tuple[str, str, str]:
    """A server with a root volume and a second one: the ids of all three."""
    image = await servers.make_image(cloud)
    root = {
        "boot_index": 0, "uuid": image, "source_type": "image", "destination_type": "volume", "volume_size": 2,
        "delete_on_termination": True, **more,
    }  # fmt: skip
    data = await servers.make_volume(cloud, description="what is in it")
    second = {"uuid": data, "source_type": "volume", "destination_type": "volume", "tag": "data"}
    server = await servers.boot(cloud, block_device_mapping_v2=[root, second])
    attached = (await servers.show(cloud, server))["os-extended-volumes:volumes_attached"]
    return server, next(one["id"] for one in attached if one["id"] != data), data


async def create_image(cloud: TestCloud, server: str, name: str = "whole") -> str:
    caller = Caller(
        user_id=cloud.user("demo"), project_id=cloud.project("demo"), roles=frozenset({"member", "reader"}),
        request_id="req-image",
    )  # fmt: skip
    return await cloud.db.write(images_of_servers.create_image, caller, server, name, {"purpose": "test"})


async def of_project(cloud: TestCloud) -> dict[str, dict[str, Any]]:
    """The project's volume snapshots, by their volumes."""
    found = (await ask(cloud, "GET", f"{SNAPSHOTS}/detail", 200))["snapshots"]
    return {one["volume_id"]: one for one in found}


async def test_an_image_of_snapshots_makes_a_server_like_the_first(cloud: TestCloud, directory: Path) -> None:
    server, root, data = await boot(cloud)
    image = await create_image(cloud, server)
    found = await active(cloud, image)
    assert (found["size"], found["bdm_v2"], found["root_device_name"]) == (0, "True", "/dev/vda")
    assert (found["min_disk"], found["purpose"], found["image_type"]) == (0, "test", "snapshot")
    made = await of_project(cloud)
    assert set(made) == {root, data}
    assert {one["status"] for one in made.values()} == {"available"}
    assert (made[data]["name"], made[data]["description"]) == ("snapshot for whole", "what is in it")
    assert (await of_action(cloud, server))["result"] == "Success"
    first, second = json.loads(found["block_device_mapping"])
    assert (first["source_type"], first["destination_type"]) == ("snapshot", "volume")
    assert (first["snapshot_id"], first["boot_index"], first["volume_size"]) == (made[root]["id"], 0, 2)
    assert (first["device_name"], first["delete_on_termination"]) == ("/dev/vda", True)
    assert (second["snapshot_id"], second["boot_index"]) == (made[data]["id"], None)
    assert {first["volume_id"], first["image_id"], second["volume_id"]} == {None}

    again = await servers.boot(cloud, imageRef=image)
    shown = await servers.show(cloud, again)
    copies = [one["id"] for one in shown["os-extended-volumes:volumes_attached"]]
    assert len(copies) == 2
    assert not set(copies) & {root, data}
    sources = [(await ask(cloud, "GET", f"{VOLUMES}/{id}", 200))["volume"] for id in copies]
    assert {one["snapshot_id"] for one in sources} == {one["id"] for one in made.values()}
    assert {one["size"] for one in sources} == {1, 2}
    # An image of the second server is of its own volumes.
    other = await create_image(cloud, again, "again")
    mapping = json.loads((await active(cloud, other))["block_device_mapping"])
    newer = await of_project(cloud)
    assert [one["snapshot_id"] for one in mapping] == [newer[id]["id"] for id in copies]

    # A volume of the image is one of its boot volume's snapshot, since 3.46; the image has no bytes to be made of.
    body = {"volume": {"imageRef": image, "size": 2}}
    old = await cloud.post(VOLUMES, json=body, version="volume 3.45")
    assert old.status_code == 400
    assert "3.46" in old.text
    new = await cloud.post(VOLUMES, json=body, version="volume 3.46")
    assert new.json()["volume"]["snapshot_id"] == made[root]["id"]
    copy = new.json()["volume"]["id"]

    async def usable() -> bool:
        found = (await ask(cloud, "GET", f"{VOLUMES}/{copy}", 200))["volume"]
        return (found["status"], found["bootable"]) == ("available", "true")

    await until(usable)
    await ask(cloud, "DELETE", f"{VOLUMES}/{copy}", 202)
    await gone(cloud, f"{VOLUMES}/{copy}")

    # The snapshots are the user's: they stay when the image goes.
    await ask(cloud, "DELETE", f"{IMAGES}/{image}", 204)
    await gone(cloud, f"{IMAGES}/{image}")
    assert set(made) <= set(await of_project(cloud))
    await servers.remove(cloud, server)
    await servers.remove(cloud, again)
    assert len(things(directory)["snapshot"]) == 4


async def active(cloud: TestCloud, image: str) -> dict[str, Any]:
    async def look() -> dict[str, Any] | None:
        found: dict[str, Any] = await ask(cloud, "GET", f"{IMAGES}/{image}", 200)
        return found if found["status"] == "active" else None

    found: dict[str, Any] = await until(look)
    return found


async def of_action(cloud: TestCloud, server: str) -> dict[str, Any]:
    """How the making of an image ended, as the server's actions tell it."""
    root = f"{servers.URL}/{server}/os-instance-actions"
    actions = (await ask(cloud, "GET", root, 200))["instanceActions"]
    (action,) = [one for one in actions if one["action"] == "createImage"]
    one = await ask(cloud, "GET", f"{root}/{action['request_id']}", 200, as_="admin", version=servers.NEWEST)
    (event,) = one["instanceAction"]["events"]
    return dict(event)


async def test_without_one_of_the_snapshots_there_is_no_image_and_none_of_the_others(
    cloud: TestCloud, directory: Path
) -> None:
    server, _, _ = await boot(cloud)
    rule = await cloud.db.write(
        faults.add, faults.Rule(step="snapshot.ensure", effect="fail", message="no room left", count=None)
    )
    image = await create_image(cloud, server)
    await gone(cloud, f"{IMAGES}/{image}")
    await cloud.db.write(faults.remove, rule)

    async def none() -> bool:
        return not await of_project(cloud) and not things(directory)["snapshot"]

    await until(none)
    assert (await servers.show(cloud, server))["status"] == "ACTIVE"
    event = await of_action(cloud, server)
    assert (event["event"], event["result"]) == ("compute_snapshot_instance", "Error")
    assert "no room left" in event["details"]


async def test_an_image_that_is_deleted_too_early_leaves_no_snapshot(
    cloud: TestCloud, directory: Path
) -> None:
    server, root, data = await boot(cloud)
    rule = await cloud.db.write(faults.add, faults.Rule(step="snapshot.ensure", effect="hold", count=None))
    image = await create_image(cloud, server)
    assert (await ask(cloud, "GET", f"{IMAGES}/{image}", 200))["status"] == "saving"
    waits = await cloud.db.read(lambda tx: tx.value("select waiting from holders where id = :id", id=image))
    assert waits == "waits for the snapshots of the volumes"
    await ask(cloud, "DELETE", f"{IMAGES}/{image}", 204)
    await gone(cloud, f"{IMAGES}/{image}")
    assert {one["status"] for one in (await of_project(cloud)).values()} <= {"deleting"}
    await cloud.db.write(faults.remove, rule)

    async def none() -> bool:
        return not await of_project(cloud) and not things(directory)["snapshot"]

    await until(none)
    await servers.remove(cloud, server)
    await gone(cloud, f"{VOLUMES}/{root}")
    await ask(cloud, "DELETE", f"{VOLUMES}/{data}", 202)
    await gone(cloud, f"{VOLUMES}/{data}")
    assert await left(cloud) == {}
    assert things(directory) == NOTHING


async def test_what_there_is_no_room_for_is_not_begun(cloud: TestCloud) -> None:
    server, _, _ = await boot(cloud)
    path = f"/volume/v3/os-quota-sets/{cloud.project('demo')}"
    await ask(cloud, "PUT", path, 200, json={"quota_set": {"snapshots": 1}}, as_="admin")
    before = await servers.settled(cloud)
    with pytest.raises(Exception, match="snapshots"):
        await create_image(cloud, server)
    assert await servers.settled(cloud) == before
