"""Which roles somebody has where, with groups, inheritance and implied roles."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cumulet.db.engine import Row, Tx, chunks
from cumulet.db.query import Where
from cumulet.errors import TooLarge

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


# -- The list of all assignments -------------------------------------------------------------------------------


class Assignment(msgspec.Struct, frozen=True):
    """A role that somebody has on something, and where it comes from unless it was given just so."""

    actor_type: str
    actor_id: str
    target_type: str
    target_id: str
    role_id: str
    inherited: bool = False
    #: The group through whose membership a user has it.
    group_id: str | None = None
    #: What it was inherited from: ("project" or "domain", id).
    source: tuple[str, str] | None = None
    #: The role that implies it.
    prior_id: str | None = None


class Wanted(msgspec.Struct, frozen=True):
    """What a list of assignments is narrowed to; None is anything."""

    user_id: str | None = None
    group_id: str | None = None
    role_id: str | None = None
    project_id: str | None = None
    domain_id: str | None = None
    system: bool = False
    inherited: bool | None = None
    #: With all projects below ``project_id``.
    subtree: bool = False
    #: Only of what is in this domain.
    within: str | None = None


#: An effective list is a product of users and projects; it must be narrowed before it is so long.
MOST = 50_000


def direct(tx: Tx, wanted: Wanted) -> list[Assignment]:
    """Assignments as they were given. See the API reference, "List role assignments"."""
    where = Where()
    if wanted.user_id is not None:
        where.add("actor_type = 'user' and actor_id = :user", user=wanted.user_id)
    if wanted.group_id is not None:
        where.add("actor_type = 'group' and actor_id = :group", group=wanted.group_id)
    if wanted.role_id is not None:
        where.equal("role_id", wanted.role_id)
    if wanted.project_id is not None:
        where.add("target_type = 'project' and target_id in :projects", projects=_tree(tx, wanted))
    if wanted.domain_id is not None:
        where.add("target_type = 'domain' and target_id = :domain", domain=wanted.domain_id)
    if wanted.system:
        where.add("target_type = 'system'")
    if wanted.inherited is not None:
        where.add("inherited" if wanted.inherited else "not inherited")
    if wanted.within is not None:
        where.add(
            "(target_type = 'domain' and target_id = :within) or (target_type = 'project'"
            " and target_id in (select id from projects where domain_id = :within))",
            within=wanted.within,
        )
    return _rows(tx, where)


def _tree(tx: Tx, wanted: Wanted) -> tuple[str, ...]:
    """The project, and with the subtree all that is below it."""
    if wanted.project_id is None:
        return ()
    return (wanted.project_id, *(below(tx, wanted.project_id) if wanted.subtree else ()))


def below(tx: Tx, project_id: str) -> tuple[str, ...]:
    """Ids of the projects below a project or domain, at any depth."""
    return tuple(
        tx.values(
            "with recursive below(id) as ("
            " select id from projects where parent_id = :id"
            " union all select p.id from projects p join below b on p.parent_id = b.id) select id from below",
            id=project_id,
        )
    )


def _rows(tx: Tx, where: Where) -> list[Assignment]:
    rows = tx.all(
        "select actor_type, actor_id, target_type, target_id, role_id, inherited from role_assignments"
        f" where {where.sql} order by target_type, target_id, actor_type, actor_id, role_id",
        **where.params,
    )
    return [Assignment(**row) for row in rows]


def effective(tx: Tx, wanted: Wanted) -> list[Assignment]:
    """Assignments as they work: of users alone, on what they hold for, with what they imply.

    Raises TooLarge when the list is not narrow enough.
    """
    targets = frozenset(_tree(tx, wanted)) if wanted.project_id is not None else None
    found: list[Assignment] = []
    for given in _candidates(tx, wanted, targets):
        spread = _spread(tx, given, targets)
        found += [one for place in spread for one in _members(tx, place, wanted.user_id)]
        if len(found) > MOST:
            raise TooLarge(f"More than {MOST} role assignments are effective; ask for one user or project.")
    if wanted.within is not None:
        inside = {
            wanted.within,
            *tx.values("select id from projects where domain_id = :id", id=wanted.within),
        }
        found = [one for one in found if one.target_id in inside]
    found = _with_implied(tx, found)
    wide = frozenset(tx.values("select id from roles where domain_id = ''"))
    return [
        one
        for one in found
        if one.role_id in wide and (wanted.role_id is None or one.role_id == wanted.role_id)
    ]


def _candidates(tx: Tx, wanted: Wanted, targets: frozenset[str] | None) -> list[Assignment]:
    """What could be effective, before it is spread."""
    where = Where()
    if wanted.user_id is not None:
        groups = tx.values("select group_id from group_members where user_id = :id", id=wanted.user_id)
        where.among("actor_id", (wanted.user_id, *groups))
    if wanted.system:
        where.add("target_type = 'system'")
    elif wanted.domain_id is not None:
        where.add("target_type = 'domain' and target_id = :domain and not inherited", domain=wanted.domain_id)
    else:
        where.add("target_type <> 'system'")
    if targets is not None:
        above = tuple(
            tx.values(
                "with recursive above(id, parent_id) as ("
                " select id, parent_id from projects where id = :id"
                " union all select p.id, p.parent_id from projects p join above a on p.id = a.parent_id)"
                " select id from above",
                id=wanted.project_id,
            )
        )
        where.add(
            "(target_type = 'project' and target_id in :targets) or (inherited and target_id in :above)",
            targets=tuple(targets),
            above=above,
        )
    if wanted.inherited is not None:
        where.add("inherited" if wanted.inherited else "not inherited")
    return _rows(tx, where)


def _spread(tx: Tx, given: Assignment, targets: frozenset[str] | None) -> list[Assignment]:
    """An inherited assignment as one for each project that it holds for; another as itself."""
    if not given.inherited:
        return [given] if targets is None or given.target_id in targets else []
    return [
        msgspec.structs.replace(
            given,
            target_type="project",
            target_id=project,
            inherited=False,
            source=(given.target_type, given.target_id),
        )
        for project in below(tx, given.target_id)
        if targets is None or project in targets
    ]


def _members(tx: Tx, given: Assignment, user_id: str | None) -> list[Assignment]:
    """A group's assignment as one for each member; a user's as itself."""
    if given.actor_type == "user":
        return [given]
    users = (
        [user_id]
        if user_id is not None
        else tx.values(
            "select user_id from group_members where group_id = :id order by user_id", id=given.actor_id
        )
    )
    return [
        msgspec.structs.replace(given, actor_type="user", actor_id=user, group_id=given.actor_id)
        for user in users
    ]


def _with_implied(tx: Tx, found: list[Assignment]) -> list[Assignment]:
    implies: dict[str, list[str]] = {}
    for row in tx.all("select prior_id, implied_id from implied_roles"):
        implies.setdefault(row["prior_id"], []).append(row["implied_id"])
    seen: dict[Assignment, None] = {}
    todo = list(reversed(found))
    while todo:
        one = todo.pop()
        if one in seen:
            continue
        seen[one] = None
        todo += [
            msgspec.structs.replace(one, role_id=role, prior_id=one.role_id)
            for role in implies.get(one.role_id, ())
        ]
        if len(seen) > MOST:
            raise TooLarge(f"More than {MOST} role assignments are effective; ask for one user or project.")
    return list(seen)


def names(tx: Tx, found: Sequence[Assignment]) -> dict[str, Row]:
    """Of each user, group, project, domain and role in the list: id, name, domain_id and domain_name."""
    named: dict[str, Row] = {}
    kinds = {
        "users": {one.actor_id for one in found if one.actor_type == "user"},
        "groups": {one.actor_id for one in found if one.actor_type == "group"},
        "projects": {one.target_id for one in found},
        "roles": {one.role_id for one in found},
    }
    for table, ids in kinds.items():
        for some in chunks(sorted(ids)):
            rows = tx.all(
                f"select t.id, t.name, t.domain_id, d.name as domain_name from {table} t"
                " left join projects d on d.id = t.domain_id where t.id in :ids",
                ids=some,
            )
            named |= {row["id"]: row for row in rows}
    return named
