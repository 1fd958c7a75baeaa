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
from cumulet.errors import Forbidden, NotFound, Unauthorized

#: The methods that are served.
SERVED = frozenset({"password", "token", "application_credential"})
_WRONG = "The request you have made requires authentication."


class Ref(msgspec.Struct, frozen=True):
    """Something that a client names: by id, or by name and, unless it is a domain, its domain."""

    id: str | None = None
    name: str | None = None
    domain_id: str | None = None
    domain_name: str | None = None


class Scope(msgspec.Struct, frozen=True):
    """What a token is wanted for."""

    kind: Literal["unscoped", "system", "trust", "project", "domain"]
    #: Of a trust the id alone.
    ref: Ref = Ref()


class Ask(msgspec.Struct, frozen=True):
    """A login: the proofs, for each method that is named, and the scope; None is the default."""

    methods: tuple[str, ...]
    user: Ref = Ref()
    password: str = ""
    #: An application credential; by name it is one of ``owner``.
    credential: Ref = Ref()
    owner: Ref = Ref()
    secret: str = ""
    #: A token that another is made from.
    token: str = ""
    scope: Scope | None = None


class Secret(msgspec.Struct, frozen=True):
    """A secret that was shown, and the digest that it must match; None if there is nothing to match."""

    shown: str
    digest: str | None


class Found(msgspec.Struct, frozen=True):
    """What the proofs of a login point to."""

    secrets: tuple[Secret, ...]
    #: None if some proof points to nobody.
    user_id: str | None
    #: What the client called the user, for the throttle.
    who: str
    application_credential_id: str | None = None
    #: The token that a token is made from.
    parent: Token | None = None


def look(tx: Tx, ask: Ask) -> Found:
    """Read what the proofs must match.

    Raises Unauthorized for proofs of different users, NotFound for a token that is worthless.
    """
    users: set[str | None] = set()
    secrets: list[Secret] = []
    credential_id = parent = None
    who = ""
    if "password" in ask.methods:
        user = find_user(tx, ask.user)
        who = _called(tx, ask.user)
        users.add(user["id"] if user else None)
        secrets.append(Secret(ask.password, user["password_digest"] if user else None))
    if "application_credential" in ask.methods:
        credential = _find_credential(tx, ask)
        who = who or f"{ask.credential.id or ask.credential.name}\0{_called(tx, ask.owner)}"
        users.add(credential["user_id"] if credential else None)
        secrets.append(Secret(ask.secret, credential["secret_digest"] if credential else None))
        credential_id = credential["id"] if credential else None
    if "token" in ask.methods:
        parent = _parent(tx, ask.token)
        users.add(parent.user_id)
        if parent.application_credential_id:
            credential_id = credential_id or parent.application_credential_id
    if len(users) != 1:
        raise Unauthorized("The proofs of identity are of different users.")
    return Found(tuple(secrets), users.pop(), who[:1024], credential_id, parent)


def _parent(tx: Tx, text: str) -> Token:
    """What a token that is shown as a proof says. Raises NotFound for a worthless one, as upstream does."""
    try:
        token = unseal(tx, text)
        stand(tx, token)
    except Unauthorized:
        raise NotFound("Could not find the token that was given: it is wrong, expired or revoked.") from None
    return token


def _called(tx: Tx, ref: Ref) -> str:
    """What a user is called, the same by whichever name of the domain, and for users that do not exist."""
    if ref.id:
        return ref.id
    domain = _domain_of(tx, ref)
    return f"{domain['id'] if domain else ref.domain_id or ref.domain_name}\0{ref.name}"


def find_user(tx: Tx, ref: Ref) -> Row | None:
    """A user by id, or by name and domain; None if there is none."""
    if ref.id:
        return tx.one("select * from users where id = :id", id=ref.id)
    domain = _domain_of(tx, ref)
    if domain is None:
        return None
    return tx.one(
        "select * from users where domain_id = :domain and name = :name", domain=domain["id"], name=ref.name
    )


def _domain_of(tx: Tx, ref: Ref) -> Row | None:
    return find_domain(tx, Ref(id=ref.domain_id, name=ref.domain_name))


def find_domain(tx: Tx, ref: Ref) -> Row | None:
    """A domain by id or name; None if there is none."""
    if ref.id:
        return tx.one("select * from projects where id = :id and is_domain", id=ref.id)
    return tx.one("select * from projects where name = :name and is_domain", name=ref.name)


def find_project(tx: Tx, ref: Ref) -> Row | None:
    """A project by id, or by name and domain; None if there is none."""
    if ref.id:
        return tx.one("select * from projects where id = :id", id=ref.id)
    domain = _domain_of(tx, ref)
    if domain is None:
        return None
    found = tx.one(
        "select * from projects where domain_id = :domain and name = :name",
        domain=domain["id"],
        name=ref.name,
    )
    # A domain can act as the project of its own name.
    return found or (domain if domain["name"] == ref.name else None)


def _find_credential(tx: Tx, ask: Ask) -> Row | None:
    if ask.credential.id:
        return tx.one("select * from application_credentials where id = :id", id=ask.credential.id)
    user = find_user(tx, ask.owner)
    if user is None:
        return None
    return tx.one(
        "select * from application_credentials where user_id = :user and name = :name",
        user=user["id"],
        name=ask.credential.name,
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


def grant(tx: Tx, ask: Ask, found: Found, auth: Auth) -> Granted:
    """Make the token of a login whose secrets were right.

    Raises Unauthorized when the scope is not to be had, Forbidden for what the parent token may not do.
    """
    user_id = found.user_id
    if user_id is None:
        raise Unauthorized(_WRONG)
    if "password" in ask.methods:
        may_log_in(tx, user_id, auth)
    user = tx.one("select * from users where id = :id", id=user_id)
    methods = ask.methods + tuple(
        m for m in (found.parent.methods if found.parent else ()) if m not in ask.methods
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


def _scope(tx: Tx, ask: Ask, found: Found, user: Row) -> tuple[tuple[ScopeKind, str], Row | None]:
    """What the token is for, and the trust that gives it."""
    wanted, parent = ask.scope, found.parent
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
    if parent is not None and parent.scope[0] == "system" and wanted.kind in ("project", "domain"):
        raise Forbidden("A token of the system cannot be used to make one of a project or domain.")
    if wanted.kind == "unscoped":
        return ("", ""), None
    if wanted.kind == "system":
        return ("system", ""), None
    if wanted.kind == "trust":
        return _trust(tx, wanted.ref.id or "", user)
    place = find_project(tx, wanted.ref) if wanted.kind == "project" else find_domain(tx, wanted.ref)
    if place is None:
        raise Unauthorized(f"The {wanted.kind} that the scope names does not exist, or is not yours.")
    return (wanted.kind, place["id"]), None


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


def writes(ask: Ask, auth: Auth) -> bool:
    """True if a login leaves something behind. Most only read."""
    trust = ask.scope is not None and ask.scope.kind == "trust"
    return trust or bool(auth.lockout_failures or auth.inactive_days)


def issue(tx: Tx, ask: Ask, found: Found, auth: Auth, base: str, catalog: bool) -> tuple[str, Any]:
    """Make the token; return its text and its body. Raises what ``grant`` raises.

    Needs a writing transaction where ``writes`` says so.
    """
    granted = grant(tx, ask, found, auth)
    if writes(ask, auth):
        _record(tx, ask, granted, auth)
    shown = catalogue(tx, base, scope_ids(granted.standing)) if catalog else None
    return seal(tx, granted.token), render(granted.standing, shown)


def _record(tx: Tx, ask: Ask, granted: Granted, auth: Auth) -> None:
    trust = granted.standing.trust
    if trust is not None and trust["remaining_uses"] is not None:
        used = tx.run(
            "update trusts set remaining_uses = remaining_uses - 1 where id = :id and remaining_uses > 0",
            id=trust["id"],
        )
        if not used:  # another process was faster
            raise Unauthorized(f"Could not find trust: {trust['id']}.")
    if "password" in ask.methods and (auth.lockout_failures or auth.inactive_days):
        tx.run(
            "update users set failed_logins = 0, failed_at = null, active_at = :now where id = :id",
            now=tx.now,
            id=granted.token.user_id,
        )
