"""C02: no host is found, and volumes are reserved already. Nova LP 1404867."""

from __future__ import annotations

from pathlib import Path

import pytest

from cumulet.db.engine import Database
from tests.case import COMPUTE, H1, H2, H3, stage

pytestmark = pytest.mark.anyio


async def test_a_server_that_never_had_a_host_shows_what_it_holds_and_delete_gives_it_back(
    db: Database, directory: Path
) -> None:
    async with stage(db, directory) as case:
        port = await case.make_port()
        volume, doomed = await case.make_volume(imageRef=case.image), await case.make_volume()
        for host in (H1, H2, H3):
            await case.enable(host, False)
        await case.settle()
        case.remember()
        usage = await case.usages()
        with case.watching("select binding_host from ports where id = :id", id=port["id"]) as bound:
            server = await case.create(
                image=None,
                block_device_mapping_v2=[
                    {"boot_index": 0, "uuid": volume, "source_type": "volume", "destination_type": "volume"},
                    {"uuid": doomed, "source_type": "volume", "destination_type": "volume", "delete_on_termination": True},
                ],
                networks=[{"port": port["id"]}],
                tags=["one", "two"],
            )  # fmt: skip
            shown = await case.server_is(server, "ERROR")
        assert shown["OS-EXT-SRV-ATTR:host"] is None
        assert "3 hosts: 3 disabled" in shown["fault"]["message"]
        # It can be shown, with all that it holds.
        assert sorted((await case.server(server, as_="demo"))["tags"]) == ["one", "two"]
        listed = (await case.get(f"{COMPUTE}/servers/{server}/os-volume_attachments"))["volumeAttachments"]
        assert {one["volumeId"] for one in listed} == {volume, doomed}
        for id in (volume, doomed):
            held = await case.volume(id)
            assert held["status"] == "reserved"
        held_by = {one["volume_id"]: one["instance"] for one in await case.attachments(server)}
        assert held_by == {volume: server, doomed: server}
        # The port was on no host, and is the user's as it was.
        assert bound == [""]
        assert {**(await case.port(port["id"], as_="demo")), **MOVED} == {**port, **MOVED}
        assert await case.allocations(server) == {}
        await case.delete(server)
        assert (await case.volume(volume))["status"] == "available"
        assert await case.attachments(server) == []
        await case.volume_gone(doomed)
        await case.clean(doomed)
        assert {**(await case.port(port["id"], as_="demo")), **MOVED} == {**port, **MOVED}
        after = await case.usages()
        assert after == {**usage, "volumes": usage["volumes"] - 1, "gigabytes": usage["gigabytes"] - 1}


#: What counts the changes of a port.
MOVED = {"updated_at": "", "revision_number": 0}
