"""Host aggregates: named sets of hosts with metadata, and the availability zones that they make.

A host's zone is the ``availability_zone`` of the aggregate that it is in, else its own. It never changes under
servers that are on the host.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from cumulet.core import hosts, numbers, providers
from cumulet.db.engine import Row, Tx
from cumulet.errors import Conflict, CumuletError, Invalid, NotFound

ZONE = "availability_zone"
Action = Literal["add host to", "remove host from", "update", "update metadata of", "delete"]


class Aggregate(msgspec.Struct, frozen=True):
    """An aggregate; ``number`` is the id that the API uses."""

    id: str
    number: int
    name: str
    metadata: Mapping[str, str]
    created_at: float
    updated_at: float | None
    hosts: tuple[str, ...] = ()

    @property
    def zone(self) -> str | None:
        return self.metadata.get(ZONE)


def listing(tx: Tx) -> list[Aggregate]:
    """All aggregates, by number."""
    members: dict[str, list[str]] = {}
    for row in tx.all("select aggregate_id, host from aggregate_hosts order by host"):
        members.setdefault(row["aggregate_id"], []).append(row["host"])
    rows = tx.all("select * from aggregates order by number")
    return [_aggregate(row, members.get(row["id"], [])) for row in rows]


def find(tx: Tx, number: int, *, lock: bool = False) -> Aggregate:
    """One aggregate. Raises NotFound."""
    row = tx.one(f"select * from aggregates where number = :n{tx.for_update if lock else ''}", n=number)
    if row is None:
        raise NotFound(f"Aggregate {number} could not be found.")
    members = tx.values(
        "select host from aggregate_hosts where aggregate_id = :id order by host", id=row["id"]
    )
    return _aggregate(row, members)


def _aggregate(row: Row, members: list[str]) -> Aggregate:
    fields = {name: row[name] for name in Aggregate.__struct_fields__ if name != "hosts"}
    return Aggregate(**fields, hosts=tuple(members))


def create(tx: Tx, name: str, zone: str | None) -> Aggregate:
    """Make an aggregate. Raises Conflict for a name that is taken."""
    number = numbers.following(tx, "aggregates")
    made = tx.insert_new(
        "aggregates", id=tx.uuid(), number=number, name=name, metadata={ZONE: zone} if zone else {},
        created_at=tx.now, updated_at=None,
    )  # fmt: skip
    if not made:
        raise Conflict(f"Aggregate {name} already exists.")
    return find(tx, number)


def update(tx: Tx, number: int, name: str | None, zone: str | msgspec.UnsetType | None) -> Aggregate:
    """Change name and zone; UNSET leaves the zone. Raises NotFound, Conflict for a taken name, Invalid."""
    aggregate = find(tx, number, lock=True)
    if name is not None:
        taken = "select 1 from aggregates where name = :name and id <> :id"
        if tx.one(taken, name=name, id=aggregate.id) is not None:
            raise Conflict(f"Aggregate {name} already exists.")
        tx.update("aggregates", aggregate.id, name=name, updated_at=tx.now)
    if not isinstance(zone, msgspec.UnsetType):
        _merge(tx, aggregate, {ZONE: zone}, "update")
    return find(tx, number)


def set_metadata(tx: Tx, number: int, changes: Mapping[str, str | None]) -> Aggregate:
    """Set metadata, remove what is null, leave the rest. Raises NotFound, Invalid for a zone that cannot be."""
    aggregate = find(tx, number, lock=True)
    _merge(tx, aggregate, changes, "update metadata of")
    return find(tx, number)


def _merge(tx: Tx, aggregate: Aggregate, changes: Mapping[str, str | None], action: Action) -> None:
    if ZONE in changes:
        _check_zone(tx, aggregate, changes[ZONE], action)
    merged = {**aggregate.metadata, **changes}
    kept = {key: value for key, value in merged.items() if value is not None}
    tx.update("aggregates", aggregate.id, metadata=kept, updated_at=tx.now)


def _check_zone(tx: Tx, aggregate: Aggregate, zone: str | None, action: Action) -> None:
    if not zone:
        raise _refused(aggregate, action, "an aggregate cannot have an availability zone without a name")
    if zone == aggregate.zone:
        return
    _check_others(tx, aggregate, zone, list(aggregate.hosts), action)
    for host in aggregate.hosts:
        if _servers(tx, host):
            raise _refused(aggregate, action, f"there are servers on host {host}, whose zone would change")


def _check_others(tx: Tx, aggregate: Aggregate, zone: str, members: list[str], action: Action) -> None:
    """A host can be in one zone only."""
    for other in listing(tx):
        both = sorted(set(other.hosts) & set(members))
        if other.number != aggregate.number and other.zone not in (None, zone) and both:
            raise _refused(
                aggregate, action,
                f"host {both[0]} is already in availability zone {other.zone}, by aggregate {other.name}",
            )  # fmt: skip


def _refused(aggregate: Aggregate, action: Action, reason: str) -> CumuletError:
    kind = Conflict if action in ("add host to", "remove host from") else Invalid
    return kind(f"Cannot {action} aggregate {aggregate.number}. Reason: {reason}.")


def _servers(tx: Tx, host: str) -> int:
    found: int = tx.value(
        "select count(*) from servers s join agents a on a.id = s.host where a.name = :name", name=host
    )
    return found


def delete(tx: Tx, number: int) -> None:
    """Remove an aggregate. Raises NotFound, Invalid while there are hosts in it."""
    aggregate = find(tx, number, lock=True)
    if aggregate.hosts:
        raise _refused(aggregate, "delete", f"it is not empty: {', '.join(aggregate.hosts[:5])}")
    tx.delete("aggregates", aggregate.id)


def add_host(tx: Tx, number: int, name: str) -> Aggregate:
    """Put a host into an aggregate. Raises NotFound, Conflict if it is there, or if its zone cannot change."""
    host = hosts.named(tx, name)
    tx.lock("agents", host.id)
    aggregate = find(tx, number, lock=True)
    if aggregate.zone is not None:
        _check_others(tx, aggregate, aggregate.zone, [name], "add host to")
        if host.zone != aggregate.zone and _servers(tx, name):
            raise _refused(
                aggregate, "add host to",
                f"the availability zone of host {name} would change from {host.zone} to {aggregate.zone}, and "
                "there are servers on it",
            )  # fmt: skip
    if not tx.insert_new("aggregate_hosts", aggregate_id=aggregate.id, host=name):
        raise Conflict(f"Aggregate {number} already has host {name}.")
    tx.update("aggregates", aggregate.id, updated_at=tx.now)
    if host.provider is not None:
        providers.lock(tx, host.provider)
        tx.insert_new("provider_aggregates", provider_id=host.provider, aggregate_id=aggregate.id)
        providers.bump(tx, [host.provider])
    return find(tx, number)


def remove_host(tx: Tx, number: int, name: str) -> Aggregate:
    """Take a host out of an aggregate. Raises NotFound, Conflict if its zone would change under servers."""
    aggregate = find(tx, number, lock=True)
    if name not in aggregate.hosts:
        raise NotFound(f"Cannot remove host {name} in aggregate {number}: it is not in it.")
    if aggregate.zone is not None and _servers(tx, name):
        others = [
            other.zone
            for other in listing(tx)
            if other.number != number and name in other.hosts and other.zone
        ]
        if not others:
            raise _refused(
                aggregate, "remove host from",
                f"host {name} would leave availability zone {aggregate.zone}, and there are servers on it",
            )  # fmt: skip
    tx.run(
        "delete from aggregate_hosts where aggregate_id = :id and host = :name", id=aggregate.id, name=name
    )
    tx.update("aggregates", aggregate.id, updated_at=tx.now)
    _forget(tx, aggregate, name)
    return find(tx, number)


def _forget(tx: Tx, aggregate: Aggregate, name: str) -> None:
    provider = tx.value(
        "select p.id from resource_providers p join agents a on a.id = p.agent where a.name = :name",
        name=name,
    )
    if provider is not None:
        providers.lock(tx, provider)
        tx.run(
            "delete from provider_aggregates where provider_id = :id and aggregate_id = :aggregate",
            id=provider,
            aggregate=aggregate.id,
        )
        providers.bump(tx, [provider])


def zones(tx: Tx) -> dict[str, list[hosts.Host]]:
    """Availability zone → its hosts that are not disabled, by name of the zone; a zone may have none left."""
    found: dict[str, list[Any]] = {}
    for host in hosts.listing(tx):
        here = found.setdefault(host.zone, [])
        if not host.disabled:
            here.append(host)
    return dict(sorted(found.items()))
