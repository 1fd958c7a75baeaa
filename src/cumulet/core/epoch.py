"""The epoch of identity data: a row that every change of users, projects, roles, assignments and revocations replaces.

What a process remembers of a token holds only while the epoch is the one that it was read under, so it is
right across processes too.
"""

from __future__ import annotations

from typing import Any

from cumulet.db.engine import Tx

_ROW = "identity-epoch"


def touch(tx: Tx) -> None:
    """Say that identity data changed in this transaction."""
    # Last in the transaction, so that the row is locked for a moment only.
    tx.before_commit[_ROW] = _replace


def _replace(tx: Tx) -> None:
    tx.run(
        "insert into settings (id, value) values (:id, :value) on conflict (id) do update set value = excluded.value",
        id=_ROW,
        value={"epoch": tx.uuid()},
    )


def current(tx: Tx) -> Any:
    """The epoch; None before anything was written."""
    return tx.value("select value from settings where id = :id", id=_ROW)
