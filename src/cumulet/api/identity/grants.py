"""Roles of a user or group on a project, domain or the system. See the API reference, "Roles", "OS-INHERIT"."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, cast

from cumulet.api.asgi import Handler, Route
from cumulet.api.identity import lists, roles
from cumulet.api.identity.checks import ADMIN, ADMIN_OR_READER
from cumulet.api.request import Request, Response, no_content
from cumulet.core import grants
from cumulet.core.assignments import SYSTEM
from cumulet.core.grants import Grant


def _grant(request: Request) -> Grant:
    """What the path says."""
    params, path = request.params, request.route.path if request.route else ""
    actor: Literal["user", "group"] = "user" if "user_id" in params else "group"
    target = "project" if "project_id" in params else "domain" if "domain_id" in params else "system"
    return Grant(
        actor,
        params[f"{actor}_id"],
        cast(Literal["project", "domain", "system"], target),
        params.get(f"{target}_id", SYSTEM),
        path.endswith("inherited_to_projects"),
    )


async def give(request: Request) -> Response:
    """PUT …/roles/{role_id}"""
    await request.cloud.db.write(grants.give, _grant(request), request.params["role_id"])
    return no_content()


async def check(request: Request) -> Response:
    """GET and HEAD …/roles/{role_id}"""
    await request.cloud.db.read(grants.check, _grant(request), request.params["role_id"])
    return no_content()


async def take(request: Request) -> Response:
    """DELETE …/roles/{role_id}"""
    await request.cloud.db.write(grants.take, _grant(request), request.params["role_id"])
    return no_content()


async def index(request: Request) -> Response:
    """GET …/roles"""
    found = await request.cloud.db.read(grants.given, _grant(request))
    return lists.collection(request, "roles", [roles.view(request, role) for role in found])


def _both(role: str) -> str:
    """The role on the domain that both the actor and the target are in."""
    parts = [
        f"(role:{role} and domain_id:%(target.{actor}.domain_id)s and domain_id:%(target.{target})s)"
        for actor in ("user", "group")
        for target in ("project.domain_id", "domain.id")
    ]
    return f"({' or '.join(parts)})"


_ROLE_DOMAIN = "(domain_id:%(target.role.domain_id)s or None:%(target.role.domain_id)s)"
_MANAGED = (
    "('manager':%(target.role.name)s or 'member':%(target.role.name)s or 'reader':%(target.role.name)s)"
)
_CHECK = f"{ADMIN} or ((role:reader and system_scope:all) or {_both('reader')}) and {_ROLE_DOMAIN}"
_LIST = f"{ADMIN_OR_READER} or {_both('reader')}"
_CHANGE = f"{ADMIN} or {_both('admin')} and {_ROLE_DOMAIN} or {_both('manager')} and {_MANAGED}"
_GRANT: tuple[tuple[str, Handler, str, str], ...] = (
    ("PUT", give, "identity:create_grant", _CHANGE),
    ("GET", check, "identity:check_grant", _CHECK),
    ("DELETE", take, "identity:revoke_grant", _CHANGE),
)


def _routes() -> Iterator[Route]:
    for target in ("projects/{project_id}", "domains/{domain_id}"):
        for actor in ("users/{user_id}", "groups/{group_id}"):
            path = f"{target}/{actor}/roles"
            yield Route("GET", f"/v3/{path}", index, "identity:list_grants", _LIST)
            yield Route(
                "GET", f"/v3/OS-INHERIT/{path}/inherited_to_projects", index, "identity:list_grants", _LIST
            )
            for method, handler, rule, rule_check in _GRANT:
                yield Route(method, f"/v3/{path}/{{role_id}}", handler, rule, rule_check)
                yield Route(
                    method,
                    f"/v3/OS-INHERIT/{path}/{{role_id}}/inherited_to_projects",
                    handler,
                    rule,
                    rule_check,
                )
    for one in ("user", "group"):
        path = f"/v3/system/{one}s/{{{one}_id}}/roles"
        rules = "identity:{}_system_grant" + f"_for_{one}"
        yield Route("GET", path, index, f"identity:list_system_grants_for_{one}", ADMIN_OR_READER)
        yield Route("PUT", f"{path}/{{role_id}}", give, rules.format("create"), ADMIN)
        yield Route("GET", f"{path}/{{role_id}}", check, rules.format("check"), ADMIN_OR_READER)
        yield Route("DELETE", f"{path}/{{role_id}}", take, rules.format("revoke"), ADMIN)


ROUTES = tuple(_routes())
