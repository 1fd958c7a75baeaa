"""Changing what a server is called and says of itself. See the compute API reference, "Update server"."""

from __future__ import annotations

from typing import Any

from cumulet.core.servers import find
from cumulet.core.servers import show as showing
from cumulet.core.servers.show import Shown
from cumulet.db.engine import Tx
from cumulet.reconcile import holders
from cumulet.values import Caller


def update(tx: Tx, caller: Caller, id: str, changes: dict[str, Any]) -> Shown:
    """Write new values of columns: name, description, hostname, addresses for access, disk_config. Raises NotFound."""
    find.locked(tx, caller, id)
    if changes:
        tx.update("servers", id, **changes, updated_at=tx.now)
        holders.touch(tx, id)
    return showing.show(tx, caller, id)
