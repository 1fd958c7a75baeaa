"""C09: the volume for the server is not ready in time. Nova LP 1447884."""

from __future__ import annotations

from pathlib import Path

import pytest

from cumulet.db.engine import Database
from tests.case import VOLUME, Case, stage

pytestmark = pytest.mark.anyio


async def gives_up(case: Case, *, doomed: bool) -> tuple[str, str, str]:
    """A server whose volume does not come: its id, the volume's, and the rule that holds the volume."""
    rule = await case.held("volume.ensure")
    server = await case.create(
        image=None,
        block_device_mapping_v2=[
            {
                "boot_index": 0, "uuid": case.image, "source_type": "image", "destination_type": "volume",
                "volume_size": 1, "delete_on_termination": doomed,
            }
        ],
    )  # fmt: skip
    (volume,) = await case.volumes()
    await case.struck(rule)
    shown = await case.server_is(server, "ERROR")
    assert f"volume {volume} did not become available in time" in shown["fault"]["message"]
    assert (await case.volume(volume))["status"] in ("creating", "downloading")
    return server, volume, rule


@pytest.mark.parametrize("ends", ["available", "error"])
@pytest.mark.parametrize("doomed", [True, False], ids=["deleted with it", "kept"])
async def test_the_volume_is_gone_or_the_users(
    db: Database, directory: Path, doomed: bool, ends: str
) -> None:
    async with stage(db, directory, build_time=0.2) as case:
        before = await case.usages()
        server, volume, rule = await gives_up(case, doomed=doomed)
        await case.delete(server)
        if not doomed:
            assert (await case.volume(volume))["status"] in ("creating", "downloading")
        assert await case.attachments(server) == []
        if ends == "error":
            await case.instead(rule, "volume.ensure", count=None, message="no room")
        else:
            await case.release(rule)
        if doomed:
            await case.volume_gone(volume)
        else:
            await case.volume_is(volume, ends)
            # It is the project's: seen, without attachment, counted, and it can be deleted.
            shown = await case.volume(volume)
            assert (shown["attachments"], shown["os-vol-tenant-attr:tenant_id"]) == (
                [],
                case.cloud.project("demo"),
            )
            assert await case.volumes() == [volume]
            assert (await case.usages())["volumes"] == before["volumes"] + 1
            await case.call("DELETE", f"{VOLUME}/volumes/{volume}", 202)
        await case.release()
        await case.clean()
        assert await case.usages() == before


@pytest.mark.parametrize("doomed", [True, False], ids=["deleted with it", "kept"])
async def test_a_volume_that_cannot_be_made_ends_the_build_at_once(
    db: Database, directory: Path, doomed: bool
) -> None:
    async with stage(db, directory, hosts=1) as case:
        before = await case.usages()
        await case.fault("volume.ensure", count=None, message="no room")
        server = await case.create(
            image=None,
            block_device_mapping_v2=[
                {
                    "boot_index": 0, "uuid": case.image, "source_type": "image", "destination_type": "volume",
                    "volume_size": 1, "delete_on_termination": doomed,
                }
            ],
        )  # fmt: skip
        (volume,) = await case.volumes()
        shown = await case.server_is(server, "ERROR")
        assert f"volume {volume}: It could not be made: no room" in shown["fault"]["message"]
        await case.delete(server)
        if not doomed:
            assert await case.volumes() == [volume]
            await case.volume_is(volume, "error")
            await case.call("DELETE", f"{VOLUME}/volumes/{volume}", 202)
        await case.volume_gone(volume)
        await case.release()
        await case.clean()
        assert await case.usages() == before
