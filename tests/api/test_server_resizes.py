"""Servers that get another flavor, on another host: confirmed, reverted, refused, and deleted on the way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.cloud import CHEAP, TestCloud, running_cloud, until
from tests.servers import (
    NEWEST,
    URL,
    act,
    allocations,
    boot,
    console,
    events,
    host_of,
    make_image,
    make_volume,
    moves,
    post,
    private,
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
#: Steps of a resize that a fault rule can hold.
HELD = ("schedule", "source.ensure", "disk.ensure", "guest.ensure")


async def flavor(cloud: TestCloud, id: str, **more: Any) -> str:
    body = {"id": id, "name": id, "ram": 256, "vcpus": 2, "disk": 1, **more}
    answer = await cloud.post("/compute/v2.1/flavors", as_="admin", json={"flavor": body})
    assert answer.status_code == 200, answer.text
    return id


async def usage(cloud: TestCloud) -> tuple[int, int, int]:
    limits = (await cloud.get("/compute/v2.1/limits")).json()["limits"]["absolute"]
    return limits["totalInstancesUsed"], limits["totalCoresUsed"], limits["totalRAMUsed"]


async def test_resized_and_confirmed(cloud: TestCloud, image: str) -> None:
    big = await flavor(cloud, "big", disk=2)
    volume = await make_volume(cloud)
    before = await settled(cloud)
    id = await boot(cloud, imageRef=image, networks=[{"uuid": await private(cloud)}])
    path = f"{URL}/{id}/os-volume_attachments"
    await cloud.post(path, json={"volumeAttachment": {"volumeId": volume}}, version=NEWEST)
    await settled(cloud)
    source = await host_of(cloud, id)
    shown = await show(cloud, id)
    assert await usage(cloud) == (1, 1, 128)
    answer = await act(cloud, id, "resize", {"flavorRef": big})
    assert (answer.status_code, answer.text) == (202, "")
    now = await wait_for(cloud, id, "VERIFY_RESIZE")
    target = await host_of(cloud, id)
    assert {source, target} == {"h1", "h2"}
    assert (now["OS-EXT-STS:vm_state"], now["flavor"]["original_name"], now["progress"]) == (
        "resized",
        "big",
        0,
    )
    assert now["addresses"] == shown["addresses"]
    assert (await cloud.get(f"/volume/v3/volumes/{volume}")).json()["volume"]["status"] == "in-use"
    assert (await console(cloud, id))[0].startswith("Booting s")
    assert "2 CPUs, 256 MB" in (await console(cloud, id))[0]
    assert await usage(cloud) == (1, 2, 256)
    (move,) = await moves(cloud, id)
    assert (move["status"], move["migration_type"]) == ("finished", "resize")
    assert (move["source_compute"], move["dest_compute"]) == (source, target)
    assert await allocations(cloud) == {
        id: ("INSTANCE", target, {"VCPU": 2, "MEMORY_MB": 256, "DISK_GB": 2}),
        move["uuid"]: ("MIGRATION", source, {"VCPU": 1, "MEMORY_MB": 128, "DISK_GB": 1}),
    }
    for action, value in (
        ("os-stop", None), ("reboot", {"type": "HARD"}), ("resize", {"flavorRef": "42"}), ("shelve", None),
        ("pause", None), ("rebuild", {"imageRef": image}), ("createImage", {"name": "x"}),
    ):  # fmt: skip
        assert (await act(cloud, id, action, value)).status_code == 409, action
    answer = await act(cloud, id, "confirmResize")
    assert (answer.status_code, answer.text) == (204, "")
    await wait_for(cloud, id, "ACTIVE")
    await settled(cloud)
    assert [one["status"] for one in await moves(cloud, id)] == ["confirmed"]
    assert list(await allocations(cloud)) == [id]
    assert [event[:3] for event in (await events(cloud, id))[:2]] == [
        ("confirmResize", "compute_confirm_resize", "Success"), ("resize", "compute_finish_resize", "Success"),
    ]  # fmt: skip
    for action in ("confirmResize", "revertResize"):
        assert (await act(cloud, id, action)).status_code == 409
    await remove(cloud, id)
    assert await usage(cloud) == (0, 0, 0)
    await wait_for_everything(cloud, {**before, "migrations": 1})


async def test_resized_and_reverted(cloud: TestCloud, image: str) -> None:
    big = await flavor(cloud, "big")
    before = await settled(cloud)
    id = await boot(cloud, imageRef=image, networks=[{"uuid": await private(cloud)}])
    source, held = await host_of(cloud, id), await allocations(cloud)
    await act(cloud, id, "resize", {"flavorRef": big})
    await wait_for(cloud, id, "VERIFY_RESIZE")
    await cloud.db.write(faults.add, faults.Rule(step="guest.*", effect="hold"))
    assert (await act(cloud, id, "revertResize")).status_code == 202
    shown = await show(cloud, id)
    assert (shown["status"], shown["OS-EXT-STS:task_state"]) == ("REVERT_RESIZE", "resize_reverting")
    assert [one["status"] for one in await moves(cloud, id)] == ["reverting"]
    await cloud.db.write(faults.clear)
    shown = await wait_for(cloud, id, "ACTIVE")
    await settled(cloud)
    assert await host_of(cloud, id) == source
    assert await allocations(cloud) == held
    assert await usage(cloud) == (1, 1, 128)
    assert [one["status"] for one in await moves(cloud, id)] == ["reverted"]
    assert (await events(cloud, id))[0][:3] == ("revertResize", "compute_finish_revert_resize", "Success")
    await remove(cloud, id)
    await wait_for_everything(cloud, {**before, "migrations": 1})


async def test_a_stopped_server_stays_stopped(cloud: TestCloud, image: str) -> None:
    big = await flavor(cloud, "big")
    id = await boot(cloud, imageRef=image)
    await act(cloud, id, "os-stop")
    await wait_for(cloud, id, "SHUTOFF")
    await act(cloud, id, "resize", {"flavorRef": big, "OS-DCF:diskConfig": "AUTO"})
    shown = await wait_for(cloud, id, "VERIFY_RESIZE")
    assert (shown["OS-EXT-STS:power_state"], shown["OS-DCF:diskConfig"]) == (4, "AUTO")
    await act(cloud, id, "confirmResize")
    await wait_for(cloud, id, "SHUTOFF")
    assert await console(cloud, id) == []
    await act(cloud, id, "resize", {"flavorRef": "42"})
    await wait_for(cloud, id, "VERIFY_RESIZE")
    await act(cloud, id, "revertResize")
    shown = await wait_for(cloud, id, "SHUTOFF")
    assert shown["flavor"]["original_name"] == "big"


async def test_what_is_refused(cloud: TestCloud, image: str) -> None:
    id = await boot(cloud, imageRef=image, flavorRef="1")
    small = await flavor(cloud, "small", disk=0)
    hidden = await flavor(cloud, "hidden", **{"os-flavor-access:is_public": False})
    await flavor(cloud, "shrunk", disk=0, swap=1)
    for value in (
        None, {}, {"flavorRef": "moon"}, {"flavorRef": "1"}, {"flavorRef": small}, {"flavorRef": hidden}, {"flavorRef": ""},
        {"flavorRef": "2", "x": 1}, {"flavorRef": "2", "OS-DCF:diskConfig": "x"}, {"flavorRef": None},
    ):  # fmt: skip
        answer = await act(cloud, id, "resize", value)
        assert answer.status_code == 400, (value, answer.text)
    assert (await act(cloud, id, "resize", {"flavorRef": "2"}, as_="other")).status_code == 404
    assert (await act(cloud, id, "resize", {"flavorRef": "2"}, as_="reader")).status_code == 403
    await act(cloud, id, "lock")
    assert (await act(cloud, id, "resize", {"flavorRef": "2"})).status_code == 409
    assert (await show(cloud, id))["status"] == "ACTIVE"


async def test_quota(cloud: TestCloud, image: str) -> None:
    """While it is not known how a resize ends, the larger flavor counts; a revert may not exceed the quota either."""
    big = await flavor(cloud, "big", vcpus=4)
    quota = f"/compute/v2.1/os-quota-sets/{cloud.project('demo')}"
    await cloud.put(quota, as_="admin", json={"quota_set": {"cores": 5}})
    id = await boot(cloud, imageRef=image)
    await cloud.db.write(faults.add, faults.Rule(step="disk.ensure", effect="hold"))
    await act(cloud, id, "resize", {"flavorRef": big})
    assert (await usage(cloud))[1] == 4
    assert (await show(cloud, id))["flavor"]["vcpus"] == 1
    refused = await post(cloud, imageRef=image, flavorRef=big)
    assert (refused.status_code, "cores" in refused.text) == (403, True)
    await cloud.db.write(faults.clear)
    await wait_for(cloud, id, "VERIFY_RESIZE")
    other = await boot(cloud, imageRef=image)
    refused = await act(cloud, other, "resize", {"flavorRef": big})
    assert (refused.status_code, "cores" in refused.text) == (403, True)
    await act(cloud, id, "confirmResize")
    await wait_for(cloud, id, "ACTIVE")
    await act(cloud, id, "resize", {"flavorRef": "42"})
    await wait_for(cloud, id, "VERIFY_RESIZE")
    third = await boot(cloud, imageRef=image)
    assert (await act(cloud, id, "revertResize")).status_code == 403
    await remove(cloud, third)
    assert (await act(cloud, id, "revertResize")).status_code == 202
    await wait_for(cloud, id, "ACTIVE")


async def test_no_host_will_do(cloud: TestCloud, image: str) -> None:
    huge = await flavor(cloud, "huge", ram=1 << 19)
    id = await boot(cloud, imageRef=image)
    held = await allocations(cloud)
    quota = f"/compute/v2.1/os-quota-sets/{cloud.project('demo')}"
    await cloud.put(quota, as_="admin", json={"quota_set": {"ram": -1}})
    assert (await act(cloud, id, "resize", {"flavorRef": huge})).status_code == 202

    async def failed() -> bool:
        return (await moves(cloud, id))[0]["status"] == "error"

    await until(failed)
    shown = await show(cloud, id)
    assert (shown["status"], shown["flavor"]["vcpus"], shown["OS-EXT-STS:task_state"]) == ("ACTIVE", 1, None)
    assert await allocations(cloud) == held
    assert (await events(cloud, id))[0] == ("resize", "compute_finish_resize", "Error", "Error")
    assert (await usage(cloud)) == (1, 1, 128)


async def test_the_group_is_kept_apart(cloud: TestCloud, image: str) -> None:
    """An anti-affinity group with a member on every host leaves none to move to; an affine one leaves none either."""
    big = await flavor(cloud, "big")
    body = {"server_group": {"name": "g", "policy": "anti-affinity"}}
    group = (await cloud.post("/compute/v2.1/os-server-groups", json=body, version=NEWEST)).json()
    hints = {"group": group["server_group"]["id"]}
    first, second = [await boot(cloud, imageRef=image, hints=hints) for _ in range(2)]
    assert await host_of(cloud, first) != await host_of(cloud, second)
    await act(cloud, first, "resize", {"flavorRef": big})

    async def failed() -> bool:
        return [one["status"] for one in await moves(cloud, first)] == ["error"]

    await until(failed)
    assert (await show(cloud, first))["status"] == "ACTIVE"


async def test_it_fails_and_stays_where_it_was(cloud: TestCloud, image: str) -> None:
    big = await flavor(cloud, "big")
    before = await settled(cloud)
    tried = 0
    for step in ("source.ensure", "disk.ensure", "guest.ensure"):
        id = await boot(cloud, imageRef=image)
        source, held = await host_of(cloud, id), await allocations(cloud)
        await cloud.db.write(faults.add, faults.Rule(step=step, effect="fail", count=1, message="broken"))
        await act(cloud, id, "resize", {"flavorRef": big})

        async def over(id: str = id) -> bool:
            found = await moves(cloud, id)
            return bool(found) and found[0]["status"] in ("error", "finished")

        await until(over)
        if (await moves(cloud, id))[0]["status"] == "error":
            tried += 1
            shown = await wait_for(cloud, id, "ACTIVE")
            assert (await host_of(cloud, id), shown["flavor"]["vcpus"]) == (source, 1)
            await settled(cloud)
            assert await allocations(cloud) == held
            assert (await events(cloud, id))[0][:3] == ("resize", "compute_finish_resize", "Error")
        await cloud.db.write(faults.clear)
        await remove(cloud, id)
    assert tried >= 2
    await wait_for_everything(cloud, {**before, "migrations": 3})


async def test_confirmed_by_itself(db: SqliteDatabase | PostgresDatabase, directory: Path) -> None:
    config = Config(auth=CHEAP, hosts=Hosts(count=2), reconcile=Reconcile(confirm_after=0.2))
    async with running_cloud(db, directory, config=config) as cloud:
        image = await make_image(cloud)
        big = await flavor(cloud, "big")
        id = await boot(cloud, imageRef=image)
        await act(cloud, id, "resize", {"flavorRef": big})

        async def confirmed() -> bool:
            return [one["status"] for one in await moves(cloud, id)] == ["confirmed"]

        await until(confirmed)
        shown = await wait_for(cloud, id, "ACTIVE")
        assert shown["flavor"]["original_name"] == "big"


async def test_deleted_in_every_phase(cloud: TestCloud, image: str) -> None:
    big = await flavor(cloud, "big")
    before = await settled(cloud)
    for count, step in enumerate([*HELD, "finished", "confirming", "reverting"], 1):
        id = await boot(cloud, imageRef=image)
        if step in HELD:
            await cloud.db.write(faults.add, faults.Rule(step=step, effect="hold"))
        await act(cloud, id, "resize", {"flavorRef": big})
        if step not in HELD:
            await wait_for(cloud, id, "VERIFY_RESIZE")
            await cloud.db.write(faults.add, faults.Rule(step="disk.remove", effect="hold"))
            if step != "finished":
                action = {"confirming": "confirmResize", "reverting": "revertResize"}[step]
                assert (await act(cloud, id, action)).status_code in (202, 204)
        assert (await cloud.delete(f"{URL}/{id}")).status_code == 204, step
        await cloud.db.write(faults.clear)
        await wait_for_everything(cloud, {**before, "migrations": count})
        assert (await moves(cloud, id))[0]["status"] in ("error", "confirmed")
    assert await allocations(cloud) == {}


async def test_an_administrators_word_does_not_start_a_second_move(cloud: TestCloud, image: str) -> None:
    """A server that waits to be confirmed is shown in ERROR: what it holds on two hosts is not forgotten."""
    big = await flavor(cloud, "big")
    before = await settled(cloud)
    id = await boot(cloud, imageRef=image)
    await act(cloud, id, "resize", {"flavorRef": big})
    await wait_for(cloud, id, "VERIFY_RESIZE")
    await act(cloud, id, "os-resetState", {"state": "error"}, as_="admin")
    assert (await act(cloud, id, "rebuild", {"imageRef": image})).status_code == 409
    assert (await act(cloud, id, "rescue")).status_code == 409
    await act(cloud, id, "os-resetState", {"state": "active"}, as_="admin")
    await wait_for(cloud, id, "VERIFY_RESIZE")
    await act(cloud, id, "confirmResize")
    await wait_for(cloud, id, "ACTIVE")
    await remove(cloud, id)
    await wait_for_everything(cloud, {**before, "migrations": 1})


async def test_volumes_come_and_go_before_it_is_confirmed(cloud: TestCloud, image: str) -> None:
    big = await flavor(cloud, "big")
    first, second = await make_volume(cloud), await make_volume(cloud)
    before = await settled(cloud)
    id = await boot(cloud, imageRef=image, networks=[{"uuid": await private(cloud)}])
    source = await host_of(cloud, id)
    path = f"{URL}/{id}/os-volume_attachments"
    await cloud.post(path, json={"volumeAttachment": {"volumeId": first}}, version=NEWEST)
    await settled(cloud)
    await act(cloud, id, "resize", {"flavorRef": big})
    await wait_for(cloud, id, "VERIFY_RESIZE")
    assert (
        await cloud.post(path, json={"volumeAttachment": {"volumeId": second}}, version=NEWEST)
    ).status_code == 200
    assert (await cloud.delete(f"{path}/{first}", version=NEWEST)).status_code == 202
    await settled(cloud)
    interface = {"interfaceAttachment": {"net_id": await private(cloud)}}
    assert (await cloud.post(f"{URL}/{id}/os-interface", json=interface)).status_code == 409
    assert (await show(cloud, id))["status"] == "VERIFY_RESIZE"

    async def attached() -> list[tuple[str, list[str]]]:
        found = []
        for volume in (first, second):
            shown = (await cloud.get(f"/volume/v3/volumes/{volume}", as_="admin")).json()["volume"]
            found.append((shown["status"], [one["host_name"] for one in shown["attachments"]]))
        return found

    target = await host_of(cloud, id)
    assert await attached() == [("available", []), ("in-use", [target])]
    await act(cloud, id, "revertResize")
    await wait_for(cloud, id, "ACTIVE")
    await settled(cloud)
    assert await attached() == [("available", []), ("in-use", [source])]
    assert f"disk {second} attached" in await console(cloud, id)
    await remove(cloud, id)
    await wait_for_everything(cloud, {**before, "migrations": 1})


async def test_the_image_asks_for_more(cloud: TestCloud) -> None:
    """A server does not become less than its image needs, while there is that image."""
    image = await make_image(cloud, min_ram=128, min_disk=1)
    less = await flavor(cloud, "less", ram=64)
    for volume_backed in (False, True):
        fields: dict[str, Any] = {"imageRef": image}
        if volume_backed:
            device = {"boot_index": 0, "uuid": image, "source_type": "image", "destination_type": "volume"}
            fields = {"block_device_mapping_v2": [{**device, "volume_size": 1}]}
        id = await boot(cloud, **fields)
        refused = await act(cloud, id, "resize", {"flavorRef": less})
        assert (refused.status_code, "memory is too small" in refused.text) == (400, True)
    id = await boot(cloud, imageRef=image)
    assert (await cloud.delete(f"/image/v2/images/{image}", as_="admin")).status_code == 204
    assert (await act(cloud, id, "resize", {"flavorRef": less})).status_code == 202
    await wait_for(cloud, id, "VERIFY_RESIZE")
