"""/v3/auth/tokens: log in, look at a token, revoke it."""

from __future__ import annotations

from typing import Any

from cumulet.api.asgi import Route
from cumulet.api.request import Request, Response, no_content
from cumulet.core import login, token
from cumulet.core.catalog import catalogue
from cumulet.db.engine import Tx
from cumulet.errors import NotFound, Unauthorized
from cumulet.wire.identity import AuthRequest

SUBJECT_RULES = {
    "identity:check_token": "role:admin or (role:reader and system_scope:all) or user_id:%(target.token.user_id)s",
    "identity:validate_token": "role:admin or (role:reader and system_scope:all) or role:service"
    " or user_id:%(target.token.user_id)s",
    "identity:revoke_token": "role:admin or user_id:%(target.token.user_id)s",
}


async def issue(request: Request) -> Response:
    """POST /v3/auth/tokens"""
    ask = await request.struct(AuthRequest)
    cloud = request.cloud
    auth = cloud.config.auth
    found = await cloud.db.read(login.look, ask)
    if found.secrets:
        await _check_secrets(request, found)
    transaction = cloud.db.write if login.writes(ask, auth) else cloud.db.read
    text, body = await transaction(
        login.issue, ask, found, auth, request.base, not _given(request, "nocatalog")
    )
    return Response(201, body, [("X-Subject-Token", text), ("Vary", "X-Auth-Token")])


async def _check_secrets(request: Request, found: login.Found) -> None:
    passwords = request.cloud.passwords
    who = (found.who, request.peer)
    passwords.throttle.check(*who)
    # Every secret is checked, whatever became of the one before: the time tells nothing.
    right = [await passwords.matches(secret.shown, secret.digest) for secret in found.secrets]
    if all(right):
        passwords.throttle.succeeded(*who)
        return
    passwords.throttle.failed(*who)
    if request.cloud.config.auth.lockout_failures:
        await request.cloud.db.write(login.failed, found.user_id)
    raise Unauthorized("The request you have made requires authentication.")


def _given(request: Request, name: str) -> bool:
    return request.arg(name) is not None


async def validate(request: Request) -> Response:
    """GET and HEAD /v3/auth/tokens"""
    text = request.headers.get("x-subject-token", "")
    body = await request.cloud.db.read(_describe, text, request.base, not _given(request, "nocatalog"))
    return Response(200, body, [("X-Subject-Token", text), ("Vary", "X-Auth-Token")])


def _describe(tx: Tx, text: str, base: str, catalog: bool) -> dict[str, Any]:
    standing = _standing(tx, text)
    shown = catalogue(tx, base, token.scope_ids(standing)) if catalog else None
    return token.render(standing, shown)


def _standing(tx: Tx, text: str) -> token.Standing:
    try:
        return token.stand(tx, token.unseal(tx, text))
    except Unauthorized:
        # The subject is something that is looked for, not the one who asks.
        raise NotFound(
            "Could not find the token that X-Subject-Token gives: it is wrong, expired or revoked."
        ) from None


async def revoke(request: Request) -> Response:
    """DELETE /v3/auth/tokens"""
    await request.cloud.db.write(_revoke, request.headers.get("x-subject-token", ""))
    return no_content()


def _revoke(tx: Tx, text: str) -> None:
    standing = _standing(tx, text)
    token.revoke(tx, f"audit:{standing.token.audit_ids[0]}")


def subject(tx: Tx, text: str) -> dict[str, Any]:
    """What the rules of these routes look at: whose the subject token is. Raises NotFound for a worthless one."""
    return {"target.token.user_id": _standing(tx, text).user["id"]}


ROUTES = (
    Route("POST", "/v3/auth/tokens", issue),
    Route(
        "GET",
        "/v3/auth/tokens",
        validate,
        "identity:validate_token",
        SUBJECT_RULES["identity:validate_token"],
    ),
    Route("HEAD", "/v3/auth/tokens", validate, "identity:check_token", SUBJECT_RULES["identity:check_token"]),
    Route(
        "DELETE", "/v3/auth/tokens", revoke, "identity:revoke_token", SUBJECT_RULES["identity:revoke_token"]
    ),
)
