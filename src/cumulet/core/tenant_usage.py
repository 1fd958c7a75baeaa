"""How long projects had which servers: hours, and hours times what the servers are made of."""

from __future__ import annotations

import msgspec

from cumulet.db.engine import Row, Tx
from cumulet.db.query import MarkerNotFound


class ServerUsage(msgspec.Struct, frozen=True):
    """One server's part of a period."""

    id: str
    name: str
    project_id: str
    flavor: str
    vcpus: int
    memory_mb: int
    local_gb: int
    state: str
    hours: float
    started_at: float
    ended_at: float | None
    uptime: int


def usages(
    tx: Tx,
    start: float,
    stop: float,
    *,
    project_id: str | None = None,
    limit: int | None = None,
    marker: str | None = None,
) -> list[ServerUsage]:
    """The servers that ran between two moments, a page of them by project and id; deleted ones are among them.

    A server counts from its first start to its end. Raises MarkerNotFound.
    """
    place = _place(tx, marker) if marker is not None else ("", "")
    rows = [
        *_page(tx, "servers", "launched_at < :stop", start, stop, project_id, limit, place),
        *_page(
            tx, "deleted_servers", "created_at < :stop and deleted_at > :start", start, stop, project_id, limit, place
        ),
    ]  # fmt: skip
    rows.sort(key=lambda row: (row["project_id"], row["id"]))
    found = [_usage(row, start, stop, tx.now) for row in rows[:limit]]
    return [one for one in found if one is not None]


def _place(tx: Tx, marker: str) -> tuple[str, str]:
    for table in ("servers", "deleted_servers"):
        row = tx.one(f"select project_id, id from {table} where id = :id", id=marker)
        if row is not None:
            return row["project_id"], row["id"]
    raise MarkerNotFound(marker)


def _page(
    tx: Tx,
    table: str,
    window: str,
    start: float,
    stop: float,
    project_id: str | None,
    limit: int | None,
    place: tuple[str, str],
) -> list[Row]:
    params: dict[str, object] = {"stop": stop, "project_": place[0], "id_": place[1]}
    conditions = [window, "(project_id, id) > (:project_, :id_)"]
    if ":start" in window:
        params["start"] = start
    if project_id is not None:
        conditions.append("project_id = :project")
        params["project"] = project_id
    return tx.all(
        f"select * from {table} where {' and '.join(conditions)} order by project_id, id limit :limit",
        limit=limit if limit is not None else 1 << 62,
        **params,
    )


def _usage(row: Row, start: float, stop: float, now: float) -> ServerUsage | None:
    """A row's part of the period; None for a server that never ran, or only outside of it."""
    ended = row.get("deleted_at")
    server = row["server"] if ended is not None else row
    launched = server["launched_at"]
    if launched is None or launched >= stop:
        return None
    flavor = server["flavor"]
    return ServerUsage(
        id=row["id"],
        name=row["name"],
        project_id=row["project_id"],
        flavor=flavor.get("name", ""),
        vcpus=flavor["vcpus"],
        memory_mb=flavor["ram"],
        local_gb=flavor["disk"] + flavor.get("ephemeral", 0),
        state="terminated"
        if ended is not None or server["vm_state"] == "soft-delete"
        else server["vm_state"],
        hours=max(min(stop, ended if ended is not None else stop) - max(launched, start), 0) / 3600,
        started_at=launched,
        ended_at=ended,
        uptime=max(int((ended if ended is not None else now) - launched), 0),
    )
