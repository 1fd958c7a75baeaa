"""Which way a delete takes, by the state of the server: a test for each row of Nova's decision table.

Nova chooses among stopping the build, destroying the record, a local delete and a delete on the host (see
nova/compute/api.py, ``_delete``). A client sees the same answers here; what goes and what stays is in
test_delete_cleans.py.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.case import COMPUTE, H1, H2, H3, IMAGE, Case, stage

from cumulet.db.engine import Database, Tx
from cumulet.reconcile import holders
from cumulet.wire.forms import instant

pytestmark = pytest.mark.anyio


async def prepare(case: Case) -> None:
    """A port and two volumes of the user's; the second goes with its server."""
    case.own_port = (await case.make_port())["id"]  # type: ignore[attr-defined]
    case.own_volume, case.doomed = await case.make_volume(), await case.make_volume()  # type: ignore[attr-defined]
    await case.settle()
    case.remember()


def everything(case: Case) -> dict[str, Any]:
    """A request for a server with everything that can be left behind."""
    volume = {"source_type": "volume", "destination_type": "volume"}
    return {
        "config_drive": True,
        "tags": ["t"],
        "networks": [{"port": case.own_port}, {"uuid": case.network2["id"]}],  # type: ignore[attr-defined]
        "block_device_mapping_v2": [
            {"boot_index": 0, "uuid": case.image, "source_type": "image", "destination_type": "local"},
            {**volume, "uuid": case.own_volume},  # type: ignore[attr-defined]
            {**volume, "uuid": case.doomed, "delete_on_termination": True},  # type: ignore[attr-defined]
        ],
    }


async def delete(case: Case, server: str) -> int:
    return (await case.cloud.delete(f"{COMPUTE}/servers/{server}")).status_code


async def shows(case: Case, server: str) -> tuple[Any, ...]:
    shown = await case.server(server)
    names = ("OS-EXT-SRV-ATTR:host", "OS-EXT-STS:vm_state", "OS-EXT-STS:task_state")
    return tuple(shown[name] for name in names)


async def deletes(case: Case, server: str) -> int:
    """How many deletes the history tells of."""
    return len([action for action in await case.actions(server) if action["action"] == "delete"])


async def ends(case: Case, server: str) -> None:
    """The server is gone; at once it holds nothing, and in the end nothing is left."""
    await case.gone(server)
    case.clean_at_once(case.doomed)  # type: ignore[attr-defined]
    assert await deletes(case, server) == 1
    await case.volume_gone(case.doomed)  # type: ignore[attr-defined]
    await case.clean(case.doomed)  # type: ignore[attr-defined]


# --- without a host ---


async def test_d1_not_yet_placed(db: Database, directory: Path) -> None:
    """No host, not in ERROR: the build is stopped, and the server is gone with the answer."""
    async with stage(db, directory) as case:
        await prepare(case)
        rule = await case.held("schedule")
        server = await case.create(**everything(case))
        await case.waits(server, "a fault rule holds the step schedule")
        assert await shows(case, server) == (None, "building", "scheduling")
        with case.watching("select id from servers where id = :id", id=server) as left:
            assert await delete(case, server) == 204
        assert left == []
        await case.call("GET", f"{COMPUTE}/servers/{server}", 404, as_="admin")
        await case.release(rule)
        await ends(case, server)


async def test_d2_between_two_attempts(db: Database, directory: Path) -> None:
    """It was on a host, and is on none at the moment: the same, and what the attempt left is gone already."""
    async with stage(db, directory) as case:
        await prepare(case)
        server = await between_attempts(case)
        assert (await shows(case, server))[:2] == (None, "building")
        assert await delete(case, server) == 204
        await case.gone(server)
        await case.release()
        await ends(case, server)
        assert [case.things(host) for host in (H1, H2, H3)] == [[], [], []]


async def between_attempts(case: Case) -> str:
    """A server whose first attempt failed, and whose next one is held before a host is chosen."""
    first = await case.held("guest.ensure")
    server = await case.create(**everything(case))
    await case.struck(first)
    await case.held("schedule")
    await case.instead(first, "guest.ensure", count=None)
    await case.waits(server, "a fault rule holds the step schedule")
    return server


async def test_d3_somebody_was_faster(db: Database, directory: Path) -> None:
    """Two deletes of a server that is gone with the first: neither fails."""
    async with stage(db, directory) as case:
        await prepare(case)
        rule = await case.held("schedule")
        server = await case.create(**everything(case))
        await case.waits(server, "a fault rule holds the step schedule")
        answers = await asyncio.gather(delete(case, server), delete(case, server))
        assert sorted(answers) == [204, 404]
        assert await delete(case, server) == 404
        await case.release(rule)
        await ends(case, server)


async def test_d4_a_host_took_it_meanwhile(db: Database, directory: Path) -> None:
    """The choice of a host and the delete take turns: whichever is first, the delete finds all that there is."""
    async with stage(db, directory, hosts=1) as case:
        await prepare(case)
        more = everything(case)
        # Each turn needs the volume that would go with it.
        more["block_device_mapping_v2"].pop()
        for turn in range(6):
            rule = await case.held("schedule")
            server = await case.create(**more)
            await case.waits(server, "a fault rule holds the step schedule")
            release = asyncio.create_task(case.release(rule))
            for _ in range(turn):
                await asyncio.sleep(0)
            assert await delete(case, server) == 204
            await release
            await case.gone(server)
            case.clean_at_once()
        await case.clean()


# --- without a host, in ERROR or offloaded ---


@pytest.mark.parametrize("why", ["the build failed", "the retry failed", "never placed"])
async def test_d5_error_without_a_host(db: Database, directory: Path, why: str) -> None:
    """ERROR without a host: it may hold ports and volumes, and they are given back."""
    async with stage(db, directory, hosts=2, build_attempts=1 if why == "the build failed" else 2) as case:
        await prepare(case)
        if why == "never placed":
            for host in (H1, H2):
                await case.enable(host, False)
        else:
            await case.fault("guest.ensure", count=None)
        server = await case.create(**everything(case))
        await case.server_is(server, "ERROR")
        await case.release()
        assert await shows(case, server) == (None, "error", None)
        assert (await case.volume(case.own_volume))["status"] == "reserved"  # type: ignore[attr-defined]
        assert await delete(case, server) == 204
        await case.gone(server)
        assert (await case.volume(case.own_volume))["status"] == "available"  # type: ignore[attr-defined]
        if why == "never placed":
            for host in (H1, H2):
                await case.enable(host, True)
        await ends(case, server)


async def test_d6_shelved_and_offloaded(db: Database, directory: Path) -> None:
    """Offloaded: what it kept is given back, and the image of its shelving goes first."""
    async with stage(db, directory, offload_after=0.0) as case:
        await prepare(case)
        server = await case.boot(**everything(case))
        await case.act(server, "shelve")
        await case.server_is(server, "SHELVED_OFFLOADED")
        image = await shelve_image(case, server)
        assert await shows(case, server) == (None, "shelved_offloaded", None)
        assert await delete(case, server) == 204
        await case.gone(server)
        await case.call("GET", f"{IMAGE}/images/{image}", 404, as_="admin")
        await ends(case, server)


async def shelve_image(case: Case, server: str) -> str:
    """The image that a shelve made, as its owner sees it."""
    found = (await case.get(f"{IMAGE}/images?instance_uuid={server}"))["images"]
    assert [image["status"] for image in found] == ["active"]
    return str(found[0]["id"])


# --- with a host that is away ---


async def test_d7_the_host_is_no_more(db: Database, directory: Path) -> None:
    """The host was declared destroyed: nothing is waited for, and nothing is owed."""
    async with stage(db, directory, hosts=1) as case:
        await prepare(case)
        server = await case.boot(**everything(case))
        assert await case.host_of(server) == H1
        lost = [thing.split("/")[-1] for thing in case.things(H1)]
        await case.down(H1)
        destroyed = f"/cumulet/v1/agents/{H1}/destroyed"
        agent = (await case.call("POST", destroyed, as_="admin")).json()["agent"]
        assert await delete(case, server) == 204
        await case.gone(server)
        case.clean_at_once(case.doomed, agent, *lost)  # type: ignore[attr-defined]
        assert (await case.get("/cumulet/v1/debts?agent=h1", as_="admin"))["debts"] == []
        await case.clean(case.doomed, agent, *lost)  # type: ignore[attr-defined]


@pytest.mark.parametrize("how", ["forced down", "silent", "shelved"])
async def test_d8_the_host_is_down(db: Database, directory: Path, how: str) -> None:
    """The host does not answer: what can be given back without it is, and the host owes the rest."""
    patience = {"patience": 0.4} if how == "silent" else {}
    async with stage(db, directory, offload_after=-1.0, **patience) as case:
        await prepare(case)
        server = await case.boot(**everything(case))
        host = str(await case.host_of(server))
        image = ""
        if how == "shelved":
            await case.act(server, "shelve")
            await case.server_is(server, "SHELVED")
            image = await shelve_image(case, server)
        if how == "silent":
            await case.cloud.agents[host].stop()
            await case.until(lambda: is_silent(case, host), "the host to be judged silent")
        else:
            await case.down(host)
        there = case.things(host)
        assert await delete(case, server) == 204
        await case.gone(server)
        if image:
            await case.call("GET", f"{IMAGE}/images/{image}", 404, as_="admin")
        # What the host has is untouched, and written down as owed.
        assert case.things(host) == there != []
        debts = (await case.get(f"/cumulet/v1/debts?agent={host}", as_="admin"))["debts"]
        assert {debt["id"] for debt in debts} == {thing.split("/")[-1] for thing in there}
        await given_back(case, server)
        if how == "silent":
            case.cloud.agents[host].start()
        else:
            await case.up(host)
        await case.settle()
        assert case.things(host) == []
        await ends(case, server)


async def is_silent(case: Case, host: str) -> bool:
    agents = (await case.get("/cumulet/v1/agents", as_="admin"))["agents"]
    return bool(next(agent for agent in agents if agent["name"] == host)["state"] == "silent")


async def given_back(case: Case, server: str) -> None:
    """Ports, volumes and allocation are free."""
    port = await case.port(case.own_port)  # type: ignore[attr-defined]
    assert (port["device_id"], port["binding:host_id"]) == ("", "")
    assert await case.ports_of(server) == []
    assert (await case.volume(case.own_volume))["status"] == "available"  # type: ignore[attr-defined]
    assert await case.allocations(server) == {}
    assert await case.usage() == {"Instances": 0, "Cores": 0, "RAM": 0}


# --- with a host that is there ---


@pytest.mark.parametrize("how", ["finished", "confirming", "the source is down", "the target is down"])
async def test_d9_a_resize_waits_to_be_confirmed(db: Database, directory: Path, how: str) -> None:
    """It is confirmed by the delete: what the source keeps for a revert goes as well."""
    async with stage(db, directory, hosts=2) as case:
        await prepare(case)
        server = await case.boot(**everything(case))
        source = str(await case.host_of(server))
        await case.act(server, "resize", {"flavorRef": case.flavor2})
        await case.server_is(server, "VERIFY_RESIZE")
        target = str(await case.host_of(server))
        assert {source, target} == {H1, H2}
        (move,) = await moves(case, server)
        assert await case.allocations(move["uuid"]) != {}
        down = {"the source is down": source, "the target is down": target}.get(how)
        if down is not None:
            await case.down(down)
        if how == "confirming":
            await case.held("disk.remove")
            await case.call("POST", f"{COMPUTE}/servers/{server}/action", 204, json={"confirmResize": None})
            assert [one["status"] for one in await moves(case, server)] == ["confirming"]
        assert await delete(case, server) == 204
        await case.release()
        await case.gone(server)
        assert [one["status"] for one in await moves(case, server)] == ["confirmed"]
        assert await case.allocations(server) == await case.allocations(move["uuid"]) == {}
        if down is not None:
            # The host that is down owes what it has.
            debts = (await case.get(f"/cumulet/v1/debts?agent={down}", as_="admin"))["debts"]
            assert {debt["id"] for debt in debts} == {thing.split("/")[-1] for thing in case.things(down)}
            assert debts
            await given_back(case, server)
            await case.up(down)
            await case.settle()
        assert [case.things(host) for host in (H1, H2)] == [[], []]
        await ends(case, server)


async def moves(case: Case, server: str) -> list[dict[str, Any]]:
    found = await case.get(f"{COMPUTE}/os-migrations?instance_uuid={server}", as_="admin")
    listed: list[dict[str, Any]] = found["migrations"]
    return listed


async def test_d10_it_is_being_deleted_already(db: Database, directory: Path) -> None:
    """Nothing more is done, and that is no error."""
    async with stage(db, directory, hosts=1) as case:
        await prepare(case)
        server = await case.boot(**everything(case))
        rule = await case.held("guest.remove")
        assert await delete(case, server) == 204
        await case.struck(rule)
        before = await shows(case, server)
        assert before == (H1, "active", "deleting")
        for _ in range(3):
            assert await delete(case, server) == 204
        assert await shows(case, server) == before
        await case.release(rule)
        await ends(case, server)


@pytest.mark.parametrize(
    "state", ["ACTIVE", "SHUTOFF", "BUILD", "ERROR", "SHELVED", "PAUSED", "SUSPENDED", "RESCUE"]
)
async def test_d11_the_host_removes_it(db: Database, directory: Path, state: str) -> None:
    """In whatever state: the host is asked, and until then the server shows that it is being deleted."""
    async with stage(db, directory, hosts=1, offload_after=-1.0) as case:
        await prepare(case)
        server = await into(case, state)
        if state == "BUILD":
            # There is no guest yet.
            rule = await case.held("disk.remove")
        else:
            rule = await case.held("guest.remove")
        assert await delete(case, server) == 204
        await case.struck(rule)
        host, _, task = await shows(case, server)
        assert (host, task) == (H1, "deleting")
        assert case.things(H1) != []
        await case.release()
        await case.gone(server)
        assert case.things(H1) == []
        await ends(case, server)


async def into(case: Case, state: str) -> str:
    """A server on its host, in a state."""
    if state == "BUILD":
        rule = await case.held("guest.ensure")
        server = await case.create(**everything(case))
        await case.struck(rule)
        return server
    server = await case.boot(**everything(case))
    if state == "SHUTOFF":
        await case.act(server, "os-stop")
    elif state == "ERROR":
        await case.act(server, "os-resetState", {"state": "error"}, as_="admin")
    elif state == "SHELVED":
        await case.act(server, "shelve")
    elif state == "PAUSED":
        await case.act(server, "pause")
    elif state == "SUSPENDED":
        await case.act(server, "suspend")
    elif state == "RESCUE":
        await case.act(server, "rescue", None, 200)
    elif state == "VERIFY_RESIZE":
        await case.act(server, "resize", {"flavorRef": case.flavor2})
    await case.server_is(server, state)
    return server


@pytest.mark.parametrize(
    "state", ["ACTIVE", "SHUTOFF", "PAUSED", "SUSPENDED", "RESCUE", "ERROR", "VERIFY_RESIZE"]
)
async def test_d12_soft_delete_and_restore(db: Database, directory: Path, state: str) -> None:
    """It is powered off, keeps all that it has, and does not count; a restore runs it again."""
    async with stage(db, directory, hosts=2, reclaim_after=3600.0) as case:
        await prepare(case)
        server = await into(case, state)
        held = await shows(case, server)
        port = await case.port(case.own_port)  # type: ignore[attr-defined]
        assert await delete(case, server) == 204
        shown = await softly(case, server)
        assert (shown["OS-EXT-STS:vm_state"], shown["OS-EXT-STS:power_state"]) == ("soft-delete", 4)
        assert shown["OS-EXT-SRV-ATTR:host"] == held[0]
        for volume in (case.own_volume, case.doomed):  # type: ignore[attr-defined]
            assert (await case.volume(volume))["status"] == "in-use"
        again = await case.port(case.own_port)  # type: ignore[attr-defined]
        assert (again["device_id"], again["fixed_ips"]) == (server, port["fixed_ips"])
        assert await case.allocations(server) != {}
        assert await case.usage() == {"Instances": 0, "Cores": 0, "RAM": 0}
        # It is shown to who knows it; lists have it only for an administrator who asks.
        assert await case.servers() == []
        assert await listed(case, "all_tenants=1&status=SOFT_DELETED") == []
        for query in ("all_tenants=1&soft_deleted=1", "all_tenants=1&deleted=1&status=SOFT_DELETED"):
            assert await listed(case, query) == [server]
        assert await listed(case, "all_tenants=1&deleted=1&soft_deleted=0") == []
        spent = await case.get(
            f"{COMPUTE}/os-simple-tenant-usage/{case.cloud.project('demo')}?start={_day(case, -1)}&end={_day(case, 1)}"
        )
        (row,) = spent["tenant_usage"]["server_usages"]
        assert (row["instance_id"], row["state"]) == (server, "terminated")
        # A second delete changes nothing, and the history tells of one.
        assert await delete(case, server) == 204
        assert await deletes(case, server) == 1
        await case.act(server, "restore")
        await case.server_is(server, "ACTIVE")
        assert await case.usage() != {"Instances": 0, "Cores": 0, "RAM": 0}
        assert await case.host_of(server) == held[0]
        assert [action["action"] for action in await case.actions(server)][:2] == ["restore", "delete"]
        await case.call("POST", f"{COMPUTE}/servers/{server}/action", 202, json={"forceDelete": None})
        await case.gone(server)
        assert await deletes(case, server) == 2
        await case.volume_gone(case.doomed)  # type: ignore[attr-defined]
        await case.clean(case.doomed)  # type: ignore[attr-defined]


def _day(case: Case, more: int) -> str:
    """A day from today, as a query's time."""
    return instant(case.cloud.chance.now() + more * 86400)[:19]


async def softly(case: Case, server: str) -> dict[str, Any]:
    """Wait until the server is deleted softly, whatever it showed before."""

    async def check() -> Any:
        shown = await case.server(server)
        return shown if shown["status"] == "SOFT_DELETED" else None

    found: dict[str, Any] = await case.until(check, f"server {server} to be deleted softly")
    return found


async def test_d12_what_is_attached_meanwhile_is_its_own(db: Database, directory: Path) -> None:
    """A volume can be attached to a server that was deleted softly, and goes its way with it."""
    async with stage(db, directory, hosts=1, reclaim_after=3600.0) as case:
        await prepare(case)
        server = await case.boot()
        assert await delete(case, server) == 204
        await softly(case, server)
        shown = await case.get(f"{COMPUTE}/servers/{server}/os-instance-actions", as_="admin")
        request = shown["instanceActions"][0]["request_id"]
        action = await case.get(f"{COMPUTE}/servers/{server}/os-instance-actions/{request}", as_="admin")
        (event,) = action["instanceAction"]["events"]
        assert (event["event"], event["result"]) == ("compute_soft_delete_instance", "Success")
        path = f"{COMPUTE}/servers/{server}/os-volume_attachments"
        for volume, ends in ((case.own_volume, False), (case.doomed, True)):  # type: ignore[attr-defined]
            body = {"volumeId": volume, "delete_on_termination": ends}
            await case.call("POST", path, json={"volumeAttachment": body})
            await case.volume_is(volume, "in-use")
        await case.act(server, "restore")
        await case.server_is(server, "ACTIVE")
        await case.call("DELETE", f"{path}/{case.own_volume}", 202)  # type: ignore[attr-defined]
        await case.volume_is(case.own_volume, "available")  # type: ignore[attr-defined]
        assert await delete(case, server) == 204
        await softly(case, server)
        await time_is_over(case, server)
        await case.gone(server)
        await case.volume_gone(case.doomed)  # type: ignore[attr-defined]
        await case.clean(case.doomed)  # type: ignore[attr-defined]


@pytest.mark.parametrize("how", ["reclaimed", "forced", "reclaimed after a restart", "the host is down"])
async def test_d12_soft_delete_and_reclaim(db: Database, directory: Path, how: str) -> None:
    """When its time is over it goes, with all that it has; or at once if somebody says so."""
    async with stage(db, directory, hosts=1, reclaim_after=3600.0) as case:
        await prepare(case)
        server = await case.boot(**everything(case))
        assert await delete(case, server) == 204
        await case.server_is(server, "SOFT_DELETED")
        if how == "reclaimed after a restart":
            await case.restart()
        if how == "the host is down":
            await case.down(H1)
        if how == "forced":
            await case.act(server, "forceDelete")
        else:
            await time_is_over(case, server)
        await case.gone(server)
        if how == "the host is down":
            await given_back(case, server)
            await case.up(H1)
            await case.settle()
        assert case.things(H1) == []
        await case.volume_gone(case.doomed)  # type: ignore[attr-defined]
        assert (await case.volume(case.own_volume))["status"] == "available"  # type: ignore[attr-defined]
        await case.clean(case.doomed)  # type: ignore[attr-defined]


async def time_is_over(case: Case, server: str) -> None:
    """The server was deleted softly as long ago as may be."""

    def pass_on(tx: Tx) -> None:
        tx.update("servers", server, reclaim_at=tx.now)
        holders.later(tx, server)

    await case.db.write(pass_on)


@pytest.mark.parametrize("why", ["never ran", "no host", "the host is down", "offloaded"])
async def test_d12_what_cannot_be_restored_goes_at_once(db: Database, directory: Path, why: str) -> None:
    async with stage(
        db, directory, hosts=1, reclaim_after=3600.0, build_attempts=1, offload_after=0.0
    ) as case:
        await prepare(case)
        if why == "no host":
            await case.fault("guest.ensure", count=None)
            server = await case.create(**everything(case))
            await case.server_is(server, "ERROR")
            await case.release()
        elif why == "never ran":
            server = await into(case, "BUILD")
        else:
            server = await case.boot(**everything(case))
        if why == "the host is down":
            await case.down(H1)
        if why == "offloaded":
            await case.act(server, "shelve")
            await case.server_is(server, "SHELVED_OFFLOADED")
        assert await delete(case, server) == 204
        await case.release()
        await case.gone(server)
        if why == "the host is down":
            await case.up(H1)
            await case.settle()
        await ends(case, server)


async def listed(case: Case, query: str) -> list[str]:
    """The servers that an administrator finds."""
    found = await case.get(f"{COMPUTE}/servers?{query}", as_="admin")
    return [server["id"] for server in found["servers"]]


async def test_d12_restore_needs_room_in_the_quota(db: Database, directory: Path) -> None:
    async with stage(db, directory, hosts=1, reclaim_after=3600.0) as case:
        await case.limit("instances", 1)
        first = await case.boot()
        assert await delete(case, first) == 204
        await case.server_is(first, "SOFT_DELETED")
        second = await case.boot()
        restore = f"{COMPUTE}/servers/{first}/action"
        answer = await case.call("POST", restore, 403, json={"restore": None})
        assert "instances" in answer.text
        await case.call("POST", f"{COMPUTE}/servers/{second}/action", 409, json={"restore": None})
        for action in ("os-start", "pause", "shelve", "rescue", "createImage"):
            body = {"name": "x"} if action == "createImage" else None
            await case.act(first, action, body, 409)
        await case.act(second, "forceDelete")
        await case.gone(second)
        await case.act(first, "restore")
        await case.server_is(first, "ACTIVE")
        await case.act(first, "forceDelete")
        await case.gone(first)
        await case.limit("instances", 10)
        await case.clean(case.cloud.project("demo"))
