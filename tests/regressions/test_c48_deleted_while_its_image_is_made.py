"""C48: the server is deleted while an image of it is made. Nova LP 1555065."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cumulet.db.engine import Database
from tests.case import COMPUTE, H1, IMAGE, VOLUME, Case, stage

pytestmark = pytest.mark.anyio


async def create_image(case: Case, server: str) -> str:
    body = {"createImage": {"name": "saved"}}
    answer = await case.call("POST", f"{COMPUTE}/servers/{server}/action", 202, json=body)
    return str(answer.json()["image_id"])


async def status(case: Case, image: str) -> str | None:
    answer = await case.cloud.get(f"{IMAGE}/images/{image}", as_="admin")
    assert answer.status_code in (200, 404), answer.text
    found: str | None = answer.json()["status"] if answer.status_code == 200 else None
    return found


async def decided(case: Case, image: str) -> str | None:
    """The image's status once the cloud rests: it is whole, or it is not there."""
    await case.settle()
    found = await status(case, image)
    assert found in ("active", None), "it is neither saved for ever, nor does it wait to be"
    return found


async def complete(case: Case, image: str) -> None:
    """A server can be made of the image."""
    again = await case.boot(image=image)
    await case.delete(again)


async def drop(case: Case, image: str) -> None:
    await case.call("DELETE", f"{IMAGE}/images/{image}", 204)

    async def gone() -> bool:
        return await status(case, image) is None

    await case.until(gone, "the image to go")


async def with_disk(case: Case) -> tuple[str, str]:
    """A server with a disk of its own, and a volume that goes with it."""
    volume = await case.make_volume()
    server = await case.boot(
        networks=[{"uuid": case.network["id"]}], block_device_mapping_v2=case.devices(doomed=[volume])
    )
    return server, volume


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("step", ["source.ensure", "file.ensure", "source.remove"])
async def test_while_it_is_saved(db: Database, directory: Path, step: str, moment: str) -> None:
    async with stage(db, directory, hosts=1) as case:
        server, volume = await with_disk(case)
        rule = await case.held(step, moment)
        image = await create_image(case, server)
        await case.struck(rule)
        assert await status(case, image) == ("active" if step == "source.remove" else "saving")
        await case.call("DELETE", f"{COMPUTE}/servers/{server}", 204)
        await case.release(rule)
        await case.gone(server)
        await case.volume_gone(volume)
        if await decided(case, image) == "active":
            await complete(case, image)
            await drop(case, image)
        assert case.things(H1) == []
        await case.clean()


async def test_while_it_is_queued(db: Database, directory: Path) -> None:
    async with stage(db, directory, hosts=1) as case:
        other = await case.make_volume()
        await case.settle()
        case.remember()
        server, volume = await with_disk(case)
        # The guest is busy with a volume that is plugged in: the image waits for its turn.
        rule = await case.held("guest.ensure")
        body = {"volumeAttachment": {"volumeId": other}}
        await case.call("POST", f"{COMPUTE}/servers/{server}/os-volume_attachments", 200, json=body)
        await case.struck(rule)
        image = await create_image(case, server)
        assert await status(case, image) == "queued"
        await case.call("DELETE", f"{COMPUTE}/servers/{server}", 204)
        await case.release(rule)
        await case.gone(server)
        await case.volume_gone(volume)
        assert await decided(case, image) is None
        await case.volume_is(other, "available")
        assert case.things(H1) == []
        await case.clean()


# --- a server that boots from volumes: the image is snapshots of them ---


async def with_volumes(case: Case) -> tuple[str, str, str]:
    """A server that boots from a volume of its own, which goes with it, and has the user's volume as well."""
    own = await case.make_volume()
    await case.settle()
    case.remember()
    devices: list[dict[str, Any]] = [
        {
            "boot_index": 0, "uuid": case.image, "source_type": "image", "destination_type": "volume",
            "volume_size": 1, "delete_on_termination": True,
        },
        {"uuid": own, "source_type": "volume", "destination_type": "volume"},
    ]  # fmt: skip
    server = await case.boot(
        image=None, networks=[{"uuid": case.network["id"]}], block_device_mapping_v2=devices
    )
    root = next(id for id in await case.volumes() if id != own)
    return server, root, own


async def snapshots(case: Case) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await case.get(f"{VOLUME}/snapshots"))["snapshots"]
    return found


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_while_its_volumes_are_copied(db: Database, directory: Path, moment: str) -> None:
    async with stage(db, directory, hosts=1) as case:
        usage = await case.usages()
        server, root, own = await with_volumes(case)
        rule = await case.held("snapshot.ensure", moment)
        image = await create_image(case, server)
        await case.struck(rule)
        assert await status(case, image) == "saving"
        await case.call("DELETE", f"{COMPUTE}/servers/{server}", 204)
        await case.release(rule)
        await case.gone(server)
        await case.volume_gone(root)
        assert await decided(case, image) is None
        assert await snapshots(case) == [], "no snapshot without its image"
        await case.volume_is(own, "available")
        await case.clean()
        assert {**await case.usages(), "volumes": usage["volumes"], "gigabytes": usage["gigabytes"]} == usage


@pytest.mark.parametrize("held", ["guest.remove", "connection.remove", "export.remove"])
async def test_when_its_volumes_are_copied(db: Database, directory: Path, held: str) -> None:
    """The image is whole and stays, and with it what it is made of: that volume cannot go with the server."""
    async with stage(db, directory, hosts=1) as case:
        server, root, own = await with_volumes(case)
        image = await create_image(case, server)
        await case.settle()
        assert await status(case, image) == "active"
        rule = await case.held(held)
        await case.call("DELETE", f"{COMPUTE}/servers/{server}", 204)
        await case.struck(rule)
        await case.release(rule)
        await case.gone(server)
        assert await decided(case, image) == "active"
        await complete(case, image)
        made = await snapshots(case)
        assert {one["volume_id"] for one in made} == {root, own}
        await case.volume_is(root, "available")
        await drop(case, image)
        for one in made:
            await case.call("DELETE", f"{VOLUME}/snapshots/{one['id']}", 202)
        await case.settle()
        # What the test's second server was made of, and the first one's root.
        for volume in await case.volumes():
            if volume != own:
                await case.call("DELETE", f"{VOLUME}/volumes/{volume}", 202)
        await case.clean()
