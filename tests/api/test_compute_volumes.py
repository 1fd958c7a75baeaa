"""Volumes as compute showed them to old clients."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from tests.cloud import TestCloud
from tests.volumes import ATTACHMENTS, NEWEST, SNAPSHOTS, VOLUMES, ask, gone, left, shows, snapshot, volume

pytestmark = pytest.mark.anyio

URL = "/compute/v2.1"
OLD_VOLUMES = f"{URL}/os-volumes"
OLD_SNAPSHOTS = f"{URL}/os-snapshots"


async def test_volumes(cloud: TestCloud) -> None:
    asked = {
        "size": "2", "display_name": " v ", "display_description": "d", "metadata": {"a": "b"},
        "availability_zone": "nova",
    }  # fmt: skip
    answer = await cloud.post(OLD_VOLUMES, json={"volume": asked})
    assert answer.status_code == 200, answer.text
    made = answer.json()["volume"]
    assert made == {
        "id": made["id"], "status": "creating", "size": 2, "availabilityZone": "nova",
        "createdAt": made["createdAt"], "displayName": "v", "displayDescription": "d", "volumeType": "__DEFAULT__",
        "snapshotId": None, "metadata": {"a": "b"}, "attachments": [{}],
    }  # fmt: skip
    assert answer.headers["Location"].endswith(f"{OLD_VOLUMES}/{made['id']}")
    await shows(cloud, f"{VOLUMES}/{made['id']}", "available")
    shown = (await ask(cloud, "GET", f"{OLD_VOLUMES}/{made['id']}", 200))["volume"]
    assert shown == {**made, "status": "available"}
    assert (await ask(cloud, "GET", OLD_VOLUMES, 200))["volumes"] == [shown]
    assert (await ask(cloud, "GET", f"{OLD_VOLUMES}/detail", 200))["volumes"] == [shown]
    assert (await ask(cloud, "GET", OLD_VOLUMES, 200, as_="other"))["volumes"] == []
    await ask(cloud, "GET", f"{OLD_VOLUMES}/{made['id']}", 404, as_="other")
    await ask(cloud, "DELETE", f"{OLD_VOLUMES}/{made['id']}", 404, as_="other")
    await ask(cloud, "DELETE", f"{OLD_VOLUMES}/{made['id']}", 403, as_="reader")
    await ask(cloud, "GET", OLD_VOLUMES, 404, version="compute 2.36")
    await ask(cloud, "DELETE", f"{OLD_VOLUMES}/{made['id']}", 202)
    await gone(cloud, f"{VOLUMES}/{made['id']}")
    await ask(cloud, "DELETE", f"{OLD_VOLUMES}/{made['id']}", 404)
    assert await left(cloud) == {}


async def test_pages(cloud: TestCloud) -> None:
    ids = [(await volume(cloud))["id"] for _ in range(3)]

    async def page(query: str) -> list[str]:
        body = await ask(cloud, "GET", f"{OLD_VOLUMES}?{query}", 200)
        return [one["id"] for one in body["volumes"]]

    assert await page("") == ids[::-1]
    assert await page("limit=1&offset=1") == [ids[1]]
    assert await page("limit=0&offset=2") == [ids[0]]
    assert await page("offset=3") == []
    for query in ("limit=-1", "offset=x"):
        await ask(cloud, "GET", f"{OLD_VOLUMES}?{query}", 400)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, {}),
        (400, {"volume": {}}),
        (400, {"volume": {"size": 0}}),
        (400, {"volume": {"size": ""}}),
        (400, {"volume": {"size": "#$%"}}),
        (400, {"volume": {"size": -1}}),
        (400, {"volume": {"size": 1.5}}),
        (400, {"volume": {"size": True}}),
        (400, {"volume": {"size": 1, "imageRef": "x"}}),
        (400, {"volume": {"size": 1, "availability_zone": "nowhere"}}),
        (400, {"volume": {"size": 1, "metadata": {"": "x"}}}),
        (404, {"volume": {"size": 1, "volume_type": "nothing"}}),
        (404, {"volume": {"size": 1, "snapshot_id": str(uuid.uuid4())}}),
        (403, {"volume": {"size": 100_000}}),
    ],
)
async def test_volumes_that_are_refused(cloud: TestCloud, status: int, body: Any) -> None:
    await ask(cloud, "POST", OLD_VOLUMES, status, json=body)
    assert await left(cloud) == {}


async def test_no_id_is_no_list(cloud: TestCloud) -> None:
    for path in (f"{OLD_VOLUMES}/", f"{OLD_SNAPSHOTS}/"):
        await ask(cloud, "GET", path, 404)
        await ask(cloud, "DELETE", path, 404)


async def test_attached_volume(cloud: TestCloud) -> None:
    made = await volume(cloud)
    server = str(uuid.uuid4())
    body = {"attachment": {"volume_uuid": made["id"], "connector": None, "instance_uuid": server}}
    attachment = (await ask(cloud, "POST", ATTACHMENTS, 200, json=body, version=NEWEST))["attachment"]
    old = f"{OLD_VOLUMES}/{made['id']}"
    assert (await ask(cloud, "GET", old, 200))["volume"]["attachments"] == [{}]
    connector = {"connector": {"host": "h", "mountpoint": "/dev/vdb", "initiator": "iqn.x"}}
    path = f"{ATTACHMENTS}/{attachment['id']}"
    await ask(cloud, "PUT", path, 200, json={"attachment": connector}, version=NEWEST)
    await ask(cloud, "POST", f"{path}/action", 204, json={"os-complete": {}}, version=NEWEST)
    assert (await ask(cloud, "GET", old, 200))["volume"]["attachments"] == [
        {"id": made["id"], "volumeId": made["id"], "serverId": server, "device": "/dev/vdb"}
    ]
    await ask(cloud, "DELETE", old, 400)
    forced = {"snapshot": {"volume_id": made["id"]}}
    await ask(cloud, "POST", OLD_SNAPSHOTS, 400, json=forced)
    forced["snapshot"]["force"] = "True"
    await ask(cloud, "POST", OLD_SNAPSHOTS, 200, json=forced)


async def test_snapshots(cloud: TestCloud) -> None:
    source = (await volume(cloud))["id"]
    asked = {"volume_id": source, "display_name": "s", "display_description": "d", "force": False}
    made = (await ask(cloud, "POST", OLD_SNAPSHOTS, 200, json={"snapshot": asked}))["snapshot"]
    assert made == {
        "id": made["id"], "volumeId": source, "status": "creating", "size": 1, "createdAt": made["createdAt"],
        "displayName": "s", "displayDescription": "d",
    }  # fmt: skip
    await shows(cloud, f"{SNAPSHOTS}/{made['id']}", "available")
    shown = (await ask(cloud, "GET", f"{OLD_SNAPSHOTS}/{made['id']}", 200))["snapshot"]
    assert shown == {**made, "status": "available"}
    assert (await ask(cloud, "GET", OLD_SNAPSHOTS, 200))["snapshots"] == [shown]
    second = await snapshot(cloud, source)
    listed = (await ask(cloud, "GET", f"{OLD_SNAPSHOTS}/detail?limit=1", 200))["snapshots"]
    assert [one["id"] for one in listed] == [second["id"]]
    body = {"volume": {"size": 1, "snapshot_id": made["id"]}}
    assert (await ask(cloud, "POST", OLD_VOLUMES, 200, json=body))["volume"]["snapshotId"] == made["id"]
    await ask(cloud, "GET", f"{OLD_SNAPSHOTS}/{made['id']}", 404, as_="other")
    await ask(cloud, "DELETE", f"{OLD_SNAPSHOTS}/{made['id']}", 404, as_="other")
    await ask(cloud, "DELETE", f"{OLD_SNAPSHOTS}/{second['id']}", 202)
    await gone(cloud, f"{SNAPSHOTS}/{second['id']}")
    for wrong in ({}, {"volume_id": source, "force": "perhaps"}, {"volume_id": source, "name": "x"}):
        await ask(cloud, "POST", OLD_SNAPSHOTS, 400, json={"snapshot": wrong})
    body = {"snapshot": {"volume_id": str(uuid.uuid4())}}
    await ask(cloud, "POST", OLD_SNAPSHOTS, 404, json=body)
    await ask(cloud, "GET", OLD_SNAPSHOTS, 404, version="compute 2.36")


async def test_assisted_snapshots(cloud: TestCloud) -> None:
    source = (await volume(cloud))["id"]
    info = {"snapshot_id": str(uuid.uuid4()), "type": "qcow2", "new_file": "f"}
    body: Any = {"snapshot": {"volume_id": source, "create_info": info}}
    path = f"{URL}/os-assisted-volume-snapshots"
    await ask(cloud, "POST", path, 403, json=body)
    assert "back end" in str(await ask(cloud, "POST", path, 400, json=body, as_="admin"))
    info["type"] = "raw"
    assert "enum" in str(await ask(cloud, "POST", path, 400, json=body, as_="admin"))
    for query in ("", "?delete_info=x", f'?delete_info={{"volume_id":"{source}"}}'):
        await ask(cloud, "DELETE", f"{path}/{source}{query}", 400, as_="admin")
