"""/v3/roles and what implies what. See the API reference, "Roles"."""

from __future__ import annotations

from typing import Any

from cumulet.api.asgi import Route
from cumulet.api.identity import lists
from cumulet.api.identity.body import changes, read
from cumulet.api.identity.checks import ADMIN, ADMIN_OR_READER
from cumulet.api.request import Request, Response, created, no_content, ok
from cumulet.core import roles
from cumulet.db.engine import Row, Tx
from cumulet.db.query import MarkerNotFound
from cumulet.errors import Forbidden
from cumulet.wire.identity import RoleChange, RoleNew


def view(request: Request, role: Row) -> dict[str, Any]:
    """A role as it is shown."""
    return {
        **role["extra"],
        "id": role["id"],
        "name": role["name"],
        "domain_id": role["domain_id"] or None,
        "description": role["description"],
        "options": role["options"],
        "links": lists.links(request, f"roles/{role['id']}"),
    }


def _require(request: Request, rule: str) -> None:
    """Roles of one domain have rules of their own."""
    if not request.cloud.policy.allows(rule, request.caller, {}):
        raise Forbidden(f"You are not authorized to perform the requested action: {rule}.")


async def index(request: Request) -> Response:
    """GET /v3/roles: those of the whole cloud, or with ``domain_id`` those of a domain."""
    domain_id = request.arg("domain_id") or ""
    if domain_id:
        _require(request, "identity:list_domain_roles")
    query = lists.page(request, roles.SORTABLE)
    try:
        found = await request.cloud.db.read(roles.find, lists.matches(request, "name"), query, domain_id)
    except MarkerNotFound as error:
        raise lists.unknown_marker(error) from None
    return lists.collection(request, "roles", [view(request, role) for role in found], query)


async def show(request: Request) -> Response:
    """GET /v3/roles/{role_id}"""
    role = await request.cloud.db.read(roles.show, request.params["role_id"])
    if role["domain_id"]:
        _require(request, "identity:get_domain_role")
    return ok({"role": view(request, role)})


async def create(request: Request) -> Response:
    """POST /v3/roles"""
    body, extra = await read(request, "role", RoleNew)
    if body.domain_id:
        _require(request, "identity:create_domain_role")
    role = await request.cloud.db.write(
        roles.create,
        name=body.name,
        description=body.description,
        domain_id=body.domain_id,
        settings=changes(body.options),
        extra=extra,
    )
    return created({"role": view(request, role)})


async def update(request: Request) -> Response:
    """PATCH /v3/roles/{role_id}"""
    body, extra = await read(request, "role", RoleChange)
    fields = changes(body)
    if "options" in fields:
        fields["options"] = changes(fields["options"])
    await _require_for(request, "identity:update_domain_role")
    role = await request.cloud.db.write(roles.update, request.params["role_id"], fields, extra)
    return ok({"role": view(request, role)})


async def _require_for(request: Request, rule: str) -> None:
    role = await request.cloud.db.read(roles.show, request.params["role_id"])
    if role["domain_id"]:
        _require(request, rule)


async def delete(request: Request) -> Response:
    """DELETE /v3/roles/{role_id}"""
    await _require_for(request, "identity:delete_domain_role")
    await request.cloud.db.write(roles.delete, request.params["role_id"])
    return no_content()


# -- What implies what ---------------------------------------------------------------------------------------


def _short(request: Request, role: Row) -> dict[str, Any]:
    return {"id": role["id"], "name": role["name"], "links": lists.links(request, f"roles/{role['id']}")}


async def inferences(request: Request) -> Response:
    """GET /v3/role_inferences"""
    found = await request.cloud.db.read(roles.implications)
    rules = [
        {"prior_role": _short(request, prior), "implies": [_short(request, role) for role in implied]}
        for prior, implied in found
    ]
    return ok({"role_inferences": rules, "links": lists.links(request, "role_inferences")})


async def implied(request: Request) -> Response:
    """GET /v3/roles/{prior_role_id}/implies"""
    prior, found = await request.cloud.db.read(roles.implied_by, request.params["prior_role_id"])
    rule = {"prior_role": _short(request, prior), "implies": [_short(request, role) for role in found]}
    return ok({"role_inference": rule, "links": lists.links(request, f"roles/{prior['id']}/implies")})


def _pair(request: Request, pair: tuple[Row, Row], status: int) -> Response:
    prior, implied = pair
    rule = {"prior_role": _short(request, prior), "implies": _short(request, implied)}
    links = lists.links(request, f"roles/{prior['id']}/implies/{implied['id']}")
    return Response(status, {"role_inference": rule, "links": links})


def _ids(request: Request) -> tuple[str, str]:
    return request.params["prior_role_id"], request.params["implied_role_id"]


async def show_implied(request: Request) -> Response:
    """GET /v3/roles/{prior_role_id}/implies/{implied_role_id}"""
    return _pair(request, await request.cloud.db.read(roles.implication, *_ids(request)), 200)


async def check_implied(request: Request) -> Response:
    """HEAD of the same: 204, as upstream answers against the rules of HTTP."""

    def look(tx: Tx) -> None:
        roles.implication(tx, *_ids(request))

    await request.cloud.db.read(look)
    return no_content()


async def imply(request: Request) -> Response:
    """PUT /v3/roles/{prior_role_id}/implies/{implied_role_id}"""
    return _pair(request, await request.cloud.db.write(roles.imply, *_ids(request)), 201)


async def unimply(request: Request) -> Response:
    """DELETE /v3/roles/{prior_role_id}/implies/{implied_role_id}"""
    await request.cloud.db.write(roles.unimply, *_ids(request))
    return no_content()


_MANAGED = (
    "('manager':%(target.role.name)s or 'member':%(target.role.name)s or 'reader':%(target.role.name)s)"
)
_ONE = "/v3/roles/{role_id}"
_IMPLIES = "/v3/roles/{prior_role_id}/implies"
_IMPLIED = "/v3/roles/{prior_role_id}/implies/{implied_role_id}"

#: The rules of roles of one domain, asked for beside the routes' own.
RULES = {
    "identity:get_domain_role": ADMIN_OR_READER,
    "identity:list_domain_roles": ADMIN_OR_READER,
    "identity:create_domain_role": ADMIN,
    "identity:update_domain_role": ADMIN,
    "identity:delete_domain_role": ADMIN,
}
ROUTES = (
    Route(
        "GET", "/v3/roles", index, "identity:list_roles",
        f"{ADMIN_OR_READER} or (role:manager and not domain_id:None)",
    ),
    Route("POST", "/v3/roles", create, "identity:create_role", ADMIN),
    Route("GET", _ONE, show, "identity:get_role", f"{ADMIN_OR_READER} or (role:manager and {_MANAGED})"),
    Route("PATCH", _ONE, update, "identity:update_role", ADMIN),
    Route("DELETE", _ONE, delete, "identity:delete_role", ADMIN),
    Route("GET", "/v3/role_inferences", inferences, "identity:list_role_inference_rules", ADMIN_OR_READER),
    Route("GET", _IMPLIES, implied, "identity:list_implied_roles", ADMIN_OR_READER),
    Route("GET", _IMPLIED, show_implied, "identity:get_implied_role", ADMIN_OR_READER),
    Route("HEAD", _IMPLIED, check_implied, "identity:check_implied_role", ADMIN_OR_READER),
    Route("PUT", _IMPLIED, imply, "identity:create_implied_role", ADMIN),
    Route("DELETE", _IMPLIED, unimply, "identity:delete_implied_role", ADMIN),
)  # fmt: skip
