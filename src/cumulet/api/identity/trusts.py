"""/v3/OS-TRUST/trusts. See the API reference, "OS-TRUST"."""

from __future__ import annotations

from typing import Any

from cumulet.api.asgi import Route
from cumulet.api.identity import lists, roles
from cumulet.api.identity.body import read
from cumulet.api.identity.checks import ADMIN, ADMIN_OR_READER
from cumulet.api.request import Request, Response, created, no_content, ok
from cumulet.core import trusts
from cumulet.core.token import iso
from cumulet.db.engine import Row
from cumulet.errors import Forbidden
from cumulet.wire.identity import TrustNew, moment


def _brief(request: Request, trust: Row) -> dict[str, Any]:
    """A trust as lists show it: without its roles."""
    return {
        **trust["extra"],
        "id": trust["id"],
        "trustor_user_id": trust["trustor_user_id"],
        "trustee_user_id": trust["trustee_user_id"],
        "project_id": trust["project_id"],
        "impersonation": trust["impersonation"],
        "expires_at": iso(trust["expires_at"]),
        "deleted_at": None,
        "remaining_uses": trust["remaining_uses"],
        "redelegated_trust_id": trust["redelegated_trust_id"],
        "redelegation_count": trust["redelegation_count"],
        "links": lists.links(request, f"OS-TRUST/trusts/{trust['id']}"),
    }


def view(request: Request, trust: Row) -> dict[str, Any]:
    """A trust as it is shown."""
    return {
        **_brief(request, trust),
        "roles": [roles.view(request, role) for role in trust["roles"]],
        "roles_links": _roles_links(request, trust),
    }


def _roles_links(request: Request, trust: Row) -> dict[str, Any]:
    return {
        "self": lists.url(request, f"OS-TRUST/trusts/{trust['id']}/roles"),
        "next": None,
        "previous": None,
    }


async def index(request: Request) -> Response:
    """GET /v3/OS-TRUST/trusts: all, or those of one trustor or trustee, each with a rule of its own"""
    trustor, trustee = request.arg("trustor_user_id"), request.arg("trustee_user_id")
    if trustor:
        rule, target = "identity:list_trusts_for_trustor", {"target.trust.trustor_user_id": trustor}
    elif trustee:
        rule, target = "identity:list_trusts_for_trustee", {"target.trust.trustee_user_id": trustee}
    else:
        rule, target = "identity:list_trusts", {}
    if not request.cloud.policy.allows(rule, request.caller, target):
        raise Forbidden(f"You are not authorized to perform the requested action: {rule}.")
    trusts.check_caller(request.caller)
    found = await request.cloud.db.read(
        trusts.find, trustor_id=trustor or None, trustee_id=None if trustor else trustee or None
    )
    return lists.collection(request, "trusts", [_brief(request, trust) for trust in found])


async def create(request: Request) -> Response:
    """POST /v3/OS-TRUST/trusts"""
    body, extra = await read(request, "trust", TrustNew)
    extra.pop("redelegated_trust_id", None)
    made = await request.cloud.db.write(
        trusts.create,
        request.caller,
        trustor_id=body.trustor_user_id,
        trustee_id=body.trustee_user_id,
        project_id=body.project_id or None,
        impersonation=body.impersonation,
        role_refs=[{"id": role.id, "name": role.name} for role in body.roles or ()],
        expires_at=None if body.expires_at is None else moment(body.expires_at, "expires_at"),
        remaining_uses=body.remaining_uses,
        allow_redelegation=bool(body.allow_redelegation),
        redelegation_count=body.redelegation_count,
        extra=extra,
    )
    return created({"trust": view(request, made)})


async def show(request: Request) -> Response:
    """GET /v3/OS-TRUST/trusts/{trust_id}"""
    trusts.check_caller(request.caller)
    found = await request.cloud.db.read(trusts.show, request.params["trust_id"])
    return ok({"trust": view(request, found)})


async def delete(request: Request) -> Response:
    """DELETE /v3/OS-TRUST/trusts/{trust_id}"""
    await request.cloud.db.write(trusts.delete, request.caller, request.params["trust_id"])
    return no_content()


async def list_roles(request: Request) -> Response:
    """GET /v3/OS-TRUST/trusts/{trust_id}/roles"""
    trusts.check_caller(request.caller)
    found = await request.cloud.db.read(trusts.show, request.params["trust_id"])
    shown = [roles.view(request, role) for role in found["roles"]]
    return ok({"roles": shown, "links": _roles_links(request, found)})


async def show_role(request: Request) -> Response:
    """GET /v3/OS-TRUST/trusts/{trust_id}/roles/{role_id}"""
    trusts.check_caller(request.caller)
    role = await request.cloud.db.read(trusts.role, request.params["trust_id"], request.params["role_id"])
    return ok({"role": roles.view(request, role)})


_TRUSTOR, _TRUSTEE = "user_id:%(target.trust.trustor_user_id)s", "user_id:%(target.trust.trustee_user_id)s"
_SEE = f"{ADMIN_OR_READER} or {_TRUSTOR} or {_TRUSTEE}"
_ALL, _ONE = "/v3/OS-TRUST/trusts", "/v3/OS-TRUST/trusts/{trust_id}"

#: Which of these holds depends on the query.
RULES = {
    "identity:list_trusts": ADMIN_OR_READER,
    "identity:list_trusts_for_trustor": f"{ADMIN_OR_READER} or {_TRUSTOR}",
    "identity:list_trusts_for_trustee": f"{ADMIN_OR_READER} or {_TRUSTEE}",
    "cumulet:list_some_trusts": "@",
}
ROUTES = (
    Route("GET", _ALL, index, "cumulet:list_some_trusts", "@"),
    Route("POST", _ALL, create, "identity:create_trust", _TRUSTOR),
    Route("GET", _ONE, show, "identity:get_trust", _SEE),
    Route("DELETE", _ONE, delete, "identity:delete_trust", f"{ADMIN} or {_TRUSTOR}"),
    Route("GET", f"{_ONE}/roles", list_roles, "identity:list_roles_for_trust", _SEE),
    Route("GET", f"{_ONE}/roles/{{role_id}}", show_role, "identity:get_role_for_trust", _SEE),
)
