"""Servers that an operator moves: cold, live, and away from a host that is down; and what is told of it."""

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

from cumulet.config import Config, Hosts
from cumulet.core import faults
from cumulet.db.engine import PostgresDatabase, SqliteDatabase, Tx

pytestmark = pytest.mark.anyio
LIVE = {"host": None, "block_migration": "auto"}
MIGRATIONS = "/compute/v2.1/os-migrations"


async def hold(cloud: TestCloud, step: str, **more: Any) -> None:
    await cloud.db.write(faults.add, faults.Rule(step=step, effect="hold", **more))


async def down(cloud: TestCloud, host: str, word: bool = True) -> None:
    """Force a host's service down, or believe it again."""
    listed = await cloud.get(f"/compute/v2.1/os-services?host={host}", as_="admin", version=NEWEST)
    id = listed.json()["services"][0]["id"]
    path = f"/compute/v2.1/os-services/{id}"
    answer = await cloud.put(path, as_="admin", json={"forced_down": word}, version=NEWEST)
    assert answer.status_code == 200, answer.text


def other(host: str) -> str:
    return {"h1": "h2", "h2": "h1"}[host]


# --- cold ---


async def test_migrated_and_confirmed(cloud: TestCloud, image: str) -> None:
    before = await settled(cloud)
    id = await boot(cloud, imageRef=image, networks=[{"uuid": await private(cloud)}])
    source = await host_of(cloud, id)
    answer = await act(cloud, id, "migrate", as_="manager")
    assert (answer.status_code, answer.text) == (202, "")
    await wait_for(cloud, id, "VERIFY_RESIZE")
    assert await host_of(cloud, id) == other(source)
    assert (await act(cloud, id, "confirmResize")).status_code == 204
    await wait_for(cloud, id, "ACTIVE")
    (move,) = await moves(cloud, id)
    assert (move["migration_type"], move["status"]) == ("migration", "confirmed")
    assert [event[:3] for event in (await events(cloud, id))[:2]] == [
        ("confirmResize", "compute_confirm_resize", "Success"), ("migrate", "compute_finish_resize", "Success"),
    ]  # fmt: skip
    assert list(await allocations(cloud)) == [id]
    await remove(cloud, id)
    await wait_for_everything(cloud, {**before, "migrations": 1})


async def test_to_a_host(cloud: TestCloud, image: str) -> None:
    id = await boot(cloud, imageRef=image)
    source = await host_of(cloud, id)
    for who, code in (("demo", 403), ("reader", 403)):
        assert (await act(cloud, id, "migrate", as_=who)).status_code == code
    assert (await act(cloud, id, "migrate", {"host": other(source)}, as_="manager")).status_code == 403
    for value in ({"host": "moon"}, {"host": source}, {"x": 1}, {"host": ""}, {"host": "a b"}):
        answer = await act(cloud, id, "migrate", value, as_="admin")
        assert answer.status_code == 400, (value, answer.text)
    assert (await act(cloud, id, "migrate", {"host": other(source)}, as_="admin")).status_code == 202
    await wait_for(cloud, id, "VERIFY_RESIZE")
    assert await host_of(cloud, id) == other(source)
    await act(cloud, id, "revertResize")
    await wait_for(cloud, id, "ACTIVE")
    assert await host_of(cloud, id) == source
    # Before 2.56 nothing that is said counts.
    assert (
        await act(cloud, id, "migrate", {"host": "moon"}, as_="admin", version="compute 2.55")
    ).status_code == 202
    await wait_for(cloud, id, "VERIFY_RESIZE")


# --- live ---


async def test_live(cloud: TestCloud, image: str) -> None:
    volume = await make_volume(cloud)
    before = await settled(cloud)
    id = await boot(cloud, imageRef=image, networks=[{"uuid": await private(cloud)}], config_drive=True)
    path = f"{URL}/{id}/os-volume_attachments"
    await cloud.post(path, json={"volumeAttachment": {"volumeId": volume}}, version=NEWEST)
    await settled(cloud)
    source, shown = await host_of(cloud, id), await show(cloud, id)
    (port,) = (await cloud.get(f"{URL}/{id}/os-interface")).json()["interfaceAttachments"]
    for who, code in (("demo", 403), ("reader", 403)):
        assert (await act(cloud, id, "os-migrateLive", LIVE, as_=who)).status_code == code
    answer = await act(cloud, id, "os-migrateLive", LIVE, as_="manager")
    assert (answer.status_code, answer.text) == (202, "")
    now = await wait_for(cloud, id, "ACTIVE")
    await settled(cloud)
    target = await host_of(cloud, id)
    assert target == other(source)
    assert now["addresses"] == shown["addresses"]
    # It ran all the time: nothing was booted where it came to.
    assert await console(cloud, id) == []
    bound = (await cloud.get(f"/network/v2.0/ports/{port['port_id']}", as_="admin")).json()["port"]
    assert (bound["binding:host_id"], bound["status"]) == (target, "ACTIVE")
    attached = (await cloud.get(f"/volume/v3/volumes/{volume}", as_="admin")).json()["volume"]
    assert (attached["status"], attached["attachments"][0]["host_name"]) == ("in-use", target)
    (move,) = await moves(cloud, id)
    assert (move["migration_type"], move["status"]) == ("live-migration", "completed")
    assert (move["source_compute"], move["dest_compute"]) == (source, target)
    assert [(type, host) for type, host, _ in (await allocations(cloud)).values()] == [("INSTANCE", target)]
    assert (await events(cloud, id))[0] == ("live-migration", "compute_live_migration", "Success", None)
    await act(cloud, id, "reboot", {"type": "HARD"})
    await wait_for(cloud, id, "ACTIVE")
    await remove(cloud, id)
    await wait_for_everything(cloud, {**before, "migrations": 1})


async def test_live_and_paused(cloud: TestCloud, image: str) -> None:
    id = await boot(cloud, imageRef=image)
    source = await host_of(cloud, id)
    await act(cloud, id, "pause")
    await wait_for(cloud, id, "PAUSED")
    await act(cloud, id, "os-migrateLive", {**LIVE, "host": other(source)}, as_="admin")
    shown = await wait_for(cloud, id, "PAUSED")
    await settled(cloud)
    assert (await host_of(cloud, id), shown["OS-EXT-STS:power_state"]) == (other(source), 3)
    await act(cloud, id, "unpause")
    await wait_for(cloud, id, "ACTIVE")
    assert await console(cloud, id) == []


async def test_from_a_volume_live(cloud: TestCloud, image: str) -> None:
    before = await settled(cloud)
    device = {
        "boot_index": 0, "uuid": image, "source_type": "image", "destination_type": "volume", "volume_size": 1,
        "delete_on_termination": True,
    }  # fmt: skip
    id = await boot(cloud, block_device_mapping_v2=[device])
    source = await host_of(cloud, id)
    await act(cloud, id, "os-migrateLive", LIVE, as_="admin")
    await wait_for(cloud, id, "ACTIVE")
    assert await host_of(cloud, id) == other(source)
    await act(cloud, id, "migrate", as_="admin")
    await wait_for(cloud, id, "VERIFY_RESIZE")
    assert await host_of(cloud, id) == source
    await act(cloud, id, "revertResize")
    await wait_for(cloud, id, "ACTIVE")
    await remove(cloud, id)
    await wait_for_everything(cloud, {**before, "migrations": 2})


async def test_forms_of_a_live_migration(cloud: TestCloud, image: str) -> None:
    id = await boot(cloud, imageRef=image)
    source = await host_of(cloud, id)
    old = {"host": None, "block_migration": False, "disk_over_commit": False}
    new = {"host": None, "block_migration": "auto"}
    bad: list[tuple[str, Any]] = [
        ("2.24", new), ("2.24", {"host": None, "block_migration": False}), ("2.24", {**old, "block_migration": "auto"}),
        ("2.25", old), ("2.25", {"host": None}), ("2.25", {"block_migration": "auto"}), ("2.25", {**new, "host": "moon"}),
        ("2.25", {**new, "host": source}), ("2.25", None), ("2.25", {**new, "block_migration": "perhaps"}),
        ("2.29", {**new, "force": False}), ("2.30", {**new, "force": True}), ("2.67", {**new, "force": "x"}),
        ("2.68", {**new, "force": False}), ("2.68", {**new, "host": "a/b"}),
    ]  # fmt: skip
    for version, value in bad:
        answer = await act(cloud, id, "os-migrateLive", value, as_="admin", version=f"compute {version}")
        assert answer.status_code == 400, (version, value, answer.text)
    assert await moves(cloud, id) == []
    good: list[tuple[str, Any]] = [
        ("2.1", {**old, "block_migration": "True"}), ("2.25", {**new, "host": "there"}),
        ("2.30", {**new, "force": "true", "host": "there"}), ("2.68", {**new, "block_migration": True}),
    ]  # fmt: skip
    for version, value in good:
        source = await host_of(cloud, id)
        if value["host"] is not None:
            value = {**value, "host": other(source)}
        answer = await act(cloud, id, "os-migrateLive", value, as_="admin", version=f"compute {version}")
        assert answer.status_code == 202, (version, value, answer.text)
        await wait_for(cloud, id, "ACTIVE")
        assert await host_of(cloud, id) == other(source)
    assert (await act(cloud, id, "os-migrateLive", {**new, "host": source}, as_="manager")).status_code == 403
    await act(cloud, id, "os-stop")
    await wait_for(cloud, id, "SHUTOFF")
    assert (await act(cloud, id, "os-migrateLive", new, as_="admin")).status_code == 409


async def test_under_way_aborted_and_forced(cloud: TestCloud, image: str) -> None:
    before = await settled(cloud)
    id = await boot(cloud, imageRef=image)
    source, held = await host_of(cloud, id), await allocations(cloud)
    path = f"{URL}/{id}/migrations"
    assert (await cloud.get(path, as_="admin", version=NEWEST)).json() == {"migrations": []}
    assert (await cloud.get(path, as_="admin", version="compute 2.22")).status_code == 404
    await hold(cloud, "guest.ensure")
    await act(cloud, id, "os-migrateLive", LIVE, as_="admin")

    async def running() -> Any:
        found = (await cloud.get(path, as_="admin", version=NEWEST)).json()["migrations"]
        return found if found and found[0]["status"] == "running" else None

    (listed,) = await until(running)
    shown = await show(cloud, id)
    assert (shown["status"], shown["OS-EXT-STS:task_state"]) == ("MIGRATING", "migrating")
    assert (listed["server_uuid"], listed["source_compute"], listed["dest_compute"]) == (
        id, source, other(source),
    )  # fmt: skip
    one = f"{path}/{listed['id']}"
    for version, more in (("2.23", set()), ("2.59", {"uuid"}), ("2.80", {"uuid", "user_id", "project_id"})):
        answer = await cloud.get(one, as_="admin", version=f"compute {version}")
        assert set(answer.json()["migration"]) == {
            "created_at", "dest_compute", "dest_host", "dest_node", "disk_processed_bytes", "disk_remaining_bytes",
            "disk_total_bytes", "id", "memory_processed_bytes", "memory_remaining_bytes", "memory_total_bytes",
            "server_uuid", "source_compute", "source_node", "status", "updated_at", *more,
        }  # fmt: skip
    # A manager of the project may see it, and not where it is.
    hidden = (await cloud.get(path, as_="manager", version=NEWEST)).json()["migrations"]
    assert [(move["source_compute"], move["dest_node"]) for move in hidden] == [(None, None)]
    assert (await cloud.get(path, version=NEWEST)).status_code == 403
    assert (await cloud.get(path, as_="reader", version=NEWEST)).status_code == 403
    (links,) = [move["links"] for move in await moves(cloud, id)]
    assert links[0]["href"].endswith(f"/servers/{id}/migrations/{listed['id']}")
    types = {type for type, _, _ in (await allocations(cloud)).values()}
    assert types == {"INSTANCE", "MIGRATION"}
    assert (await act(cloud, id, "os-stop")).status_code == 409
    for wrong in ("999", "x", "-1"):
        assert (await cloud.get(f"{path}/{wrong}", as_="admin", version=NEWEST)).status_code == 404
        assert (await cloud.delete(f"{path}/{wrong}", as_="admin", version=NEWEST)).status_code == 404
    force = {"force_complete": None}
    assert (
        await cloud.post(f"{path}/999/action", as_="admin", json=force, version=NEWEST)
    ).status_code == 400
    assert (
        await cloud.post(f"{one}/action", as_="admin", json={"force_complete": {}}, version=NEWEST)
    ).status_code == 400
    assert (await cloud.post(f"{one}/action", json=force, version=NEWEST)).status_code == 403
    assert (
        await cloud.post(f"{one}/action", as_="admin", json=force, version="compute 2.22")
    ).status_code == 202
    assert (await cloud.delete(one, version=NEWEST)).status_code == 403
    assert (await cloud.delete(one, as_="admin", version="compute 2.23")).status_code == 404
    answer = await cloud.delete(one, as_="manager", version="compute 2.24")
    assert (answer.status_code, answer.text) == (202, "")
    await cloud.db.write(faults.clear)
    await wait_for(cloud, id, "ACTIVE")
    await settled(cloud)
    assert await host_of(cloud, id) == source
    assert [move["status"] for move in await moves(cloud, id)] == ["cancelled"]
    assert await allocations(cloud) == held
    for answer in (
        await cloud.delete(one, as_="admin", version=NEWEST),
        await cloud.post(f"{one}/action", as_="admin", json=force, version=NEWEST),
    ):
        assert answer.status_code == 409
    assert (await cloud.get(one, as_="admin", version=NEWEST)).status_code == 404
    assert [event[0] for event in (await events(cloud, id))[:3]] == [
        "live_migration_cancel", "live_migration_force_complete", "live-migration",
    ]  # fmt: skip
    await remove(cloud, id)
    await wait_for_everything(cloud, {**before, "migrations": 1})


async def test_aborted_before_it_began(cloud: TestCloud, image: str) -> None:
    """Since 2.65."""
    id = await boot(cloud, imageRef=image)
    held = await allocations(cloud)
    await hold(cloud, "schedule")
    await act(cloud, id, "os-migrateLive", LIVE, as_="admin")
    (move,) = await moves(cloud, id)
    assert move["status"] == "preparing"
    one = f"{URL}/{id}/migrations/{move['id']}"
    assert (await cloud.delete(one, as_="admin", version="compute 2.64")).status_code == 400
    force = {"force_complete": None}
    assert (await cloud.post(f"{one}/action", as_="admin", json=force, version=NEWEST)).status_code == 400
    assert (await cloud.delete(one, as_="admin", version="compute 2.65")).status_code == 202
    await cloud.db.write(faults.clear)
    await wait_for(cloud, id, "ACTIVE")
    assert [move["status"] for move in await moves(cloud, id)] == ["cancelled"]
    assert await allocations(cloud) == held


async def test_nowhere_to_go_live(cloud: TestCloud, image: str) -> None:
    """Until 2.33 the answer tells of it, since then only the action."""
    id = await boot(cloud, imageRef=image)
    here = await host_of(cloud, id)
    await down(cloud, other(here))
    old = {"host": None, "block_migration": False, "disk_over_commit": False}
    refused = await act(cloud, id, "os-migrateLive", old, as_="admin", version="compute 2.1")
    assert (refused.status_code, "No valid host was found" in refused.text) == (400, True)
    assert (await act(cloud, id, "os-migrateLive", LIVE, as_="admin")).status_code == 202
    shown = await wait_for(cloud, id, "ACTIVE")
    assert shown["OS-EXT-STS:power_state"] == 1
    assert [move["status"] for move in await moves(cloud, id)] == ["error", "error"]
    assert [event[2:] for event in (await events(cloud, id))[:2]] == [("Error", "Error")] * 2


async def test_it_fails_and_stays(cloud: TestCloud, image: str) -> None:
    before = await settled(cloud)
    for count, step in enumerate(("disk.ensure", "tap.ensure", "guest.ensure"), 1):
        id = await boot(cloud, imageRef=image, networks=[{"uuid": await private(cloud)}])
        source, held = await host_of(cloud, id), await allocations(cloud)
        rule = faults.Rule(step=step, effect="fail", host=other(source), message="broken")
        await cloud.db.write(faults.add, rule)
        await act(cloud, id, "os-migrateLive", LIVE, as_="admin")

        async def failed(id: str = id) -> bool:
            return [move["status"] for move in await moves(cloud, id)] == ["error"]

        await until(failed)
        await cloud.db.write(faults.clear)
        await wait_for(cloud, id, "ACTIVE")
        await settled(cloud)
        assert await host_of(cloud, id) == source
        assert await allocations(cloud) == held
        assert len(await console(cloud, id)) > 0
        assert (await events(cloud, id))[0] == ("live-migration", "compute_live_migration", "Error", "Error")
        await remove(cloud, id)
        await wait_for_everything(cloud, {**before, "migrations": count})


async def test_deleted_under_way(cloud: TestCloud, image: str) -> None:
    before = await settled(cloud)
    for count, step in enumerate(("schedule", "disk.ensure", "guest.ensure"), 1):
        id = await boot(cloud, imageRef=image, networks=[{"uuid": await private(cloud)}])
        await hold(cloud, step)
        await act(cloud, id, "os-migrateLive", LIVE, as_="admin")
        assert (await cloud.delete(f"{URL}/{id}")).status_code == 204
        await cloud.db.write(faults.clear)
        await wait_for_everything(cloud, {**before, "migrations": count})
        assert [move["status"] for move in await moves(cloud, id)] == ["error"]
    assert await allocations(cloud) == {}


# --- away from a host that is down ---


async def test_evacuated(cloud: TestCloud, image: str) -> None:
    volume = await make_volume(cloud)
    before = await settled(cloud)
    id = await boot(cloud, imageRef=image, networks=[{"uuid": await private(cloud)}])
    path = f"{URL}/{id}/os-volume_attachments"
    await cloud.post(path, json={"volumeAttachment": {"volumeId": volume}}, version=NEWEST)
    await settled(cloud)
    source, shown = await host_of(cloud, id), await show(cloud, id)
    for who in ("demo", "manager"):
        assert (await act(cloud, id, "evacuate", {}, as_=who)).status_code == 403
    refused = await act(cloud, id, "evacuate", {}, as_="admin")
    assert (refused.status_code, "in use" in refused.text) == (400, True)
    await down(cloud, source)
    # Nothing else moves it from there.
    assert (await act(cloud, id, "migrate", as_="admin")).status_code == 409
    assert (await act(cloud, id, "os-migrateLive", LIVE, as_="admin")).status_code == 400
    assert (await act(cloud, id, "evacuate", {"host": "moon"}, as_="admin")).status_code == 404
    assert (await act(cloud, id, "evacuate", {"host": source}, as_="admin")).status_code == 400
    answer = await act(cloud, id, "evacuate", {}, as_="admin", version="compute 2.94")
    assert (answer.status_code, answer.text) == (200, "")
    now = await wait_for(cloud, id, "ACTIVE")
    assert await host_of(cloud, id) == other(source)
    assert now["addresses"] == shown["addresses"]
    assert (await console(cloud, id))[0].startswith("Booting")
    (move,) = await moves(cloud, id)
    assert (move["migration_type"], move["status"]) == ("evacuation", "done")
    assert (await events(cloud, id))[0] == ("evacuate", "compute_rebuild_instance", "Success", None)
    assert [(type, host) for type, host, _ in (await allocations(cloud)).values()] == [
        ("INSTANCE", other(source))
    ]
    # What the old host has is its debt, and goes when it is back.
    await down(cloud, source, False)
    await settled(cloud)
    await remove(cloud, id)
    await wait_for_everything(cloud, {**before, "migrations": 1})


async def test_evacuated_to_a_host(db: SqliteDatabase | PostgresDatabase, directory: Path) -> None:
    """Of several that would do."""
    async with running_cloud(db, directory, config=Config(auth=CHEAP, hosts=Hosts(count=4))) as cloud:
        id = await boot(cloud, imageRef=await make_image(cloud))
        source = await host_of(cloud, id)
        await down(cloud, source)
        named = max({"h1", "h2", "h3", "h4"} - {source})
        await act(cloud, id, "evacuate", {"host": named}, as_="admin", version="compute 2.94")
        await wait_for(cloud, id, "ACTIVE")
        assert await host_of(cloud, id) == named
        (move,) = await moves(cloud, id)
        assert (move["dest_compute"], move["status"]) == (named, "done")
        assert [host for _, host, _ in (await allocations(cloud)).values()] == [named]


async def test_forms_of_an_evacuation(cloud: TestCloud, image: str) -> None:
    id = await boot(cloud, imageRef=image)
    await down(cloud, await host_of(cloud, id))
    here = await host_of(cloud, id)
    bad: list[tuple[str, Any]] = [
        ("2.13", {}), ("2.13", {"onSharedStorage": True, "adminPass": "x"}), ("2.13", {"onSharedStorage": "perhaps"}),
        ("2.13", {"onSharedStorage": True}), ("2.14", {"onSharedStorage": False}), ("2.28", {"force": False}),
        ("2.29", {"force": True}), ("2.67", {"force": "x"}), ("2.68", {"force": False}), ("2.95", {"host": "a/b"}),
        ("2.95", {"adminPass": 1}), ("2.95", None),
    ]  # fmt: skip
    for version, value in bad:
        answer = await act(cloud, id, "evacuate", value, as_="admin", version=f"compute {version}")
        assert answer.status_code == 400, (version, value, answer.text)
    assert await moves(cloud, id) == []
    body = {"onSharedStorage": False, "adminPass": "geheim"}
    answer = await act(cloud, id, "evacuate", body, as_="admin", version="compute 2.13")
    assert (answer.status_code, answer.json()) == (200, {"adminPass": "geheim"})
    await wait_for(cloud, id, "ACTIVE")
    # Since 2.95 it is not started.
    await down(cloud, here, False)
    await settled(cloud)
    await down(cloud, other(here))
    body = {"host": here, "force": True}
    answer = await act(cloud, id, "evacuate", body, as_="admin", version="compute 2.67")
    assert answer.status_code == 200
    await wait_for(cloud, id, "ACTIVE")
    await down(cloud, other(here), False)
    await settled(cloud)
    await down(cloud, here)
    assert (await act(cloud, id, "evacuate", {}, as_="admin", version="compute 2.95")).status_code == 200
    await wait_for(cloud, id, "SHUTOFF")
    assert await host_of(cloud, id) == other(here)


async def test_a_server_in_error_and_one_that_is_off(cloud: TestCloud, image: str) -> None:
    id = await boot(cloud, imageRef=image)
    await act(cloud, id, "os-stop")
    await wait_for(cloud, id, "SHUTOFF")
    here = await host_of(cloud, id)
    await down(cloud, here)
    await act(cloud, id, "evacuate", {}, as_="admin", version="compute 2.94")
    await wait_for(cloud, id, "SHUTOFF")
    assert await host_of(cloud, id) == other(here)
    await act(cloud, id, "os-start")
    await wait_for(cloud, id, "ACTIVE")


async def test_nowhere_to_go(cloud: TestCloud, image: str) -> None:
    id = await boot(cloud, imageRef=image)
    here = await host_of(cloud, id)
    await down(cloud, here)
    await down(cloud, other(here))
    assert (await act(cloud, id, "evacuate", {}, as_="admin")).status_code == 200
    shown = await wait_for(cloud, id, "ERROR")
    assert "No valid host was found" in shown["fault"]["message"]
    assert (await events(cloud, id))[0] == ("evacuate", "compute_rebuild_instance", "Error", "Error")
    await down(cloud, other(here), False)
    assert (await act(cloud, id, "evacuate", {}, as_="admin", version="compute 2.94")).status_code == 200
    await wait_for(cloud, id, "ACTIVE")


# --- the list of all ---


async def test_the_list(cloud: TestCloud, image: str) -> None:
    first, second = await boot(cloud, imageRef=image), await boot(cloud, imageRef=image, as_="other")
    start = cloud.chance.now()
    for id in (first, second):
        await act(cloud, id, "os-migrateLive", LIVE, as_="admin")
        await wait_for(cloud, id, "ACTIVE", as_="admin")
    await act(cloud, first, "migrate", as_="admin")
    await wait_for(cloud, first, "VERIFY_RESIZE")

    async def ids(query: str = "", version: str = NEWEST, as_: str = "admin") -> list[tuple[str, str]]:
        answer = await cloud.get(f"{MIGRATIONS}{query}", as_=as_, version=version)
        assert answer.status_code == 200, answer.text
        return [(one["instance_uuid"], one["status"]) for one in answer.json()["migrations"]]

    done = "completed"
    whole = [(first, "finished"), (second, done), (first, done)]
    assert await ids() == whole
    # The oldest first, before there were pages.
    assert await ids(version="compute 2.58") == whole[::-1]
    assert await ids(f"?instance_uuid={second}") == whole[1:2]
    assert await ids("?status=finished") == whole[:1]
    assert await ids("?migration_type=live-migration") == whole[1:]
    assert await ids(f"?project_id={cloud.project('other')}") == whole[1:2]
    assert await ids(f"?user_id={cloud.user('demo')}") == [whole[0], whole[2]]
    assert await ids("?hidden=true") == []
    assert await ids("?hidden=false") == whole
    assert await ids("?host=h1") == whole
    assert await ids("?host=moon") == await ids("?source_compute=moon") == []
    (move,) = await moves(cloud, second)
    assert (second, done) in await ids(f"?source_compute={move['source_compute']}")
    assert await ids(f"?changes-since={_text(start)}") == whole
    assert await ids(f"?changes-since={_text(start + 3600)}") == []
    assert await ids(f"?changes-before={_text(start)}") == []
    page = (await cloud.get(f"{MIGRATIONS}?limit=2", as_="admin", version=NEWEST)).json()
    assert len(page["migrations"]) == 2
    rest = await cloud.get(
        page["migrations_links"][0]["href"].removeprefix("http://cloud"), as_="admin", version=NEWEST
    )
    assert [one["instance_uuid"] for one in rest.json()["migrations"]] == [first]
    for query in (
        "?limit=x", "?limit=-1", "?marker=11111111-2222-3333-4444-555555555555", "?x=1", "?changes-since=x",
        f"?changes-since={_text(start)}&changes-before={_text(start - 9)}", "?limit=1&limit=2",
    ):  # fmt: skip
        assert (await cloud.get(f"{MIGRATIONS}{query}", as_="admin", version=NEWEST)).status_code == 400, (
            query
        )
    for query, version in (("?changes-before=x", "2.65"), ("?user_id=x", "2.79"), ("?project_id=x", "2.79")):
        answer = await cloud.get(f"{MIGRATIONS}{query}", as_="admin", version=f"compute {version}")
        assert answer.status_code == 400
    # A project's manager sees the project's own, and not where they are.
    mine = f"?project_id={cloud.project('demo')}"
    assert await ids(mine, as_="manager") == [whole[0], whole[2]]
    shown = (await cloud.get(f"{MIGRATIONS}{mine}", as_="manager", version=NEWEST)).json()["migrations"]
    assert {
        one[name] for one in shown for name in ("source_compute", "dest_compute", "source_node", "dest_node")
    } == {None}
    for query in ("", f"?project_id={cloud.project('other')}"):
        assert (await cloud.get(f"{MIGRATIONS}{query}", as_="manager", version=NEWEST)).status_code == 403
    assert (await cloud.get(f"{MIGRATIONS}{mine}", version=NEWEST)).status_code == 403


async def test_the_form_of_each_version(cloud: TestCloud, image: str) -> None:
    id = await boot(cloud, imageRef=image)
    await act(cloud, id, "migrate", as_="admin")
    await wait_for(cloud, id, "VERIFY_RESIZE")
    names = {
        "id", "status", "instance_uuid", "source_node", "source_compute", "dest_node", "dest_compute", "dest_host",
        "old_instance_type_id", "new_instance_type_id", "created_at", "updated_at",
    }  # fmt: skip
    for version, more in (
        ("2.22", set()), ("2.23", {"migration_type"}), ("2.59", {"uuid"}), ("2.80", {"user_id", "project_id"}),
    ):  # fmt: skip
        names |= more
        answer = await cloud.get(MIGRATIONS, as_="admin", version=f"compute {version}")
        (move,) = answer.json()["migrations"]
        assert set(move) == names
    assert isinstance(move["id"], int)


async def test_hosts_show_where_servers_are(cloud: TestCloud, image: str) -> None:
    """While it waits to be confirmed both hosts keep room for it; the target shows it."""
    id = await boot(cloud, imageRef=image)
    source = await host_of(cloud, id)
    await act(cloud, id, "migrate", as_="admin")
    await wait_for(cloud, id, "VERIFY_RESIZE")

    async def hypervisors() -> dict[str, dict[str, Any]]:
        path = "/compute/v2.1/os-hypervisors/detail?with_servers=true"
        listed = (await cloud.get(path, as_="admin", version="compute 2.87")).json()["hypervisors"]
        return {one["hypervisor_hostname"]: one for one in listed}

    def used(tx: Tx) -> list[str]:
        return [
            str(row) for row in tx.values("select provider_id from allocations where resource_class = 'VCPU'")
        ]

    found = await hypervisors()
    assert [one["uuid"] for one in found[other(source)].get("servers", [])] == [id]
    assert found[source].get("servers", []) == []
    assert len(set(await cloud.db.read(used))) == 2
    assert (await post(cloud, imageRef=image)).status_code == 202


def _text(moment: float) -> str:
    from cumulet.wire.forms import instant

    return instant(moment)
