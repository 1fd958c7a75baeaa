"""C46: evacuated, deleted, and then the old host returns. Nova LP 1709902, 1687479."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cumulet.db.engine import Database
from tests.case import COMPUTE, H1, H2, PLACEMENT, Case, stage
from tests.moves import Mover

pytestmark = pytest.mark.anyio


async def evacuated(case: Case) -> Mover:
    """A server that ran on H1, which is down, and runs on H2."""
    mover = await Mover.prepare(case)
    await mover.boot()
    await case.down(H1)
    assert case.things(H1) != []
    await mover.evacuate()
    await case.server_is(mover.server, "ACTIVE")
    assert await case.host_of(mover.server) == H2
    assert (await case.port(mover.port))["binding:host_id"] == H2
    assert [one["provider"] for one in await case.allocated(mover.server)] == [H2]
    (attachment,) = await case.attachments(mover.server)
    assert attachment["status"] == "attached"
    # The export to the old host was taken away before there was another one.
    assert len(case.exports()) == 1
    return mover


async def in_use_by_another(case: Case, mover: Mover) -> str:
    """A new server on H2 with the same port and volume."""
    other = await case.boot(
        name="other", networks=[{"port": mover.port}], block_device_mapping_v2=case.devices(mover.volume)
    )
    assert await case.host_of(other) == H2
    return other


async def is_untouched(case: Case, mover: Mover, server: str) -> None:
    shown = await case.server(server)
    assert (shown["status"], shown["OS-EXT-SRV-ATTR:host"]) == ("ACTIVE", H2)
    assert (await case.port(mover.port))["binding:host_id"] == H2
    assert (await case.volume(mover.volume))["status"] == "in-use"
    (attachment,) = await case.attachments(server)
    assert attachment["status"] == "attached"
    assert len(case.exports()) == 1
    assert len([name for name in case.things(H2) if name.startswith("guest/")]) == 1


async def test_it_returns_after_the_delete(db: Database, directory: Path) -> None:
    async with stage(db, directory, hosts=2) as case:
        mover = await evacuated(case)
        await case.delete(mover.server)
        await mover.is_free()
        assert case.things(H1) != []
        assert {one["kind"] for one in await case.owed()} >= {"guest", "disk", "tap", "connection"}
        await case.up(H1)
        await mover.ends()
        assert await case.owed() == []


async def test_it_returns_and_the_volume_is_anothers(db: Database, directory: Path) -> None:
    async with stage(db, directory, hosts=2) as case:
        mover = await evacuated(case)
        await case.delete(mover.server)
        other = await in_use_by_another(case, mover)
        await case.up(H1)
        await case.settle()
        assert case.things(H1) == []
        await is_untouched(case, mover, other)
        await case.delete(other)
        await mover.ends()


@pytest.mark.parametrize("settled", [True, False], ids=["long before", "right before"])
async def test_it_returns_before_the_delete(db: Database, directory: Path, settled: bool) -> None:
    async with stage(db, directory, hosts=2) as case:
        mover = await evacuated(case)
        await case.up(H1)
        if settled:
            await case.settle()
            # The stale guest went, and the server did not notice.
            assert case.things(H1) == []
            await is_untouched(case, mover, mover.server)
            assert (await case.server(mover.server))["OS-EXT-SRV-ATTR:host"] == H2
        await case.delete(mover.server)
        await mover.ends()


@pytest.mark.parametrize("step", ["guest.remove", "tap.remove", "connection.remove", "disk.remove"])
async def test_it_is_deleted_while_the_old_host_cleans_up(db: Database, directory: Path, step: str) -> None:
    """Nobody waits for what the old host owes."""
    async with stage(db, directory, hosts=2) as case:
        mover = await evacuated(case)
        held = await case.fault(step, "hold", None, host=H1)
        await case.up(H1)
        await case.struck(held)
        await case.delete(mover.server)
        await mover.is_free()
        await case.release(held)
        await mover.ends()


async def test_it_returns_while_the_server_is_evacuated(db: Database, directory: Path) -> None:
    """The server belongs to the new host from the moment that one was chosen: two guests never run."""
    async with stage(db, directory, hosts=2) as case:
        mover = await Mover.prepare(case)
        await mover.boot()
        await case.down(H1)
        held = await case.fault("guest.ensure", "hold", None, host=H2)
        await mover.evacuate()
        await case.struck(held)
        await case.up(H1)
        await case.until(lambda: nothing_on(case, H1), "the old host to remove what it owes")
        await case.call("DELETE", f"{COMPUTE}/servers/{mover.server}", 204)
        await case.release(held)
        await mover.ends()


async def nothing_on(case: Case, host: str) -> bool:
    return case.things(host) == []


@pytest.mark.parametrize("deleted", ["before", "after"])
async def test_it_never_returns(db: Database, directory: Path, deleted: str) -> None:
    """Its service is deleted, before the server is or after: its provider goes; what it owes stays known."""
    async with stage(db, directory, hosts=2) as case:
        mover = await evacuated(case)
        service = await case.service(H1)
        if deleted == "after":
            await case.delete(mover.server)
        await case.call("DELETE", f"{COMPUTE}/os-services/{service}", 204, as_="admin")
        if deleted == "before":
            await case.delete(mover.server)
        await mover.is_free()
        found = await case.get(f"{PLACEMENT}/resource_providers?name={H1}", as_="admin")
        assert found["resource_providers"] == []
        assert {one["kind"] for one in await case.owed()} >= {"guest", "disk", "tap", "connection"}
        await case.call("POST", f"/cumulet/v1/agents/{service}/destroyed", 200, as_="admin")
        assert await case.owed() == []
        # Nothing is left but the files that nobody can reach, and what went with the host.
        gone = [row for row in case.before["resource_providers"] if service in row]
        await case.clean(H1, service, *(json.loads(row)["id"] for row in gone), *case.things(H1))
