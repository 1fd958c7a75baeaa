"""Quota: which limit counts, what is refused, and that two who count at once do not both get the last one."""

from __future__ import annotations

import threading

import pytest

from cumulet.core import quota
from cumulet.db.engine import PostgresDatabase, SqliteDatabase, Tx
from cumulet.errors import OverQuota

Db = SqliteDatabase | PostgresDatabase


def test_the_nearest_limit_counts(db: Db) -> None:
    def work(tx: Tx) -> list[int]:
        found = [quota.limits(tx, "compute", "p", "u")["cores"]]
        for owner, limit in ((quota.DEFAULT_CLASS, 30), ("p", 40), (quota.user_owner("p", "u"), 5)):
            quota.set_limits(tx, "compute", owner, {"cores": limit})
            found.append(quota.limits(tx, "compute", "p", "u")["cores"])
        found += [quota.limits(tx, "compute", owner)["cores"] for owner in ("p", "q")]
        return found

    assert db.write_now(work) == [20, 30, 40, 5, 40, 30]


def test_areas_do_not_mix(db: Db) -> None:
    def work(tx: Tx) -> tuple[int, int]:
        quota.set_limits(tx, "volume", "p", {"volumes": 3, "volumes_ssd": 1})
        found = quota.limits(tx, "volume", "p")
        return found["volumes_ssd"], quota.limits(tx, "compute", "p").get("volumes", 0)

    assert db.write_now(work) == (1, 0)


def test_forgetting_a_project_forgets_its_users_and_nobody_else(db: Db) -> None:
    def work(tx: Tx) -> list[int]:
        owners = ("p", quota.user_owner("p", "u"), quota.user_owner("pp", "u"), quota.DEFAULT_CLASS)
        for owner in owners:
            quota.set_limits(tx, "compute", owner, {"cores": 7})
        quota.forget_limits(tx, "compute", "p")
        return [len(quota.overrides(tx, "compute", owner)) for owner in owners]

    assert db.write_now(work) == [0, 0, 1, 1]


def test_what_does_not_fit_is_named() -> None:
    with pytest.raises(OverQuota, match=r"Quota exceeded for cores .*cores: requested 8, used 16, limit 20"):
        quota.check({"cores": 20, "ram": 100}, {"cores": 16, "ram": 50}, {"cores": 8, "ram": 50})


def test_no_limit_and_nothing_asked_always_fit() -> None:
    quota.check({"cores": -1, "ram": 10}, {"cores": 10**9, "ram": 20}, {"cores": 10**9, "ram": 0, "new": 5})


def test_two_who_count_at_once_do_not_both_get_the_last_one(db: Db) -> None:
    start, results = threading.Barrier(2), list[str]()

    def take(tx: Tx) -> str:
        quota.lock_project(tx, "p")
        used = tx.value("select count(*) from keypairs where user_id = 'u'")
        try:
            quota.check({"key_pairs": 1}, {"key_pairs": used}, {"key_pairs": 1})
        except OverQuota:
            return "refused"
        tx.insert(
            "keypairs", id=tx.uuid(), user_id="u", name=tx.uuid(), public_key="", fingerprint="",
            created_at=tx.now, number=1,
        )  # fmt: skip
        return "taken"

    def run() -> None:
        start.wait()
        results.append(db.write_now(take))

    if isinstance(db, SqliteDatabase):
        results += [db.write_now(take), db.write_now(take)]
    else:
        threads = [threading.Thread(target=run) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(results) == ["refused", "taken"]
