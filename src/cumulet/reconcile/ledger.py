"""The ledger: every thing outside the database that is, or is about to be, held. The only writer of claims.

The decisions are pure functions on values (``heard``, ``servable``, ``closable``); the SQL around them is
below. What the ledger promises, and what each promise is for:

* A claim is written before anybody is asked to make the thing, and its id names the thing.
* ``wanted`` goes from yes to no once and never back, so an old answer cannot revive what was given up.
* ``revision`` is the agent's counter, moved last in the transaction, so it follows the order of commits and
  an agent that asks for "everything since" misses nothing.
* A claim is served to be made once all that it needs is ready, and to be removed once no open claim needs it.
  Needs within one agent are ordered by the agent itself, which sees more than the ledger does.
* A claim is closed only when it is not wanted and its agent, having acted on the newest revision, saw nothing.
* A left claim has no holder that waits for it: a debt of its agent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from cumulet.db.engine import Tx, as_read, chunks
from cumulet.reconcile import holders
from cumulet.values import KEEPS_DATA, Claim, Report

# --- decisions ---


def heard(claim: Claim, report: Report, now: float) -> Claim:
    """The claim after a report. A report that claims to have acted on the future is not believed."""
    if report.revision > claim.revision:
        return claim
    error, failing_since = report.error, None if report.error is None else claim.failing_since or now
    if not claim.wanted and report.revision < claim.revision:
        # What failed before the agent knew of the removal was the making: it says nothing of the removal.
        error, failing_since = claim.error, claim.failing_since
    return msgspec.structs.replace(
        claim,
        seen=report.seen,
        acted=report.revision,
        # What is there but failed may be half of it.
        made=claim.made or (report.seen == "present" and report.error is None),
        # What is absent has no facts, but its failure has: that it is fatal, and what caused it.
        facts={} if report.seen == "absent" and report.error is None else report.facts,
        error=error,
        failing_since=failing_since,
    )


def closable(claim: Claim, needed_by: Collection[Claim]) -> bool:
    """True if the claim can be closed: given up, seen absent after that was known, and nobody needs it."""
    return not claim.wanted and claim.seen == "absent" and claim.acted >= claim.revision and not needed_by


def servable(claim: Claim, needs: Iterable[Claim], needed_by: Iterable[Claim]) -> bool:
    """True if the agent may act on the claim now: make what is wanted, or remove what is not."""
    if claim.wanted:
        return not claim.lost and all(need.ready or need.agent == claim.agent for need in needs)
    return all(other.agent == claim.agent for other in needed_by)


def awaits(claim: Claim, need: Claim) -> bool:
    """True if the claim's agent must hear when ``need`` gets ready."""
    return claim.wanted and claim.seen != "present" and claim.agent != need.agent


#: What volumes and images of other holders are made from.
_COPIED = KEEPS_DATA - {"disk"}

# --- reading ---

_COLUMNS = (
    "id", "kind", "holder", "agent", "wanted", "revision", "seen", "acted", "made", "spec", "facts", "error",
    "failing_since",
)  # fmt: skip
#: Where the claim that is needed stands, between the two.
_NEEDS = len(_COLUMNS)
_REST = ("part", "is_left", "request_id")
_QUALIFIED = ", ".join(f"c.{name}" for name in _COLUMNS)
_LAST = ", ".join(f"c.{name}" for name in _REST)
#: A claim comes once for each claim that it needs.
_SELECT = f"select {_QUALIFIED}, e.needs, {_LAST} from claims c left join needs e on e.claim = c.id"
#: Of a neighbour nobody asks what exactly is wanted, and that is most of a row.
_NEIGHBOUR = f"{_QUALIFIED.replace('c.spec', 'null')}, null, {_LAST}"
_NO_SPEC: Mapping[str, Any] = {}


def _claim(tx: Tx, row: tuple[Any, ...], needs: tuple[str, ...]) -> Claim:
    """A row of ``_SELECT`` or ``_NEIGHBOUR``: the fields of a claim, in their order."""
    id, kind, holder, agent, wanted, revision, seen, acted, made, spec, *rest = row
    facts, error, failing_since, _, part, left, request_id = rest
    # What moved in this transaction gets its revision at the end only. Until then it must not look as if its
    # agent had acted on it already: a plan that asked for a change would see the change come true at once.
    if tx.moved and id in tx.moved.get(agent, ()):
        revision += 1
    return Claim(
        id, kind, holder, agent, wanted, revision, seen, acted, made, _NO_SPEC if spec is None else spec, facts,
        error, failing_since, needs, part, left, request_id or "",
    )  # fmt: skip


def _read(tx: Tx, condition: str, **params: Any) -> list[Claim]:
    """Claims with what they need, by one statement, in the order of their first rows."""
    rows: dict[str, tuple[Any, ...]] = {}
    needs: dict[str, list[str]] = {}
    for row in tx.tuples(f"{_SELECT} {condition}", **params):
        id, need = row[0], row[_NEEDS]
        rows.setdefault(id, row)
        if need is not None:
            needs.setdefault(id, []).append(need)
    return [_claim(tx, row, tuple(sorted(needs[id])) if id in needs else ()) for id, row in rows.items()]


def of_holder(tx: Tx, holder: str) -> tuple[Claim, ...]:
    """All open claims of a holder, in the order in which they are made.

    For whoever has the holder locked: what is read is remembered, and follows what is written here.
    """
    remembered = _remembered(tx)
    found = remembered.get(holder)
    if found is None:
        found = remembered[holder] = _ordered(_read(tx, "where c.holder = :holder", holder=holder))
    return found


def _remembered(tx: Tx) -> dict[str, tuple[Claim, ...]]:
    """Claims by holder, as far as this transaction knows them."""
    found: dict[str, tuple[Claim, ...]] = tx.remembered.setdefault("claims", {})
    return found


def _ordered(claims: Iterable[Claim]) -> tuple[Claim, ...]:
    return tuple(sorted(claims, key=lambda claim: (claim.rank, claim.part, claim.id)))


def by_id(tx: Tx, ids: Collection[str]) -> dict[str, Claim]:
    """Open claims by id; those that are closed are not in the answer."""
    found: dict[str, Claim] = {}
    for some in chunks(ids):
        found.update((claim.id, claim) for claim in _read(tx, "where c.id in :ids", ids=some))
    return found


def _neighbours(tx: Tx, ids: Collection[str], *, upwards: bool) -> dict[str, list[Claim]]:
    """Per claim those that need it (``upwards``), or those that it needs; without their specs and needs."""
    mine, other = ("needs", "claim") if upwards else ("claim", "needs")
    found: dict[str, list[Claim]] = {}
    for some in chunks(ids):
        for row in tx.tuples(
            f"select {_NEIGHBOUR}, n.{mine} from needs n join claims c on c.id = n.{other} where n.{mine} in :ids",
            ids=some,
        ):
            found.setdefault(row[-1], []).append(_claim(tx, row[:-1], ()))
    return found


class Served(msgspec.Struct, frozen=True):
    """A claim as its agent gets to see it."""

    claim: Claim
    #: False: it may only be observed and reported, not made or removed.
    act: bool
    needs: tuple[Claim, ...]


#: One transaction may have given many claims one revision: all of them, or none.
_SINCE = (
    "where c.agent = :agent and c.revision > :since and c.revision <= (select max(first.revision) from (select revision "
    "from claims where agent = :agent and revision > :since order by revision limit :limit) first) order by c.revision"
)


def feed(tx: Tx, agent: str, since: int, limit: int = 500) -> tuple[int, list[Served], bool]:
    """What an agent was asked since a revision: (newest revision told, claims, whether more is there).

    ``since`` 0 tells of every open claim. At most about ``limit`` claims; a revision is never split.
    """
    claims = _read(tx, _SINCE, agent=agent, since=since, limit=limit)
    if not claims:
        return since, [], False
    more = len(claims) >= limit
    needs = _neighbours(tx, [claim.id for claim in claims if claim.needs], upwards=False)
    given_up = [claim.id for claim in claims if not claim.wanted]
    needed_by = _neighbours(tx, given_up, upwards=True) if given_up else {}
    served = [
        Served(
            claim,
            servable(claim, needs.get(claim.id, ()), needed_by.get(claim.id, ())),
            tuple(needs.get(claim.id, ())),
        )
        for claim in claims
    ]
    return claims[-1].revision, served, more


# --- writing ---


def _move(tx: Tx, claim: str, agent: str, holder: str | None) -> None:
    """The claim gets its agent's next revision; what is remembered of its holder's claims is forgotten."""
    tx.moved.setdefault(agent, set()).add(claim)
    tx.forget("claims")
    tx.before_commit["ledger"] = _flush
    if holder is not None:
        _remembered(tx).pop(holder, None)


def _change(tx: Tx, before: Claim, **changes: Any) -> None:
    """Move a claim that was written, and remember it as it is now."""
    known = _remembered(tx).get(before.holder) if before.holder is not None else None
    moved = before.id in tx.moved.get(before.agent, ())
    _move(tx, before.id, before.agent, before.holder)
    if known is None or before.holder is None:
        return
    now = next((claim for claim in known if claim.id == before.id), before)
    now = msgspec.structs.replace(now, revision=now.revision + (not moved), **changes)
    _remembered(tx)[before.holder] = _ordered((*(c for c in known if c.id != now.id), now))


def _flush(tx: Tx) -> None:
    """Give everything that moved its agent's next revision. Last in the transaction, for it locks the counters."""
    moved, tx.moved = tx.moved, {}
    _remembered(tx).clear()
    for agent in sorted(moved):
        row = tx.one(
            "update agents set revision = revision + 1 where id = :id returning revision, destroyed", id=agent
        )
        assert row is not None
        for ids in chunks(sorted(moved[agent])):
            tx.run(
                "update claims set revision = :revision where id in :ids", revision=row["revision"], ids=ids
            )
        tx.wakes.add(agent)
        if row["destroyed"]:
            # Nobody is there who could hear of it.
            close_destroyed(tx, agent)


def open(
    tx: Tx, *, holder: str, kind: str, agent: str, spec: Mapping[str, Any], needs: Iterable[str] = (),
    part: str = "", project_id: str | None = None, id: str | None = None,
) -> str:  # fmt: skip
    """Write down that a thing is wanted, before anybody makes it; return the claim's id."""
    id = id or tx.uuid()
    tx.insert(
        "claims", id=id, kind=kind, holder=holder, opened_for=holder, project_id=project_id, agent=agent,
        spec=dict(spec), part=part, request_id=tx.request_id, created_at=tx.now, updated_at=tx.now,
    )  # fmt: skip
    needed = tuple(sorted(set(needs)))
    for need in needed:
        tx.insert("needs", claim=id, needs=need)
    known = _remembered(tx).get(holder)
    _move(tx, id, agent, holder)
    if known is not None:
        claim = Claim(
            id=id, kind=kind, holder=holder, agent=agent, wanted=True, revision=1, spec=as_read(dict(spec)),
            needs=needed, part=part, request_id=tx.request_id or "",
        )  # fmt: skip
        _remembered(tx)[holder] = _ordered((*known, claim))
    return id


def open_debt(tx: Tx, *, id: str, kind: str, agent: str) -> None:
    """Name a thing that nobody named, as given up: its agent may remove it then. Raises Duplicate if it is named."""
    tx.insert(
        "claims", id=id, kind=kind, opened_for=id, agent=agent, wanted=False, seen="present", made=True, is_left=True,
        left_reason="an orphan, removed by the operator", created_at=tx.now, updated_at=tx.now,
    )  # fmt: skip
    _move(tx, id, agent, None)


def respec(tx: Tx, claim: Claim, spec: Mapping[str, Any], needs: Iterable[str] = ()) -> None:
    """Want the thing to be different; ``needs`` are added to what it needs."""
    request = tx.request_id or claim.request_id or None
    tx.update("claims", claim.id, spec=dict(spec), request_id=request, updated_at=tx.now)
    added = sorted(set(needs).difference(claim.needs))
    for need in added:
        tx.insert("needs", claim=claim.id, needs=need)
    _change(
        tx, claim, spec=as_read(dict(spec)), needs=tuple(sorted((*claim.needs, *added))), request_id=request or "",
    )  # fmt: skip


def unwant(tx: Tx, claims: Iterable[Claim]) -> None:
    """Want the things no more. There is no way back; wanting again is a new claim."""
    wanted = [claim for claim in claims if claim.wanted]
    if not wanted:
        return
    ids = tuple(claim.id for claim in wanted)
    # A removal that fails is another failure than the making that failed before it.
    tx.run(
        "update claims set wanted = false, failing_since = null, error = null, updated_at = :now, "
        "request_id = coalesce(:request, request_id) where id in :ids",
        now=tx.now, request=tx.request_id, ids=ids,
    )  # fmt: skip
    for claim in wanted:
        request = tx.request_id or claim.request_id
        _change(tx, claim, wanted=False, failing_since=None, error=None, request_id=request)
    # Another holder may be copying from what goes now.
    sources = [claim.id for claim in wanted if claim.kind in KEEPS_DATA]
    if sources:
        _touch_copies(tx, sources)


def drop_need(tx: Tx, claim: str, needs: str) -> None:
    """The claim does not need the other any more: what it needed may go before it."""
    tx.run("delete from needs where claim = :claim and needs = :needs", claim=claim, needs=needs)
    rows = {
        row["id"]: row
        for row in tx.all("select id, agent, holder, wanted from claims where id in :ids", ids=(claim, needs))
    }
    for row in rows.values():
        _remembered(tx).pop(row["holder"], None)
    if needs not in rows or claim not in rows:
        return
    needed, needing = rows[needs], rows[claim]
    if not needed["wanted"]:
        _move(tx, needs, needed["agent"], needed["holder"])
    if needed["agent"] == needing["agent"]:
        # Their agent orders the two itself, so it must know.
        _move(tx, claim, needing["agent"], needing["holder"])


def leave(tx: Tx, claim: Claim, reason: str) -> None:
    """Stop waiting for the claim: it becomes a debt of its agent, and its holder may go."""
    unwant(tx, [claim])
    tx.update("claims", claim.id, holder=None, is_left=True, left_reason=reason, updated_at=tx.now)
    known = _remembered(tx).get(claim.holder) if claim.holder is not None else None
    if known is not None and claim.holder is not None:
        _remembered(tx)[claim.holder] = tuple(other for other in known if other.id != claim.id)
    if tx.value("select destroyed from agents where id = :id", id=claim.agent):
        close_destroyed(tx, claim.agent)


def hand_over(tx: Tx, claim: str, holder: str) -> None:
    """Another holder waits for the claim from now on."""
    tx.update("claims", claim, holder=holder, updated_at=tx.now)
    _remembered(tx).clear()
    holders.touch(tx, holder)


def hear(tx: Tx, agent: str, reports: Sequence[Report]) -> list[str]:
    """Take down what an agent saw, close what can be closed, and have the holders reconciled.

    Returns the ids that are not (or no longer) in the ledger although the agent has the thing: orphans.
    """
    ids = [report.id for report in reports]
    if tx.dialect != "sqlite":
        # Whoever reconciles a holder relies on its claims while it has the holder's lock.
        tx.all(
            "select id from holders where id in (select holder from claims where id in :ids) order by id for update",
            ids=tuple(ids),
        )
    claims = by_id(tx, ids)
    changed: list[tuple[Claim, Claim]] = []
    unknown = []
    for report in reports:
        claim = claims.get(report.id)
        if claim is None or claim.agent != agent:
            if report.seen == "present":
                unknown.append(report.id)
            continue
        after = heard(claim, report, tx.now)
        if after is not claim:
            claims[claim.id] = after
            changed.append((claim, after))
    closed = _closing(tx, [claim for claim in claims.values() if not claim.wanted and claim.seen == "absent"])
    _store(tx, [(before, after) for before, after in changed if after.id not in closed])
    _close(tx, closed)
    return unknown


def _store(tx: Tx, changed: Sequence[tuple[Claim, Claim]]) -> None:
    """Write down claims as they were heard of: pairs of before and after."""
    for _, after in changed:
        tx.update(
            "claims", after.id, seen=after.seen, acted=after.acted, made=after.made, facts=dict(after.facts),
            error=after.error, failing_since=after.failing_since, updated_at=tx.now,
        )  # fmt: skip
        _remembered(tx).clear()
        if after.holder is not None:
            holders.touch(tx, after.holder)
    ready = {after.id: after for before, after in changed if after.ready and not before.ready}
    for id, others in _neighbours(tx, list(ready), upwards=True).items():
        for other in others:
            if awaits(other, ready[id]):
                _move(tx, other.id, other.agent, other.holder)
    # What was to be made from these cannot be any more.
    _touch_copies(tx, [
        after.id for before, after in changed
        if after.seen == "absent" and before.seen != "absent" and after.kind in _COPIED
    ])  # fmt: skip


def _touch_copies(tx: Tx, ids: Sequence[str]) -> None:
    """Reconcile other holders that want copies of what goes or is gone."""
    for others in _neighbours(tx, ids, upwards=True).values():
        for other in others:
            if other.holder is not None and other.wanted:
                holders.touch(tx, other.holder)


def _closing(tx: Tx, claims: Sequence[Claim]) -> dict[str, Claim]:
    """Those that can be closed; what needs something goes before it, so the highest rank comes first."""
    needed_by = _neighbours(tx, [claim.id for claim in claims], upwards=True)
    closed: dict[str, Claim] = {}
    for claim in sorted(claims, key=lambda claim: -claim.rank):
        if closable(claim, [other for other in needed_by.get(claim.id, ()) if other.id not in closed]):
            closed[claim.id] = claim
    return closed


def _close(tx: Tx, closed: Mapping[str, Claim]) -> None:
    """Close the claims, and what waited for that only."""
    if not closed:
        return
    needs = _neighbours(tx, [claim.id for claim in closed.values() if claim.needs], upwards=False)
    # Edges first: within one statement the order of rows is not ours to choose.
    tx.run("delete from needs where claim in :ids", ids=tuple(closed))
    tx.run("delete from claims where id in :ids", ids=tuple(closed))
    _remembered(tx).clear()
    for claim in closed.values():
        tx.moved.get(claim.agent, set()).discard(claim.id)
        tx.wakes.add(claim.id)
        if claim.holder is not None:
            holders.touch(tx, claim.holder)
    waiting = {
        need.id: need
        for found in needs.values()
        for need in found
        if not need.wanted and need.id not in closed
    }
    agents = {claim.agent for claim in closed.values()}
    for need in waiting.values():
        if need.agent not in agents:
            _move(tx, need.id, need.agent, need.holder)
    # Seen absent already, while something still needed it.
    absent = [
        need
        for need in by_id(tx, [need.id for need in waiting.values() if need.agent in agents]).values()
        if need.seen == "absent" and need.id not in tx.moved.get(need.agent, ())
    ]
    _close(tx, _closing(tx, absent))


def close_destroyed(tx: Tx, agent: str) -> int:
    """Close what is not wanted at an agent that is destroyed: it is gone, by the operator's word. Returns how many."""
    ids = tx.values("select id from claims where agent = :agent and not wanted", agent=agent)
    closed = 0
    for some in chunks(ids):
        tx.run("update claims set seen = 'absent', acted = revision, error = null where id in :ids", ids=some)
        _remembered(tx).clear()
        # What was given up in this very transaction need not be told: nobody is there to hear it.
        tx.moved.get(agent, set()).difference_update(some)
        _close(tx, _closing(tx, list(by_id(tx, some).values())))
        closed += len(some) - len(by_id(tx, some))
    return closed
