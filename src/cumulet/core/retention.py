"""What is kept for a time only: the history of deleted servers, messages, revocations of tokens that have ended."""

from __future__ import annotations

from cumulet.db.engine import Tx

DAY = 86400.0
#: Deleted servers of one transaction: the others go on in between.
SLICE = 200


def forget(tx: Tx, days: float) -> bool:
    """Remove a slice of what is older than ``days``, and what has expired; True if more may be there."""
    tx.run("delete from volume_messages where expires_at < :now", now=tx.now)
    tx.run("delete from revocations where forget_at < :now", now=tx.now)
    ids = tx.values(
        "select id from deleted_servers where deleted_at < :before order by deleted_at limit :limit",
        before=tx.now - days * DAY,
        limit=SLICE,
    )
    if ids:
        some = tuple(ids)
        # Their events go with them.
        tx.run("delete from actions where server_id in :ids", ids=some)
        tx.run("delete from migrations where server_id in :ids", ids=some)
        tx.run("delete from deleted_servers where id in :ids", ids=some)
    return len(ids) == SLICE
