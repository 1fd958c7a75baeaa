"""What agents have against what the ledger believes that they have."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from cumulet.db.engine import Row, Tx
from cumulet.reconcile.sweep.claims import orphan
from cumulet.reconcile.sweep.finding import Finding
from cumulet.wire.agent import Everything

#: Facts that do not change unless somebody changes the thing.
TELLING = ("power", "size_gb", "size", "sha512", "mac", "virtual_size")


def to_ask(tx: Tx) -> list[Row]:
    """The agents that are to be there: with ``away`` if nobody expects an answer."""
    return tx.all(
        "select id, kind, name, silent or forced_down as away, seen_at from agents "
        "where session is not null and not destroyed and not retired order by number"
    )


def silent(agent: Row, why: str) -> Finding:
    """The finding for an agent that cannot be compared."""
    message = f"{agent['kind']} {agent['name']} {why}: what it has was not compared"
    return Finding("silent", agent["id"], message, agent["seen_at"] or 0.0, {"agent": agent["id"]})


def compare(tx: Tx, agent: Row, seen: Everything) -> list[Finding]:
    """What an agent has, and what the ledger says that it has."""
    who = f"{agent['kind']} {agent['name']}"
    rows = {row["id"]: row for row in tx.all("select * from claims where agent = :agent", agent=agent["id"])}
    found = []
    for id, (kind, facts) in seen.things.items():
        if id not in rows and id not in seen.busy:
            found.append(orphan(agent["id"], who, id, kind, tx.now, facts))
    for id, row in rows.items():
        if id in seen.busy:
            continue
        what = _differs(row, seen.things.get(id))
        if what is not None:
            message = f"{who}: the {row['kind']} of {row['opened_for']} {what}"
            found.append(Finding("drift", id, message, row["updated_at"], _facts(row), proven=True))
    return found


def _facts(row: Row) -> dict[str, Any]:
    return {"agent": row["agent"], "kind": row["kind"], "holder": row["holder"] or row["opened_for"],
            "project": row["project_id"]}  # fmt: skip


def _differs(row: Row, thing: tuple[str, Mapping[str, Any]] | None) -> str | None:
    """What is not as the ledger says, in words; None for nothing, and while something of it is being done."""
    if row["seen"] == "absent" and thing is not None:
        return "is there, although it was seen gone"
    if row["seen"] != "present" or row["acted"] < row["revision"] or row["error"] is not None:
        return None
    if thing is None:
        return "is not there any more"
    kind, facts = thing
    if kind != row["kind"]:
        return f"is a {kind}"
    changed = [name for name in TELLING if name in row["facts"] and facts.get(name) != row["facts"][name]]
    return f"has changed: {_changes(row['facts'], facts, changed)}" if changed else None


def _changes(before: Mapping[str, Any], after: Mapping[str, Any], names: Collection[str]) -> str:
    return ", ".join(f"{name} was {before[name]}, is {after.get(name, 'unknown')}" for name in names)
