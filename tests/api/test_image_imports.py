"""Importing images: staged ones, ones from the web, tasks."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.cloud import CHEAP, TestCloud, running_cloud, until

from cumulet.config import Config, Hosts, Images
from cumulet.core import faults
from cumulet.db.engine import Database
from cumulet.drivers import qcow2

pytestmark = pytest.mark.anyio

IMAGES = "/image/v2/images"
BINARY = {"Content-Type": "application/octet-stream"}

Handler = Callable[[asyncio.StreamWriter, str], Awaitable[None]]


@pytest.fixture
async def cloud(db: Database, directory: Path) -> AsyncIterator[TestCloud]:
    """A cloud that may read from this machine, as tests must."""
    config = Config(auth=CHEAP, hosts=Hosts(count=1), images=Images(import_private=True))
    async with running_cloud(db, directory, config=config) as made:
        yield made


@contextlib.asynccontextmanager
async def web(pages: dict[str, tuple[str, bytes]]) -> AsyncIterator[str]:
    """A web server: path → (status and headers, body)."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        start, body = pages.get(head.split()[1], ("404 Not Found", b""))
        with contextlib.suppress(ConnectionError):
            writer.write(f"HTTP/1.1 {start}\r\n\r\n".encode() + body)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def new(cloud: TestCloud, **more: Any) -> str:
    body = {"name": "x", "disk_format": "raw", "container_format": "bare", **more}
    response = await cloud.post(IMAGES, json=body)
    assert response.status_code == 201, response.text
    return str(response.json()["id"])


async def show(cloud: TestCloud, id: str) -> dict[str, Any]:
    return dict((await cloud.get(f"{IMAGES}/{id}")).json())


async def settled(cloud: TestCloud, id: str) -> dict[str, Any]:
    """The image once nothing more happens to it."""

    async def look() -> dict[str, Any] | None:
        image = await show(cloud, id)
        return image if image["status"] not in ("saving", "importing") else None

    return dict(await until(look))


async def fetch(cloud: TestCloud, id: str, uri: str) -> httpx2.Response:
    body = {"method": {"name": "web-download", "uri": uri}, "all_stores": True}
    return await cloud.post(f"{IMAGES}/{id}/import", json=body)


async def tasks_of(cloud: TestCloud, id: str) -> list[dict[str, Any]]:
    return list((await cloud.get(f"{IMAGES}/{id}/tasks")).json()["tasks"])


def stored(directory: Path) -> list[str]:
    return sorted(os.listdir(directory / "agents" / "image-store" / "file"))


# --- what is staged ---


async def test_what_is_staged_can_be_imported(cloud: TestCloud, directory: Path) -> None:
    id = await new(cloud)
    direct = {"method": {"name": "glance-direct"}}
    assert (await cloud.post(f"{IMAGES}/{id}/import", json=direct)).status_code == 409
    data = os.urandom(100_000)
    assert (await cloud.put(f"{IMAGES}/{id}/stage", content=data, headers=BINARY)).status_code == 204
    image = await show(cloud, id)
    assert image["status"] == "uploading"
    assert image["size"] == len(data)
    assert image["checksum"] is None
    assert (await cloud.get(f"{IMAGES}/{id}/file")).status_code == 204
    for path in ("stage", "file"):
        assert (await cloud.put(f"{IMAGES}/{id}/{path}", content=data, headers=BINARY)).status_code == 409
    response = await cloud.post(f"{IMAGES}/{id}/import", json=direct)
    assert response.status_code == 202
    image = await settled(cloud, id)
    assert image["status"] == "active"
    assert (image["os_glance_importing_to_stores"], image["os_glance_failed_import"]) == ("", "")
    assert "os_glance_import_task" not in image
    assert (await cloud.get(f"{IMAGES}/{id}/file")).content == data
    (task,) = await tasks_of(cloud, id)
    assert task["status"] == "success"
    assert task["type"] == "api_image_import"
    assert task["request_id"] == response.headers["x-openstack-request-id"]
    assert task["input"] == {"image_id": id, "import_req": direct, "backend": ["file"]}
    assert (await cloud.post(f"{IMAGES}/{id}/import", json=direct)).status_code == 409
    assert len(stored(directory)) == 2


async def test_what_is_staged_is_inspected(cloud: TestCloud, directory: Path) -> None:
    id = await new(cloud)
    hostile = bytearray(qcow2.empty(1 << 20))
    hostile[15] = 1
    response = await cloud.put(f"{IMAGES}/{id}/stage", content=bytes(hostile), headers=BINARY)
    assert response.status_code == 415
    assert (await show(cloud, id))["status"] == "queued"
    assert stored(directory) == []


async def test_formats_are_needed_for_the_import_only(cloud: TestCloud) -> None:
    id = await new(cloud, disk_format=None)
    assert (await cloud.put(f"{IMAGES}/{id}/stage", content=b"abc", headers=BINARY)).status_code == 204
    response = await cloud.post(f"{IMAGES}/{id}/import", json={"method": {"name": "glance-direct"}})
    assert response.status_code == 409
    assert "disk_format" in response.json()["message"]


async def test_what_is_staged_can_be_deleted(cloud: TestCloud, directory: Path) -> None:
    id = await new(cloud)
    await cloud.put(f"{IMAGES}/{id}/stage", content=b"abc", headers=BINARY)
    assert (await cloud.delete(f"{IMAGES}/{id}")).status_code == 204
    assert (await cloud.get(f"{IMAGES}/{id}")).status_code == 404
    assert stored(directory) == []


# --- what is on the web ---


async def test_an_image_from_the_web(cloud: TestCloud) -> None:
    data = os.urandom(700_000)
    half = len(data) // 2
    chunked = b"%x\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n" % (half, data[:half], len(data) - half, data[half:])
    pages = {
        "/sized": (f"200 OK\r\nContent-Length: {len(data)}", data),
        "/chunked": ("200 OK\r\nTransfer-Encoding: chunked", chunked),
        "/till-the-end?a=b": ("200 OK", data),
        "/moved": ("302 Found\r\nLocation: /sized", b""),
    }
    async with web(pages) as address:
        for path in pages:
            id = await new(cloud)
            response = await fetch(cloud, id, address + path)
            assert response.status_code == 202, response.text
            image = await settled(cloud, id)
            assert image["status"] == "active", await tasks_of(cloud, id)
            assert (await cloud.get(f"{IMAGES}/{id}/file")).content == data
            assert [task["status"] for task in await tasks_of(cloud, id)] == ["success"]


async def test_a_download_that_fails_leaves_the_image_queued(cloud: TestCloud, directory: Path) -> None:
    pages = {
        "/short": ("200 OK\r\nContent-Length: 5000", b"x"),
        "/teapot": ("418 I'm a teapot", b""),
        "/loop": ("301 Moved\r\nLocation: /loop", b""),
        "/elsewhere": ("302 Found\r\nLocation: ftp://example.org/", b""),
        "/odd": ("200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1", b"x"),
    }
    async with web(pages) as address:
        for path, why in (
            ("/short", "broke off"),
            ("/teapot", "answers 418"),
            ("/missing", "answers 404"),
            ("/loop", "too often"),
            ("/elsewhere", "neither http nor https"),
            ("/odd", "encoded"),
        ):
            id = await new(cloud)
            assert (await fetch(cloud, id, address + path)).status_code == 202
            image = await settled(cloud, id)
            assert image["status"] == "queued"
            assert image["os_glance_failed_import"] == "file"
            assert image["os_glance_importing_to_stores"] == ""
            (task,) = await tasks_of(cloud, id)
            assert task["status"] == "failure"
            assert why in task["message"]
        # The same image can be filled in another way afterwards.
        assert (await cloud.put(f"{IMAGES}/{id}/file", content=b"abc", headers=BINARY)).status_code == 204
        assert "os_glance_failed_import" not in await show(cloud, id)
    assert (await fetch(cloud, await new(cloud), "http://does-not.exist.invalid/x")).status_code == 202

    async def empty() -> bool:
        return len(stored(directory)) == 2

    await until(empty)


async def test_a_hostile_image_from_the_web(cloud: TestCloud, directory: Path) -> None:
    hostile = bytearray(qcow2.empty(1 << 20))
    hostile[15] = 1
    async with web({"/x": ("200 OK", bytes(hostile))}) as address:
        id = await new(cloud, disk_format="qcow2")
        await fetch(cloud, id, f"{address}/x")
        assert (await settled(cloud, id))["status"] == "queued"
        (task,) = await tasks_of(cloud, id)
        assert task["message"] == "the image is refused: it names a backing file"
    assert stored(directory) == []


async def test_deleted_during_the_download(cloud: TestCloud, directory: Path) -> None:
    held = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n" + bytes(3_000_000))
        held.set()
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        id = await new(cloud)
        await fetch(cloud, id, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
        await held.wait()
        image = await show(cloud, id)
        assert image["status"] == "importing"
        assert image["os_glance_importing_to_stores"] == "file"
        task = image["os_glance_import_task"]
        assert (await cloud.delete(f"{IMAGES}/{id}")).status_code == 204
    assert (await cloud.get(f"{IMAGES}/{id}")).status_code == 404
    assert stored(directory) == []
    ended = (await cloud.get(f"/image/v2/tasks/{task}", as_="admin")).json()
    assert ended["status"] == "failure"
    assert "deleted" in ended["message"]


async def test_private_addresses_are_refused(db: Database, directory: Path) -> None:
    async with running_cloud(db, directory) as cloud:
        id = await new(cloud)
        for uri in (
            "", "file:///etc/passwd", "ftp://example.org/x", "http://127.0.0.1/x", "http://localhost/x", "http://[::1]/x",
            "http://169.254.169.254/latest/meta-data", "http://10.0.0.1/", "http://192.168.1.1/", "http://0x7f000001/",
            "http://127.1/", "http://2130706433/", "http://[::ffff:127.0.0.1]/", "http://[64:ff9b::7f00:1]/",
            "http://0.0.0.0/", "http://224.0.0.1/", "http://a@example.org/", "http://example.org:22/", "http://exa mple.org/",
            "http:///x", "http://[fe80::1%25eth0]/", "http://example.org/\r\nX: y",
        ):  # fmt: skip
            response = await fetch(cloud, id, uri)
            assert response.status_code == 400, uri
            assert "does not pass filtering" in response.json()["message"]
        assert (await show(cloud, id))["status"] == "queued"
        assert await tasks_of(cloud, id) == []


async def test_a_name_of_a_private_address_is_refused(
    db: Database, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_cloud(db, directory) as cloud:
        loop = asyncio.get_running_loop()

        async def inside(*args: Any, **more: Any) -> Any:
            return [(2, 1, 6, "", ("10.1.2.3", 80))]

        monkeypatch.setattr(loop, "getaddrinfo", inside)
        id = await new(cloud)
        assert (await fetch(cloud, id, "http://inside.example.org/x")).status_code == 202
        assert (await settled(cloud, id))["status"] == "queued"
        (task,) = await tasks_of(cloud, id)
        assert task["message"].endswith("inside.example.org has no public address")


async def test_web_download_can_be_switched_off(db: Database, directory: Path) -> None:
    config = Config(auth=CHEAP, hosts=Hosts(count=1), images=Images(web_download=False))
    async with running_cloud(db, directory, config=config) as cloud:
        assert (await fetch(cloud, await new(cloud), "http://example.org/x")).status_code == 400
        value = (await cloud.get("/image/v2/info/import")).json()["import-methods"]["value"]
        assert value == ["glance-direct", "glance-download", "copy-image"]


# --- other images ---


async def download(
    cloud: TestCloud, id: str, other: str, region: str = "RegionOne", interface: str = "public"
) -> httpx2.Response:
    method = {
        "name": "glance-download",
        "glance_image_id": other,
        "glance_region": region,
        "glance_service_interface": interface,
    }
    return await cloud.post(f"{IMAGES}/{id}/import", json={"method": method})


async def test_an_image_from_another_one(cloud: TestCloud, directory: Path) -> None:
    data = os.urandom(300_000)
    other = await new(cloud, hw_cpu_cores="5", os_distro="rhel", speed="fast", **{"trait:SSD": "required"})
    await cloud.put(f"{IMAGES}/{other}/file", content=data, headers=BINARY)
    id = await new(cloud, disk_format="iso", container_format="ovf", hw_cpu_cores="1", color="red")
    assert (await download(cloud, id, other)).status_code == 202
    image = await settled(cloud, id)
    assert image["status"] == "active", await tasks_of(cloud, id)
    assert (image["disk_format"], image["container_format"]) == ("raw", "bare")
    assert (image["hw_cpu_cores"], image["os_distro"], image["trait:SSD"]) == ("5", "rhel", "required")
    assert image["color"] == "red"
    assert "speed" not in image
    # They have nothing to do with each other afterwards.
    assert (await cloud.delete(f"{IMAGES}/{other}")).status_code == 204
    assert (await cloud.get(f"{IMAGES}/{other}")).status_code == 404
    assert (await cloud.get(f"{IMAGES}/{id}/file")).content == data
    assert len(stored(directory)) == 2


async def test_an_image_from_one_that_is_not_there(cloud: TestCloud) -> None:
    missing = "00000000-1111-2222-3333-444455556666"
    queued = await new(cloud)
    hidden = str((await cloud.post(IMAGES, json={"visibility": "private"}, as_="other")).json()["id"])
    for other, region, interface, why in (
        (missing, "RegionOne", "public", "No image found"),
        (hidden, "RegionOne", "public", "No image found"),
        (queued, "RegionOne", "public", "it has no bytes"),
        (missing, "nowhere", "public", "has no image service"),
        (missing, "RegionOne", "odd", "has no image service"),
    ):
        id = await new(cloud, os_distro="windows")
        assert (await download(cloud, id, other, region, interface)).status_code == 202
        image = await show(cloud, id)
        assert image["status"] == "queued"
        assert image["os_distro"] == "windows"
        assert image["os_glance_failed_import"] == "file"
        (task,) = await tasks_of(cloud, id)
        assert task["status"] == "failure"
        assert why in task["message"]
    assert (await download(cloud, id, "foo")).status_code == 400
    body = {"method": {"name": "glance-download", "glance_image_id": missing}}
    assert (await cloud.post(f"{IMAGES}/{id}/import", json=body)).status_code == 400


async def test_the_other_image_is_deleted_before_it_is_read(cloud: TestCloud, directory: Path) -> None:
    other, id = await new(cloud), await new(cloud)
    await cloud.put(f"{IMAGES}/{other}/file", content=b"abc", headers=BINARY)
    hold = await cloud.db.write(faults.add, faults.Rule(step="file.ensure", effect="hold"))
    await download(cloud, id, other)
    assert (await show(cloud, id))["status"] == "importing"
    assert (await cloud.delete(f"{IMAGES}/{other}")).status_code == 204
    image = await settled(cloud, id)
    assert image["status"] == "queued"
    assert "was deleted" in (await tasks_of(cloud, id))[0]["message"]
    await cloud.db.write(faults.remove, hold)

    async def empty() -> bool:
        return stored(directory) == []

    await until(empty)


# --- copies, and what is refused ---


async def test_there_is_nothing_to_copy_to(cloud: TestCloud) -> None:
    id = await new(cloud)
    body: dict[str, Any] = {
        "method": {"name": "copy-image"},
        "all_stores": True,
        "all_stores_must_succeed": False,
    }
    path = f"{IMAGES}/{id}/import"
    assert (await cloud.post(path, json=body, as_="admin")).status_code == 409
    await cloud.put(f"{IMAGES}/{id}/file", content=b"abc", headers=BINARY)
    assert (await cloud.post(path, json=body)).status_code == 403
    assert (await cloud.post(path, json=body, as_="admin")).status_code == 202
    image = await show(cloud, id)
    assert (image["os_glance_importing_to_stores"], image["os_glance_failed_import"]) == ("", "")
    body = {"method": {"name": "copy-image"}, "stores": ["file"]}
    assert (await cloud.post(path, json=body, as_="admin")).status_code == 400
    body = {"method": {"name": "copy-image"}, "stores": ["elsewhere"]}
    assert (await cloud.post(path, json=body, as_="admin")).status_code == 409


async def test_what_import_refuses(cloud: TestCloud) -> None:
    id = await new(cloud)
    path = f"{IMAGES}/{id}/import"
    for body in ({}, {"method": {}}, {"method": {"name": "odd"}}, {"method": "x"}, [],
                 {"method": {"name": "glance-direct"}, "all_stores": "x"}):  # fmt: skip
        assert (await cloud.post(path, json=body)).status_code == 400, body
    body = {"method": {"name": "web-download", "uri": "http://127.0.0.1:1/x"}}
    assert (await cloud.post(path, json=body, as_="other")).status_code == 404
    assert (await cloud.post(path, json=body, as_="reader")).status_code == 403
    assert (
        await cloud.put(f"{IMAGES}/{id}/stage", content=b"x", headers=BINARY, as_="reader")
    ).status_code == 403
    assert (await cloud.put(f"{IMAGES}/{id}/stage", content=b"x")).status_code == 415


async def test_an_image_does_not_leave_its_only_store(cloud: TestCloud) -> None:
    id = await new(cloud)
    path = f"/image/v2/stores/file/{id}"
    assert (await cloud.delete(path)).status_code == 403
    assert (await cloud.delete(path, as_="admin")).status_code == 409
    await cloud.put(f"{IMAGES}/{id}/file", content=b"abc", headers=BINARY)
    assert (await cloud.delete(path, as_="admin")).status_code == 403
    assert (await cloud.delete(f"/image/v2/stores/odd/{id}", as_="admin")).status_code == 409
    assert (await cloud.delete("/image/v2/stores/file/nothing", as_="admin")).status_code == 404
    headers = {**BINARY, "X-Image-Meta-Store": "odd"}
    assert (await cloud.put(f"{IMAGES}/{id}/file", content=b"x", headers=headers)).status_code == 400
    assert (await cloud.get(f"{IMAGES}/{id}/file?prefer=odd")).status_code == 400
    assert (await cloud.get(f"{IMAGES}/{id}/file?prefer=file")).content == b"abc"


# --- tasks ---


async def test_a_task_makes_its_image(cloud: TestCloud, directory: Path) -> None:
    data = qcow2.empty(1 << 20)
    async with web({"/x": ("200 OK", data)}) as address:
        input = {
            "import_from": f"{address}/x",
            "import_from_format": "qcow2",
            "image_properties": {
                "name": "made",
                "visibility": "public",
                "disk_format": "qcow2",
                "color": "red",
            },
        }
        body = {"type": "import", "input": input}
        assert (await cloud.post("/image/v2/tasks", json=body)).status_code == 403
        response = await cloud.post("/image/v2/tasks", json=body, as_="admin")
        assert response.status_code == 201
        task = response.json()
        assert task["status"] == "processing"
        assert task["input"] == input
        path = f"/image/v2/tasks/{task['id']}"
        assert response.headers["location"] == f"http://cloud{path}"

        async def ended() -> dict[str, Any] | None:
            found: dict[str, Any] = (await cloud.get(path, as_="admin")).json()
            return found if found["status"] != "processing" else None

        task = await until(ended)
    assert task["status"] == "success", task
    image = await show(cloud, task["result"]["image_id"])
    assert (image["status"], image["name"], image["visibility"], image["color"]) == (
        "active",
        "made",
        "public",
        "red",
    )
    listed = (await cloud.get("/image/v2/tasks?limit=1", as_="admin")).json()
    assert [one["id"] for one in listed["tasks"]] == [task["id"]]
    assert "input" not in listed["tasks"][0]
    assert listed["next"] == f"/v2/tasks?limit=1&marker={task['id']}"
    assert (await cloud.get("/image" + listed["next"], as_="admin")).json()["tasks"] == []
    assert (await cloud.delete(path, as_="admin")).status_code == 405


async def test_a_task_that_fails_takes_its_image_along(cloud: TestCloud, directory: Path) -> None:
    input = {
        "import_from": "http://127.0.0.1:1/x",
        "import_from_format": "qcow2",
        "image_properties": {"name": "made"},
    }
    response = await cloud.post("/image/v2/tasks", json={"type": "import", "input": input}, as_="admin")
    task = response.json()

    async def ended() -> dict[str, Any] | None:
        found: dict[str, Any] = (await cloud.get(f"/image/v2/tasks/{task['id']}", as_="admin")).json()
        return found if found["status"] != "processing" else None

    found = await until(ended)
    assert found["status"] == "failure"
    assert "cannot be reached" in found["message"]
    assert found["result"] is None

    async def gone() -> bool:
        return (await cloud.get(f"{IMAGES}/{task['image_id']}", as_="admin")).status_code == 404

    await until(gone)
    assert stored(directory) == []


async def test_what_tasks_refuse(cloud: TestCloud) -> None:
    whole = {"import_from": "http://127.0.0.1/x", "import_from_format": "raw", "image_properties": {}}
    for body in (
        {},
        {"type": "import"},
        {"type": "odd", "input": whole},
        {"type": "import", "input": {"import_from": "http://127.0.0.1/x"}},
        {"type": "import", "input": {**whole, "import_from": "file:///etc/passwd"}},
        {"type": "import", "input": {**whole, "image_properties": {"disk_format": "odd"}}},
    ):
        response = await cloud.post("/image/v2/tasks", json=body, as_="admin")
        assert response.status_code == 400, body
    for query in ("status=odd", "type=odd", "sort_dir=odd", "sort_key=odd", "marker=odd", "limit=x"):
        assert (await cloud.get(f"/image/v2/tasks?{query}", as_="admin")).status_code == 400, query
    assert (await cloud.get("/image/v2/tasks/odd", as_="admin")).status_code == 404


# --- what can be learned ---


async def test_info(cloud: TestCloud) -> None:
    info = (await cloud.get("/image/v2/info/import")).json()
    assert info["import-methods"]["value"] == [
        "glance-direct",
        "web-download",
        "glance-download",
        "copy-image",
    ]
    assert [store["id"] for store in (await cloud.get("/image/v2/info/stores")).json()["stores"]] == ["file"]
    assert (await cloud.get("/image/v2/info/stores/detail")).status_code == 403
    assert (await cloud.get("/image/v2/info/stores/detail", as_="service")).status_code == 200
    assert (await cloud.get("/image/v2/info/import", as_=None)).status_code == 401
    await new(cloud)
    usage = (await cloud.get("/image/v2/info/usage")).json()["usage"]
    assert usage["image_count_total"] == {"usage": 1, "limit": -1}
    assert usage["image_size_total"] == {"usage": 0, "limit": -1}
