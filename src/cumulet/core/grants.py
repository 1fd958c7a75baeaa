"""Giving roles to users and groups, and taking them away. See the API reference, "Roles", "OS-INHERIT"."""

from __future__ import annotations

from typing import Literal

import msgspec

from cumulet.core import domains, epoch, groups, projects, roles, users
from cumulet.core.assignments import SYSTEM
from cumulet.db.engine import Row, Tx
from cumulet.errors import Forbidden, Invalid, NotFound


class Grant(msgspec.Struct, frozen=True):
    """Who gets a role on what."""

    actor_type: Literal["user", "group"]
    actor_id: str
    target_type: Literal["project", "domain", "system"]
    target_id: str = SYSTEM
    #: For what is below the target, and not for the target itself.
    inherited: bool = False


_WHERE = (
    "actor_id = :actor_id and actor_type = :actor_type and target_type = :target_type and target_id = :target_id"
    " and inherited = :inherited"
)


def give(tx: Tx, grant: Grant, role_id: str) -> None:
    """Give the role; once more changes nothing.

    Raises NotFound, Forbidden for a role of a domain that the project is not in, Invalid for a role of a
    domain on the system.
    """
    # No foreign key holds these two, so their rows are kept from going meanwhile.
    if grant.target_type != "system":
        tx.lock("projects", grant.target_id)
    tx.lock("users" if grant.actor_type == "user" else "groups", grant.actor_id)
    role = roles.show(tx, role_id)
    _check_actor(tx, grant)
    domain_id = _check_target(tx, grant)
    if role["domain_id"]:
        if grant.target_type == "system":
            raise Invalid(
                f"Role {role_id} is a domain-specific role. Unable to use a domain-specific role in a system assignment."
            )
        if grant.target_type == "project" and role["domain_id"] != domain_id:
            raise Forbidden(f"Role {role_id} is of a domain that project {grant.target_id} is not in.")
    tx.insert_new("role_assignments", role_id=role_id, **msgspec.structs.asdict(grant))
    epoch.touch(tx)


def _check_actor(tx: Tx, grant: Grant) -> None:
    if grant.actor_type == "user":
        users.show(tx, grant.actor_id)
    else:
        groups.show(tx, grant.actor_id)


def _check_target(tx: Tx, grant: Grant) -> str | None:
    """The domain of the target. Raises NotFound."""
    if grant.target_type == "project":
        project = projects.show(tx, grant.target_id)
        return str(project["domain_id"] or project["id"])
    if grant.target_type == "domain":
        return str(domains.show(tx, grant.target_id)["id"])
    return None


def check(tx: Tx, grant: Grant, role_id: str) -> None:
    """Raises NotFound unless the role was given, just so."""
    roles.show(tx, role_id)
    _check_actor(tx, grant)
    _check_target(tx, grant)
    _require(tx, grant, role_id)


def _require(tx: Tx, grant: Grant, role_id: str) -> None:
    found = tx.one(
        f"select 1 from role_assignments where role_id = :role_id and {_WHERE}",
        role_id=role_id,
        **msgspec.structs.asdict(grant),
    )
    if not found:
        raise NotFound(
            f"Could not find role assignment with role: {role_id}, user or group: {grant.actor_id}, "
            f"project, domain, or system: {grant.target_id}."
        )


def given(tx: Tx, grant: Grant) -> list[Row]:
    """The roles that were given, just so. Raises NotFound."""
    _check_actor(tx, grant)
    _check_target(tx, grant)
    return tx.all(
        f"select r.* from roles r join role_assignments a on a.role_id = r.id where {_WHERE} order by r.name",
        **msgspec.structs.asdict(grant),
    )


def take(tx: Tx, grant: Grant, role_id: str) -> None:
    """Take the role away, and the application credentials for the project that it was needed for.

    Raises NotFound.
    """
    roles.show(tx, role_id)
    _check_target(tx, grant)
    _require(tx, grant, role_id)
    tx.run(
        f"delete from role_assignments where role_id = :role_id and {_WHERE}",
        role_id=role_id,
        **msgspec.structs.asdict(grant),
    )
    if grant.target_type == "project" and not grant.inherited:
        # As upstream does: a credential must not come back to life with a later assignment.
        who = (
            "user_id = :actor"
            if grant.actor_type == "user"
            else "user_id in (select user_id from group_members where group_id = :actor)"
        )
        tx.run(
            f"delete from application_credentials where {who} and project_id = :project",
            actor=grant.actor_id,
            project=grant.target_id,
        )
    epoch.touch(tx)
