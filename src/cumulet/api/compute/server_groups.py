"""Server groups. See the compute API reference, "Server groups"."""

from __future__ import annotations

from typing import Any

from cumulet.api.asgi import Route
from cumulet.api.compute import permit
from cumulet.api.compute.links import page_of
from cumulet.api.query import only
from cumulet.api.request import Request, Response, no_content, ok
from cumulet.core import server_groups
from cumulet.core.policy import ADMIN, MEMBER, READER
from cumulet.core.server_groups import Group, Policy
from cumulet.errors import Invalid
from cumulet.wire import server_groups as wire
from cumulet.wire.body import encode

_RULE = "os_compute_api:os-server-groups"
ALL = f"{_RULE}:index:all_projects"


def _body(request: Request, group: Group) -> dict[str, Any]:
    body = wire.Group(
        id=group.id,
        name=group.name,
        members=list(group.members),
        policies=[group.policy],
        metadata={},
        policy=group.policy,
        rules=dict(group.rules),
        project_id=group.project_id,
        user_id=group.user_id,
    )
    return encode(body, request.version)


async def index(request: Request) -> Response:
    """GET /os-server-groups"""
    if request.version >= (2, 75):
        only(request, "all_projects", "limit", "offset")
    everybody = request.arg("all_projects") is not None and permit.allows(request, ALL)
    query = page_of(request)
    found = await request.cloud.db.read(
        server_groups.listing, request.caller, everybody=everybody, limit=query.limit, offset=query.offset
    )
    return ok({"server_groups": [_body(request, group) for group in found]})


async def create(request: Request) -> Response:
    """POST /os-server-groups"""
    asked = (await request.struct(wire.Create)).server_group
    policy = _policy(request, asked)
    most = asked.rules.max_server_per_host
    if isinstance(most, int) and policy != "anti-affinity":
        raise Invalid("Only anti-affinity policy supports rules.")
    rules = {"max_server_per_host": most} if isinstance(most, int) else {}
    group = await request.cloud.db.write(server_groups.create, request.caller, asked.name, policy, rules)
    return ok({"server_group": _body(request, group)})


def _policy(request: Request, asked: wire.NewGroup) -> Policy:
    """The policy: a list of one until 2.63; the soft ones since 2.15."""
    if isinstance(asked.policy, str):
        return asked.policy
    if isinstance(asked.policies, list):
        policy = asked.policies[0]
        if policy.startswith("soft-") and request.version < (2, 15):
            raise Invalid(
                f"Invalid input for field/attribute policies: {policy!r} is neither affinity nor anti-affinity"
            )
        return policy
    missing = "policy" if request.version >= (2, 64) else "policies"
    raise Invalid(f"Invalid input for field/attribute server_group: {missing!r} is a required property")


async def show(request: Request) -> Response:
    """GET /os-server-groups/{server_group_id}"""
    found = await request.cloud.db.read(server_groups.find, request.caller, request.params["server_group_id"])
    return ok({"server_group": _body(request, found)})


async def delete(request: Request) -> Response:
    """DELETE /os-server-groups/{server_group_id}"""
    await request.cloud.db.write(server_groups.delete, request.caller, request.params["server_group_id"])
    return no_content()


_ONE = "/v2.1/os-server-groups/{server_group_id}"

RULES = {ALL: ADMIN}
ROUTES = (
    Route("GET", "/v2.1/os-server-groups", index, f"{_RULE}:index", READER),
    Route("POST", "/v2.1/os-server-groups", create, f"{_RULE}:create", MEMBER),
    Route("GET", _ONE, show, f"{_RULE}:show", READER),
    Route("DELETE", _ONE, delete, f"{_RULE}:delete", MEMBER),
)
