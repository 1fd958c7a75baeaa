"""Holders: rows that are driven to a desired state. The row is the queue: ``due`` says when to look again."""

from __future__ import annotations

from cumulet.db.engine import Tx


def create(tx: Tx, id: str, kind: str, project_id: str | None) -> None:
    """A new holder; the row of its kind, with the same id, comes after it. It is looked at before the commit."""
    tx.insert("holders", id=id, kind=kind, project_id=project_id, request_id=tx.request_id)
    touch(tx, id)


def touch(tx: Tx, id: str) -> None:
    """Something about the holder changed: reconcile it, in this transaction where that is possible."""
    if tx.settle is None:
        later(tx, id)
    else:
        tx.unsettled[id] = None


def now(tx: Tx, id: str) -> None:
    """Reconcile the holder at once: what comes next in this transaction builds on its claims."""
    if tx.settle is None:
        later(tx, id)
        return
    others, tx.unsettled = tx.unsettled, {id: None}
    rank, tx.rank = tx.rank, 0
    tx.settle(tx)
    # What comes later in the transaction goes on where it was in the order of locks.
    tx.rank = rank
    others.pop(id, None)
    tx.unsettled.update(others)


def later(tx: Tx, id: str, due: float | None = None) -> None:
    """Reconcile the holder in a transaction of its own, now or at ``due``."""
    tx.run(
        "update holders set due = :due, request_id = coalesce(:request, request_id) where id = :id",
        due=tx.now if due is None else due, request=tx.request_id, id=id,
    )  # fmt: skip
    tx.wakes.add("due")


def afterwards(tx: Tx, id: str) -> None:
    """Reconcile the holder in a transaction that follows this one: its lock comes before those that this one has."""
    tx.afterwards[f"touch {id}"] = (
        lambda following: touch(following, id),
        lambda following: later(following, id),
    )


def touch_all(tx: Tx, ids: list[str]) -> None:
    """Reconcile many holders, each in a transaction of its own."""
    if ids:
        tx.run("update holders set due = :now where id in :ids", now=tx.now, ids=tuple(ids))
        tx.wakes.add("due")


def remove(tx: Tx, id: str) -> None:
    """The holder is no more; its kind's row has gone before it. Raises StillHeld while it holds a claim."""
    with_ = tx.value("delete from holders where id = :id returning leaving_with", id=id)
    tx.unsettled.pop(id, None)
    tx.wakes.add(id)
    if with_ is not None:
        touch(tx, with_)


def leave_with(tx: Tx, id: str, server: str) -> None:
    """The holder is deleted together with a server, which waits for it."""
    tx.update("holders", id, leaving_with=server)
