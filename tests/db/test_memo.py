"""What a transaction remembers of what it read, and what makes it forget."""

from __future__ import annotations

import pytest

from cumulet.db import schema
from cumulet.db.engine import CASCADES, Database, Tx

pytestmark = pytest.mark.anyio


def _agent(tx: Tx, id: str) -> None:
    tx.insert(
        "agents", id=id, kind="host", name=id, token_digest="", facts={"a": 1}, created_at=tx.now,
        updated_at=tx.now, number=int(tx.value("select count(*) from agents")) + 1,
    )  # fmt: skip


async def test_a_row_is_read_once_and_follows_what_is_written(db: Database) -> None:
    def work(tx: Tx) -> None:
        _agent(tx, "one")
        _agent(tx, "two")
        assert tx.row("agents", "one") is not None
        before = tx.statements
        tx.update("agents", "one", silent=True, facts={"b": [1, 2]}, directory=None)
        kept = tx.row("agents", "one")
        assert tx.statements == before + 1
        assert kept == tx.one("select * from agents where id = 'one'")
        # Whatever else writes the table makes it read again.
        tx.update("agents", "two", silent=True)
        tx.run("update agents set name = 'three' where id = 'one'")
        assert tx.row("agents", "one") == tx.one("select * from agents where id = 'one'")
        tx.delete("agents", "one")
        assert tx.row("agents", "one") is None
        tx.update("agents", "one", silent=True)
        assert tx.row("agents", "one") is None

    await db.write(work)


async def test_a_delete_forgets_what_it_may_have_reached(db: Database) -> None:
    def work(tx: Tx) -> None:
        reads = []

        def read() -> int:
            reads.append(1)
            return len(reads)

        assert tx.memo("x", ("needs",), read) == tx.memo("x", ("needs",), read) == 1
        tx.run("delete from interfaces")
        assert tx.memo("x", ("needs",), read) == 1
        tx.run("delete from needs where claim = 'a'")
        assert tx.memo("x", ("needs",), read) == 2
        assert tx.memo("y", ("allocations",), read) == 3
        tx.delete("consumers", "a")
        assert tx.memo("y", ("allocations",), read) == 4
        tx.delete("claims", "a")
        assert tx.memo("x", ("needs",), read) == 5

    await db.write(work)


def _reached(table: str) -> set[str]:
    """Tables with rows that go or are changed when one of the table's goes, by the schema's foreign keys."""
    found: set[str] = set()
    gone = [table]
    while gone:
        left = gone.pop()
        for other in schema.metadata.tables.values():
            for key in other.foreign_keys:
                if key.column.table.name != left or key.ondelete not in ("CASCADE", "SET NULL"):
                    continue
                if key.ondelete == "CASCADE" and other.name not in found:
                    gone.append(other.name)
                found.add(other.name)
    return found


def test_what_a_delete_reaches_is_as_the_schema_says() -> None:
    for table, reached in CASCADES.items():
        assert _reached(table) == set(reached), table
