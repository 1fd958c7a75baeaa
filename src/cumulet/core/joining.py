"""Agents as the operator handles them: a token for a new host, the list, and the word that one is destroyed."""

from __future__ import annotations

import re
from typing import Any

from cumulet.db.engine import Row, Tx
from cumulet.errors import Conflict, Invalid, NotFound
from cumulet.reconcile import agents, ledger

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,61}[A-Za-z0-9])?\Z")


def token(tx: Tx, name: str, *, renew: bool = False) -> Row:
    """A token with which a host joins: {"agent", "name", "token"}. It is shown once; a digest is stored.

    Raises Invalid for a bad name, Conflict if the host has joined and ``renew`` is not said: its present token
    would end. A host that was declared destroyed, or retired, begins anew.
    """
    if not _NAME.match(name):
        raise Invalid(
            "Invalid input for field/attribute host: a name of up to 63 letters, digits, dots and hyphens was expected."
        )
    row = tx.one("select * from agents where kind = 'host' and name = :name", name=name)
    if row is not None and row["session"] is not None and not (renew or row["destroyed"] or row["retired"]):
        raise Conflict(
            f"The host {name} has joined already. A new token ends its present one: ask for it with --renew."
        )
    secret = tx.chance.token()
    id = agents.register(tx, "host", name, secret)
    if row is not None and row["destroyed"]:
        tx.update(
            "agents",
            id,
            destroyed=False,
            directory=None,
            session=None,
            silent=False,
            forced_down=False,
            seen_at=None,
        )
    return {"agent": id, "name": name, "token": f"{id}.{secret}"}


def listing(tx: Tx) -> list[Row]:
    """Every agent with what it has and owes, by kind and name."""
    rows = tx.all(
        "select a.id, a.kind, a.name, a.session, a.silent, a.forced_down, a.disabled, a.destroyed, a.retired, a.seen_at, "
        "a.revision, a.zone, a.directory, a.facts, "
        "(select count(*) from claims c where c.agent = a.id and c.holder is not null) as claims, "
        "(select count(*) from claims c where c.agent = a.id and c.holder is null) as debts, "
        "(select count(*) from orphans o where o.agent = a.id) as orphans from agents a order by a.kind, a.number"
    )
    return [{**{k: v for k, v in row.items() if k != "session"}, "state": state(row)} for row in rows]


def state(row: Row) -> str:
    """up, silent, down (forced), new, retired or destroyed."""
    if row["destroyed"]:
        return "destroyed"
    if row["retired"]:
        return "retired"
    if row["forced_down"]:
        return "down"
    if row["silent"]:
        return "silent"
    return "new" if row["session"] is None else "up"


def destroyed(tx: Tx, agent: str) -> dict[str, Any]:
    """The operator's word that a host is gone for good, with all that it had: its debts are closed.

    Raises NotFound, Conflict while it speaks: what is up is not destroyed.
    """
    row = tx.one(f"select * from agents where id = :id{tx.for_update}", id=agent)
    if row is None:
        row = tx.one(f"select * from agents where kind = 'host' and name = :name{tx.for_update}", name=agent)
    if row is None:
        raise NotFound(f"Agent {agent[:255]} could not be found.")
    if state(row) == "up":
        raise Conflict(
            f"The {row['kind']} {row['name']} is up. Stop it, and force it down first if it does not end."
        )
    tx.update("agents", row["id"], destroyed=True, session=None, updated_at=tx.now)
    closed = ledger.close_destroyed(tx, row["id"])
    tx.run("delete from orphans where agent = :id", id=row["id"])
    agents.touch_holders(tx, row["id"])
    return {"agent": row["id"], "name": row["name"], "closed": closed}
