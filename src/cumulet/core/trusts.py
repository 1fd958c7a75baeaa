"""Trusts: one user acts for another, within roles, a project and a time. See the API reference, "OS-TRUST"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cumulet.core import assignments, epoch, projects, roles, users
from cumulet.core.application_credentials import role_named
from cumulet.db.engine import Row, Tx
from cumulet.errors import Forbidden, Invalid, NotFound
from cumulet.values import Caller

#: How often in a row a trust can be passed on (upstream's max_redelegation_count).
REDELEGATIONS = 3


def check_caller(caller: Caller) -> None:
    """Raises Forbidden for a token of an application credential: a trust would carry it out of its project."""
    if caller.application_credential_id:
        raise Forbidden("Using method 'application_credential' is not allowed for managing trusts.")


def _usable(trust: Row, now: float) -> bool:
    return bool((trust["expires_at"] is None or trust["expires_at"] > now) and trust["remaining_uses"] != 0)


def missing(trust_id: str) -> NotFound:
    """What is told of a trust that is not there, for this caller at least."""
    return NotFound(f"Could not find trust: {trust_id[:64]}.")


def show(tx: Tx, trust_id: str) -> Row:
    """One trust, with its roles as rows. Raises NotFound, also for one that is expired or used up."""
    trust = tx.one("select * from trusts where id = :id", id=trust_id)
    if trust is None or not _usable(trust, tx.now):
        raise missing(trust_id)
    return {
        **trust,
        "roles": tx.all("select * from roles where id in :ids order by name", ids=tuple(trust["roles"])),
    }


def find(tx: Tx, *, trustor_id: str | None = None, trustee_id: str | None = None) -> list[Row]:
    """Trusts; of one trustor or trustee if given."""
    where, params = "1 = 1", {}
    if trustor_id is not None:
        where, params = "trustor_user_id = :user", {"user": trustor_id}
    elif trustee_id is not None:
        where, params = "trustee_user_id = :user", {"user": trustee_id}
    rows = tx.all(f"select * from trusts where {where} order by created_at, id limit 10000", **params)
    return [row for row in rows if _usable(row, tx.now)]


def create(
    tx: Tx,
    caller: Caller,
    *,
    trustor_id: str,
    trustee_id: str,
    project_id: str | None,
    impersonation: bool,
    role_refs: Sequence[Mapping[str, Any]],
    expires_at: float | None,
    remaining_uses: int | None,
    allow_redelegation: bool,
    redelegation_count: int | None,
    extra: Mapping[str, Any],
) -> Row:
    """Make a trust of the caller's; with a token of a trust that allows it, pass that on.

    Raises Forbidden, Invalid, NotFound for a user, project or role that is not there or not the trustor's.
    """
    check_caller(caller)
    if caller.user_id != trustor_id:
        raise Forbidden("The authenticated user should match the trustor.")
    if project_id and not role_refs:
        raise Forbidden("At least one role should be specified.")
    if expires_at is not None and expires_at <= tx.now:
        raise Invalid("The 'expires_at' must not be before now.")
    users.show(tx, trustee_id)
    parent = show(tx, caller.trust_id) if caller.trust_id else None
    role_ids = [role_named(tx, ref) for ref in role_refs]
    _check_roles(tx, trustor_id, project_id, role_ids, parent)
    count = _count(allow_redelegation, redelegation_count, remaining_uses, parent)
    if parent is not None:
        expires_at = _check_parent(parent, role_ids, expires_at, impersonation, remaining_uses)
    trust_id = tx.uuid().replace("-", "")
    tx.insert(
        "trusts", id=trust_id, trustor_user_id=trustor_id, trustee_user_id=trustee_id, project_id=project_id,
        impersonation=impersonation, roles=role_ids, expires_at=expires_at, remaining_uses=remaining_uses,
        redelegated_trust_id=parent["id"] if parent else None, redelegation_count=count, extra=dict(extra),
        created_at=tx.now,
    )  # fmt: skip
    return show(tx, trust_id)


def _check_roles(
    tx: Tx, trustor_id: str, project_id: str | None, role_ids: Sequence[str], parent: Row | None
) -> None:
    """Nobody gives what they do not have."""
    if project_id is None:
        if role_ids:
            raise Invalid("A trust with roles needs a project_id.")
        return
    projects.show(tx, project_id)
    holder = trustor_id
    while parent is not None:
        holder = parent["trustor_user_id"]
        above = parent["redelegated_trust_id"]
        parent = tx.one("select * from trusts where id = :id", id=above) if above else None
    has = {id for id, _ in assignments.on_project(tx, holder, project_id)}
    if not has:
        # Whoever has nothing to do with a project does not learn that there is one.
        raise projects.missing(project_id)
    for role_id in role_ids:
        if role_id not in has:
            raise NotFound(f"Could not find role: {role_id}.")


def _count(allowed: bool, wanted: int | None, remaining_uses: int | None, parent: Row | None) -> int:
    """How often the trust can be passed on."""
    allowed = allowed and wanted != 0
    if wanted is not None and allowed and wanted > REDELEGATIONS:
        raise Forbidden(f"Requested redelegation depth of {wanted} is greater than allowed {REDELEGATIONS}.")
    if allowed and remaining_uses is not None:
        raise Invalid("remaining_uses must not be set if redelegation is allowed.")
    if parent is None:
        return (wanted or REDELEGATIONS) if allowed else 0
    left = int(parent["redelegation_count"]) - 1
    if allowed and wanted and wanted != left:
        raise Forbidden('Modifying "redelegation_count" upon redelegation is forbidden. Omit it.')
    return left if allowed else 0


def _check_parent(
    parent: Row,
    role_ids: Sequence[str],
    expires_at: float | None,
    impersonation: bool,
    remaining_uses: int | None,
) -> float | None:
    """What is passed on is not more than what there was; return when it ends."""
    if not 0 < parent["redelegation_count"] <= REDELEGATIONS:
        raise Forbidden(
            f"Remaining redelegation depth of {parent['redelegation_count']} out of allowed range of "
            f"[0..{REDELEGATIONS}]."
        )
    if remaining_uses is not None:
        raise Forbidden('Field "remaining_uses" must not be set in order to redelegate a trust.')
    ends: float | None = parent["expires_at"]
    if expires_at is not None and ends is not None and expires_at > ends:
        raise Forbidden("Requested expiration time is more than redelegated trust can provide.")
    if not set(role_ids) <= {role["id"] for role in parent["roles"]}:
        raise Forbidden("Some of requested roles are not in redelegated trust.")
    if impersonation and not parent["impersonation"]:
        raise Forbidden(
            "Impersonation is not allowed because redelegated trust does not specify impersonation. "
            f"Redelegated trust id: {parent['id']}."
        )
    return ends if expires_at is None else expires_at


def delete(tx: Tx, caller: Caller, trust_id: str) -> None:
    """Remove a trust and those that were made from it. Raises NotFound, Forbidden."""
    check_caller(caller)
    show(tx, trust_id)
    tx.delete("trusts", trust_id)
    epoch.touch(tx)


def role(tx: Tx, trust_id: str, role_id: str) -> Row:
    """One of the roles of a trust. Raises NotFound."""
    for found in show(tx, trust_id)["roles"]:
        if found["id"] == role_id:
            return roles.show(tx, role_id)
    raise NotFound(f"Could not find role: {role_id[:64]}.")
