"""Bytes of images: what goes in comes out, and what does not become whole leaves nothing."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx2
import pytest
from tests.cloud import CHEAP, Config, TestCloud, test_cloud, until

from cumulet.api.image import data as api_data
from cumulet.api.image import images
from cumulet.app import reconciler, running
from cumulet.core import faults, quota
from cumulet.core.images import create_inner, fill
from cumulet.db.engine import Database, Tx
from cumulet.drivers import imagefiles, qcow2
from cumulet.reconcile import agents

pytestmark = pytest.mark.anyio

BINARY = {"Content-Type": "application/octet-stream"}


async def new(cloud: TestCloud, **more: object) -> str:
    body = {"name": "x", "disk_format": "raw", "container_format": "bare", **more}
    response = await cloud.post("/image/v2/images", json=body)
    assert response.status_code == 201, response.text
    return str(response.json()["id"])


async def put(cloud: TestCloud, id: str, content: object, **more: object) -> httpx2.Response:
    return await cloud.put(f"/image/v2/images/{id}/file", content=content, headers={**BINARY, **more})


async def show(cloud: TestCloud, id: str) -> dict[str, object]:
    return dict((await cloud.get(f"/image/v2/images/{id}")).json())


async def has_status(cloud: TestCloud, id: str, status: str) -> bool:
    return (await show(cloud, id))["status"] == status


def stored(directory: Path) -> list[str]:
    return sorted(os.listdir(directory / "agents" / "image-store" / "file"))


async def assert_nothing_left(cloud: TestCloud, directory: Path, id: str) -> None:
    """What has to hold after an upload that failed."""
    image = await show(cloud, id)
    assert image["status"] == "queued"
    assert image["size"] is None
    assert image["checksum"] is None

    async def empty() -> bool:
        claims = await cloud.db.read(lambda tx: tx.value("select count(*) from claims where kind = 'file'"))
        return not claims and not stored(directory)

    await until(empty)


async def test_what_is_uploaded_can_be_downloaded(cloud: TestCloud, directory: Path) -> None:
    id = await new(cloud)
    assert (await cloud.get(f"/image/v2/images/{id}/file")).status_code == 204
    data = os.urandom(3_000_000)
    response = await put(cloud, id, data)
    assert response.status_code == 204, response.text
    image = await show(cloud, id)
    assert image["status"] == "active"
    assert image["size"] == image["virtual_size"] == len(data)
    assert image["checksum"] == hashlib.md5(data, usedforsecurity=False).hexdigest()
    assert image["os_hash_value"] == hashlib.sha512(data).hexdigest()
    assert image["os_hash_algo"] == "sha512"
    assert image["stores"] == "file"
    whole = await cloud.get(f"/image/v2/images/{id}/file")
    assert whole.status_code == 200
    assert whole.content == data
    assert whole.headers["content-type"] == "application/octet-stream"
    assert whole.headers["content-md5"] == image["checksum"]
    assert whole.headers["content-length"] == str(len(data))
    assert (await cloud.delete(f"/image/v2/images/{id}")).status_code == 204
    assert (await cloud.get(f"/image/v2/images/{id}")).status_code == 404
    assert stored(directory) == []


async def test_an_empty_image_is_one(cloud: TestCloud) -> None:
    id = await new(cloud)
    assert (await put(cloud, id, b"")).status_code == 204
    assert (await show(cloud, id))["size"] == 0
    response = await cloud.get(f"/image/v2/images/{id}/file")
    assert response.status_code == 200
    assert response.content == b""


async def test_a_body_in_chunks_of_any_length_is_taken(cloud: TestCloud) -> None:
    id = await new(cloud)
    pieces = [os.urandom(n) for n in (1, 7, 65536, 0, 1_500_000, 3)]

    async def body() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    assert (await put(cloud, id, body())).status_code == 204
    assert (await cloud.get(f"/image/v2/images/{id}/file")).content == b"".join(pieces)


RANGES = (
    ("bytes=0-4", 206, 0, 5),
    ("bytes=10-", 206, 10, 90),
    ("bytes=-7", 206, 93, 7),
    ("bytes=-1000", 206, 0, 100),
    ("bytes=98-2000", 206, 98, 2),
    ("bytes=100-", 416, 0, 0),
    ("bytes=9-3", 416, 0, 0),
    ("bytes=x", 416, 0, 0),
    ("bytes=0-1,5-6", 400, 0, 0),
)


async def test_ranges(cloud: TestCloud) -> None:
    id = await new(cloud)
    data = bytes(range(100))
    await put(cloud, id, data)
    for asked, status, offset, length in RANGES:
        response = await cloud.get(f"/image/v2/images/{id}/file", headers={"Range": asked})
        assert response.status_code == status, asked
        if status == 206:
            assert response.content == data[offset : offset + length]
            assert response.headers["content-range"] == f"bytes {offset}-{offset + length - 1}/100"
            assert response.headers["content-length"] == str(length)


async def test_a_client_that_goes_away_leaves_nothing(cloud: TestCloud, directory: Path) -> None:
    id = await new(cloud)

    async def body() -> AsyncIterator[bytes]:
        yield os.urandom(2_000_000)
        await until(lambda: some(lambda: any(name.endswith(".part") for name in stored(directory))))
        raise OSError("the client is gone")

    with pytest.raises(httpx2.HTTPError):
        await put(cloud, id, body())
    await until(lambda: has_status(cloud, id, "queued"))
    await assert_nothing_left(cloud, directory, id)
    # It is as it was before: the next upload succeeds.
    assert (await put(cloud, id, b"abc")).status_code == 204
    assert (await cloud.get(f"/image/v2/images/{id}/file")).content == b"abc"


async def some(condition: Callable[[], bool]) -> bool:
    return condition()


async def test_a_wrong_size_is_refused(cloud: TestCloud, directory: Path) -> None:
    id = await new(cloud)
    for announced in ("3", "5", "x", "-1"):
        response = await put(cloud, id, b"abcd", **{"X-OpenStack-Image-Size": announced})
        assert response.status_code == 400
        await assert_nothing_left(cloud, directory, id)


async def test_what_names_other_files_is_refused(cloud: TestCloud, directory: Path) -> None:
    id = await new(cloud, disk_format="qcow2")
    hostile = bytearray(qcow2.empty(1 << 30))
    hostile[8:16] = (0x200).to_bytes(8, "big")
    hostile[16:20] = (11).to_bytes(4, "big")
    hostile[0x200 : 0x200 + 11] = b"/etc/passwd"
    response = await put(cloud, id, bytes(hostile))
    assert response.status_code == 415
    assert response.json()["message"] == "The image is refused: it names a backing file."
    await assert_nothing_left(cloud, directory, id)
    # Nor does it help to call it raw.
    id = await new(cloud, disk_format="raw")
    assert (await put(cloud, id, bytes(hostile))).status_code == 415


async def test_bytes_of_another_form_than_declared_are_taken(cloud: TestCloud) -> None:
    id = await new(cloud, disk_format="qcow2")
    assert (await put(cloud, id, b"\x01" * 4096)).status_code == 204
    image = await show(cloud, id)
    assert image["status"] == "active"
    inspected = await cloud.db.read(lambda tx: tx.value("select inspected from images where id = :id", id=id))
    assert inspected == "raw"


async def test_a_true_qcow2_tells_its_virtual_size(cloud: TestCloud) -> None:
    id = await new(cloud, disk_format="qcow2")
    assert (await put(cloud, id, qcow2.empty(5 << 30))).status_code == 204
    assert (await show(cloud, id))["virtual_size"] == 5 << 30


async def test_a_full_store_says_so(
    cloud: TestCloud, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: object, block: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    id = await new(cloud)
    with monkeypatch.context() as patched:
        patched.setattr(imagefiles._Taken, "block", full)
        response = await put(cloud, id, b"x" * 4_000_000)
    assert response.status_code == 413
    assert response.json()["message"] == "The image store is full."
    await assert_nothing_left(cloud, directory, id)
    assert (await put(cloud, id, b"x" * 4_000_000)).status_code == 204


async def test_a_quota_holds_for_a_body_of_unknown_length(cloud: TestCloud, directory: Path) -> None:
    demo = cloud.project("demo")
    await cloud.db.write(quota.set_limits, "image", demo, {"image_size_total": 2})
    id = await new(cloud)

    async def body() -> AsyncIterator[bytes]:
        for _ in range(5):
            yield os.urandom(1 << 20)

    response = await put(cloud, id, body())
    assert response.status_code == 413
    await assert_nothing_left(cloud, directory, id)
    # What is announced is refused before anything is taken.
    assert (await put(cloud, id, b"x" * (2 << 20))).status_code == 204
    other = await new(cloud)
    response = await put(cloud, other, b"x")
    assert response.status_code == 413
    assert "image_size_total: requested 1, used 2, limit 2" in response.json()["message"]


async def test_deleted_while_its_bytes_come(cloud: TestCloud, directory: Path) -> None:
    id = await new(cloud)
    going, deleted = asyncio.Event(), asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        yield os.urandom(2_000_000)
        going.set()
        await deleted.wait()
        yield os.urandom(2_000_000)

    uploading = asyncio.create_task(put(cloud, id, body()))
    await going.wait()
    await until(lambda: has_status(cloud, id, "saving"))
    assert (await cloud.delete(f"/image/v2/images/{id}")).status_code == 204
    deleted.set()
    assert (await uploading).status_code == 410
    assert (await cloud.get(f"/image/v2/images/{id}")).status_code == 404
    assert stored(directory) == []


async def test_a_store_that_does_not_come_for_the_bytes(
    cloud: TestCloud, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_data, "STORE_TIME", 0.2)
    id = await new(cloud)
    hold = await cloud.db.write(faults.add, faults.Rule(step="file.ensure", effect="hold"))
    response = await put(cloud, id, b"abc")
    assert response.status_code == 503
    assert "the image store does not answer" in response.json()["message"]
    assert (await show(cloud, id))["status"] == "queued"
    await cloud.db.write(faults.remove, hold)
    await assert_nothing_left(cloud, directory, id)
    assert (await put(cloud, id, b"abc")).status_code == 204


async def test_a_deleted_image_is_shown_until_its_bytes_are_gone(
    cloud: TestCloud, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "DELETE_WAIT", 0.05)
    id = await new(cloud)
    await put(cloud, id, b"abc")
    hold = await cloud.db.write(faults.add, faults.Rule(step="file.remove", effect="hold"))
    path = f"/image/v2/images/{id}"
    assert (await cloud.delete(path)).status_code == 204
    assert (await show(cloud, id))["status"] == "pending_delete"
    assert (await cloud.get("/image/v2/images")).json()["images"] == []
    # There is no way back, and no other use of it.
    assert (await cloud.delete(path)).status_code == 204
    assert (await cloud.get(f"{path}/file")).status_code == 404
    assert (await cloud.put(f"{path}/tags/x")).status_code == 404
    await cloud.db.write(faults.remove, hold)

    async def gone() -> bool:
        return (await cloud.get(path)).status_code == 404

    await until(gone)
    assert stored(directory) == []


async def test_who_may_upload_and_download(cloud: TestCloud) -> None:
    id = await new(cloud, visibility="private")
    path = f"/image/v2/images/{id}/file"
    assert (await cloud.put(path, content=b"a", headers=BINARY, as_="other")).status_code == 404
    assert (await cloud.put(path, content=b"a", headers=BINARY, as_="reader")).status_code == 403
    assert (await cloud.put(path, content=b"a", headers=BINARY, as_=None)).status_code == 401
    assert (await cloud.put(path, content=b"a")).status_code == 415
    assert (await cloud.put(path, content=b"a", headers=BINARY)).status_code == 204
    assert (await cloud.put(path, content=b"a", headers=BINARY)).status_code == 409
    assert (await cloud.get(path, as_="other")).status_code == 404
    assert (await cloud.get(path, as_="reader")).status_code == 403
    assert (await cloud.get(path, as_="admin")).content == b"a"
    assert (await cloud.head(path)).status_code == 405


async def test_formats_must_be_set_before(cloud: TestCloud) -> None:
    id = await new(cloud, disk_format=None)
    response = await put(cloud, id, b"a")
    assert response.status_code == 400
    assert "disk_format" in response.json()["message"]


async def test_a_deactivated_image_is_not_downloaded(cloud: TestCloud) -> None:
    id = await new(cloud)
    actions = f"/image/v2/images/{id}/actions"
    assert (await cloud.post(f"{actions}/deactivate")).status_code == 403
    await put(cloud, id, b"abc")
    for _ in range(2):
        assert (await cloud.post(f"{actions}/deactivate")).status_code == 204
    assert (await show(cloud, id))["status"] == "deactivated"
    assert (await cloud.get(f"/image/v2/images/{id}/file")).status_code == 403
    assert (await cloud.get(f"/image/v2/images/{id}/file", as_="admin")).status_code == 200
    for _ in range(2):
        assert (await cloud.post(f"{actions}/reactivate")).status_code == 204
    assert (await cloud.get(f"/image/v2/images/{id}/file")).content == b"abc"


async def test_an_upload_that_a_crash_interrupted_is_cleaned_up(db: Database, directory: Path) -> None:
    config = Config(auth=CHEAP)
    async with test_cloud(db, config=config) as cloud:
        reconciler(db, config)
        await db.write(agents.register, "image", "store", "secret")

        def interrupted(tx: Tx) -> str:
            id = create_inner(tx, owner=cloud.project("demo"), name="x", disk_format="raw")
            fill(tx, id, {"upload": "of the process that was killed"})
            return id

        id = await db.write(interrupted)
        claim = await db.read(lambda tx: tx.value("select id from claims where holder = :id", id=id))
        files = directory / "agents" / "image-store" / "file"
        files.mkdir(parents=True)
        (files / f"{claim}.part").write_bytes(b"half of it")
        assert (await show(cloud, id))["status"] == "saving"
        async with running(db, cloud.app, config, cloud.chance, directory):
            await until(lambda: has_status(cloud, id, "queued"))
            await assert_nothing_left(cloud, directory, id)
