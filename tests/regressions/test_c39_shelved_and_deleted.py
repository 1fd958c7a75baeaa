"""C39: a shelved server is deleted, offloaded or not. Nova LP 1307791, 1675570."""

from __future__ import annotations

from pathlib import Path

import pytest

from cumulet.db.engine import Database
from tests.case import COMPUTE, H1, IMAGE, NETWORK, Case, stage

pytestmark = pytest.mark.anyio

#: What has the host when an offload begins.
HELD = [
    f"{kind}.remove {moment}"
    for kind in ("guest", "tap", "connection", "export", "disk")
    for moment in ("before", "after")
]


async def prepare(case: Case) -> tuple[str, str, str]:
    """Port P, volume V, and W, which goes with the server."""
    port, kept = (await case.make_port())["id"], await case.make_volume()
    await case.settle()
    case.remember()
    return port, kept, await case.make_volume()


async def attach(case: Case, server: str, volume: str, *, doomed: bool) -> None:
    body = {"volumeId": volume, "delete_on_termination": doomed}
    path = f"{COMPUTE}/servers/{server}/os-volume_attachments"
    await case.call("POST", path, json={"volumeAttachment": body})


async def images_of(case: Case, server: str) -> list[str]:
    """The statuses of the images that shelving made."""
    found = (await case.get(f"{IMAGE}/images", as_="admin"))["images"]
    return [one["status"] for one in found if one.get("instance_uuid") == server]


async def ends(case: Case, server: str, port: str, kept: str, doomed: str, own: list[str]) -> None:
    """The server is deleted; in the first moment of its 404 all is free, and nothing is left."""
    await case.gone(server)
    shown = await case.volume(kept)
    assert (shown["status"], shown["attachments"]) == ("available", [])
    await case.call("GET", f"/volume/v3/volumes/{doomed}", 404, version="volume 3.70")
    assert await case.attachments(server) == []
    free = await case.port(port)
    assert (free["device_id"], free["device_owner"], free["binding:host_id"]) == ("", "", "")
    for id in own:
        await case.call("GET", f"{NETWORK}/ports/{id}", 404, as_="admin")
    assert await images_of(case, server) == []
    assert await case.allocations(server) == {}
    assert case.things(H1) == []
    assert case.exports() == []
    case.clean_at_once()
    await case.clean()


async def own_ports(case: Case, server: str, port: str) -> list[str]:
    return [one["id"] for one in await case.ports_of(server) if one["id"] != port]


async def test_offloaded_with_volumes_that_were_attached_meanwhile(db: Database, directory: Path) -> None:
    async with stage(db, directory, hosts=1) as case:
        port, kept, doomed = await prepare(case)
        server = await case.boot(networks=[{"port": port}, {"uuid": case.network2["id"]}])
        own = await own_ports(case, server, port)
        await case.act(server, "shelve")
        shown = await case.server_is(server, "SHELVED_OFFLOADED")
        assert shown["OS-EXT-SRV-ATTR:host"] is None
        # It has left its host, and keeps what is its own.
        assert await case.allocations(server) == {}
        assert case.things(H1) == []
        assert await images_of(case, server) == ["active"]
        assert (await case.port(port))["device_id"] == server
        await attach(case, server, kept, doomed=False)
        await attach(case, server, doomed, doomed=True)
        assert (await case.volume(kept))["status"] == "in-use"
        await case.call("DELETE", f"{COMPUTE}/servers/{server}", 204)
        await ends(case, server, port, kept, doomed, own)


async def test_a_server_that_boots_from_a_volume(db: Database, directory: Path) -> None:
    async with stage(db, directory, hosts=1) as case:
        port = (await case.make_port())["id"]
        kept = await case.make_volume(imageRef=case.image)
        await case.settle()
        case.remember()
        doomed = await case.make_volume()
        server = await case.boot(
            image=None,
            networks=[{"port": port}, {"uuid": case.network2["id"]}],
            block_device_mapping_v2=[
                {"boot_index": 0, "uuid": kept, "source_type": "volume", "destination_type": "volume"},
                {"uuid": doomed, "source_type": "volume", "destination_type": "volume", "delete_on_termination": True},
            ],
        )  # fmt: skip
        own = await own_ports(case, server, port)
        await case.act(server, "shelve")
        await case.server_is(server, "SHELVED_OFFLOADED")
        assert await images_of(case, server) == []
        assert await case.allocations(server) == {}
        assert case.exports() == []
        assert (await case.volume(kept))["status"] == "reserved"
        await case.call("DELETE", f"{COMPUTE}/servers/{server}", 204)
        await ends(case, server, port, kept, doomed, own)


@pytest.mark.parametrize("resets", [False, True], ids=["", "in ERROR"])
async def test_shelved_and_not_yet_offloaded(db: Database, directory: Path, resets: bool) -> None:
    async with stage(db, directory, hosts=1, offload_after=-1.0) as case:
        port, kept, doomed = await prepare(case)
        server = await case.boot(
            config_drive=True,
            networks=[{"port": port}, {"uuid": case.network2["id"]}],
            block_device_mapping_v2=case.devices(kept, doomed=[doomed]),
        )
        own = await own_ports(case, server, port)
        await case.act(server, "shelve")
        shown = await case.server_is(server, "SHELVED")
        assert shown["OS-EXT-SRV-ATTR:host"] == H1
        assert await images_of(case, server) == ["active"]
        assert case.things(H1) != []
        if resets:
            await case.act(server, "os-resetState", {"state": "error"}, as_="admin")
            await case.server_is(server, "ERROR")
        await case.call("DELETE", f"{COMPUTE}/servers/{server}", 204)
        await ends(case, server, port, kept, doomed, own)


@pytest.mark.parametrize("stop", HELD)
async def test_half_way_through_its_offload(db: Database, directory: Path, stop: str) -> None:
    async with stage(db, directory, hosts=1) as case:
        port, kept, doomed = await prepare(case)
        server = await case.boot(
            config_drive=True,
            networks=[{"port": port}, {"uuid": case.network2["id"]}],
            block_device_mapping_v2=case.devices(kept, doomed=[doomed]),
        )
        own = await own_ports(case, server, port)
        step, _, moment = stop.partition(" ")
        rule = await case.held(step, moment)
        await case.act(server, "shelve")
        await case.struck(rule)
        shown = await case.server(server)
        assert shown["OS-EXT-STS:task_state"] == "shelving_offloading"
        await case.call("DELETE", f"{COMPUTE}/servers/{server}", 204)
        await case.release(rule)
        await ends(case, server, port, kept, doomed, own)


async def test_while_the_image_store_is_away(db: Database, directory: Path) -> None:
    """The image of the shelving cannot go yet: the server does not wait for that, and the image is not forgotten."""
    async with stage(db, directory, hosts=1) as case:
        port, kept, doomed = await prepare(case)
        server = await case.boot(
            networks=[{"port": port}, {"uuid": case.network2["id"]}],
            block_device_mapping_v2=case.devices(kept, doomed=[doomed]),
        )
        own = await own_ports(case, server, port)
        await case.act(server, "shelve")
        await case.server_is(server, "SHELVED_OFFLOADED")
        await case.silent("store")
        await case.delete(server)
        assert [one["kind"] for one in await case.owed()] == ["image"]
        case.start("store")
        await case.settle()
        assert await case.owed() == []
        await ends(case, server, port, kept, doomed, own)


async def test_while_it_comes_back(db: Database, directory: Path) -> None:
    """An unshelve that is under way is ended by the delete, wherever it stands."""
    async with stage(db, directory, hosts=1) as case:
        for step in ("schedule", "disk.ensure", "guest.ensure"):
            port, kept, doomed = await prepare(case)
            server = await case.boot(
                networks=[{"port": port}, {"uuid": case.network2["id"]}],
                block_device_mapping_v2=case.devices(kept, doomed=[doomed]),
            )
            own = await own_ports(case, server, port)
            await case.act(server, "shelve")
            await case.server_is(server, "SHELVED_OFFLOADED")
            rule = await case.held(step)
            await case.act(server, "unshelve")
            if step == "schedule":
                await case.waits(server, "a fault rule holds the step schedule")
            else:
                await case.struck(rule)
            await case.call("DELETE", f"{COMPUTE}/servers/{server}", 204)
            await case.release(rule)
            await ends(case, server, port, kept, doomed, own)


async def test_its_image_waits_for_two_and_one_of_them_falls_silent(db: Database, directory: Path) -> None:
    """The image tells of the other one it waits for, so nothing of that changes: the server must hear of it all the same."""
    async with stage(db, directory, hosts=1, patience=300.0) as case:
        server = await case.boot()
        saving = await case.held("file.ensure")
        await case.act(server, "shelve")
        await case.struck(saving)
        (image,) = [
            one["id"]
            for one in (await case.get(f"{IMAGE}/images", as_="admin"))["images"]
            if one.get("instance_uuid") == server
        ]
        await case.cloud.agents["store"].stop()
        await case.held("source.remove")
        await case.call("DELETE", f"{COMPUTE}/servers/{server}", 204)
        await case.waits(server, f"waits for image {image} to be deleted")
        await case.silent("store")
        await case.gone(server)
        await case.release()
        case.start("store")
        await case.settle()
        await case.clean()
