"""C27: the volume service is unreachable while a server is deleted. Nova LP 1563547, 1450658."""

from __future__ import annotations

from pathlib import Path

import pytest

from cumulet.db.engine import Database
from tests.case import COMPUTE, H1, Case, stage

pytestmark = pytest.mark.anyio

#: The name of the volume back end's agent.
SIM = "sim"


class Away:
    """The volume service is away: it does not answer, or refuses every call."""

    def __init__(self, case: Case, how: str) -> None:
        self.case, self.how = case, how
        self.rules: list[str] = []

    async def begins(self) -> None:
        if self.how == "silent":
            await self.case.silent(SIM)
        else:
            for step in ("export.*", "volume.*"):
                self.rules.append(await self.case.fault(step, "fail", None, message="ECONNREFUSED", host=SIM))

    async def lasts(self, server: str) -> None:
        """It was so for longer than the patience."""
        if self.how == "refuses":
            for rule in self.rules[:1]:
                await self.case.struck(rule)
            await self.case.until(lambda: self._all_failed(server), "every export to fail")
            await self.case.patience_ends()

    async def _all_failed(self, server: str) -> bool:
        sql = "select 1 from claims where holder = :id and not wanted and error is null"
        return await self.case.db.read(lambda tx: tx.one(sql, id=server)) is None

    async def ends(self) -> None:
        if self.how == "silent":
            self.case.start(SIM)
        await self.case.release()


async def with_volumes(case: Case) -> tuple[str, str, str]:
    """Port P and volume V of the user's, which stay, and W, which goes with the server."""
    port, kept = (await case.make_port())["id"], await case.make_volume()
    await case.settle()
    case.remember()
    return port, kept, await case.make_volume()


async def is_released(case: Case, server: str, port: str, usage: object) -> None:
    """What has nothing to do with the volume service is free."""
    assert await case.servers() == []
    assert (await case.port(port))["device_id"] == ""
    assert await case.ports_of(server) == []
    assert await case.allocations(server) == {}
    assert await case.usage() == usage
    assert case.things(H1) == []


async def is_owed(case: Case, *volumes: str) -> None:
    """The operator reads of each volume what it waits for; its user cannot lose it."""
    owed = await case.owed()
    for id in volumes:
        (row,) = [one for one in owed if one["id"] == id]
        assert row["kind"] == "volume"
        assert SIM in row["reason"]
        assert (await case.volume(id))["status"] in ("detaching", "deleting")
    assert (await case.volume_usage())["volumes"] >= len(volumes)


async def is_paid(case: Case, kept: str, doomed: str) -> None:
    """Without any call all of it is done."""
    await case.volume_gone(doomed)
    await case.volume_is(kept, "available")
    await case.settle()
    assert case.exports() == []
    assert not (owed := await case.owed()), owed
    await case.clean()


@pytest.mark.parametrize("restarted", [False, True], ids=["", "restarted"])
@pytest.mark.parametrize("how", ["silent", "refuses"])
async def test_the_delete_of_a_server_is_not_blocked(
    db: Database, directory: Path, how: str, restarted: bool
) -> None:
    async with stage(db, directory, hosts=1) as case:
        usage = await case.usage()
        port, kept, doomed = await with_volumes(case)
        server = await case.boot(
            networks=[{"port": port}, {"uuid": case.network2["id"]}],
            block_device_mapping_v2=case.devices(kept, doomed=[doomed]),
        )
        away = Away(case, how)
        await away.begins()
        await case.call("DELETE", f"{COMPUTE}/servers/{server}", 204)
        await away.lasts(server)
        await case.gone(server)
        await is_released(case, server, port, usage)
        await is_owed(case, kept, doomed)
        if restarted:
            await case.restart()
            if how == "silent":
                # Everybody is back, and so is the volume service.
                await is_paid(case, kept, doomed)
                return
            await is_released(case, server, port, usage)
            await is_owed(case, kept, doomed)
        await away.ends()
        await is_paid(case, kept, doomed)


@pytest.mark.parametrize("how", ["silent", "refuses"])
async def test_a_server_in_error_without_a_host(db: Database, directory: Path, how: str) -> None:
    async with stage(db, directory, hosts=1, build_attempts=1) as case:
        usage = await case.usage()
        port, kept, doomed = await with_volumes(case)
        await case.fault("guest.ensure")
        server = await case.boot(
            "ERROR",
            networks=[{"port": port}, {"uuid": case.network2["id"]}],
            block_device_mapping_v2=case.devices(kept, doomed=[doomed]),
        )
        assert await case.host_of(server) is None
        away = Away(case, how)
        await away.begins()
        await case.call("DELETE", f"{COMPUTE}/servers/{server}", 204)
        if how == "refuses":
            # Its own volume is tried, and waited for as long as the patience lasts.
            await case.struck(away.rules[1])
            await case.until(lambda: failed(case, doomed), "the removal to fail")
            await case.patience_ends()
        await case.gone(server)
        await is_released(case, server, port, usage)
        # What the volume service never exported is free without it.
        assert (await case.volume(kept))["status"] == "available"
        await is_owed(case, doomed)
        await away.ends()
        await is_paid(case, kept, doomed)


async def failed(case: Case, holder: str) -> bool:
    sql = "select 1 from claims where holder = :id and failing_since is not null"
    return await case.db.read(lambda tx: tx.one(sql, id=holder)) is not None


async def test_a_build_that_fails_while_it_is_away(db: Database, directory: Path) -> None:
    """The exports of a failed build cannot be closed: the server says ERROR all the same, and goes."""
    async with stage(db, directory, hosts=1, build_attempts=1) as case:
        usage = await case.usage()
        port, kept, doomed = await with_volumes(case)
        rule = await case.held("guest.ensure")
        server = await case.create(
            networks=[{"port": port}], block_device_mapping_v2=case.devices(kept, doomed=[doomed])
        )
        await case.struck(rule)
        await case.silent(SIM)
        await case.instead(rule, "guest.ensure", message="no such machine type")
        shown = await case.server_is(server, "ERROR")
        assert shown["OS-EXT-SRV-ATTR:host"] is None
        assert "no such machine type" in shown["fault"]["message"]
        assert case.things(H1) == []
        assert await case.allocations(server) == {}
        await case.delete(server)
        await is_released(case, server, port, usage)
        await is_owed(case, kept, doomed)
        case.start(SIM)
        await is_paid(case, kept, doomed)


async def test_a_build_that_cannot_be_tried_elsewhere_because_it_is_away(
    db: Database, directory: Path
) -> None:
    """A volume that may still be used on the first host is not given to another one; that ends in time."""
    async with stage(db, directory, hosts=2) as case:
        usage = await case.usage()
        port, kept, doomed = await with_volumes(case)
        rule = await case.held("guest.ensure")
        server = await case.create(
            networks=[{"port": port}], block_device_mapping_v2=case.devices(kept, doomed=[doomed])
        )
        await case.struck(rule)
        await case.silent(SIM)
        await case.instead(rule, "guest.ensure", message="no such machine type")
        await case.waits(server, f"waits for {SIM} to remove an export, which is silent")
        assert (await case.server(server))["status"] == "BUILD"
        await case.build_time_ends(server)
        shown = await case.server_is(server, "ERROR")
        assert shown["OS-EXT-SRV-ATTR:host"] is None
        for words in ("took too long", "no such machine type", f"export on {SIM}"):
            assert words in shown["fault"]["message"]
        await case.delete(server)
        await is_released(case, server, port, usage)
        await is_owed(case, kept, doomed)
        case.start(SIM)
        await is_paid(case, kept, doomed)


@pytest.mark.parametrize("how", ["silent", "refuses"])
async def test_a_server_that_is_shelved_and_offloaded(db: Database, directory: Path, how: str) -> None:
    async with stage(db, directory, hosts=1) as case:
        usage = await case.usage()
        port, kept, doomed = await with_volumes(case)
        server = await case.boot(
            networks=[{"port": port}, {"uuid": case.network2["id"]}],
            block_device_mapping_v2=case.devices(kept, doomed=[doomed]),
        )
        await case.act(server, "shelve")
        await case.server_is(server, "SHELVED_OFFLOADED")
        away = Away(case, how)
        await away.begins()
        await case.call("DELETE", f"{COMPUTE}/servers/{server}", 204)
        if how == "refuses":
            await case.until(lambda: failed(case, doomed), "the removal to fail")
            await case.patience_ends()
        await case.gone(server)
        await is_released(case, server, port, usage)
        assert (await case.volume(kept))["status"] == "available"
        await is_owed(case, doomed)
        await away.ends()
        await is_paid(case, kept, doomed)


async def test_an_offload_that_hangs_because_it_is_away(db: Database, directory: Path) -> None:
    """The exports cannot be closed, so it is not offloaded yet; the delete does not wait for that."""
    async with stage(db, directory, hosts=1) as case:
        usage = await case.usage()
        port, kept, doomed = await with_volumes(case)
        server = await case.boot(
            networks=[{"port": port}], block_device_mapping_v2=case.devices(kept, doomed=[doomed])
        )
        await case.silent(SIM)
        await case.act(server, "shelve")
        await case.waits(server, f"waits for {SIM} to remove an export, which is silent")
        await case.delete(server)
        await is_released(case, server, port, usage)
        await is_owed(case, kept, doomed)
        case.start(SIM)
        await is_paid(case, kept, doomed)


@pytest.mark.parametrize("end", ["lifted", "lifted, and it crashes", "lifted, and all restarts"])
async def test_it_comes_back_between_the_attachment_and_the_volume(
    db: Database, directory: Path, end: str
) -> None:
    async with stage(db, directory, hosts=1) as case:
        usage = await case.usage()
        port, kept, doomed = await with_volumes(case)
        server = await case.boot(
            networks=[{"port": port}], block_device_mapping_v2=case.devices(kept, doomed=[doomed])
        )
        exports = await case.fault("export.remove", "fail", None, message="away")
        volumes = await case.fault("volume.remove", "fail", None, message="away")
        await case.call("DELETE", f"{COMPUTE}/servers/{server}", 204)
        await case.until(lambda: all_exports_failed(case, server), "the exports to fail")
        await case.patience_ends()
        await case.gone(server)
        await is_released(case, server, port, usage)
        await is_owed(case, kept, doomed)
        await case.release(exports)
        await case.volume_is(kept, "available")
        await case.volume_is(doomed, "deleting")
        assert case.exports() == []
        await is_owed(case, doomed)
        if end == "lifted, and it crashes":
            await case.instead(volumes, "volume.remove", "crash")
        elif end == "lifted, and all restarts":
            await case.restart()
            await case.release()
        else:
            await case.release(volumes)
        await is_paid(case, kept, doomed)


async def all_exports_failed(case: Case, server: str) -> bool:
    sql = "select kind, error from claims where holder = :id"
    claims = await case.db.read(lambda tx: tx.all(sql, id=server))
    return bool(claims) and all(claim["kind"] == "export" and claim["error"] for claim in claims)
