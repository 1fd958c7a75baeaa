"""The small cloud, explored whole; each safeguard switched off; and a sample of it replayed on the real database."""

from __future__ import annotations

import random
from typing import Any

import pytest

from cumulet.app import KINDS
from cumulet.chance import SeededChance
from cumulet.db.engine import SqliteDatabase, Tx
from cumulet.db.migrate import prepare
from cumulet.reconcile import agents, holders, ledger
from cumulet.reconcile.worker import Reconciler, Worker
from cumulet.values import Limits, Report
from tests.sim.model import (
    AGENTS,
    ATTACHMENT,
    BACKEND,
    HOSTS,
    Cloud,
    Found,
    Safeguards,
    World,
    calm,
    explore,
    key,
)

#: Instances that are explored whole: what may go wrong, and which laws are at stake.
INSTANCES = {
    "no fault": Cloud(faults=0),
    "one fault": Cloud(faults=1),
    "a back end that cannot fence": Cloud(faults=1, fences=False),
    "a volume that is deleted too": Cloud(faults=1, delete_volume=True, attempts=1),
    "a disk, one attempt": Cloud(faults=1, with_disk=True, attempts=1),
    "two faults, one attempt": Cloud(faults=2, attempts=1, fences=False),
}


def _told(found: Found) -> str:
    return f"{found.law}, after: {'; '.join(found.path)}"


@pytest.mark.parametrize("name", INSTANCES)
def test_no_interleaving_breaks_a_law(name: str, record_property: Any) -> None:
    found = explore(INSTANCES[name], vanish=INSTANCES[name].with_disk, calm_every=200)
    record_property("states", found.states)
    assert not found.law, _told(found)
    assert found.whole
    print(f"{name}: {found.states} states")


MUTATIONS = {
    "revision": (Cloud(Safeguards(revision=False), faults=1), False),
    "lock file": (Cloud(Safeguards(lock_file=False), faults=1), False),
    "needs": (Cloud(Safeguards(needs=False), faults=1), False),
    "named removals": (Cloud(Safeguards(named=False), faults=1), False),
    "never made again": (Cloud(Safeguards(made_once=False), faults=1, with_disk=True), True),
    "foreign key": (Cloud(Safeguards(foreign_key=False), faults=0, torn=True), False),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_without_a_safeguard_a_law_is_broken(name: str) -> None:
    cloud, vanish = MUTATIONS[name]
    found = explore(cloud, vanish=vanish, limit=200_000)
    assert found.law, f"{found.states} states without {name}, and nothing was noticed"
    print(f"{name}: {_told(found)}")


def test_workers_without_a_lock_are_caught_by_the_foreign_key() -> None:
    """What the mutation above does without: as long as the key holds, even torn reconciles lose nothing."""
    found = explore(Cloud(faults=0, torn=True), limit=30_000)
    assert not found.law, _told(found)


@pytest.mark.parametrize("seed", range(12))
def test_the_database_does_what_the_model_does(seed: int) -> None:
    """A random walk through the model, each step also taken by the real ledger and reconciler on SQLite."""
    chance = random.Random(seed)
    cloud = Cloud(faults=3, fences=seed % 2 == 0, with_disk=False)
    replay = Replay(cloud)
    world = cloud.settle(World())
    try:
        replay.compare(world, "start")
        for _ in range(60):
            steps = [step for step in cloud.steps(world) if not step[0].startswith("an old database")]
            if not steps:
                break
            label, after = chance.choice(steps)
            replay.take(label, world)
            replay.compare(after, f"seed {seed}: {label}")
            world = after
    finally:
        replay.db.close()


class Replay:
    """The model's server, on a real database."""

    def __init__(self, cloud: Cloud) -> None:
        self.chance = SeededChance(1)
        self.db = SqliteDatabase(None, self.chance)
        prepare(self.db)
        self.reconciler = Reconciler(
            KINDS, Limits(patience=5.0, build_attempts=cloud.attempts, build_time=1e9)
        )
        self.db.settle = self.reconciler.settle
        self.worker = Worker(self.db, self.reconciler)
        self.ids: dict[str, str] = {}
        self.db.write_now(self._make, cloud)

    def _make(self, tx: Tx, cloud: Cloud) -> None:
        for i, name in enumerate(AGENTS):
            kind = "volume" if name == BACKEND else "host"
            tx.insert(
                "agents", id=name, kind=kind, name=name, token_digest="", created_at=tx.now, updated_at=tx.now, number=i,
                facts={"connects": False, "fences": cloud.fences, "capacity_gb": 100},
            )  # fmt: skip
        for i, name in enumerate(HOSTS):
            provider = f"p{name}"
            tx.insert(
                "resource_providers", id=provider, name=name, agent=name, created_at=tx.now, updated_at=tx.now
            )
            for resource in ("VCPU", "MEMORY_MB", "DISK_GB"):
                tx.insert(
                    "inventories",
                    provider_id=provider,
                    resource_class=resource,
                    total=100 - i,
                    updated_at=tx.now,
                )
        tx.insert("holders", id="vol", kind="volume")
        tx.insert(
            "volumes", id="vol", project_id="p", user_id="u", desired="available", status="available", size=1, agent=BACKEND,
            created_at=tx.now, updated_at=tx.now,
        )  # fmt: skip
        tx.insert(
            "claims", id="bytes", kind="volume", holder="vol", opened_for="vol", agent=BACKEND, seen="present", made=True,
            spec={"size_gb": 1, "source": None}, created_at=tx.now, updated_at=tx.now,
        )  # fmt: skip
        tx.insert("holders", id="s", kind="server")
        tx.insert(
            "servers", id="s", project_id="p", user_id="u", name="s", hostname="s", desired="active", vm_state="building",
            task_state="scheduling", flavor={"vcpus": 1, "ram": 1, "disk": 1, "ephemeral": 0, "swap": 0},
            reservation_id="r", created_at=tx.now, updated_at=tx.now, number=1, vcpus=1, ram=1, flavorid="1",
        )  # fmt: skip
        tx.insert(
            "attachments",
            id=ATTACHMENT,
            volume_id="vol",
            server_id="s",
            project_id="p",
            status="reserved",
            created_at=tx.now,
        )
        tx.insert(
            "block_devices", id="b", server_id="s", position=0, source_type="volume", destination_type="volume",
            volume_id="vol", boot_index=0, created_at=tx.now,
        )  # fmt: skip
        holders.touch(tx, "s")

    def take(self, label: str, world: World) -> None:
        """The control plane's part of a step of the model."""
        agent = label.split(" ", 1)[0]
        if label == "user deletes":
            self.db.write_now(self._delete)
        elif label.endswith(" reports"):
            self.db.write_now(self._hear, agent, world.agents[AGENTS.index(agent)].outbox)
        elif label.endswith((" is silent", " comes back")):
            self.db.write_now(self._silence, agent, label.endswith(" is silent"))
        elif label == "patience ends":
            self.chance.time += 10
        elif label.endswith(" polls"):
            self._compare_feed(agent, world, label)
        self._work()

    @staticmethod
    def _delete(tx: Tx) -> None:
        tx.update("servers", "s", desired="gone", task_state="deleting")
        holders.touch(tx, "s")

    def _hear(self, tx: Tx, agent: str, sights: Any) -> None:
        reports = []
        for id, revision, seen, failed in sights:
            facts = {"power": "on"} if seen == "present" else {}
            reports.append(Report(self.ids[id], revision, seen, facts, "failed" if failed else None))
        ledger.hear(tx, agent, reports)

    @staticmethod
    def _silence(tx: Tx, agent: str, silent: bool) -> None:
        tx.update("agents", agent, silent=silent)
        agents.touch_holders(tx, agent)

    def _work(self) -> None:
        """What the worker does with what is due; everything here is synchronous."""
        while True:
            due = self.db.read_now(
                lambda tx: tx.values("select id from holders where due <= :now", now=tx.now)
            )
            if not due:
                return
            for id in due:
                self.db.write_now(self.worker._reconcile, id)

    def _compare_feed(self, agent: str, world: World, label: str) -> None:
        i = AGENTS.index(agent)
        since = world.agents[i].since
        _, served, _ = self.db.read_now(lambda tx: ledger.feed(tx, agent, max(since, 0)))
        real = {
            one.claim.id: (one.claim.wanted, one.act, one.claim.made)
            for one in served
            if one.claim.id != "bytes"
        }
        model = {self.ids[k.id]: (k.wanted, k.act, k.made) for k in Cloud()._feed(world, i, agent).claims}
        assert real == model, label

    def compare(self, world: World, label: str) -> None:
        """The database's server and claims are the model's."""
        rows = self.db.read_now(
            lambda tx: tx.all("select * from claims where kind <> 'volume' order by created_at, id")
        )
        for claim in world.claims:
            if claim.id not in self.ids:
                new = [r["id"] for r in rows if r["kind"] == claim.kind and r["id"] not in self.ids.values()]
                assert len(new) == 1, f"{label}: {claim.kind} claims: {new}"
                self.ids[claim.id] = new[0]
        needs: dict[str, set[str]] = {}
        for edge in self.db.read_now(lambda tx: tx.all("select * from needs where needs <> 'bytes'")):
            needs.setdefault(edge["claim"], set()).add(edge["needs"])
        real = {
            r["id"]: (r["kind"], r["wanted"], r["revision"], r["seen"], r["acted"], r["made"], r["is_left"], r["error"] is None,
                      {"s": "s", "vol": "vol", None: None}[r["holder"]], frozenset(needs.get(r["id"], ())))
            for r in rows
        }  # fmt: skip
        model = {
            self.ids[c.id]: (c.kind, c.wanted, c.revision, c.seen, c.acted, c.made, c.left, c.error is None, c.holder,
                             frozenset(self.ids[n] for n in c.needs))
            for c in world.claims
        }  # fmt: skip
        assert real == model, label
        row = self.db.read_now(lambda tx: tx.one("select * from servers where id = 's'"))
        assert (row is None) == (world.server is None), label
        if row is not None and world.server is not None:
            for name in ("desired", "vm_state", "task_state", "power_state", "host", "placed", "giving_up"):
                assert row[name] == getattr(world.server, name), f"{label}: {name}"


def test_states_are_told_apart_by_what_matters() -> None:
    """Two orders of steps that have nothing to do with each other lead to one state."""
    cloud = Cloud(faults=0)
    start = cloud.settle(World())
    steps = dict(cloud.steps(start))
    one = dict(cloud.steps(steps["h1 polls"]))["v polls"]
    other = dict(cloud.steps(steps["v polls"]))["h1 polls"]
    assert {key(one)} != {key(start)}
    assert sorted(map(str, (n.agent for n in one.news))) == sorted(map(str, (n.agent for n in other.news)))
    assert calm(cloud, one) is not None
