"""Snapshots of volumes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.cloud import TestCloud
from tests.volumes import NEWEST, SNAPSHOTS, VOLUMES, ask, gone, left, shows, snapshot, things, volume

pytestmark = pytest.mark.anyio


async def test_a_snapshot_is_made_changed_and_deleted(cloud: TestCloud, directory: Path) -> None:
    source = (await volume(cloud, size=2))["id"]
    body = {"volume_id": source, "name": " n ", "description": "d", "metadata": {"k": "v"}}
    made = (await ask(cloud, "POST", SNAPSHOTS, 202, json={"snapshot": body}))["snapshot"]
    assert (made["status"], made["size"], made["name"], made["volume_id"]) == ("creating", 2, "n", source)
    assert made["metadata"] == {"k": "v"}
    assert set(made) == {
        "id", "created_at", "updated_at", "name", "description", "volume_id", "status", "size", "metadata",
    }  # fmt: skip
    path = f"{SNAPSHOTS}/{made['id']}"
    shown = await shows(cloud, path, "available")
    assert shown["os-extended-snapshot-attributes:progress"] == "100%"
    assert shown["os-extended-snapshot-attributes:project_id"] == cloud.project("demo")
    assert shown["user_id"] == cloud.user("demo")
    assert len(things(directory)["snapshot"]) == 1
    changed = await ask(cloud, "PUT", path, 200, json={"snapshot": {"name": "m", "description": None}})
    assert (changed["snapshot"]["name"], changed["snapshot"]["description"]) == ("m", None)
    await ask(cloud, "PUT", path, 400, json={"snapshot": {}})
    for method in ("GET", "DELETE"):
        await ask(cloud, method, path, 404, as_="other")
    await ask(cloud, "DELETE", path, 403, as_="reader")
    await ask(cloud, "DELETE", path, 202)
    await gone(cloud, path)
    assert things(directory)["snapshot"] == []
    await ask(cloud, "DELETE", f"{VOLUMES}/{source}", 202)
    await gone(cloud, f"{VOLUMES}/{source}")
    assert await left(cloud) == {}


async def test_what_makes_no_sense_is_refused(cloud: TestCloud) -> None:
    source = (await volume(cloud))["id"]
    for unknown in (cloud.chance.uuid(), None):
        await ask(cloud, "POST", SNAPSHOTS, 404, json={"snapshot": {"volume_id": unknown}})
    for body in (
        {},
        {"volume_id": "x"},
        {"volume_id": source, "name": "x" * 256},
        {"volume_id": source, "metadata": {"": "x"}},
        {"volume_id": source, "force": "maybe"},
        {"volume_id": source, "surprise": 1},
    ):
        await ask(cloud, "POST", SNAPSHOTS, 400, json={"snapshot": body})
    await ask(cloud, "POST", SNAPSHOTS, 404, json={"snapshot": {"volume_id": source}}, as_="other")


async def test_lists_are_narrowed_sorted_and_paged(cloud: TestCloud) -> None:
    one, two = (await volume(cloud))["id"], (await volume(cloud, size=2))["id"]
    a = (await snapshot(cloud, one, name="a", metadata={"k": "1"}))["id"]
    b = (await snapshot(cloud, two, name="b", metadata={"k": "2"}))["id"]
    expected = {
        "": [b, a],
        "?name=a": [a],
        f"?volume_id={two}": [b],
        "?status=available": [b, a],
        "?status=error": [],
        "?metadata={'k': '1'}": [a],
        "?sort=created_at:asc": [a, b],
        "?sort=name:asc": [a, b],
        "?limit=1": [b],
        f"?limit=1&marker={b}": [a],
        "?offset=1": [a],
        "?limit=0": [],
    }
    for query, wanted in expected.items():
        for path in (SNAPSHOTS, f"{SNAPSHOTS}/detail"):
            body = await ask(cloud, "GET", f"{path}{query}", 200, version="volume 3.22")
            assert [found["id"] for found in body["snapshots"]] == wanted, query
    assert "snapshots_links" in await ask(cloud, "GET", f"{SNAPSHOTS}?limit=1", 200)
    body = await ask(cloud, "GET", f"{SNAPSHOTS}?limit=1&with_count=1", 200, version="volume 3.45")
    assert body["count"] == 2
    await ask(cloud, "GET", f"{SNAPSHOTS}?marker={cloud.chance.uuid()}", 404)
    await ask(cloud, "GET", f"{SNAPSHOTS}?surprise=1", 400, version=NEWEST)
    assert (await ask(cloud, "GET", SNAPSHOTS, 200, as_="other"))["snapshots"] == []
    assert len((await ask(cloud, "GET", f"{SNAPSHOTS}?all_tenants=1", 200, as_="admin"))["snapshots"]) == 2


async def test_metadata_by_itself(cloud: TestCloud) -> None:
    path = f"{SNAPSHOTS}/{(await snapshot(cloud, (await volume(cloud))['id']))['id']}/metadata"
    assert await ask(cloud, "POST", path, 200, json={"metadata": {"a": "1"}}) == {"metadata": {"a": "1"}}
    assert await ask(cloud, "POST", path, 200, json={"metadata": {"b": "2"}}) == {
        "metadata": {"a": "1", "b": "2"}
    }
    assert await ask(cloud, "PUT", path, 200, json={"metadata": {"c": "3"}}) == {"metadata": {"c": "3"}}
    assert await ask(cloud, "PUT", f"{path}/d", 200, json={"meta": {"d": "4"}}) == {"meta": {"d": "4"}}
    await ask(cloud, "PUT", f"{path}/d", 400, json={"meta": {"e": "4"}})
    assert await ask(cloud, "GET", f"{path}/d", 200) == {"meta": {"d": "4"}}
    await ask(cloud, "DELETE", f"{path}/d", 200)
    await ask(cloud, "DELETE", f"{path}/d", 404)
    assert await ask(cloud, "GET", path, 200) == {"metadata": {"c": "3"}}


async def test_statuses_are_set_by_administrators_and_writers(cloud: TestCloud) -> None:
    id = (await snapshot(cloud, (await volume(cloud))["id"]))["id"]
    path = f"{SNAPSHOTS}/{id}"

    async def act(status: int, action: dict[str, Any], as_: str = "admin") -> None:
        await ask(cloud, "POST", f"{path}/action", status, json=action, as_=as_)

    await act(400, {"os-reset_status": {"status": "nonsense"}})
    await act(403, {"os-reset_status": {"status": "error"}}, "demo")
    for status in ("error", "deleting", "error_deleting", "available", "creating"):
        await act(202, {"os-reset_status": {"status": status}})
        await shows(cloud, path, status)
    await act(400, {"os-update_snapshot_status": {"status": "deleting"}}, "demo")
    await act(400, {"os-update_snapshot_status": {"status": "error", "progress": "101%"}}, "demo")
    await act(202, {"os-update_snapshot_status": {"status": "error", "progress": "80%"}}, "demo")
    assert (await shows(cloud, path, "error"))["os-extended-snapshot-attributes:progress"] == "80%"
    await act(400, {"os-update_snapshot_status": {"status": "available"}}, "demo")
    await act(202, {"os-reset_status": {"status": "creating"}})
    await ask(cloud, "DELETE", path, 400)
    await act(403, {"os-force_delete": {}}, "demo")
    await act(202, {"os-force_delete": {}})
    await gone(cloud, path)
