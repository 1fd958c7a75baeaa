"""The laws that hold at every moment, whatever is broken."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from cumulet.db.engine import Tx


class Broken(AssertionError):
    """A law does not hold."""


#: Law → a query that finds what breaks it.
LAWS = {
    "a server that is busy is due, or waits with a reason": (
        "select h.id, h.kind, s.task_state from holders h join servers s on s.id = h.id where h.due is null and "
        "h.waiting is null and s.task_state is not null"
    ),
    "a claim's holder is there, or it is a debt, and a debt is given up and says why": (
        "select c.id from claims c left join holders h on h.id = c.holder where c.holder is not null and h.id is null "
        "or c.holder is null and (not c.is_left or c.wanted or c.left_reason is null)"
    ),
    "a volume is exported to one host, but while its server moves there alive, or was deleted then": (
        "select v.volume_id from (select t.volume_id, t.id, case when t.passed then 0 else 1 end as used "
        "from claims c join attachments t on t.id = c.part "
        "join volumes vv on vv.id = t.volume_id and not vv.multiattach "
        "left join servers s on s.id = t.server_id left join migrations m on m.id = s.migration_id "
        "where c.kind = 'export' and not t.by_client and c.wanted and c.seen = 'present' and (m.id is null or m.type <> 'live-migration')"
        ") v group by v.volume_id having sum(v.used) > 1 or count(distinct v.id) > 1"
    ),
    "an allocation belongs to a server, or to a move, that is there": (
        "select c.id, c.type from consumers c left join servers s on s.id = c.id left join migrations m on m.id = c.id "
        "and m.phase <> '' where s.id is null and m.id is null and c.type in ('INSTANCE', 'MIGRATION')"
    ),
    "an attachment's server is there, or the volume waits for its end": (
        "select t.id from attachments t left join servers s on s.id = t.server_id "
        "where t.server_id is not null and s.id is null and not t.passed and not t.by_client"
    ),
    "a port's server is there": (
        "select p.id from ports p left join servers s on s.id = p.device_id "
        "where p.device_owner like 'compute:%' and p.device_id <> '' and s.id is null"
    ),
    "a server on a host has its allocation there": (
        "select s.id from servers s left join allocations l on l.consumer_id = s.id "
        "left join resource_providers p on p.id = l.provider_id left join migrations m on m.id = s.migration_id "
        "where s.host is not null and s.desired not in ('gone', 'failed', 'offloaded') and not s.giving_up "
        "and (p.agent is null or p.agent <> s.host) and (m.id is null or m.phase in ('preparing', 'finished'))"
    ),
    "an address that a guest may still use is nobody else's": (
        "select f.subnet_id, f.address, f.port_id, c.part from fixed_ips f join held_ips h on h.subnet_id = f.subnet_id "
        "and h.address = f.address join claims c on c.id = h.claim where c.part <> f.port_id"
    ),
    "a move that is open is its server's": (
        "select m.id from migrations m left join servers s on s.migration_id = m.id where m.phase <> '' and s.id is null"
    ),
    "what is used of a provider is not more than it has, but for what a host took back": (
        "select i.provider_id, i.resource_class from inventories i join allocations l on l.provider_id = i.provider_id "
        "and l.resource_class = i.resource_class group by i.provider_id, i.resource_class, i.total, i.reserved, "
        "i.allocation_ratio having sum(l.used) > (i.total - i.reserved) * i.allocation_ratio"
    ),
}


def check(tx: Tx) -> None:
    """Raise Broken if a law does not hold in the database."""
    for law, sql in LAWS.items():
        row = tx.one(sql)
        if row is not None:
            raise Broken(f"{law}: {row}")


def check_things(tx: Tx, directory: Path) -> None:
    """Raise Broken unless what is on the hosts is in the ledger, and one guest of each server runs at the most.

    A guest that was left to a host that nobody hears of may run on: its volumes were fenced.
    """
    claims = {row["id"]: row for row in tx.all("select id, holder, is_left from claims")}
    running: Counter[str] = Counter()
    writers: Counter[str] = Counter()
    for kind in ("guest", "disk", "tap", "connection", "source"):
        for path in directory.glob(f"agents/host-*/{kind}/*"):
            claim = claims.get(path.name)
            if path.name.startswith("."):
                continue
            if claim is None:
                raise Broken(f"the {kind} {path.name} on {path.parts[-3]} is in no ledger")
            if kind == "guest" and not claim["is_left"]:
                told = _read(path)
                if told.get("facts", {}).get("power") in ("on", "paused"):
                    running[claim["holder"]] += 1
                    for volume in told["spec"].get("volumes", ()):
                        writers.update(
                            [volume["volume"], *([volume["into"]["volume"]] if "into" in volume else ())]
                        )
    twice = [server for server, count in running.items() if count > 1]
    if twice:
        raise Broken(f"two guests of server {twice[0]} run")
    shared = set(tx.values("select id from volumes where multiattach"))
    both = [volume for volume, count in writers.items() if count > 1 and volume not in shared]
    if both:
        raise Broken(f"two guests write volume {both[0]}")


def _read(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_bytes() or b"{}")
    except (FileNotFoundError, ValueError):
        return {}
    return found
