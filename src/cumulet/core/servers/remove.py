"""The end of a server's record."""

from __future__ import annotations

from cumulet.core import history, migrations
from cumulet.db.engine import Tx
from cumulet.reconcile import holders


def record(tx: Tx, id: str) -> None:
    """Remove the row and its holder; what an administrator may read of it later stays in the history.

    Raises StillHeld if the ledger has a claim of it: the last safeguard.
    """
    row = tx.row("servers", id)
    assert row is not None
    shown = {name: value for name, value in row.items() if name not in ("user_data", "pending")}
    # Neither does its password, nor the files that its user gave it.
    shown["request"] = {name: row["request"].get(name) for name in ("zone", "host", "hints")}
    tx.insert(
        "deleted_servers", id=id, project_id=row["project_id"], name=row["name"], created_at=row["created_at"],
        deleted_at=tx.now, server=shown,
    )  # fmt: skip
    history.finish(tx, id)
    migrations.close(tx, id)
    tx.delete("servers", id)
    holders.remove(tx, id)
