"""The sweep: compares all that exists with the ledger. At rest it finds nothing, and it says so if it does.

What agents have and no claim names they report themselves (``orphans``); the sweep adds what the database
holds for servers that are gone, debts, and holders that wait too long. It never judges by a partial list, nor
anything younger than the floor, and by itself it removes only what is proven: the allocation of a server that
is on record as deleted. An orphan is removed when an operator says so, by a claim that is not wanted: the
agent then removes what the ledger names, as always.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from cumulet.db.engine import Tx
from cumulet.errors import NotFound
from cumulet.reconcile import ledger

#: Findings of one kind at the most, so that a sweep is never a long transaction.
SLICE = 1000


class Finding(msgspec.Struct, frozen=True):
    """Something that is not as the ledger says, or not as it should be for so long."""

    #: orphan, debt, stuck, allocation, attachment, port, lost
    kind: str
    id: str
    message: str
    #: Seconds since the epoch.
    since: float
    #: What is on record about it.
    facts: dict[str, Any] = {}
    #: True if it can be put right without a doubt; see ``repair``.
    proven: bool = False


def findings(tx: Tx, *, floor: float, stuck_after: float) -> list[Finding]:
    """All that is found, oldest first within each kind.

    ``floor``: seconds; nothing younger is called an orphan. ``stuck_after``: seconds that a holder may wait.
    """
    found: list[Finding] = []
    for look in _LOOKS:
        found += look(tx, floor, stuck_after)
    return found


def _orphans(tx: Tx, floor: float, stuck_after: float) -> list[Finding]:
    rows = tx.all(
        "select o.*, a.name, a.kind as agent_kind from orphans o join agents a on a.id = o.agent "
        "where o.seen_since <= :before order by o.seen_since, o.thing limit :limit",
        before=tx.now - floor, limit=SLICE,
    )  # fmt: skip
    return [
        Finding(
            "orphan",
            row["thing"],
            f"{row['agent_kind']} {row['name']} has a {row['kind']} that no claim names",
            row["seen_since"],
            {"agent": row["agent"], "thing": row["kind"], **row["facts"]},
        )
        for row in rows
    ]


def _debts(tx: Tx, floor: float, stuck_after: float) -> list[Finding]:
    rows = tx.all(
        "select c.*, a.name, a.kind as agent_kind, a.silent, a.forced_down from claims c join agents a on a.id = c.agent "
        "where c.holder is null and c.updated_at <= :before order by c.updated_at, c.id limit :limit",
        before=tx.now - floor, limit=SLICE,
    )  # fmt: skip
    return [
        Finding(
            "debt",
            row["id"],
            f"{row['agent_kind']} {row['name']} still has to remove a {row['kind']} of {row['opened_for']}"
            + (
                f": {row['error']}"
                if row["error"]
                else f" ({row['left_reason']})"
                if row["left_reason"]
                else ""
            ),
            row["updated_at"],
            {
                "agent": row["agent"],
                "kind": row["kind"],
                "holder": row["opened_for"],
                "project": row["project_id"],
            },
        )
        for row in rows
    ]


def _stuck(tx: Tx, floor: float, stuck_after: float) -> list[Finding]:
    rows = tx.all(
        "select * from holders where waiting is not null and waiting_since <= :before and (due is null or due <= :now) "
        "order by waiting_since, id limit :limit",
        before=tx.now - stuck_after, now=tx.now, limit=SLICE,
    )  # fmt: skip
    return [
        Finding(
            "stuck",
            row["id"],
            f"{row['kind']} {row['id']} waits: {row['waiting']}",
            row["waiting_since"],
            {"kind": row["kind"], "rule": row["rule"], "project": row["project_id"]},
        )
        for row in rows
    ]


def _allocations(tx: Tx, floor: float, stuck_after: float) -> list[Finding]:
    """Allocations of servers that are not there. Only a server on record as deleted proves that one is left over.

    Whoever is not known at all may be in the making, by a client of Placement that has nothing to do with us.
    """
    rows = tx.all(
        "select c.id, c.project_id, c.created_at, d.id as deleted from consumers c left join servers s on s.id = c.id "
        "left join deleted_servers d on d.id = c.id where s.id is null and c.type = 'INSTANCE' "
        "and c.updated_at <= :before order by c.created_at, c.id limit :limit",
        before=tx.now - floor, limit=SLICE,
    )  # fmt: skip
    return [
        Finding(
            "allocation",
            row["id"],
            f"placement has an allocation of server {row['id']}, which "
            + ("was deleted" if row["deleted"] else "is not known"),
            row["created_at"],
            {"project": row["project_id"]},
            proven=row["deleted"] is not None,
        )
        for row in rows
    ]


def _attachments(tx: Tx, floor: float, stuck_after: float) -> list[Finding]:
    rows = tx.all(
        "select t.* from attachments t left join servers s on s.id = t.server_id "
        "where t.server_id is not null and s.id is null and not t.by_client and not t.passed "
        "and t.created_at <= :before order by t.created_at, t.id limit :limit",
        before=tx.now - floor, limit=SLICE,
    )  # fmt: skip
    return [
        Finding(
            "attachment",
            row["id"],
            f"volume {row['volume_id']} is attached to server {row['server_id']}, which is not there",
            row["created_at"],
            {"volume": row["volume_id"], "project": row["project_id"]},
        )
        for row in rows
    ]


def _ports(tx: Tx, floor: float, stuck_after: float) -> list[Finding]:
    rows = tx.all(
        "select p.* from ports p left join servers s on s.id = p.device_id where p.device_owner like 'compute:%' "
        "and p.device_id <> '' and s.id is null and p.updated_at <= :before order by p.created_at, p.id limit :limit",
        before=tx.now - floor, limit=SLICE,
    )  # fmt: skip
    return [
        Finding(
            "port",
            row["id"],
            f"port {row['id']} names server {row['device_id']}, which is not there",
            row["updated_at"],
            {"project": row["project_id"]},
        )
        for row in rows
    ]


def _lost(tx: Tx, floor: float, stuck_after: float) -> list[Finding]:
    """What keeps data, was there, and is not there any more."""
    rows = tx.all(
        "select c.*, a.name from claims c join agents a on a.id = c.agent where c.wanted and c.made "
        "and c.seen = 'absent' and c.kind in ('file', 'volume', 'snapshot', 'disk') order by c.updated_at, c.id limit :limit",
        limit=SLICE,
    )
    return [
        Finding(
            "lost",
            row["id"],
            f"the {row['kind']} of {row['holder']} on {row['name']} is lost",
            row["updated_at"],
            {"holder": row["holder"], "agent": row["agent"], "project": row["project_id"]},
        )
        for row in rows
    ]


_LOOKS: Sequence[Callable[[Tx, float, float], list[Finding]]] = (
    _orphans,
    _debts,
    _stuck,
    _lost,
    _allocations,
    _attachments,
    _ports,
)


def repair(tx: Tx, finding: Finding) -> bool:
    """Put right what is proven; False if it is not, or is so no more."""
    if not finding.proven:
        return False
    if finding.kind == "allocation":
        if tx.one("select 1 from servers where id = :id", id=finding.id) is not None:
            return False
        return bool(tx.delete("consumers", finding.id))
    return False


def sweep(tx: Tx, *, floor: float, stuck_after: float) -> list[Finding]:
    """One sweep: what was found, after what is proven has been put right."""
    found = findings(tx, floor=floor, stuck_after=stuck_after)
    return [finding for finding in found if not repair(tx, finding)]


def remove_orphan(tx: Tx, agent: str, thing: str) -> None:
    """Have an agent remove something that no claim names, by the operator's word: a claim that is not wanted.

    Raises NotFound if the agent did not report it.
    """
    row = tx.one("select * from orphans where agent = :agent and thing = :thing", agent=agent, thing=thing)
    if row is None:
        raise NotFound(f"The agent reports no orphan {thing}.")
    ledger.open_debt(tx, id=thing, kind=row["kind"], agent=agent)
    tx.run("delete from orphans where agent = :agent and thing = :thing", agent=agent, thing=thing)
