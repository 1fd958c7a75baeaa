"""The ledger by itself: what is owed, waits, fails or is lost, and rows of it that fit no others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cumulet.db.engine import Row, Tx
from cumulet.reconcile import holders, ledger
from cumulet.reconcile.sweep.finding import SLICE, Finding
from cumulet.values import KEEPS_DATA

#: Where each kind of holder has its row.
TABLES = {
    "server": "servers", "volume": "volumes", "snapshot": "snapshots", "backup": "volume_backups",
    "unmanaged": "volume_unmanaged", "image": "images", "network": "networks", "port": "ports", "router": "routers",
    "floatingip": "floatingips",
}  # fmt: skip


def orphans(tx: Tx, floor: float, stuck_after: float) -> list[Finding]:
    """Things that agents have and no claim names. Only the operator knows whose they are."""
    rows = tx.all(
        "select o.*, a.name, a.kind as agent_kind from orphans o join agents a on a.id = o.agent "
        "where o.seen_since <= :before order by o.seen_since, o.thing limit :limit",
        before=tx.now - floor, limit=SLICE,
    )  # fmt: skip
    return [
        orphan(row["agent"], f"{row['agent_kind']} {row['name']}", row["thing"], row["kind"], row["seen_since"], row["facts"])
        for row in rows
    ]  # fmt: skip


def orphan(
    agent: str, who: str, thing: str, kind: str, since: float, facts: dict[str, object] | None = None
) -> Finding:
    """The finding for such a thing."""
    known = {"agent": agent, "thing": kind, **(facts or {})}
    return Finding("orphan", thing, f"{who} has a {kind} that no claim names", since, known)


def debts(tx: Tx, floor: float, stuck_after: float) -> list[Finding]:
    rows = tx.all(
        "select c.*, a.name, a.kind as agent_kind from claims c join agents a on a.id = c.agent "
        "where c.holder is null and c.updated_at <= :before order by c.updated_at, c.id limit :limit",
        before=tx.now - floor, limit=SLICE,
    )  # fmt: skip
    return [Finding("debt", row["id"], _owed(row), row["updated_at"], _facts(row)) for row in rows]


def _owed(row: Row) -> str:
    owed = f"{row['agent_kind']} {row['name']} still has to remove a {row['kind']} of {row['opened_for']}"
    if row["error"]:
        return f"{owed}: {row['error']}"
    return f"{owed} ({row['left_reason']})" if row["left_reason"] else owed


def _facts(row: Row) -> dict[str, object]:
    return {
        "agent": row["agent"], "kind": row["kind"], "holder": row["holder"] or row["opened_for"],
        "project": row["project_id"],
    }  # fmt: skip


def stuck(tx: Tx, floor: float, stuck_after: float) -> list[Finding]:
    """Who waits for too long, and who is not looked at although the time for that has come."""
    rows = tx.all(
        "select * from holders where waiting is not null and waiting_since <= :before and (due is null or due <= :now) "
        "or due <= :before order by waiting_since, id limit :limit",
        before=tx.now - stuck_after, now=tx.now, limit=SLICE,
    )  # fmt: skip
    return [
        Finding(
            "stuck",
            row["id"],
            f"{row['kind']} {row['id']} waits: {row['waiting'] or 'nobody looks at it'}",
            row["due"] if row["waiting_since"] is None else row["waiting_since"],
            {"kind": row["kind"], "rule": row["rule"], "project": row["project_id"]},
        )
        for row in rows
    ]


def lost(tx: Tx, floor: float, stuck_after: float) -> list[Finding]:
    """What was there, and is not there any more."""
    rows = tx.all(
        "select c.*, a.name, a.kind as agent_kind from claims c join agents a on a.id = c.agent where c.wanted and c.made "
        "and c.seen = 'absent' and (c.kind in :data or c.updated_at <= :before) order by c.updated_at, c.id limit :limit",
        data=KEEPS_DATA, before=tx.now - floor, limit=SLICE,
    )  # fmt: skip
    found = []
    for row in rows:
        kind, word = ("lost", "is lost") if row["kind"] in KEEPS_DATA else ("missing", "is missing")
        where = f"{row['agent_kind']} {row['name']}"
        message = f"the {row['kind']} of {row['opened_for']} on {where} {word}"
        found.append(Finding(kind, row["id"], message, row["updated_at"], _facts(row)))
    return found


def failing(tx: Tx, floor: float, stuck_after: float) -> list[Finding]:
    """What cannot be made or changed as it is wanted; what cannot be removed for a holder that waits for that."""
    rows = tx.all(
        "select c.*, a.name, a.kind as agent_kind from claims c join agents a on a.id = c.agent "
        "where c.error is not null and c.holder is not null and c.failing_since <= :before "
        "order by c.failing_since, c.id limit :limit",
        before=tx.now - floor, limit=SLICE,
    )  # fmt: skip
    return [
        Finding(
            "failing",
            row["id"],
            f"{row['agent_kind']} {row['name']} cannot {'make' if row['wanted'] else 'remove'} the {row['kind']} of "
            f"{row['opened_for']}: {row['error']}",
            row["failing_since"],
            _facts(row),
        )
        for row in rows
    ]


def holders_without_a_row(tx: Tx, floor: float, stuck_after: float) -> list[Finding]:
    """Holders whose own row is gone: nothing works on what they hold."""
    found = []
    for kind, table in TABLES.items():
        rows = tx.all(
            f"select h.id, h.project_id, (select count(*) from claims c where c.holder = h.id) as claims, "
            f"(select count(*) from deleted_servers d where d.id = h.id) as deleted "
            f"from holders h left join {table} r on r.id = h.id where h.kind = :kind and r.id is null "
            "order by h.id limit :limit",
            kind=kind, limit=SLICE,
        )  # fmt: skip
        found += [
            Finding(
                "holder",
                row["id"],
                f"{kind} {row['id']} has no row, but {row['claims']} claims",
                tx.now,
                {"kind": kind, "project": row["project_id"]},
                proven=not row["claims"] or bool(row["deleted"]),
            )
            for row in rows
        ]
    return found


def rows_without_a_holder(tx: Tx, floor: float, stuck_after: float) -> list[Finding]:
    """Rows that nothing drives: nobody would ever look at them again."""
    found = []
    for kind, table in TABLES.items():
        ids = tx.values(
            f"select r.id from {table} r left join holders h on h.id = r.id where h.id is null order by r.id limit :limit",
            limit=SLICE,
        )
        found += [Finding("holder", id, f"{kind} {id} is no holder", tx.now, {"kind": kind}) for id in ids]
    return found


def images_without_bytes(tx: Tx, floor: float, stuck_after: float) -> list[Finding]:
    """Images that are active and of which the ledger has no file. Others without their bytes have a plan that says so."""
    rows = tx.all(
        "select i.id, i.owner, i.updated_at from images i left join claims c on c.holder = i.id and c.kind = 'file' "
        "where i.status = 'active' and i.desired <> 'gone' and c.id is null order by i.id limit :limit",
        limit=SLICE,
    )
    return [
        Finding(
            "lost",
            row["id"],
            f"image {row['id']} is active, and the ledger has no bytes of it",
            row["updated_at"],
            {"holder": row["id"], "project": row["owner"]},
        )
        for row in rows
    ]


def guests_needs(tx: Tx, after: str, limit: int) -> tuple[list[Finding], str | None]:
    """Guests that could lose what they use, for the ledger does not know that they need it: a slice of them."""
    guests = tx.all(
        "select id, agent, holder, spec, updated_at from claims where kind = 'guest' and wanted and holder is not null "
        "and id > :after order by id limit :limit",
        after=after, limit=limit,
    )  # fmt: skip
    needs: dict[str, set[str]] = {}
    for edge in tx.all(
        "select claim, needs from needs where claim in :ids", ids=tuple(row["id"] for row in guests)
    ):
        needs.setdefault(edge["claim"], set()).add(edge["needs"])
    there: dict[tuple[str, str], list[Row]] = {}
    for row in tx.all(
        "select id, kind, part, holder, agent from claims where wanted and holder in :ids",
        ids=tuple(row["holder"] for row in guests),
    ):
        there.setdefault((row["holder"], row["part"]), []).append(row)
    found = []
    for guest in guests:
        for kind, part in _used(guest["spec"]):
            for claim in there.get((guest["holder"], part), ()):
                mine = claim["agent"] == guest["agent"] or kind == "export"
                if claim["kind"] == kind and mine and claim["id"] not in needs.get(guest["id"], ()):
                    found.append(_needs_more(guest, claim))
    return found, guests[-1]["id"] if len(guests) == limit else None


def _used(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(kind, part) of what a guest with this spec uses."""
    for part in spec.get("disks", ()):
        yield "disk", part
    for nic in spec.get("nics", ()):
        yield "tap", nic["part"]
    for volume in spec.get("volumes", ()):
        yield volume["kind"], volume["part"]


def _needs_more(guest: Row, claim: Row) -> Finding:
    return Finding(
        "reference",
        f"{guest['id']} without {claim['id']}",
        f"the guest of server {guest['holder']} uses the {claim['kind']} {claim['part']}, and the ledger does not know that",
        guest["updated_at"],
        {"claim": guest["id"], "needs": claim["id"], "server": guest["holder"]},
        proven=True,
    )


def mend_holder(tx: Tx, finding: Finding) -> bool:
    """Who holds nothing goes; a server that is on record as deleted leaves its claims to their agents."""
    kind = str(finding.facts["kind"])
    if tx.one(f"select 1 from {TABLES[kind]} where id = :id", id=finding.id) is not None:
        return False
    deleted = tx.one("select 1 from deleted_servers where id = :id", id=finding.id) is not None
    claims = ledger.of_holder(tx, finding.id)
    if claims and not deleted:
        return False
    for claim in reversed(claims):
        ledger.leave(tx, claim, "its holder was gone")
    holders.remove(tx, finding.id)
    return True


def needs_of_nothing(tx: Tx, floor: float, stuck_after: float) -> list[Finding]:
    """Edges between claims of which one is not there. PostgreSQL never has any; whoever opens SQLite's file may leave some."""
    rows = tx.all(
        "select n.claim, n.needs from needs n left join claims a on a.id = n.claim left join claims b on b.id = n.needs "
        "where a.id is null or b.id is null order by n.claim, n.needs limit :limit",
        limit=SLICE,
    )
    return [
        Finding(
            "reference",
            f"{row['claim']} needs {row['needs']}",
            f"claim {row['claim']} needs claim {row['needs']}, and one of them is not there",
            tx.now,
            {"claim": row["claim"], "needs": row["needs"]},
            proven=True,
        )
        for row in rows
    ]


def mend_reference(tx: Tx, finding: Finding) -> bool:
    claim, needs = str(finding.facts["claim"]), str(finding.facts["needs"])
    there = ledger.by_id(tx, (claim, needs))
    if len(there) == 2:
        ledger.respec(tx, there[claim], there[claim].spec, (needs,))
        return True
    return tx.run("delete from needs where claim = :claim and needs = :needs", claim=claim, needs=needs) > 0


def references(tx: Tx, floor: float, stuck_after: float) -> list[Finding]:
    """Rows that name others which are not there. The database refuses that, but not to whoever opens SQLite's file."""
    if tx.dialect != "sqlite":
        return []
    found = []
    for key in tx.all('select distinct "table", parent, fkid from pragma_foreign_key_check'):
        table, parent = key["table"], key["parent"]
        if table == "needs":
            continue
        for id in _without_parent(tx, table, parent, key["fkid"]):
            message = f"row {id} of {table} names a row of {parent} that is not there"
            found.append(Finding("reference", f"{table} {id}", message, tx.now, {"table": table}))
    return found


def _without_parent(tx: Tx, table: str, parent: str, foreign_key: int) -> list[str]:
    """The primary keys of rows whose foreign key, of that number in SQLite's list, leads nowhere."""
    primary = tx.values("select name from pragma_table_info(:table) where pk > 0 order by pk", table=table)
    pairs = tx.tuples(
        'select "from", "to" from pragma_foreign_key_list(:table) where id = :key',
        table=table,
        key=foreign_key,
    )
    named = " and ".join(f'c."{mine}" is not null' for mine, _ in pairs)
    same = " and ".join(f'p."{theirs}" = c."{mine}"' for mine, theirs in pairs)
    columns = ", ".join(f'c."{name}"' for name in primary)
    rows = tx.tuples(
        f'select {columns} from "{table}" c '
        f'where {named} and not exists (select 1 from "{parent}" p where {same}) limit :limit',
        limit=SLICE,
    )
    return [" ".join(map(str, row)) for row in rows]


def addresses(tx: Tx, floor: float, stuck_after: float) -> list[Finding]:
    """Addresses of guests that may still run must not be given out; those of no such guest need not be kept."""
    found = []
    for claim in tx.all(
        "select * from claims where kind = 'tap' and is_left order by id limit :limit", limit=SLICE
    ):
        for fixed in claim["spec"].get("addresses", ()):
            subnet, address = fixed["subnet"], fixed["address"]
            if tx.one("select 1 from subnets where id = :id", id=subnet) is not None and not _held(
                tx, claim["id"], subnet, address
            ):
                message = f"address {address} may be in use by a guest that is owed, and is not kept"
                found.append(_address(tx, claim["id"], subnet, address, message))
    for row in tx.all(
        "select h.* from held_ips h left join claims c on c.id = h.claim where c.id is null or not c.is_left "
        "order by h.subnet_id, h.address limit :limit",
        limit=SLICE,
    ):
        message = f"address {row['address']} is kept for a claim that is not owed"
        found.append(_address(tx, row["claim"], row["subnet_id"], row["address"], message))
    return found


def _held(tx: Tx, claim: str, subnet: str, address: str) -> bool:
    asked = "select 1 from held_ips where claim = :claim and subnet_id = :subnet and address = :address"
    return tx.one(asked, claim=claim, subnet=subnet, address=address) is not None


def _address(tx: Tx, claim: str, subnet: str, address: str, message: str) -> Finding:
    facts = {"claim": claim, "subnet": subnet, "address": address}
    return Finding("address", f"{address} of {claim}", message, tx.now, facts, proven=True)


def mend_address(tx: Tx, finding: Finding) -> bool:
    known = {name: str(finding.facts[name]) for name in ("claim", "subnet", "address")}
    owed = tx.one("select 1 from claims where id = :id and is_left", id=known["claim"]) is not None
    if owed:
        return bool(
            tx.run(
                "insert into held_ips (subnet_id, address, claim) values (:subnet, :address, :claim) on conflict do nothing",
                **known,
            )
        )
    return bool(
        tx.run(
            "delete from held_ips where claim = :claim and subnet_id = :subnet and address = :address",
            **known,
        )
    )
