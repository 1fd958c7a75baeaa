"""C32: a server that was deleted softly is reclaimed when its user is gone. Nova LP 1733736, 1734025."""

from __future__ import annotations

from pathlib import Path

import pytest

from cumulet.db.engine import Database, Tx
from cumulet.reconcile import holders
from tests.case import COMPUTE, H1, Case, stage

pytestmark = pytest.mark.anyio

IDENTITY = "/identity/v3"


async def prepare(case: Case) -> tuple[str, str, str, str]:
    """Port P, volume V, and W, which goes with the server; the server has them all, and is deleted softly."""
    port, kept = (await case.make_port())["id"], await case.make_volume()
    await case.settle()
    case.remember()
    doomed = await case.make_volume()
    server = await case.boot(
        networks=[{"port": port}, {"uuid": case.network2["id"]}],
        block_device_mapping_v2=case.devices(kept, doomed=[doomed]),
    )
    await case.call("DELETE", f"{COMPUTE}/servers/{server}", 204)
    await case.server_is(server, "SOFT_DELETED")
    return server, port, kept, doomed


async def holds_everything(case: Case, server: str, port: str, kept: str, doomed: str) -> None:
    assert (await case.port(port))["device_id"] == server
    assert len(await case.ports_of(server)) == 2
    assert [(await case.volume(id, as_="admin"))["status"] for id in (kept, doomed)] == ["in-use", "in-use"]
    assert await case.allocations(server) != {}
    assert any(thing.startswith("disk/") for thing in case.things(H1))


async def time_is_over(case: Case, server: str) -> None:
    """The server was deleted as long ago as may be."""

    def pass_on(tx: Tx) -> None:
        tx.update("servers", server, reclaim_at=tx.now)
        holders.later(tx, server)

    await case.db.write(pass_on)


async def ends(case: Case, server: str, port: str, kept: str, doomed: str) -> None:
    await case.gone(server)
    assert (await case.volume(kept, as_="admin"))["status"] == "available"
    found = await case.cloud.get(f"/volume/v3/volumes/{doomed}", as_="admin", version="volume 3.70")
    assert found.status_code == 404
    free = await case.port(port)
    assert (free["device_id"], free["binding:host_id"]) == ("", "")
    assert await case.ports_of(server) == []
    assert case.things(H1) == []
    assert case.exports() == []


@pytest.mark.parametrize("gone", ["the token", "the role", "the user"])
async def test_nobody_is_there_any_more(db: Database, directory: Path, gone: str) -> None:
    async with stage(db, directory, hosts=1, reclaim_after=3600.0) as case:
        server, port, kept, doomed = await prepare(case)
        await holds_everything(case, server, port, kept, doomed)
        cloud = case.cloud
        user, project = cloud.user("demo"), cloud.project("demo")
        if gone == "the token":
            token = await cloud.token("demo")
            await case.call(
                "DELETE", f"{IDENTITY}/auth/tokens", 204, as_="admin", headers={"X-Subject-Token": token}
            )
        elif gone == "the role":
            roles = (await case.get(f"{IDENTITY}/roles?name=member", as_="admin"))["roles"]
            path = f"{IDENTITY}/projects/{project}/users/{user}/roles/{roles[0]['id']}"
            await case.call("DELETE", path, 204, as_="admin")
        else:
            await case.call("DELETE", f"{IDENTITY}/users/{user}", 204, as_="admin")
        await time_is_over(case, server)
        await ends(case, server, port, kept, doomed)
        if gone == "the user":
            # Its rows are gone with it, which is as it was asked.
            await case.settle()
            assert await case.left_of(server) == []
        else:
            await case.settle()
            assert await case.left_of(server, doomed) == []


async def test_restored_and_deleted_for_good(db: Database, directory: Path) -> None:
    """Variant: it is restored first; then it is deleted softly again, and forced."""
    async with stage(db, directory, hosts=1, reclaim_after=3600.0) as case:
        server, port, kept, doomed = await prepare(case)
        await case.act(server, "restore")
        await case.server_is(server, "ACTIVE")
        await holds_everything(case, server, port, kept, doomed)
        await case.call("DELETE", f"{COMPUTE}/servers/{server}", 204)
        await case.server_is(server, "SOFT_DELETED")
        await holds_everything(case, server, port, kept, doomed)
        await case.act(server, "forceDelete")
        await ends(case, server, port, kept, doomed)
        await case.clean(doomed)


async def test_the_cloud_was_away_when_its_time_was_over(db: Database, directory: Path) -> None:
    """Variant: every service was restarted in between."""
    async with stage(db, directory, hosts=1, reclaim_after=3600.0) as case:
        server, port, kept, doomed = await prepare(case)
        await case.end()

        def pass_on(tx: Tx) -> None:
            tx.update("servers", server, reclaim_at=tx.now)
            tx.update("holders", server, due=tx.now)

        await case.db.write(pass_on)
        await case.begin()
        await ends(case, server, port, kept, doomed)
        await case.clean(doomed)
