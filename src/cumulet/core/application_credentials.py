"""Application credentials and the access rules that narrow them. See the API reference of the same names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cumulet.core import assignments, epoch, token, users
from cumulet.core.matches import Match, narrow
from cumulet.db.engine import Duplicate, Row, StillHeld, Tx
from cumulet.db.query import Query, Where, page
from cumulet.errors import Conflict, Forbidden, Invalid, NotFound
from cumulet.values import Caller

#: A user has no more of them.
MOST = 1000


def check_caller(caller: Caller, *, change: bool = False) -> None:
    """Raises Forbidden for tokens that would escape their bounds: what they made would outlive them."""
    if caller.trust_id:
        raise Forbidden("Cannot manage application credentials with a token issued via delegation.")
    if change and caller.restricted:
        raise Forbidden(
            "Using method 'application_credential' is not allowed for managing additional application credentials."
        )


def missing(credential_id: str) -> NotFound:
    """What is told of a credential that is not there, for this caller at least."""
    return NotFound(f"Could not find Application Credential: {credential_id[:64]}.")


def show(tx: Tx, caller: Caller, user_id: str, credential_id: str) -> Row:
    """One credential with its roles and rules. Raises NotFound, Forbidden."""
    check_caller(caller)
    found = tx.one(
        "select * from application_credentials where id = :id and user_id = :user",
        id=credential_id,
        user=user_id,
    )
    if found is None:
        raise missing(credential_id)
    return _whole(tx, found)


def _whole(tx: Tx, row: Row) -> Row:
    return {
        **row,
        "roles": tx.all("select * from roles where id in :ids order by name", ids=tuple(row["roles"])),
        "access_rules": token.access_rules(tx, row["id"]),
    }


def find(tx: Tx, caller: Caller, user_id: str, matches: Sequence[Match], query: Query) -> list[Row]:
    """The credentials of a user that match. Raises NotFound, Forbidden, MarkerNotFound."""
    check_caller(caller)
    users.show(tx, user_id)
    where = Where()
    narrow(where, matches, {"name": "name"})
    where.equal("user_id", user_id)
    found = page(
        tx, "application_credentials", where, query, {"name": "name", "id": "id"}, (("name", "asc"),)
    )
    return [_whole(tx, row) for row in found]


def create(
    tx: Tx,
    caller: Caller,
    *,
    user_id: str,
    name: str,
    description: str | None,
    secret_digest: str,
    roles: Sequence[Mapping[str, Any]],
    expires_at: float | None,
    unrestricted: bool,
    access_rules: Sequence[Mapping[str, Any]],
) -> Row:
    """Make a credential for the caller in the caller's project, with no more roles than the token has.

    Raises Forbidden, Invalid, NotFound for a role or rule that does not exist, Conflict for a name that is taken.
    """
    check_caller(caller, change=True)
    if caller.user_id != user_id:
        raise Forbidden("Cannot create an application credential for another user.")
    if caller.project_id is None:
        raise Invalid("An application credential is made with a token of a project.")
    if expires_at is not None and expires_at <= tx.now:
        raise Invalid("The 'expires_at' must not be before now.")
    if tx.value("select count(*) from application_credentials where user_id = :id", id=user_id) >= MOST:
        raise Forbidden(
            f"Unable to create additional application credentials, maximum of {MOST} already exceeded for user."
        )
    credential_id = tx.uuid().replace("-", "")
    try:
        tx.insert(
            "application_credentials", id=credential_id, user_id=user_id, project_id=caller.project_id, name=name,
            description=description, secret_digest=secret_digest, roles=_roles(tx, caller, roles),
            expires_at=expires_at, unrestricted=unrestricted, created_at=tx.now,
        )  # fmt: skip
    except Duplicate:
        raise Conflict(
            "Conflict occurred attempting to store application_credential - "
            f"Duplicate entry found with name {name} for user ID {user_id}."
        ) from None
    for rule in access_rules:
        tx.insert_new(
            "application_credential_rules", application_credential_id=credential_id,
            access_rule_id=_rule(tx, user_id, rule),
        )  # fmt: skip
    return show(tx, caller, user_id, credential_id)


def _roles(tx: Tx, caller: Caller, wanted: Sequence[Mapping[str, Any]]) -> list[str]:
    """Ids of the roles, with what they imply; all that the token has if none is named."""
    if not wanted:
        return list(caller.role_ids)
    named = [role_named(tx, role) for role in wanted]
    found = [id for id, _ in assignments.implied(tx, tuple(named))]
    if any(id not in caller.role_ids for id in {*named, *found}):
        raise Invalid(
            "Invalid application credential: Cannot create an application credential with unassigned role."
        )
    return found


def role_named(tx: Tx, ref: Mapping[str, Any]) -> str:
    """The id of a role given by id or name. Raises NotFound, Invalid."""
    if ref.get("id"):
        found = tx.value("select id from roles where id = :id", id=ref["id"])
    elif ref.get("name"):
        found = tx.value("select id from roles where name = :name and domain_id = ''", name=ref["name"])
    else:
        raise Invalid("Invalid input for field/attribute roles: id or name must be present.")
    if found is None:
        raise NotFound(f"Could not find role: {ref.get('id') or ref.get('name')}.")
    return str(found)


def delete(tx: Tx, caller: Caller, user_id: str, credential_id: str) -> None:
    """Remove a credential; tokens that were made with it are worthless. Raises NotFound, Forbidden."""
    check_caller(caller, change=True)
    show(tx, caller, user_id, credential_id)
    tx.delete("application_credentials", credential_id)
    epoch.touch(tx)


# -- Access rules ------------------------------------------------------------------------------------------------


def _rule(tx: Tx, user_id: str, wanted: Mapping[str, Any]) -> str:
    """The id of a rule: one of the user's by id, or one with this content, made if there is none yet."""
    if wanted.get("id"):
        return str(show_rule(tx, user_id, wanted["id"])["id"])
    content = {name: wanted[name] for name in ("service", "method", "path")}
    tx.insert_new("access_rules", id=tx.uuid().replace("-", ""), user_id=user_id, **content)
    return str(
        tx.value(
            "select id from access_rules"
            " where user_id = :user and service = :service and method = :method and path = :path",
            user=user_id,
            **content,
        )
    )


def show_rule(tx: Tx, user_id: str, rule_id: str) -> Row:
    """One rule of a user. Raises NotFound."""
    found = tx.one("select * from access_rules where id = :id and user_id = :user", id=rule_id, user=user_id)
    if found is None:
        raise NotFound(f"Could not find Access Rule: {rule_id[:64]}.")
    return found


def find_rules(tx: Tx, user_id: str, matches: Sequence[Match]) -> list[Row]:
    """The rules of a user that match. Raises NotFound."""
    users.show(tx, user_id)
    where = Where()
    narrow(where, matches, {"service": "service", "path": "path", "method": "method"})
    where.equal("user_id", user_id)
    return tx.all(f"select * from access_rules where {where.sql} order by id", **where.params)


def delete_rule(tx: Tx, user_id: str, rule_id: str) -> None:
    """Raises NotFound, Forbidden while a credential uses the rule."""
    show_rule(tx, user_id, rule_id)
    try:
        tx.delete("access_rules", rule_id)
    except StillHeld:
        raise Forbidden("May not delete access rule in use.") from None
