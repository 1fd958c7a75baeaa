"""Endpoints of the catalogue, alone and in groups. See the API reference, "Endpoints", "OS-EP-FILTER"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cumulet.core import catalog, projects, regions, services
from cumulet.core.matches import Match, narrow
from cumulet.db.engine import Row, Tx
from cumulet.db.query import Query, Where, page
from cumulet.errors import Conflict, Invalid, NotFound

COLUMNS = {
    "interface": "interface",
    "service_id": "service_id",
    "region_id": "region_id",
    "region": "region_id",
}
SORTABLE = {"id": "id", "interface": "interface"}
#: What an endpoint's address may refer to.
VARIABLES = frozenset({"base", "tenant_id", "project_id", "user_id"})


def show(tx: Tx, endpoint_id: str) -> Row:
    """One endpoint. Raises NotFound."""
    endpoint = tx.one("select * from endpoints where id = :id", id=endpoint_id)
    if endpoint is None:
        raise NotFound(f"Could not find endpoint: {endpoint_id[:64]}.")
    return endpoint


def find(tx: Tx, matches: Sequence[Match], query: Query) -> list[Row]:
    """Endpoints that match. Raises MarkerNotFound."""
    where = Where()
    narrow(where, matches, COLUMNS)
    return page(tx, "endpoints", where, query, SORTABLE, (("id", "asc"),))


def create(tx: Tx, fields: Mapping[str, Any], extra: Mapping[str, Any]) -> Row:
    """Make an endpoint. Raises Invalid for a service or region that does not exist, or an unusable address."""
    columns = _columns(tx, fields)
    endpoint_id = tx.uuid().replace("-", "")
    tx.insert("endpoints", id=endpoint_id, extra=dict(extra), **columns)
    return show(tx, endpoint_id)


def update(tx: Tx, endpoint_id: str, fields: Mapping[str, Any], extra: Mapping[str, Any]) -> Row:
    """Change an endpoint. Raises NotFound, Invalid."""
    endpoint = show(tx, endpoint_id)
    tx.update("endpoints", endpoint_id, **_columns(tx, fields), extra={**endpoint["extra"], **extra})
    return show(tx, endpoint_id)


def _columns(tx: Tx, fields: Mapping[str, Any]) -> dict[str, Any]:
    columns = {name: value for name, value in fields.items() if name != "region"}
    try:
        if "service_id" in columns:
            services.show(tx, columns["service_id"])
        if columns.get("region_id") is not None:
            regions.show(tx, columns["region_id"])
    except NotFound as error:
        raise Invalid(error.message) from None
    # The older name of the region, which makes the region if there is none (API reference, "Create endpoint").
    if fields.get("region") is not None and "region_id" not in columns:
        tx.insert_new("regions", id=fields["region"])
        columns["region_id"] = fields["region"]
    if "url" in columns:
        unknown = [name for name in catalog.variables(columns["url"]) if name not in VARIABLES]
        if unknown:
            raise Invalid(f"The endpoint's address refers to {unknown[0]!r}, which is not known.")
    return columns


def delete(tx: Tx, endpoint_id: str) -> None:
    """Raises NotFound."""
    if not tx.delete("endpoints", endpoint_id):
        raise NotFound(f"Could not find endpoint: {endpoint_id[:64]}.")


# -- Endpoints that one project was given ----------------------------------------------------------------------


def give(tx: Tx, project_id: str, endpoint_id: str) -> None:
    """Let a project see an endpoint, and of the others only those that it is given too. Raises NotFound, Conflict."""
    show(tx, endpoint_id)
    projects.show(tx, project_id)
    if not tx.insert_new("project_endpoints", project_id=project_id, endpoint_id=endpoint_id):
        raise Conflict("Conflict occurred attempting to store project_endpoint - Duplicate entry.")


def check(tx: Tx, project_id: str, endpoint_id: str) -> None:
    """Raises NotFound unless the project was given the endpoint."""
    show(tx, endpoint_id)
    projects.show(tx, project_id)
    found = tx.one(
        "select 1 from project_endpoints where project_id = :p and endpoint_id = :e",
        p=project_id,
        e=endpoint_id,
    )
    if not found:
        raise NotFound(f"Endpoint {endpoint_id} not found in project {project_id}.")


def take(tx: Tx, project_id: str, endpoint_id: str) -> None:
    """Raises NotFound."""
    check(tx, project_id, endpoint_id)
    tx.run(
        "delete from project_endpoints where project_id = :p and endpoint_id = :e",
        p=project_id,
        e=endpoint_id,
    )


def of_project(tx: Tx, project_id: str) -> list[Row]:
    """The endpoints that a project was given, by themselves or in groups. Raises NotFound."""
    projects.show(tx, project_id)
    chosen = catalog.chosen_endpoints(tx, project_id)
    return [row for row in tx.all("select * from endpoints order by id") if row["id"] in chosen]


def projects_with(tx: Tx, endpoint_id: str) -> list[Row]:
    """The projects that were given an endpoint by itself. Raises NotFound."""
    show(tx, endpoint_id)
    return tx.all(
        "select p.* from projects p join project_endpoints e on e.project_id = p.id"
        " where e.endpoint_id = :id order by p.name",
        id=endpoint_id,
    )


# -- Groups ------------------------------------------------------------------------------------------------------


def show_group(tx: Tx, group_id: str) -> Row:
    """One endpoint group. Raises NotFound."""
    group = tx.one("select * from endpoint_groups where id = :id", id=group_id)
    if group is None:
        raise NotFound(f"Could not find Endpoint Group: {group_id[:64]}.")
    return group


def find_groups(tx: Tx, matches: Sequence[Match], query: Query) -> list[Row]:
    """Endpoint groups that match. Raises MarkerNotFound."""
    where = Where()
    narrow(where, matches, {"name": "name"})
    return page(tx, "endpoint_groups", where, query, {"name": "name", "id": "id"}, (("name", "asc"),))


def create_group(tx: Tx, *, name: str, description: str | None, filters: Mapping[str, Any]) -> Row:
    """Make an endpoint group."""
    group_id = tx.uuid().replace("-", "")
    tx.insert("endpoint_groups", id=group_id, name=name, description=description, filters=dict(filters))
    return show_group(tx, group_id)


def update_group(tx: Tx, group_id: str, changes: Mapping[str, Any]) -> Row:
    """Change an endpoint group. Raises NotFound."""
    show_group(tx, group_id)
    if changes:
        tx.update("endpoint_groups", group_id, **changes)
    return show_group(tx, group_id)


def delete_group(tx: Tx, group_id: str) -> None:
    """Raises NotFound."""
    show_group(tx, group_id)
    tx.delete("endpoint_groups", group_id)


def in_group(tx: Tx, group_id: str) -> list[Row]:
    """The endpoints that a group's filters select. Raises NotFound."""
    return catalog.matching(tx, show_group(tx, group_id)["filters"])


def give_group(tx: Tx, project_id: str, group_id: str) -> None:
    """Let a project see the endpoints of a group. Raises NotFound, Conflict."""
    projects.show(tx, project_id)
    show_group(tx, group_id)
    if not tx.insert_new("project_endpoint_groups", project_id=project_id, endpoint_group_id=group_id):
        raise Conflict("Conflict occurred attempting to store project_endpoint_group - Duplicate entry.")


def check_group(tx: Tx, project_id: str, group_id: str) -> None:
    """Raises NotFound unless the project was given the group."""
    projects.show(tx, project_id)
    show_group(tx, group_id)
    found = tx.one(
        "select 1 from project_endpoint_groups where project_id = :p and endpoint_group_id = :g",
        p=project_id,
        g=group_id,
    )
    if not found:
        raise NotFound(f"Endpoint Group Project Association not found: {group_id}, {project_id}.")


def take_group(tx: Tx, project_id: str, group_id: str) -> None:
    """Raises NotFound."""
    check_group(tx, project_id, group_id)
    tx.run(
        "delete from project_endpoint_groups where project_id = :p and endpoint_group_id = :g",
        p=project_id,
        g=group_id,
    )


def groups_of_project(tx: Tx, project_id: str) -> list[Row]:
    """The endpoint groups that a project was given. Raises NotFound."""
    projects.show(tx, project_id)
    return tx.all(
        "select g.* from endpoint_groups g join project_endpoint_groups p on p.endpoint_group_id = g.id"
        " where p.project_id = :id order by g.name",
        id=project_id,
    )


def projects_with_group(tx: Tx, group_id: str) -> list[Row]:
    """The projects that were given a group. Raises NotFound."""
    show_group(tx, group_id)
    return tx.all(
        "select p.* from projects p join project_endpoint_groups g on g.project_id = p.id"
        " where g.endpoint_group_id = :id order by p.name",
        id=group_id,
    )
