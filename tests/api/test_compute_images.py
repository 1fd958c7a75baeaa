"""Images as compute showed them to old clients."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.cloud import TestCloud, test_cloud

from cumulet.app import reconciler
from cumulet.core import quota
from cumulet.db.engine import PostgresDatabase, SqliteDatabase

pytestmark = pytest.mark.anyio

URL = "/compute/v2.1/images"


@pytest.fixture
async def cloud(db: SqliteDatabase | PostgresDatabase) -> AsyncIterator[TestCloud]:
    async with test_cloud(db) as made:
        reconciler(db, made.config)
        yield made


async def image(cloud: TestCloud, who: str = "demo", **fields: Any) -> str:
    made = await cloud.post("/image/v2/images", as_=who, json={"name": "i", **fields})
    assert made.status_code == 201, made.text
    return str(made.json()["id"])


async def names(cloud: TestCloud, query: str, who: str = "demo") -> list[str]:
    answer = await cloud.get(f"{URL}?{query}", as_=who)
    assert answer.status_code == 200, answer.text
    return sorted(one["name"] for one in answer.json()["images"])


async def test_shown_and_deleted(cloud: TestCloud) -> None:
    server = str(uuid.uuid4())
    key = await image(cloud, min_ram=64, min_disk=1, instance_uuid=server, auto_disk_config="True", a="b")
    shown = (await cloud.get(f"{URL}/{key}")).json()["image"]
    assert set(shown) == {
        "id", "name", "links", "minRam", "minDisk", "metadata", "created", "updated", "status", "progress",
        "OS-EXT-IMG-SIZE:size", "OS-DCF:diskConfig", "server",
    }  # fmt: skip
    assert (shown["status"], shown["progress"], shown["minRam"]) == ("SAVING", 25, 64)
    assert shown["metadata"] == {"instance_uuid": server, "auto_disk_config": "True", "a": "b"}
    assert (shown["server"]["id"], shown["OS-DCF:diskConfig"]) == (server, "AUTO")
    assert (await cloud.get(f"{URL}/detail")).json()["images"] == [shown]
    brief = (await cloud.get(URL)).json()["images"][0]
    assert set(brief) == {"id", "name", "links"}
    assert [link["rel"] for link in brief["links"]] == ["self", "bookmark", "alternate"]
    assert (await cloud.get(f"{URL}/{key}", as_="other")).status_code == 404
    assert (await cloud.delete(f"{URL}/{key}", as_="other")).status_code == 404
    assert (await cloud.delete(f"{URL}/{key}", as_="reader")).status_code == 403
    assert (await cloud.delete(f"{URL}/{key}")).status_code == 204
    assert (await cloud.get(f"{URL}/{key}")).status_code == 404
    assert (await cloud.get(URL, version="compute 2.36")).status_code == 404


async def test_lists(cloud: TestCloud) -> None:
    server = str(uuid.uuid4())
    await image(cloud, name="a", instance_uuid=server, image_type="snapshot", min_ram=64)
    await image(cloud, name="b")
    await image(cloud, who="other", name="c")
    assert await names(cloud, "") == ["a", "b"]
    assert await names(cloud, "name=a") == ["a"]
    assert await names(cloud, "status=SAVING") == []
    assert await names(cloud, "status=queued") == ["a", "b"]
    assert await names(cloud, f"server={server}") == ["a"]
    assert await names(cloud, f"server=http://cloud/compute/v2.1/servers/{server}") == ["a"]
    assert await names(cloud, "type=snapshot") == ["a"]
    assert await names(cloud, "property-image_type=snapshot") == ["a"]
    assert await names(cloud, "minRam=64") == ["a"]
    assert await names(cloud, "changes-since=2020-01-01T00:00:00Z") == ["a", "b"]
    assert await names(cloud, "changes-since=2090-01-01T00:00:00Z") == []
    first = (await cloud.get(f"{URL}?limit=1")).json()
    second = (await cloud.get(first["images_links"][0]["href"])).json()
    assert len({one["name"] for one in first["images"] + second["images"]}) == 2
    for bad in ("minRam=x", "changes-since=x", "marker=x", "limit=x"):
        assert (await cloud.get(f"{URL}?{bad}")).status_code == 400


async def test_metadata(cloud: TestCloud) -> None:
    key = await image(cloud, a="1", b="2")
    path = f"{URL}/{key}/metadata"
    assert (await cloud.get(path)).json() == {"metadata": {"a": "1", "b": "2"}}
    assert (await cloud.get(f"{path}/a")).json() == {"meta": {"a": "1"}}
    added = await cloud.post(path, json={"metadata": {"b": "3", "c": "4"}})
    assert added.json() == {"metadata": {"a": "1", "b": "3", "c": "4"}}
    assert (await cloud.put(f"{path}/a", json={"meta": {"a": "5"}})).json() == {"meta": {"a": "5"}}
    assert (await cloud.put(f"{path}/a", json={"meta": {"b": "5"}})).status_code == 400
    assert (await cloud.put(path, json={"metadata": {"d": "6"}})).json() == {"metadata": {"d": "6"}}
    assert (await cloud.delete(f"{path}/d")).status_code == 204
    assert (await cloud.delete(f"{path}/d")).status_code == 404
    assert (await cloud.get(f"{path}/d")).status_code == 404
    assert (await cloud.get(path)).json() == {"metadata": {}}
    assert (await cloud.get(path, version="compute 2.39")).status_code == 404


async def test_metadata_is_no_way_around_the_image_service(cloud: TestCloud) -> None:
    key = await image(cloud)
    path = f"{URL}/{key}/metadata"
    for name in ("visibility", "owner", "protected", "status", "os_glance_x", "locations", "id"):
        answer = await cloud.post(path, json={"metadata": {name: "public"}})
        assert answer.status_code == 403, name
    shown = (await cloud.get(f"/image/v2/images/{key}")).json()
    assert (shown["visibility"], shown["protected"]) == ("shared", False)
    assert (await cloud.post(path, as_="other", json={"metadata": {"a": "1"}})).status_code == 404
    assert (await cloud.post(path, as_="reader", json={"metadata": {"a": "1"}})).status_code == 403


@pytest.mark.parametrize(
    "body",
    [{}, {"metadata": None}, {"metadata": {"a": 1}}, {"metadata": {"": "1"}}, {"metadata": {"a/b": "1"}},
     {"metadata": {"a": "v" * 256}}, {"metadata": {}, "more": 1}],
)  # fmt: skip
async def test_bad_metadata(cloud: TestCloud, body: dict[str, Any]) -> None:
    key = await image(cloud)
    assert (await cloud.post(f"{URL}/{key}/metadata", json=body)).status_code == 400


async def test_the_limit_of_metadata(cloud: TestCloud) -> None:
    await cloud.db.write(quota.set_limits, "compute", quota.DEFAULT_CLASS, {"metadata_items": 2})
    path = f"{URL}/{await image(cloud, a='1')}/metadata"
    assert (await cloud.post(path, json={"metadata": {"b": "1", "c": "1"}})).status_code == 403
    assert (await cloud.put(path, json={"metadata": {"b": "1", "c": "1"}})).status_code == 200
