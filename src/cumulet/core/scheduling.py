"""Reads what the scheduler needs, and takes room on the host that it chose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from cumulet.db.engine import Row, Tx
from cumulet.errors import Invalid
from cumulet.reconcile.schedule import Ask, Candidate, Inventory, Refused, choose, fits

#: Of more hosts than this the best of some is chosen: to look at all of a thousand for each server would cost more
#: than the server does. Only if none of them will do are all looked at.
SOME = 32
#: How often a choice is made again because somebody else took the room.
TRIES = 5


_HOSTS = (
    "select a.id, a.name, a.number, a.silent, a.forced_down, a.destroyed, a.disabled, a.disabled_reason, a.zone, "
    "p.id as provider from agents a join resource_providers p on p.agent = a.id where a.kind = 'host'"
)


class Chosen(msgspec.Struct, frozen=True):
    """The host and what was taken on it."""

    host: str
    name: str


def candidates(tx: Tx, hosts: list[Row] | None = None) -> list[Candidate]:
    """Every host, or those of the rows, with what it has and what is used of it."""
    which, known = "", {}
    if hosts is None:
        hosts = tx.all(f"{_HOSTS} order by a.number")
    else:
        which, known = (
            "where provider_id in :providers",
            {"providers": tuple(row["provider"] for row in hosts)},
        )
    inventories: dict[str, dict[str, Inventory]] = {}
    for row in tx.all(f"select * from inventories {which}", **known):
        inventories.setdefault(row["provider_id"], {})[row["resource_class"]] = _inventory(row)
    used: dict[str, dict[str, int]] = {}
    for row in tx.all(
        f"select provider_id, resource_class, sum(used) as used from allocations {which} "
        "group by provider_id, resource_class",
        **known,
    ):
        used.setdefault(row["provider_id"], {})[row["resource_class"]] = int(row["used"])
    traits: dict[str, set[str]] = {}
    for row in tx.all(f"select provider_id, trait from provider_traits {which}", **known):
        traits.setdefault(row["provider_id"], set()).add(row["trait"])
    zones = zones_of_hosts(tx)
    return [
        Candidate(
            id=row["id"],
            name=row["name"],
            zone=zones.get(row["name"]) or row["zone"],
            away=row["silent"] or row["forced_down"] or row["destroyed"],
            disabled=row["disabled"],
            disabled_reason=row["disabled_reason"],
            inventories=inventories.get(row["provider"], {}),
            used=used.get(row["provider"], {}),
            traits=frozenset(traits.get(row["provider"], ())),
        )
        for row in hosts
    ]


def _some(tx: Tx, ask: Ask) -> list[Row] | None:
    """Some hosts that may do, from a place in their order that chance chooses; None for all that there are."""
    most = int(tx.value("select max(number) from agents") or 0)
    if most <= SOME:
        return None
    usable = f"{_HOSTS} and not a.silent and not a.forced_down and not a.destroyed and not a.disabled"
    named = {ask.host} if ask.host is not None else ask.same_host
    if not named and ask.policy == "affinity":
        named = frozenset(ask.members)
    if named:
        return tx.all(f"{usable} and a.name in :names order by a.number", names=named)
    start = tx.chance.below(most) + 1
    order = "order by a.number limit :some"
    rows = tx.all(f"{usable} and a.number >= :start {order}", start=start, some=SOME)
    if len(rows) < SOME:
        rows += tx.all(f"{usable} and a.number < :start {order}", start=start, some=SOME - len(rows))
    if ask.policy == "soft-affinity" and ask.members:
        have = {row["id"] for row in rows}
        near = tx.all(f"{usable} and a.name in :names", names=frozenset(ask.members))
        rows += [row for row in near if row["id"] not in have]
    return sorted(rows, key=lambda row: int(row["number"]))


def zones_of_hosts(tx: Tx) -> dict[str, str]:
    """Host name → availability zone, for those that an aggregate puts into one."""
    rows = tx.all(
        "select h.host, a.metadata from aggregates a join aggregate_hosts h on h.aggregate_id = a.id"
    )
    return {
        row["host"]: row["metadata"]["availability_zone"]
        for row in rows
        if "availability_zone" in row["metadata"]
    }


def _inventory(row: Row) -> Inventory:
    return Inventory(
        total=row["total"], reserved=row["reserved"], ratio=row["allocation_ratio"], min_unit=row["min_unit"],
        max_unit=row["max_unit"], step_size=row["step_size"],
    )  # fmt: skip


def place(tx: Tx, consumer: str, project_id: str, user_id: str, ask: Ask) -> Chosen | Refused:
    """Choose a host and write the consumer's allocation on it."""
    for _ in range(TRIES):
        some = _some(tx, ask)
        found = choose(ask, candidates(tx, some))
        if isinstance(found, Refused) and some is not None:
            found = choose(ask, candidates(tx))
        if isinstance(found, Refused):
            return found
        if take(tx, found.id, consumer, project_id, user_id, ask.resources):
            return Chosen(found.id, found.name)
    return Refused("No valid host was found. Others took the room on every host that was chosen.")


def take(
    tx: Tx, host: str, consumer: str, project_id: str, user_id: str, resources: Mapping[str, int]
) -> bool:
    """Write an allocation if the host has room for it, by a count under the provider's lock."""
    provider = tx.value(f"select id from resource_providers where agent = :host{tx.for_update}", host=host)
    if provider is None:
        return False
    rows = tx.all(
        "select i.*, (select coalesce(sum(l.used), 0) from allocations l where l.provider_id = i.provider_id "
        "and l.resource_class = i.resource_class) as in_use from inventories i where i.provider_id = :provider",
        provider=provider,
    )
    known = {row["resource_class"]: row for row in rows}
    wanted = {name: amount for name, amount in resources.items() if amount}
    for name, amount in wanted.items():
        row = known.get(name)
        if row is None or not fits(_inventory(row), amount):
            return False
        if int(row["in_use"]) + amount > _inventory(row).capacity:
            return False
    free(tx, consumer)
    tx.insert(
        "consumers", id=consumer, project_id=project_id, user_id=user_id, generation=1, type="INSTANCE",
        created_at=tx.now, updated_at=tx.now,
    )  # fmt: skip
    for name, amount in wanted.items():
        tx.insert(
            "allocations", consumer_id=consumer, provider_id=provider, resource_class=name, used=amount,
            updated_at=tx.now,
        )  # fmt: skip
    tx.run("update resource_providers set generation = generation + 1 where id = :id", id=provider)
    return True


def register_host(tx: Tx, agent: str, name: str, facts: Mapping[str, Any]) -> None:
    """A host said what it has: its provider and inventories follow.

    What is in use is never taken away by a smaller number: the inventory shows it, and the host takes
    nothing new. A host that was retired gets no provider: it has joined only to close what is left on it.
    Raises Invalid for a resource that has no class.
    """
    if tx.value("select retired from agents where id = :agent", agent=agent):
        return
    provider = tx.value("select id from resource_providers where agent = :agent", agent=agent)
    if provider is None:
        provider = tx.uuid()
        tx.insert(
            "resource_providers", id=provider, name=name, root_id=provider, agent=agent, created_at=tx.now,
            updated_at=tx.now,
        )  # fmt: skip
    inventories = facts.get("inventories", {})
    known = tx.values("select name from resource_classes where name in :names", names=tuple(inventories))
    for resource in sorted(set(inventories).difference(known)):
        raise Invalid(
            f"Invalid input for field/attribute inventories: there is no resource class {resource}."
        )
    for resource, inventory in inventories.items():
        tx.run(
            "insert into inventories (provider_id, resource_class, total, reserved, allocation_ratio, max_unit, updated_at) "
            "values (:provider, :class, :total, :reserved, :ratio, :total, :now) on conflict (provider_id, resource_class) "
            "do update set total = excluded.total, reserved = excluded.reserved, max_unit = excluded.max_unit, "
            "allocation_ratio = excluded.allocation_ratio, updated_at = excluded.updated_at",
            provider=provider, total=int(inventory["total"]), reserved=int(inventory.get("reserved", 0)),
            ratio=float(inventory.get("ratio", 1.0)), now=tx.now, **{"class": resource},
        )  # fmt: skip
    for trait in facts.get("traits", ()):
        tx.run(
            "insert into traits (name, created_at) values (:t, :now) on conflict do nothing",
            t=trait,
            now=tx.now,
        )
        tx.run(
            "insert into provider_traits (provider_id, trait) values (:p, :t) on conflict do nothing",
            p=provider,
            t=trait,
        )


def free(tx: Tx, consumer: str) -> None:
    """Remove the consumer and all that it uses; none is no error."""
    tx.delete("consumers", consumer)


def pass_on(tx: Tx, consumer: str, to: str, type: str) -> None:
    """Another consumer has from now on what this one used; none is no error."""
    tx.run(
        "insert into consumers (id, project_id, user_id, generation, type, created_at, updated_at) "
        "select :to, project_id, user_id, 1, :type, created_at, :now from consumers where id = :id",
        to=to, type=type, now=tx.now, id=consumer,
    )  # fmt: skip
    tx.run("update allocations set consumer_id = :to where consumer_id = :id", to=to, id=consumer)
    tx.delete("consumers", consumer)
