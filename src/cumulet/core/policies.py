"""Policy documents that services may keep here. See the API reference, "Policies"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cumulet.core.matches import Match, narrow
from cumulet.db.engine import Row, Tx
from cumulet.db.query import Query, Where, page
from cumulet.errors import NotFound

SORTABLE = {"id": "id", "type": "type"}


def show(tx: Tx, policy_id: str) -> Row:
    """One document. Raises NotFound."""
    policy = tx.one("select * from policies where id = :id", id=policy_id)
    if policy is None:
        raise NotFound(f"Could not find policy: {policy_id[:64]}.")
    return policy


def find(tx: Tx, matches: Sequence[Match], query: Query) -> list[Row]:
    """Documents that match. Raises MarkerNotFound."""
    where = Where()
    narrow(where, matches, {"type": "type"})
    return page(tx, "policies", where, query, SORTABLE, (("id", "asc"),))


def create(tx: Tx, *, type: str, blob: str, extra: Mapping[str, Any]) -> Row:
    """Keep a document."""
    policy_id = tx.uuid().replace("-", "")
    tx.insert("policies", id=policy_id, type=type, blob=blob, extra=dict(extra))
    return show(tx, policy_id)


def update(tx: Tx, policy_id: str, changes: Mapping[str, Any], extra: Mapping[str, Any]) -> Row:
    """Change a document. Raises NotFound."""
    policy = show(tx, policy_id)
    tx.update("policies", policy_id, **changes, extra={**policy["extra"], **extra})
    return show(tx, policy_id)


def delete(tx: Tx, policy_id: str) -> None:
    """Raises NotFound."""
    if not tx.delete("policies", policy_id):
        raise NotFound(f"Could not find policy: {policy_id[:64]}.")
