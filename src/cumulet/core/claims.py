"""The ledger as the operator reads it: who holds what where, who waits and why, who owes, and what nobody knows."""

from __future__ import annotations

from typing import Any

from cumulet.db.engine import Row, Tx
from cumulet.db.query import Where
from cumulet.errors import NotFound
from cumulet.values import KEEPS_DATA

_GONE = "select count(*) from claims where wanted and made and seen = 'absent'"
#: Rows in one answer at the most.
LIMIT = 1000

_CLAIM = (
    "select c.id, c.kind, c.part, c.holder, h.kind as holder_kind, c.opened_for, c.project_id, a.name as agent, "
    "a.kind as agent_kind, c.wanted, c.seen, c.revision, c.acted, c.made, c.error, c.failing_since, c.is_left, "
    "c.left_reason, h.rule, h.waiting, h.waiting_since, c.created_at, c.updated_at "
    "from claims c join agents a on a.id = c.agent left join holders h on h.id = c.holder"
)


def listing(
    tx: Tx, *, holder: str | None = None, server: str | None = None, agent: str | None = None,
    kind: str | None = None, limit: int = LIMIT, marker: str | None = None,
) -> list[Row]:  # fmt: skip
    """Open claims, each with its state, by id. ``server``: its id or name; its ports and volumes count. Raises NotFound."""
    where = Where()
    if holder is not None:
        where.add("c.holder = :holder", holder=holder)
    if server is not None:
        where.add("(c.holder in :things or c.opened_for in :things)", things=things_of(tx, server))
    if agent is not None:
        where.add("(a.id = :agent or a.name = :agent)", agent=agent)
    if kind is not None:
        where.add("c.kind = :kind", kind=kind)
    return _page(tx, where, limit, marker)


def debts(tx: Tx, *, agent: str | None = None, limit: int = LIMIT, marker: str | None = None) -> list[Row]:
    """Claims whose holder has gone: their agents owe their removal."""
    where = Where()
    where.add("c.holder is null")
    if agent is not None:
        where.add("(a.id = :agent or a.name = :agent)", agent=agent)
    return _page(tx, where, limit, marker)


def _page(tx: Tx, where: Where, limit: int, marker: str | None) -> list[Row]:
    if marker is not None:
        where.add("c.id > :marker", marker=marker)
    rows = tx.all(f"{_CLAIM} where {where.sql} order by c.id limit :limit", limit=limit, **where.params)
    return [_told(row) for row in rows]


def _told(row: Row) -> Row:
    """A claim with its state in a word: what is wanted and what is seen, as one."""
    return {**row, "state": state(row)}


def state(row: Row) -> str:
    """making, present, changing, removing, removed; failing with an error.

    Was there and is not any more: lost if it kept data, missing if it can be made anew.
    """
    if row["error"]:
        return "failing"
    if not row["wanted"]:
        return "removing" if row["seen"] != "absent" or row["acted"] < row["revision"] else "removed"
    if row["seen"] == "present":
        return "present" if row["acted"] >= row["revision"] else "changing"
    if not (row["made"] and row["seen"] == "absent"):
        return "making"
    return "lost" if row["kind"] in KEEPS_DATA else "missing"


def things_of(tx: Tx, server: str) -> tuple[str, ...]:
    """The ids of a server, its ports and its volumes; of every server with that name. Raises NotFound."""
    servers = tx.values("select id from servers where id = :name or name = :name", name=server)
    if not servers:
        # Gone, but something of it may be left.
        left = tx.values("select distinct opened_for from claims where opened_for = :id", id=server)
        if not left:
            raise NotFound(f"Server {server[:255]} could not be found, nor anything that it holds.")
        return tuple(left)
    ids = tuple(servers)
    ports = tx.values(
        "select port_id from interfaces where server_id in :ids and port_id is not null", ids=ids
    )
    volumes = tx.values(
        "select volume_id from block_devices where server_id in :ids and volume_id is not null", ids=ids
    )
    return (*ids, *ports, *volumes)


def waiting(tx: Tx, *, limit: int = LIMIT, marker: str | None = None) -> list[Row]:
    """Holders that wait: the first rule of their plan that does, why, and since when."""
    return tx.all(
        "select h.id, h.kind, h.project_id, h.rule, h.waiting as reason, h.waiting_since, h.due, s.name as server "
        "from holders h left join servers s on s.id = h.id "
        "where h.rule is not null and h.id > :marker order by h.id limit :limit",
        limit=limit, marker=marker or "",
    )  # fmt: skip


def orphans(tx: Tx, *, limit: int = LIMIT) -> list[Row]:
    """Things that agents have and no claim names."""
    return tx.all(
        "select o.thing, o.kind, a.name as agent, a.kind as agent_kind, o.facts, o.seen_since from orphans o "
        "join agents a on a.id = o.agent order by a.name, o.thing limit :limit",
        limit=limit,
    )


def summary(tx: Tx) -> dict[str, Any]:
    """How many of everything that an operator counts."""
    counts: dict[str, Any] = {
        name: int(tx.value(sql, **({"data": KEEPS_DATA} if ":data" in sql else {})))
        for name, sql in {
            "servers": "select count(*) from servers",
            "ports": "select count(*) from ports",
            "networks": "select count(*) from networks",
            "volumes": "select count(*) from volumes",
            "images": "select count(*) from images",
            "projects": "select count(*) from projects where not is_domain",
            "claims": "select count(*) from claims where holder is not null",
            "debts": "select count(*) from claims where holder is null",
            "orphans": "select count(*) from orphans",
            "waiting": "select count(*) from holders where rule is not null",
            "failing": "select count(*) from claims where error is not null",
            "lost": f"{_GONE} and kind in :data",
            "missing": f"{_GONE} and kind not in :data",
            "faults": "select count(*) from faults",
        }.items()
    }
    return counts
