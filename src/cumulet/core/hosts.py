"""Hosts as compute's administrators see them: services to disable, force down or take out; hypervisors.

A host is an agent of kind "host". What it has is the inventory of its resource provider; what is used of it
is counted from the allocations.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from cumulet.core import inventory, providers, scheduling, usages
from cumulet.core.inventory import Inventory
from cumulet.core.resource_classes import DISK_GB, MEMORY_MB, VCPU
from cumulet.db.engine import Row, Tx, chunks
from cumulet.db.query import MarkerNotFound
from cumulet.errors import Conflict, NotFound
from cumulet.reconcile import agents

#: Trait of a host that gets no new servers.
DISABLED = "COMPUTE_STATUS_DISABLED"


class Host(msgspec.Struct, frozen=True):
    """A host; ``id`` is its agent's, ``provider`` its resource provider's (None before its first hello)."""

    id: str
    number: int
    name: str
    up: bool
    disabled: bool
    disabled_reason: str | None
    forced_down: bool
    zone: str
    seen_at: float | None
    provider: str | None
    facts: Mapping[str, Any]


def up(row: Row) -> bool:
    """True if an agent's row says that it is there: it has spoken, is not judged silent, nor forced down."""
    return (
        row["session"] is not None and not row["silent"] and not row["forced_down"] and not row["destroyed"]
    )


_SELECT = (
    "select a.*, p.id as provider from agents a left join resource_providers p on p.agent = a.id "
    "where a.kind = 'host' and not a.retired and not a.destroyed"
)


def listing(tx: Tx) -> list[Host]:
    """All hosts in service, by number."""
    zones = scheduling.zones_of_hosts(tx)
    return [_host(row, zones) for row in tx.all(f"{_SELECT} order by a.number")]


def _host(row: Row, zones: Mapping[str, str]) -> Host:
    return Host(
        id=row["id"],
        number=row["number"],
        name=row["name"],
        up=up(row),
        disabled=row["disabled"],
        disabled_reason=row["disabled_reason"],
        forced_down=row["forced_down"],
        zone=zones.get(row["name"]) or row["zone"],
        seen_at=row["seen_at"],
        provider=row["provider"],
        facts=row["facts"],
    )


def _one(tx: Tx, column: str, value: str | int) -> Host | None:
    row = tx.one(f"{_SELECT} and {column} = :value", value=value)
    return _host(row, scheduling.zones_of_hosts(tx)) if row else None


def find(tx: Tx, host_id: str | int) -> Host:
    """The host whose service has that id, or that number. Raises NotFound."""
    found = _one(tx, "a.number" if isinstance(host_id, int) else "a.id", host_id)
    if found is None:
        raise NotFound(f"Service {host_id} not found.")
    return found


def named(tx: Tx, name: str) -> Host:
    """The host with that name. Raises NotFound."""
    found = _one(tx, "a.name", name)
    if found is None:
        raise NotFound(f"Compute host {name} could not be found.")
    return found


def hypervisor(tx: Tx, hypervisor_id: str | int) -> Host:
    """The host whose hypervisor has that id (its provider's), or that number. Raises NotFound."""
    found = _one(tx, "a.number" if isinstance(hypervisor_id, int) else "p.id", hypervisor_id)
    if found is None or found.provider is None:
        raise NotFound(f"Hypervisor with ID '{hypervisor_id}' could not be found.")
    return found


def hypervisors(
    tx: Tx, *, pattern: str | None = None, limit: int | None = None, marker: str | int | None = None
) -> list[Host]:
    """A page of the hypervisors, by number; those whose name contains ``pattern``. Raises MarkerNotFound."""
    found = [host for host in listing(tx) if host.provider is not None]
    if pattern is not None:
        found = [host for host in found if pattern.lower() in host.name.lower()]
    if marker is not None:
        places = [i for i, host in enumerate(found) if marker in (host.provider, host.number)]
        if not places:
            raise MarkerNotFound(marker)
        found = found[places[0] + 1 :]
    return found[:limit]


def change(
    tx: Tx,
    host: Host,
    *,
    disabled: bool | None = None,
    reason: str | None = None,
    forced_down: bool | None = None,
) -> Host:
    """Disable or enable a host, with a reason; force it down, or believe again what it reports.

    A host that is forced down is waited for by nobody: what it has is left to it.
    """
    changes: dict[str, Any] = {"updated_at": tx.now}
    if disabled is not None:
        changes |= {"disabled": disabled, "disabled_reason": reason if disabled else None}
    if forced_down is not None:
        changes["forced_down"] = forced_down
    tx.lock("agents", host.id)
    tx.update("agents", host.id, **changes)
    if disabled is not None:
        _mark(tx, host, disabled=disabled)
    if forced_down is not None and forced_down != host.forced_down:
        agents.touch_holders(tx, host.id)
    return find(tx, host.id)


def _mark(tx: Tx, host: Host, *, disabled: bool) -> None:
    """Let the provider have the trait that tells Placement's clients of it."""
    if host.provider is None:
        return
    providers.lock(tx, host.provider)
    if disabled:
        tx.insert_new("traits", name=DISABLED, created_at=tx.now)
        changed = tx.insert_new("provider_traits", provider_id=host.provider, trait=DISABLED)
    else:
        changed = bool(
            tx.run(
                "delete from provider_traits where provider_id = :id and trait = :trait",
                id=host.provider,
                trait=DISABLED,
            )
        )
    if changed:
        providers.bump(tx, [host.provider])


def retire(tx: Tx, host_id: str | int) -> None:
    """Take a host out of service: out of its aggregates, its provider removed, shown no more.

    Its agent stays known until what is still on it is gone, and for good: joining again brings the host back.
    Raises NotFound, Conflict while servers are on it or something of it is taken.
    """
    host = find(tx, host_id)
    tx.lock("agents", host.id)
    here = tx.value("select count(*) from servers where host = :id", id=host.id)
    if here:
        raise Conflict(
            f"Unable to delete compute service that is hosting instances: {here} are on {host.name}. Migrate or "
            "delete the instances first."
        )
    if host.provider is not None:
        providers.lock(tx, host.provider)
        taken = tx.values(
            "select distinct consumer_id from allocations where provider_id = :id", id=host.provider
        )
        if taken:
            raise Conflict(
                f"Unable to delete compute service that has in-progress migrations: {', '.join(taken[:5])} have "
                f"allocations on {host.name}. Complete the migrations or delete the instances first."
            )
        providers.remove(tx, host.provider)
    tx.run("delete from aggregate_hosts where host = :name", name=host.name)
    tx.update("agents", host.id, retired=True, updated_at=tx.now)


class Load(msgspec.Struct, frozen=True):
    """What a host has, and what is used of it."""

    lines: Mapping[str, Inventory] = {}
    used: Mapping[str, int] = {}
    servers: int = 0
    #: Servers that something is being done to.
    busy: int = 0

    def total(self, name: str) -> int:
        return self.lines[name].total if name in self.lines else 0

    def taken(self, name: str) -> int:
        """What is used, and what the host keeps for itself."""
        reserved = self.lines[name].reserved if name in self.lines else 0
        return self.used.get(name, 0) + reserved

    @property
    def vcpus(self) -> tuple[int, int]:
        return self.total(VCPU), self.taken(VCPU)

    @property
    def memory_mb(self) -> tuple[int, int]:
        return self.total(MEMORY_MB), self.taken(MEMORY_MB)

    @property
    def disk_gb(self) -> tuple[int, int]:
        return self.total(DISK_GB), self.taken(DISK_GB)


def loads(tx: Tx, hosts: Collection[Host]) -> dict[str, Load]:
    """Host's id → its load."""
    keys = [host.provider for host in hosts if host.provider is not None]
    lines, used = inventory.lines(tx, keys), usages.by_provider(tx, keys)
    counts = {
        row["host"]: row
        for row in tx.all(
            "select host, count(*) as servers, count(task_state) as busy from servers "
            "where host is not null group by host"
        )
    }
    return {
        host.id: Load(
            lines=lines.get(host.provider or "", {}),
            used=used.get(host.provider or "", {}),
            servers=counts[host.id]["servers"] if host.id in counts else 0,
            busy=counts[host.id]["busy"] if host.id in counts else 0,
        )
        for host in hosts
    }


def servers_on(tx: Tx, hosts: Collection[Host]) -> dict[str, list[Row]]:
    """Host's id → its servers: {"id", "name", "project_id", "flavor"}, the oldest first."""
    found: dict[str, list[Row]] = {host.id: [] for host in hosts}
    for some in chunks(found):
        rows = tx.all(
            "select id, name, project_id, flavor, host from servers where host in :ids order by created_at, id",
            ids=some,
        )
        for row in rows:
            found[row["host"]].append(row)
    return found
