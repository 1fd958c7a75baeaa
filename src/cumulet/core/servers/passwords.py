"""The password of a guest's administrator. See the compute API reference, "Change administrative password".

A host that can set it says so in its facts. It is written down only until the guest has it: in the server's row and
its guest's claim, never in what is shown, logged or kept of a server that is gone.
"""

from __future__ import annotations

from cumulet.core.servers import actions, find
from cumulet.db.engine import Tx
from cumulet.errors import Conflict
from cumulet.values import Caller

#: What the server waits for meanwhile; see ``servers.pending``.
_NAME = "changePassword"


def change(tx: Tx, caller: Caller, id: str, password: str) -> None:
    """Give the guest's administrator a new password. Raises NotFound, Conflict if its host cannot do that."""
    row = actions.ready(tx, caller, id, "changePassword", ("active",))
    find.require_host(row)
    facts = tx.value("select facts from agents where id = :id", id=row["host"])
    if not (facts or {}).get("passwords"):
        raise Conflict("Setting admin password is not supported by the host that the server is on.")
    actions.begin(
        tx, caller, row, "changePassword", "updating_password", counters=actions.more(row, "passwords"),
        pending={"name": _NAME, "password": password},
    )  # fmt: skip


def waiting(pending: dict[str, str] | None) -> str | None:
    """The password that a guest does not have yet, from what its server waits for."""
    return pending["password"] if pending is not None and pending.get("name") == _NAME else None


def forget(tx: Tx, id: str) -> None:
    """The guest has it, or will not have it."""
    tx.update("servers", id, pending=None)
