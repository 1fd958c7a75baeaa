"""What the simulated cloud found, by seeds that nobody chose: the smallest ways to each."""

from __future__ import annotations

from pathlib import Path

import pytest

from cumulet.db.engine import Database
from tests.case import VOLUME, stage

pytestmark = pytest.mark.anyio


async def test_a_snapshot_is_deleted_while_a_volume_is_made_of_it(db: Database, directory: Path) -> None:
    """The volume waited for a snapshot that was given up, and the snapshot for the volume that needed it."""
    async with stage(db, directory) as case:
        original = await case.make_volume()
        await case.settle()
        case.remember()
        snapshot = await case.make_snapshot(original)
        await case.cloud.agents["sim"].stop()
        body = {"volume": {"size": 1, "snapshot_id": snapshot}}
        made = (await case.call("POST", f"{VOLUME}/volumes", json=body)).json()["volume"]["id"]
        await case.call("DELETE", f"{VOLUME}/snapshots/{snapshot}")
        case.cloud.agents["sim"].start()
        await case.volume_is(made, "available")
        await case.call("DELETE", f"{VOLUME}/volumes/{made}")
        await case.volume_gone(made)
        await case.clean()
