"""Groups of users. See the API reference, "Groups"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cumulet.core import domains, epoch, users
from cumulet.core.matches import Match, narrow
from cumulet.db.engine import Duplicate, Row, Tx
from cumulet.db.query import Query, Where, page
from cumulet.errors import Conflict, Invalid, NotFound

COLUMNS = {"domain_id": "domain_id", "name": "name"}
SORTABLE = {"name": "name", "id": "id", "domain_id": "domain_id"}


def show(tx: Tx, group_id: str) -> Row:
    """One group. Raises NotFound."""
    group = tx.one("select * from groups where id = :id", id=group_id)
    if group is None:
        raise NotFound(f"Could not find group: {group_id[:64]}.")
    return group


def find(tx: Tx, matches: Sequence[Match], query: Query, *, domain_id: str | None = None) -> list[Row]:
    """Groups that match; of one domain if given. Raises MarkerNotFound."""
    where = Where()
    narrow(where, matches, COLUMNS)
    if domain_id is not None:
        where.equal("domain_id", domain_id)
    return page(tx, "groups", where, query, SORTABLE, (("name", "asc"),))


def create(tx: Tx, *, name: str, domain_id: str, description: str, extra: Mapping[str, Any]) -> Row:
    """Make a group. Raises NotFound for a domain that does not exist, Conflict for a name that is taken."""
    domains.show(tx, domain_id)
    group_id = tx.uuid().replace("-", "")
    try:
        tx.insert(
            "groups",
            id=group_id,
            domain_id=domain_id,
            name=name.strip(),
            description=description,
            extra=dict(extra),
        )
    except Duplicate:
        raise _taken(name) from None
    return show(tx, group_id)


def _taken(name: str) -> Conflict:
    return Conflict(f"Conflict occurred attempting to store group - Duplicate entry found with name {name}.")


def update(tx: Tx, group_id: str, changes: Mapping[str, Any], extra: Mapping[str, Any]) -> Row:
    """Change a group. Raises NotFound, Invalid, Conflict."""
    group = show(tx, group_id)
    if "domain_id" in changes and changes["domain_id"] != group["domain_id"]:
        raise Invalid("Cannot change Domain ID.")
    columns: dict[str, Any] = {"extra": {**group["extra"], **extra}}
    if "name" in changes:
        columns["name"] = changes["name"].strip()
    if "description" in changes:
        columns["description"] = changes["description"] or ""
    try:
        tx.update("groups", group_id, **columns)
    except Duplicate:
        raise _taken(changes["name"]) from None
    return show(tx, group_id)


def delete(tx: Tx, group_id: str) -> None:
    """Remove a group with its assignments; its members stay. Raises NotFound."""
    tx.lock("groups", group_id)
    show(tx, group_id)
    tx.run("delete from role_assignments where actor_id = :id", id=group_id)
    tx.delete("groups", group_id)
    epoch.touch(tx)


def members(tx: Tx, group_id: str, matches: Sequence[Match], domain_id: str | None) -> list[Row]:
    """The users in a group. Raises NotFound."""
    show(tx, group_id)
    where = Where()
    columns = {name: f"u.{column}" for name, column in users.COLUMNS.items()}
    narrow(where, matches, columns, flags=("enabled",))
    where.add("m.group_id = :group", group=group_id)
    if domain_id is not None:
        where.equal("u.domain_id", domain_id)
    return tx.all(
        f"select u.* from users u join group_members m on m.user_id = u.id where {where.sql} order by u.name",
        **where.params,
    )


def add(tx: Tx, group_id: str, user_id: str) -> None:
    """Put a user into a group; once more changes nothing. Raises NotFound."""
    show(tx, group_id)
    users.show(tx, user_id)
    tx.insert_new("group_members", group_id=group_id, user_id=user_id)
    epoch.touch(tx)


def contains(tx: Tx, group_id: str, user_id: str) -> None:
    """Raises NotFound unless the user is in the group."""
    show(tx, group_id)
    users.show(tx, user_id)
    if not tx.one(
        "select 1 from group_members where group_id = :group and user_id = :user",
        group=group_id,
        user=user_id,
    ):
        raise NotFound(f"User {user_id} is not in group {group_id}.")


def remove(tx: Tx, group_id: str, user_id: str) -> None:
    """Take a user out of a group. Raises NotFound."""
    contains(tx, group_id, user_id)
    tx.run(
        "delete from group_members where group_id = :group and user_id = :user", group=group_id, user=user_id
    )
    epoch.touch(tx)
