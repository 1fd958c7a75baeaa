"""Which roles somebody has where, with groups, inheritance and implied roles."""

from __future__ import annotations

from cumulet.db.engine import Tx

#: How deep implied roles, project trees and redelegated trusts go at most.
DEPTH = 32
SYSTEM = "system"

Role = tuple[str, str]

#: The user, and the groups that the user is in.
_ACTORS = """
    actors(actor) as (
      select cast(:user as text)
      union all select group_id from group_members where user_id = :user)
"""
#: ``mine`` and what it implies; roles of one domain give only what they imply.
_CLOSURE = """
    held(role_id) as (
      select role_id from mine
      union select i.implied_id from implied_roles i join held h on h.role_id = i.prior_id)
    select r.id, r.name from held h join roles r on r.id = h.role_id where r.domain_id = '' order by r.name
"""
_ON_PROJECT = f"""
    with recursive {_ACTORS},
    above(id, parent_id) as (
      select id, parent_id from projects where id = :project
      union all select p.id, p.parent_id from projects p join above a on p.id = a.parent_id),
    mine(role_id) as (
      select role_id from role_assignments
      where actor_id in (select actor from actors)
        and ((target_type = 'project' and target_id = :project and not inherited)
          or (inherited and target_id <> :project and target_id in (select id from above)))),
    {_CLOSURE}
"""
_ON_TARGET = f"""
    with recursive {_ACTORS},
    mine(role_id) as (
      select role_id from role_assignments
      where actor_id in (select actor from actors)
        and target_type = :type and target_id = :target and not inherited),
    {_CLOSURE}
"""
_IMPLIED = """
    with recursive held(role_id) as (
      select id from roles where id in :ids
      union select i.implied_id from implied_roles i join held h on h.role_id = i.prior_id)
    select r.id, r.name from held h join roles r on r.id = h.role_id where r.domain_id = '' order by r.name
"""


def on_project(tx: Tx, user_id: str, project_id: str) -> list[Role]:
    """Id and name of every role that the user has on the project."""
    return _roles(tx, _ON_PROJECT, user=user_id, project=project_id)


def on_domain(tx: Tx, user_id: str, domain_id: str) -> list[Role]:
    """Id and name of every role that the user has on the domain itself."""
    return _roles(tx, _ON_TARGET, user=user_id, type="domain", target=domain_id)


def on_system(tx: Tx, user_id: str) -> list[Role]:
    """Id and name of every role that the user has on the whole system."""
    return _roles(tx, _ON_TARGET, user=user_id, type=SYSTEM, target=SYSTEM)


def implied(tx: Tx, role_ids: tuple[str, ...]) -> list[Role]:
    """The roles and all that they imply."""
    return _roles(tx, _IMPLIED, ids=role_ids)


def _roles(tx: Tx, sql: str, **params: str | tuple[str, ...]) -> list[Role]:
    return [(row["id"], row["name"]) for row in tx.all(sql, **params)]


def projects_of(tx: Tx, user_id: str) -> list[str]:
    """Ids of the projects (and domains that act as one) on which the user has a role of any kind."""
    return [
        str(id)
        for id in tx.values(
            f"""
            with recursive {_ACTORS},
            below(id) as (
              select p.id from projects p join role_assignments a on a.target_id = p.parent_id
              where a.actor_id in (select actor from actors) and a.inherited
              union select p.id from projects p join below b on p.parent_id = b.id)
            select id from below
            union
            select target_id from role_assignments
            where actor_id in (select actor from actors) and target_type = 'project' and not inherited
            """,
            user=user_id,
        )
    ]


def domains_of(tx: Tx, user_id: str) -> list[str]:
    """Ids of the domains on which the user has a role."""
    return [
        str(id)
        for id in tx.values(
            f"""
            with {_ACTORS}
            select distinct target_id from role_assignments
            where actor_id in (select actor from actors) and target_type = 'domain' and not inherited
            """,
            user=user_id,
        )
    ]
