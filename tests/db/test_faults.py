"""Fault rules while they change."""

from __future__ import annotations

import asyncio
import threading

import pytest
from tests.cloud import until

from cumulet.core import faults
from cumulet.db.engine import Database, Tx
from cumulet.reconcile import agents

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("db", ["postgresql"], indirect=True)
async def test_who_asks_while_a_rule_is_replaced_hears_of_the_new_one(db: Database) -> None:
    agent = await db.write(agents.register, "host", "h1", "secret")
    old = await db.write(faults.add, faults.Rule(step="disk.ensure", effect="hold"))
    replaced, go_on = threading.Event(), threading.Event()

    def replace(tx: Tx) -> None:
        faults.remove(tx, old)
        faults.add(tx, faults.Rule(step="disk.ensure", effect="fail"))
        replaced.set()
        assert go_on.wait(10)

    replacing = asyncio.create_task(db.write(replace))
    await until(lambda: asyncio.to_thread(replaced.wait, 0.01))
    asking = asyncio.create_task(db.write(faults.strike, agent, "claim", "disk.ensure", "before"))
    await until(lambda: db.read(lambda tx: tx.one("select 1 from pg_locks where not granted")))
    go_on.set()
    await replacing
    assert (await asking).effect == "fail"
