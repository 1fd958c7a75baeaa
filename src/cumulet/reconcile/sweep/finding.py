"""What a sweep tells of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from cumulet.db.engine import Tx

#: Findings of one look at the most, so that a sweep is never a long transaction.
SLICE = 1000


class Finding(msgspec.Struct, frozen=True):
    """Something that is not as the ledger says, or not as it should be for so long."""

    #: One of KINDS.
    kind: str
    id: str
    message: str
    #: Seconds since the epoch.
    since: float
    #: What is on record about it.
    facts: dict[str, Any] = {}
    #: True if it can be put right without a doubt; see ``sweep.repair``.
    proven: bool = False


#: Every kind of finding, in the order in which they are told.
KINDS = (
    "lost", "missing", "failing", "drift", "silent", "debt", "orphan", "stuck", "plan", "holder", "reference",
    "allocation", "provider", "attachment", "port", "migration", "address",
)  # fmt: skip

#: A look at everything: ``look(tx, floor, stuck_after)``. Nothing younger than the floor is told of; what may wait
#: waits for ``stuck_after``. Both in seconds.
Look = Callable[[Tx, float, float], list[Finding]]
#: Puts a finding right, if it is still so and proven; True if it did: ``mend(tx, finding)``.
Mend = Callable[[Tx, Finding], bool]


def unreadable(kind: str, id: str, error: Exception, now: float) -> Finding:
    """Rows that nobody of us wrote like that."""
    why = f"{type(error).__name__}: {error}"
    return Finding("plan", id, f"the rows of {kind} {id} cannot be understood ({why})", now, {"kind": kind})
