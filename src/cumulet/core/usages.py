"""How much is taken: always counted from the allocations, never stored."""

from __future__ import annotations

from collections.abc import Collection

from cumulet.core import inventory, providers
from cumulet.core.providers import Provider
from cumulet.db.engine import Row, Tx, chunks

#: Consumers that never said what they are.
UNKNOWN = "unknown"
ALL = "all"


def by_provider(tx: Tx, provider_ids: Collection[str] | None = None) -> dict[str, dict[str, int]]:
    """Provider → resource class → how much is taken; of these providers, or of all. Nothing taken: no entry."""
    select = "select provider_id, resource_class, sum(used) as used from allocations"
    group = "group by provider_id, resource_class"
    rows: list[Row] = []
    if provider_ids is None:
        rows = tx.all(f"{select} {group}")
    else:
        for some in chunks(provider_ids):
            rows += tx.all(f"{select} where provider_id in :ids {group}", ids=some)
    found: dict[str, dict[str, int]] = {}
    for row in rows:
        found.setdefault(row["provider_id"], {})[row["resource_class"]] = int(row["used"])
    return found


def of(tx: Tx, provider_id: str) -> tuple[Provider, dict[str, int]]:
    """A provider and how much is taken of each line of its inventory. Raises NotFound."""
    provider = providers.find(tx, provider_id)
    used = by_provider(tx, [provider_id]).get(provider_id, {})
    names = inventory.lines(tx, [provider_id]).get(provider_id, {})
    return provider, {name: used.get(name, 0) for name in names}


def of_project(tx: Tx, project_id: str, user_id: str | None = None) -> dict[str, int]:
    """Resource class → what a project, or one user in it, has taken."""
    found: dict[str, int] = {}
    for row in _rows(tx, project_id, user_id):
        found[row["resource_class"]] = found.get(row["resource_class"], 0) + int(row["used"])
    return found


def by_type(
    tx: Tx, project_id: str, user_id: str | None = None, only: str | None = None
) -> dict[str, dict[str, int]]:
    """Consumer type → resource class → what is taken, and "consumer_count": how many consumers have it.

    ``only`` "all" puts everything under that key; another type leaves the rest out.
    """
    found: dict[str, dict[str, int]] = {}
    for row in _rows(tx, project_id, user_id):
        kind = ALL if only == ALL else row["type"] or UNKNOWN
        if only in (None, ALL, kind):
            line = found.setdefault(kind, {})
            line[row["resource_class"]] = line.get(row["resource_class"], 0) + int(row["used"])
    for row in _counts(tx, project_id, user_id):
        kind = ALL if only == ALL else row["type"] or UNKNOWN
        if kind in found:
            found[kind]["consumer_count"] = found[kind].get("consumer_count", 0) + row["consumers"]
    return found


def _whose(project_id: str, user_id: str | None) -> tuple[str, dict[str, str]]:
    if user_id is None:
        return "c.project_id = :project", {"project": project_id}
    return "c.project_id = :project and c.user_id = :user", {"project": project_id, "user": user_id}


def _rows(tx: Tx, project_id: str, user_id: str | None) -> list[Row]:
    whose, params = _whose(project_id, user_id)
    return tx.all(
        "select c.type, a.resource_class, sum(a.used) as used from allocations a "
        f"join consumers c on c.id = a.consumer_id where {whose} group by c.type, a.resource_class",
        **params,
    )


def _counts(tx: Tx, project_id: str, user_id: str | None) -> list[Row]:
    whose, params = _whose(project_id, user_id)
    return tx.all(
        "select c.type, count(distinct a.consumer_id) as consumers from allocations a "
        f"join consumers c on c.id = a.consumer_id where {whose} group by c.type",
        **params,
    )
