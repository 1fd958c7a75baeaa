"""Reconcile: one transaction in which a holder's row is locked, read, decided upon and written.

``settle`` does it at the end of the transaction that changed something; ``Worker.run`` does it for whatever
is due. Both call ``reconcile``, and nothing else changes a holder on its way to its desired state.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import structlog

from cumulet.db.engine import Database, Row, Tx
from cumulet.errors import Unavailable
from cumulet.reconcile import agents, holders, ledger, mode, sweep
from cumulet.reconcile.plan import base
from cumulet.values import Claim, Limits

log = structlog.get_logger()

#: Holders are locked in this order, by kind.
_ORDER = "server volume snapshot backup unmanaged image network router floatingip port"
LOCK_ORDER = {kind: rank for rank, kind in enumerate(_ORDER.split(), start=1)}
#: Rounds of one reconcile, and holders of one transaction, at the most.
ROUNDS = 30
SETTLED = 200
#: How long a holder rests after its reconcile failed, and the longest sleep of the worker, in seconds.
PAUSE_AFTER_ERROR = 5.0
LONGEST_SLEEP = 5.0


_HOLDER = "select kind, project_id, due, rule, waiting, leaving_with, request_id from holders where id = :id"


class Kind(msgspec.Struct, frozen=True):
    """How holders of one kind are reconciled."""

    rules: tuple[base.Rule[Any], ...]
    #: Reads all that the plan needs; None when there is no such row.
    view: Callable[[Tx, str, Limits], Any]
    #: Writes a change that only this kind has, ``Set`` and ``Remove`` among them.
    apply: Callable[[Tx, Any, base.Change], None]


class Reconciler:
    """The kinds of holders, and the limits, of one process."""

    def __init__(self, kinds: Mapping[str, Kind], limits: Limits) -> None:
        self.kinds = kinds
        self.limits = limits
        #: True from the start of a process over a restored database until somebody let the cloud go on.
        self.report_only = False

    def rests(self, tx: Tx) -> bool:
        """True while the cloud only reports; see reconcile.mode."""
        self.report_only = self.report_only and mode.report_only(tx) is not None
        return self.report_only

    def settle(self, tx: Tx) -> None:
        """Reconcile what the transaction touched, and what that touches in turn."""
        done = 0
        if self.report_only and self.rests(tx):
            for id in tx.unsettled:
                holders.later(tx, id)
            tx.unsettled.clear()
        while tx.unsettled:
            id = next(iter(tx.unsettled))
            del tx.unsettled[id]
            if self._comes_too_late(tx, id):
                holders.afterwards(tx, id)
                continue
            done += 1
            if done > SETTLED:
                holders.later(tx, id)
            else:
                self.reconcile(tx, id)

    @staticmethod
    def _comes_too_late(tx: Tx, id: str) -> bool:
        """True if the transaction has locked a holder that comes behind this one in the order of locks.

        Two transactions that lock against the order wait for each other until the database ends one of them.
        On SQLite there is one writer, and nothing to wait for.
        """
        if tx.dialect == "sqlite":
            return False
        rank = LOCK_ORDER.get(tx.value("select kind from holders where id = :id", id=id), 0)
        if rank < tx.rank:
            return True
        tx.rank = rank
        return False

    def reconcile(self, tx: Tx, id: str, row: Row | None = None) -> None:
        """Bring one holder as far as it gets without waiting. ``row``: the holder's, locked, if that is known."""
        row = row or tx.one(f"{_HOLDER}{tx.for_update}", id=id)
        if row is None:
            return
        kind = self.kinds[row["kind"]]
        for _ in range(ROUNDS):
            view = kind.view(tx, id, self.limits)
            if view is None:
                tx.run("update holders set due = null where id = :id and due is not null", id=id)
                return
            rule, step = base.decide(view, kind.rules)
            if isinstance(step, base.Wait | base.Rest):
                self._rest(tx, id, row, rule, step)
                return
            opened: dict[base.Named, str] = {}
            for change in step:
                self._apply(tx, kind, view, change, row["project_id"], opened)
                if isinstance(change, base.Remove):
                    return
        raise RuntimeError(f"the plan of {row['kind']} {id} does not come to rest: {rule}")

    def _apply(
        self,
        tx: Tx,
        kind: Kind,
        view: Any,
        change: base.Change,
        project: str | None,
        opened: dict[base.Named, str],
    ) -> None:
        """Write one change. ``opened``: the claims that this step has opened so far."""
        match change:
            case base.Open():
                opened[change.kind, change.part] = ledger.open(
                    tx, holder=view.id, kind=change.kind, agent=change.agent, spec=change.spec,
                    needs=_resolve(tx, view, change.needs, opened), part=change.part, project_id=project,
                )  # fmt: skip
            case base.Respec():
                needs = _resolve(tx, view, change.needs, opened)
                ledger.respec(tx, _claim(view, change.claim), change.spec, needs)
            case base.Unwant():
                ledger.unwant(tx, [_claim(view, id) for id in change.claims])
            case base.DropNeed():
                ledger.drop_need(tx, change.claim, change.needs)
            case base.Leave():
                ledger.leave(tx, _claim(view, change.claim), change.reason)
                kind.apply(tx, view, change)
            case base.HandOver():
                ledger.hand_over(tx, change.claim, change.holder)
            case _:
                kind.apply(tx, view, change)

    @staticmethod
    def _rest(tx: Tx, id: str, row: Mapping[str, Any], rule: str, step: base.Wait | base.Rest) -> None:
        waits = isinstance(step, base.Wait)
        due = step.until if isinstance(step, base.Wait) else None
        if due is not None and due <= tx.now:
            due = None  # that time has come, and nothing was to be done: looking again would not change it
        rule_, waiting = (rule, step.reason) if isinstance(step, base.Wait) else (None, None)
        if (row["due"], row["rule"], row["waiting"]) != (due, rule_, waiting):
            since = tx.now if waits else None
            tx.run(
                "update holders set due = :due, rule = :rule, waiting = :waiting, "
                "waiting_since = case when rule = :rule then waiting_since else :since end where id = :id",
                due=due, rule=rule_, waiting=waiting, since=since, id=id,
            )  # fmt: skip
            if due is not None:
                tx.wakes.add("due")
            if row["leaving_with"] is not None:
                # How long a server waits for it depends on what it waits for itself.
                holders.later(tx, row["leaving_with"])


def _claim(view: Any, id: str) -> Claim:
    claims: tuple[Claim, ...] = view.claims
    return next(claim for claim in claims if claim.id == id)


def _resolve(
    tx: Tx, view: Any, needs: Sequence[str | base.Named], opened: Mapping[base.Named, str]
) -> list[str]:
    """The ids of claims that are needed; what the ledger has no more is left out."""
    known = {claim.id for claim in view.claims} | set(opened.values())
    named = {(claim.kind, claim.part): claim.id for claim in view.claims if claim.wanted} | dict(opened)
    found = []
    for need in needs:
        if isinstance(need, str):
            there = need in known or tx.one("select 1 from claims where id = :id", id=need)
            id = need if there else None
        else:
            id = named.get(need)
        if id is not None:
            found.append(id)
    return found


def _due(tx: Tx, limit: int) -> tuple[list[str], float | None]:
    """Holders that are due; or, if there are none, when the next one will be."""
    rows = tx.all("select id, due from holders where due is not null order by due limit :limit", limit=limit)
    ids = [row["id"] for row in rows if row["due"] <= tx.now]
    return ids, rows[0]["due"] if rows and not ids else None


class Worker:
    """Takes what is due, one holder for each transaction. Any number may run on one database."""

    def __init__(self, db: Database, reconciler: Reconciler) -> None:
        self.db = db
        self.reconciler = reconciler
        self.listening_since = db.chance.now()
        #: What the last sweep found.
        self.found: list[sweep.Finding] = []

    async def run(self) -> None:
        """Work until cancelled."""
        with self.db.wake.listen("due") as waiter:
            while True:
                try:
                    upcoming = await self.round()
                except Unavailable as error:
                    # A full disk, a lock, a database that is away: it may come back, and nothing is lost.
                    log.error("reconcile pauses", reason=error.message)
                    upcoming = PAUSE_AFTER_ERROR
                if upcoming is None or upcoming > 0:
                    await waiter.wait(min(LONGEST_SLEEP, upcoming if upcoming is not None else LONGEST_SLEEP))

    async def round(self, limit: int = 50) -> float | None:
        """Reconcile what is due now; return seconds until something will be: 0 for now, None for nothing."""
        if self.reconciler.report_only and await self.db.read(self.reconciler.rests):
            return None
        ids, upcoming = await self.db.read(_due, limit)
        for id in ids:
            await self.one(id)
            await asyncio.sleep(0)  # requests come in between
        if ids:
            return 0
        return None if upcoming is None else max(upcoming - self.db.chance.now(), 0.001)

    async def one(self, id: str) -> None:
        """Reconcile one due holder. A plan that fails is logged, and tried again later."""
        try:
            await self.db.write(self._reconcile, id)
        except Unavailable:
            raise
        except Exception:
            log.exception("reconcile failed", holder=id)
            await self.db.write(_push_back, id)

    def _reconcile(self, tx: Tx, id: str) -> None:
        row = tx.one(f"{_HOLDER}{tx.skip_locked}", id=id)
        if row is None or row["due"] is None or row["due"] > tx.now:
            return  # another worker has it, or had it
        # What is done now is still for the request that left it to be done.
        tx.request_id = row["request_id"]
        with structlog.contextvars.bound_contextvars(request_id=row["request_id"]):
            self.reconciler.reconcile(tx, id, row)
            log.debug("reconciled", holder=id)

    async def judge(self, every: float) -> None:
        """Judge again and again which agents are silent, until cancelled."""
        while True:
            await asyncio.sleep(every)
            try:
                names = await self.db.write(
                    agents.judge, self.reconciler.limits.patience, self.listening_since
                )
            except Unavailable:
                # Nobody could be heard meanwhile either.
                self.listening_since = self.db.chance.now()
                continue
            if "" in names:
                log.error("many hosts fell silent at once; none is judged")
            for name in filter(None, names):
                log.warning("agent is silent", agent=name)

    async def refresh(self, every: float) -> None:
        """Look again at whoever waits without a time, until cancelled: a wake-up may have been lost."""
        while True:
            await asyncio.sleep(every)
            with contextlib.suppress(Unavailable):
                await self.db.write(_refresh, every)

    async def sweep(self, sweeper: sweep.Sweeper, every: float) -> None:
        """Sweep again and again, until cancelled, and raise the alarm when something is found."""
        while True:
            await asyncio.sleep(every)
            try:
                self.found = await sweeper.part()
            except Unavailable as error:
                log.error("no sweep was made", reason=error.message)
                continue
            for finding in self.found:
                log.warning(
                    "the sweep found something", kind=finding.kind, id=finding.id, what=finding.message
                )


def _refresh(tx: Tx, age: float, limit: int = 1000) -> None:
    ids = tx.values(
        "select id from holders where waiting is not null and due is null and waiting_since <= :before "
        "order by waiting_since limit :limit",
        before=tx.now - age, limit=limit,
    )  # fmt: skip
    holders.touch_all(tx, ids)


def _push_back(tx: Tx, id: str) -> None:
    tx.run(
        "update holders set due = :due, rule = 'error', waiting = 'the reconciler failed; see the log' where id = :id",
        due=tx.now + PAUSE_AFTER_ERROR, id=id,
    )  # fmt: skip
