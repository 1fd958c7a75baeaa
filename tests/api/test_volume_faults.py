"""Volumes in a cloud that misbehaves: nothing is lost, nothing stays, and one can read what it waits for.

The letters and numbers are those of the project's list of leaks.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests import servers
from tests.cloud import CHEAP, TestCloud, running_cloud, until
from tests.volumes import (
    ATTACHMENTS,
    NEWEST,
    NOTHING,
    SNAPSHOTS,
    VOLUMES,
    act,
    ask,
    gone,
    left,
    shows,
    snapshot,
    things,
    volume,
)

from cumulet.api.volume import exports
from cumulet.config import Config, Hosts, Reconcile
from cumulet.core import faults
from cumulet.db.engine import Database

pytestmark = pytest.mark.anyio


@pytest.fixture
async def cloud(db: Database, directory: Path) -> AsyncIterator[TestCloud]:
    config = Config(
        auth=CHEAP, hosts=Hosts(count=1), reconcile=Reconcile(patience=1.0, poll=0.1, build_time=1.5)
    )
    async with running_cloud(db, directory, config=config) as made:
        yield made


async def rule(cloud: TestCloud, step: str, effect: str, **more: Any) -> str:
    return await cloud.db.write(faults.add, faults.Rule(step, effect, **more))


async def lift(cloud: TestCloud, *rules: str) -> None:
    for one in rules:
        await cloud.db.write(faults.remove, one)


async def waiting(cloud: TestCloud, id: str, word: str) -> None:
    """Return once one can read that the volume or snapshot waits, and what for."""

    async def look() -> bool:
        found = await cloud.db.read(lambda tx: tx.value("select waiting from holders where id = :id", id=id))
        return word in (found or "")

    await until(look)


async def wait_until_nothing_is_left(cloud: TestCloud, directory: Path) -> None:
    async def look() -> bool:
        return await left(cloud) == {} and things(directory) == NOTHING

    await until(look)


async def post(cloud: TestCloud, **body: Any) -> str:
    made = await ask(cloud, "POST", VOLUMES, 202, json={"volume": {"size": 1, **body}})
    return str(made["volume"]["id"])


async def test_what_is_held_says_so_and_goes_on_by_itself(cloud: TestCloud, directory: Path) -> None:
    held = await rule(cloud, "volume.ensure", "hold")
    id = await post(cloud)
    await waiting(cloud, id, "waits for sim to make a volume")
    await shows(cloud, f"{VOLUMES}/{id}", "creating")
    await lift(cloud, held)
    await shows(cloud, f"{VOLUMES}/{id}", "available")
    held = await rule(cloud, "volume.remove", "fail", message="the shelf is locked")
    await ask(cloud, "DELETE", f"{VOLUMES}/{id}", 202)
    await waiting(cloud, id, "the shelf is locked")
    assert (await ask(cloud, "GET", f"{VOLUMES}/{id}", 200))["volume"]["status"] == "deleting"
    usage = await ask(cloud, "GET", f"/volume/v3/os-quota-sets/{cloud.project('demo')}?usage=1", 200)
    assert usage["quota_set"]["volumes"]["in_use"] == 1
    await ask(cloud, "DELETE", f"{VOLUMES}/{id}", 400)
    await lift(cloud, held)
    await gone(cloud, f"{VOLUMES}/{id}")
    await wait_until_nothing_is_left(cloud, directory)


async def test_no_back_end_is_up(cloud: TestCloud) -> None:
    await cloud.db.write(lambda tx: tx.run("update agents set forced_down = true where kind = 'volume'"))
    made = await volume(cloud, status="error")
    (message,) = (await ask(cloud, "GET", "/volume/v3/messages", 200, version=NEWEST))["messages"]
    assert "down" in message["user_message"]
    await ask(cloud, "DELETE", f"{VOLUMES}/{made['id']}", 202)
    await ask(cloud, "GET", f"{VOLUMES}/{made['id']}", 404)


async def test_a_creation_whose_answer_is_lost_is_one_volume(cloud: TestCloud, directory: Path) -> None:
    await rule(cloud, "volume.ensure", "crash", moment="after", count=1)
    made = await volume(cloud)
    assert len(things(directory)["volume"]) == 1
    await rule(cloud, "volume.remove", "crash", count=1)
    await ask(cloud, "DELETE", f"{VOLUMES}/{made['id']}", 202)
    await gone(cloud, f"{VOLUMES}/{made['id']}")
    await wait_until_nothing_is_left(cloud, directory)


async def test_a_volume_deleted_while_it_is_made_leaves_nothing(cloud: TestCloud, directory: Path) -> None:
    held = await rule(cloud, "volume.ensure", "hold", moment="after")
    id = await post(cloud)
    await waiting(cloud, id, "to make a volume")
    await ask(cloud, "DELETE", f"{VOLUMES}/{id}", 400)
    await ask(cloud, "DELETE", f"{VOLUMES}/{id}?force=1", 202, as_="admin", version=NEWEST)
    await lift(cloud, held)
    await gone(cloud, f"{VOLUMES}/{id}")
    await wait_until_nothing_is_left(cloud, directory)


async def test_an_original_that_is_deleted_stays_until_its_copies_are_whole(
    cloud: TestCloud, directory: Path
) -> None:
    source = (await volume(cloud))["id"]
    taken = (await snapshot(cloud, source))["id"]
    held = await rule(cloud, "volume.ensure", "hold")
    copy = await post(cloud, snapshot_id=taken)
    await waiting(cloud, copy, "to make a volume")
    await ask(cloud, "DELETE", f"{SNAPSHOTS}/{taken}", 202)
    await waiting(cloud, taken, "to remove a snapshot")
    assert len(things(directory)["snapshot"]) == 1
    await lift(cloud, held)
    await shows(cloud, f"{VOLUMES}/{copy}", "available")
    await gone(cloud, f"{SNAPSHOTS}/{taken}")
    assert things(directory)["snapshot"] == []


async def test_data_that_vanished_is_lost_and_said_to_be(cloud: TestCloud, directory: Path) -> None:
    made = await volume(cloud)
    (claim,) = things(directory)["volume"]
    os.unlink(directory / "agents" / "volume-sim" / "volume" / claim)
    await cloud.agents["sim"].agent.audit()
    await shows(cloud, f"{VOLUMES}/{made['id']}", "error")
    assert things(directory)["volume"] == []
    await ask(cloud, "DELETE", f"{VOLUMES}/{made['id']}", 202)
    await gone(cloud, f"{VOLUMES}/{made['id']}")


async def test_c27_the_back_end_is_away_while_a_server_is_deleted(cloud: TestCloud, directory: Path) -> None:
    kept, own = (await volume(cloud))["id"], (await volume(cloud))["id"]
    await act(cloud, kept, 200, {"os-set_bootable": {"bootable": True}})
    devices = [
        {"uuid": id, "source_type": "volume", "destination_type": "volume", "boot_index": i - (i > 0) * 2,
         "delete_on_termination": id == own}
        for i, id in enumerate((kept, own))
    ]  # fmt: skip
    server = await servers.boot(cloud, block_device_mapping_v2=devices)
    rules = [await rule(cloud, step, "fail", message="away") for step in ("export.remove", "volume.remove")]
    assert (await cloud.delete(f"{servers.URL}/{server}")).status_code == 204
    await servers.wait_until_gone(cloud, server)
    limits = (await cloud.get("/compute/v2.1/limits")).json()["limits"]["absolute"]
    assert limits["totalInstancesUsed"] == 0
    for id in (kept, own):
        assert (await ask(cloud, "GET", f"{VOLUMES}/{id}", 200))["volume"]["status"] == "detaching"
        await waiting(cloud, id, "away")
        await ask(cloud, "DELETE", f"{VOLUMES}/{id}", 400)
    # The first fault ends between the two steps of what is still to do.
    await lift(cloud, rules[0])
    await shows(cloud, f"{VOLUMES}/{kept}", "available")
    await shows(cloud, f"{VOLUMES}/{own}", "deleting")
    assert things(directory)["export"] == []
    await lift(cloud, rules[1])
    await gone(cloud, f"{VOLUMES}/{own}")
    await ask(cloud, "DELETE", f"{VOLUMES}/{kept}", 202)
    await wait_until_nothing_is_left(cloud, directory)


@pytest.mark.parametrize("delete", [True, False])
@pytest.mark.parametrize("ends", ["available", "error"])
async def test_c09_the_volume_of_a_server_is_not_ready_in_time(
    cloud: TestCloud, directory: Path, delete: bool, ends: str
) -> None:
    image = await servers.make_image(cloud)
    held = await rule(cloud, "volume.ensure", "hold")
    device = {
        "uuid": image, "source_type": "image", "destination_type": "volume", "boot_index": 0, "volume_size": 1,
        "delete_on_termination": delete,
    }  # fmt: skip
    server = await servers.boot(cloud, status="ERROR", block_device_mapping_v2=[device])
    (made,) = (await ask(cloud, "GET", VOLUMES, 200))["volumes"]
    path = f"{VOLUMES}/{made['id']}"
    assert (await ask(cloud, "GET", path, 200))["volume"]["status"] == "downloading"
    await servers.remove(cloud, server)
    if ends == "error":
        await rule(cloud, "volume.ensure", "fail", moment="after", count=1)
    await lift(cloud, held)
    if delete:
        await gone(cloud, path)
    else:
        shown = await shows(cloud, path, ends)
        assert shown["attachments"] == []
        assert (await ask(cloud, "GET", ATTACHMENTS, 200, version=NEWEST))["attachments"] == []
        await ask(cloud, "DELETE", path, 202)
        await gone(cloud, path)
    usage = await ask(cloud, "GET", f"/volume/v3/os-quota-sets/{cloud.project('demo')}?usage=1", 200)
    assert usage["quota_set"]["volumes"]["in_use"] == 0
    await wait_until_nothing_is_left(cloud, directory)


async def test_c29_a_volume_is_not_deleted_while_it_is_being_detached(
    cloud: TestCloud, directory: Path
) -> None:
    id = (await volume(cloud))["id"]
    body = {"attachment": {"volume_uuid": id, "connector": {"host": "x"}}}
    made = (await ask(cloud, "POST", ATTACHMENTS, 200, json=body, version=NEWEST))["attachment"]
    held = await rule(cloud, "export.remove", "hold")
    detach = asyncio.ensure_future(cloud.delete(f"{ATTACHMENTS}/{made['id']}", version=NEWEST))
    await shows(cloud, f"{VOLUMES}/{id}", "detaching")
    await ask(cloud, "DELETE", f"{VOLUMES}/{id}", 400)
    await ask(cloud, "DELETE", f"{VOLUMES}/{id}?force=1&cascade=1", 400, as_="admin", version=NEWEST)
    assert not detach.done()
    await lift(cloud, held)
    assert (await detach).status_code == 200
    assert (await ask(cloud, "GET", f"{VOLUMES}/{id}", 200))["volume"]["status"] == "available"
    await ask(cloud, "DELETE", f"{VOLUMES}/{id}", 202)
    await wait_until_nothing_is_left(cloud, directory)


async def test_a_connection_that_takes_long_is_answered_with_the_reason(
    cloud: TestCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "TIME", 0.2)
    id = (await volume(cloud))["id"]
    held = await rule(cloud, "export.ensure", "hold")
    body = {"attachment": {"volume_uuid": id, "connector": {"host": "x"}}}
    response = await cloud.post(ATTACHMENTS, json=body, version=NEWEST)
    assert response.status_code == 503
    assert "waits for sim to make an export" in response.text
    await shows(cloud, f"{VOLUMES}/{id}", "attaching")
    await lift(cloud, held)
    (made,) = (await ask(cloud, "GET", ATTACHMENTS, 200, version=NEWEST))["attachments"]
    again = {"attachment": {"connector": {"host": "x"}}}
    monkeypatch.setattr(exports, "TIME", 30.0)
    await ask(cloud, "PUT", f"{ATTACHMENTS}/{made['id']}", 200, json=again, version=NEWEST)
    monkeypatch.setattr(exports, "TIME", 0.2)
    held = await rule(cloud, "export.remove", "fail", message="busy")
    response = await cloud.delete(f"{ATTACHMENTS}/{made['id']}", version=NEWEST)
    assert response.status_code == 503
    assert "busy" in response.text
    await lift(cloud, held)
    await shows(cloud, f"{VOLUMES}/{id}", "available")


async def copying(cloud: TestCloud) -> tuple[dict[str, Any], dict[str, Any], str, str]:
    """A volume, its snapshot, a volume that is to be made from that, and the rule that holds it."""
    source = await volume(cloud)
    taken = await snapshot(cloud, source["id"])
    held = await rule(cloud, "volume.ensure", "hold", count=None)
    copy = await post(cloud, snapshot_id=taken["id"])
    await waiting(cloud, copy, "to make a volume")
    return source, taken, copy, held


async def test_what_a_copy_is_to_be_made_from_stays_until_it_is(cloud: TestCloud, directory: Path) -> None:
    """The back end dies before it begins with the copy; when it comes again its debts come first."""
    source, taken, copy, held = await copying(cloud)
    await ask(cloud, "DELETE", f"{SNAPSHOTS}/{taken['id']}", 202)
    await rule(cloud, "volume.ensure", "crash", count=1)
    await lift(cloud, held)
    await shows(cloud, f"{VOLUMES}/{copy}", "available")
    await gone(cloud, f"{SNAPSHOTS}/{taken['id']}")
    for id in (copy, source["id"]):
        await ask(cloud, "DELETE", f"{VOLUMES}/{id}", 202)
    await wait_until_nothing_is_left(cloud, directory)


async def test_a_copy_of_what_is_lost_is_given_up_at_once(cloud: TestCloud, directory: Path) -> None:
    source, taken, copy, held = await copying(cloud)
    for path in (directory / "agents" / "volume-sim" / "snapshot").iterdir():
        path.unlink()
    await rule(cloud, "volume.ensure", "crash", count=1)
    await lift(cloud, held)
    await shows(cloud, f"{SNAPSHOTS}/{taken['id']}", "error")
    await shows(cloud, f"{VOLUMES}/{copy}", "error")
    for path in (f"{VOLUMES}/{copy}", f"{SNAPSHOTS}/{taken['id']}"):
        await ask(cloud, "DELETE", path, 202)
        await gone(cloud, path)
    await ask(cloud, "DELETE", f"{VOLUMES}/{source['id']}", 202)
    await wait_until_nothing_is_left(cloud, directory)
