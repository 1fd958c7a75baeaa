"""Metadata of a server: words of its user. See the compute API reference, "Server metadata"."""

from __future__ import annotations

from collections.abc import Mapping

from cumulet.core.servers import create, find
from cumulet.db.engine import Row, Tx
from cumulet.errors import NotFound
from cumulet.values import Caller

_STATES = ("active", "paused", "suspended", "stopped")


def all_of(tx: Tx, caller: Caller, id: str) -> dict[str, str]:
    """All items. Raises NotFound."""
    found: dict[str, str] = find.find(tx, caller, id)["metadata"]
    return found


def item(tx: Tx, caller: Caller, id: str, key: str) -> str:
    """One item. Raises NotFound."""
    return _item(all_of(tx, caller, id), key)


def _item(metadata: Mapping[str, str], key: str) -> str:
    if key not in metadata:
        raise NotFound("Metadata item was not found")
    return metadata[key]


def _changing(tx: Tx, caller: Caller, id: str, action: str) -> Row:
    row = find.locked(tx, caller, id)
    find.refuse_locked(caller, row)
    find.require_state(row, action, _STATES, None)
    return row


def change(
    tx: Tx, caller: Caller, id: str, items: Mapping[str, str], *, replace: bool = False
) -> dict[str, str]:
    """Add items or, with ``replace``, have no others; return all. Raises NotFound, Conflict, OverQuota."""
    row = _changing(tx, caller, id, "update metadata")
    metadata = dict(items) if replace else {**row["metadata"], **items}
    create.check_metadata(tx, caller, metadata)
    tx.update("servers", id, metadata=metadata, updated_at=tx.now)
    return metadata


def delete(tx: Tx, caller: Caller, id: str, key: str) -> None:
    """Remove an item. Raises NotFound, Conflict."""
    _item(all_of(tx, caller, id), key)
    row = _changing(tx, caller, id, "delete metadata")
    rest = {name: value for name, value in row["metadata"].items() if name != key}
    tx.update("servers", id, metadata=rest, updated_at=tx.now)
