"""Bytes at a back end that an administrator takes out of management, and into it again.

They stay where they are, and stay in the ledger: their claim has another holder meanwhile, that no user sees.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from cumulet.core import snapshots, volume_services, volume_types
from cumulet.core.volumes import change, lifecycle, listing
from cumulet.core.volumes.backends import Backend
from cumulet.db.engine import Row, Tx
from cumulet.errors import Forbidden, Invalid, NotFound, Unavailable
from cumulet.reconcile import holders, ledger
from cumulet.reconcile.plan import base
from cumulet.values import Caller, Limits

#: What a thing of each kind is called at its back end.
NAMES: Mapping[str, str] = {"volume": "volume-{}", "snapshot": "_snapshot-{}"}
SORTABLE = ("reference", "size")


class Unmanaged(msgspec.Struct, frozen=True):
    """Such bytes as their plan sees them: it has no rules."""

    id: str


def view(tx: Tx, id: str, limits: Limits) -> Unmanaged | None:
    """The bytes; None if they are managed again."""
    return Unmanaged(id) if tx.one("select 1 from volume_unmanaged where id = :id", id=id) else None


def apply(tx: Tx, view: Unmanaged, change: base.Change) -> None:
    """There is nothing to change."""
    raise TypeError(f"unmanaged bytes have no {type(change).__name__}")


# --- out of management ---


def unmanage_volume(tx: Tx, caller: Caller, id: str) -> None:
    """Forget a volume and leave its bytes. Raises NotFound, Invalid."""
    row = listing.find(tx, caller, id, lock=True)
    if row["shown"] not in change.DELETABLE or row["attachments"]:
        raise Invalid(
            f"Invalid volume: volume {id} status must be {' or '.join(change.DELETABLE)} and it must not be attached to "
            f"be unmanaged, it is {row['shown']}."
        )
    if row["group_id"] is not None:
        raise Invalid(
            f"Invalid volume: volume {id} must not belong to a group; it is in group {row['group_id']}."
        )
    if tx.one("select 1 from snapshots where volume_id = :id limit 1", id=id) is not None:
        raise Invalid(f"Invalid volume: volume {id} must not have snapshots to be unmanaged.")
    change.check_thawed(tx, row)
    _leave(tx, "volume", row, None)
    tx.run("delete from volume_transfers where volume_id = :id", id=id)
    tx.delete("volumes", id)
    holders.remove(tx, id)


def unmanage_snapshot(tx: Tx, caller: Caller, id: str) -> None:
    """Forget a snapshot and leave its bytes. Raises NotFound, Invalid."""
    row = snapshots.find(tx, caller, id, lock=True)
    if row["status"] not in ("available", "error"):
        raise Invalid(
            f"Invalid snapshot: snapshot {id} status must be available or error to be unmanaged, it is {row['status']}."
        )
    if row["group_snapshot_id"] is not None:
        raise Invalid(f"Invalid snapshot: snapshot {id} must not be part of a group.")
    change.check_thawed(tx, row)
    _leave(tx, "snapshot", row, NAMES["volume"].format(row["volume_id"]))
    tx.delete("snapshots", id)
    holders.remove(tx, id)


def _leave(tx: Tx, kind: str, row: Row, volume_name: str | None) -> None:
    claims = ledger.of_holder(tx, row["id"])
    if len(claims) != 1 or claims[0].kind != kind or not claims[0].ready:
        raise Invalid(
            f"Invalid {kind}: the back end does not have the bytes of {kind} {row['id']} as it should."
        )
    id = tx.uuid()
    holders.create(tx, id, "unmanaged", None)
    tx.insert(
        "volume_unmanaged", id=id, kind=kind, name=NAMES[kind].format(row["id"]), volume_name=volume_name,
        size=row["size"], generation=row.get("generation", 0), agent=claims[0].agent, created_at=tx.now,
    )  # fmt: skip
    ledger.hand_over(tx, claims[0].id, id)


# --- into management ---


class New(msgspec.Struct, frozen=True):
    """A volume or snapshot that bytes become."""

    ref: Any
    name: str | None = None
    description: str | None = None
    metadata: Mapping[str, str] = {}
    volume_type: str | None = None
    zone: str | None = None
    bootable: bool = False


def manage_volume(tx: Tx, caller: Caller, host: str, new: New) -> Row:
    """Make a volume of bytes that are there. Raises Invalid, NotFound, OverQuota, Unavailable for an unknown host."""
    if caller.project_id is None:
        raise Forbidden("A volume belongs to a project; ask with a token that is scoped to one.")
    backend = _backend(tx, host)
    found = _find(tx, "volume", backend.agent, new.ref)
    type_ = volume_types.named(tx, caller, new.volume_type) if new.volume_type else None
    id = lifecycle.create_inner(
        tx, project_id=caller.project_id, user_id=caller.user_id, size=found["size"], name=new.name,
        description=new.description, volume_type_id=type_.id if type_ else None, zone=new.zone or backend.zone,
        metadata=new.metadata, bootable=new.bootable, request_id=caller.request_id,
    )  # fmt: skip
    tx.update("volumes", id, agent=backend.agent, status="managing", generation=found["generation"])
    _take(tx, found, id)
    return listing.find(tx, caller, id)


def manage_snapshot(tx: Tx, caller: Caller, volume_id: str, new: New) -> Row:
    """Make a snapshot of bytes that are there. Raises Invalid, NotFound, OverQuota."""
    volume = listing.find(tx, caller, volume_id, lock=True)
    found = _find(tx, "snapshot", volume["agent"] or "", new.ref)
    id = snapshots.insert(
        tx, caller, {**volume, "size": found["size"]}, name=new.name, description=new.description,
        metadata=new.metadata,
    )  # fmt: skip
    _take(tx, found, id)
    return snapshots.find(tx, caller, id)


def _backend(tx: Tx, host: str) -> Backend:
    try:
        backend = volume_services.backend_of(tx, host)
    except NotFound:
        raise Unavailable(f"Service is unavailable at this time: Host '{host}' not found") from None
    if not backend.up:
        raise Unavailable(f"Service is unavailable at this time: Host '{host}' is down")
    return backend


def _find(tx: Tx, kind: str, agent: str, ref: Any) -> Row:
    name = ref.get("source-name") if isinstance(ref, Mapping) else ref
    if not isinstance(name, str):
        raise Invalid(
            f"Manage existing {kind} failed due to invalid backend reference: it must have the element source-name."
        )
    found = tx.one(
        "select * from volume_unmanaged where agent = :agent and kind = :kind and name = :name",
        agent=agent, kind=kind, name=name,
    )  # fmt: skip
    if found is None:
        raise Invalid(
            f"Manage existing {kind} failed due to invalid backend reference {name[:255]!r}: there is nothing of that "
            "name that is not managed already."
        )
    tx.lock("holders", found["id"])
    return found


def _take(tx: Tx, found: Row, id: str) -> None:
    """The bytes get the new row for their holder."""
    for claim in ledger.of_holder(tx, found["id"]):
        ledger.hand_over(tx, claim.id, id)
    tx.delete("volume_unmanaged", found["id"])
    holders.remove(tx, found["id"])


# --- lists ---


class Manageable(msgspec.Struct, frozen=True):
    """Something that is at a back end."""

    reference: str
    size: int
    #: The volume or snapshot that it is; None if it can be managed.
    id: str | None = None
    #: Of a snapshot: what its volume is called.
    source: str | None = None


def manageable(tx: Tx, kind: str, host: str) -> list[Manageable]:
    """All that a back end has of a kind, managed or not. Raises Unavailable for an unknown one."""
    agent = _backend(tx, host).agent
    found = [
        Manageable(row["name"], int(row["size"]), None, row["volume_name"])
        for row in tx.all(
            "select * from volume_unmanaged where agent = :agent and kind = :kind", agent=agent, kind=kind
        )
    ]
    if kind == "volume":
        rows = tx.all("select id, size, null as volume_id from volumes where agent = :agent", agent=agent)
    else:
        rows = tx.all(
            "select s.id, s.size, s.volume_id from snapshots s join volumes v on v.id = s.volume_id "
            "where v.agent = :agent",
            agent=agent,
        )
    for row in rows:
        source = NAMES["volume"].format(row["volume_id"]) if row["volume_id"] else None
        found.append(Manageable(NAMES[kind].format(row["id"]), int(row["size"]), row["id"], source))
    return found
