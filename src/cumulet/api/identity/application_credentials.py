"""/v3/users/{user_id}/application_credentials and access rules. See the API reference of these names."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Any

from cumulet.api.asgi import Route
from cumulet.api.identity import lists
from cumulet.api.identity.body import raw
from cumulet.api.identity.checks import ADMIN, ADMIN_OR_READER, OWNER
from cumulet.api.request import Request, Response, created, no_content, ok
from cumulet.core import application_credentials as core
from cumulet.db.engine import Row
from cumulet.db.query import MarkerNotFound
from cumulet.wire.body import decode
from cumulet.wire.identity import ApplicationCredentialNew, moment


def role_view(role: Row) -> dict[str, Any]:
    """A role within a credential."""
    return {
        "id": role["id"],
        "name": role["name"],
        "domain_id": role["domain_id"] or None,
        "description": role["description"],
        "options": role["options"],
    }


def rule_view(request: Request, user_id: str, rule: Row, *, links: bool = True) -> dict[str, Any]:
    """An access rule as it is shown."""
    shown: dict[str, Any] = {name: rule[name] for name in ("id", "service", "method", "path")}
    if links:
        shown["links"] = lists.links(request, f"users/{user_id}/access_rules/{rule['id']}")
    return shown


def view(request: Request, credential: Row) -> dict[str, Any]:
    """A credential as it is shown, without its secret."""
    user_id = credential["user_id"]
    shown = {
        "id": credential["id"],
        "name": credential["name"],
        "description": credential["description"],
        "user_id": user_id,
        "project_id": credential["project_id"],
        "system": None,
        "roles": [role_view(role) for role in credential["roles"]],
        "expires_at": _naive(credential["expires_at"]),
        "unrestricted": credential["unrestricted"],
        "links": lists.links(request, f"users/{user_id}/application_credentials/{credential['id']}"),
    }
    if credential["access_rules"]:
        shown["access_rules"] = [
            rule_view(request, user_id, rule, links=False) for rule in credential["access_rules"]
        ]
    return shown


def _naive(at: float | None) -> str | None:
    """UTC without saying so, as upstream shows this one time."""
    return None if at is None else datetime.fromtimestamp(at, UTC).replace(tzinfo=None).isoformat()


async def index(request: Request) -> Response:
    """GET /v3/users/{user_id}/application_credentials"""
    query = lists.page(request)
    matches = lists.matches(request, "name")
    try:
        found = await request.cloud.db.read(
            core.find, request.caller, request.params["user_id"], matches, query
        )
    except MarkerNotFound as error:
        raise lists.unknown_marker(error) from None
    return lists.collection(request, "application_credentials", [view(request, row) for row in found], query)


async def create(request: Request) -> Response:
    """POST /v3/users/{user_id}/application_credentials: the secret is shown this once"""
    body = decode(await raw(request, "application_credential"), ApplicationCredentialNew, request.version)
    core.check_caller(request.caller, change=True)
    secret = body.secret or base64.urlsafe_b64encode(
        bytes.fromhex(request.cloud.chance.token(64))
    ).decode().rstrip("=")
    rules = [
        {"id": rule.id, "service": rule.service, "method": rule.method, "path": rule.path}
        for rule in body.access_rules or ()
    ]
    made = await request.cloud.db.write(
        core.create,
        request.caller,
        user_id=request.params["user_id"],
        name=body.name,
        description=body.description,
        secret_digest=await request.cloud.passwords.hash(secret),
        roles=[{"id": role.id, "name": role.name} for role in body.roles or ()],
        expires_at=None if body.expires_at is None else moment(body.expires_at, "expires_at"),
        unrestricted=bool(body.unrestricted),
        access_rules=rules,
    )
    return created({"application_credential": {**view(request, made), "secret": secret}})


def _ids(request: Request) -> tuple[str, str]:
    return request.params["user_id"], request.params["application_credential_id"]


async def show(request: Request) -> Response:
    """GET /v3/users/{user_id}/application_credentials/{application_credential_id}"""
    found = await request.cloud.db.read(core.show, request.caller, *_ids(request))
    return ok({"application_credential": view(request, found)})


async def delete(request: Request) -> Response:
    """DELETE /v3/users/{user_id}/application_credentials/{application_credential_id}"""
    await request.cloud.db.write(core.delete, request.caller, *_ids(request))
    return no_content()


# -- Access rules --------------------------------------------------------------------------------------------------


async def list_rules(request: Request) -> Response:
    """GET /v3/users/{user_id}/access_rules"""
    core.check_caller(request.caller)
    user_id = request.params["user_id"]
    matches = lists.matches(request, "service", "path", "method")
    found = await request.cloud.db.read(core.find_rules, user_id, matches)
    return lists.collection(request, "access_rules", [rule_view(request, user_id, rule) for rule in found])


async def show_rule(request: Request) -> Response:
    """GET /v3/users/{user_id}/access_rules/{access_rule_id}"""
    core.check_caller(request.caller)
    user_id = request.params["user_id"]
    rule = await request.cloud.db.read(core.show_rule, user_id, request.params["access_rule_id"])
    return ok({"access_rule": rule_view(request, user_id, rule)})


async def delete_rule(request: Request) -> Response:
    """DELETE /v3/users/{user_id}/access_rules/{access_rule_id}"""
    core.check_caller(request.caller)
    await request.cloud.db.write(
        core.delete_rule, request.params["user_id"], request.params["access_rule_id"]
    )
    return no_content()


_ALL = "/v3/users/{user_id}/application_credentials"
_ONE = f"{_ALL}/{{application_credential_id}}"
_RULES, _RULE = "/v3/users/{user_id}/access_rules", "/v3/users/{user_id}/access_rules/{access_rule_id}"
_SEE = f"{ADMIN_OR_READER} or {OWNER}"
_SEE_RULE = "(role:reader and system_scope:all) or user_id:%(target.user.id)s"

ROUTES = (
    Route("GET", _ALL, index, "identity:list_application_credentials", _SEE),
    Route("POST", _ALL, create, "identity:create_application_credential", OWNER),
    Route("GET", _ONE, show, "identity:get_application_credential", _SEE),
    Route("DELETE", _ONE, delete, "identity:delete_application_credential", f"{ADMIN} or {OWNER}"),
    Route("GET", _RULES, list_rules, "identity:list_access_rules", _SEE_RULE),
    Route("GET", _RULE, show_rule, "identity:get_access_rule", _SEE_RULE),
    Route(
        "DELETE", _RULE, delete_rule, "identity:delete_access_rule",
        "(role:admin and system_scope:all) or user_id:%(target.user.id)s",
    ),
)  # fmt: skip
