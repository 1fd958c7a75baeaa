"""/v3/auth/tokens: log in, look at a token, revoke it."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from cumulet.api.asgi import Route
from cumulet.api.request import Request, Response, no_content
from cumulet.core import login, token
from cumulet.core.catalog import catalogue
from cumulet.db.engine import Tx
from cumulet.errors import Invalid, NotFound, Unauthorized
from cumulet.wire.body import decode
from cumulet.wire.identity import AuthBody, AuthRequest, DomainRef, ProjectRef, UserRef

_SCOPES = ("project", "domain", "system", "OS-TRUST:trust", "unscoped")
SUBJECT_RULES = {
    "identity:check_token": "role:admin or (role:reader and system_scope:all) or user_id:%(target.token.user_id)s",
    "identity:validate_token": "role:admin or (role:reader and system_scope:all) or role:service"
    " or user_id:%(target.token.user_id)s",
    "identity:revoke_token": "role:admin or user_id:%(target.token.user_id)s",
}


async def issue(request: Request) -> Response:
    """POST /v3/auth/tokens"""
    ask = _ask((await request.struct(AuthRequest)).auth)
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


def _ask(body: AuthBody) -> login.Ask:
    """The body of a login as what it asks for.

    Raises Invalid for what is missing or makes no sense, Unauthorized for a method that is not served.
    """
    identity = body.identity
    methods = tuple(dict.fromkeys(identity.methods))
    for method in methods:
        if method not in login.SERVED:
            raise Unauthorized(f"Attempted to authenticate with an unsupported method: {method[:64]}.")
        if getattr(identity, method) is None:
            raise Invalid(f"Expecting to find {method} in identity.")
    if not methods:
        raise Unauthorized("The request you have made requires authentication.")
    scope = None if body.scope is None else _scope(body.scope)
    ask = login.Ask(methods, scope=scope)
    if identity.password is not None:
        user = identity.password.user
        if user.password is None:
            raise Invalid("Expecting to find password in user.")
        ask = replace(ask, user=_ref(user, "user"), password=user.password)
    if identity.application_credential is not None:
        shown = identity.application_credential
        owner = login.Ref()
        if not shown.id:
            if not shown.name or shown.user is None:
                raise Invalid("Expecting to find id, or name and user, in application_credential.")
            owner = _ref(shown.user, "user")
        named = login.Ref(id=shown.id, name=shown.name)
        ask = replace(ask, credential=named, owner=owner, secret=shown.secret)
    if identity.token is not None:
        ask = replace(ask, token=identity.token.id)
    return ask


def _ref(shown: UserRef | ProjectRef, noun: str) -> login.Ref:
    if shown.id:
        return login.Ref(id=shown.id)
    if not shown.name:
        raise Invalid(f"Expecting to find id or name in {noun}.")
    domain = shown.domain
    if domain is None or not (domain.id or domain.name):
        raise Invalid(f"Expecting to find domain, with id or name, in {noun}.")
    return login.Ref(name=shown.name, domain_id=domain.id, domain_name=domain.name)


def _scope(scope: Any) -> login.Scope:
    """Which scope, and what it names. Raises Invalid unless it names exactly one."""
    if scope == "unscoped":
        return login.Scope("unscoped")
    names = [name for name in _SCOPES if isinstance(scope, dict) and name in scope]
    if len(names) != 1:
        raise Invalid(f"Expecting to find exactly one of {', '.join(_SCOPES)} in scope.")
    name, inside = names[0], scope[names[0]]
    if name == "unscoped":
        return login.Scope("unscoped")
    if not isinstance(inside, dict):
        raise Invalid(f"Invalid input for field/attribute scope.{name}: an object was expected.")
    if name == "system":
        if inside.get("all") is not True:
            raise Invalid("Invalid input for field/attribute scope.system: the only scope is all.")
        return login.Scope("system")
    if name == "project":
        return login.Scope("project", _ref(decode(inside, ProjectRef, (3, 0)), "project"))
    ref = decode(inside, DomainRef, (3, 0))
    if not ref.id and (name == "OS-TRUST:trust" or not ref.name):
        raise Invalid(f"Expecting to find id in {name}.")
    return login.Scope("domain" if name == "domain" else "trust", login.Ref(id=ref.id, name=ref.name))


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


def grace(request: Request) -> float:
    """How long ago a subject token may have expired.

    A service that works on for a user who logged in before a long job looks at the token with
    ``allow_expired``.
    """
    return token.GRACE if request.method in ("GET", "HEAD") and request.flag("allow_expired") else 0.0


async def validate(request: Request) -> Response:
    """GET and HEAD /v3/auth/tokens"""
    text = request.headers.get("x-subject-token", "")
    catalog = not _given(request, "nocatalog")
    body = await request.cloud.db.read(_describe, text, request.base, catalog, grace(request))
    return Response(200, body, [("X-Subject-Token", text), ("Vary", "X-Auth-Token")])


def _describe(tx: Tx, text: str, base: str, catalog: bool, grace: float) -> dict[str, Any]:
    standing = _standing(tx, text, grace)
    shown = catalogue(tx, base, token.scope_ids(standing)) if catalog else None
    return token.render(standing, shown)


def _standing(tx: Tx, text: str, grace: float = 0.0) -> token.Standing:
    try:
        return token.stand(tx, token.unseal(tx, text), grace)
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


def subject(tx: Tx, text: str, grace: float) -> dict[str, Any]:
    """What the rules of these routes look at: whose the subject token is. Raises NotFound for a worthless one."""
    return {"target.token.user_id": _standing(tx, text, grace).user["id"]}


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
