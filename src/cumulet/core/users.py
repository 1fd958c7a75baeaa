"""Users and their passwords. See the API reference, "Users"."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from cumulet.config import Auth
from cumulet.core import domains, epoch, options, token
from cumulet.core.matches import Match, narrow
from cumulet.db.engine import Duplicate, Row, Tx
from cumulet.db.query import Query, Where, page
from cumulet.errors import Conflict, Invalid, NotFound, Unauthorized

COLUMNS = {"domain_id": "domain_id", "name": "name", "enabled": "enabled"}
SORTABLE = {"name": "name", "id": "id", "domain_id": "domain_id"}
DAY = 86400.0


def unknown(user_id: str) -> NotFound:
    return NotFound(f"Could not find user: {user_id[:64]}.")


def show(tx: Tx, user_id: str) -> Row:
    """One user. Raises NotFound."""
    user = tx.one("select * from users where id = :id", id=user_id)
    if user is None:
        raise unknown(user_id)
    return user


def find(
    tx: Tx,
    matches: Sequence[Match],
    query: Query,
    *,
    domain_id: str | None = None,
    expires: Sequence[tuple[str, float]] = (),
) -> list[Row]:
    """Users that match; of one domain if given. ``expires`` are conditions on the password's expiry.

    Raises MarkerNotFound.
    """
    where = Where()
    narrow(where, matches, COLUMNS, flags=("enabled",))
    if domain_id is not None:
        where.equal("domain_id", domain_id)
    for operator, moment in expires:
        name = f"p{len(where.params)}"
        where.add(f"password_expires_at {_OPERATORS[operator]} :{name}", **{name: moment})
    return page(tx, "users", where, query, SORTABLE, (("name", "asc"),))


_OPERATORS: Mapping[str, str] = {"lt": "<", "lte": "<=", "gt": ">", "gte": ">=", "eq": "=", "neq": "<>"}
OPERATORS = frozenset(_OPERATORS)


def create(
    tx: Tx,
    *,
    name: str,
    domain_id: str,
    enabled: bool,
    default_project_id: str | None,
    digest: str | None,
    settings: Mapping[str, Any],
    extra: Mapping[str, Any],
    auth: Auth,
) -> Row:
    """Make a user; ``digest`` is of the password, ``settings`` are the user's options.

    Raises NotFound for a domain that does not exist, Conflict for a name that is taken in the domain.
    """
    domains.show(tx, domain_id)
    _check_default_project(tx, default_project_id)
    user_id = tx.uuid().replace("-", "")
    kept = options.merged({}, settings)
    try:
        tx.insert(
            "users", id=user_id, domain_id=domain_id, name=name.strip(), enabled=enabled,
            default_project_id=default_project_id, password_digest=digest,
            password_set_at=tx.now if digest else None,
            password_expires_at=_expiry(tx, digest, kept, auth, own=False), options=kept, extra=dict(extra),
            created_at=tx.now,
        )  # fmt: skip
    except Duplicate:
        raise _taken(name) from None
    epoch.touch(tx)
    return show(tx, user_id)


def _taken(name: str) -> Conflict:
    return Conflict(f"Conflict occurred attempting to store user - Duplicate entry found with name {name}.")


def _check_default_project(tx: Tx, project_id: str | None) -> None:
    if project_id and tx.one("select 1 from projects where id = :id and is_domain", id=project_id):
        raise Invalid("The default project of a user cannot be a domain.")


def _expiry(
    tx: Tx, digest: str | None, settings: Mapping[str, Any], auth: Auth, *, own: bool
) -> float | None:
    """When a password that is set now expires."""
    if digest is None:
        return None
    if not own and auth.password_change_first and not settings.get("ignore_change_password_upon_first_use"):
        return tx.now
    if auth.password_days and not settings.get("ignore_password_expiry"):
        return tx.now + auth.password_days * DAY
    return None


def update(
    tx: Tx, user_id: str, changes: Mapping[str, Any], extra: Mapping[str, Any], digest: str | None, auth: Auth
) -> Row:
    """Change a user. ``changes`` are columns, and ``password`` whose digest is given aside.

    Raises NotFound, Invalid, Conflict.
    """
    user = show(tx, user_id)
    if "domain_id" in changes and changes["domain_id"] != user["domain_id"]:
        raise Invalid("Cannot change Domain ID.")
    columns = {name: changes[name] for name in ("enabled", "default_project_id") if name in changes}
    _check_default_project(tx, columns.get("default_project_id"))
    if "name" in changes:
        columns["name"] = changes["name"].strip()
    columns["options"] = options.merged(user["options"], changes.get("options", {}))
    columns["extra"] = {**user["extra"], **extra}
    if "password" in changes:
        columns |= _password_columns(tx, user, digest, columns["options"], auth, own=False)
    try:
        tx.update("users", user_id, **columns)
    except Duplicate:
        raise _taken(changes["name"]) from None
    if digest is not None or (user["enabled"] and columns.get("enabled") is False):
        token.revoke(tx, f"user:{user_id}")
    epoch.touch(tx)
    return show(tx, user_id)


def _password_columns(
    tx: Tx, user: Row, digest: str | None, settings: Mapping[str, Any], auth: Auth, *, own: bool
) -> dict[str, Any]:
    before = [user["password_digest"], *user["password_history"]]
    kept = max(auth.password_history - 1, 0)
    return {
        "password_digest": digest,
        "password_set_at": tx.now if digest else None,
        "password_expires_at": _expiry(tx, digest, settings, auth, own=own),
        "password_own": own,
        "password_history": [old for old in before if old][:kept],
        "failed_logins": 0,
        "failed_at": None,
    }


def delete(tx: Tx, user_id: str) -> None:
    """Remove a user with all that is the user's: assignments, memberships, credentials, trusts.

    Raises NotFound.
    """
    # Whoever gives this user a role at the same time waits, and finds nobody.
    tx.lock("users", user_id)
    # The links of application credentials hold access rules, so they go first.
    tx.run("delete from application_credentials where user_id = :id", id=user_id)
    tx.run("delete from role_assignments where actor_id = :id", id=user_id)
    if not tx.delete("users", user_id):
        raise unknown(user_id)
    epoch.touch(tx)


def groups(tx: Tx, user_id: str, matches: Sequence[Match], domain_id: str | None) -> list[Row]:
    """The groups of a user. Raises NotFound."""
    show(tx, user_id)
    where = Where()
    narrow(where, matches, {"name": "g.name"})
    where.add("m.user_id = :user", user=user_id)
    if domain_id is not None:
        where.equal("g.domain_id", domain_id)
    return tx.all(
        f"select g.* from groups g join group_members m on m.group_id = g.id where {where.sql} order by g.name",
        **where.params,
    )


# -- The user's own change of password ---------------------------------------------------------------------


def check_form(password: str, auth: Auth) -> None:
    """Raises Invalid for a password that does not have the form that the operator wants."""
    if auth.password_regex and not re.match(auth.password_regex, password):
        wanted = auth.password_regex_description or "see the operator's rules"
        raise Invalid(f"The password does not match the requirements: {wanted}.")


def check_change(tx: Tx, user_id: str, auth: Auth) -> Row:
    """The user whose password is to be changed, once the old password was shown to be right.

    Raises Unauthorized for a user that cannot log in, Invalid where the password cannot be changed now.
    """
    user = tx.one("select * from users where id = :id", id=user_id)
    if user is None or not user["enabled"] or not domains.show(tx, user["domain_id"])["enabled"]:
        raise Unauthorized("Error when changing user password: Invalid user / password")
    if user["options"].get("lock_password"):
        raise Invalid("You cannot change your password: an administrator has locked it.")
    age = tx.now - (user["password_set_at"] or 0.0)
    if user["password_own"] and age < auth.password_minimum_days * DAY:
        raise Invalid(
            f"Cannot change password before minimum age {auth.password_minimum_days} days is met: "
            f"{int((auth.password_minimum_days * DAY - age) // DAY)} days left."
        )
    return user


def remembered(user: Row, auth: Auth) -> list[str]:
    """Digests of the passwords that may not be set again."""
    if not auth.password_history:
        return []
    return [old for old in (user["password_digest"], *user["password_history"]) if old][
        : auth.password_history
    ]


def change_password(tx: Tx, user: Row, digest: str, auth: Auth) -> None:
    """Set the password that the user chose, and make the user's tokens worthless.

    Raises Conflict if it was changed since it was checked.
    """
    now = check_change(tx, user["id"], auth)
    if now["password_digest"] != user["password_digest"]:
        raise Conflict("The password was changed by another request meanwhile.")
    tx.update("users", user["id"], **_password_columns(tx, now, digest, now["options"], auth, own=True))
    token.revoke(tx, f"user:{user['id']}")
