"""Agents in the database: who waits for one, and what becomes of what a destroyed one had."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cloud import test_cloud

from cumulet.api.questions import Questions
from cumulet.api.relay import Relay
from cumulet.app import reconciler
from cumulet.core import questions
from cumulet.db.engine import Database, Tx
from cumulet.reconcile import agents, holders, ledger, worker

pytestmark = pytest.mark.anyio


def networks(tx: Tx) -> list[tuple[Any, ...]]:
    """What each network waits for, and how many claims it has."""
    rows = tx.all(
        "select h.waiting, (select count(*) from claims c where c.holder = h.id) as claims from holders h "
        "where h.kind = 'network' order by h.id"
    )
    return [(row["waiting"], row["claims"]) for row in rows]


async def test_who_waited_for_an_agent_goes_on_once_there_is_one(db: Database) -> None:
    async with test_cloud(db) as cloud:
        works = worker.Worker(db, reconciler(db, cloud.config))
        while await works.round() == 0:
            pass
        before = await db.read(networks)
        assert set(before) == {("there is no network agent", 0)}
        await db.write(agents.register, "network", "network", "secret")
        while await works.round() == 0:
            pass
        after = await db.read(networks)
        assert after == [("waits for network to make a switch", 1)] * len(before)


async def test_what_is_given_up_at_a_destroyed_agent_is_closed_at_once(db: Database) -> None:
    """Nobody will ever say that it is gone, whether it was given up before, in the same transaction or after."""

    def prepare(tx: Tx) -> None:
        tx.insert("holders", id="s", kind="server")
        agent = agents.register(tx, "host", "h1", "secret")
        disk = ledger.open(tx, holder="s", kind="disk", agent=agent, spec={})
        ledger.open(tx, holder="s", kind="guest", agent=agent, spec={}, needs=[disk])

    def leave(tx: Tx) -> None:
        tx.run("update agents set destroyed = true")
        claims = ledger.of_holder(tx, "s")
        ledger.unwant(tx, claims)
        for claim in claims:
            ledger.leave(tx, claim, "the host is gone")

    await db.write(prepare)
    await db.write(leave)
    assert await db.read(lambda tx: tx.all("select * from claims")) == []
    await db.write(holders.remove, "s")


async def test_what_a_process_asked_before_it_was_killed_is_forgotten(db: Database) -> None:
    def ask(tx: Tx) -> None:
        agent = agents.register(tx, "host", "h1", "secret")
        questions.post(tx, "q1", "http://killed", agent=agent, name="console")
        questions.post(tx, "q2", "http://other", agent=agent, name="console")

    await db.write(ask)
    await Questions(db.wake, db.chance, Relay(db, "http://killed")).begin()
    await Questions(db.wake, db.chance).begin()
    assert await db.read(lambda tx: tx.values("select id from questions")) == ["q2"]
