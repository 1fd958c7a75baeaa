"""Volumes and snapshots that administrators take out of management, and their bytes that they take in again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests import servers
from tests.cloud import CHEAP, TestCloud, running_cloud
from tests.volumes import (
    NEWEST,
    NOTHING,
    ROOT,
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

from cumulet.config import Config, Hosts
from cumulet.db.engine import Database

pytestmark = pytest.mark.anyio
HOST = "sim@sim#sim"
MANAGE = f"{ROOT}/manageable_volumes"
MANAGE_SNAPSHOT = f"{ROOT}/manageable_snapshots"
UNMANAGE = {"os-unmanage": {}}


@pytest.fixture
async def cloud(db: Database, directory: Path) -> AsyncIterator[TestCloud]:
    config = Config(auth=CHEAP, hosts=Hosts(count=1))
    async with running_cloud(db, directory, config=config) as made:
        yield made


async def manage(cloud: TestCloud, status: int = 202, path: str = MANAGE, **body: Any) -> Any:
    body = {"host": HOST, **body}
    answer = await ask(cloud, "POST", path, status, json={"volume": body}, as_="admin", version=NEWEST)
    return answer["volume"] if status == 202 else answer


async def orphans(cloud: TestCloud) -> list[str]:
    await cloud.agents["sim"].agent.audit()  # type: ignore[union-attr]
    found = await ask(cloud, "GET", "/cumulet/v1/orphans", 200, as_="admin")
    return [one["thing"] for one in found["orphans"]]


async def test_a_volume_goes_and_its_bytes_stay(cloud: TestCloud, directory: Path) -> None:
    made = await volume(cloud, size=2, name="old")
    before = things(directory)
    await act(cloud, made["id"], 403, UNMANAGE)
    await act(cloud, made["id"], 202, UNMANAGE, as_="admin")
    await ask(cloud, "GET", f"{VOLUMES}/{made['id']}", 404)
    used = (await ask(cloud, "GET", f"{ROOT}/os-quota-sets/{cloud.project('demo')}?usage=1", 200))[
        "quota_set"
    ]
    assert used["volumes"]["in_use"] == 0
    assert things(directory) == before
    assert await orphans(cloud) == []
    name = f"volume-{made['id']}"
    body = {
        "ref": {"source-name": name},
        "name": "new",
        "description": "d",
        "metadata": {"a": "b"},
        "bootable": True,
    }
    fresh = await manage(cloud, **body)
    assert fresh["id"] != made["id"]
    shown = await shows(cloud, f"{VOLUMES}/{fresh['id']}", "available")
    assert [shown[n] for n in ("name", "description", "metadata", "size", "bootable", "os-vol-host-attr:host")] == [
        "new", "d", {"a": "b"}, 2, "true", HOST
    ]  # fmt: skip
    assert things(directory) == before, "they are the same bytes"
    assert "not managed already" in str(await manage(cloud, 400, ref={"source-name": name}))
    await ask(cloud, "DELETE", f"{VOLUMES}/{fresh['id']}", 202, as_="admin")
    await gone(cloud, f"{VOLUMES}/{fresh['id']}")
    assert things(directory) == NOTHING
    assert await left(cloud) == {}


async def test_replaced_bytes_are_not_replaced_again(cloud: TestCloud, directory: Path) -> None:
    made = await volume(cloud)
    image = await servers.make_image(cloud)
    await act(cloud, made["id"], 202, {"os-reimage": {"image_id": image}}, version=NEWEST)
    await shows(cloud, f"{VOLUMES}/{made['id']}", "available")
    before = things(directory)["volume"]
    await act(cloud, made["id"], 202, UNMANAGE, as_="admin")
    fresh = await manage(cloud, ref=f"volume-{made['id']}")
    await shows(cloud, f"{VOLUMES}/{fresh['id']}", "available")
    assert things(directory)["volume"] == before


async def test_a_snapshot_goes_and_comes_back(cloud: TestCloud, directory: Path) -> None:
    made, other = await volume(cloud), await volume(cloud)
    taken = await snapshot(cloud, made["id"])
    before = things(directory)
    await ask(cloud, "POST", f"{SNAPSHOTS}/{taken['id']}/action", 403, json=UNMANAGE)
    await ask(cloud, "POST", f"{SNAPSHOTS}/{taken['id']}/action", 202, json=UNMANAGE, as_="admin")
    await ask(cloud, "GET", f"{SNAPSHOTS}/{taken['id']}", 404)
    found = await ask(
        cloud,
        "GET",
        f"{MANAGE_SNAPSHOT}/detail?host={HOST.replace('#', '%23')}",
        200,
        as_="admin",
        version=NEWEST,
    )
    assert found == {
        "manageable-snapshots": [
            {
                "reference": {"source-name": f"_snapshot-{taken['id']}"}, "size": 1, "safe_to_manage": True,
                "source_reference": {"source-name": f"volume-{made['id']}"}, "reason_not_safe": None,
                "cinder_id": None, "extra_info": None,
            }
        ]
    }  # fmt: skip
    body = {"volume_id": made["id"], "ref": {"source-name": f"_snapshot-{taken['id']}"}, "name": "s"}
    bad = {"snapshot": {**body, "ref": {"source-name": "x"}}}
    await ask(cloud, "POST", MANAGE_SNAPSHOT, 400, json=bad, as_="admin", version=NEWEST)
    fresh = (
        await ask(cloud, "POST", MANAGE_SNAPSHOT, 202, json={"snapshot": body}, as_="admin", version=NEWEST)
    )["snapshot"]
    assert (await shows(cloud, f"{SNAPSHOTS}/{fresh['id']}", "available"))["name"] == "s"
    assert things(directory) == before
    for path in (f"{SNAPSHOTS}/{fresh['id']}", f"{VOLUMES}/{made['id']}", f"{VOLUMES}/{other['id']}"):
        await ask(cloud, "DELETE", path, 202, as_="admin")
        await gone(cloud, path)
    assert things(directory) == NOTHING
    assert await left(cloud) == {}


async def test_what_is_used_stays_managed(cloud: TestCloud) -> None:
    made = await volume(cloud)
    taken = await snapshot(cloud, made["id"])
    assert "snapshots" in str(await act(cloud, made["id"], 400, UNMANAGE, as_="admin"))
    await ask(cloud, "DELETE", f"{SNAPSHOTS}/{taken['id']}", 202)
    await gone(cloud, f"{SNAPSHOTS}/{taken['id']}")
    await act(cloud, made["id"], 202, {"os-reserve": {}})
    assert "attached" in str(await act(cloud, made["id"], 400, UNMANAGE, as_="admin"))


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (503, {"host": "nowhere@x#x", "ref": {"source-name": "x"}}),
        (400, {"ref": {"source-name": "x"}}),
        (400, {"ref": {"source-id": "x"}}),
        (400, {"ref": "x", "cluster": "c"}),
        (400, {"ref": 7}),
        (400, {}),
        (400, {"ref": "x", "color": "red"}),
    ],
)
async def test_requests_that_name_nothing(cloud: TestCloud, status: int, body: dict[str, Any]) -> None:
    await manage(cloud, status, **body)


async def test_types_and_quotas_hold_for_them_too(cloud: TestCloud) -> None:
    made = await volume(cloud, as_="admin")
    await act(cloud, made["id"], 202, UNMANAGE, as_="admin")
    name = f"volume-{made['id']}"
    await manage(cloud, 404, ref=name, volume_type="none")
    admin = cloud.project("admin")
    await ask(
        cloud, "PUT", f"{ROOT}/os-quota-sets/{admin}", 200, json={"quota_set": {"volumes": 0}}, as_="admin"
    )
    await manage(cloud, 413, ref=name)
    await ask(
        cloud, "PUT", f"{ROOT}/os-quota-sets/{admin}", 200, json={"quota_set": {"volumes": 1}}, as_="admin"
    )
    fresh = await manage(cloud, ref=name, volume_type="standard", path=f"{ROOT}/os-volume-manage")
    assert (await shows(cloud, f"{VOLUMES}/{fresh['id']}", "available"))["volume_type"] == "standard"


async def test_what_can_be_managed_is_listed(cloud: TestCloud) -> None:
    made = [await volume(cloud, size=size) for size in (1, 2, 3)]
    await act(cloud, made[1]["id"], 202, UNMANAGE, as_="admin")
    host = HOST.replace("#", "%23")

    async def listed(query: str = "", path: str = MANAGE) -> list[dict[str, Any]]:
        found = await ask(cloud, "GET", f"{path}?host={host}{query}", 200, as_="admin", version=NEWEST)
        return list(found["manageable-volumes"])

    found = await listed("&sort=size:asc")
    assert [(one["size"], one["safe_to_manage"]) for one in found] == [(1, False), (2, True), (3, False)]
    assert set(found[0]) == {"reference", "size", "safe_to_manage"}
    names = [one["reference"]["source-name"] for one in await listed()]
    assert names == sorted(names, reverse=True)
    rest = await listed(f"&limit=1&marker={names[0]}")
    assert [one["reference"]["source-name"] for one in rest] == names[1:2]
    detailed = await listed("&sort=size:asc", f"{ROOT}/os-volume-manage/detail")
    assert (detailed[0]["reason_not_safe"], detailed[0]["cinder_id"]) == ("already managed", made[0]["id"])
    assert detailed[1]["reason_not_safe"] is None
    for query in ("", f"?host={host}&sort=name", f"?host={host}&marker=x"):
        await ask(cloud, "GET", f"{MANAGE}{query}", 400, as_="admin", version=NEWEST)
    await ask(cloud, "GET", f"{MANAGE}?host=nowhere", 503, as_="admin", version=NEWEST)
    await ask(cloud, "GET", f"{MANAGE}?host={host}", 403, version=NEWEST)
    await ask(cloud, "GET", f"{MANAGE}?host={host}", 404, as_="admin", version="volume 3.7")
