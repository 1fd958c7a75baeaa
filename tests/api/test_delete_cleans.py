"""What each way of a delete cleans: a test for each resource on each of them.

The ways are Nova's (see test_delete_decisions.py). One server with everything goes each way once; the tests look
at what there was during its life, in the first moment of its 404 (``now``), and when all had settled (``after``).
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.case import COMPUTE, H1, H2, IMAGE, NETWORK, VOLUME, Case, stage

from cumulet.db.engine import Database, Tx

Facts = dict[str, Any]


class Actors:
    """What a server of one run has."""

    port: str
    volume: str
    doomed: str
    group: str
    server = ""
    #: Ports and volumes that were made for it.
    auto: str
    made: str
    kept: str

    def __init__(self, case: Case) -> None:
        self.case = case

    async def enter(self) -> Actors:
        case = self.case
        body = {"server_group": {"name": "g", "policy": "anti-affinity"}}
        made = await case.call("POST", f"{COMPUTE}/os-server-groups", json=body)
        self.group = made.json()["server_group"]["id"]
        self.port = (await case.make_port())["id"]
        self.volume, self.doomed = await case.make_volume(), await case.make_volume()
        await case.settle()
        case.remember()
        return self

    async def create(self) -> str:
        volume = {"source_type": "volume", "destination_type": "volume"}
        blank = {"source_type": "blank", "destination_type": "volume", "volume_size": 1}
        before = await self.case.volumes()
        self.server = await self.case.create(
            config_drive=True,
            tags=["t"],
            hints={"group": self.group},
            networks=[{"port": self.port}, {"uuid": self.case.network2["id"]}],
            block_device_mapping_v2=[
                {"boot_index": 0, "uuid": self.case.image, "source_type": "image", "destination_type": "local"},
                {**volume, "uuid": self.volume},
                {**volume, "uuid": self.doomed, "delete_on_termination": True},
                {**blank, "delete_on_termination": True},
                blank,
            ],
        )  # fmt: skip
        (self.auto,) = [one["id"] for one in await self.case.ports_of(self.server) if one["id"] != self.port]
        own = [id for id in await self.case.volumes() if id not in before]
        path = f"{COMPUTE}/servers/{self.server}/os-volume_attachments"
        attached = {one["volumeId"]: one for one in (await self.case.get(path))["volumeAttachments"]}
        self.made = next(id for id in own if attached[id]["delete_on_termination"])
        self.kept = next(id for id in own if not attached[id]["delete_on_termination"])
        return self.server

    async def facts(self) -> Facts:
        """All that there is of it."""
        case, server = self.case, self.server
        shown = await case.cloud.get(f"{COMPUTE}/servers/{server}")
        images = (await case.get(f"{IMAGE}/images?instance_uuid={server}"))["images"]
        group = await case.get(f"{COMPUTE}/os-server-groups/{self.group}")
        deleted = await case.get(f"{COMPUTE}/servers?deleted=true&all_tenants=true", as_="admin")
        return {
            "code": shown.status_code,
            "task": shown.json()["server"]["OS-EXT-STS:task_state"] if shown.status_code == 200 else None,
            "listed": server in [*await case.servers(), *await case.servers(as_="admin")],
            "on record": server in [one["id"] for one in deleted["servers"]],
            "actions": [action["action"] for action in await case.actions(server)],
            "things": case.things(H1) + case.things(H2),
            "debts": await self.debts(),
            "exports": case.exports(),
            "port": await self.found(f"{NETWORK}/ports/{self.port}", "port"),
            "auto": await self.found(f"{NETWORK}/ports/{self.auto}", "port"),
            "volumes": {
                name: await self.status(id)
                for name, id in vars(self).items()
                if name in ("volume", "doomed", "made", "kept")
            },
            "images": [image["status"] for image in images],
            "members": group["server_group"]["members"],
            "allocations": await case.allocations(server),
            "usage": await case.usages(),
            "rows": await case.db.read(rows, server),
        }

    async def found(self, path: str, noun: str) -> Any:
        """What is there, or None."""
        response = await self.case.cloud.get(path, as_="admin", version="volume 3.70")
        return response.json()[noun] if response.status_code == 200 else None

    async def status(self, volume: str) -> Any:
        found = await self.found(f"{VOLUME}/volumes/{volume}", "volume")
        return found and found["status"]

    async def debts(self) -> list[str]:
        found = (await self.case.get(f"/cumulet/v1/debts?agent={H1}", as_="admin"))["debts"]
        return sorted(f"{debt['kind']}/{debt['id']}" for debt in found)


def rows(tx: Tx, server: str) -> dict[str, int]:
    """How many rows of the server each table has."""
    names = {
        "interfaces": "server_id", "attachments": "server_id", "block_devices": "server_id",
        "server_tags": "server_id", "consumers": "id", "claims": "opened_for", "holders": "id",
    }  # fmt: skip
    return {
        table: int(tx.value(f"select count(*) from {table} where {column} = :id", id=server))
        for table, column in names.items()
    }


class Outcome:
    """How one way went: the facts before the delete, in the first moment of the 404, and in the end."""

    def __init__(self, way: str, before: Facts, life: Facts, held: Facts, now: Facts, after: Facts) -> None:
        self.way, self.before, self.life, self.now, self.after = way, before, life, now, after
        #: While the first step on the host is held, where there is one.
        self.held = held


# --- the ways ---


async def stop_the_build(actors: Actors) -> None:
    """Before a host was chosen."""
    await actors.case.held("schedule")
    await actors.create()
    await actors.case.waits(actors.server, "a fault rule holds the step schedule")


async def destroy(actors: Actors) -> None:
    """Between two hosts."""
    case = actors.case
    first = await case.held("guest.ensure")
    await actors.create()
    await case.struck(first)
    await case.held("schedule")
    await case.instead(first, "guest.ensure", count=None)
    await case.waits(actors.server, "a fault rule holds the step schedule")


async def on_the_host(actors: Actors) -> None:
    """The host is up."""
    await actors.create()
    await actors.case.server_is(actors.server, "ACTIVE")
    await actors.case.act(actors.server, "shelve")
    await actors.case.server_is(actors.server, "SHELVED")
    assert await actors.case.host_of(actors.server) == H1


async def local(actors: Actors) -> None:
    """The host is down."""
    await on_the_host(actors)
    await actors.case.down(H1)


WAYS: dict[str, Callable[[Actors], Awaitable[None]]] = {
    "stop the build": stop_the_build,
    "destroy": destroy,
    "local": local,
    "on the host": on_the_host,
}
NO_HOST = ("stop the build", "destroy")


@pytest.fixture(scope="module")
async def case(anyio_backend: str, shared_db: Database) -> AsyncIterator[Case]:
    directory = Path(tempfile.mkdtemp(prefix="c-"))
    async with stage(shared_db, directory, hosts=2, offload_after=-1.0) as made:
        yield made
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="module", params=WAYS)
async def outcome(case: Case, request: pytest.FixtureRequest) -> Outcome:
    """One server goes one way; nothing but what its user had before and after it may be left."""
    way = request.param
    before = await case.usages()
    actors = await Actors(case).enter()
    await WAYS[way](actors)
    life, held = await actors.facts(), {}
    rule = await case.held("guest.remove")
    await case.call("DELETE", f"{COMPUTE}/servers/{actors.server}", 204)
    if way == "on the host":
        await case.struck(rule)
        held = await actors.facts()
    await case.release(rule)
    await case.gone(actors.server)
    now = await actors.facts()
    if way == "local":
        await case.up(H1)
    await case.release()
    await case.settle()
    after = await actors.facts()
    await case.call("DELETE", f"{VOLUME}/volumes/{actors.kept}", 202)
    await case.clean(actors.doomed)
    for path in (f"{NETWORK}/ports/{actors.port}", f"{COMPUTE}/os-server-groups/{actors.group}"):
        await case.call("DELETE", path, 204)
    await case.call("DELETE", f"{VOLUME}/volumes/{actors.volume}", 202)
    await case.volume_gone(actors.volume)
    return Outcome(way, before, life, held, now, after)


# --- what is cleaned ---


def test_guest_disks_config_drive_and_taps(outcome: Outcome) -> None:
    """On the host they go first; a host that is away owes them, and removes them when it is back."""
    if outcome.way in NO_HOST:
        assert outcome.life["things"] == outcome.now["things"] == []
    else:
        kinds = {thing.split("/")[0] for thing in outcome.life["things"]}
        assert kinds == {"guest", "console", "disk", "tap", "connection"}
    if outcome.way == "local":
        assert outcome.now["things"] == outcome.life["things"]
        owed = [thing for thing in outcome.now["things"] if not thing.startswith("console/")]
        assert outcome.now["debts"] == sorted(owed)
    if outcome.way == "on the host":
        assert outcome.held["things"] == outcome.life["things"]
        assert outcome.now["things"] == []
    assert outcome.after["things"] == outcome.after["debts"] == []


def test_ports(outcome: Outcome) -> None:
    """The server's own are gone with it, the user's is free."""
    assert outcome.life["auto"] is not None
    assert outcome.now["auto"] is None
    assert outcome.life["port"]["device_id"] != ""
    for facts in (outcome.now, outcome.after):
        port = facts["port"]
        assert (port["device_id"], port["device_owner"], port["binding:host_id"]) == ("", "", "")
    if outcome.held:
        # Not before the guest: a guest that runs uses its addresses.
        assert outcome.held["auto"] is not None
        assert outcome.held["port"]["device_id"] != ""


def test_interfaces(outcome: Outcome) -> None:
    assert outcome.life["rows"]["interfaces"] == 2
    assert outcome.now["rows"]["interfaces"] == 0


def test_attachments_and_exports(outcome: Outcome) -> None:
    """Gone at once, and no back end lets a host at a volume that is not its any more."""
    assert outcome.life["rows"]["attachments"] == 4
    assert len(outcome.life["exports"]) == (0 if outcome.way in NO_HOST else 4)
    assert outcome.now["rows"]["attachments"] == 0
    assert outcome.now["exports"] == []
    assert outcome.now["volumes"]["volume"] == "available"


def test_volumes_that_go_with_it(outcome: Outcome) -> None:
    """Those with delete_on_termination, whoever made them; a server that never had a host does not wait for them."""
    allowed = (None, "deleting") if outcome.way == "stop the build" else (None,)
    for name in ("doomed", "made"):
        assert outcome.life["volumes"][name] is not None
        assert outcome.now["volumes"][name] in allowed
        assert outcome.after["volumes"][name] is None


def test_volumes_that_stay(outcome: Outcome) -> None:
    """The others, whoever made them."""
    for facts in (outcome.now, outcome.after):
        assert facts["volumes"]["kept"] == "available"
        assert facts["volumes"]["volume"] == "available"


def test_block_devices(outcome: Outcome) -> None:
    assert outcome.life["rows"]["block_devices"] == 5
    assert outcome.now["rows"]["block_devices"] == 0


def test_the_image_of_a_shelve(outcome: Outcome) -> None:
    assert outcome.life["images"] == ([] if outcome.way in NO_HOST else ["active"])
    assert outcome.now["images"] == []


def test_the_allocation(outcome: Outcome) -> None:
    """Free at once, even if the host is away."""
    assert bool(outcome.life["allocations"]) == (outcome.way not in NO_HOST)
    assert outcome.now["allocations"] == {}
    assert outcome.now["rows"]["consumers"] == 0


def test_the_record(outcome: Outcome) -> None:
    """It goes last, and stays readable for who asks for what was deleted."""
    assert (outcome.life["code"], outcome.life["listed"]) == (200, True)
    if outcome.held:
        assert (outcome.held["code"], outcome.held["task"]) == (200, "deleting")
    assert (outcome.now["code"], outcome.now["listed"], outcome.now["rows"]["holders"]) == (404, False, 0)
    assert outcome.now["on record"]
    assert outcome.now["actions"][0] == "delete"
    assert outcome.now["actions"][-1] == "create"
    # Claims are left only where a host owes them.
    assert bool(outcome.now["rows"]["claims"]) == (outcome.way == "local")
    assert outcome.after["rows"] == dict.fromkeys(outcome.after["rows"], 0)


def test_tags_and_the_membership_in_its_group(outcome: Outcome) -> None:
    assert outcome.life["rows"]["server_tags"] == 1
    assert len(outcome.life["members"]) == 1
    assert outcome.now["rows"]["server_tags"] == 0
    assert outcome.now["members"] == []


def test_the_quota(outcome: Outcome) -> None:
    """Counted from what there is: at once what is gone, and what the user kept stays counted."""
    used = {**outcome.before, "port": outcome.before["port"] + 1}
    for name in ("Instances", "Cores", "RAM", "port", "floatingip"):
        assert outcome.now["usage"][name] == used[name]
    assert outcome.life["usage"]["Instances"] == used["Instances"] + 1
    assert outcome.life["usage"]["port"] == used["port"] + 1
    assert outcome.after["usage"]["volumes"] == outcome.before["volumes"] + 2
    assert outcome.after["usage"]["gigabytes"] == outcome.before["gigabytes"] + 2
