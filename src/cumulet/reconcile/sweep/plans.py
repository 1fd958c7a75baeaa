"""Holders against their own plans: one that is at rest, and would not rest if somebody looked, was changed behind our back.

A plan is pure, so what it would do can be asked without doing it. What changes a holder looks at it in the same
transaction; if there is something to be done all the same, nobody of us changed it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from cumulet.db.engine import Row, Tx
from cumulet.reconcile import holders
from cumulet.reconcile.plan import base
from cumulet.reconcile.sweep.finding import Finding, unreadable
from cumulet.values import Limits


class Kind(Protocol):
    """How holders of one kind are reconciled; see worker.Kind."""

    @property
    def rules(self) -> tuple[base.Rule[Any], ...]: ...
    @property
    def view(self) -> Callable[[Tx, str, Limits], Any]: ...


Kinds = Mapping[str, Kind]
#: Changes that touch nothing but rows. All others are the ledger's, and of what exists.
_LEDGER = (base.Open, base.Respec, base.Unwant, base.DropNeed, base.Leave, base.HandOver)


def overdue(tx: Tx, kinds: Kinds, limits: Limits, after: str, limit: int) -> tuple[list[Finding], str | None]:
    """A slice of the holders, and where the next one begins."""
    rows = tx.all(
        "select * from holders where id > :after order by id limit :limit", after=after, limit=limit
    )
    found = [_of(tx, kinds, limits, row) for row in rows]
    return [one for one in found if one is not None], rows[-1]["id"] if len(rows) == limit else None


def one(tx: Tx, kinds: Kinds, limits: Limits, id: str) -> Finding | None:
    """The same of one holder."""
    row = tx.one("select * from holders where id = :id", id=id)
    return None if row is None else _of(tx, kinds, limits, row)


def _of(tx: Tx, kinds: Kinds, limits: Limits, row: Row) -> Finding | None:
    if (row["due"] is not None and row["due"] <= tx.now) or row["rule"] == "error":
        return None
    return would(tx, kinds, limits, row["id"], row["kind"])


def would(tx: Tx, kinds: Kinds, limits: Limits, id: str, kind: str) -> Finding | None:
    """What its plan would do with one holder; None if it rests or waits."""
    try:
        view = kinds[kind].view(tx, id, limits)
        if view is None:
            return None
        rule, step = base.decide(view, kinds[kind].rules)
    except (KeyError, TypeError, AttributeError, ValueError, AssertionError, StopIteration) as error:
        return unreadable(kind, id, error, tx.now)
    if isinstance(step, base.Wait | base.Rest):
        return None
    message = f"{kind} {id} is not as it should be, and nobody noticed: {rule} ({_words(view, step)})"
    proven = not any(isinstance(change, _LEDGER) for change in step)
    return Finding("plan", id, message, tx.now, {"kind": kind, "rule": rule}, proven)


def _words(view: Any, step: base.Step) -> str:
    claims = {claim.id: claim for claim in view.claims}
    words = []
    for change in step if not isinstance(step, base.Wait | base.Rest) else ():
        match change:
            case base.Open():
                words.append(f"make a {change.kind} {change.part}".rstrip())
            case base.Respec():
                words.append(f"change the {claims[change.claim].kind}")
            case base.Unwant():
                words += [f"remove the {claims[id].kind} {claims[id].part}".rstrip() for id in change.claims]
            case _:
                words.append(_name(change))
    return ", ".join(words)


def _name(change: base.Change) -> str:
    """ "EndAttachment" → "end attachment"."""
    return "".join(
        f" {letter.lower()}" if letter.isupper() else letter for letter in type(change).__name__
    ).strip()


def mend(tx: Tx, finding: Finding) -> bool:
    """Look at the holder. Only its rows change by that: what touches the ledger is not proven."""
    holders.touch(tx, finding.id)
    return True
