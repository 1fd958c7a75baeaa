"""Allocations: nobody gets what is not there, however many ask at once, and use is counted."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from cumulet.core import allocations, inventory, providers, usages
from cumulet.core.inventory import Inventory
from cumulet.db.engine import PostgresDatabase, SqliteDatabase, Tx
from cumulet.errors import Conflict, Invalid, NoRoom

Db = SqliteDatabase | PostgresDatabase


def provider(tx: Tx, name: str = "one", vcpus: int = 4) -> str:
    key = providers.create(tx, name).id
    inventory.replace(tx, key, {"VCPU": Inventory(vcpus), "MEMORY_MB": Inventory(1024)})
    return key


def at_once(db: Db, *works: Callable[[], object]) -> list[str]:
    """What came of works that begin together, sorted: "done", or the name of the error."""
    start, results = threading.Barrier(len(works)), list[str]()

    def run(work: Callable[[], object], wait: bool) -> None:
        if wait:
            start.wait()
        try:
            work()
            results.append("done")
        except (NoRoom, Conflict, Invalid) as error:
            results.append(type(error).__name__)

    if isinstance(db, SqliteDatabase):
        for work in works:
            run(work, False)
    else:
        threads = [threading.Thread(target=run, args=(work, True)) for work in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return sorted(results)


def test_set_and_removed(db: Db) -> None:
    key = db.write_now(provider)
    db.write_now(allocations.set, "c", "p", "u", {key: {"VCPU": 2, "MEMORY_MB": 512}})
    assert db.read_now(allocations.of, ["c", "d"]) == {"c": {key: {"VCPU": 2, "MEMORY_MB": 512}}}
    assert db.read_now(usages.by_provider) == {key: {"VCPU": 2, "MEMORY_MB": 512}}
    db.write_now(allocations.set, "c", "p", "u", {key: {"VCPU": 1}})
    assert db.read_now(usages.by_provider) == {key: {"VCPU": 1}}
    assert db.write_now(allocations.remove, "c")
    assert not db.write_now(allocations.remove, "c")
    assert db.read_now(usages.by_provider) == {}
    assert db.read_now(lambda tx: tx.value("select count(*) from consumers")) == 0


def test_what_is_refused_leaves_nothing(db: Db) -> None:
    key = db.write_now(provider)
    for taken, error in (
        ({key: {"VCPU": 5}}, NoRoom), ({key: {"DISK_GB": 1}}, NoRoom), ({"nobody": {"VCPU": 1}}, Invalid),
        ({key: {"VCPU": 1, "MEMORY_MB": 2048}}, NoRoom),
    ):  # fmt: skip
        with pytest.raises(error):
            db.write_now(allocations.set, "c", "p", "u", taken)
    assert db.read_now(lambda tx: tx.value("select count(*) from consumers")) == 0
    assert db.read_now(usages.by_provider) == {}


def test_the_last_room_is_given_once(db: Db) -> None:
    key = db.write_now(provider)

    def take(consumer: str) -> Callable[[], object]:
        return lambda: db.write_now(allocations.set, consumer, "p", "u", {key: {"VCPU": 3}})

    assert at_once(db, take("a"), take("b")) == ["NoRoom", "done"]
    assert db.read_now(usages.by_provider) == {key: {"VCPU": 3}}


def test_a_new_consumer_is_made_once(db: Db) -> None:
    one, other = db.write_now(provider), db.write_now(provider, "other")

    def take(key: str) -> Callable[[], object]:
        wanted = {"c": allocations.Wanted(taken={key: {"VCPU": 1}}, generation=None)}
        return lambda: db.write_now(allocations.replace, wanted)

    assert at_once(db, take(one), take(other)) == ["Conflict", "done"]
    assert len(db.read_now(allocations.of, ["c"])["c"]) == 1


def test_moves_in_opposite_directions_do_not_block_each_other(db: Db) -> None:
    one, other = db.write_now(provider), db.write_now(provider, "other")
    db.write_now(allocations.set, "a", "p", "u", {one: {"VCPU": 4}})
    db.write_now(allocations.set, "b", "p", "u", {other: {"VCPU": 2}})

    def move(consumer: str, taken: dict[str, dict[str, int]]) -> Callable[[], object]:
        return lambda: db.write_now(allocations.set, consumer, "p", "u", taken)

    works = (
        move("a", {other: {"VCPU": 1}, one: {"VCPU": 1}}),
        move("b", {one: {"VCPU": 1}, other: {"VCPU": 1}}),
    )
    results = at_once(db, *works)
    assert set(results) <= {"done", "NoRoom"}
    used = db.read_now(usages.by_provider)
    assert all(amounts["VCPU"] <= 4 for amounts in used.values())


def test_generations_grow(db: Db) -> None:
    key = db.write_now(provider)
    before = db.read_now(providers.find, key).generation
    db.write_now(allocations.set, "c", "p", "u", {key: {"VCPU": 1}})
    assert db.read_now(providers.find, key).generation == before + 1
    consumer, lines, _ = db.read_now(allocations.of_consumer, "c")
    assert consumer is not None
    assert (consumer.generation, consumer.type, len(lines)) == (1, "INSTANCE", 1)
