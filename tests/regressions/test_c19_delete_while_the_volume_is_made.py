"""C19: the delete comes while a volume is made for the server. Nova LP 1464259."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cumulet.db.engine import Database
from tests.case import COMPUTE, VOLUME, Case, stage

pytestmark = pytest.mark.anyio


async def root(case: Case, source: str) -> tuple[str, list[dict[str, Any]]]:
    """A boot volume that is made from the source; and the snapshot, if it is made from one."""
    device = {
        "boot_index": 0, "source_type": source, "destination_type": "volume", "volume_size": 1,
        "delete_on_termination": True,
    }  # fmt: skip
    if source == "image":
        return "", [{**device, "uuid": case.image}]
    if source == "blank":
        local = {"boot_index": 0, "uuid": case.image, "source_type": "image", "destination_type": "local"}
        return "", [local, {**device, "boot_index": None}]
    snapshot = await case.make_snapshot(case.own_volume)  # type: ignore[attr-defined]
    return snapshot, [{**device, "uuid": snapshot}]


@pytest.mark.parametrize("source", ["snapshot", "image", "blank"])
@pytest.mark.parametrize("moment", ["before", "after"])
async def test_the_new_volume_goes_and_its_source_can_go(
    db: Database, directory: Path, source: str, moment: str
) -> None:
    async with stage(db, directory, hosts=1) as case:
        case.own_volume = await case.make_volume(imageRef=case.image)  # type: ignore[attr-defined]
        await case.settle()
        case.remember()
        usage = await case.usages()
        snapshot, devices = await root(case, source)
        rule = await case.held("volume.ensure", moment)
        local = source == "blank"
        server = await case.create(image=case.image if local else None, block_device_mapping_v2=devices)
        await case.struck(rule)
        made = next(id for id in await case.volumes() if id != case.own_volume)  # type: ignore[attr-defined]
        await case.call("DELETE", f"{COMPUTE}/servers/{server}", 204)
        await case.release(rule)
        await case.gone(server)
        await case.volume_gone(made)
        assert await case.attachments(server) == []
        if snapshot:
            await case.settle()
            await case.call("DELETE", f"{VOLUME}/snapshots/{snapshot}", 202)
        await case.clean()
        assert await case.usages() == usage
