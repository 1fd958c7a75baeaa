"""C26: a 404 before the port is free. terraform-provider-openstack 858, 153; cluster-api-provider-openstack 976."""

from __future__ import annotations

from pathlib import Path

import pytest

from cumulet.db.engine import Database
from tests.case import COMPUTE, NETWORK, VOLUME, Case, stage

pytestmark = pytest.mark.anyio

#: What takes its time when a server goes: its port at the network, its volume at the back end.
SLOW = {"as it is": (), "slow": ("lport.*", "export.remove", "connection.remove", "tap.remove")}
SECONDS = 0.2


async def deleted(case: Case, slow: str) -> tuple[str, str, str]:
    """A server was deleted, and this is the first moment of its 404: its port, volume and group."""
    group = await case.make_group()
    port = (await case.make_port(security_groups=[group]))["id"]
    volume = await case.make_volume()
    await case.settle()
    case.remember()
    server = await case.boot(
        networks=[{"port": port}, {"uuid": case.network2["id"]}],
        security_groups=[{"name": group}],
        block_device_mapping_v2=devices(case, volume),
    )
    for step in SLOW[slow]:
        await case.fault(step, "slow", None, seconds=SECONDS)
    await case.delete(server)
    return port, volume, group


def devices(case: Case, volume: str) -> list[dict[str, object]]:
    return [
        {"boot_index": 0, "uuid": case.image, "source_type": "image", "destination_type": "local"},
        {"uuid": volume, "source_type": "volume", "destination_type": "volume"},
    ]


@pytest.mark.parametrize("slow", SLOW)
async def test_all_of_it_can_be_used_again_at_once(db: Database, directory: Path, slow: str) -> None:
    async with stage(db, directory, hosts=2) as case:
        port, volume, group = await deleted(case, slow)
        server = await case.create(
            networks=[{"port": port}],
            security_groups=[{"name": group}],
            block_device_mapping_v2=devices(case, volume),
        )
        await case.release()
        await case.server_is(server, "ACTIVE")
        assert [one["id"] for one in await case.ports_of(server)] == [port]
        await case.volume_is(volume, "in-use")
        await case.delete(server)
        case.clean_at_once()
        await case.clean()


@pytest.mark.parametrize("slow", SLOW)
async def test_all_of_it_can_be_deleted_at_once(db: Database, directory: Path, slow: str) -> None:
    async with stage(db, directory, hosts=2) as case:
        port, volume, group = await deleted(case, slow)
        await case.call("DELETE", f"{NETWORK}/ports/{port}", 204)
        await case.call("DELETE", f"{VOLUME}/volumes/{volume}", 202, version="volume 3.70")
        await case.call("DELETE", f"{NETWORK}/security-groups/{group}", 204)
        for network in (case.network, case.network2):
            await case.call("DELETE", f"{NETWORK}/subnets/{network['subnet']}", 204)
            await case.call("DELETE", f"{NETWORK}/networks/{network['id']}", 204)
        await case.release()
        await case.volume_gone(volume)
        await case.settle()
        left = await case.left_of(port, volume, group, case.network["id"], case.network2["id"])
        assert left == []


async def test_it_shows_that_it_goes_until_then(db: Database, directory: Path) -> None:
    """While anything of it is held up it is there, and everything it has is still its own."""
    async with stage(db, directory, hosts=1) as case:
        port, volume = (await case.make_port())["id"], await case.make_volume()
        await case.settle()
        case.remember()
        server = await case.boot(networks=[{"port": port}], block_device_mapping_v2=devices(case, volume))
        held = await case.held("export.remove")
        await case.call("DELETE", f"{COMPUTE}/servers/{server}", 204)
        await case.struck(held)
        assert (await case.server(server, as_="demo"))["OS-EXT-STS:task_state"] == "deleting"
        assert (await case.volume(volume))["status"] == "in-use"
        assert await case.refused(400, name="t", block_device_mapping_v2=devices(case, volume))
        await case.release(held)
        await case.gone(server)
        case.clean_at_once()
        await case.clean()
