"""Services of the catalogue. See the API reference, "Service catalog and endpoints"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cumulet.core.matches import Match, narrow
from cumulet.db.engine import Row, StillHeld, Tx
from cumulet.db.query import Query, Where, page
from cumulet.errors import Conflict, NotFound

SORTABLE = {"id": "id", "type": "type"}


def show(tx: Tx, service_id: str) -> Row:
    """One service. Raises NotFound."""
    service = tx.one("select * from services where id = :id", id=service_id)
    if service is None:
        raise NotFound(f"Could not find service: {service_id[:64]}.")
    return service


def find(tx: Tx, matches: Sequence[Match], query: Query) -> list[Row]:
    """Services that match. Raises MarkerNotFound."""
    where = Where()
    narrow(where, matches, {"type": "type", "name": "name"})
    return page(tx, "services", where, query, SORTABLE, (("type", "asc"),))


def create(
    tx: Tx, *, type: str, name: str | None, description: str | None, enabled: bool, extra: Mapping[str, Any]
) -> Row:
    """Make a service."""
    service_id = tx.uuid().replace("-", "")
    tx.insert(
        "services",
        id=service_id,
        type=type,
        name=name,
        description=description,
        enabled=enabled,
        extra=dict(extra),
    )
    return show(tx, service_id)


def update(tx: Tx, service_id: str, changes: Mapping[str, Any], extra: Mapping[str, Any]) -> Row:
    """Change a service. Raises NotFound."""
    service = show(tx, service_id)
    tx.update("services", service_id, **changes, extra={**service["extra"], **extra})
    return show(tx, service_id)


def delete(tx: Tx, service_id: str) -> None:
    """Remove a service with its endpoints. Raises NotFound, Conflict while limits are registered for it."""
    try:
        if not tx.delete("services", service_id):
            raise NotFound(f"Could not find service: {service_id[:64]}.")
    except StillHeld:
        raise Conflict(
            f"Unable to delete service {service_id}: there are registered limits for it."
        ) from None
