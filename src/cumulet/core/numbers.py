"""Small whole numbers for rows that old APIs number: key pairs, aggregates, services."""

from __future__ import annotations

from cumulet.db.engine import Tx


def following(tx: Tx, kind: str) -> int:
    """The next number for a kind of row; a number is never given out twice, whatever is deleted."""
    number = tx.value(
        "insert into numbers (kind, last) values (:kind, 1) "
        "on conflict (kind) do update set last = numbers.last + 1 returning last",
        kind=kind,
    )
    assert isinstance(number, int)
    return number
