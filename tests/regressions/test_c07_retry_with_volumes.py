"""C07: a retry on another host with a volume whose attachment was removed with the first attempt. Nova LP 1784353."""

from __future__ import annotations

from pathlib import Path

import pytest

from cumulet.db.engine import Database
from tests.case import COMPUTE, H1, H2, stage

pytestmark = pytest.mark.anyio


async def test_the_volume_stays_the_servers_through_the_retry(db: Database, directory: Path) -> None:
    async with stage(db, directory) as case:
        volume = await case.make_volume(imageRef=case.image)
        await case.settle()
        case.remember()
        root = [{"boot_index": 0, "uuid": volume, "source_type": "volume", "destination_type": "volume"}]
        await case.fault("guest.ensure", count=None, host=H1)
        # The clean-up of the first attempt stands still while the volume is nobody's on the back end.
        held = await case.fault("connection.remove", "hold", None, moment="after", host=H1)
        with case.watching(STATUS, id=volume) as statuses:
            server = await case.create(image=None, block_device_mapping_v2=root)
            await case.struck(held)
            await case.create(400, name="thief", image=None, block_device_mapping_v2=root)
            await case.release(held)
            await case.server_is(server, "ACTIVE")
        await case.release()
        assert await case.host_of(server) == H2
        assert set(statuses) == {"reserved", "attaching", "attached"}, "it was never available"
        (attachment,) = await case.attachments(server)
        assert (attachment["volume_id"], attachment["status"]) == (volume, "attached")
        connection = (await case.attachment(attachment["id"]))["connection_info"]
        assert connection["host"] == H2
        assert (await case.volume(volume))["status"] == "in-use"
        assert [one["host_name"] for one in (await case.volume(volume, as_="admin"))["attachments"]] == [H2]
        await case.act(server, "os-stop")
        await case.server_is(server, "SHUTOFF")
        await case.act(server, "os-start")
        await case.server_is(server, "ACTIVE")
        assert (
            len((await case.get(f"{COMPUTE}/servers/{server}/os-volume_attachments"))["volumeAttachments"])
            == 1
        )
        await case.delete(server)
        case.clean_at_once()
        assert (await case.volume(volume))["status"] == "available"
        await case.clean()


#: Who has the volume: "free" if nobody does.
STATUS = "select coalesce(a.status, 'free') from volumes v left join attachments a on a.volume_id = v.id where v.id = :id"
