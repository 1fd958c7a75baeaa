"""Rows that stand for what servers have: attachments, ports, moves. Each must fit its server, and the ledger."""

from __future__ import annotations

from cumulet.core import migrations, ports
from cumulet.core.volumes import end_attachment
from cumulet.db.engine import Row, Tx
from cumulet.reconcile.sweep.finding import SLICE, Finding

#: Of a holder that nobody works on, and that waits for nothing: what it has is what it is to have.
_AT_REST = "h.due is null and h.waiting is null"


def attachments(tx: Tx, floor: float, stuck_after: float) -> list[Finding]:
    """Attachments of servers that are not there, and those that only one side knows."""
    rows = tx.all(
        "select t.*, d.id as deleted from attachments t left join servers s on s.id = t.server_id "
        "left join deleted_servers d on d.id = t.server_id "
        "where t.server_id is not null and s.id is null and not t.by_client and not t.passed "
        "and t.created_at <= :before order by t.created_at, t.id limit :limit",
        before=tx.now - floor, limit=SLICE,
    )  # fmt: skip
    found = [
        _attachment(row, f"volume {row['volume_id']} is attached to server {row['server_id']}, which is not there",
                    proven=row["deleted"] is not None)
        for row in rows
    ]  # fmt: skip
    rows = tx.all(
        "select t.* from attachments t join servers s on s.id = t.server_id left join block_devices b "
        "on b.server_id = t.server_id and b.volume_id = t.volume_id where b.id is null and not t.by_client "
        "and not t.passed and t.created_at <= :before order by t.created_at, t.id limit :limit",
        before=tx.now - floor, limit=SLICE,
    )  # fmt: skip
    found += [
        _attachment(row, f"volume {row['volume_id']} is attached to server {row['server_id']}, which has no such device")
        for row in rows
    ]  # fmt: skip
    rows = tx.all(
        "select b.*, s.project_id from block_devices b join servers s on s.id = b.server_id left join attachments t "
        "on t.server_id = b.server_id and t.volume_id = b.volume_id and not t.by_client "
        "where b.volume_id is not null and t.id is null and b.created_at <= :before order by b.created_at, b.id limit :limit",
        before=tx.now - floor, limit=SLICE,
    )  # fmt: skip
    return found + [
        _attachment(row, f"server {row['server_id']} has volume {row['volume_id']}, which is not attached to it")
        for row in rows
    ]  # fmt: skip


def _attachment(row: Row, message: str, *, proven: bool = False) -> Finding:
    facts = {"volume": row["volume_id"], "server": row["server_id"], "project": row["project_id"]}
    return Finding("attachment", row["id"], message, row["created_at"], facts, proven)


def mend_attachment(tx: Tx, finding: Finding) -> bool:
    """An attachment of a server that is on record as deleted ends, once no export stands for it."""
    there = tx.one(
        "select 1 from attachments t join deleted_servers d on d.id = t.server_id where t.id = :id and not t.passed",
        id=finding.id,
    )
    if there is None or tx.one("select 1 from claims where part = :id", id=finding.id) is not None:
        return False
    end_attachment(tx, finding.id)
    return True


def parts(tx: Tx, floor: float, stuck_after: float) -> list[Finding]:
    """Taps and exports of servers at rest that stand for a port or an attachment that the server does not have."""
    rows = tx.all(
        "select c.*, a.name from claims c join holders h on h.id = c.holder join servers s on s.id = h.id "
        "join agents a on a.id = c.agent "
        "left join interfaces i on i.port_id = c.part and i.server_id = s.id "
        "left join attachments t on t.id = c.part and t.server_id = s.id "
        f"where {_AT_REST} and c.kind in ('tap', 'export', 'connection') and i.id is null and t.id is null "
        "and c.updated_at <= :before order by c.id limit :limit",
        before=tx.now - floor, limit=SLICE,
    )  # fmt: skip
    found = [_unexported(row) for row in _unreachable(tx, floor)]
    for row in rows:
        what = "port" if row["kind"] == "tap" else "attachment"
        message = (
            f"the {row['kind']} {row['id']} on {row['name']} is for {what} {row['part']}, which server {row['holder']} "
            "does not have"
        )
        kind = "port" if what == "port" else "attachment"
        facts = {"claim": row["id"], "server": row["holder"], "project": row["project_id"]}
        found.append(Finding(kind, row["part"], message, row["updated_at"], facts))
    return found


def _unreachable(tx: Tx, floor: float) -> list[Row]:
    return tx.all(
        "select c.*, a.name from claims c join agents a on a.id = c.agent where c.kind = 'connection' and c.wanted "
        "and c.holder is not null and c.updated_at <= :before and not exists "
        "(select 1 from claims e where e.holder = c.holder and e.part = c.part and e.kind = 'export') "
        "order by c.id limit :limit",
        before=tx.now - floor, limit=SLICE,
    )  # fmt: skip


def _unexported(row: Row) -> Finding:
    message = (
        f"server {row['holder']} is connected on {row['name']} to an export that the ledger does not have"
    )
    facts = {"claim": row["id"], "server": row["holder"], "project": row["project_id"]}
    return Finding("attachment", row["part"], message, row["updated_at"], facts)


def ports_of_servers(tx: Tx, floor: float, stuck_after: float) -> list[Finding]:
    """Ports of servers that are not there, and those that do not say what their server says."""
    rows = tx.all(
        "select p.*, d.id as deleted from ports p left join servers s on s.id = p.device_id "
        "left join deleted_servers d on d.id = p.device_id where p.device_owner like 'compute:%' "
        "and p.device_id <> '' and s.id is null and p.updated_at <= :before order by p.created_at, p.id limit :limit",
        before=tx.now - floor, limit=SLICE,
    )  # fmt: skip
    found = [
        _port(row, f"port {row['id']} names server {row['device_id']}, which is not there",
              proven=row["deleted"] is not None)
        for row in rows
    ]  # fmt: skip
    rows = tx.all(
        "select p.*, i.server_id from interfaces i join ports p on p.id = i.port_id "
        "where p.device_id <> i.server_id and p.updated_at <= :before order by p.id limit :limit",
        before=tx.now - floor, limit=SLICE,
    )  # fmt: skip
    found += [
        _port(row, f"port {row['id']} of server {row['server_id']} says that it is of {row['device_id'] or 'nobody'}")
        for row in rows
    ]  # fmt: skip
    rows = tx.all(
        "select p.*, i.server_id, a.name as host from interfaces i join ports p on p.id = i.port_id "
        "join servers s on s.id = i.server_id join holders h on h.id = s.id join agents a on a.id = s.host "
        f"where {_AT_REST} and not i.detaching and p.binding_host <> a.name and p.updated_at <= :before "
        "order by p.id limit :limit",
        before=tx.now - floor, limit=SLICE,
    )  # fmt: skip
    return found + [
        _port(row, f"port {row['id']} is bound to {row['binding_host'] or 'no host'}, its server {row['server_id']} is on "
              f"{row['host']}")
        for row in rows
    ]  # fmt: skip


def _port(row: Row, message: str, *, proven: bool = False) -> Finding:
    facts = {"server": row["device_id"], "project": row["project_id"]}
    return Finding("port", row["id"], message, row["updated_at"], facts, proven)


def mend_port(tx: Tx, finding: Finding) -> bool:
    """A port of a server that is on record as deleted is nobody's again. It is never deleted: it may be its user's."""
    there = tx.one(
        "select 1 from ports p join deleted_servers d on d.id = p.device_id left join interfaces i on i.port_id = p.id "
        "where p.id = :id and i.id is null",
        id=finding.id,
    )
    if there is None or tx.one("select 1 from claims where part = :id", id=finding.id) is not None:
        return False
    ports.give_back(tx, finding.id)
    return True


def moves(tx: Tx, floor: float, stuck_after: float) -> list[Finding]:
    """Moves of servers that are not there, and those that only one side knows."""
    rows = tx.all(
        "select m.*, h.id as holder, s.id as server, s.migration_id from migrations m left join holders h on h.id = m.server_id "
        "left join servers s on s.id = m.server_id where m.phase <> '' and (s.id is null or s.migration_id is null "
        "or s.migration_id <> m.id) and m.updated_at <= :before order by m.created_at, m.id limit :limit",
        before=tx.now - floor, limit=SLICE,
    )  # fmt: skip
    found = []
    for row in rows:
        if row["server"] is None:
            message = f"server {row['server_id']}, which is not there, is still on its way ({row['phase']})"
        else:
            message = f"server {row['server_id']} does not know that it is on its way ({row['phase']})"
        facts = {"server": row["server_id"], "phase": row["phase"], "project": row["project_id"]}
        # What is to come is a holder first, so a server without one has been.
        found.append(
            Finding("migration", row["id"], message, row["updated_at"], facts, proven=row["holder"] is None)
        )
    rows = tx.all(
        "select s.id, s.project_id, s.migration_id, s.updated_at from servers s left join migrations m "
        "on m.id = s.migration_id and m.phase <> '' where s.migration_id is not null and m.id is null "
        "and s.updated_at <= :before order by s.id limit :limit",
        before=tx.now - floor, limit=SLICE,
    )  # fmt: skip
    return found + [
        Finding(
            "migration",
            row["migration_id"],
            f"server {row['id']} is on its way by move {row['migration_id']}, which is over or not there",
            row["updated_at"],
            {"server": row["id"], "project": row["project_id"]},
        )
        for row in rows
    ]


def mend_move(tx: Tx, finding: Finding) -> bool:
    """The move of a server that is gone is over, and uses nothing."""
    server = str(finding.facts["server"])
    if tx.one("select 1 from holders where id = :id", id=server) is not None:
        return False
    migrations.close(tx, server)
    return True
