"""Servers whose processors stand still, and servers whose memory is saved: pause, unpause, suspend, resume."""

from __future__ import annotations

import pytest
from tests.cloud import TestCloud
from tests.servers import (
    NEWEST,
    URL,
    act,
    boot,
    console,
    events,
    make_volume,
    private,
    remove,
    settled,
    show,
    wait_for,
    wait_for_everything,
)

from cumulet.core import faults

pytestmark = pytest.mark.anyio

PAUSE = ("pause", "unpause", "PAUSED", "paused", 3)
SUSPEND = ("suspend", "resume", "SUSPENDED", "suspended", 7)


@pytest.mark.parametrize(("action", "back", "status", "state", "power"), [PAUSE, SUSPEND])
async def test_it_stands_still_and_runs_on(
    cloud: TestCloud, image: str, action: str, back: str, status: str, state: str, power: int
) -> None:
    id = await boot(cloud, imageRef=image)
    before = await console(cloud, id)
    assert (await act(cloud, id, back)).status_code == 409
    answer = await act(cloud, id, action)
    assert (answer.status_code, answer.text) == (202, "")
    shown = await wait_for(cloud, id, status)
    assert (shown["OS-EXT-STS:vm_state"], shown["OS-EXT-STS:power_state"]) == (state, power)
    refused = await act(cloud, id, action)
    assert refused.status_code == 409
    assert f"Cannot '{action}' instance {id} while it is in vm_state {state}" in refused.text
    assert (await act(cloud, id, back)).status_code == 202
    await wait_for(cloud, id, "ACTIVE")
    # It was not booted: it has its memory.
    assert await console(cloud, id) == before
    assert (await events(cloud, id))[:2] == [
        (back, f"compute_{back}_instance", "Success", None),
        (action, f"compute_{action}_instance", "Success", None),
    ]


@pytest.mark.parametrize(("action", "back", "status", "state", "power"), [PAUSE, SUSPEND])
async def test_what_can_be_done_meanwhile(
    cloud: TestCloud, image: str, action: str, back: str, status: str, state: str, power: int
) -> None:
    volume = await make_volume(cloud)
    before = await settled(cloud)
    id = await boot(cloud, imageRef=image, networks=[{"uuid": await private(cloud)}])
    await act(cloud, id, action)
    await wait_for(cloud, id, status)
    for refused, value in (
        ("os-start", None), ("os-stop", None), ("reboot", {"type": "SOFT"}), ("rescue", None), ("resize", {"flavorRef": "1"}),
        ("rebuild", {"imageRef": image}), ("changePassword", {"adminPass": "x"}), ("migrate", None), ("restore", None),
    ):  # fmt: skip
        assert (await act(cloud, id, refused, value, as_="admin")).status_code == 409, refused
    attached = await cloud.post(
        f"{URL}/{id}/os-volume_attachments", json={"volumeAttachment": {"volumeId": volume}}, version=NEWEST
    )
    assert attached.status_code == (200 if state == "paused" else 409)
    if state == "suspended":
        own = await make_volume(cloud)
        other = await boot(cloud, imageRef=image)
        path = f"{URL}/{other}/os-volume_attachments"
        await cloud.post(path, json={"volumeAttachment": {"volumeId": own}}, version=NEWEST)
        await settled(cloud)
        await act(cloud, other, action)
        await wait_for(cloud, other, status)
        assert (await cloud.delete(f"{path}/{own}", version=NEWEST)).status_code == 409
        await remove(cloud, other)
        await cloud.delete(f"/volume/v3/volumes/{own}")
    changed = await cloud.post(f"{URL}/{id}/metadata", json={"metadata": {"a": "b"}})
    assert changed.status_code == 200
    assert (await cloud.put(f"{URL}/{id}/tags/t", version=NEWEST)).status_code == 201
    told = await cloud.get(f"{URL}/{id}/diagnostics", as_="admin", version=NEWEST)
    assert told.json()["state"] == state
    listed = await cloud.get(f"{URL}?status={status}")
    assert [one["id"] for one in listed.json()["servers"]] == [id]
    assert (await cloud.get(f"{URL}?status=ACTIVE")).json()["servers"] == []
    # A hard reboot ends it.
    assert (await act(cloud, id, "reboot", {"type": "HARD"})).status_code == 202
    await wait_for(cloud, id, "ACTIVE")
    assert any(line.startswith("Restarting") for line in await console(cloud, id))
    await act(cloud, id, action)
    await wait_for(cloud, id, status)
    await remove(cloud, id)
    await wait_for_everything(cloud, before)


async def test_a_server_that_stands_still_is_shelved(cloud: TestCloud, image: str) -> None:
    before = await settled(cloud)
    for action, status in (("pause", "PAUSED"), ("suspend", "SUSPENDED")):
        id = await boot(cloud, imageRef=image)
        await act(cloud, id, action)
        await wait_for(cloud, id, status)
        assert (await act(cloud, id, "shelve")).status_code == 202
        await wait_for(cloud, id, "SHELVED_OFFLOADED")
        assert (await act(cloud, id, "unshelve")).status_code == 202
        await wait_for(cloud, id, "ACTIVE")
        await remove(cloud, id)
    await wait_for_everything(cloud, before)


async def test_a_lock_holds_and_strangers_see_nothing(cloud: TestCloud, image: str) -> None:
    id = await boot(cloud, imageRef=image)
    for action in ("pause", "unpause", "suspend", "resume"):
        assert (await act(cloud, id, action, as_="other")).status_code == 404
        assert (await act(cloud, id, action, as_="reader")).status_code == 403
    await act(cloud, id, "lock")
    for action in ("pause", "suspend"):
        answer = await act(cloud, id, action)
        assert (answer.status_code, "locked" in answer.text) == (409, True)
    assert (await act(cloud, id, "pause", as_="admin")).status_code == 202
    await wait_for(cloud, id, "PAUSED")


async def test_what_is_shown_in_between(cloud: TestCloud, image: str) -> None:
    id = await boot(cloud, imageRef=image)
    for action, task, status in (
        ("pause", "pausing", "PAUSED"), ("unpause", "unpausing", "ACTIVE"), ("suspend", "suspending", "SUSPENDED"),
        ("resume", "resuming", "ACTIVE"),
    ):  # fmt: skip
        before = (await show(cloud, id))["status"]
        await cloud.db.write(faults.add, faults.Rule(step="guest.ensure", effect="hold"))
        assert (await act(cloud, id, action)).status_code == 202
        shown = await show(cloud, id)
        assert (shown["status"], shown["OS-EXT-STS:task_state"]) == (before, task)
        assert (await act(cloud, id, "pause")).status_code == 409
        assert (await events(cloud, id))[0][2:] == (None, None)
        await cloud.db.write(faults.clear)
        await wait_for(cloud, id, status)
        assert (await events(cloud, id))[0][2:] == ("Success", None)


async def test_it_fails_and_says_so(cloud: TestCloud, image: str) -> None:
    id = await boot(cloud, imageRef=image)
    await cloud.db.write(
        faults.add, faults.Rule(step="guest.ensure", effect="fail", message="no room for memory")
    )
    await act(cloud, id, "suspend")
    shown = await wait_for(cloud, id, "ERROR")
    assert "no room for memory" in shown["fault"]["message"]
    assert (await events(cloud, id))[0] == ("suspend", "compute_suspend_instance", "Error", "Error")
    await cloud.db.write(faults.clear)
