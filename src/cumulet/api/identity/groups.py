"""/v3/groups. See the API reference, "Groups"."""

from __future__ import annotations

from typing import Any

from cumulet.api.asgi import Route
from cumulet.api.identity import lists
from cumulet.api.identity.body import changes, read
from cumulet.api.identity.checks import manager_of, reader_of
from cumulet.api.request import Request, Response, created, no_content, ok
from cumulet.core import groups
from cumulet.core.bootstrap import DOMAIN
from cumulet.db.engine import Row
from cumulet.db.query import MarkerNotFound
from cumulet.wire.identity import GroupChange, GroupNew


def view(request: Request, group: Row) -> dict[str, Any]:
    """A group as it is shown."""
    return {
        **group["extra"],
        "id": group["id"],
        "name": group["name"],
        "domain_id": group["domain_id"],
        "description": group["description"],
        "links": lists.links(request, f"groups/{group['id']}"),
    }


async def index(request: Request) -> Response:
    """GET /v3/groups"""
    query = lists.page(request, groups.SORTABLE)
    matches = lists.matches(request, "domain_id", "name")
    try:
        found = await request.cloud.db.read(groups.find, matches, query, domain_id=request.caller.domain_id)
    except MarkerNotFound as error:
        raise lists.unknown_marker(error) from None
    return lists.collection(request, "groups", [view(request, group) for group in found], query)


async def show(request: Request) -> Response:
    """GET /v3/groups/{group_id}"""
    group = await request.cloud.db.read(groups.show, request.params["group_id"])
    return ok({"group": view(request, group)})


async def create(request: Request) -> Response:
    """POST /v3/groups"""
    body, extra = await read(request, "group", GroupNew)
    group = await request.cloud.db.write(
        groups.create,
        name=body.name,
        domain_id=body.domain_id or request.caller.domain_id or DOMAIN,
        description=body.description or "",
        extra=extra,
    )
    return created({"group": view(request, group)})


async def update(request: Request) -> Response:
    """PATCH /v3/groups/{group_id}"""
    body, extra = await read(request, "group", GroupChange)
    group = await request.cloud.db.write(groups.update, request.params["group_id"], changes(body), extra)
    return ok({"group": view(request, group)})


async def delete(request: Request) -> Response:
    """DELETE /v3/groups/{group_id}"""
    await request.cloud.db.write(groups.delete, request.params["group_id"])
    return no_content()


async def members(request: Request) -> Response:
    """GET /v3/groups/{group_id}/users"""
    from cumulet.api.identity import users

    found = await request.cloud.db.read(
        groups.members,
        request.params["group_id"],
        lists.matches(request, "domain_id", "enabled", "name"),
        request.caller.domain_id,
    )
    return lists.collection(request, "users", [users.view(request, user) for user in found])


async def add(request: Request) -> Response:
    """PUT /v3/groups/{group_id}/users/{user_id}"""
    await request.cloud.db.write(groups.add, request.params["group_id"], request.params["user_id"])
    return no_content()


async def check(request: Request) -> Response:
    """GET and HEAD /v3/groups/{group_id}/users/{user_id}"""
    await request.cloud.db.read(groups.contains, request.params["group_id"], request.params["user_id"])
    return no_content()


async def remove(request: Request) -> Response:
    """DELETE /v3/groups/{group_id}/users/{user_id}"""
    await request.cloud.db.write(groups.remove, request.params["group_id"], request.params["user_id"])
    return no_content()


_READ = reader_of("target.group.domain_id")
_MANAGE = manager_of("target.group.domain_id")
_BOTH = ("target.group.domain_id", "target.user.domain_id")
_MEMBER = "/v3/groups/{group_id}/users/{user_id}"

ROUTES = (
    Route("GET", "/v3/groups", index, "identity:list_groups", _READ),
    Route("POST", "/v3/groups", create, "identity:create_group", _MANAGE),
    Route("GET", "/v3/groups/{group_id}", show, "identity:get_group", _READ),
    Route("PATCH", "/v3/groups/{group_id}", update, "identity:update_group", _MANAGE),
    Route("DELETE", "/v3/groups/{group_id}", delete, "identity:delete_group", _MANAGE),
    Route("GET", "/v3/groups/{group_id}/users", members, "identity:list_users_in_group", _READ),
    Route("GET", _MEMBER, check, "identity:check_user_in_group", reader_of(*_BOTH)),
    Route("PUT", _MEMBER, add, "identity:add_user_to_group", manager_of(*_BOTH)),
    Route("DELETE", _MEMBER, remove, "identity:remove_user_from_group", manager_of(*_BOTH)),
)
