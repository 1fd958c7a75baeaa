"""From a proof of identity to a token.

A login has three steps: ``look`` reads what the proofs must match, the caller checks secrets outside of any
transaction (core/passwords.py), and ``grant`` makes the token. See the API reference, "Authentication and
token management".
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from cumulet.config import Auth
from cumulet.core import assignments
from cumulet.core.catalog import catalogue
from cumulet.core.token import (
    ScopeKind,
    Standing,
    Token,
    audit_id,
    render,
    scope_ids,
    seal,
    stand,
    unseal,
)
from cumulet.db.engine import Row, Tx
from cumulet.errors import Forbidden, Invalid, NotFound, Unauthorized
from cumulet.wire.identity import Application, AuthRequest, DomainRef, ProjectRef, UserRef

#: The methods that can be asked for here.
SERVED = frozenset({"password", "token", "application_credential"})
_WRONG = "The request you have made requires authentication."


class Secret(msgspec.Struct, frozen=True):
    """A secret that was shown, and the digest that it must match; None if there is nothing to match."""

    shown: str
    digest: str | None


class Found(msgspec.Struct, frozen=True):
    """What the proofs of a login point to."""

    methods: tuple[str, ...]
    secrets: tuple[Secret, ...]
    #: None if some proof points to nobody.
    user_id: str | None
    #: What the client called the user, for the throttle.
    who: str
    application_credential_id: str | None = None
    #: The token that a token is made from.
    parent: Token | None = None


def look(tx: Tx, ask: AuthRequest) -> Found:
    """Read what the proofs must match. Raises Invalid for a body that makes no sense, Unauthorized, NotFound."""
    identity = ask.auth.identity
    methods = tuple(dict.fromkeys(identity.methods))
    if not methods:
        raise Unauthorized(_WRONG)
    for method in methods:
        if method not in SERVED:
            raise Unauthorized(f"Attempted to authenticate with an unsupported method: {method[:64]}.")
        if getattr(identity, method) is None:
            raise Invalid(f"Expecting to find {method} in identity.")
    users: set[str | None] = set()
    secrets: list[Secret] = []
    credential_id = parent = None
    who = ""
    if identity.password is not None and "password" in methods:
        ref = identity.password.user
        if ref.password is None:
            raise Invalid("Expecting to find password in user.")
        user = find_user(tx, ref)
        who = _called(ref)
        users.add(user["id"] if user else None)
        secrets.append(Secret(ref.password, user["password_digest"] if user else None))
    if identity.application_credential is not None and "application_credential" in methods:
        credential = _find_credential(tx, identity.application_credential)
        who = who or _called_credential(identity.application_credential)
        users.add(credential["user_id"] if credential else None)
        secrets.append(
            Secret(
                identity.application_credential.secret, credential["secret_digest"] if credential else None
            )
        )
        credential_id = credential["id"] if credential else None
    if identity.token is not None and "token" in methods:
        parent = _parent(tx, identity.token.id)
        users.add(parent.user_id)
        if parent.application_credential_id:
            credential_id = credential_id or parent.application_credential_id
    if len(users) != 1:
        raise Unauthorized("The proofs of identity are of different users.")
    return Found(methods, tuple(secrets), users.pop(), who, credential_id, parent)


def _parent(tx: Tx, text: str) -> Token:
    """What a token that is shown as a proof says. Raises NotFound for a worthless one, as upstream does."""
    try:
        token = unseal(tx, text)
        stand(tx, token)
    except Unauthorized:
        raise NotFound("Could not find the token that was given: it is wrong, expired or revoked.") from None
    return token


def _called(ref: UserRef) -> str:
    domain = ref.domain or DomainRef()
    return f"{ref.id or ''}\0{ref.name or ''}\0{domain.id or ''}\0{domain.name or ''}"[:1024]


def _called_credential(ref: Application) -> str:
    return f"{ref.id or ''}\0{ref.name or ''}\0{_called(ref.user) if ref.user else ''}"[:1024]


def find_user(tx: Tx, ref: UserRef) -> Row | None:
    """A user by id, or by name and domain; None if there is none. Raises Invalid."""
    if ref.id:
        return tx.one("select * from users where id = :id", id=ref.id)
    if not ref.name:
        raise Invalid("Expecting to find id or name in user.")
    if ref.domain is None:
        raise Invalid("Expecting to find domain in user.")
    domain = find_domain(tx, ref.domain)
    if domain is None:
        return None
    return tx.one(
        "select * from users where domain_id = :domain and name = :name", domain=domain["id"], name=ref.name
    )


def find_domain(tx: Tx, ref: DomainRef) -> Row | None:
    """A domain by id or name; None if there is none. Raises Invalid."""
    if ref.id:
        return tx.one("select * from projects where id = :id and is_domain", id=ref.id)
    if not ref.name:
        raise Invalid("Expecting to find id or name in domain.")
    return tx.one("select * from projects where name = :name and is_domain", name=ref.name)


def find_project(tx: Tx, ref: ProjectRef) -> Row | None:
    """A project by id, or by name and domain; None if there is none. Raises Invalid."""
    if ref.id:
        return tx.one("select * from projects where id = :id", id=ref.id)
    if not ref.name:
        raise Invalid("Expecting to find id or name in project.")
    if ref.domain is None:
        raise Invalid("Expecting to find domain in project.")
    domain = find_domain(tx, ref.domain)
    if domain is None:
        return None
    found = tx.one(
        "select * from projects where domain_id = :domain and name = :name",
        domain=domain["id"],
        name=ref.name,
    )
    # A domain can act as the project of its own name.
    return found or (domain if domain["name"] == ref.name else None)


def _find_credential(tx: Tx, ref: Application) -> Row | None:
    if ref.id:
        return tx.one("select * from application_credentials where id = :id", id=ref.id)
    if not ref.name or ref.user is None:
        raise Invalid("Expecting to find id, or name and user, in application_credential.")
    user = find_user(tx, ref.user)
    if user is None:
        return None
    return tx.one(
        "select * from application_credentials where user_id = :user and name = :name",
        user=user["id"],
        name=ref.name,
    )


# -- Who may log in -----------------------------------------------------------------------------------------


def failed(tx: Tx, user_id: str | None) -> None:
    """Count a login with a wrong password; only where users are locked for that."""
    if user_id is not None:
        tx.run(
            "update users set failed_logins = failed_logins + 1, failed_at = :now where id = :id",
            now=tx.now,
            id=user_id,
        )


def may_log_in(tx: Tx, user_id: str, auth: Auth) -> None:
    """Raises Unauthorized for a user that is locked, inactive, or whose password has expired."""
    user = tx.one("select * from users where id = :id", id=user_id)
    if user is None or locked(user, auth, tx.now):
        raise Unauthorized(_WRONG)
    options = user["options"]
    if (
        user["password_expires_at"] is not None
        and user["password_expires_at"] <= tx.now
        and not options.get("ignore_password_expiry")
    ):
        raise Unauthorized(f"The password is expired and needs to be changed for user: {user_id}.")
    last = max(user["active_at"] or 0.0, user["created_at"])
    if (
        auth.inactive_days
        and not options.get("ignore_user_inactivity")
        and tx.now - last > auth.inactive_days * 86400
    ):
        raise Unauthorized(_WRONG)


def locked(user: Row, auth: Auth, now: float) -> bool:
    """True while a user with too many failed logins must wait."""
    return bool(
        auth.lockout_failures
        and not user["options"].get("ignore_lockout_failure_attempts")
        and user["failed_logins"] >= auth.lockout_failures
        and (user["failed_at"] or 0.0) + auth.lockout_seconds > now
    )


def _factors(user: Row, methods: tuple[str, ...]) -> bool:
    """True if the methods satisfy one of the user's rules for several factors."""
    rules = user["options"].get("multi_factor_auth_rules") or []
    if not rules or user["options"].get("multi_factor_auth_enabled") is False:
        return True
    # A rule of which no method is served here could lock the user out for good.
    served = [wanted for rule in rules if (wanted := set(rule) & SERVED)]
    return not served or any(wanted <= set(methods) for wanted in served)


# -- The token ----------------------------------------------------------------------------------------------


class Granted(msgspec.Struct, frozen=True):
    """A new token and what it is worth."""

    token: Token
    standing: Standing


def grant(tx: Tx, ask: AuthRequest, found: Found, auth: Auth) -> Granted:
    """Make the token of a login whose secrets were right.

    Raises Unauthorized when the scope is not to be had, Forbidden for what the parent token may not do.
    """
    user_id = found.user_id
    if user_id is None:
        raise Unauthorized(_WRONG)
    if "password" in found.methods:
        may_log_in(tx, user_id, auth)
    user = tx.one("select * from users where id = :id", id=user_id)
    methods = found.methods + tuple(
        m for m in (found.parent.methods if found.parent else ()) if m not in found.methods
    )
    if user is None or not _factors(user, methods):
        raise Unauthorized(_WRONG)
    scope, trust = _scope(tx, ask, found, user)
    expires = tx.now + auth.token_hours * 3600
    if found.parent is not None:
        expires = found.parent.expires_at
    if found.application_credential_id:
        ends = tx.value(
            "select expires_at from application_credentials where id = :id",
            id=found.application_credential_id,
        )
        expires = expires if ends is None else min(expires, ends)
    if trust is not None and trust["expires_at"] is not None:
        expires = min(expires, trust["expires_at"])
    own = audit_id(tx)
    token = Token(
        user_id=user_id,
        methods=methods,
        scope=scope,
        issued_at=int(tx.now * 1e6) / 1e6,
        expires_at=float(int(expires)),
        audit_ids=(own, found.parent.chain) if found.parent else (own,),
        application_credential_id=found.application_credential_id,
        trust_id=trust["id"] if trust else None,
    )
    return Granted(token, stand(tx, token))


def _scope(tx: Tx, ask: AuthRequest, found: Found, user: Row) -> tuple[tuple[ScopeKind, str], Row | None]:
    wanted = ask.auth.scope
    parent = found.parent
    if found.application_credential_id:
        if wanted is not None:
            if parent is not None:
                raise Forbidden("A token of an application credential cannot be used to ask for a scope.")
            raise Unauthorized("Application credentials cannot request a scope.")
        project = tx.value(
            "select project_id from application_credentials where id = :id",
            id=found.application_credential_id,
        )
        return ("project", str(project)), None
    if parent is not None and parent.trust_id:
        raise Forbidden("A token of a trust cannot be used to make another token.")
    if wanted is None:
        return _default(tx, user), None
    kind, ref = _wanted(wanted)
    if parent is not None and parent.scope[0] == "system" and kind in ("project", "domain"):
        raise Forbidden("A token of the system cannot be used to make one of a project or domain.")
    if kind == "unscoped":
        return ("", ""), None
    if kind == "system":
        return ("system", ""), None
    if kind == "trust":
        return _trust(tx, str(ref), user)
    if kind == "project":
        project = find_project(tx, msgspec.convert(ref, ProjectRef))
        if project is None:
            raise Unauthorized("The project that the scope names does not exist, or is not yours.")
        return ("project", project["id"]), None
    domain = find_domain(tx, msgspec.convert(ref, DomainRef))
    if domain is None:
        raise Unauthorized("The domain that the scope names does not exist, or is not yours.")
    return ("domain", domain["id"]), None


Wanted = Literal["unscoped", "system", "trust", "project", "domain"]
_SCOPES: tuple[tuple[str, Wanted], ...] = (
    ("project", "project"),
    ("domain", "domain"),
    ("unscoped", "unscoped"),
    ("system", "system"),
    ("OS-TRUST:trust", "trust"),
)


def _wanted(scope: Any) -> tuple[Wanted, Any]:
    """Which scope, and what it names. Raises Invalid unless it names exactly one."""
    if scope == "unscoped":
        return "unscoped", None
    found = [(kind, scope[key]) for key, kind in _SCOPES if isinstance(scope, dict) and key in scope]
    if len(found) != 1:
        raise Invalid(
            "Expecting to find exactly one of system, project, domain, OS-TRUST:trust or unscoped in scope."
        )
    kind, ref = found[0]
    if kind == "unscoped":
        return kind, None
    if not isinstance(ref, dict):
        raise Invalid(f"Invalid input for field/attribute scope.{kind}: an object was expected.")
    if kind == "system":
        if ref.get("all") is not True:
            raise Invalid("Invalid input for field/attribute scope.system: the only scope is all.")
        return kind, None
    if kind == "trust":
        if not isinstance(ref.get("id"), str):
            raise Invalid("Expecting to find id in OS-TRUST:trust.")
        return kind, ref["id"]
    for place, item in ((kind, ref), (f"{kind}.domain", ref.get("domain"))):
        if item is None:
            continue
        texts = [item.get("id"), item.get("name")] if isinstance(item, dict) else []
        if not any(texts) or not all(text is None or isinstance(text, str) for text in texts):
            raise Invalid(
                f"Invalid input for field/attribute scope.{place}: id or name must be present, as text."
            )
    return kind, ref


def _default(tx: Tx, user: Row) -> tuple[ScopeKind, str]:
    """The user's default project if a token of it can be had; no scope otherwise."""
    if not user["default_project_id"]:
        return "", ""
    usable = tx.one(
        "select 1 from projects p left join projects d on d.id = p.domain_id"
        " where p.id = :id and p.enabled and (d.id is null or d.enabled)",
        id=user["default_project_id"],
    )
    if usable and assignments.on_project(tx, user["id"], user["default_project_id"]):
        return "project", user["default_project_id"]
    return "", ""


def _trust(tx: Tx, trust_id: str, user: Row) -> tuple[tuple[ScopeKind, str], Row]:
    trust = tx.one("select * from trusts where id = :id", id=trust_id)
    if trust is None or (trust["expires_at"] is not None and trust["expires_at"] <= tx.now):
        raise Unauthorized(f"Could not find trust: {trust_id[:64]}.")
    if trust["trustee_user_id"] != user["id"]:
        raise Forbidden("The user is not the trustee of this trust.")
    if trust["remaining_uses"] is not None and trust["remaining_uses"] <= 0:
        raise Unauthorized(f"Could not find trust: {trust_id[:64]}.")
    return ("project" if trust["project_id"] else "", trust["project_id"] or ""), trust


def writes(ask: AuthRequest, auth: Auth) -> bool:
    """True if a login leaves something behind. Most only read."""
    scope = ask.auth.scope
    trust = isinstance(scope, dict) and "OS-TRUST:trust" in scope
    return trust or bool(auth.lockout_failures or auth.inactive_days)


def issue(tx: Tx, ask: AuthRequest, found: Found, auth: Auth, base: str, catalog: bool) -> tuple[str, Any]:
    """Make the token; return its text and its body. Raises what ``grant`` raises.

    Needs a writing transaction where ``writes`` says so.
    """
    granted = grant(tx, ask, found, auth)
    if writes(ask, auth):
        _record(tx, granted, found, auth)
    shown = catalogue(tx, base, scope_ids(granted.standing)) if catalog else None
    return seal(tx, granted.token), render(granted.standing, shown)


def _record(tx: Tx, granted: Granted, found: Found, auth: Auth) -> None:
    trust = granted.standing.trust
    if trust is not None and trust["remaining_uses"] is not None:
        used = tx.run(
            "update trusts set remaining_uses = remaining_uses - 1 where id = :id and remaining_uses > 0",
            id=trust["id"],
        )
        if not used:  # another process was faster
            raise Unauthorized(f"Could not find trust: {trust['id']}.")
    if "password" in found.methods and (auth.lockout_failures or auth.inactive_days):
        tx.run(
            "update users set failed_logins = 0, failed_at = null, active_at = :now where id = :id",
            now=tx.now,
            id=found.user_id,
        )
