"""Where the guest of a server is: for questions to its host, which change nothing."""

from __future__ import annotations

import msgspec

from cumulet.core.servers import find
from cumulet.db.engine import Tx
from cumulet.errors import Conflict
from cumulet.values import Caller


class Guest(msgspec.Struct, frozen=True):
    """The agent to ask, the claim to ask about, and what is known here."""

    agent: str
    claim: str
    config_drive: bool


def of(tx: Tx, caller: Caller, id: str) -> Guest:
    """The guest of a server. Raises NotFound, Conflict if it has none, or its host does not answer."""
    row = find.find(tx, caller, id)
    found = tx.one(
        "select c.id, a.id as agent, a.silent, a.forced_down, a.destroyed from claims c join agents a on a.id = c.agent "
        "where c.holder = :id and c.kind = 'guest' and c.seen = 'present'",
        id=id,
    )
    if row["host"] is None or found is None:
        raise Conflict(f"Instance {id} is not ready")
    if found["silent"] or found["forced_down"] or found["destroyed"]:
        raise Conflict(f"The host of instance {id} does not answer; ask again when it is back.")
    return Guest(found["agent"], found["id"], row["config_drive"])
