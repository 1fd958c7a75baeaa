"""The audit: whatever is changed behind the cloud's back is named, and only what is proven is put right."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.case import COMPUTE, H1, H2, VOLUME, Case, stage
from tests.damage import Kept, behind
from tests.leftovers import difference, look

from cumulet.api import audit
from cumulet.db.engine import Database
from cumulet.reconcile.sweep import KINDS
from cumulet.tables import FINDINGS

pytestmark = pytest.mark.anyio

AUDIT = "/cumulet/v1/audit"
NOBODY = "00000000-0000-4000-8000-000000000000"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "BETWEEN", 0.01)


async def audited(case: Case, method: str = "GET") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await case.call(method, AUDIT, 200, as_="admin")).json()["findings"]
    return found


async def only(case: Case, kind: str) -> bool:
    """True if the audit tells of one thing, of that kind."""
    return [one["kind"] for one in await audited(case)] == [kind]


@dataclass
class Scene:
    """A cloud in which there is something of everything; ``names``: the ids of it."""

    case: Case
    names: dict[str, str] = field(default_factory=dict)

    async def prepare(self) -> None:
        case, names = self.case, self.names
        names["port"], names["volume"] = (await case.make_port())["id"], await case.make_volume()
        await case.settle()
        case.remember()
        await case.enable(H2, False)
        names["server"] = await case.boot(
            name="whole",
            config_drive=True,
            networks=[{"port": names["port"]}, {"uuid": case.network2["id"]}],
            block_device_mapping_v2=case.devices(names["volume"]),
        )
        await case.enable(H2, True)
        names["resized"] = await case.boot(name="resized")
        await case.act(names["resized"], "resize", {"flavorRef": case.flavor2})
        await case.server_is(names["resized"], "VERIFY_RESIZE")
        names["shelved"] = await case.boot(name="shelved")
        await case.act(names["shelved"], "shelve")
        await case.server_is(names["shelved"], "SHELVED_OFFLOADED")
        await case.settle()
        names |= {"image": case.image, "network": case.network["id"], "nobody": NOBODY}
        for name, sql in {
            "move": "select migration_id from servers where id = :resized",
            "saved": "select shelved_image_id from servers where id = :shelved",
            "attachment": "select id from attachments where volume_id = :volume",
            "h1": "select id from agents where name = 'h1'",
            "h2": "select id from agents where name = 'h2'",
            "guest": "select id from claims where kind = 'guest' and holder = :server",
            "disk": "select id from claims where kind = 'disk' and holder = :server and part = 'root'",
            "tap": "select id from claims where kind = 'tap' and part = :port",
            "connection": "select id from claims where kind = 'connection' and holder = :server",
            "export": "select id from claims where kind = 'export' and holder = :server",
            "bytes": "select id from claims where kind = 'volume' and holder = :volume",
            "file": "select id from claims where kind = 'file' and holder = :image",
            "lport": "select id from claims where kind = 'lport' and holder = :port",
            "switch": "select id from claims where kind = 'switch' and holder = :network",
            "kept": "select id from claims where kind = 'disk' and holder = :resized and agent = "
            "(select source from migrations where id = :move)",
        }.items():
            names[name] = self.value(sql)

    async def clean(self, *without: str) -> None:
        """All servers are deleted, and nothing is left but what was there before them."""
        for server in ("server", "resized", "shelved"):
            await self.case.delete(self.names[server])
        await self.case.clean(*without)

    def known(self, sql: str) -> dict[str, str]:
        return {name: value for name, value in self.names.items() if f":{name}" in sql}

    def value(self, sql: str) -> Any:
        found = self.case.db.read_now(lambda tx: tx.value(sql, **self.known(sql)))  # type: ignore[attr-defined]
        assert found is not None, sql
        return found

    def path(self, agent: str, kind: str, name: str) -> Path:
        return self.case.directory / "agents" / agent / kind / self.names[name]


@dataclass
class Damage:
    """Something that happens behind the cloud's back."""

    #: How it is told.
    kind: str
    #: Whose id is told; a name in the scene.
    names: str
    do: Callable[[Scene], None]
    #: True if --fix puts it right; None: a part of what follows from it.
    fixed: bool | None = False


def rows(kind: str, names: str, *statements: str, fixed: bool | None = False) -> Damage:
    def do(scene: Scene) -> None:
        for sql in statements:
            assert behind(scene.case.db, sql, **scene.known(sql)), f"nothing was changed by {sql}"

    return Damage(kind, names, do, fixed)


def claim_gone(name: str, names: str, kind: str = "plan") -> Damage:
    def do(scene: Scene) -> None:
        behind(scene.case.db, "delete from needs where claim = :id or needs = :id", id=scene.names[name])
        assert behind(scene.case.db, "delete from claims where id = :id", id=scene.names[name])

    return Damage(kind, names, do)


def file_gone(agent: str, kind: str, name: str, *, fixed: bool = True) -> Damage:
    return Damage("drift", name, lambda scene: scene.path(agent, kind, name).unlink(), fixed)


def file_added(agent: str, kind: str) -> Damage:
    def do(scene: Scene) -> None:
        scene.path(agent, kind, "nobody").write_text("{}")

    return Damage("orphan", "nobody", do)


def written(agent: str, kind: str, name: str, change: Callable[[str], str]) -> Damage:
    def do(scene: Scene) -> None:
        path = scene.path(agent, kind, name)
        path.write_text(change(path.read_text()))

    return Damage("drift", name, do, fixed=True)


def powered_off(text: str) -> str:
    told = json.loads(text)
    told["facts"]["power"] = "off"
    return json.dumps(told)


CLAIM = (
    "insert into claims (id, kind, holder, opened_for, agent, part, wanted, seen, made, revision, acted, created_at, "
    "updated_at) select :nobody, 'tap', holder, opened_for, agent, :nobody, wanted, seen, made, revision, acted, "
    "created_at, updated_at from claims where id = :tap"
)
ATTACHMENT = (
    "insert into attachments (id, volume_id, server_id, project_id, status, created_at) "
    "select :nobody, volume_id, {server}, project_id, 'attached', created_at from attachments where id = :attachment"
)
MOVE = (
    "insert into migrations (id, number, server_id, project_id, user_id, type, phase, status, created_at, updated_at) "
    "select :nobody, 99, {server}, project_id, user_id, 'migration', 'moving', 'migrating', created_at, updated_at "
    "from migrations where id = :move"
)
CONSUMER = (
    "insert into consumers (id, project_id, user_id, generation, type, created_at, updated_at) "
    "select {id}, project_id, user_id, 1, '{type}', created_at, updated_at from consumers where id = :server"
)
HELD = "insert into held_ips (subnet_id, address, claim) select subnet_id, address, :tap from fixed_ips where port_id = :port"
USES = (
    "insert into allocations (consumer_id, provider_id, resource_class, used, updated_at) "
    "select :nobody, provider_id, resource_class, used, updated_at from allocations where consumer_id = :server"
)
PROVIDER = "(select id from resource_providers where agent = :h1)"
DAMAGES: dict[str, Damage] = {
    # The ledger.
    "a guest's claim is gone": claim_gone("guest", "server"),
    "a guest's claim is gone, and its host has an orphan": claim_gone("guest", "guest", "orphan"),
    "a disk's claim is gone": claim_gone("disk", "server"),
    "the claim of a disk that waits for a revert is gone": claim_gone("kept", "kept", "orphan"),
    "a tap's claim is gone": claim_gone("tap", "server"),
    "an export's claim is gone": claim_gone("export", "server", "attachment"),
    "a connection's claim is gone": claim_gone("connection", "server"),
    "a volume's claim is gone": claim_gone("bytes", "volume"),
    "a port's claim is gone": claim_gone("lport", "port"),
    "a network's claim is gone": claim_gone("switch", "network"),
    "an image's claim is gone": claim_gone("file", "image", "lost"),
    "a claim has no holder": rows(
        "debt", "disk", "update claims set holder = null, is_left = true where id = :disk"
    ),
    "the address of a guest that is owed is not kept": rows(
        "address", "tap", "update claims set holder = null, is_left = true where id = :tap", fixed=None
    ),
    "an address is kept for a guest that is not owed": rows("address", "tap", HELD, fixed=True),
    "a claim is for no port": rows("port", "nobody", CLAIM),
    "a claim wants something else": rows("plan", "server", "update claims set spec = '{}' where id = :guest"),
    "a claim is of another agent": rows("drift", "disk", "update claims set agent = :h2 where id = :disk"),
    "a guest needs nothing": rows("reference", "guest", "delete from needs where claim = :guest", fixed=True),
    # Servers and what they have.
    "a server is gone": rows("holder", "server", "delete from servers where id = :server"),
    "a server is no holder": rows("holder", "server", "delete from holders where id = :server"),
    "a server is on another host": rows("allocation", "server", "update servers set host = :h2 where id = :server"),
    "a server shows another state": rows(
        "plan", "server", "update servers set vm_state = 'stopped' where id = :server", fixed=True
    ),
    "a server has another flavor": rows("allocation", "server", "update servers set flavor = "
        "(select flavor from servers where id = :resized) where id = :server"),
    "a local disk is gone": rows("plan", "server", "delete from block_devices where server_id = :server and volume_id is null"),
    "a volume's device is gone": rows("attachment", "volume", "delete from block_devices where volume_id = :volume"),
    "an interface is gone": rows("port", "port", "delete from interfaces where port_id = :port"),
    "a port is gone": rows("holder", "port", "delete from ports where id = :port"),
    "a port is of nobody": rows("port", "port", "update ports set device_id = '' where id = :port"),
    "a port is on another host": rows("port", "port", "update ports set binding_host = 'h2' where id = :port"),
    "a port's address is gone": rows("plan", "port", "delete from fixed_ips where port_id = :port"),
    "a port is of a server that is not there": rows("port", "port", "delete from interfaces where port_id = :port",
        "update ports set device_id = :nobody where id = :port"),
    "an attachment is gone": rows("attachment", "volume", "delete from attachments where id = :attachment"),
    "an attachment is of a server without such a device": rows("attachment", "nobody", ATTACHMENT.format(server=":resized")),
    "an attachment is of a server that is not there": rows("attachment", "nobody", ATTACHMENT.format(server="'x'")),
    "an attachment shows another status": rows(
        "plan", "server", "update attachments set status = 'reserved' where id = :attachment", fixed=True
    ),
    "a volume is gone": rows("holder", "volume", "delete from volumes where id = :volume"),
    "an image is gone": rows("holder", "image", "delete from images where id = :image"),
    "a shelved server's image is gone": rows("holder", "saved", "delete from images where id = :saved"),
    # Moves.
    "a move is gone": rows("migration", "move", "delete from migrations where id = :move"),
    "a move is over": rows("migration", "move", "update migrations set phase = '' where id = :move"),
    "a move has no server": rows("migration", "nobody", MOVE.format(server="'x'"), fixed=True),
    "a move is of a server that does not move": rows("migration", "nobody", MOVE.format(server=":server")),
    "a server does not know of its move": rows(
        "migration", "move", "update servers set migration_id = null where id = :resized"
    ),
    # Placement.
    "an allocation is gone": rows(
        "allocation", "server", "delete from allocations where consumer_id = :server and resource_class = 'VCPU'", fixed=True
    ),
    "an allocation is another one": rows(
        "allocation", "server", "update allocations set used = used + 1 where consumer_id = :server", fixed=True
    ),
    "an allocation is on another host": rows(
        "allocation", "server", "update allocations set provider_id = (select id from resource_providers where agent = :h2) "
        "where consumer_id = :server", fixed=True
    ),
    "a consumer is gone": rows("allocation", "server", "delete from allocations where consumer_id = :server",
        "delete from consumers where id = :server", fixed=True),
    "a move's consumer is gone": rows("allocation", "move", "delete from allocations where consumer_id = :move",
        "delete from consumers where id = :move", fixed=True),
    "a consumer is a server that nobody knows": rows(
        "allocation", "nobody", CONSUMER.format(id=":nobody", type="INSTANCE"), USES),
    "a consumer is a move that nobody knows": rows(
        "allocation", "nobody", CONSUMER.format(id=":nobody", type="MIGRATION"), USES),
    "a host is not known": rows(
        "provider", "h1",
        f"delete from allocations where provider_id = {PROVIDER}", f"delete from inventories where provider_id = {PROVIDER}",
        "delete from resource_providers where agent = :h1", fixed=True,
    ),
    "a host's inventory is gone": rows("provider", "h1", "delete from inventories where resource_class = 'DISK_GB' and "
        "provider_id = (select id from resource_providers where agent = :h1)", fixed=True),
    # What agents have.
    "a host's guest is gone": file_gone("host-h1", "guest", "guest"),
    "a host's disk is gone": file_gone("host-h1", "disk", "disk", fixed=False),
    "a host's tap is gone": file_gone("host-h1", "tap", "tap"),
    "a host's connection is gone": file_gone("host-h1", "connection", "connection"),
    "a back end's export is gone": file_gone("volume-sim", "export", "export"),
    "a back end's volume is gone": file_gone("volume-sim", "volume", "bytes", fixed=False),
    "an image's file is gone": file_gone("image-store", "file", "file", fixed=False),
    "a network's port is gone": file_gone("network-network", "lport", "lport"),
    "a network is gone": file_gone("network-network", "switch", "switch"),
    "a guest is powered off": written("host-h1", "guest", "guest", powered_off),
    "a guest is damaged": written("host-h1", "guest", "guest", lambda text: text[:10]),
    **{
        f"{agent} has a {kind} of nobody's": file_added(agent, kind)
        for agent, kind in (
            ("host-h1", "guest"), ("host-h2", "disk"), ("host-h1", "tap"), ("host-h1", "connection"),
            ("host-h1", "source"), ("volume-sim", "volume"), ("volume-sim", "export"), ("volume-sim", "snapshot"),
            ("image-store", "file"), ("network-network", "lport"),
        )
    },
}  # fmt: skip


async def test_what_is_changed_behind_its_back_is_named(db: Database, directory: Path) -> None:
    """Each damage is named, and what is not proven is left exactly as it is."""
    wrong = []
    async with stage(db, directory, hosts=2, sweep=3600.0) as case:
        scene = Scene(case)
        await scene.prepare()
        assert await audited(case) == []
        for i, (name, damage) in enumerate(DAMAGES.items()):
            kept = Kept(db, directory, directory / f"kept {i}")
            damage.do(scene)
            found = await audited(case)
            if not names(found, damage, scene):
                wrong.append(f"{name}: not named, but {[(one['kind'], one['message']) for one in found]}")
            if damage.fixed is False and damage.kind != "drift":
                before = look(db, directory)
                fixed = [one for one in await audited(case, "POST") if one["fixed"]]
                if fixed or difference(before, look(db, directory)):
                    wrong.append(
                        f"{name}: something was done: {fixed} {difference(before, look(db, directory))}"
                    )
            kept.put_back()
            if left := await audited(case):
                wrong.append(f"{name}: {left} after it was put back")
        assert not wrong, "\n".join(wrong)
        await scene.clean()


async def test_what_is_proven_is_put_right(db: Database, directory: Path) -> None:
    async with stage(db, directory, hosts=2, sweep=3600.0) as case:
        scene = Scene(case)
        await scene.prepare()
        for name, damage in DAMAGES.items():
            if not damage.fixed:
                continue
            damage.do(scene)
            told = await audited(case, "POST")
            assert names([one for one in told if one["fixed"]], damage, scene), f"{name}: {told}"
            for _ in range(3):  # what was put right may show what followed from it
                left = await audited(case, "POST")
                if not left:
                    break
            assert not left, f"{name}: {left}"
            await case.settle()
            assert await audited(case) == [], name
        # A host that placement had forgotten is known under another id.
        providers = [row["id"] for row in map(json.loads, case.before["resource_providers"])]
        now = await db.read(lambda tx: tx.values("select id from resource_providers"))
        await scene.clean(*{*providers} ^ {*now})


@pytest.mark.parametrize(
    ("agent", "kind", "name"),
    [("host-h1", "disk", "disk"), ("volume-sim", "volume", "bytes"), ("image-store", "file", "file")],
)
async def test_data_that_is_lost_stays_lost(
    db: Database, directory: Path, agent: str, kind: str, name: str
) -> None:
    """A new disk would be empty: nothing that kept data is made again, and who asks is told until it is deleted."""
    async with stage(db, directory, hosts=2, sweep=3600.0) as case:
        scene = Scene(case)
        await scene.prepare()
        path = scene.path(agent, kind, name)
        path.unlink()
        (told,) = [one for one in await audited(case) if one["id"] == scene.names[name]]
        assert told["kind"] == "drift"
        await audited(case, "POST")
        await case.until(lambda: only(case, "lost"), "the agent to tell that it is lost")
        for method in ("GET", "POST"):
            found = await audited(case, method)
            assert [one["kind"] for one in found if not one["fixed"]] == ["lost"]
            assert not path.exists()
        if name == "bytes":
            await case.delete(scene.names["server"])
            await case.call("DELETE", f"{VOLUME}/volumes/{scene.names['volume']}", 202, version="volume 3.70")
            await case.volume_gone(scene.names["volume"])
            assert await audited(case) == []


def names(found: list[dict[str, Any]], damage: Damage, scene: Scene) -> bool:
    id = scene.names[damage.names]
    return any(one["kind"] == damage.kind and id in json.dumps(one) for one in found)


async def test_a_host_that_cannot_be_asked_is_told_of(db: Database, directory: Path) -> None:
    """What it has was not compared: that is not clean, and neither is what it owes."""
    async with stage(db, directory, hosts=2, sweep=3600.0) as case:
        server = await case.boot(networks=[{"uuid": case.network["id"]}])
        await case.down(H1)
        assert [(one["kind"], one["message"]) for one in await audited(case)] == [
            ("silent", "host h1 is down: what it has was not compared")
        ]
        await case.delete(server)
        kinds = [one["kind"] for one in await audited(case)]
        assert kinds == ["silent"] + ["debt"] * 3
        assert [one["fixed"] for one in await audited(case, "POST")] == [False] * 4
        await case.up(H1)
        await case.settle()
        assert await audited(case) == []
        await case.clean()


async def test_what_is_just_being_done_is_no_damage(db: Database, directory: Path) -> None:
    async with stage(db, directory, hosts=1, sweep=3600.0) as case:
        for step in (
            "disk.ensure",
            "tap.ensure",
            "guest.ensure",
            "guest.remove",
            "tap.remove",
            "disk.remove",
        ):
            for moment in ("before", "after"):
                rule = await case.held(step, moment)
                server = await case.create(config_drive=True, networks=[{"uuid": case.network["id"]}])
                if step.endswith("remove"):
                    await case.server_is(server, "ACTIVE")
                    await case.call("DELETE", f"{COMPUTE}/servers/{server}", 204)
                await case.struck(rule)
                assert await audited(case, "POST") == [], f"{step} {moment}"
                await case.release(rule)
                await case.delete(server, 204, 404)
        await case.clean()


async def test_who_waits_for_too_long_is_stuck(db: Database, directory: Path) -> None:
    async with stage(db, directory, hosts=1, sweep=3600.0, stuck_after=0.05) as case:
        server = await case.boot()
        rule = await case.held("disk.remove")
        await case.call("DELETE", f"{COMPUTE}/servers/{server}", 204)
        await case.struck(rule)

        async def stuck() -> Any:
            return [one for one in await audited(case) if one["kind"] == "stuck"]

        (found,) = await case.until(stuck, "the server to be stuck")
        assert (found["id"], found["facts"]["kind"]) == (server, "server")
        assert "waits for h1 to remove a disk" in found["message"]
        await case.release()
        await case.gone(server)
        await case.clean()


async def test_the_operators_word_removes_an_orphan(db: Database, directory: Path) -> None:
    async with stage(db, directory, hosts=1, sweep=3600.0) as case:
        path = case.directory / "agents" / f"host-{H1}" / "guest" / NOBODY
        path.write_text("{}")
        (found,) = await audited(case, "POST")
        assert (found["kind"], found["id"], found["fixed"]) == ("orphan", NOBODY, False)
        assert path.exists()
        agent = found["facts"]["agent"]
        await case.call("DELETE", f"/cumulet/v1/agents/{agent}/orphans/{H1}", 404, as_="admin")
        await case.call("DELETE", f"/cumulet/v1/agents/{agent}/orphans/{NOBODY}", 403, as_="demo")
        await case.call("DELETE", f"/cumulet/v1/agents/{agent}/orphans/{NOBODY}", 204, as_="admin")
        await case.settle()
        assert not path.exists()
        assert await audited(case) == []
        await case.clean()


async def test_the_background_sweep_puts_right_what_is_proven(db: Database, directory: Path) -> None:
    """Without anybody who asks, and not what is young: that may be just being made."""
    async with stage(db, directory, hosts=1, sweep=0.05, sweep_floor=0.3) as case:
        server = await case.boot()
        behind(db, "delete from allocations where consumer_id = :id", id=server)

        async def allocated() -> bool:
            return bool(await case.allocations(server))

        await case.until(allocated, "the allocation to be written again")
        await case.delete(server)
        await case.clean()


def test_every_kind_has_a_title() -> None:
    assert set(KINDS) == set(FINDINGS)
