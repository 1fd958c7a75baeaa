"""Projects, their tree and their tags; domains are their roots. See the API reference, "Projects"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cumulet.core import assignments, domains, epoch, groups, options, token, users
from cumulet.core.matches import Match, narrow
from cumulet.db.engine import Duplicate, Row, Tx, chunks
from cumulet.db.query import Query, Where, page
from cumulet.errors import Conflict, Forbidden, Invalid, NotFound

COLUMNS = {
    "domain_id": "domain_id", "name": "name", "enabled": "enabled", "parent_id": "parent_id",
    "is_domain": "is_domain",
}  # fmt: skip
FLAGS = ("enabled", "is_domain")
SORTABLE = {"name": "name", "id": "id"}
#: Levels below a domain (upstream's max_project_tree_depth).
DEPTH = 5
TAGS = 80

TagFilters = Mapping[str, Sequence[str]]


def missing(project_id: str) -> NotFound:
    """What is told of a project that is not there, for this caller at least."""
    return NotFound(f"Could not find project: {project_id[:64]}.")


def show(tx: Tx, project_id: str) -> Row:
    """One project, or domain acting as one. Raises NotFound."""
    project = tx.one("select * from projects where id = :id", id=project_id)
    if project is None:
        raise missing(project_id)
    return project


def find(
    tx: Tx,
    matches: Sequence[Match],
    query: Query,
    *,
    domain_id: str | None = None,
    tags: TagFilters | None = None,
    among: Sequence[str] | None = None,
) -> list[Row]:
    """Projects that match; of one domain, or among some, if given. ``tags`` as in the API's query.

    Raises MarkerNotFound.
    """
    where = Where()
    narrow(where, matches, COLUMNS, flags=FLAGS)
    if domain_id is not None:
        where.equal("domain_id", domain_id)
    if among is not None:
        where.among("id", among)
    for name, values in (tags or {}).items():
        if values:
            _by_tags(where, name, tuple(values))
    return page(tx, "projects", where, query, SORTABLE, (("name", "asc"),))


def _by_tags(where: Where, name: str, values: tuple[str, ...]) -> None:
    key, number = f"p{len(where.params)}", f"p{len(where.params) + 1}"
    has = f"select count(*) from project_tags t where t.project_id = projects.id and t.tag in :{key}"
    if name.endswith("any"):
        where.add(f"({has}) {'=' if name.startswith('not') else '>'} 0", **{key: values})
    else:
        sign = "<" if name.startswith("not") else "="
        where.add(f"({has}) {sign} :{number}", **{key: values, number: len(set(values))})


def tags_of(tx: Tx, project_ids: Sequence[str]) -> dict[str, list[str]]:
    """The tags of each project, sorted."""
    found: dict[str, list[str]] = {id: [] for id in project_ids}
    for some in chunks(project_ids):
        for row in tx.all("select * from project_tags where project_id in :ids order by tag", ids=some):
            found[row["project_id"]].append(row["tag"])
    return found


def create(
    tx: Tx,
    *,
    name: str,
    domain_id: str | None,
    parent_id: str | None,
    is_domain: bool,
    description: str,
    enabled: bool,
    tags: Sequence[str],
    settings: Mapping[str, Any],
    extra: Mapping[str, Any],
    project_id: str | None = None,
) -> Row:
    """Make a project, or a domain.

    Raises Invalid for a place in the tree that is none, Forbidden when it is too deep, Conflict for a name
    or id that is taken.
    """
    if is_domain:
        if parent_id or domain_id:
            raise Invalid("only root projects are allowed to act as domains.")
        domain_id = parent_id = None
    else:
        assert domain_id is not None
        parent_id = parent_id or domain_id
        _check_place(tx, domain_id, parent_id)
    project_id = project_id or tx.uuid().replace("-", "")
    if tx.one("select 1 from projects where id = :id", id=project_id):
        raise Conflict(f"Conflict occurred attempting to store domain - the id {project_id} is taken.")
    try:
        tx.insert(
            "projects", id=project_id, domain_id=domain_id, parent_id=parent_id, name=name.strip(),
            description=description, enabled=enabled, is_domain=is_domain,
            options=options.merged({}, settings), extra=dict(extra),
        )  # fmt: skip
    except Duplicate:
        raise _taken(name, is_domain) from None
    set_tags(tx, project_id, tags)
    epoch.touch(tx)
    return show(tx, project_id)


def _taken(name: str, is_domain: bool) -> Conflict:
    if is_domain:
        return Conflict(
            "Conflict occurred attempting to store project - it is not permitted to have two projects acting as "
            f"domains with the same name: {name}."
        )
    return Conflict(
        "Conflict occurred attempting to store project - it is not permitted to have two projects with the same "
        f"name in the same domain: {name}."
    )


def _check_place(tx: Tx, domain_id: str, parent_id: str) -> None:
    domains.require(tx, domain_id)
    parent = tx.one("select * from projects where id = :id", id=parent_id)
    if parent is None:
        raise Invalid(f"Could not find project: {parent_id}.")
    if (parent["domain_id"] or parent["id"]) != domain_id:
        raise Invalid(
            f"Cannot create project: it specifies the domain {domain_id}, but its parent {parent_id} is in the "
            f"domain {parent['domain_id'] or parent['id']}."
        )
    above = [parent, *parents(tx, parent)]
    if any(not one["enabled"] for one in above):
        raise Invalid("cannot create a project in a branch containing a disabled project.")
    # The domain itself is not a level.
    if len(above) > DEPTH:
        raise Forbidden(f"Max hierarchy depth reached for {parent_id} branch: {DEPTH} levels.")


def parents(tx: Tx, project: Row) -> list[Row]:
    """What is above a project, the nearest first; the last is its domain."""
    found: list[Row] = []
    while project["parent_id"] is not None and len(found) <= assignments.DEPTH:
        project = show(tx, project["parent_id"])
        found.append(project)
    return found


def subtree(tx: Tx, project_id: str) -> list[Row]:
    """What is below a project, level by level."""
    found: list[Row] = []
    level = [project_id]
    while level:
        below: list[Row] = []
        for some in chunks(level):
            below += tx.all("select * from projects where parent_id in :ids order by name", ids=some)
        found += below
        level = [row["id"] for row in below]
    return found


def update(
    tx: Tx, project_id: str, changes: Mapping[str, Any], extra: Mapping[str, Any], noun: str = "project"
) -> Row:
    """Change a project or domain. Raises NotFound, Invalid, Forbidden, Conflict."""
    project = domains.show(tx, project_id) if noun == "domain" else show(tx, project_id)
    options.check_change(noun, project_id, project["options"], {**changes, **extra})
    if "domain_id" in changes and changes["domain_id"] != project["domain_id"]:
        raise Invalid("Cannot change Domain ID.")
    if "parent_id" in changes and changes["parent_id"] != project["parent_id"]:
        raise Forbidden("Update of `parent_id` is not allowed.")
    if "is_domain" in changes and changes["is_domain"] != project["is_domain"]:
        raise Invalid("Update of `is_domain` is not allowed.")
    columns: dict[str, Any] = {
        "options": options.merged(project["options"], changes.get("options", {})),
        "extra": {**project["extra"], **extra},
    }
    if "name" in changes:
        columns["name"] = changes["name"].strip()
    if "description" in changes:
        columns["description"] = changes["description"] or ""
    if "enabled" in changes:
        columns["enabled"] = changes["enabled"]
        _check_switch(tx, project, changes["enabled"])
    try:
        tx.update("projects", project_id, **columns)
    except Duplicate:
        raise _taken(changes["name"], project["is_domain"]) from None
    if "tags" in changes:
        set_tags(tx, project_id, changes["tags"])
    epoch.touch(tx)
    return show(tx, project_id)


def _check_switch(tx: Tx, project: Row, enabled: bool) -> None:
    """Enabling needs enabled parents; disabling a project needs disabled children, a domain's does not."""
    project_id = project["id"]
    if enabled and not project["enabled"]:
        if any(not one["enabled"] for one in parents(tx, project)):
            raise Forbidden(f"Cannot enable project {project_id} since it has disabled parents.")
    elif project["enabled"] and not enabled:
        if not project["is_domain"] and any(one["enabled"] for one in subtree(tx, project_id)):
            raise Forbidden(
                f"Cannot disable project {project_id} since its subtree contains enabled projects."
            )
        # Tokens of before stay worthless when it is enabled again.
        token.revoke(tx, f"project:{project_id}")
        if project["is_domain"]:
            token.revoke(tx, f"domain:{project_id}")


def delete(tx: Tx, project_id: str, noun: str = "project") -> None:
    """Remove a project that has no children, or a disabled domain with all that is in it.

    Raises NotFound, Forbidden.
    """
    project = domains.show(tx, project_id) if noun == "domain" else show(tx, project_id)
    if project["is_domain"]:
        _delete_domain(tx, project)
        return
    options.check_delete("project", project_id, project["options"])
    if tx.one("select 1 from projects where parent_id = :id", id=project_id):
        raise Forbidden(f"Cannot delete the project {project_id} since it is not a leaf in the hierarchy.")
    _remove(tx, project_id)
    epoch.touch(tx)


def _remove(tx: Tx, project_id: str) -> None:
    """Remove a row and what refers to it; what the foreign keys cascade to is not named here."""
    tx.lock("projects", project_id)
    tx.run(
        "delete from role_assignments where target_id = :id and target_type in ('project', 'domain')",
        id=project_id,
    )
    tx.run("update users set default_project_id = null where default_project_id = :id", id=project_id)
    tx.delete("projects", project_id)


def _delete_domain(tx: Tx, domain: Row) -> None:
    domain_id = domain["id"]
    options.check_delete("domain", domain_id, domain["options"])
    if domain["enabled"]:
        raise Forbidden("Cannot delete a domain that is enabled, please disable it first.")
    for user_id in tx.values("select id from users where domain_id = :id", id=domain_id):
        users.delete(tx, user_id)
    for group_id in tx.values("select id from groups where domain_id = :id", id=domain_id):
        groups.delete(tx, group_id)
    tx.run("delete from roles where domain_id = :id", id=domain_id)
    for project in reversed(subtree(tx, domain_id)):
        _remove(tx, project["id"])
    _remove(tx, domain_id)
    epoch.touch(tx)


# -- Tags ---------------------------------------------------------------------------------------------------


def set_tags(tx: Tx, project_id: str, tags: Sequence[str]) -> list[str]:
    """Replace a project's tags. Raises NotFound, Invalid for duplicates."""
    show(tx, project_id)
    if len(set(tags)) != len(tags):
        raise Invalid("Invalid input for field/attribute tags: the items are not unique.")
    tx.run("delete from project_tags where project_id = :id", id=project_id)
    for tag in tags:
        tx.insert("project_tags", project_id=project_id, tag=tag)
    return list(tags)


def list_tags(tx: Tx, project_id: str) -> list[str]:
    """A project's tags. Raises NotFound."""
    show(tx, project_id)
    return tags_of(tx, [project_id])[project_id]


def add_tag(tx: Tx, project_id: str, tag: str) -> None:
    """Add one tag; once more changes nothing. Raises NotFound, Invalid when there are too many."""
    if len({*list_tags(tx, project_id), tag}) > TAGS:
        raise Invalid(f"Invalid input for field/attribute tags: a project has at most {TAGS}.")
    tx.insert_new("project_tags", project_id=project_id, tag=tag)


def check_tag(tx: Tx, project_id: str, tag: str) -> None:
    """Raises NotFound unless the project has the tag."""
    if tag not in list_tags(tx, project_id):
        raise NotFound(f"Could not find project tag: {tag}.")


def remove_tag(tx: Tx, project_id: str, tag: str) -> None:
    """Raises NotFound."""
    check_tag(tx, project_id, tag)
    tx.run("delete from project_tags where project_id = :id and tag = :tag", id=project_id, tag=tag)
