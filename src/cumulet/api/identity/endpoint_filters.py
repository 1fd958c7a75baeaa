"""/v3/OS-EP-FILTER: which endpoints a project sees. See the API reference, "OS-EP-FILTER"."""

from __future__ import annotations

from typing import Any

from cumulet.api.asgi import Route
from cumulet.api.identity import lists, projects
from cumulet.api.identity.body import changes, read
from cumulet.api.identity.catalog import endpoint_view
from cumulet.api.identity.checks import ADMIN, ADMIN_OR_READER
from cumulet.api.request import Request, Response, created, no_content, ok
from cumulet.core import endpoints
from cumulet.core import projects as core_projects
from cumulet.db.engine import Row, Tx
from cumulet.db.query import MarkerNotFound
from cumulet.errors import Invalid
from cumulet.wire.identity import EndpointFilters, EndpointGroupChange, EndpointGroupNew


def view(request: Request, group: Row) -> dict[str, Any]:
    """An endpoint group as it is shown."""
    return {
        "id": group["id"],
        "name": group["name"],
        "description": group["description"],
        "filters": group["filters"],
        "links": lists.links(request, f"OS-EP-FILTER/endpoint_groups/{group['id']}"),
    }


async def index(request: Request) -> Response:
    """GET /v3/OS-EP-FILTER/endpoint_groups"""
    query = lists.page(request)
    try:
        found = await request.cloud.db.read(endpoints.find_groups, lists.matches(request, "name"), query)
    except MarkerNotFound as error:
        raise lists.unknown_marker(error) from None
    return lists.collection(request, "endpoint_groups", [view(request, row) for row in found], query)


def _filters(filters: EndpointFilters) -> dict[str, Any]:
    found = changes(filters)
    if not found:
        raise Invalid("The filters field is required and cannot be empty.")
    return found


async def create(request: Request) -> Response:
    """POST /v3/OS-EP-FILTER/endpoint_groups"""
    body, _ = await read(request, "endpoint_group", EndpointGroupNew)
    group = await request.cloud.db.write(
        endpoints.create_group, name=body.name, description=body.description, filters=_filters(body.filters)
    )
    return created({"endpoint_group": view(request, group)})


async def show(request: Request) -> Response:
    """GET /v3/OS-EP-FILTER/endpoint_groups/{endpoint_group_id}"""
    group = await request.cloud.db.read(endpoints.show_group, request.params["endpoint_group_id"])
    return ok({"endpoint_group": view(request, group)})


async def update(request: Request) -> Response:
    """PATCH /v3/OS-EP-FILTER/endpoint_groups/{endpoint_group_id}"""
    body, _ = await read(request, "endpoint_group", EndpointGroupChange)
    fields = changes(body)
    if "filters" in fields:
        fields["filters"] = _filters(fields["filters"])
    group = await request.cloud.db.write(endpoints.update_group, request.params["endpoint_group_id"], fields)
    return ok({"endpoint_group": view(request, group)})


async def delete(request: Request) -> Response:
    """DELETE /v3/OS-EP-FILTER/endpoint_groups/{endpoint_group_id}"""
    await request.cloud.db.write(endpoints.delete_group, request.params["endpoint_group_id"])
    return no_content()


async def endpoints_in_group(request: Request) -> Response:
    """GET …/endpoint_groups/{endpoint_group_id}/endpoints"""
    found = await request.cloud.db.read(endpoints.in_group, request.params["endpoint_group_id"])
    return lists.collection(request, "endpoints", [endpoint_view(request, row) for row in found])


async def _projects(request: Request, found: Any, *args: str) -> Response:
    def read_all(tx: Tx) -> tuple[list[Row], dict[str, list[str]]]:
        rows = found(tx, *args)
        return rows, core_projects.tags_of(tx, [row["id"] for row in rows])

    rows, tags = await request.cloud.db.read(read_all)
    return lists.collection(
        request, "projects", [projects.view(request, row, tags[row["id"]]) for row in rows]
    )


async def projects_with_group(request: Request) -> Response:
    """GET …/endpoint_groups/{endpoint_group_id}/projects"""
    return await _projects(request, endpoints.projects_with_group, request.params["endpoint_group_id"])


async def projects_with_endpoint(request: Request) -> Response:
    """GET …/endpoints/{endpoint_id}/projects"""
    return await _projects(request, endpoints.projects_with, request.params["endpoint_id"])


async def endpoints_of_project(request: Request) -> Response:
    """GET …/projects/{project_id}/endpoints"""
    found = await request.cloud.db.read(endpoints.of_project, request.params["project_id"])
    return lists.collection(request, "endpoints", [endpoint_view(request, row) for row in found])


async def groups_of_project(request: Request) -> Response:
    """GET …/projects/{project_id}/endpoint_groups"""
    found = await request.cloud.db.read(endpoints.groups_of_project, request.params["project_id"])
    return lists.collection(request, "endpoint_groups", [view(request, row) for row in found])


def _pair(request: Request) -> tuple[str, str]:
    params = request.params
    return params["project_id"], params.get("endpoint_id") or params["endpoint_group_id"]


async def give(request: Request) -> Response:
    """PUT …/projects/{project_id}/endpoints/{endpoint_id}"""
    await request.cloud.db.write(endpoints.give, *_pair(request))
    return no_content()


async def check(request: Request) -> Response:
    """GET and HEAD …/projects/{project_id}/endpoints/{endpoint_id}"""
    await request.cloud.db.read(endpoints.check, *_pair(request))
    return no_content()


async def take(request: Request) -> Response:
    """DELETE …/projects/{project_id}/endpoints/{endpoint_id}"""
    await request.cloud.db.write(endpoints.take, *_pair(request))
    return no_content()


async def give_group(request: Request) -> Response:
    """PUT …/endpoint_groups/{endpoint_group_id}/projects/{project_id}"""
    await request.cloud.db.write(endpoints.give_group, *_pair(request))
    return no_content()


async def show_group_of_project(request: Request) -> Response:
    """GET …/endpoint_groups/{endpoint_group_id}/projects/{project_id}"""
    project_id, group_id = _pair(request)
    await request.cloud.db.read(endpoints.check_group, project_id, group_id)
    path = f"OS-EP-FILTER/endpoint_groups/{group_id}/projects/{project_id}"
    shown = {"project_id": project_id, "endpoint_group_id": group_id, "links": lists.links(request, path)}
    return ok({"project_endpoint_group": shown})


async def take_group(request: Request) -> Response:
    """DELETE …/endpoint_groups/{endpoint_group_id}/projects/{project_id}"""
    await request.cloud.db.write(endpoints.take_group, *_pair(request))
    return no_content()


_ROOT = "/v3/OS-EP-FILTER"
_GROUPS = f"{_ROOT}/endpoint_groups"
_GROUP = f"{_GROUPS}/{{endpoint_group_id}}"
_PROJECT = f"{_ROOT}/projects/{{project_id}}"
_GIVEN = f"{_PROJECT}/endpoints/{{endpoint_id}}"
_GIVEN_GROUP = f"{_GROUP}/projects/{{project_id}}"

ROUTES = (
    Route("GET", _GROUPS, index, "identity:list_endpoint_groups", ADMIN_OR_READER),
    Route("POST", _GROUPS, create, "identity:create_endpoint_group", ADMIN),
    Route("GET", _GROUP, show, "identity:get_endpoint_group", ADMIN_OR_READER),
    Route("PATCH", _GROUP, update, "identity:update_endpoint_group", ADMIN),
    Route("DELETE", _GROUP, delete, "identity:delete_endpoint_group", ADMIN),
    Route(
        "GET", f"{_GROUP}/endpoints", endpoints_in_group,
        "identity:list_endpoints_associated_with_endpoint_group", ADMIN_OR_READER,
    ),
    Route(
        "GET", f"{_GROUP}/projects", projects_with_group,
        "identity:list_projects_associated_with_endpoint_group", ADMIN_OR_READER,
    ),
    Route("PUT", _GIVEN_GROUP, give_group, "identity:add_endpoint_group_to_project", ADMIN),
    Route("GET", _GIVEN_GROUP, show_group_of_project, "identity:get_endpoint_group_in_project", ADMIN_OR_READER),
    Route("DELETE", _GIVEN_GROUP, take_group, "identity:remove_endpoint_group_from_project", ADMIN),
    Route(
        "GET", f"{_ROOT}/endpoints/{{endpoint_id}}/projects", projects_with_endpoint,
        "identity:list_projects_for_endpoint", ADMIN_OR_READER,
    ),
    Route("GET", f"{_PROJECT}/endpoints", endpoints_of_project, "identity:list_endpoints_for_project", ADMIN_OR_READER),
    Route(
        "GET", f"{_PROJECT}/endpoint_groups", groups_of_project, "identity:list_endpoint_groups_for_project",
        ADMIN_OR_READER,
    ),
    Route("PUT", _GIVEN, give, "identity:add_endpoint_to_project", ADMIN),
    Route("GET", _GIVEN, check, "identity:check_endpoint_in_project", ADMIN_OR_READER),
    Route("DELETE", _GIVEN, take, "identity:remove_endpoint_from_project", ADMIN),
)  # fmt: skip
