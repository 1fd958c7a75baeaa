"""The sweep: compares all that exists with the ledger. At rest it finds nothing, and it says so if it does.

The database is compared with itself here: every row that stands for something with the ledger, and every holder
with its own plan. What agents have is compared when the operator asks (``hosts``); what they have and no claim names
they report by themselves. It never judges by a partial list, nor anything younger than the floor, and by itself it
puts right only what is proven. An orphan is removed when an operator says so, by a claim that is not wanted: the
agent then removes what the ledger names, as always.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence

import msgspec
import structlog

from cumulet.db.engine import Database, Tx
from cumulet.errors import Conflict, NotFound
from cumulet.reconcile import ledger, mode
from cumulet.reconcile.sweep import claims, placement, plans, servers
from cumulet.reconcile.sweep.finding import KINDS, SLICE, Finding, Look, Mend
from cumulet.values import CLAIM_KINDS, Limits

__all__ = ["KINDS", "SLICE", "Finding", "Sweeper", "findings", "remove_orphan", "repair", "sweep"]

log = structlog.get_logger()

#: Servers and holders of one transaction.
PART = 100
#: Seconds until it is looked again at a holder that nobody seems to look at.
SECOND_LOOK = 1.0

#: Looks that cost about the same however many servers there are at rest.
_LOOKS: Sequence[Look] = (
    claims.lost,
    claims.failing,
    claims.debts,
    claims.orphans,
    claims.stuck,
    claims.holders_without_a_row,
    claims.rows_without_a_holder,
    claims.images_without_bytes,
    claims.needs_of_nothing,
    claims.addresses,
    placement.consumers,
    placement.providers,
    servers.attachments,
    servers.parts,
    servers.ports_of_servers,
    servers.moves,
)
_MENDS: Mapping[str, Mend] = {
    "holder": claims.mend_holder,
    "reference": claims.mend_reference,
    "address": claims.mend_address,
    "allocation": placement.mend_allocation,
    "provider": placement.mend_provider,
    "attachment": servers.mend_attachment,
    "port": servers.mend_port,
    "migration": servers.mend_move,
    "plan": plans.mend,
}


#: What costs more, and is looked at only when somebody asks.
_MORE: Sequence[Look] = (claims.references,)


class Sweeper:
    """Sweeps one cloud. Each look is a transaction of its own, so that requests come in between."""

    def __init__(
        self, db: Database, kinds: plans.Kinds, limits: Limits, *, floor: float, stuck_after: float
    ) -> None:
        """``floor``: seconds; nothing younger is judged. ``stuck_after``: seconds that a holder may wait."""
        self.db = db
        self.kinds = kinds
        self.limits = limits
        self.floor = floor
        self.stuck_after = stuck_after
        #: What was put right last. Nothing of that is what we do ourselves.
        self.repaired: deque[Finding] = deque(maxlen=1000)
        #: Where the slices of the next sweep begin; see ``part``.
        self._server: str | None = ""
        self._holder: str | None = ""

    async def part(self) -> list[Finding]:
        """One sweep: everything but for the servers and holders one by one, of which it is the turn of some.

        Returns what was found, after what is proven has been put right.
        """
        found = await self._looks(_LOOKS, self.floor)
        some, self._server = await self.db.read(placement.allocations, self._server or "", PART, self.floor)
        more, self._holder = await self.db.read(self._overdue, self._holder or "", PART)
        if more:
            # Who is about to be told of something is not overdue yet.
            await asyncio.sleep(SECOND_LOOK)
            more = [finding for finding in more if await self.db.read(self._still, finding.id)]
        return [finding for finding in found + some + more if not await self.repair(finding)]

    async def whole(self) -> list[Finding]:
        """All that is found at this moment, however young; nothing is put right."""
        found = await self._looks((*_LOOKS, *_MORE), 0.0)
        server: str | None = ""
        while server is not None:
            some, server = await self.db.read(placement.allocations, server, PART, 0.0)
            found += some
            await asyncio.sleep(0)
        guest: str | None = ""
        while guest is not None:
            some, guest = await self.db.read(claims.guests_needs, guest, PART)
            found += some
            await asyncio.sleep(0)
        holder: str | None = ""
        while holder is not None:
            some, holder = await self.db.read(self._overdue, holder, PART)
            found += some
            await asyncio.sleep(0)
        doubtful = {finding.id for finding in found if finding.kind == "plan"}
        return [
            msgspec.structs.replace(finding, proven=False)
            if finding.kind == "allocation" and finding.facts.get("server") in doubtful
            else finding
            for finding in found
        ]

    async def repair(self, finding: Finding) -> bool:
        """Put right what is proven; False if it is not, or is so no more."""
        if not finding.proven or not await self.db.write(self._repair, finding):
            return False
        log.warning("the sweep put something right", kind=finding.kind, id=finding.id, what=finding.message)
        self.repaired.append(finding)
        return True

    def _repair(self, tx: Tx, finding: Finding) -> bool:
        server = finding.facts.get("server")
        # Who is right, placement or the server's row? The row is, if all that the server has says the same.
        asked = finding.kind == "allocation" and server is not None
        if asked and plans.would(tx, self.kinds, self.limits, str(server), "server") is not None:
            return False
        return repair(tx, finding)

    async def _looks(self, looks: Sequence[Look], floor: float) -> list[Finding]:
        found: list[Finding] = []
        for look in looks:
            found += await self.db.read(look, floor, self.stuck_after)
            await asyncio.sleep(0)
        return found

    def _still(self, tx: Tx, holder: str) -> bool:
        return plans.one(tx, self.kinds, self.limits, holder) is not None

    def _overdue(self, tx: Tx, after: str, limit: int) -> tuple[list[Finding], str | None]:
        if mode.report_only(tx) is not None:
            return [], None  # nothing is done, so everything is overdue
        return plans.overdue(tx, self.kinds, self.limits, after, limit)


def findings(tx: Tx, *, floor: float, stuck_after: float) -> list[Finding]:
    """What is found without looking at servers and holders one by one, oldest first within each kind."""
    return [finding for look in _LOOKS for finding in look(tx, floor, stuck_after)]


def repair(tx: Tx, finding: Finding) -> bool:
    """Put right what is proven; False if it is not, or is so no more."""
    mend = _MENDS.get(finding.kind)
    return finding.proven and mend is not None and mend(tx, finding)


def sweep(tx: Tx, *, floor: float, stuck_after: float) -> list[Finding]:
    """One sweep: what was found, after what is proven has been put right."""
    found = findings(tx, floor=floor, stuck_after=stuck_after)
    return [finding for finding in found if not repair(tx, finding)]


def remove_orphan(tx: Tx, agent: str, thing: str) -> None:
    """Have an agent remove something that no claim names, by the operator's word: a claim that is not wanted.

    Raises NotFound if the agent did not report it, Conflict while it has not said what it is.
    """
    row = tx.one("select * from orphans where agent = :agent and thing = :thing", agent=agent, thing=thing)
    if row is None:
        raise NotFound(f"The agent reports no orphan {thing}.")
    if row["kind"] not in CLAIM_KINDS:
        raise Conflict(f"It is not known yet what {thing} is: wait until the agent has looked again.")
    ledger.open_debt(tx, id=thing, kind=row["kind"], agent=agent)
    tx.run("delete from orphans where agent = :agent and thing = :thing", agent=agent, thing=thing)
