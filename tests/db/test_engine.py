"""Transactions behave alike on both databases."""

from __future__ import annotations

import asyncio
import threading

import pytest

from cumulet.db.engine import Database, Duplicate, StillHeld, Tx
from cumulet.db.query import MarkerNotFound, Query, Where, page

pytestmark = pytest.mark.anyio


def add(tx: Tx, id: str, name: str, ram: int = 1) -> None:
    tx.insert(
        "flavors", id=id, flavorid=id, name=name, vcpus=1, ram=ram, disk=0, created_at=tx.now,
        extra_specs={"a": [1, "x"]}, is_public=False,
    )  # fmt: skip


async def test_types_come_back_as_they_went_in(db: Database) -> None:
    await db.write(add, "1", "one")
    row = await db.read(lambda tx: tx.one("select * from flavors where id = :id", id="1"))
    assert row is not None
    assert row["extra_specs"] == {"a": [1, "x"]}
    assert row["is_public"] is False
    assert row["disabled"] is False
    assert row["rxtx_factor"] == 1.0
    assert isinstance(row["created_at"], float)


async def test_an_error_leaves_nothing_of_the_transaction(db: Database) -> None:
    def fail(tx: Tx) -> None:
        add(tx, "1", "one")
        raise KeyError("after the insert")

    with pytest.raises(KeyError):
        await db.write(fail)
    assert await db.read(lambda tx: tx.value("select count(*) from flavors")) == 0


async def test_indexes_and_references_are_told_apart(db: Database) -> None:
    await db.write(add, "1", "one")
    with pytest.raises(Duplicate):
        await db.write(add, "1", "two")
    with pytest.raises(StillHeld):
        await db.write(lambda tx: tx.insert("server_tags", server_id="none", tag="x"))


async def test_a_refused_row_can_be_named_within_the_transaction(db: Database) -> None:
    def rename(tx: Tx) -> None:
        add(tx, "1", "one")
        try:
            add(tx, "1", "two")
        except Duplicate as error:
            raise KeyError("the number is taken") from error

    with pytest.raises(KeyError):
        await db.write(rename)


async def test_lists_as_parameters(db: Database) -> None:
    for i in range(4):
        await db.write(add, str(i), f"n{i}")
    ask = "select id from flavors where id in :ids and name <> :not order by id"
    assert await db.read(lambda tx: tx.values(ask, ids=("1", "3", "9"), **{"not": "n3"})) == ["1"]
    assert await db.read(lambda tx: tx.values(ask, ids=(), **{"not": "x"})) == []


async def test_percent_signs_and_casts_are_left_alone(db: Database) -> None:
    await db.write(add, "1", "50%")
    assert await db.read(lambda tx: tx.value("select id from flavors where name like '50%'")) == "1"


@pytest.mark.parametrize("direction", ["asc", "desc"])
async def test_pages_show_every_row_once(db: Database, direction: str) -> None:
    for i in range(10):
        await db.write(add, str(i), f"n{i}", i // 4)
    seen: list[str] = []
    while True:
        query = Query(limit=3, marker=seen[-1] if seen else None, sort=(("ram", direction), ("name", "asc")))
        rows = await db.read(page, "flavors", Where(), query, {"ram": "ram", "name": "name"})
        if not rows:
            break
        seen += [row["id"] for row in rows]
    assert len(seen) == 10
    assert sorted(seen) == [str(i) for i in range(10)]
    rams = [int(i) // 4 for i in seen]
    assert rams == sorted(rams, reverse=direction == "desc")


async def test_a_marker_that_is_not_there(db: Database) -> None:
    with pytest.raises(MarkerNotFound):
        await db.read(page, "flavors", Where(), Query(marker="none"), {})


async def test_waiters_wake_after_the_commit(db: Database) -> None:
    with db.wake.listen("x", "y") as waiter:

        def write(tx: Tx) -> None:
            add(tx, "1", "one")
            tx.wakes.add("y")

        await db.write(write)
        assert await waiter.wait(5)
        assert not await waiter.wait(0.01)


async def test_who_is_cancelled_waits_for_its_transaction(db: Database) -> None:
    """A client that hangs up, or a process that stops: afterwards nothing is still being written."""
    began, go_on = threading.Event(), threading.Event()

    def slowly(tx: Tx) -> None:
        began.set()
        assert go_on.wait(30)
        add(tx, "1", "one")

    if db.dialect == "sqlite":
        go_on.set()  # There a transaction runs on the loop's own thread: nothing can cancel it.
    writing = asyncio.create_task(db.write(slowly))
    assert await asyncio.to_thread(began.wait, 30)
    writing.cancel()
    await asyncio.wait([writing], timeout=0.05)
    assert writing.done() == (db.dialect == "sqlite")
    go_on.set()
    await asyncio.wait([writing])
    assert writing.cancelled() == (db.dialect == "postgresql")
    assert await db.read(lambda tx: tx.values("select id from flavors")) == ["1"]
