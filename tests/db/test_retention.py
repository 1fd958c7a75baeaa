"""The history of deleted servers is kept as long as the setting says, and no longer."""

from __future__ import annotations

import pytest

from cumulet.core import retention
from cumulet.db.engine import Database, Tx

pytestmark = pytest.mark.anyio


def _history(tx: Tx, name: str, age: float) -> None:
    at = tx.now - age * retention.DAY
    tx.insert("deleted_servers", id=name, project_id="p", name=name, created_at=at, deleted_at=at, server={})
    action = {"action": "delete", "request_id": "r", "started_at": at, "updated_at": at}
    tx.insert("actions", id=f"a-{name}", server_id=name, **action)
    tx.insert("action_events", id=f"e-{name}", action_id=f"a-{name}", event="x", started_at=at)


def _left(tx: Tx) -> tuple[list[str], list[str], list[str]]:
    return (
        tx.values("select id from deleted_servers order by id"),
        tx.values("select id from actions order by id"),
        tx.values("select id from action_events order by id"),
    )


async def test_what_is_too_old_goes_with_all_that_belongs_to_it(db: Database) -> None:
    await db.write(_history, "old", 91)
    await db.write(_history, "young", 89)
    assert await db.write(retention.forget, 90) is False
    assert await db.read(_left) == (["young"], ["a-young"], ["e-young"])


async def test_much_goes_in_slices(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "SLICE", 2)
    for i in range(3):
        await db.write(_history, f"old{i}", 100 - i)
    assert await db.write(retention.forget, 90) is True
    assert (await db.read(_left))[0] == ["old2"]
    assert await db.write(retention.forget, 90) is False
    assert (await db.read(_left))[0] == []
