"""What is done to servers: started, stopped, rebooted, locked, shelved, and in which states it is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cloud import CHEAP, TestCloud, running_cloud, until
from tests.servers import (
    NEWEST,
    URL,
    act,
    attachments,
    boot,
    console,
    events,
    make_image,
    make_volume,
    post,
    private,
    recorded,
    remove,
    settled,
    show,
    wait_for,
    wait_for_everything,
)

from cumulet.config import Config, Hosts, Reconcile
from cumulet.core import faults
from cumulet.db.engine import PostgresDatabase, SqliteDatabase

pytestmark = pytest.mark.anyio


async def test_stopped_started_rebooted(cloud: TestCloud, image: str) -> None:
    id = await boot(cloud, imageRef=image)
    assert (await act(cloud, id, "os-start")).status_code == 409
    assert (await act(cloud, id, "os-stop")).status_code == 202
    stopped = await wait_for(cloud, id, "SHUTOFF")
    assert stopped["OS-EXT-STS:power_state"] == 4
    refused = await act(cloud, id, "os-stop")
    assert refused.status_code == 409
    assert refused.json()["conflictingRequest"]["message"] == (
        f"Cannot 'stop' instance {id} while it is in vm_state stopped"
    )
    assert (await act(cloud, id, "reboot", {"type": "SOFT"})).status_code == 409
    assert (await act(cloud, id, "os-start")).status_code == 202
    await wait_for(cloud, id, "ACTIVE")
    for kind in ("SOFT", "Hard"):
        assert (await act(cloud, id, "reboot", {"type": kind})).status_code == 202
        await wait_for(cloud, id, "ACTIVE")
    lines = await console(cloud, id)
    assert [line.split(" ")[0] for line in lines if " s (" in line or line == "System halted"] == [
        "Booting", "System", "Booting", "Restarting", "Restarting",
    ]  # fmt: skip
    told = (await act(cloud, id, "os-getConsoleOutput", {"length": 2})).json()["output"]
    assert told.endswith("s login:\n")
    assert told.count("\n") == 1
    assert await console(cloud, id, length=-1) == lines
    # A hard reboot runs a server that is off.
    await act(cloud, id, "os-stop")
    await wait_for(cloud, id, "SHUTOFF")
    assert (await act(cloud, id, "reboot", {"type": "HARD"})).status_code == 202
    await wait_for(cloud, id, "ACTIVE")
    assert await recorded(cloud, id) == ["reboot", "stop", "reboot", "reboot", "start", "stop", "create"]
    for action, value in (
        ("reboot", {"type": "MEDIUM"}), ("reboot", {}), ("reboot", None), ("os-getConsoleOutput", {"length": -2}),
        ("os-getConsoleOutput", {"length": "x"}), ("nothing", None), ("os-resetState", {"state": "fine"}),
    ):  # fmt: skip
        assert (await act(cloud, id, action, value, as_="admin")).status_code == 400, action
    assert (await act(cloud, id, "os-stop", as_="other")).status_code == 404
    assert (await act(cloud, id, "os-stop", as_="reader")).status_code == 403


async def test_nothing_is_done_to_a_server_that_is_being_built_or_deleted(
    cloud: TestCloud, image: str
) -> None:
    await cloud.db.write(faults.add, faults.Rule(step="guest.*", effect="hold"))
    id = (await post(cloud, imageRef=image)).json()["server"]["id"]
    for action, value in (
        ("os-stop", None), ("os-start", None), ("reboot", {"type": "HARD"}), ("shelve", None), ("unshelve", None),
    ):  # fmt: skip
        assert (await act(cloud, id, action, value)).status_code == 409
    assert (await act(cloud, id, "os-getConsoleOutput", {})).status_code == 409
    await cloud.db.write(faults.clear)
    await wait_for(cloud, id, "ACTIVE")
    await cloud.db.write(faults.add, faults.Rule(step="guest.*", effect="hold"))
    assert (await cloud.delete(f"{URL}/{id}")).status_code == 204
    refused = await act(cloud, id, "os-stop")
    assert refused.status_code == 409
    assert "task_state deleting" in refused.text
    await cloud.db.write(faults.clear)


async def test_locks(cloud: TestCloud, image: str) -> None:
    id = await boot(cloud, imageRef=image)
    assert (await act(cloud, id, "lock", {"locked_reason": "mine"})).status_code == 202
    shown = await show(cloud, id)
    assert (shown["locked"], shown["locked_reason"]) == (True, "mine")
    for answer in (
        await act(cloud, id, "os-stop"),
        await act(cloud, id, "shelve"),
        await act(cloud, id, "forceDelete"),
        await cloud.delete(f"{URL}/{id}"),
        await cloud.post(f"{URL}/{id}/metadata", json={"metadata": {"a": "b"}}),
    ):
        assert answer.status_code == 409
        assert "locked" in answer.text
    assert (await act(cloud, id, "os-stop", as_="admin")).status_code == 202
    await wait_for(cloud, id, "SHUTOFF")
    assert (await act(cloud, id, "unlock")).status_code == 202
    shown = await show(cloud, id)
    assert (shown["locked"], shown["locked_reason"]) == (False, None)
    assert (await act(cloud, id, "lock", as_="admin")).status_code == 202
    assert (await act(cloud, id, "unlock")).status_code == 403
    assert (await act(cloud, id, "unlock", as_="admin")).status_code == 202
    assert (await act(cloud, id, "lock", {"locked_reason": ""})).status_code == 400
    assert (await act(cloud, id, "lock", {"why": "x"}, version="compute 2.72")).status_code == 202


async def test_reset_state_is_only_shown(cloud: TestCloud, image: str) -> None:
    before = await settled(cloud)
    id = await boot(cloud, imageRef=image)
    assert (await act(cloud, id, "os-resetState", {"state": "error"})).status_code == 403
    assert (await act(cloud, id, "os-resetState", {"state": "error"}, as_="admin")).status_code == 202
    assert (await show(cloud, id))["status"] == "ERROR"
    await cloud.agents["h1"].agent.audit() if cloud.agents["h1"].agent else None
    assert (await show(cloud, id))["status"] == "ERROR"
    assert (await act(cloud, id, "os-resetState", {"state": "active"}, as_="admin")).status_code == 202
    assert (await show(cloud, id))["status"] == "ACTIVE"
    await act(cloud, id, "os-resetState", {"state": "error"}, as_="admin")
    assert (await act(cloud, id, "reboot", {"type": "HARD"})).status_code == 202
    await wait_for(cloud, id, "ACTIVE")
    await act(cloud, id, "os-resetState", {"state": "error"}, as_="admin")
    # It has a host, whatever it shows: delete goes there.
    await remove(cloud, id)
    await wait_for_everything(cloud, before)


async def test_shelved_offloaded_and_back(cloud: TestCloud, image: str) -> None:
    network = await private(cloud)
    volume = await make_volume(cloud)
    before = await settled(cloud)
    id = await boot(cloud, imageRef=image, networks=[{"uuid": network}])
    address = (await show(cloud, id))["addresses"]["private"][0]["addr"]
    assert (await act(cloud, id, "shelve")).status_code == 202
    await wait_for(cloud, id, "SHELVED_OFFLOADED")
    images = (await cloud.get("/image/v2/images?name=s-shelved")).json()["images"]
    assert [(one["status"], one["visibility"]) for one in images] == [("active", "private")]
    assert (await cloud.get("/image/v2/images?name=s-shelved", as_="other")).json()["images"] == []
    shown = await show(cloud, id, as_="admin")
    assert (shown["OS-EXT-SRV-ATTR:host"], shown["hostId"]) == (None, "")
    assert shown["addresses"]["private"][0]["addr"] == address
    for action in ("os-start", "os-stop", "shelve", "shelveOffload"):
        assert (await act(cloud, id, action, as_="admin")).status_code == 409
    attached = await cloud.post(
        f"{URL}/{id}/os-volume_attachments", json={"volumeAttachment": {"volumeId": volume}}, version=NEWEST
    )
    assert attached.status_code == 200
    assert [one["status"] for one in await attachments(cloud, volume)] == ["attached"]
    assert (await act(cloud, id, "unshelve")).status_code == 202
    shown = await wait_for(cloud, id, "ACTIVE")
    assert shown["addresses"]["private"][0]["addr"] == address
    assert [one["status"] for one in await attachments(cloud, volume)] == ["attached"]
    assert f"disk {volume} attached" in await console(cloud, id)
    await until(lambda: _no_images(cloud))
    await remove(cloud, id)
    await wait_for_everything(cloud, before)


async def _no_images(cloud: TestCloud) -> bool:
    return (await cloud.get("/image/v2/images?name=s-shelved")).json()["images"] == []


async def test_a_shelved_server_goes_with_its_image(cloud: TestCloud, image: str) -> None:
    before = await settled(cloud)
    id = await boot(cloud, imageRef=image)
    await act(cloud, id, "shelve")
    await wait_for(cloud, id, "SHELVED_OFFLOADED")
    await remove(cloud, id)
    assert await _no_images(cloud)
    await wait_for_everything(cloud, before)


async def test_a_shelved_server_does_not_come_back_from_another_image(cloud: TestCloud, image: str) -> None:
    """Its disk was in the image that is gone: a new one from its first image would be another server's."""
    id = await boot(cloud, imageRef=image)
    await act(cloud, id, "shelve")
    await wait_for(cloud, id, "SHELVED_OFFLOADED")
    (saved,) = (await cloud.get("/image/v2/images?name=s-shelved")).json()["images"]
    assert (await cloud.delete(f"/image/v2/images/{saved['id']}")).status_code == 204
    assert (await act(cloud, id, "unshelve")).status_code == 202

    async def refused() -> bool:
        return (await events(cloud, id))[0][2] == "Error"

    await until(refused)
    assert (await wait_for(cloud, id, "SHELVED_OFFLOADED"))["OS-EXT-STS:task_state"] is None
    await remove(cloud, id)


async def test_a_server_that_boots_from_a_volume_is_shelved_without_an_image(
    cloud: TestCloud, image: str
) -> None:
    device = {
        "source_type": "image", "uuid": image, "destination_type": "volume", "volume_size": 1, "boot_index": 0,
        "delete_on_termination": True,
    }  # fmt: skip
    before = await settled(cloud)
    id = await boot(cloud, block_device_mapping_v2=[device])
    volume = (await show(cloud, id))["os-extended-volumes:volumes_attached"][0]["id"]
    await act(cloud, id, "shelve")
    await wait_for(cloud, id, "SHELVED_OFFLOADED")
    assert await _no_images(cloud)
    assert [one["status"] for one in await attachments(cloud, volume)] == ["reserved"]
    await act(cloud, id, "unshelve")
    await wait_for(cloud, id, "ACTIVE")
    await act(cloud, id, "shelve")
    await wait_for(cloud, id, "SHELVED_OFFLOADED")
    await remove(cloud, id)
    await wait_for_everything(cloud, before)


async def test_where_a_server_comes_back(cloud: TestCloud, image: str) -> None:
    id = await boot(cloud, imageRef=image)
    assert (await act(cloud, id, "unshelve", {"availability_zone": "nova"})).status_code == 409
    await act(cloud, id, "shelve")
    await wait_for(cloud, id, "SHELVED_OFFLOADED")
    assert (await act(cloud, id, "unshelve", {"availability_zone": "moon"})).status_code == 400
    assert (await act(cloud, id, "unshelve", {"host": "h2"})).status_code == 403
    assert (await act(cloud, id, "unshelve", {"host": "moon"}, as_="admin")).status_code == 400
    assert (await act(cloud, id, "unshelve", {"x": 1})).status_code == 400
    assert (await act(cloud, id, "unshelve", {}, version="compute 2.77")).status_code == 400
    body = {"host": "h2", "availability_zone": "nova"}
    assert (await act(cloud, id, "unshelve", body, as_="admin")).status_code == 202
    await wait_for(cloud, id, "ACTIVE")
    shown = await show(cloud, id, as_="admin")
    assert (shown["OS-EXT-SRV-ATTR:host"], shown["pinned_availability_zone"]) == ("h2", "nova")


async def test_security_groups(cloud: TestCloud, image: str) -> None:
    made = await cloud.post("/network/v2.0/security-groups", json={"security_group": {"name": "web"}})
    assert made.status_code == 201
    id = await boot(cloud, imageRef=image, networks=[{"uuid": await private(cloud)}])
    assert (await act(cloud, id, "addSecurityGroup", {"name": "web"})).status_code == 202
    assert (await show(cloud, id))["security_groups"] == [{"name": "default"}, {"name": "web"}]
    listed = (await cloud.get(f"{URL}/{id}/os-security-groups")).json()["security_groups"]
    assert [group["name"] for group in listed] == ["default", "web"]
    assert set(listed[0]) == {"id", "name", "description", "tenant_id", "rules"}
    assert (await act(cloud, id, "removeSecurityGroup", {"name": "default"})).status_code == 202
    assert (await show(cloud, id))["security_groups"] == [{"name": "web"}]
    assert (await act(cloud, id, "removeSecurityGroup", {"name": "default"})).status_code == 404
    assert (await act(cloud, id, "addSecurityGroup", {"name": "moon"})).status_code == 404
    assert (await act(cloud, id, "addSecurityGroup", {"name": " "})).status_code == 400
    without = await boot(cloud, imageRef=image)
    assert (await act(cloud, without, "addSecurityGroup", {"name": "web"})).status_code == 404
    assert (await cloud.get(f"{URL}/{without}/os-security-groups")).json() == {"security_groups": []}


async def test_shelved_and_not_offloaded(db: SqliteDatabase | PostgresDatabase, directory: Path) -> None:
    config = Config(auth=CHEAP, hosts=Hosts(count=1), reconcile=Reconcile(offload_after=-1.0))
    async with running_cloud(db, directory, config=config) as cloud:
        image = await make_image(cloud)
        before = await settled(cloud)
        id = await boot(cloud, imageRef=image)
        await act(cloud, id, "shelve")
        await wait_for(cloud, id, "SHELVED")
        assert (await show(cloud, id, as_="admin"))["OS-EXT-SRV-ATTR:host"] == "h1"
        assert (await act(cloud, id, "unshelve", {"availability_zone": "nova"})).status_code == 409
        assert (await act(cloud, id, "unshelve")).status_code == 202
        await wait_for(cloud, id, "ACTIVE")
        await act(cloud, id, "shelve")
        await wait_for(cloud, id, "SHELVED")
        assert (await act(cloud, id, "shelveOffload")).status_code == 403
        assert (await act(cloud, id, "shelveOffload", as_="admin")).status_code == 202
        await wait_for(cloud, id, "SHELVED_OFFLOADED")
        await remove(cloud, id)
        await wait_for_everything(cloud, before)
