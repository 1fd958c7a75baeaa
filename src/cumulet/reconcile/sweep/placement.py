"""Placement against the servers: who uses room is there, and uses what its flavor says, where it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cumulet.core import scheduling
from cumulet.core.migrations import of_flavor
from cumulet.core.servers.apply import resources
from cumulet.db.engine import Row, Tx, chunks
from cumulet.reconcile.sweep.finding import SLICE, Finding, unreadable

#: Servers that are to have an allocation: those on a host, unless they are leaving it.
_USES = "s.host is not null and not s.giving_up and s.desired not in ('gone', 'failed', 'offloaded')"
#: What a consumer uses: (provider's agent, resource class) → amount.
Used = Mapping[tuple[str | None, str], int]


def consumers(tx: Tx, floor: float, stuck_after: float) -> list[Finding]:
    """Allocations of servers and moves that are not there. Only one on record as over proves that it is left over.

    Who is not known at all may be in the making, by a client of Placement that has nothing to do with us.
    """
    rows = tx.all(
        "select c.id, c.project_id, c.created_at, d.id as deleted from consumers c left join servers s on s.id = c.id "
        "left join deleted_servers d on d.id = c.id where s.id is null and c.type = 'INSTANCE' "
        "and c.updated_at <= :before order by c.created_at, c.id limit :limit",
        before=tx.now - floor, limit=SLICE,
    )  # fmt: skip
    found = [
        _left(row, f"server {row['id']}, which {'was deleted' if row['deleted'] else 'is not known'}", row["deleted"])
        for row in rows
    ]  # fmt: skip
    rows = tx.all(
        "select c.id, c.project_id, c.created_at, case when s.id is null then m.id end as known from consumers c "
        "left join migrations m on m.id = c.id left join servers s on s.migration_id = c.id where c.type = 'MIGRATION' and (m.id is null or m.phase = '') "
        "and c.updated_at <= :before order by c.created_at, c.id limit :limit",
        before=tx.now - floor, limit=SLICE,
    )  # fmt: skip
    return found + [
        _left(row, f"move {row['id']}, which {'is over' if row['known'] else 'is not known'}", row["known"])
        for row in rows
    ]


def _left(row: Row, whose: str, proof: str | None) -> Finding:
    message = f"placement has an allocation of {whose}"
    facts = {"project": row["project_id"]}
    return Finding("allocation", row["id"], message, row["created_at"], facts, proven=proof is not None)


def allocations(tx: Tx, after: str, limit: int, floor: float) -> tuple[list[Finding], str | None]:
    """Servers, and moves, whose allocation is not what it should be: a slice of them, and where the next one begins."""
    rows = tx.all(
        f"select s.* from servers s where s.id > :after and {_USES} order by s.id limit :limit",
        after=after, limit=limit,
    )  # fmt: skip
    found = _differing(tx, [row for row in rows if row["updated_at"] <= tx.now - floor])
    return found, rows[-1]["id"] if len(rows) == limit else None


def _differing(tx: Tx, rows: list[Row]) -> list[Finding]:
    moves = _open_moves(tx, [row["id"] for row in rows])
    used = _used(tx, [row["id"] for row in rows] + [move["id"] for move in moves.values()])
    found: list[Finding] = []
    for row in rows:
        try:
            found += _of_server(tx, row, moves.get(row["id"]), used)
        except (KeyError, TypeError) as error:
            found.append(unreadable("server", row["id"], error, tx.now))
    return found


def _of_server(tx: Tx, row: Row, move: Row | None, used: Mapping[str, Used]) -> Iterator[Finding]:
    for consumer, host, flavored in _consumers_of(row, move):
        wanted: Used = {(host, name): amount for name, amount in resources(tx, flavored).items() if amount}
        has = used.get(consumer, {})
        if has != wanted and _provider(tx, host) is not None:
            yield _differs(tx, row, consumer, host, wanted, has)


def _open_moves(tx: Tx, servers: list[str]) -> dict[str, Row]:
    found: dict[str, Row] = {}
    for some in chunks(servers):
        for move in tx.all(
            "select m.* from migrations m join servers s on s.migration_id = m.id where s.id in :ids and m.phase <> ''",
            ids=some,
        ):
            found[move["server_id"]] = move
    return found


def _used(tx: Tx, ids: list[str]) -> dict[str, dict[tuple[str | None, str], int]]:
    found: dict[str, dict[tuple[str | None, str], int]] = {}
    for some in chunks(ids):
        for row in tx.all(
            "select l.consumer_id, l.resource_class, l.used, p.agent from allocations l "
            "join resource_providers p on p.id = l.provider_id where l.consumer_id in :ids",
            ids=some,
        ):
            found.setdefault(row["consumer_id"], {})[row["agent"], row["resource_class"]] = int(row["used"])
    return found


def _consumers_of(row: Row, move: Row | None) -> list[tuple[str, str, Row]]:
    """(consumer, host, the server with the flavor that counts there) of what a server uses; see core.migrations."""
    if move is None or move["phase"] == "preparing":
        return [(row["id"], row["host"], row)]
    return [
        (row["id"], move["target"], {**row, **of_flavor(move["new_flavor"])}),
        (move["id"], move["source"], {**row, **of_flavor(move["old_flavor"])}),
    ]


def _provider(tx: Tx, host: str) -> str | None:
    found: str | None = tx.value("select id from resource_providers where agent = :host", host=host)
    return found


def _differs(tx: Tx, row: Row, consumer: str, host: str, wanted: Used, has: Used) -> Finding:
    name = tx.value("select name from agents where id = :id", id=host)
    whose = f"server {row['id']}" if consumer == row["id"] else f"move {consumer} of server {row['id']}"
    message = f"{whose} should use {_words(tx, wanted)} on {name}, and uses {_words(tx, has, host)}"
    facts = {"server": row["id"], "host": host, "resources": {n: amount for (_, n), amount in wanted.items()},
             "project": row["project_id"]}  # fmt: skip
    return Finding("allocation", consumer, message, row["updated_at"], facts, proven=True)


def _words(tx: Tx, used: Used, host: str | None = None) -> str:
    words = []
    for (agent, resource), amount in sorted(used.items(), key=str):
        where = (
            tx.value("select name from agents where id = :id", id=agent) if host and agent != host else None
        )
        words.append(f"{amount} {resource}" + (f" on {where}" if where else ""))
    return ", ".join(words) or "nothing"


def mend_allocation(tx: Tx, finding: Finding) -> bool:
    """What is over uses nothing; a server that is on a host uses there what its flavor says, if there is room."""
    if "resources" not in finding.facts:
        known = tx.one(
            "select 1 from servers where id = :id union all select 1 from migrations where id = :id and phase <> ''",
            id=finding.id,
        )
        return known is None and bool(tx.delete("consumers", finding.id))
    rows = tx.all(f"select s.* from servers s where s.id = :id and {_USES}", id=finding.facts["server"])
    now = next((one for one in _differing(tx, rows) if one.id == finding.id), None)
    if now is None or now.facts != finding.facts:
        return False
    row = rows[0]
    if not scheduling.take(
        tx, now.facts["host"], now.id, row["project_id"], row["user_id"], now.facts["resources"]
    ):
        return False
    if now.id != row["id"]:
        tx.update("consumers", now.id, type="MIGRATION")
    return True


def providers(tx: Tx, floor: float, stuck_after: float) -> list[Finding]:
    """Hosts that placement does not know, or of which it does not know something that they have."""
    rows = tx.all(
        "select a.id, a.name, a.facts, a.updated_at, p.id as provider from agents a "
        "left join resource_providers p on p.agent = a.id where a.kind = 'host' and a.session is not null "
        "and not a.destroyed and not a.retired and a.updated_at <= :before order by a.number",
        before=tx.now - floor,
    )
    known: dict[str, set[str]] = {}
    for row in tx.all(
        "select i.provider_id, i.resource_class from inventories i join resource_providers p on p.id = i.provider_id "
        "where p.agent is not null"
    ):
        known.setdefault(row["provider_id"], set()).add(row["resource_class"])
    found = []
    for row in rows:
        missing = set(row["facts"].get("inventories", ())) - known.get(row["provider"] or "", set())
        if row["provider"] is None:
            message = f"placement does not know host {row['name']}"
        elif missing:
            message = f"placement does not know of {', '.join(sorted(missing))} on host {row['name']}"
        else:
            continue
        facts = {"host": row["name"]}
        found.append(Finding("provider", row["id"], message, row["updated_at"], facts, proven=True))
    return found[:SLICE]


def mend_provider(tx: Tx, finding: Finding) -> bool:
    """What the host said last is written down again."""
    row = tx.one(
        "select name, facts from agents where id = :id and not retired and not destroyed", id=finding.id
    )
    if row is None:
        return False
    scheduling.register_host(tx, finding.id, row["name"], row["facts"])
    return True
