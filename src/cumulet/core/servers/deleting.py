"""Deleting a server: its desired state is gone, and the plan does the rest from what is written down.

A server that was never placed is gone when this transaction commits; any other one once nothing of it is
left where somebody answers. See the compute API reference, "Delete server", "Force-delete server".
"""

from __future__ import annotations

from cumulet.core import history
from cumulet.core.servers import find
from cumulet.db.engine import Tx
from cumulet.reconcile import holders
from cumulet.values import Caller


def delete(tx: Tx, caller: Caller, id: str) -> None:
    """Want the server no more, in whatever state it is. Raises NotFound, Conflict if it is locked.

    A second call is harmless, and the history does not tell of it.
    """
    row = find.locked(tx, caller, id)
    find.refuse_locked(caller, row)
    if row["desired"] != "gone":
        tx.update("servers", id, desired="gone", task_state="deleting", updated_at=tx.now)
        history.begin(tx, id, "delete", caller, host=find.host_name(tx, row))
    holders.touch(tx, id)
