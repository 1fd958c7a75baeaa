"""Shelving: a server's disk becomes an image, its host is given up, and one day it comes back somewhere.

See the compute API reference, "Shelve server", "Shelf-offload server", "Unshelve server".
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from cumulet.core import scheduling
from cumulet.core.servers import actions, boot, create, snapshots
from cumulet.db.engine import Row, Tx
from cumulet.errors import Conflict, Invalid
from cumulet.reconcile import holders
from cumulet.values import Caller


class Destination(msgspec.Struct, frozen=True):
    """Where a server is to come back. A zone of None takes it from the zone that it was bound to."""

    zone: str | UnsetType | None = UNSET
    host: str | None = None


def shelve(tx: Tx, caller: Caller, id: str) -> None:
    """Power the server off and save its disk as an image. Raises NotFound, Conflict.

    A server that boots from a volume needs no image, so its host is given up at once.
    """
    row = actions.ready(tx, caller, id, "shelve", ("active", "stopped", "paused", "suspended"))
    if boot.boots_from_volume(tx, id):
        actions.begin(tx, caller, row, "shelve", "shelving", desired="offloaded")
        return
    image = snapshots.image_of(tx, row, f"{row['name']}-shelved", "snapshot")
    actions.begin(
        tx, caller, row, "shelve", "shelving", desired="shelved", shelved_image_id=image, shelved_at=None
    )


def offload(tx: Tx, caller: Caller, id: str) -> None:
    """Give up the host of a server that is shelved. Raises NotFound, Conflict."""
    row = actions.ready(tx, caller, id, "shelveOffload", ("shelved",))
    actions.begin(tx, caller, row, "shelveOffload", "shelving_offloading", desired="offloaded")


def unshelve(tx: Tx, caller: Caller, id: str, to: Destination, *, build_time: float) -> None:
    """Run a shelved server again; where, may be said only if it has no host. Raises NotFound, Conflict, Invalid."""
    row = actions.ready(tx, caller, id, "unshelve", ("shelved", "shelved_offloaded"))
    changes = _request(tx, row, to)
    if row["vm_state"] == "shelved_offloaded":
        changes |= {"attempts": [], "build_until": tx.now + build_time}
    actions.begin(
        tx,
        caller,
        row,
        "unshelve",
        "unshelving",
        desired="active",
        counters=actions.more(row, "starts"),
        **changes,
    )
    if row["host"] is None:
        # A host is chosen in a transaction of its own.
        tx.unsettled.pop(id, None)
        holders.later(tx, id)


def _request(tx: Tx, row: Row, to: Destination) -> dict[str, Any]:
    """What the scheduler is asked, after a change of zone or host."""
    if to.zone is UNSET and to.host is None:
        return {}
    if row["vm_state"] != "shelved_offloaded":
        raise Conflict(
            f"Specifying an availability zone or a host when unshelving server {row['id']} with status "
            f'"{row["vm_state"].upper()}" is not supported. The server status must be SHELVED_OFFLOADED.'
        )
    if to.zone is not UNSET and to.zone is not None and to.zone not in create.open_zones(tx):
        raise Invalid(f"The requested availability zone is not available: {to.zone}.")
    zone = row["zone"] if to.zone is UNSET else to.zone
    if to.host is not None:
        _check_host(tx, to.host, zone)
    return {"zone": zone, "request": {**row["request"], "zone": zone, "host": to.host}}


def _check_host(tx: Tx, host: str, zone: str | None) -> None:
    row = tx.one("select zone from agents where kind = 'host' and name = :name and not destroyed", name=host)
    if row is None:
        raise Invalid(f"Compute host {host} could not be found.")
    its = scheduling.zones_of_hosts(tx).get(host) or row["zone"]
    if zone is not None and its != zone:
        raise Conflict(f'Host "{host}" is not in the availability zone "{zone}", but in "{its}".')
