"""Moves of servers from host to host: their rows, and what each phase means for the server and at placement.

A move is no holder: its claims are the server's. While it is open its source's allocation is held by the move's
id, and the server's own id holds the target's; see the placement guide on migrations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from cumulet.core import history, numbers, scheduling
from cumulet.core.servers import find
from cumulet.db.engine import Row, Tx
from cumulet.db.query import Query, Where, page
from cumulet.errors import NotFound
from cumulet.reconcile.schedule import Ask, Refused
from cumulet.values import Caller

#: What is shown of a phase that says it by itself.
STATUS = {"finishing": "post-migrating", "confirming": "confirming", "reverting": "reverting"}
#: Why a user's abort ends a move.
ABORTED = "it was aborted by the user"


def begin(
    tx: Tx, server: Row, type: str, *, host: str | None = None, flavor: Mapping[str, Any] | None = None,
    status: str = "pre-migrating",
) -> str:  # fmt: skip
    """A new move of a server from its host; return its id. ``flavor``: the new one of a resize."""
    id = tx.uuid()
    tx.insert(
        "migrations", id=id, number=numbers.following(tx, "migration"), server_id=server["id"],
        project_id=server["project_id"], user_id=server["user_id"], type=type, phase="preparing", status=status,
        source=server["host"], source_name=tx.value("select name from agents where id = :id", id=server["host"]),
        requested_host=host, old_flavor=server["flavor"], new_flavor=dict(flavor or server["flavor"]),
        created_at=tx.now, updated_at=tx.now,
    )  # fmt: skip
    return id


def of(tx: Tx, server: Row) -> Row | None:
    """The move of a server that is under way, or waits to be confirmed."""
    if server["migration_id"] is None:
        return None
    return tx.one("select * from migrations where id = :id and phase <> ''", id=server["migration_id"])


def current(tx: Tx, server_id: str) -> tuple[Row, Row]:
    """A server's row and its move's."""
    server = tx.one("select * from servers where id = :id", id=server_id)
    assert server is not None
    found = of(tx, server)
    assert found is not None
    return server, found


def choose_target(tx: Tx, server: Row, move: Row, ask: Ask) -> str | None:
    """Take room for the server at a host; None, and why there is none is the move's error."""
    # Hosts that are asked for here have the server's flavor of after the move.
    scheduling.pass_on(tx, server["id"], move["id"], "MIGRATION")
    found = scheduling.place(tx, server["id"], server["project_id"], server["user_id"], ask)
    if isinstance(found, Refused):
        scheduling.pass_on(tx, move["id"], server["id"], "INSTANCE")
        tx.update("migrations", move["id"], phase="", status="error", error=found.reason, updated_at=tx.now)
        tx.update("servers", server["id"], **of_flavor(move["old_flavor"]))
        return None
    tx.update("migrations", move["id"], target=found.host, target_name=found.name, updated_at=tx.now)
    return found.host


def move_on(
    tx: Tx, server: Row, move: Row, phase: str, error: str | None = None, confirm_at: float | None = None
) -> None:
    """Enter a phase. The server's host and flavor are those of the phase."""
    tx.update(
        "migrations", move["id"], phase=phase, status=STATUS.get(phase, move["status"]), updated_at=tx.now,
        error=error or move["error"], confirm_at=confirm_at,
    )  # fmt: skip
    back = phase in ("failing", "reverting")
    if not back and phase != "finishing":
        return
    values: dict[str, Any] = {"host": move["source"] if back else move["target"]}
    if move["type"] == "resize":
        values |= of_flavor(move["old_flavor"] if back else move["new_flavor"])
    if move["type"] in ("resize", "migration"):
        # It was powered off to be moved.
        counters = server["counters"]
        values["counters"] = {**counters, "starts": counters.get("starts", 0) + 1}
    tx.update("servers", server["id"], **values, updated_at=tx.now)


def of_flavor(flavor: Mapping[str, Any]) -> dict[str, Any]:
    """What a server's row says of its flavor."""
    return {
        "flavor": dict(flavor), "flavorid": flavor["flavorid"], "vcpus": flavor["vcpus"], "ram": flavor["ram"],
    }  # fmt: skip


def end(tx: Tx, server: Row, move: Row, status: str) -> None:
    """The move is over: at placement only the server's own host is left."""
    if move["target"] is None:
        pass  # it never took room anywhere
    elif status in ("error", "reverted"):
        scheduling.free(tx, server["id"])
        scheduling.pass_on(tx, move["id"], server["id"], "INSTANCE")
    else:
        scheduling.free(tx, move["id"])
    error = move["error"] if status == "error" else None
    if error == ABORTED:
        status = "cancelled"
        history.finish(tx, server["id"], action="live_migration_cancel")
    tx.update("migrations", move["id"], phase="", status=status, updated_at=tx.now)
    tx.update("servers", server["id"], migration_id=None, task_state=None, updated_at=tx.now)
    history.finish(tx, server["id"], error=error)


def close(tx: Tx, server_id: str) -> None:
    """The server is gone, and with it every move of it."""
    for move in tx.all("select * from migrations where server_id = :id and phase <> ''", id=server_id):
        scheduling.free(tx, move["id"])
        done = move["phase"] in ("finished", "confirming")
        status = "confirmed" if done else "error"
        tx.update("migrations", move["id"], phase="", status=status, updated_at=tx.now)


# --- to be read ---

#: Of a live migration that is under way.
IN_PROGRESS = ("queued", "preparing", "running", "post-migrating")


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """What a list is narrowed by."""

    query: Query = Query()
    #: Newest first, in pages; else the oldest first.
    newest: bool = True
    #: Column → the value that it has.
    equal: Mapping[str, str] = {}
    #: A host that it comes from or goes to.
    host: str | None = None
    changed_since: float | None = None
    changed_before: float | None = None


def listing(tx: Tx, asked: Listing) -> list[Row]:
    """A page of all moves that were ever begun, but for those of servers that nobody remembers. Raises MarkerNotFound."""
    where = Where()
    for column, value in asked.equal.items():
        where.equal(column, value)
    if asked.host is not None:
        where.add("source_name = :host or target_name = :host", host=asked.host)
    if asked.changed_since is not None:
        where.add("updated_at >= :since", since=asked.changed_since)
    if asked.changed_before is not None:
        where.add("updated_at <= :before", before=asked.changed_before)
    order = (("created_at", "desc"), ("number", "desc")) if asked.newest else (("number", "asc"),)
    return page(tx, "migrations", where, asked.query, {}, order)


def in_progress(tx: Tx, caller: Caller, server_id: str) -> list[Row]:
    """The live migrations of a server that are under way. Raises NotFound."""
    find.find(tx, caller, server_id)
    return tx.all(
        "select * from migrations where server_id = :id and type = 'live-migration' and status in :now order by number",
        id=server_id, now=IN_PROGRESS,
    )  # fmt: skip


def refusal(tx: Tx, id: str) -> str | None:
    """Why there is no host to move to; "" while that is not known yet, None if there is one."""
    move = tx.one("select phase, target, error from migrations where id = :id", id=id)
    if move is None or move["target"] is not None:
        return None
    return "" if move["phase"] else str(move["error"])


def show(tx: Tx, caller: Caller, server_id: str, number: int) -> Row:
    """One of them. Raises NotFound."""
    find.find(tx, caller, server_id)
    row = tx.one("select * from migrations where server_id = :id and number = :n", id=server_id, n=number)
    if row is None:
        raise NotFound(f"In-progress live migration {number} is not found for server {server_id}.")
    if row["type"] != "live-migration":
        raise NotFound(f"Migration {number} for server {server_id} is not live-migration.")
    if row["status"] not in IN_PROGRESS:
        raise NotFound(f"Live migration {number} for server {server_id} is not in progress.")
    return row
