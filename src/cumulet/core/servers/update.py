"""Changing what a server is called and says of itself. See the compute API reference, "Update server"."""

from __future__ import annotations

from typing import Any

from cumulet.core.servers import find
from cumulet.core.servers import show as showing
from cumulet.core.servers.show import Shown
from cumulet.db.engine import Row, Tx
from cumulet.errors import Conflict
from cumulet.reconcile import holders
from cumulet.values import Caller


def update(tx: Tx, caller: Caller, id: str, changes: dict[str, Any]) -> Shown:
    """Write new values of columns: name, description, hostname, addresses for access, disk_config, zone.

    ``zone`` is the availability zone that the server is pinned to. Raises NotFound, Conflict.
    """
    row = find.locked(tx, caller, id)
    if "zone" in changes:
        _check_zone(tx, row, changes["zone"])
        changes = {**changes, "request": {**row["request"], "zone": changes["zone"]}}
    if changes:
        tx.update("servers", id, **changes, updated_at=tx.now)
        holders.touch(tx, id)
    return showing.show(tx, caller, id)


def _check_zone(tx: Tx, row: Row, zone: str | None) -> None:
    """Raise Conflict unless the server can be pinned to the zone: it is in it, and pinned to no other one."""
    if zone is None or zone == row["zone"]:
        return
    if row["zone"] is not None:
        raise Conflict(
            f"Instance {row['id']} is pinned to availability zone {row['zone']}. It cannot be pinned to another one "
            "before pinned_availability_zone was set to null."
        )
    (shown,) = showing.complete(tx, [row])
    if zone != shown.zone:
        raise Conflict(
            f"Instance {row['id']} can only be pinned to the availability zone that it is in, "
            f"{shown.zone or 'none'}, not to {zone}."
        )
