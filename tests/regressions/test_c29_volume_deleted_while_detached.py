"""C29: a volume is deleted while it is being detached. Nova and Cinder LP 1937084."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cumulet.db.engine import Database
from tests.case import COMPUTE, VOLUME, Case, stage

pytestmark = pytest.mark.anyio

NEWEST_VOLUME = "volume 3.70"


async def with_volume(case: Case) -> tuple[str, str]:
    """A server and the volume that is attached to it."""
    volume = await case.make_volume()
    server = await case.boot(block_device_mapping_v2=case.devices(volume))
    return server, volume


async def detach(case: Case, server: str, volume: str) -> None:
    await case.call("DELETE", f"{COMPUTE}/servers/{server}/os-volume_attachments/{volume}", 202)


async def remove(case: Case, volume: str, *codes: int, as_: str = "demo", query: str = "") -> str:
    """DELETE of the volume; the answer's text."""
    path = f"{VOLUME}/volumes/{volume}{query}"
    return (await case.call("DELETE", path, *codes, as_=as_, version=NEWEST_VOLUME)).text


async def act_on(case: Case, volume: str, action: str, body: Any, *codes: int) -> None:
    await case.call(
        "POST", f"{VOLUME}/volumes/{volume}/action", *codes, as_="admin", json={action: body},
        version=NEWEST_VOLUME,
    )  # fmt: skip


async def listed(case: Case, server: str) -> list[str]:
    """The volumes that the server lists."""
    found = await case.get(f"{COMPUTE}/servers/{server}/os-volume_attachments")
    return [one["volumeId"] for one in found["volumeAttachments"]]


async def ends(case: Case, server: str, volume: str) -> None:
    """The volume is gone, the server lists nothing of it, and goes too."""
    assert await listed(case, server) == []
    assert await case.attachments(server) == []
    await case.volume_gone(volume)
    await case.server_is(server, "ACTIVE")
    await case.delete(server)
    case.clean_at_once()
    assert case.exports() == []
    await case.clean()


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("step", ["connection.remove", "export.remove"])
async def test_deleted_in_the_first_moment_in_which_that_is_possible(
    db: Database, directory: Path, step: str, moment: str
) -> None:
    async with stage(db, directory, hosts=1) as case:
        server, volume = await with_volume(case)
        rule = await case.held(step, moment)
        await detach(case, server, volume)
        await case.struck(rule)
        # It is not available before its export is seen gone, so it cannot be deleted under the detach.
        assert (await case.volume(volume))["status"] == "detaching"
        assert "it is detaching" in await remove(case, volume, 400)
        await remove(case, volume, 400, as_="admin", query="?force=true&cascade=true")
        await act_on(case, volume, "os-force_delete", {}, 400)
        assert await listed(case, server) == [volume]
        await case.release(rule)

        async def deleted() -> bool:
            path = f"{VOLUME}/volumes/{volume}"
            response = await case.cloud.delete(path, version=NEWEST_VOLUME)
            assert response.status_code in (202, 400), response.text
            return response.status_code == 202

        await case.until(deleted, "the volume to be deletable")
        await ends(case, server, volume)


async def test_shown_available_by_an_administrator_it_is_kept_all_the_same(
    db: Database, directory: Path
) -> None:
    """An administrator can set the status that is shown, not what is true."""
    async with stage(db, directory, hosts=1) as case:
        server, volume = await with_volume(case)
        rule = await case.held("export.remove", "after")
        await detach(case, server, volume)
        await case.struck(rule)
        (attachment,) = await case.attachments(server)
        await act_on(case, volume, "os-reset_status", {"status": "available"}, 202)
        assert "it is detaching" in await remove(case, volume, 400)
        # Nor can the attachment be torn away under the server, by whoever.
        for as_ in ("demo", "admin"):
            path = f"{VOLUME}/attachments/{attachment['id']}"
            await case.call("DELETE", path, 409, as_=as_, version=NEWEST_VOLUME)
        await act_on(case, volume, "os-force_detach", {"attachment_id": attachment["id"]}, 400, 409)
        await case.release(rule)
        await case.volume_is(volume, "available")
        await remove(case, volume, 202)
        await ends(case, server, volume)


async def test_the_server_is_deleted_while_the_detach_runs(db: Database, directory: Path) -> None:
    async with stage(db, directory, hosts=1) as case:
        server, volume = await with_volume(case)
        rule = await case.held("export.remove", "after")
        await detach(case, server, volume)
        await case.struck(rule)
        await case.call("DELETE", f"{COMPUTE}/servers/{server}", 204)
        await remove(case, volume, 400)
        await case.release(rule)
        await case.gone(server)
        # At once: who has a 404 can delete what the server had.
        assert (await case.volume(volume))["status"] == "available"
        await remove(case, volume, 202)
        await case.volume_gone(volume)
        assert case.exports() == []
        await case.clean()
