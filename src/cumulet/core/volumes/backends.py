"""Volume back ends: what each can do and has room for, and which one a volume goes to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from cumulet.db.engine import Row, Tx

#: Words in the values of extra specs that compare, as the capabilities filter upstream reads them.
_COMPARE: Mapping[str, Callable[[Any, str], bool]] = {
    "=": lambda found, wanted: float(found) >= float(wanted),
    "==": lambda found, wanted: float(found) == float(wanted),
    "!=": lambda found, wanted: float(found) != float(wanted),
    ">=": lambda found, wanted: float(found) >= float(wanted),
    "<=": lambda found, wanted: float(found) <= float(wanted),
    "s==": lambda found, wanted: str(found) == wanted,
    "s!=": lambda found, wanted: str(found) != wanted,
}
#: Scopes of extra specs that are about the back end; other scopes are for drivers and others.
_SCOPE = "capabilities"
#: Specs without a scope that say something of the volumes, not of the back end.
_NOT_CAPABILITIES = frozenset({"cacheable"})


class Backend(msgspec.Struct, frozen=True):
    """A back end."""

    agent: str
    #: "NAME@BACKEND", as services and hosts are called.
    host: str
    backend: str
    zone: str
    up: bool
    disabled: bool
    frozen: bool
    disabled_reason: str | None
    capacity_gb: int
    used_gb: int
    #: When it was heard of last.
    seen_at: float | None
    updated_at: float
    facts: Mapping[str, Any] = {}

    @property
    def pool(self) -> str:
        """ "NAME@BACKEND#POOL": a volume's host. Each back end is one pool."""
        return f"{self.host}#{self.backend}"

    @property
    def free_gb(self) -> int:
        return max(self.capacity_gb - self.used_gb, 0)


def capabilities(backend: Backend) -> dict[str, Any]:
    """What a back end tells of itself, by the names that extra specs use."""
    return {
        "volume_backend_name": backend.backend,
        # What upstream's drivers say that belong to no vendor; types ask for it.
        "vendor_name": "Open Source",
        "driver_version": "1",
        "storage_protocol": str(backend.facts.get("protocol", "sim" if backend.backend == "sim" else "file")),
        "total_capacity_gb": backend.capacity_gb,
        "free_capacity_gb": backend.free_gb,
        "allocated_capacity_gb": backend.used_gb,
        "reserved_percentage": 0,
        "QoS_support": False,
        "thin_provisioning_support": True,
        "thick_provisioning_support": False,
        "multiattach": bool(backend.facts.get("multiattach", True)),
        "consistent_group_snapshot_enabled": False,
        "backend_state": "up" if backend.up else "down",
    }


def listing(tx: Tx) -> list[Backend]:
    """Every back end, in the order in which they joined."""
    rows = tx.all(
        "select a.*, (select coalesce(sum(coalesce(v.new_size, v.size)), 0) from volumes v where v.agent = a.id) as volumes, "
        "(select coalesce(sum(s.size), 0) from snapshots s join volumes o on o.id = s.volume_id where o.agent = a.id) as copies, "
        "(select coalesce(sum(b.size), 0) from volume_backups b where b.agent = a.id) as backups, "
        "(select count(*) from frozen_backends f where f.agent = a.id) as frozen "
        "from agents a where a.kind = 'volume' and not a.destroyed order by a.number"
    )
    return [_backend(row) for row in rows]


def _backend(row: Row) -> Backend:
    backend = str(row["facts"].get("backend", row["name"]))
    return Backend(
        agent=row["id"],
        host=f"{row['name']}@{backend}",
        backend=backend,
        zone=row["zone"],
        up=not row["silent"] and not row["forced_down"] and row["session"] is not None,
        disabled=row["disabled"],
        frozen=bool(row["frozen"]),
        disabled_reason=row["disabled_reason"],
        capacity_gb=int(row["facts"].get("capacity_gb", 0)),
        used_gb=int(row["volumes"]) + int(row["copies"]) + int(row["backups"]),
        seen_at=row["seen_at"],
        updated_at=row["updated_at"],
        facts=row["facts"],
    )


def of(tx: Tx, volume_id: str) -> str | None:
    """The agent that has a volume; None while none was chosen."""
    found = tx.value("select agent from volumes where id = :id", id=volume_id)
    return str(found) if found is not None else None


def zones(tx: Tx) -> list[str]:
    """The availability zones that back ends are in."""
    return sorted({"nova", *tx.values("select zone from agents where kind = 'volume' and not destroyed")})


def choose(tx: Tx, row: Row) -> tuple[str | None, str]:
    """The back end with the most room that can take a volume, or why there is none.

    A copy goes to where its original is.
    """
    original = row["source_volume_id"]
    if row["source_snapshot_id"]:
        original = tx.value("select volume_id from snapshots where id = :id", id=row["source_snapshot_id"])
    if original is not None:
        agent = of(tx, original)
        return agent, "No valid back end was found: the one that has the original is unknown"
    specs = tx.value("select extra_specs from volume_types where id = :id", id=row["volume_type_id"] or "")
    refused: dict[str, int] = {}
    fitting = []
    for backend in listing(tx):
        why = refusal(backend, row["size"], row["zone"], specs or {})
        if why is None:
            fitting.append(backend)
        else:
            refused[why] = refused.get(why, 0) + 1
    if fitting:
        return max(fitting, key=lambda backend: backend.free_gb).agent, ""
    reasons = ", ".join(f"{count} {why}" for why, count in refused.items()) or "there are none"
    return None, f"No valid back end was found for a volume of {row['size']} GiB: {reasons}"


def refusal(backend: Backend, size: int, zone: str, specs: Mapping[str, str | None]) -> str | None:
    """Why a back end will not take a volume of a type with these extra specs; None if it will."""
    if backend.disabled:
        return "disabled"
    if backend.frozen:
        return "frozen"
    if not backend.up:
        return "down"
    if backend.zone != zone:
        return f"not in zone {zone}"
    told = capabilities(backend)
    for key, value in specs.items():
        scope, colon, name = key.rpartition(":")
        if (colon and scope != _SCOPE) or name in _NOT_CAPABILITIES:
            continue
        if not matches(told.get(name), value or ""):
            return f"without {name} {value}"
    if backend.free_gb < size:
        return f"without room (most free {backend.free_gb} GiB)"
    return None


def matches(found: Any, wanted: str) -> bool:
    """True if a capability is as an extra spec says: a value, or an operator and a value."""
    if found is None:
        return False
    word, _, rest = wanted.strip().partition(" ")
    try:
        if word in _COMPARE:
            return _COMPARE[word](found, rest.strip())
        if word == "<is>":
            return str(found).lower() == rest.strip().lower()
        if word == "<in>":
            return rest.strip() in str(found)
        if word == "<or>":
            return str(found) in {part.strip() for part in rest.split("<or>")}
    except ValueError:
        return False
    return str(found) == wanted
