"""Choosing a host among many: of more than a few, some are looked at, and none that will do is missed."""

from __future__ import annotations

from typing import Any

import pytest

from cumulet.core import resource_classes, scheduling
from cumulet.core.scheduling import SOME, Chosen
from cumulet.db.engine import Database, Tx
from cumulet.reconcile import agents
from cumulet.reconcile.schedule import Ask, Refused

pytestmark = pytest.mark.anyio

#: More than are looked at for one choice.
HOSTS = 3 * SOME
SMALL = {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 1}


def _hosts(tx: Tx) -> None:
    facts = {
        "inventories": {"VCPU": {"total": 8}, "MEMORY_MB": {"total": 8192}, "DISK_GB": {"total": 100}},
        "traits": ["COMPUTE_NODE"],
    }
    resource_classes.seed(tx)
    for i in range(HOSTS):
        id = agents.register(tx, "host", f"h{i}", "token")
        scheduling.register_host(tx, id, f"h{i}", facts)


def _place(tx: Tx, **more: Any) -> Chosen | Refused:
    return scheduling.place(tx, tx.uuid(), "project", "user", Ask(resources=SMALL, **more))


def _names(found: list[Chosen | Refused]) -> list[str]:
    assert all(isinstance(one, Chosen) for one in found), found
    return [one.name for one in found if isinstance(one, Chosen)]


async def test_servers_are_spread_over_many_hosts(db: Database) -> None:
    await db.write(_hosts)
    found = _names([await db.write(_place) for _ in range(HOSTS)])
    # The best of some: nobody gets many while others have none.
    assert len(set(found)) > HOSTS * 0.6
    assert max(found.count(name) for name in found) <= 3


@pytest.mark.parametrize("why", ["disabled", "silent", "forced_down", "destroyed"])
async def test_the_only_host_that_is_there_is_found(db: Database, why: str) -> None:
    await db.write(_hosts)
    await db.write(lambda tx: tx.run(f"update agents set {why} = true where name <> 'h70'"))
    assert _names([await db.write(_place) for _ in range(3)]) == ["h70"] * 3


async def test_the_only_host_with_a_trait_is_found(db: Database) -> None:
    await db.write(_hosts)
    await db.write(lambda tx: tx.run("insert into traits (name, created_at) values ('FAST', 0)"))
    await db.write(
        lambda tx: tx.run(
            "insert into provider_traits (provider_id, trait) select id, 'FAST' from resource_providers where name = 'h5'"
        )
    )
    found = _names([await db.write(_place, required_traits=frozenset({"FAST"})) for _ in range(5)])
    assert found == ["h5"] * 5


async def test_the_host_that_is_asked_for_is_found(db: Database) -> None:
    await db.write(_hosts)
    asks = ({"host": "h90"}, {"same_host": frozenset({"h7"})}, {"policy": "affinity", "members": {"h50": 2}})
    found = [await db.write(lambda tx, ask=ask: _place(tx, **ask)) for ask in asks]
    assert _names(found) == ["h90", "h7", "h50"]


async def test_members_of_a_soft_group_are_near(db: Database) -> None:
    await db.write(_hosts)
    found = [await db.write(_place, policy="soft-affinity", members={"h64": 1}) for _ in range(5)]
    assert _names(found) == ["h64"] * 5


async def test_a_refusal_tells_of_all_hosts(db: Database) -> None:
    await db.write(_hosts)
    found = await db.write(_place, zone="moon")
    assert found == Refused(f"No valid host was found. {HOSTS} hosts: {HOSTS} not in zone moon.")
