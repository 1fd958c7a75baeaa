"""Who has taken what from which provider. Written under the locks of the consumers and the providers.

    allocations.set(tx, server_id, project_id, user_id, {provider_id: {"VCPU": 2, "MEMORY_MB": 4096}})
    allocations.remove(tx, server_id)

A consumer's allocations are always replaced as a whole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec

from cumulet.core import inventory, providers, resource_classes, usages
from cumulet.core.inventory import Inventory
from cumulet.core.providers import CONCURRENT, Provider
from cumulet.db.engine import Row, Tx, chunks
from cumulet.errors import Conflict, Invalid, NoRoom, NotFound

Taken = Mapping[str, Mapping[str, int]]

#: What servers are, to those who look at usages.
SERVER = "INSTANCE"
#: Project and user of consumers that were made before version 1.8 asked for them.
NOBODY = "00000000-0000-0000-0000-000000000000"


class Consumer(msgspec.Struct, frozen=True):
    """Whoever has taken something."""

    id: str
    project_id: str
    user_id: str
    generation: int
    type: str | None


class Wanted(msgspec.Struct, frozen=True):
    """What a consumer shall have from now on; nothing, and it goes."""

    taken: Taken
    project_id: str = NOBODY
    user_id: str = NOBODY
    #: None: as it was.
    type: str | None = None
    #: What it must be at: None for a consumer that is not there yet, UNSET for whatever it is.
    generation: int | msgspec.UnsetType | None = msgspec.UNSET


class Line(msgspec.Struct, frozen=True):
    """One amount that is taken."""

    consumer_id: str
    provider_id: str
    resource_class: str
    used: int
    updated_at: float


def set(tx: Tx, consumer_id: str, project_id: str, user_id: str, taken: Taken, *, type: str = SERVER) -> None:
    """Give a consumer exactly this. Raises NoRoom if a provider has no room, Invalid for one that is not there."""
    replace(tx, {consumer_id: Wanted(taken=taken, project_id=project_id, user_id=user_id, type=type)})


def remove(tx: Tx, consumer_id: str) -> bool:
    """Take everything from a consumer; False if it had nothing."""
    had = tx.run("delete from allocations where consumer_id = :id", id=consumer_id)
    tx.delete("consumers", consumer_id)
    return had > 0


def of(tx: Tx, consumer_ids: Collection[str]) -> dict[str, dict[str, dict[str, int]]]:
    """Consumer → provider → resource class → how much it has. Who has nothing is not in the answer."""
    found: dict[str, dict[str, dict[str, int]]] = {}
    for some in chunks(consumer_ids):
        for row in tx.all("select * from allocations where consumer_id in :ids", ids=some):
            provider = found.setdefault(row["consumer_id"], {}).setdefault(row["provider_id"], {})
            provider[row["resource_class"]] = row["used"]
    return found


def of_consumer(tx: Tx, consumer_id: str) -> tuple[Consumer | None, list[Line], dict[str, Provider]]:
    """A consumer (None if it has nothing), what it has, and the providers that it has it from."""
    lines = [
        _line(row) for row in tx.all("select * from allocations where consumer_id = :id", id=consumer_id)
    ]
    from_ = {line.provider_id: providers.find(tx, line.provider_id) for line in lines}
    return _consumers(tx, [consumer_id]).get(consumer_id) if lines else None, lines, from_


def of_provider(tx: Tx, provider_id: str) -> tuple[Provider, list[Line], dict[str, Consumer]]:
    """A provider, what is taken from it, and by whom. Raises NotFound."""
    provider = providers.find(tx, provider_id)
    lines = [
        _line(row) for row in tx.all("select * from allocations where provider_id = :id", id=provider_id)
    ]
    return provider, lines, _consumers(tx, {line.consumer_id for line in lines})


def _line(row: Row) -> Line:
    return Line(**{name: row[name] for name in Line.__struct_fields__})


def _consumers(tx: Tx, ids: Iterable[str], *, lock: bool = False) -> dict[str, Consumer]:
    found: dict[str, Consumer] = {}
    for some in chunks(sorted(ids)):
        rows = tx.all(
            "select id, project_id, user_id, generation, type from consumers where id in :ids order by id"
            + (tx.for_update if lock else ""),
            ids=some,
        )
        found.update({row["id"]: Consumer(**row) for row in rows})
    return found


def replace(tx: Tx, wanted: Mapping[str, Wanted]) -> None:
    """Give each consumer exactly what it is to have, all or none of it.

    Raises Conflict for a consumer that is not at its generation, Invalid for a provider or class that is not
    there, NoRoom if a provider has not got it: no such line, beyond its units, or no capacity left. What lowers
    the use of a provider that is over its capacity is allowed.
    """
    had = _claimed(tx, wanted)
    for consumer_id, change in wanted.items():
        _check_generation(consumer_id, change, had.get(consumer_id))
    before = of(tx, list(had))
    touched = {provider for change in wanted.values() for provider in change.taken}
    emptied = {
        provider for key, change in wanted.items() if not change.taken for provider in before.get(key, {})
    }
    found = providers.lock_all(tx, touched | emptied)
    missing = sorted(touched - found.keys())
    if missing:
        raise Invalid(f"Allocation for resource provider '{', '.join(missing)}' that does not exist.")
    _check_room(tx, wanted, before, touched)
    for consumer_id, change in wanted.items():
        _write(tx, consumer_id, change, had.get(consumer_id))
    providers.bump(tx, touched | emptied)


def _claimed(tx: Tx, wanted: Mapping[str, Wanted]) -> dict[str, Consumer]:
    """Lock the consumers, making rows for those that are not there; return those that were.

    Whoever makes a row keeps others from making it until the end of the transaction, so two who give the same
    new consumer something do so one after the other.
    """
    old = [
        key
        for key, change in sorted(wanted.items())
        if not tx.insert_new(
            "consumers", id=key, project_id=change.project_id, user_id=change.user_id, generation=1,
            type=change.type, created_at=tx.now, updated_at=tx.now,
        )
    ]  # fmt: skip
    return _consumers(tx, old, lock=True)


def _check_generation(consumer_id: str, change: Wanted, had: Consumer | None) -> None:
    if isinstance(change.generation, msgspec.UnsetType):
        return
    current = had.generation if had else None
    if change.generation != current:
        expected, got = ("null" if value is None else value for value in (current, change.generation))
        raise Conflict(
            f"consumer generation conflict - expected {expected} but got {got} for consumer {consumer_id}",
            code=CONCURRENT,
        )


def _check_room(
    tx: Tx, wanted: Mapping[str, Wanted], before: Mapping[str, Taken], touched: Collection[str]
) -> None:
    """``before``: what these consumers have now, which they give back."""
    lines = inventory.lines(tx, touched)
    used = usages.by_provider(tx, touched)
    asked: dict[tuple[str, str], int] = {}
    for change in wanted.values():
        for provider, amounts in change.taken.items():
            for name, amount in amounts.items():
                line = lines.get(provider, {}).get(name)
                _check_line(tx, provider, name, line, amount)
                asked[provider, name] = asked.get((provider, name), 0) + amount
    for (provider, name), amount in asked.items():
        now = used.get(provider, {}).get(name, 0)
        own = sum(taken.get(provider, {}).get(name, 0) for taken in before.values())
        capacity = lines[provider][name].capacity
        then = now - own + amount
        if then > capacity and (now == 0 or then > now):
            raise NoRoom(
                f"Unable to create allocation for '{name}' on resource provider '{provider}'. The requested "
                f"amount would exceed the capacity: requested {amount}, used {now - own}, capacity {capacity}."
            )


def _check_line(tx: Tx, provider: str, name: str, line: Inventory | None, amount: int) -> None:
    if line is None:
        try:
            resource_classes.check_known(tx, [name])
        except NotFound as error:
            raise Invalid(f"Unable to allocate inventory: {error.message}") from None
        raise NoRoom(f"Inventory for '{name}' on resource provider '{provider}' invalid: it has none.")
    if not line.takes(amount):
        raise NoRoom(
            f"Unable to create allocation for '{name}' on resource provider '{provider}'. The requested amount "
            f"{amount} would violate inventory constraints: from {line.min_unit} to {line.max_unit}, in steps "
            f"of {line.step_size}."
        )


def _write(tx: Tx, consumer_id: str, change: Wanted, had: Consumer | None) -> None:
    amounts = [
        (provider, name, amount) for provider, lines in change.taken.items() for name, amount in lines.items()
    ]
    if had is not None:
        tx.run("delete from allocations where consumer_id = :id", id=consumer_id)
    if not amounts:
        tx.delete("consumers", consumer_id)
        return
    if had is not None:
        tx.update(
            "consumers", consumer_id, project_id=change.project_id, user_id=change.user_id,
            type=change.type or had.type, generation=had.generation + 1, updated_at=tx.now,
        )  # fmt: skip
    for some in chunks(amounts, 50):
        values = ", ".join(f"(:consumer, :p{i}, :c{i}, :u{i}, :now)" for i in range(len(some)))
        params: dict[str, str | int] = {}
        for i, (provider, name, amount) in enumerate(some):
            params.update({f"p{i}": provider, f"c{i}": name, f"u{i}": amount})
        tx.run(
            "insert into allocations (consumer_id, provider_id, resource_class, used, updated_at) "
            f"values {values}",
            consumer=consumer_id,
            now=tx.now,
            **params,
        )
