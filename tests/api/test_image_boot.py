"""What may be opened: an image whose bytes are what it says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tests.cloud import TestCloud, until

from cumulet.core import faults
from cumulet.core.images import mismatch
from cumulet.drivers import qcow2

pytestmark = pytest.mark.anyio

BINARY = {"Content-Type": "application/octet-stream"}


async def image(cloud: TestCloud, disk_format: str, data: bytes) -> str:
    body = {"name": "x", "disk_format": disk_format, "container_format": "bare"}
    id = str((await cloud.post("/image/v2/images", json=body)).json()["id"])
    response = await cloud.put(f"/image/v2/images/{id}/file", content=data, headers=BINARY)
    assert response.status_code == 204
    return id


async def boot(cloud: TestCloud, image: str) -> dict[str, Any]:
    body = {"server": {"name": "s", "flavorRef": "42", "imageRef": image, "networks": "none"}}
    response = await cloud.post("/compute/v2.1/servers", json=body, version="compute 2.37")
    assert response.status_code == 202, response.text
    id = response.json()["server"]["id"]

    async def settled() -> dict[str, Any] | None:
        found: dict[str, Any] = (await cloud.get(f"/compute/v2.1/servers/{id}")).json()["server"]
        return found if found["status"] != "BUILD" else None

    return dict(await until(settled))


async def test_an_image_boots(cloud: TestCloud) -> None:
    server = await boot(cloud, await image(cloud, "qcow2", qcow2.empty(1 << 20)))
    assert server["status"] == "ACTIVE"


@pytest.mark.parametrize(("disk_format", "data"), [("qcow2", b"\1" * 4096), ("raw", qcow2.empty(1 << 20))])
async def test_an_image_that_lies_does_not(cloud: TestCloud, disk_format: str, data: bytes) -> None:
    server = await boot(cloud, await image(cloud, disk_format, data))
    assert server["status"] == "ERROR"
    assert f"the image is declared as {disk_format}, but its bytes are" in server["fault"]["message"]


async def test_an_image_that_is_being_copied_is_deleted_afterwards(cloud: TestCloud, directory: Path) -> None:
    source = await image(cloud, "qcow2", qcow2.empty(1 << 20))
    hold = await cloud.db.write(faults.add, faults.Rule(step="disk.ensure", effect="hold"))
    body = {"server": {"name": "s", "flavorRef": "42", "imageRef": source, "networks": "none"}}
    response = await cloud.post("/compute/v2.1/servers", json=body, version="compute 2.37")
    server = f"/compute/v2.1/servers/{response.json()['server']['id']}"

    async def placed() -> bool:
        needs = "select count(*) from needs n join claims c on c.id = n.claim where c.kind = 'disk'"
        return bool(await cloud.db.read(lambda tx: tx.value(needs)))

    await until(placed)
    assert (await cloud.delete(f"/image/v2/images/{source}")).status_code == 204
    assert (await cloud.get(f"/image/v2/images/{source}")).json()["status"] == "pending_delete"
    await cloud.db.write(faults.remove, hold)

    async def active() -> bool:
        return bool((await cloud.get(server)).json()["server"]["status"] == "ACTIVE")

    async def gone() -> bool:
        return (await cloud.get(f"/image/v2/images/{source}")).status_code == 404

    await until(active)
    await until(gone)
    assert os.listdir(directory / "agents" / "image-store" / "file") == []


async def test_the_copy_of_a_disk_goes_once_its_image_is_whole(cloud: TestCloud, directory: Path) -> None:
    server = await boot(cloud, await image(cloud, "qcow2", qcow2.empty(1 << 20)))
    path = f"/compute/v2.1/servers/{server['id']}"
    assert (await cloud.post(f"{path}/action", json={"shelve": None})).status_code == 202

    async def offloaded() -> bool:
        return bool((await cloud.get(path)).json()["server"]["status"] == "SHELVED_OFFLOADED")

    async def copies() -> int:
        return int(
            await cloud.db.read(lambda tx: tx.value("select count(*) from claims where kind = 'source'"))
        )

    async def none() -> bool:
        return await copies() == 0

    await until(offloaded)
    await until(none)
    listed = (await cloud.get("/image/v2/images?sort_key=created_at")).json()["images"]
    assert [one["status"] for one in listed] == ["active", "active"]


def test_formats_that_go_together() -> None:
    for declared, found in (("raw", "gpt"), ("iso", "iso"), ("ami", "raw"), (None, "raw"), ("qcow2", None)):
        assert mismatch(declared, found) is None
    for declared, found in (
        ("raw", "iso"),
        ("iso", "gpt"),
        ("vmdk", "raw"),
        ("qcow2", "vmdk"),
        ("raw", "luks"),
    ):
        assert mismatch(declared, found) is not None
