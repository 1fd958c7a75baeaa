"""What an agent that is destroyed still owed closes when nothing needs it any more, whoever is the last to need it."""

from __future__ import annotations

import pytest

from cumulet.db.engine import Database, Tx
from cumulet.reconcile import agents, ledger
from cumulet.values import Report

pytestmark = pytest.mark.anyio


def _open(tx: Tx) -> tuple[str, str, str]:
    """A copy on a host that is destroyed, which a disk on another host is made from: (host, copy, disk)."""
    gone, here = agents.register(tx, "host", "gone", "t"), agents.register(tx, "host", "here", "u")
    copy, disk = tx.uuid(), tx.uuid()
    ledger.open_debt(tx, id=copy, kind="source", agent=gone)
    ledger.open_debt(tx, id=disk, kind="disk", agent=here)
    tx.insert("needs", claim=disk, needs=copy)
    tx.update("agents", gone, destroyed=True)
    return here, copy, disk


def _claims(tx: Tx) -> set[str]:
    return set(tx.values("select id from claims"))


async def test_the_last_that_needs_it_is_seen_gone(db: Database) -> None:
    here, copy, disk = await db.write(_open)
    assert await db.read(_claims) == {copy, disk}
    revision = await db.read(lambda tx: tx.value("select revision from claims where id = :id", id=disk))
    await db.write(ledger.hear, here, [Report(disk, revision, "absent")])
    assert await db.read(_claims) == set()


async def test_the_last_that_needs_it_does_not_any_more(db: Database) -> None:
    _, copy, disk = await db.write(_open)
    await db.write(ledger.drop_need, disk, copy)
    assert await db.read(_claims) == {disk}
