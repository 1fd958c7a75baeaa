"""C13: the delete comes before a host is chosen. Nova LP 1404867."""

from __future__ import annotations

from pathlib import Path

import pytest

from cumulet.db.engine import Database
from tests.case import COMPUTE, H1, H2, H3, VOLUME, stage

pytestmark = pytest.mark.anyio


async def test_nothing_is_built_and_it_never_comes_back(db: Database, directory: Path) -> None:
    async with stage(db, directory) as case:
        port, volume = await case.make_port(), await case.make_volume()
        await case.settle()
        case.remember()
        usage = await case.usages()
        doomed = await case.make_volume()
        rule = await case.held("schedule")
        server = await case.create(
            networks=[{"port": port["id"]}, {"uuid": case.network["id"]}],
            block_device_mapping_v2=[
                {"boot_index": 0, "uuid": case.image, "source_type": "image", "destination_type": "local"},
                {"uuid": volume, "source_type": "volume", "destination_type": "volume"},
                {"uuid": doomed, "source_type": "volume", "destination_type": "volume", "delete_on_termination": True},
            ],
        )  # fmt: skip
        await case.waits(server, "a fault rule holds the step schedule")
        with case.watching("select id from servers where id = :id", id=server) as seen:
            await case.call("DELETE", f"{COMPUTE}/servers/{server}", 204)
            for who in ("demo", "admin"):
                await case.call("GET", f"{COMPUTE}/servers/{server}", 404, as_=who)
            # At once: only the volume that goes with it may still be on its way.
            assert (await case.volume(volume))["status"] == "available"
            assert await case.ports_of(server) == []
            assert await case.allocations(server) == {}
            going = await case.call("GET", f"{VOLUME}/volumes/{doomed}", 200, 404, version="volume 3.70")
            assert going.status_code == 404 or going.json()["volume"]["status"] == "deleting"
            case.clean_at_once(doomed)
            await case.release(rule)
            await case.settle()
        assert seen == [], "no transaction brought it back"
        assert await case.servers() == []
        assert [case.things(host) for host in (H1, H2, H3)] == [[], [], []]
        await case.volume_gone(doomed)
        await case.clean()
        assert await case.usages() == usage
