"""Images that are made of servers, and backups of which only the newest are kept."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cloud import TestCloud, until
from tests.servers import (
    NEWEST,
    URL,
    act,
    boot,
    console,
    events,
    remove,
    settled,
    show,
    wait_for,
    wait_for_everything,
)

from cumulet.core import faults

pytestmark = pytest.mark.anyio
OLD = "compute 2.44"


async def image_is(cloud: TestCloud, id: str, status: str) -> dict[str, Any]:
    found: dict[str, Any] = {}

    async def there() -> bool:
        nonlocal found
        answer = await cloud.get(f"/image/v2/images/{id}")
        found = answer.json() if answer.status_code == 200 else {"status": "gone"}
        return bool(found["status"] == status)

    await until(there)
    return found


async def backups(cloud: TestCloud) -> list[str]:
    """The names of all backups, the oldest first."""
    listed = await cloud.get("/image/v2/images?image_type=backup&sort=created_at:asc,id:asc")
    return [one["name"] for one in listed.json()["images"]]


@pytest.mark.parametrize("status", ["ACTIVE", "SHUTOFF", "PAUSED", "SUSPENDED"])
async def test_an_image_of_a_server(cloud: TestCloud, image: str, status: str) -> None:
    before = await settled(cloud)
    id = await boot(cloud, imageRef=image)
    action = {"SHUTOFF": "os-stop", "PAUSED": "pause", "SUSPENDED": "suspend"}.get(status)
    if action is not None:
        await act(cloud, id, action)
        await wait_for(cloud, id, status)
    lines = await console(cloud, id)
    await act(cloud, id, "lock")
    answer = await act(cloud, id, "createImage", {"name": "snap", "metadata": {"a": "b"}})
    assert answer.status_code == 202
    made = answer.json()["image_id"]
    assert "location" not in answer.headers
    found = await image_is(cloud, made, "active")
    assert (found["name"], found["visibility"], found["owner"]) == ("snap", "private", cloud.project("demo"))
    assert (found["a"], found["image_type"], found["instance_uuid"]) == ("b", "snapshot", id)
    assert (found["base_image_ref"], found["user_id"]) == (image, cloud.user("demo"))
    assert found["size"] > 0
    await wait_for(cloud, id, status)
    assert await console(cloud, id) == lines
    assert (await events(cloud, id))[0] == ("createImage", "compute_snapshot_instance", "Success", None)
    await act(cloud, id, "unlock")
    second = await boot(cloud, imageRef=made)
    await remove(cloud, id)
    await remove(cloud, second)
    assert (await cloud.delete(f"/image/v2/images/{made}")).status_code == 204
    await wait_for_everything(cloud, before)


async def test_the_location_of_old(cloud: TestCloud, image: str) -> None:
    id = await boot(cloud, imageRef=image)
    answer = await act(cloud, id, "createImage", {"name": "snap"}, version=OLD)
    assert (answer.status_code, answer.text) == (202, "")
    location = answer.headers["location"]
    assert location.startswith("http://cloud/image/v2/images/")
    await image_is(cloud, location.rsplit("/", 1)[1], "active")
    await wait_for(cloud, id, "ACTIVE")
    body = {"name": "b", "backup_type": "daily", "rotation": 1}
    answer = await act(cloud, id, "createBackup", body, version=OLD)
    assert (answer.status_code, answer.text) == (202, "")
    shown = await cloud.get(answer.headers["location"].removeprefix("http://cloud"), version="compute 2.1")
    assert shown.json()["image"]["name"] == "b"
    await wait_for(cloud, id, "ACTIVE")
    answer = await act(cloud, id, "createBackup", {**body, "rotation": 0}, version=OLD)
    assert (answer.status_code, "location" in answer.headers) == (202, False)


async def test_backups_rotate(cloud: TestCloud, image: str) -> None:
    before = await settled(cloud)
    id, another = await boot(cloud, imageRef=image), await boot(cloud, imageRef=image)
    for number in range(4):
        body = {"name": f"b{number}", "backup_type": "daily", "rotation": "2", "metadata": {"n": str(number)}}
        answer = await act(cloud, id, "createBackup", body)
        assert answer.status_code == 202
        found = await image_is(cloud, answer.json()["image_id"], "active")
        assert (found["image_type"], found["backup_type"], found["n"]) == ("backup", "daily", str(number))
        await wait_for(cloud, id, "ACTIVE")
    # Of another type, and of another server, are others.
    await act(cloud, id, "createBackup", {"name": "w", "backup_type": "weekly", "rotation": 1})
    await wait_for(cloud, id, "ACTIVE")
    await act(cloud, another, "createBackup", {"name": "o", "backup_type": "daily", "rotation": 1})
    await wait_for(cloud, another, "ACTIVE")
    assert await backups(cloud) == ["b2", "b3", "w", "o"]
    assert (await events(cloud, id))[0] == ("createBackup", "compute_backup_instance", "Success", None)
    answer = await act(cloud, id, "createBackup", {"name": "n", "backup_type": "daily", "rotation": 0})
    assert answer.status_code == 202
    await image_is(cloud, answer.json()["image_id"], "gone")
    await wait_for(cloud, id, "ACTIVE")
    assert await backups(cloud) == ["w", "o"]
    for one in (id, another):
        await remove(cloud, one)
    for one in (await cloud.get("/image/v2/images?image_type=backup")).json()["images"]:
        await cloud.delete(f"/image/v2/images/{one['id']}")
    await wait_for_everything(cloud, before)


async def test_what_is_refused(cloud: TestCloud, image: str) -> None:
    id = await boot(cloud, imageRef=image)
    bad: list[Any] = [
        None, {}, {"name": ""}, {"name": " "}, {"name": "x" * 256}, {"name": "x", "metadata": {"a": 1}},
        {"name": "x", "metadata": {"k" * 256: "v"}}, {"name": "x", "y": 1}, {"name": "x", "metadata": {"": "v"}},
        {"name": "x", "metadata": []},
    ]  # fmt: skip
    for value in bad:
        assert (await act(cloud, id, "createImage", value)).status_code == 400, value
    for value in (
        *bad[:4], {"name": "x", "backup_type": "d"}, {"name": "x", "rotation": 1},
        {"name": "x", "backup_type": "d", "rotation": -1}, {"name": "x", "backup_type": "d", "rotation": "y"},
        {"name": "x", "backup_type": 1, "rotation": 1},
    ):  # fmt: skip
        assert (await act(cloud, id, "createBackup", value)).status_code == 400, value
    many = {"name": "x", "metadata": {f"k{n}": "v" for n in range(129)}}
    assert (await act(cloud, id, "createImage", many, version="compute 2.38")).status_code == 403
    assert (await act(cloud, id, "createImage", {"name": "x"}, as_="other")).status_code == 404
    assert (await act(cloud, id, "createImage", {"name": "x"}, as_="reader")).status_code == 403
    backup = {"name": "x", "backup_type": "d", "rotation": 1}
    assert (await act(cloud, id, "createBackup", backup, as_="other")).status_code == 404
    assert (await act(cloud, id, "createBackup", backup, as_="reader")).status_code == 403
    await act(cloud, id, "rescue")
    await wait_for(cloud, id, "RESCUE")
    for action, value in (("createImage", {"name": "x"}), ("createBackup", backup)):
        assert (await act(cloud, id, action, value)).status_code == 409


async def test_of_a_server_that_boots_from_a_volume(cloud: TestCloud, image: str) -> None:
    device = {
        "boot_index": 0, "uuid": image, "source_type": "image", "destination_type": "volume", "volume_size": 1,
        "delete_on_termination": True,
    }  # fmt: skip
    id = await boot(cloud, block_device_mapping_v2=[device])
    backup = {"name": "x", "backup_type": "d", "rotation": 1}
    refused = await act(cloud, id, "createBackup", backup)
    assert (refused.status_code, "volume-backed" in refused.text) == (400, True)
    answer = await act(cloud, id, "createImage", {"name": "snap"})
    assert answer.status_code == 202
    found = await image_is(cloud, answer.json()["image_id"], "active")
    assert "block_device_mapping" in found
    assert (await events(cloud, id))[0][:3] == ("createImage", "compute_snapshot_instance", "Success")


async def test_what_is_shown_meanwhile_and_a_failure(cloud: TestCloud, image: str) -> None:
    before = await settled(cloud)
    id = await boot(cloud, imageRef=image)
    await cloud.db.write(faults.add, faults.Rule(step="source.ensure", effect="hold"))
    made = (await act(cloud, id, "createImage", {"name": "snap"})).json()["image_id"]
    shown = await show(cloud, id)
    assert (shown["status"], shown["OS-EXT-STS:task_state"]) == ("ACTIVE", "image_uploading")
    assert (await cloud.get(f"/image/v2/images/{made}")).json()["status"] == "saving"
    for action, value in (
        ("os-stop", None),
        ("createImage", {"name": "x"}),
        ("rebuild", {"imageRef": image}),
    ):
        assert (await act(cloud, id, action, value)).status_code == 409
    # The image is deleted meanwhile: the server is as before.
    assert (await cloud.delete(f"/image/v2/images/{made}")).status_code == 204
    await cloud.db.write(faults.clear)
    await wait_for(cloud, id, "ACTIVE")
    assert (await events(cloud, id))[0] == ("createImage", "compute_snapshot_instance", "Error", "Error")
    await remove(cloud, id)
    await wait_for_everything(cloud, before)


async def test_deleted_meanwhile(cloud: TestCloud, image: str) -> None:
    """An image whose bytes were not copied yet goes with its server; one that has a copy becomes whole."""
    before = await settled(cloud)
    for step, ends in (("source.ensure", "gone"), ("file.ensure", "active")):
        id = await boot(cloud, imageRef=image)
        await cloud.db.write(faults.add, faults.Rule(step=step, effect="hold"))
        made = (await act(cloud, id, "createImage", {"name": "snap"})).json()["image_id"]
        if ends == "active":
            await until(lambda made=made: copied(cloud, made))
        assert (await cloud.delete(f"{URL}/{id}", version=NEWEST)).status_code == 204
        await cloud.db.write(faults.clear)
        await image_is(cloud, made, ends)
        if ends == "active":
            assert (await cloud.delete(f"/image/v2/images/{made}")).status_code == 204
        await wait_for_everything(cloud, before)


async def copied(cloud: TestCloud, image: str) -> bool:
    sql = "select seen from claims where holder = :id and kind = 'source'"
    return await cloud.db.read(lambda tx: tx.value(sql, id=image)) == "present"
