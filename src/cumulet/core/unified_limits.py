"""Unified limits: what is registered for a service, and what projects and domains have instead.

See the API reference, "Unified limits". The model is flat: limits of parents and children are independent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cumulet.core import domains, projects, regions, services
from cumulet.core.matches import Match, narrow
from cumulet.db.engine import Duplicate, Row, Tx
from cumulet.db.query import Query, Where, page
from cumulet.errors import Conflict, Forbidden, Invalid, NotFound
from cumulet.values import Caller

COLUMNS = {"service_id": "service_id", "region_id": "region_id", "resource_name": "resource_name"}
#: Limits with what they are registered under.
_LIMITS = (
    "(select l.id, l.project_id, l.domain_id, l.resource_limit, l.description, l.registered_limit_id,"
    " r.service_id, r.region_id, r.resource_name"
    " from project_limits l join registered_limits r on r.id = l.registered_limit_id) limits_"
)


# -- Registered limits -------------------------------------------------------------------------------------------


def show_registered(tx: Tx, id: str) -> Row:
    """One registered limit. Raises NotFound."""
    found = tx.one("select * from registered_limits where id = :id", id=id)
    if found is None:
        raise NotFound(f"Could not find registered limit for {id[:64]}.")
    return found


def find_registered(tx: Tx, matches: Sequence[Match], query: Query) -> list[Row]:
    """Registered limits that match. Raises MarkerNotFound."""
    where = Where()
    narrow(where, matches, COLUMNS)
    return page(tx, "registered_limits", where, query, {"id": "id"}, (("resource_name", "asc"),))


def register(tx: Tx, wanted: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Register limits, all or none. Raises Invalid, Conflict."""
    made = []
    for fields in wanted:
        _check_place(tx, fields)
        _check_unique(tx, fields)
        id = tx.uuid().replace("-", "")
        tx.insert("registered_limits", id=id, **fields)
        made.append(show_registered(tx, id))
    return made


def _check_place(tx: Tx, fields: Mapping[str, Any]) -> None:
    try:
        if fields.get("service_id") is not None:
            # Who registers for one service at the same time waits here, so that no two are alike.
            tx.lock("services", fields["service_id"])
            services.show(tx, fields["service_id"])
        if fields.get("region_id") is not None:
            regions.show(tx, fields["region_id"])
    except NotFound as error:
        raise Invalid(error.message) from None


def _check_unique(tx: Tx, fields: Mapping[str, Any], other_than: str = "") -> None:
    if _registered(tx, fields, other_than) is not None:
        raise Conflict("Conflict occurred attempting to store registered_limit - Duplicate entry.")


def _registered(tx: Tx, fields: Mapping[str, Any], other_than: str = "") -> Row | None:
    # Null regions are not alike for a unique index, but they are for us.
    region = fields.get("region_id")
    return tx.one(
        "select * from registered_limits where service_id = :service and resource_name = :name and id <> :other"
        f" and region_id {'is null' if region is None else '= :region'}",
        service=fields["service_id"],
        name=fields["resource_name"],
        other=other_than,
        **({} if region is None else {"region": region}),
    )


def update_registered(tx: Tx, id: str, changes: Mapping[str, Any]) -> Row:
    """Change a registered limit. Raises NotFound, Forbidden while limits refer to it, Invalid, Conflict."""
    old = show_registered(tx, id)
    _check_free(tx, id)
    _check_place(tx, changes)
    _check_unique(tx, {**old, **changes}, id)
    if changes:
        tx.update("registered_limits", id, **changes)
    return show_registered(tx, id)


def _check_free(tx: Tx, id: str) -> None:
    if tx.one("select 1 from project_limits where registered_limit_id = :id", id=id):
        raise Forbidden(
            f"Unable to update or delete registered limit {id} because there are project limits associated with it."
        )


def delete_registered(tx: Tx, id: str) -> None:
    """Raises NotFound, Forbidden while limits refer to it."""
    show_registered(tx, id)
    _check_free(tx, id)
    tx.delete("registered_limits", id)


# -- Limits ------------------------------------------------------------------------------------------------------


def show(tx: Tx, id: str) -> Row:
    """One limit. Raises NotFound."""
    found = tx.one(f"select * from {_LIMITS} where id = :id", id=id)
    if found is None:
        raise NotFound(f"Could not find limit for {id[:64]}.")
    return found


def find(tx: Tx, caller: Caller, matches: Sequence[Match], query: Query) -> list[Row]:
    """Limits that match and that the caller may see: all, those in the caller's domain, or the project's.

    Raises MarkerNotFound.
    """
    where = Where()
    narrow(where, matches, {**COLUMNS, "project_id": "project_id", "domain_id": "domain_id"})
    if not (caller.system or caller.roles & {"admin", "service"}):
        if caller.domain_id is not None:
            where.add(
                "domain_id = :domain or project_id in (select id from projects where domain_id = :domain)",
                domain=caller.domain_id,
            )
        else:
            where.add("project_id = :project", project=caller.project_id or "")
    return page(tx, _LIMITS, where, query, {"id": "id"}, (("resource_name", "asc"),))


def of_project(tx: Tx, project_id: str) -> list[Row]:
    """The limits of one project, as rows without what they are registered under."""
    rows = tx.all(f"select * from {_LIMITS} where project_id = :id order by resource_name", id=project_id)
    return [{name: value for name, value in row.items() if name != "registered_limit_id"} for row in rows]


def create(tx: Tx, wanted: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Make limits, all or none. Raises Invalid, Forbidden where nothing is registered, Conflict."""
    made = []
    for fields in wanted:
        project_id, domain_id = _owner(tx, fields)
        _check_place(tx, fields)
        registered = _registered(tx, fields)
        if registered is None:
            raise Forbidden("Unable to create a limit that has no corresponding registered limit.")
        id = tx.uuid().replace("-", "")
        try:
            tx.insert(
                "project_limits", id=id, registered_limit_id=registered["id"], project_id=project_id,
                domain_id=domain_id, resource_limit=fields["resource_limit"], description=fields.get("description"),
            )  # fmt: skip
        except Duplicate:
            raise Conflict("Conflict occurred attempting to store limit - Duplicate entry.") from None
        made.append(show(tx, id))
    return made


def _owner(tx: Tx, fields: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Whose limit it is: a project's or a domain's."""
    project_id, domain_id = fields.get("project_id"), fields.get("domain_id")
    if (project_id is None) == (domain_id is None):
        raise Invalid("A limit is of either project_id or domain_id.")
    try:
        if project_id is not None:
            project = projects.show(tx, project_id)
            return (None, project_id) if project["is_domain"] else (project_id, None)
        assert domain_id is not None
        return None, str(domains.show(tx, domain_id)["id"])
    except NotFound as error:
        raise Invalid(error.message) from None


def update(tx: Tx, id: str, changes: Mapping[str, Any]) -> Row:
    """Change a limit. Raises NotFound."""
    show(tx, id)
    if changes:
        tx.update("project_limits", id, **changes)
    return show(tx, id)


def delete(tx: Tx, id: str) -> None:
    """Raises NotFound."""
    if not tx.delete("project_limits", id):
        raise NotFound(f"Could not find limit for {id[:64]}.")
