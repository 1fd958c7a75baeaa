"""What is done to a server: started, stopped, rebooted, locked, its shown state set.

Each is a new desired state, or a counter that grows, in one transaction; the plan and the agent make it true.
In which states an action is possible follows the upstream decorators (nova/compute/api.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cumulet.core import history, quota
from cumulet.core.servers import create, find
from cumulet.db.engine import Row, Tx
from cumulet.errors import Forbidden
from cumulet.reconcile import holders
from cumulet.values import Caller

#: Task states in which a hard reboot is still possible: it ends whatever hangs.
_REBOOTABLE = (
    None, "rebooting", "reboot_pending", "reboot_started", "resuming", "rebooting_hard", "unpausing", "pausing",
    "suspending",
)  # fmt: skip


def start(tx: Tx, caller: Caller, id: str) -> None:
    """Run a server that is stopped. Raises NotFound, Conflict."""
    row = _ready(tx, caller, id, "start", ("stopped",), on_host=True)
    begin(tx, caller, row, "start", "powering-on", desired="active", counters=more(row, "starts"))


def stop(tx: Tx, caller: Caller, id: str) -> None:
    """Power a server off. Raises NotFound, Conflict."""
    row = _ready(tx, caller, id, "stop", ("active", "error"), on_host=True)
    begin(tx, caller, row, "stop", "powering-off", desired="stopped")


def reboot(tx: Tx, caller: Caller, id: str, *, hard: bool) -> None:
    """Restart a server; a hard reboot runs one that is off, too. Raises NotFound, Conflict."""
    if not hard:
        row = _ready(tx, caller, id, "reboot", ("active",))
        begin(tx, caller, row, "reboot", "rebooting", counters=more(row, "reboots"))
        return
    states = ("active", "stopped", "paused", "suspended", "error")
    row = _ready(tx, caller, id, "reboot", states, tasks=_REBOOTABLE)
    find.require_host(row)
    names = ("hard_reboots",) if row["desired"] == "active" else ("hard_reboots", "starts")
    begin(tx, caller, row, "reboot", "rebooting_hard", desired="active", counters=more(row, *names))


def pause(tx: Tx, caller: Caller, id: str) -> None:
    """Stop a server's processors, and keep its memory. Raises NotFound, Conflict."""
    row = _ready(tx, caller, id, "pause", ("active",), on_host=True)
    begin(tx, caller, row, "pause", "pausing", desired="paused")


def unpause(tx: Tx, caller: Caller, id: str) -> None:
    """Let a paused server run on. Raises NotFound, Conflict."""
    row = _ready(tx, caller, id, "unpause", ("paused",), on_host=True)
    begin(tx, caller, row, "unpause", "unpausing", desired="active")


def suspend(tx: Tx, caller: Caller, id: str) -> None:
    """Save a server's memory, and end its guest's process. Raises NotFound, Conflict."""
    row = _ready(tx, caller, id, "suspend", ("active",), on_host=True)
    begin(tx, caller, row, "suspend", "suspending", desired="suspended")


def resume(tx: Tx, caller: Caller, id: str) -> None:
    """Let a suspended server run on. Raises NotFound, Conflict."""
    row = _ready(tx, caller, id, "resume", ("suspended",), on_host=True)
    begin(tx, caller, row, "resume", "resuming", desired="active")


def restore(tx: Tx, caller: Caller, id: str) -> None:
    """Take back a soft delete: the server runs again. Raises NotFound, Conflict, OverQuota."""
    row = _ready(tx, caller, id, "restore", ("soft-delete",))
    quota.lock_project(tx, row["project_id"])
    create.check_quota(tx, row["project_id"], row["user_id"], row["flavor"])
    begin(
        tx,
        caller,
        row,
        "restore",
        "restoring",
        desired="active",
        reclaim_at=None,
        counters=more(row, "starts"),
    )


def lock(tx: Tx, caller: Caller, id: str, reason: str | None = None) -> None:
    """Keep everybody but administrators from changing the server. Raises NotFound.

    A lock of the owner's own stays as it is when the owner asks again.
    """
    row = find.locked(tx, caller, id)
    owns = row["project_id"] == caller.project_id
    if row["locked"] and owns:
        return
    history.begin(tx, id, "lock", caller)
    by = "owner" if owns else "admin"
    tx.update("servers", id, locked=True, locked_by=by, locked_reason=reason or row["locked_reason"])


def unlock(tx: Tx, caller: Caller, id: str, *, override: bool) -> None:
    """Let everybody change the server again. Raises NotFound, Forbidden.

    What an administrator locked its owner cannot unlock; ``override``: the caller passes that rule.
    """
    row = find.locked(tx, caller, id)
    expected = "owner" if row["project_id"] == caller.project_id else "admin"
    if row["locked_by"] not in (None, expected) and not override:
        raise Forbidden(
            f"Instance {id} was locked by {row['locked_by']}; only an administrator can unlock it."
        )
    history.begin(tx, id, "unlock", caller)
    tx.update("servers", id, locked=False, locked_by=None, locked_reason=None)


def reset_state(tx: Tx, caller: Caller, id: str, state: str) -> None:
    """Show the server as ``error``, or ("active") as it really is. Raises NotFound.

    What it is and holds does not change: it can be deleted, rebooted or stopped as before.
    """
    row = find.locked(tx, caller, id)
    if row["desired"] == "gone":
        raise find.missing(id)
    history.begin(tx, id, "resetState", caller)
    values: dict[str, Any] = {"state_is_reset": state == "error", "task_state": None, "updated_at": tx.now}
    if state == "error":
        values["vm_state"] = "error"
    tx.update("servers", id, **values)
    holders.touch(tx, id)


def look_again(tx: Tx, caller: Caller, id: str) -> None:
    """Compare once more what the server's host and ports should have with what they have. Raises NotFound, Conflict."""
    row = find.locked(tx, caller, id)
    find.refuse_locked(caller, row)
    for port in tx.values("select port_id from interfaces where server_id = :id", id=id):
        holders.touch(tx, port)
    holders.touch(tx, id)


# --- what actions have in common ---


def _ready(
    tx: Tx, caller: Caller, id: str, action: str, states: Iterable[str], *,
    tasks: Iterable[str | None] = find.IDLE, on_host: bool = False,
) -> Row:  # fmt: skip
    row = find.locked(tx, caller, id)
    find.refuse_locked(caller, row)
    find.require_state(row, action, tuple(states), tuple(tasks))
    if on_host:
        find.require_host(row)
    return row


def ready(tx: Tx, caller: Caller, id: str, action: str, states: Iterable[str]) -> Row:
    """The server's row, if the action is possible now; nobody else changes it. Raises NotFound, Conflict."""
    return _ready(tx, caller, id, action, states)


def begin(tx: Tx, caller: Caller, row: Row, action: str, task: str | None, **changes: Any) -> None:
    """Write down what is wanted from now on, and that it was asked for; the plan does the rest."""
    tx.update("servers", row["id"], task_state=task, state_is_reset=False, updated_at=tx.now, **changes)
    history.begin(tx, row["id"], action, caller, host=find.host_name(tx, row))
    holders.touch(tx, row["id"])


def more(row: Row, *names: str) -> dict[str, int]:
    """The counters of one-shot actions after one more of each of the names."""
    counters: dict[str, int] = row["counters"]
    return {**counters, **{name: counters.get(name, 0) + 1 for name in names}}
