"""The model's cloud on a real database: each step is also taken by the real core, ledger and reconciler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cumulet.app import KINDS
from cumulet.chance import SeededChance
from cumulet.core import images
from cumulet.core.servers import deleting, moving, shelving, snapshots
from cumulet.db.engine import SqliteDatabase, Tx
from cumulet.db.migrate import prepare
from cumulet.reconcile import agents, holders, ledger
from cumulet.reconcile.worker import Reconciler, Worker
from cumulet.values import Caller, Claim, Limits, Report
from tests.sim.model import agents as model_agents
from tests.sim.model import steps, users, views
from tests.sim.model.cloud import Cloud
from tests.sim.model.world import ATTACHMENT, BACKEND, IMAGE, MOVE, SERVER, STORE, VOLUME, Sight, World

#: Claims that the model does without: bytes of the volume, and of the image that the server is made from.
OTHERS = ("bytes", "first")
CALLER = Caller(user_id="u", project_id="p", roles=frozenset({"admin", "member"}), request_id="r")


def _delete_image(tx: Tx, caller: Caller, id: str) -> None:
    images.delete_inner(tx, str(tx.value("select id from images where id <> 'first'")))


def _abort(tx: Tx, caller: Caller, id: str) -> None:
    number = tx.value("select number from migrations where server_id = :id and phase <> ''", id=id)
    moving.abort(tx, caller, id, int(number))


#: What users do, by the real core.
ASKS: dict[str, Callable[[Tx, Caller, str], Any]] = {
    "deletes": deleting.delete,
    "migrates": moving.migrate,
    "confirms": moving.confirm,
    "reverts": moving.revert,
    "live-migrates": moving.live_migrate,
    "aborts": _abort,
    "evacuates": moving.evacuate,
    "shelves": shelving.shelve,
    "unshelves": lambda tx, caller, id: shelving.unshelve(
        tx, caller, id, shelving.Destination(), build_time=users.BUILD_TIME
    ),
    "takes an image": lambda tx, caller, id: snapshots.create_image(tx, caller, id, "image", {}),
    "deletes the image": _delete_image,
}


class Replay:
    """A database that does what the model does."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self.chance = SeededChance(1)
        self.db = SqliteDatabase(None, self.chance)
        prepare(self.db)
        limits = Limits(patience=views.PATIENCE, build_attempts=cloud.attempts, build_time=1e9)
        self.reconciler = Reconciler(KINDS, limits)
        self.db.settle = self.reconciler.settle
        self.worker = Worker(self.db, self.reconciler)
        #: The model's ids of claims → the database's.
        self.ids: dict[str, str] = {}
        self.db.write_now(self._make)

    # --- the beginning ---

    def _make(self, tx: Tx) -> None:
        cloud = self.cloud
        for i, name in enumerate(dict.fromkeys([*cloud.names, STORE])):
            kind = {BACKEND: "volume", STORE: "image"}.get(name, "host")
            tx.insert(
                "agents", id=name, kind=kind, name=name, token_digest="", created_at=tx.now, updated_at=tx.now, number=i,
                facts={"connects": cloud.connects, "fences": cloud.fences, "capacity_gb": 100},
            )  # fmt: skip
        for i, name in enumerate(cloud.hosts):
            provider = f"p{name}"
            tx.insert(
                "resource_providers", id=provider, name=name, agent=name, created_at=tx.now, updated_at=tx.now
            )
            for resource in ("VCPU", "MEMORY_MB", "DISK_GB"):
                tx.insert(
                    "inventories", provider_id=provider, resource_class=resource, total=100 - i, updated_at=tx.now
                )  # fmt: skip
        tx.insert("holders", id=SERVER, kind="server")
        tx.insert(
            "servers", id=SERVER, project_id="p", user_id="u", name="s", hostname="s", desired="active", vm_state="building",
            task_state="scheduling", flavor={"vcpus": 1, "ram": 1, "disk": 1, "ephemeral": 0, "swap": 0, "flavorid": "1"},
            reservation_id="r", created_at=tx.now, updated_at=tx.now, number=1, vcpus=1, ram=1, flavorid="1",
            image_id="first" if cloud.with_disk else None,
        )  # fmt: skip
        if cloud.with_volume:
            self._make_volume(tx)
        if cloud.with_disk:
            self._make_disk(tx)
        holders.touch(tx, SERVER)

    @staticmethod
    def _make_volume(tx: Tx) -> None:
        tx.insert("holders", id=VOLUME, kind="volume")
        tx.insert(
            "volumes", id=VOLUME, project_id="p", user_id="u", desired="available", status="available", size=1,
            agent=BACKEND, created_at=tx.now, updated_at=tx.now,
        )  # fmt: skip
        _have(tx, "bytes", "volume", VOLUME, BACKEND, {"size_gb": 1, "source": None})
        tx.insert(
            "attachments", id=ATTACHMENT, volume_id=VOLUME, server_id=SERVER, project_id="p", status="reserved",
            created_at=tx.now,
        )  # fmt: skip
        tx.insert(
            "block_devices", id="b", server_id=SERVER, position=0, source_type="volume", destination_type="volume",
            volume_id=VOLUME, boot_index=0, created_at=tx.now,
        )  # fmt: skip

    @staticmethod
    def _make_disk(tx: Tx) -> None:
        holders.create(tx, "first", "image", "p")
        tx.unsettled.clear()
        tx.insert(
            "images", id="first", owner="p", name="first", desired="present", status="active", disk_format="qcow2",
            container_format="bare", created_at=tx.now, updated_at=tx.now,
        )  # fmt: skip
        _have(tx, "first", "file", "first", STORE, {})
        tx.insert(
            "block_devices", id="b", server_id=SERVER, position=0, source_type="image", destination_type="local",
            image_id="first", boot_index=0, created_at=tx.now,
        )  # fmt: skip

    # --- steps ---

    def take(self, label: str, world: World) -> None:
        """The control plane's part of a step of the model."""
        agent, _, what = label.partition(" ")
        if agent == "user":
            self.db.write_now(ASKS[what], CALLER, SERVER)
            if what in users.LATER:
                return
        elif what == "reports":
            self.db.write_now(self._hear, agent, world.agents[self.cloud.index(agent)].outbox)
        elif what in ("is silent", "comes back"):
            self.db.write_now(_silence, agent, what == "is silent")
            if not steps.holds(world, agent):
                return
        elif label == "patience ends":
            self.chance.time += views.LATER
        elif what == "polls":
            self._compare_feed(agent, world, label)
            return
        elif label == "the worker comes":
            self.db.write_now(holders.touch_all, [SERVER])
        else:
            return
        self._work()

    def _hear(self, tx: Tx, agent: str, sights: tuple[Sight, ...]) -> None:
        move = tx.value("select migration_id from servers where id = :id", id=SERVER)
        reports = []
        for sight in sights:
            facts = {**sight.facts, **({"migrated": move} if sight.facts.get("migrated") == MOVE else {})}
            error = views.FAILED if sight.failed else None
            reports.append(Report(self.ids[sight.id], sight.revision, sight.seen, facts, error))
        ledger.hear(tx, agent, reports)

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

    # --- comparing ---

    def _compare_feed(self, agent: str, world: World, label: str) -> None:
        i = self.cloud.index(agent)
        since = world.agents[i].since
        _, served, _ = self.db.read_now(lambda tx: ledger.feed(tx, agent, max(since, 0)))
        real = {
            one.claim.id: (one.claim.wanted, one.act, one.claim.made)
            for one in served
            if one.claim.id not in OTHERS
        }
        told = model_agents.feed(self.cloud, world, i).claims
        model = {self.ids[claim.id]: (claim.wanted, claim.act, claim.made) for claim in told}
        assert real == model, label

    def compare(self, world: World, label: str) -> None:
        """What the database has is what the model has."""
        self._compare_claims(world, label)
        self._compare_server(world, label)
        c = world.control
        image = self.db.read_now(lambda tx: tx.one("select desired, status from images where id <> 'first'"))
        assert (image and (image["desired"], image["status"])) == (
            c.image and (c.image.desired, c.image.status)
        ), label
        attachment = self.db.read_now(lambda tx: tx.one("select status, passed, host from attachments"))
        if c.attachment in ("", "passed"):
            assert (attachment is None) == (c.attachment == ""), label
        else:
            assert attachment is not None, label
            assert (attachment["status"], attachment["host"]) == (c.attachment, c.attached_to), label

    def _compare_server(self, world: World, label: str) -> None:
        row = self.db.read_now(lambda tx: tx.one("select * from servers where id = :id", id=SERVER))
        model = world.control.server
        assert (row is None) == (model is None), label
        consumers = self.db.read_now(lambda tx: set(tx.values("select id from consumers")))
        if row is None or model is None:
            assert not consumers, label
            return
        for name in (
            "desired",
            "vm_state",
            "task_state",
            "power_state",
            "host",
            "placed",
            "giving_up",
            "state_is_reset",
        ):
            assert row[name] == getattr(model, name), (
                f"{label}: {name}: {row[name]}, and not {getattr(model, name)}"
            )
        assert row["counters"].get("starts", 0) == model.starts, label
        assert (row["shelved_image_id"] is not None, row["snapshot_image_id"] is not None) == (
            model.shelved, model.snapshot,
        ), label  # fmt: skip
        modelled = {SERVER if one == SERVER else row["migration_id"] for one in world.control.consumers}
        assert consumers == modelled, f"{label}: {consumers} have room, and not {modelled}"
        move = self.db.read_now(lambda tx: tx.one("select * from migrations where phase <> ''"))
        assert (move and (move["type"], move["phase"], move["source"], move["target"], move["error"] is None)) == (
            model.move and (
                model.move.type, model.move.phase, model.move.source, model.move.target, model.move.error is None
            )
        ), label  # fmt: skip

    def _compare_claims(self, world: World, label: str) -> None:
        rows = self.db.read_now(
            lambda tx: tx.all("select * from claims where id not in :others order by created_at, id", others=OTHERS)
        )  # fmt: skip
        claims = world.control.claims
        for claim in claims:
            if claim.id not in self.ids:
                new = [r["id"] for r in rows if r["kind"] == claim.kind and r["id"] not in self.ids.values()]
                assert len(new) == 1, f"{label}: {claim.kind} claims: {new}"
                self.ids[claim.id] = new[0]
        edges = self.db.read_now(
            lambda tx: tx.all("select * from needs where needs not in :others", others=OTHERS)
        )
        needs: dict[str, set[str]] = {}
        for edge in edges:
            needs.setdefault(edge["claim"], set()).add(edge["needs"])
        real = {
            r["id"]: (
                r["kind"], r["agent"], r["wanted"], r["revision"], r["seen"], r["acted"], r["made"], r["is_left"],
                r["error"] is None, _holder(r["holder"]), frozenset(needs.get(r["id"], ())),
            )
            for r in rows
        }  # fmt: skip
        modelled = {self.ids[claim.id]: self._claim(claim) for claim in claims}
        assert real == modelled, f"{label}: {real}, and not {modelled}"

    def _claim(self, c: Claim) -> Any:
        needs = frozenset(self.ids[need] for need in c.needs)
        return (
            c.kind, c.agent, c.wanted, c.revision, c.seen, c.acted, c.made, c.left, c.error is None, c.holder, needs,
        )  # fmt: skip


def _holder(id: str | None) -> str | None:
    return id if id in (None, SERVER, VOLUME) else IMAGE


def _have(tx: Tx, id: str, kind: str, holder: str, agent: str, spec: dict[str, Any]) -> None:
    tx.insert(
        "claims", id=id, kind=kind, holder=holder, opened_for=holder, agent=agent, seen="present", made=True, spec=spec,
        created_at=tx.now, updated_at=tx.now,
    )  # fmt: skip


def _silence(tx: Tx, agent: str, silent: bool) -> None:
    tx.update("agents", agent, silent=silent)
    agents.touch_holders(tx, agent)
