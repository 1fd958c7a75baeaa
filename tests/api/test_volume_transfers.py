"""Volumes that change their project."""

from __future__ import annotations

import pytest
from tests.cloud import TestCloud
from tests.volumes import NEWEST, ROOT, SNAPSHOTS, VOLUMES, act, ask, snapshot, volume

pytestmark = pytest.mark.anyio
#: The old address and the new one.
PATHS = (f"{ROOT}/os-volume-transfer", f"{ROOT}/volume-transfers")
OTHER = {"as_": "other"}


@pytest.mark.parametrize("path", PATHS)
async def test_who_has_the_key_gets_the_volume_and_its_snapshots(cloud: TestCloud, path: str) -> None:
    id = (await volume(cloud))["id"]
    taken = (await snapshot(cloud, id))["id"]
    body = {"transfer": {"volume_id": id, "name": " t "}}
    made = (await ask(cloud, "POST", path, 202, json=body, version="volume 3.57"))["transfer"]
    assert (made["name"], made["volume_id"], made["no_snapshots"]) == ("t", id, False)
    assert (made["source_project_id"], made["accepted"]) == (cloud.project("demo"), False)
    key = made.pop("auth_key")
    one = f"{path}/{made['id']}"
    assert (await ask(cloud, "GET", f"{VOLUMES}/{id}", 200))["volume"]["status"] == "awaiting-transfer"
    await ask(cloud, "DELETE", f"{VOLUMES}/{id}", 400)
    await ask(cloud, "POST", path, 400, json=body)
    assert await ask(cloud, "GET", one, 200, version="volume 3.57") == {"transfer": made}
    assert "no_snapshots" not in (await ask(cloud, "GET", one, 200))["transfer"]
    await ask(cloud, "GET", one, 404, **OTHER)
    await ask(cloud, "DELETE", one, 404, **OTHER)
    assert (await ask(cloud, "GET", path, 200, **OTHER))["transfers"] == []
    (listed,) = (await ask(cloud, "GET", path, 200))["transfers"]
    assert set(listed) == {"id", "volume_id", "name", "links"}
    (listed,) = (await ask(cloud, "GET", f"{path}/detail", 200))["transfers"]
    assert "created_at" in listed
    assert (await ask(cloud, "GET", f"{path}?name=x", 200))["transfers"] == []
    await ask(cloud, "POST", f"{one}/accept", 400, json={"accept": {"auth_key": "x"}}, **OTHER)
    answer = await ask(cloud, "POST", f"{one}/accept", 202, json={"accept": {"auth_key": key}}, **OTHER)
    assert set(answer["transfer"]) == {"id", "volume_id", "name", "links"}
    moved = (await ask(cloud, "GET", f"{VOLUMES}/{id}", 200, **OTHER))["volume"]
    assert moved["status"] == "available"
    assert moved["os-vol-tenant-attr:tenant_id"] == cloud.project("other")
    await ask(cloud, "GET", f"{SNAPSHOTS}/{taken}", 200, **OTHER)
    await ask(cloud, "GET", f"{VOLUMES}/{id}", 404)
    await ask(cloud, "GET", f"{SNAPSHOTS}/{taken}", 404)
    await ask(cloud, "GET", one, 404)
    await ask(cloud, "POST", f"{one}/accept", 404, json={"accept": {"auth_key": key}}, **OTHER)
    await ask(cloud, "DELETE", f"{VOLUMES}/{id}?cascade=1", 202, **OTHER)


async def test_snapshots_can_stay_behind_and_then_keep_the_volume(cloud: TestCloud) -> None:
    id = (await volume(cloud))["id"]
    taken = (await snapshot(cloud, id))["id"]
    body = {"transfer": {"volume_id": id, "no_snapshots": True}}
    await ask(cloud, "POST", PATHS[1], 400, json=body, version="volume 3.54")
    made = (await ask(cloud, "POST", PATHS[1], 202, json=body, version="volume 3.55"))["transfer"]
    accept = {"accept": {"auth_key": made["auth_key"]}}
    await ask(cloud, "POST", f"{PATHS[1]}/{made['id']}/accept", 202, json=accept, **OTHER)
    await ask(cloud, "GET", f"{SNAPSHOTS}/{taken}", 200)
    await ask(cloud, "DELETE", f"{VOLUMES}/{id}?cascade=1", 400, **OTHER)
    await ask(cloud, "DELETE", f"{SNAPSHOTS}/{taken}", 202)


async def test_an_offer_is_taken_back(cloud: TestCloud) -> None:
    id = (await volume(cloud))["id"]
    made = (await ask(cloud, "POST", PATHS[0], 202, json={"transfer": {"volume_id": id}}))["transfer"]
    await ask(cloud, "DELETE", f"{PATHS[0]}/{made['id']}", 202)
    assert (await ask(cloud, "GET", f"{VOLUMES}/{id}", 200))["volume"]["status"] == "available"
    accept = {"accept": {"auth_key": made["auth_key"]}}
    await ask(cloud, "POST", f"{PATHS[0]}/{made['id']}/accept", 404, json=accept, **OTHER)


async def test_quota_of_who_takes_it_counts(cloud: TestCloud) -> None:
    id = (await volume(cloud, size=2))["id"]
    made = (await ask(cloud, "POST", PATHS[0], 202, json={"transfer": {"volume_id": id}}))["transfer"]
    quotas = f"{ROOT}/os-quota-sets/{cloud.project('other')}"
    await ask(cloud, "PUT", quotas, 200, json={"quota_set": {"gigabytes": 1}}, as_="admin")
    accept = {"accept": {"auth_key": made["auth_key"]}}
    await ask(cloud, "POST", f"{PATHS[0]}/{made['id']}/accept", 413, json=accept, **OTHER)
    assert (await ask(cloud, "GET", f"{VOLUMES}/{id}", 200))["volume"]["status"] == "awaiting-transfer"


async def test_what_makes_no_sense_is_refused(cloud: TestCloud) -> None:
    id = (await volume(cloud))["id"]
    for body in ({}, {"volume_id": "x"}, {"volume_id": id, "name": " "}, {"volume_id": id, "surprise": 1}):
        await ask(cloud, "POST", PATHS[0], 400, json={"transfer": body})
    await ask(cloud, "POST", PATHS[0], 404, json={"transfer": {"volume_id": cloud.chance.uuid()}})
    await ask(cloud, "POST", PATHS[0], 404, json={"transfer": {"volume_id": id}}, **OTHER)
    await act(cloud, id, 202, {"os-attach": {"mountpoint": "/dev/vdb", "host_name": "x"}})
    await ask(cloud, "POST", PATHS[0], 400, json={"transfer": {"volume_id": id}}, version=NEWEST)


async def test_a_volume_that_an_operator_resets_is_on_offer_no_more(cloud: TestCloud) -> None:
    id = (await volume(cloud))["id"]
    path, body = PATHS[1], {"transfer": {"volume_id": id}}
    made = (await ask(cloud, "POST", path, 202, json=body, version=NEWEST))["transfer"]
    reset = {"os-reset_status": {"status": "available"}}
    await ask(cloud, "POST", f"{VOLUMES}/{id}/action", 202, json=reset, as_="admin")
    await ask(cloud, "GET", f"{path}/{made['id']}", 404)
    accept = {"accept": {"auth_key": made["auth_key"]}}
    await ask(cloud, "POST", f"{path}/{made['id']}/accept", 404, json=accept, **OTHER)
    await ask(cloud, "POST", path, 202, json=body, version=NEWEST)
