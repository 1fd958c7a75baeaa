"""/v3/projects and their tags. See the API reference, "Projects", "Project tags"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cumulet.api.asgi import Route
from cumulet.api.identity import lists
from cumulet.api.identity.body import changes, read
from cumulet.api.identity.checks import ADMIN, ADMIN_OR_READER
from cumulet.api.request import Request, Response, created, no_content, ok
from cumulet.core import assignments, projects, unified_limits
from cumulet.core.bootstrap import DOMAIN
from cumulet.core.matches import Match
from cumulet.db.engine import Row, Tx
from cumulet.db.query import MarkerNotFound
from cumulet.errors import Invalid
from cumulet.wire.body import decode
from cumulet.wire.identity import ProjectChange, ProjectNew, TagsBody

_TAG_FILTERS = ("tags", "tags-any", "not-tags", "not-tags-any")


def view(request: Request, project: Row, tags: Sequence[str]) -> dict[str, Any]:
    """A project as it is shown."""
    return {
        **project["extra"],
        "id": project["id"],
        "name": project["name"],
        "domain_id": project["domain_id"],
        "description": project["description"],
        "enabled": project["enabled"],
        "parent_id": project["parent_id"],
        "is_domain": project["is_domain"],
        "tags": list(tags),
        "options": project["options"],
        "links": lists.links(request, f"projects/{project['id']}"),
    }


async def index(request: Request) -> Response:
    """GET /v3/projects"""
    query = lists.page(request, projects.SORTABLE)
    matches = lists.matches(request, *projects.COLUMNS)
    if request.arg("is_domain") is None:
        matches = (*matches, Match("is_domain", "0"))
    tags = {name: (request.arg(name) or "").split(",") for name in _TAG_FILTERS if request.arg(name)}
    domain_id = request.caller.domain_id

    def read_all(tx: Tx) -> tuple[list[Row], dict[str, list[str]]]:
        found = projects.find(tx, matches, query, domain_id=domain_id, tags=tags)
        return found, projects.tags_of(tx, [row["id"] for row in found])

    try:
        found, tagged = await request.cloud.db.read(read_all)
    except MarkerNotFound as error:
        raise lists.unknown_marker(error) from None
    members = [view(request, row, tagged[row["id"]]) for row in found]
    return lists.collection(request, "projects", members, query)


async def show(request: Request) -> Response:
    """GET /v3/projects/{project_id}, with its parents and its subtree if asked for."""
    project_id = request.params["project_id"]
    flags = {
        name
        for name in (
            "parents_as_list",
            "parents_as_ids",
            "subtree_as_list",
            "subtree_as_ids",
            "include_limits",
        )
        if lists.given(request, name)
    }
    for one in ("parents", "subtree"):
        if {f"{one}_as_list", f"{one}_as_ids"} <= flags:
            raise Invalid(f"Cannot use {one}_as_list and {one}_as_ids query params at the same time.")
    return ok({"project": await request.cloud.db.read(_whole, request, project_id, flags)})


def _whole(tx: Tx, request: Request, project_id: str, flags: set[str]) -> dict[str, Any]:
    project = projects.show(tx, project_id)
    shown = view(request, project, projects.list_tags(tx, project_id))
    if "parents_as_list" in flags:
        shown["parents"] = _mine(tx, request, projects.parents(tx, project), flags)
    elif "parents_as_ids" in flags:
        above: dict[str, Any] | None = None
        for parent in reversed(projects.parents(tx, project)):
            above = {parent["id"]: above}
        shown["parents"] = above
    if "subtree_as_list" in flags:
        shown["subtree"] = _mine(tx, request, projects.subtree(tx, project_id), flags)
    elif "subtree_as_ids" in flags:
        shown["subtree"] = _as_ids(project_id, projects.subtree(tx, project_id))
    return shown


def _mine(tx: Tx, request: Request, found: list[Row], flags: set[str]) -> list[dict[str, Any]]:
    """Those on which the caller has a role, each under its noun."""
    allowed = set(assignments.projects_of(tx, request.caller.user_id))
    mine = [row for row in found if row["id"] in allowed]
    tags = projects.tags_of(tx, [row["id"] for row in mine])
    shown = []
    for row in mine:
        one = view(request, row, tags[row["id"]])
        if "include_limits" in flags:
            one["limits"] = unified_limits.of_project(tx, row["id"])
        shown.append({"project": one})
    return shown


def _as_ids(project_id: str, found: list[Row]) -> dict[str, Any] | None:
    nodes: dict[str, dict[str, Any] | None] = {row["id"]: None for row in found}
    top: dict[str, Any] = {}
    children: dict[str, list[str]] = {}
    for row in found:
        children.setdefault(row["parent_id"], []).append(row["id"])
    # From the leaves up, so that what is put into a parent is whole.
    for row in reversed(found):
        below = children.get(row["id"])
        nodes[row["id"]] = {id: nodes[id] for id in below} if below else None
    top = {id: nodes[id] for id in children.get(project_id, ())}
    return top or None


async def create(request: Request) -> Response:
    """POST /v3/projects"""
    body, extra = await read(request, "project", ProjectNew)
    domain_id = body.domain_id or request.caller.domain_id or DOMAIN
    project = await request.cloud.db.write(
        projects.create,
        name=body.name,
        domain_id=body.domain_id if body.is_domain else domain_id,
        parent_id=body.parent_id,
        is_domain=body.is_domain,
        description=body.description or "",
        enabled=body.enabled,
        tags=body.tags,
        settings=changes(body.options),
        extra=extra,
    )
    return created({"project": view(request, project, body.tags)})


async def update(request: Request) -> Response:
    """PATCH /v3/projects/{project_id}"""
    body, extra = await read(request, "project", ProjectChange)
    fields = changes(body)
    if "options" in fields:
        fields["options"] = changes(fields["options"])
    project_id = request.params["project_id"]

    def write(tx: Tx) -> tuple[Row, list[str]]:
        return projects.update(tx, project_id, fields, extra), projects.list_tags(tx, project_id)

    project, tags = await request.cloud.db.write(write)
    return ok({"project": view(request, project, tags)})


async def delete(request: Request) -> Response:
    """DELETE /v3/projects/{project_id}"""
    await request.cloud.db.write(projects.delete, request.params["project_id"])
    return no_content()


def _tags(request: Request, tags: Sequence[str]) -> Response:
    return ok({"links": {"self": request.url(request.path)}, "tags": list(tags)})


async def list_tags(request: Request) -> Response:
    """GET /v3/projects/{project_id}/tags"""
    return _tags(request, await request.cloud.db.read(projects.list_tags, request.params["project_id"]))


async def set_tags(request: Request) -> Response:
    """PUT /v3/projects/{project_id}/tags"""
    body = await request.struct(TagsBody)
    return _tags(
        request, await request.cloud.db.write(projects.set_tags, request.params["project_id"], body.tags)
    )


async def delete_tags(request: Request) -> Response:
    """DELETE /v3/projects/{project_id}/tags"""
    await request.cloud.db.write(projects.set_tags, request.params["project_id"], [])
    return no_content()


async def check_tag(request: Request) -> Response:
    """GET and HEAD /v3/projects/{project_id}/tags/{value}"""
    await request.cloud.db.read(projects.check_tag, request.params["project_id"], request.params["value"])
    return no_content()


async def add_tag(request: Request) -> Response:
    """PUT /v3/projects/{project_id}/tags/{value}"""
    project_id, tag = request.params["project_id"], request.params["value"]
    decode({"tags": [tag]}, TagsBody, request.version)
    await request.cloud.db.write(projects.add_tag, project_id, tag)
    return Response(201, None, [("Location", lists.url(request, f"projects/{project_id}/tags/{tag}"))])


async def delete_tag(request: Request) -> Response:
    """DELETE /v3/projects/{project_id}/tags/{value}"""
    await request.cloud.db.write(projects.remove_tag, request.params["project_id"], request.params["value"])
    return no_content()


_INSIDE = "domain_id:%(target.project.domain_id)s and not None:%(target.project.domain_id)s"
_READ = f"{ADMIN_OR_READER} or (role:reader and {_INSIDE}) or project_id:%(target.project.id)s"
_MANAGE = f"{ADMIN} or (role:manager and {_INSIDE})"
_LIST = f"{ADMIN_OR_READER} or (role:reader and domain_id:%(target.domain_id)s)"
_ONE, _TAGS, _TAG = (
    "/v3/projects/{project_id}", "/v3/projects/{project_id}/tags", "/v3/projects/{project_id}/tags/{value}",
)  # fmt: skip

ROUTES = (
    Route("GET", "/v3/projects", index, "identity:list_projects", _LIST),
    Route("POST", "/v3/projects", create, "identity:create_project", _MANAGE),
    Route("GET", _ONE, show, "identity:get_project", _READ),
    Route("PATCH", _ONE, update, "identity:update_project", _MANAGE),
    Route("DELETE", _ONE, delete, "identity:delete_project", _MANAGE),
    Route("GET", _TAGS, list_tags, "identity:list_project_tags", _READ),
    Route("PUT", _TAGS, set_tags, "identity:update_project_tags", _MANAGE),
    Route("DELETE", _TAGS, delete_tags, "identity:delete_project_tags", _MANAGE),
    Route("GET", _TAG, check_tag, "identity:get_project_tag", _READ),
    Route("PUT", _TAG, add_tag, "identity:create_project_tag", _MANAGE),
    Route("DELETE", _TAG, delete_tag, "identity:delete_project_tag", _MANAGE),
)
