"""Finding a server, and what every change of it asks first: is it there, is it locked, is its state right."""

from __future__ import annotations

from collections.abc import Collection

from cumulet.db.engine import Row, Tx
from cumulet.errors import Conflict, NotFound
from cumulet.values import Caller

#: Task states in which nothing is under way.
IDLE: Collection[str | None] = (None,)


def missing(id: str) -> NotFound:
    return NotFound(f"Instance {id} could not be found.")


def find(tx: Tx, caller: Caller, id: str) -> Row:
    """The server's row, if the caller may know of it. Raises NotFound."""
    return _seen(tx.one("select * from servers where id = :id", id=id), caller, id)


def _seen(row: Row | None, caller: Caller, id: str) -> Row:
    if row is None or not caller.sees(row["project_id"]):
        raise missing(id)
    return row


def locked(tx: Tx, caller: Caller, id: str) -> Row:
    """The same, and nobody else changes the server until the end of the transaction. Raises NotFound."""
    tx.lock("holders", id)
    return _seen(tx.row("servers", id), caller, id)


def refuse_locked(caller: Caller, row: Row) -> None:
    """Raise Conflict if the server is locked against the caller: only administrators pass a lock."""
    if row["locked"] and not caller.is_admin:
        raise Conflict(f"Instance {row['id']} is locked")


def require_state(
    row: Row,
    action: str,
    vm_states: Collection[str] | None = None,
    task_states: Collection[str | None] | None = IDLE,
) -> None:
    """Raise Conflict unless the action is possible now; None stands for any state.

    The states are those of the upstream decorators (nova/compute/api.py, ``check_instance_state``).
    """
    if row["desired"] == "gone":
        raise _wrong(row, action, "task_state", "deleting")
    if vm_states is not None and row["vm_state"] not in vm_states:
        raise _wrong(row, action, "vm_state", row["vm_state"])
    if task_states is not None and row["task_state"] not in task_states:
        raise _wrong(row, action, "task_state", str(row["task_state"]))


def _wrong(row: Row, action: str, attribute: str, state: str) -> Conflict:
    return Conflict(f"Cannot '{action}' instance {row['id']} while it is in {attribute} {state}")


def require_host(row: Row) -> None:
    """Raise Conflict unless the server is on a host."""
    if row["host"] is None:
        raise Conflict(f"Instance {row['id']} is not ready")


def host_name(tx: Tx, row: Row) -> str | None:
    """The name of the server's host; None if it is on none."""
    if row["host"] is None:
        return None
    name = tx.value("select name from agents where id = :id", id=row["host"])
    return None if name is None else str(name)
