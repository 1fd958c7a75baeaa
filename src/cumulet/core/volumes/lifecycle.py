"""A volume or snapshot from its row to its bytes: making the row, reading the plan's view, writing its changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cumulet.core import quota
from cumulet.core.volumes import attachments
from cumulet.db.engine import Row, Tx
from cumulet.errors import Invalid
from cumulet.reconcile import agents, holders, ledger
from cumulet.reconcile.plan import base
from cumulet.reconcile.plan import volume as plan
from cumulet.values import Limits

#: Table of each kind.
TABLES = {"volume": "volumes", "snapshot": "snapshots"}


def create_inner(
    tx: Tx, *, project_id: str, user_id: str, size: int, name: str | None = None, description: str | None = None,
    volume_type_id: str | None = None, zone: str = "nova", metadata: Mapping[str, str] | None = None,
    image_id: str | None = None, snapshot_id: str | None = None, source_volume_id: str | None = None,
    multiattach: bool = False, bootable: bool = False, image_metadata: Mapping[str, Any] | None = None,
) -> str:  # fmt: skip
    """A new volume's row and holder, after its quota was checked; return its id. Raises OverQuota."""
    check_quota(tx, project_id, volumes=1, gigabytes=size)
    id = tx.uuid()
    holders.create(tx, id, "volume", project_id)
    tx.insert(
        "volumes", id=id, project_id=project_id, user_id=user_id, name=name, description=description, size=size,
        desired="available", status="downloading" if image_id else "creating", volume_type_id=volume_type_id, zone=zone,
        metadata=dict(metadata or {}), source_image_id=image_id, source_snapshot_id=snapshot_id,
        source_volume_id=source_volume_id, multiattach=multiattach, bootable=bootable,
        image_metadata=dict(image_metadata or {}), created_at=tx.now, updated_at=tx.now,
    )  # fmt: skip
    return id


def check_quota(tx: Tx, project_id: str, *, volumes: int = 0, snapshots: int = 0, gigabytes: int = 0) -> None:
    """Raise OverQuota if the project may not have so much more. Usage is counted here and nowhere stored."""
    quota.lock_project(tx, project_id)
    used = usage(tx, project_id)
    quota.check(
        quota.limits(tx, "volume", project_id),
        used,
        {"volumes": volumes, "snapshots": snapshots, "gigabytes": gigabytes},
    )


def usage(tx: Tx, project_id: str) -> dict[str, int]:
    """What the project has: everything that still exists, whatever its state."""
    volumes = tx.one(
        "select count(*) as n, coalesce(sum(size), 0) as gb from volumes where project_id = :p", p=project_id
    )
    snapshots = tx.one(
        "select count(*) as n, coalesce(sum(size), 0) as gb from snapshots where project_id = :p",
        p=project_id,
    )
    assert volumes is not None
    assert snapshots is not None
    return {
        "volumes": volumes["n"],
        "snapshots": snapshots["n"],
        "gigabytes": int(volumes["gb"]) + int(snapshots["gb"]),
    }


def delete_inner(tx: Tx, kind: str, id: str) -> None:
    """Want the volume or snapshot no more; its row goes once its bytes are seen gone."""
    tx.update(TABLES[kind], id, desired="gone", status="deleting", updated_at=tx.now)
    holders.touch(tx, id)


def delete_with_server(tx: Tx, id: str) -> bool:
    """Delete a volume whose server is deleted; False if it has to stay.

    One that has snapshots or another attachment stays available, as in Nova, whose request to delete it is
    refused then.
    """
    row = tx.one("select desired from volumes where id = :id", id=id)
    if row is None or row["desired"] == "gone":
        return False
    if tx.one("select 1 from snapshots where volume_id = :id", id=id) is not None:
        return False
    if tx.one("select 1 from attachments where volume_id = :id", id=id) is not None:
        return False
    delete_inner(tx, "volume", id)
    return True


def view(tx: Tx, id: str, limits: Limits) -> plan.Volume | None:
    """The volume or snapshot as its plan sees it; None if there is none."""
    kind = tx.value("select kind from holders where id = :id", id=id)
    row = tx.one(f"select * from {TABLES[kind]} where id = :id", id=id)
    if row is None:
        return None
    claims = ledger.of_holder(tx, id)
    agent = row["agent"] if kind == "volume" else _backend_of(tx, row["volume_id"])
    passed = tx.all("select id, delete_volume from attachments where volume_id = :id and passed", id=id)
    return plan.Volume(
        id=id,
        kind=kind,
        desired=row["desired"],
        status=row["status"],
        now=tx.now,
        patience=limits.patience,
        agent=agent,
        claims=claims,
        spec=_spec(kind, row),
        source=_source(tx, kind, row),
        passed=tuple(plan.Attachment(a["id"], a["delete_volume"]) for a in passed),
        agents=agents.views(tx, {claim.agent for claim in claims} | ({agent} if agent else set())),
        held=frozenset(
            tx.values("select step from faults where effect = 'hold' and step = 'volume.schedule'")
        )
        if agent is None
        else frozenset(),
    )


def _backend_of(tx: Tx, volume_id: str) -> str | None:
    found = tx.value("select agent from volumes where id = :id", id=volume_id)
    return str(found) if found is not None else None


def _spec(kind: str, row: Row) -> dict[str, Any]:
    if kind == "snapshot":
        return {"volume": row["volume_id"], "size_gb": row["size"]}
    source = next(
        (
            {name: row[f"source_{name}_id"]}
            for name in ("image", "snapshot", "volume")
            if row[f"source_{name}_id"] is not None
        ),
        None,
    )
    return {"size_gb": row["size"], "source": source}


def _source(tx: Tx, kind: str, row: Row) -> plan.Source | None:
    """The claim that the bytes are copied from."""
    if kind == "snapshot":
        wanted = (row["volume_id"], "volume")
    elif row["source_image_id"]:
        wanted = (row["source_image_id"], "file")
    elif row["source_snapshot_id"]:
        wanted = (row["source_snapshot_id"], "snapshot")
    elif row["source_volume_id"]:
        wanted = (row["source_volume_id"], "volume")
    else:
        return None
    claim = tx.one(
        "select id, wanted, seen, acted, revision from claims where holder = :holder and kind = :kind and wanted",
        holder=wanted[0], kind=wanted[1],
    )  # fmt: skip
    if claim is None:
        return plan.Source(None, ready=False, error=f"{wanted[1]} of {wanted[0]} is gone")
    return plan.Source(claim["id"], claim["seen"] == "present" and claim["acted"] >= claim["revision"])


def apply(tx: Tx, view: plan.Volume, change: base.Change) -> None:
    """Write one change of a volume's or snapshot's plan."""
    match change:
        case base.Set():
            tx.update(TABLES[view.kind], view.id, **change.values, updated_at=tx.now)
            if view.kind == "volume":
                _arrived(tx, view, change)
                _wake_servers(tx, view.id)
        case base.Remove():
            if view.kind == "volume":
                _wake_servers(tx, view.id)
            tx.delete(TABLES[view.kind], view.id)
            holders.remove(tx, view.id)
        case plan.ChooseBackend():
            _choose_backend(tx, view)
        case plan.EndPassed():
            attachments.end_attachment(tx, change.attachment)
            if change.delete:
                delete_with_server(tx, view.id)
            holders.touch(tx, view.id)
        case base.Leave():
            raise TypeError("a volume's claim is never left: its data would be nobody's")
        case _:
            raise TypeError(f"a volume has no {type(change).__name__}")


def _arrived(tx: Tx, view: plan.Volume, change: base.Set) -> None:
    if change.values.get("status") == "available" and view.status in ("creating", "downloading"):
        tx.update("volumes", view.id, launched_at=tx.now)


def _wake_servers(tx: Tx, volume_id: str) -> None:
    """Servers that are to get the volume wait for it."""
    for server in tx.values("select server_id from block_devices where volume_id = :id", id=volume_id):
        holders.touch(tx, server)


def _choose_backend(tx: Tx, view: plan.Volume) -> None:
    """The back end with the most room that can take it; for a copy, the one that has the original."""
    row = tx.one("select * from volumes where id = :id", id=view.id)
    assert row is not None
    original = row["source_volume_id"]
    if row["source_snapshot_id"]:
        original = tx.value("select volume_id from snapshots where id = :id", id=row["source_snapshot_id"])
    if original is not None:
        agent = _backend_of(tx, original)
    else:
        agent = _roomiest(tx, row["size"])
    if agent is None:
        tx.update(
            "volumes", view.id, status="error", updated_at=tx.now,
            error=f"No valid back end was found: none that is up has room for {row['size']} GiB",
        )  # fmt: skip
        _wake_servers(tx, view.id)
        return
    tx.update("volumes", view.id, agent=agent, updated_at=tx.now)


def _roomiest(tx: Tx, size: int) -> str | None:
    rows = tx.all(
        "select a.id, a.facts, (select coalesce(sum(v.size), 0) from volumes v where v.agent = a.id) as used "
        "from agents a where a.kind = 'volume' and not a.silent and not a.forced_down and not a.disabled "
        "and not a.destroyed order by a.number"
    )
    free = [(row["facts"].get("capacity_gb", 0) - int(row["used"]), row["id"]) for row in rows]
    fitting = [one for one in free if one[0] >= size]
    return str(max(fitting, key=lambda one: one[0])[1]) if fitting else None


def volume_of(tx: Tx, id: str) -> Row:
    """The row, for those who know that it is there. Raises Invalid."""
    row = tx.one("select * from volumes where id = :id", id=id)
    if row is None:
        raise Invalid(f"Volume {id} could not be found.")
    return row
