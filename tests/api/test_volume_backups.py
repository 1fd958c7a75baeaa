"""Backups: they outlive their volume, and a volume comes back from them."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests import servers
from tests.cloud import CHEAP, TestCloud, running_cloud, until
from tests.volumes import (
    NEWEST,
    NOTHING,
    ROOT,
    SNAPSHOTS,
    VOLUMES,
    ask,
    gone,
    left,
    shows,
    snapshot,
    things,
    volume,
)

from cumulet.config import Config, Hosts
from cumulet.core import faults
from cumulet.db.engine import Database, Tx

pytestmark = pytest.mark.anyio
BACKUPS = f"{ROOT}/backups"
QUOTA = f"{ROOT}/os-quota-sets"


@pytest.fixture
async def cloud(db: Database, directory: Path) -> AsyncIterator[TestCloud]:
    config = Config(auth=CHEAP, hosts=Hosts(count=1))
    async with running_cloud(db, directory, config=config) as made:
        yield made


async def post(cloud: TestCloud, status: int = 202, **body: Any) -> str:
    made = await ask(cloud, "POST", BACKUPS, status, json={"backup": body}, version=NEWEST)
    return str(made["backup"]["id"]) if status == 202 else str(made)


async def backup(cloud: TestCloud, volume_id: str, **body: Any) -> dict[str, Any]:
    """A new backup once it is available."""
    return await shows(cloud, f"{BACKUPS}/{await post(cloud, volume_id=volume_id, **body)}", "available")


async def restore(cloud: TestCloud, id: str, status: int = 202, **body: Any) -> Any:
    return await ask(cloud, "POST", f"{BACKUPS}/{id}/restore", status, json={"restore": body})


async def rule(cloud: TestCloud, step: str, effect: str, **more: Any) -> str:
    return await cloud.db.write(faults.add, faults.Rule(step, effect, **more))


async def test_a_backup_from_its_volume_to_its_end(cloud: TestCloud, directory: Path) -> None:
    made = await volume(cloud, name="v")
    held = await rule(cloud, "backup.ensure", "hold")
    body = {
        "volume_id": made["id"],
        "name": " b ",
        "description": "d",
        "container": "c",
        "metadata": {"a": "b"},
    }
    id = await post(cloud, **body)
    path = f"{BACKUPS}/{id}"
    assert (await shows(cloud, path, "creating"))["fail_reason"] is None
    assert (await shows(cloud, f"{VOLUMES}/{made['id']}", "backing-up"))["size"] == 1
    for refused in (
        ask(cloud, "DELETE", path, 400),
        ask(cloud, "DELETE", f"{VOLUMES}/{made['id']}", 400),
        restore(cloud, id, 400),
        post(cloud, 400, volume_id=made["id"]),
    ):
        await refused
    await cloud.db.write(faults.remove, held)
    found = await shows(cloud, path, "available")
    assert (await shows(cloud, f"{VOLUMES}/{made['id']}", "available"))["name"] == "v"
    assert found == {
        "id": id, "status": "available", "size": 1, "availability_zone": "nova", "container": "c", "name": "b",
        "description": "d", "fail_reason": None, "volume_id": made["id"], "is_incremental": False,
        "has_dependent_backups": False, "snapshot_id": None, "object_count": 0, "metadata": {"a": "b"},
        "created_at": found["created_at"], "updated_at": found["updated_at"], "data_timestamp": found["created_at"],
        "links": found["links"], "os-backup-project-attr:project_id": cloud.project("demo"),
        "user_id": cloud.user("demo"),
    }  # fmt: skip
    assert found["links"][0]["href"].endswith(f"/volume/v3/backups/{id}")
    mine = (await ask(cloud, "GET", path, 200, version=NEWEST))["backup"]
    assert "os-backup-project-attr:project_id" not in mine
    await ask(cloud, "GET", path, 404, as_="other")
    # The volume goes, and the backup stays.
    await ask(cloud, "DELETE", f"{VOLUMES}/{made['id']}", 202)
    await gone(cloud, f"{VOLUMES}/{made['id']}")
    assert len(things(directory)["backup"]) == 1
    await ask(cloud, "DELETE", path, 202)
    await gone(cloud, path)
    assert things(directory) == NOTHING
    assert await left(cloud) == {}


async def test_lists_and_changes(cloud: TestCloud) -> None:
    one, two = await volume(cloud), await volume(cloud)
    first, second = await backup(cloud, one["id"], name="x"), await backup(cloud, two["id"], name="y")

    async def ids(query: str, **more: Any) -> list[str]:
        found = await ask(cloud, "GET", f"{BACKUPS}{query}", 200, version=NEWEST, **more)
        return [found["id"] for found in found["backups"]]

    assert await ids("") == [second["id"], first["id"]]
    assert await ids("/detail?sort=name:asc") == [first["id"], second["id"]]
    assert await ids("?name=x") == [first["id"]]
    assert await ids(f"/detail?volume_id={two['id']}") == [second["id"]]
    assert await ids("?status=error") == []
    assert await ids("", as_="other") == []
    assert await ids("?all_tenants=1", as_="admin") == [second["id"], first["id"]]
    found = await ask(cloud, "GET", f"{BACKUPS}?limit=1&with_count=1", 200, version=NEWEST)
    assert found["count"] == 2
    assert f"marker={second['id']}" in found["backups_links"][0]["href"]
    await ask(cloud, "GET", f"{BACKUPS}?color=red", 400, version=NEWEST)
    path = f"{BACKUPS}/{first['id']}"
    body = {"backup": {"name": "z", "description": None, "metadata": {"k": "v"}}}
    assert (await ask(cloud, "PUT", path, 200, json=body, version=NEWEST))["backup"]["name"] == "z"
    found = (await ask(cloud, "GET", path, 200, version=NEWEST))["backup"]
    assert (found["name"], found["description"], found["metadata"]) == ("z", None, {"k": "v"})
    await ask(cloud, "PUT", path, 404, json=body, version="volume 3.8")
    await ask(cloud, "PUT", path, 400, json=body, version="volume 3.42")
    await ask(cloud, "PUT", path, 400, json={"backup": None}, version=NEWEST)


async def test_a_volume_in_use_is_backed_up_with_force(cloud: TestCloud) -> None:
    made = await volume(cloud)
    server = await servers.boot(cloud, imageRef=await servers.make_image(cloud))
    await ask(
        cloud, "POST", f"/compute/v2.1/servers/{server}/os-volume_attachments", 200,
        json={"volumeAttachment": {"volumeId": made["id"]}},
    )  # fmt: skip
    await shows(cloud, f"{VOLUMES}/{made['id']}", "in-use")
    assert "force" in await post(cloud, 400, volume_id=made["id"])
    found = await backup(cloud, made["id"], force=True)
    await shows(cloud, f"{VOLUMES}/{made['id']}", "in-use")
    assert "available" in str(await restore(cloud, found["id"], 400, volume_id=made["id"]))


async def test_a_backup_of_a_snapshot(cloud: TestCloud) -> None:
    made, other = await volume(cloud), await volume(cloud)
    taken = await snapshot(cloud, made["id"])
    await post(cloud, 400, volume_id=other["id"], snapshot_id=taken["id"])
    held = await rule(cloud, "backup.ensure", "hold")
    id = await post(cloud, volume_id=made["id"], snapshot_id=taken["id"])
    await shows(cloud, f"{SNAPSHOTS}/{taken['id']}", "backing-up")
    await shows(cloud, f"{VOLUMES}/{made['id']}", "available")
    await ask(cloud, "DELETE", f"{SNAPSHOTS}/{taken['id']}", 400)
    await cloud.db.write(faults.remove, held)
    found = await shows(cloud, f"{BACKUPS}/{id}", "available")
    await shows(cloud, f"{SNAPSHOTS}/{taken['id']}", "available")
    assert (found["snapshot_id"], found["data_timestamp"]) == (taken["id"], taken["created_at"])


async def test_incremental_backups_keep_what_they_go_with(cloud: TestCloud) -> None:
    made = await volume(cloud)
    assert "no backups" in await post(cloud, 400, volume_id=made["id"], incremental=True)
    first = await backup(cloud, made["id"])
    second = await backup(cloud, made["id"], incremental=True)
    assert (second["is_incremental"], second["has_dependent_backups"]) == (True, False)
    assert (await shows(cloud, f"{BACKUPS}/{first['id']}", "available"))["has_dependent_backups"]
    await ask(cloud, "DELETE", f"{BACKUPS}/{first['id']}", 400)
    for one in (second, first):
        await ask(cloud, "DELETE", f"{BACKUPS}/{one['id']}", 202)
        await gone(cloud, f"{BACKUPS}/{one['id']}")


async def test_a_new_volume_comes_from_a_backup(cloud: TestCloud, directory: Path) -> None:
    made = await volume(cloud, name="v", metadata={"a": "b"})
    await ask(
        cloud, "POST", f"{VOLUMES}/{made['id']}/action", 200, json={"os-set_bootable": {"bootable": True}}
    )
    found = await backup(cloud, made["id"])
    await ask(cloud, "DELETE", f"{VOLUMES}/{made['id']}", 202)
    await gone(cloud, f"{VOLUMES}/{made['id']}")
    held = await rule(cloud, "volume.ensure", "hold")
    answer = (await restore(cloud, found["id"]))["restore"]
    assert answer["backup_id"] == found["id"]
    assert answer["volume_name"] == f"restore_backup_{found['id']}"
    path = f"{VOLUMES}/{answer['volume_id']}"
    await shows(cloud, path, "restoring-backup")
    await shows(cloud, f"{BACKUPS}/{found['id']}", "restoring")
    await ask(cloud, "DELETE", f"{BACKUPS}/{found['id']}", 400)
    await cloud.db.write(faults.remove, held)
    restored = await shows(cloud, path, "available")
    await shows(cloud, f"{BACKUPS}/{found['id']}", "available")
    assert (restored["metadata"], restored["bootable"], restored["size"]) == ({"a": "b"}, "true", 1)
    named = (await restore(cloud, found["id"], name="n"))["restore"]
    assert (await shows(cloud, f"{VOLUMES}/{named['volume_id']}", "available"))["name"] == "n"
    larger = await volume(cloud, backup_id=found["id"], size=3, name="l", metadata={"c": "d"})
    assert (larger["size"], larger["metadata"]) == (3, {"a": "b", "c": "d"})
    body = {"volume": {"backup_id": "0f0f0f0f-0000-4000-8000-000000000000"}}
    await ask(cloud, "POST", VOLUMES, 404, json=body, version=NEWEST)
    for id in (answer["volume_id"], named["volume_id"], larger["id"]):
        await ask(cloud, "DELETE", f"{VOLUMES}/{id}", 202)
        await gone(cloud, f"{VOLUMES}/{id}")
    await ask(cloud, "DELETE", f"{BACKUPS}/{found['id']}", 202)
    await gone(cloud, f"{BACKUPS}/{found['id']}")
    assert things(directory) == NOTHING


async def test_a_volume_is_put_back_to_a_backup(cloud: TestCloud, directory: Path) -> None:
    made = await volume(cloud, size=2, metadata={"a": "b"})
    found = await backup(cloud, made["id"])
    small = await volume(cloud)
    assert "too small" in str(await restore(cloud, found["id"], 400, volume_id=small["id"]))
    (before,) = [id for id in things(directory)["volume"] if await _holder(cloud, id) == made["id"]]
    answer = (await restore(cloud, found["id"], volume_id=made["id"]))["restore"]
    assert answer["volume_id"] == made["id"]
    await shows(cloud, f"{VOLUMES}/{made['id']}", "available")
    await shows(cloud, f"{BACKUPS}/{found['id']}", "available")
    (after,) = [id for id in things(directory)["volume"] if await _holder(cloud, id) == made["id"]]
    assert before != after
    assert before not in things(directory)["volume"]
    larger = await volume(cloud, size=3)
    await restore(cloud, found["id"], volume_id=larger["id"])
    assert (await shows(cloud, f"{VOLUMES}/{larger['id']}", "available"))["size"] == 3


async def _holder(cloud: TestCloud, claim: str) -> str | None:
    return await cloud.db.read(lambda tx: tx.value("select holder from claims where id = :id", id=claim))


async def test_a_backup_that_fails_says_why(cloud: TestCloud, directory: Path) -> None:
    made = await volume(cloud)
    failing = await rule(cloud, "backup.ensure", "fail", message="the vault is shut")
    id = await post(cloud, volume_id=made["id"])
    assert "the vault is shut" in (await shows(cloud, f"{BACKUPS}/{id}", "error"))["fail_reason"]
    await shows(cloud, f"{VOLUMES}/{made['id']}", "available")
    (message,) = (await ask(cloud, "GET", f"{ROOT}/messages", 200, version=NEWEST))["messages"]
    assert message["event_id"] == "VOLUME_VOLUME_BACKUP_013_020"
    await cloud.db.write(faults.remove, failing)
    await ask(cloud, "DELETE", f"{BACKUPS}/{id}", 202)
    await gone(cloud, f"{BACKUPS}/{id}")
    assert things(directory)["backup"] == []


async def test_a_restore_that_fails_keeps_the_backup(cloud: TestCloud) -> None:
    made = await volume(cloud)
    found = await backup(cloud, made["id"])
    await rule(cloud, "volume.ensure", "fail", message="no room")
    answer = (await restore(cloud, found["id"]))["restore"]
    await shows(cloud, f"{VOLUMES}/{answer['volume_id']}", "error")
    await shows(cloud, f"{BACKUPS}/{found['id']}", "available")


async def test_quotas_and_limits_count_backups(cloud: TestCloud) -> None:
    made = await volume(cloud, size=2)
    demo = cloud.project("demo")
    body = {"quota_set": {"backups": 1, "backup_gigabytes": 1}}
    await ask(cloud, "PUT", f"{QUOTA}/{demo}", 200, json=body, as_="admin")
    answer = await cloud.post(BACKUPS, json={"backup": {"volume_id": made["id"]}})
    assert answer.status_code == 413
    await ask(cloud, "PUT", f"{QUOTA}/{demo}", 200, json={"quota_set": {"backup_gigabytes": 9}}, as_="admin")
    await backup(cloud, made["id"])
    assert (await cloud.post(BACKUPS, json={"backup": {"volume_id": made["id"]}})).status_code == 413
    used = (await ask(cloud, "GET", f"{QUOTA}/{demo}?usage=1", 200))["quota_set"]
    assert (used["backups"]["in_use"], used["backup_gigabytes"]["in_use"]) == (1, 2)
    limits = (await ask(cloud, "GET", f"{ROOT}/limits", 200))["limits"]["absolute"]
    assert (limits["totalBackupsUsed"], limits["totalBackupGigabytesUsed"]) == (1, 2)


async def test_administrators_set_a_status_and_delete_by_force(cloud: TestCloud) -> None:
    made = await volume(cloud)
    found = await backup(cloud, made["id"])
    path = f"{BACKUPS}/{found['id']}/action"
    await ask(cloud, "POST", path, 403, json={"os-reset_status": {"status": "error"}})
    await ask(cloud, "POST", path, 400, json={"os-reset_status": {"status": "purple"}}, as_="admin")
    await ask(cloud, "POST", path, 202, json={"os-reset_status": {"status": "error"}}, as_="admin")
    await shows(cloud, f"{BACKUPS}/{found['id']}", "error")
    await ask(cloud, "POST", path, 202, json={"os-force_delete": {}}, as_="admin")
    await gone(cloud, f"{BACKUPS}/{found['id']}")


# --- records ---


async def _export(cloud: TestCloud, id: str) -> dict[str, str]:
    found: dict[str, str] = (await ask(cloud, "GET", f"{BACKUPS}/{id}/export_record", 200, as_="admin"))[
        "backup-record"
    ]
    return found


async def _import(cloud: TestCloud, record: dict[str, str], status: int = 201) -> Any:
    body = {"backup-record": record}
    return await ask(cloud, "POST", f"{BACKUPS}/import_record", status, json=body, as_="admin")


def _changed(record: dict[str, str], **values: Any) -> dict[str, str]:
    whole = {**json.loads(base64.b64decode(record["backup_url"])), **values}
    return {**record, "backup_url": base64.b64encode(json.dumps(whole).encode()).decode()}


async def test_a_record_becomes_a_backup_of_its_own(cloud: TestCloud, directory: Path) -> None:
    made = await volume(cloud)
    found = await backup(cloud, made["id"], name="b")
    await ask(cloud, "GET", f"{BACKUPS}/{found['id']}/export_record", 403)
    record = await _export(cloud, found["id"])
    assert "already exists" in str(await _import(cloud, record, 400))
    fresh = "0f0f0f0f-0000-4000-8000-000000000000"
    assert (await _import(cloud, _changed(record, id=fresh)))["backup"]["id"] == fresh
    await shows(cloud, f"{BACKUPS}/{fresh}", "available")
    await ask(cloud, "DELETE", f"{BACKUPS}/{found['id']}", 202)
    await gone(cloud, f"{BACKUPS}/{found['id']}")
    assert len(things(directory)["backup"]) == 1
    answer = await ask(cloud, "POST", f"{BACKUPS}/{fresh}/restore", 202, json={"restore": {}}, as_="admin")
    await shows(cloud, f"{VOLUMES}/{answer['restore']['volume_id']}", "available")
    # Nobody has these bytes any more.
    other = _changed(record, id="1f1f1f1f-0000-4000-8000-000000000000")
    assert "does not have the bytes" in str(await _import(cloud, other, 400))


@pytest.mark.parametrize(
    "record",
    [
        {"backup_service": "cinder.backup.drivers.ceph", "backup_url": "e30="},
        {"backup_service": "cinder.backup.drivers.cumulet", "backup_url": "e30="},
        {"backup_service": "cinder.backup.drivers.cumulet", "backup_url": "%%%"},
        {"backup_service": "cinder.backup.drivers.cumulet"},
    ],
)
async def test_what_is_no_record_is_refused(cloud: TestCloud, record: dict[str, str]) -> None:
    await _import(cloud, record, 400)


async def test_a_record_finds_bytes_that_the_database_has_lost(cloud: TestCloud, directory: Path) -> None:
    made = await volume(cloud)
    found = await backup(cloud, made["id"])
    record = await _export(cloud, found["id"])
    (thing,) = things(directory)["backup"]
    await cloud.agents["sim"].stop()

    def lose(tx: Tx) -> None:
        tx.run("delete from claims where holder = :id", id=found["id"])
        tx.run("delete from volume_backups where id = :id", id=found["id"])
        tx.run("delete from holders where id = :id", id=found["id"])

    await cloud.db.write(lose)
    cloud.agents["sim"].start()

    async def orphan() -> bool:
        return thing in await cloud.db.read(lambda tx: tx.values("select thing from orphans"))

    await until(orphan)
    await _import(cloud, record)
    await shows(cloud, f"{BACKUPS}/{found['id']}", "available")
    assert things(directory)["backup"] == [thing]
    assert await cloud.db.read(lambda tx: tx.values("select thing from orphans")) == []
    await ask(cloud, "DELETE", f"{BACKUPS}/{found['id']}", 202, as_="admin")
    await gone(cloud, f"{BACKUPS}/{found['id']}")
    assert things(directory)["backup"] == []
