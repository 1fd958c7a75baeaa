"""Bytes of images: what goes in comes out, and what does not become whole leaves nothing."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cumulet.db.engine import Database
from cumulet.drivers import qcow2
from tests.cloud import TestCloud, running_cloud, until

pytestmark = pytest.mark.anyio

BINARY = {"Content-Type": "application/octet-stream"}


@pytest.fixture
async def cloud(db: Database, directory: Path) -> AsyncIterator[TestCloud]:
    async with running_cloud(db, directory) as made:
        yield made


async def new(cloud: TestCloud, **more: object) -> str:
    body = {"name": "x", "disk_format": "raw", "container_format": "bare", **more}
    response = await cloud.post("/image/v2/images", json=body)
    assert response.status_code == 201, response.text
    return str(response.json()["id"])


def stored(directory: Path) -> list[str]:
    return sorted(os.listdir(directory / "agents" / "image-store" / "file"))


async def test_what_is_uploaded_can_be_downloaded(cloud: TestCloud) -> None:
    id = await new(cloud)
    before = await cloud.get(f"/image/v2/images/{id}/file")
    assert before.status_code == 204
    data = os.urandom(3_000_000)
    response = await cloud.put(f"/image/v2/images/{id}/file", content=data, headers=BINARY)
    assert response.status_code == 204, response.text
    image = (await cloud.get(f"/image/v2/images/{id}")).json()
    assert image["status"] == "active"
    assert image["size"] == image["virtual_size"] == len(data)
    assert image["checksum"] == hashlib.md5(data, usedforsecurity=False).hexdigest()
    assert image["os_hash_value"] == hashlib.sha512(data).hexdigest()
    assert image["os_hash_algo"] == "sha512"
    whole = await cloud.get(f"/image/v2/images/{id}/file")
    assert whole.status_code == 200
    assert whole.content == data
    assert whole.headers["content-md5"] == image["checksum"]
    assert whole.headers["content-length"] == str(len(data))
