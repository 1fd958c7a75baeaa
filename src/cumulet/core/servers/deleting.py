"""Deleting a server: its desired state is gone, and the plan does the rest from what is written down.

A server that was never placed is gone when this transaction commits; any other one once nothing of it is
left where somebody answers. See the compute API reference, "Delete server", "Force-delete server".
"""

from __future__ import annotations

from typing import Any

from cumulet.core import history, migrations
from cumulet.core.servers import find, snapshot_volumes, snapshots
from cumulet.db.engine import Row, Tx
from cumulet.reconcile import agents, holders
from cumulet.values import Caller


def delete(tx: Tx, caller: Caller, id: str, *, reclaim_after: float = 0.0) -> None:
    """Want the server no more, in whatever state it is. Raises NotFound, Conflict if it is locked.

    With ``reclaim_after`` seconds it stays that long, powered off, and can be restored; but not if it never ran,
    has no host that answers, or is on its way to another one: then it goes at once. A second call is harmless,
    and the history does not tell of it.
    """
    row = find.locked(tx, caller, id)
    find.refuse_locked(caller, row)
    if row["desired"] == "gone" or (reclaim_after > 0 and row["desired"] == "soft_deleted"):
        holders.touch(tx, id)
        return
    softly = reclaim_after > 0 and _can_wait(tx, row)
    event = "soft_delete" if softly else None
    history.begin(tx, id, "delete", caller, host=find.host_name(tx, row), event=event)
    values: dict[str, Any] = {"desired": "gone", "task_state": "deleting"}
    if softly:
        values = {
            "desired": "soft_deleted", "task_state": "soft-deleting", "reclaim_at": tx.now + reclaim_after,
            "rescue": None, "state_is_reset": False,
        }  # fmt: skip
    if values["desired"] == "gone":
        # Before the server's own things go: a volume with a snapshot that is wanted would not.
        snapshot_volumes.give_up(tx, id)
        snapshots.give_up(tx, row)
    tx.update("servers", id, **values, updated_at=tx.now)
    holders.touch(tx, id)


def _can_wait(tx: Tx, row: Row) -> bool:
    """True if the server can be deleted softly; one that waits for its move to be confirmed is confirmed by it."""
    if row["launched_at"] is None or row["host"] is None:
        return False
    host = agents.views(tx, {row["host"]}).get(row["host"])
    if host is None or host.away:
        return False
    move = migrations.of(tx, row)
    if move is None:
        return True
    if move["phase"] == "finished":
        migrations.move_on(tx, row, move, "confirming")
    return move["phase"] in ("finished", "confirming")
