"""Roles, those of one domain, and what implies what. See the API reference, "Roles"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cumulet.core import domains, epoch, options
from cumulet.core.matches import Match, narrow
from cumulet.db.engine import Duplicate, Row, Tx
from cumulet.db.query import Query, Where, page
from cumulet.errors import Conflict, Forbidden, Invalid, NotFound

SORTABLE = {"name": "name", "id": "id"}
#: What no role may imply: whoever could say so would be an administrator by a detour.
PROHIBITED = frozenset({"admin"})


def show(tx: Tx, role_id: str) -> Row:
    """One role. Raises NotFound."""
    role = tx.one("select * from roles where id = :id", id=role_id)
    if role is None:
        raise NotFound(f"Could not find role: {role_id[:64]}.")
    return role


def find(tx: Tx, matches: Sequence[Match], query: Query, domain_id: str) -> list[Row]:
    """Roles that match: those of a domain, or with "" those of the whole cloud. Raises MarkerNotFound."""
    where = Where()
    narrow(where, matches, {"name": "name"})
    where.equal("domain_id", domain_id)
    return page(tx, "roles", where, query, SORTABLE, (("name", "asc"),))


def create(
    tx: Tx,
    *,
    name: str,
    description: str | None,
    domain_id: str | None,
    settings: Mapping[str, Any],
    extra: Mapping[str, Any],
) -> Row:
    """Make a role. Raises Invalid for a domain that does not exist, Conflict for a name that is taken."""
    if domain_id:
        domains.require(tx, domain_id)
    role_id = tx.uuid().replace("-", "")
    try:
        tx.insert(
            "roles", id=role_id, name=name, description=description, domain_id=domain_id or "",
            options=options.merged({}, settings), extra=dict(extra),
        )  # fmt: skip
    except Duplicate:
        raise _taken(name) from None
    return show(tx, role_id)


def _taken(name: str) -> Conflict:
    return Conflict(f"Conflict occurred attempting to store role - Duplicate entry found with name {name}.")


def update(tx: Tx, role_id: str, changes: Mapping[str, Any], extra: Mapping[str, Any]) -> Row:
    """Change a role. Raises NotFound, Invalid, Forbidden for an immutable one, Conflict."""
    role = show(tx, role_id)
    options.check_change("role", role_id, role["options"], {**changes, **extra})
    if "domain_id" in changes and (changes["domain_id"] or "") != role["domain_id"]:
        raise Invalid("Update of `domain_id` is not allowed.")
    columns: dict[str, Any] = {
        "options": options.merged(role["options"], changes.get("options", {})),
        "extra": {**role["extra"], **extra},
    }
    columns |= {name: changes[name] for name in ("name", "description") if name in changes}
    try:
        tx.update("roles", role_id, **columns)
    except Duplicate:
        raise _taken(changes["name"]) from None
    epoch.touch(tx)
    return show(tx, role_id)


def delete(tx: Tx, role_id: str) -> None:
    """Remove a role from whoever has it, and for good. Raises NotFound, Forbidden for an immutable one."""
    role = show(tx, role_id)
    options.check_delete("role", role_id, role["options"])
    tx.delete("roles", role_id)
    epoch.touch(tx)


# -- What implies what ---------------------------------------------------------------------------------------


def implications(tx: Tx, prior_id: str | None = None) -> list[tuple[Row, list[Row]]]:
    """Roles with the roles that each implies; of one role if given."""
    where = "where prior_id = :prior" if prior_id is not None else ""
    params = {"prior": prior_id} if prior_id is not None else {}
    pairs = tx.all(f"select prior_id, implied_id from implied_roles {where}", **params)
    if not pairs:
        return []
    named = {row["id"]: row for row in tx.all("select id, name from roles order by name")}
    found: dict[str, list[Row]] = {}
    for pair in pairs:
        found.setdefault(pair["prior_id"], []).append(named[pair["implied_id"]])
    return [
        (named[prior], sorted(implied, key=lambda role: str(role["name"])))
        for prior, implied in found.items()
    ]


def implied_by(tx: Tx, prior_id: str) -> tuple[Row, list[Row]]:
    """A role and what it implies. Raises NotFound."""
    prior = show(tx, prior_id)
    found = implications(tx, prior_id)
    return prior, found[0][1] if found else []


def implication(tx: Tx, prior_id: str, implied_id: str) -> tuple[Row, Row]:
    """The two roles, if one implies the other. Raises NotFound."""
    prior, implied = show(tx, prior_id), show(tx, implied_id)
    if not tx.one(
        "select 1 from implied_roles where prior_id = :p and implied_id = :i", p=prior_id, i=implied_id
    ):
        raise NotFound(f"{prior_id} does not imply {implied_id}.")
    return prior, implied


def imply(tx: Tx, prior_id: str, implied_id: str) -> tuple[Row, Row]:
    """Make one role imply another; once more changes nothing.

    Raises NotFound, Forbidden for a role that nothing may imply and for one of a domain below one of the cloud.
    """
    prior, implied = show(tx, prior_id), show(tx, implied_id)
    if implied["name"] in PROHIBITED:
        raise Forbidden(f"{implied_id} cannot be an implied role.")
    if not prior["domain_id"] and implied["domain_id"]:
        raise Forbidden("A global role cannot imply a domain-specific role.")
    tx.insert_new("implied_roles", prior_id=prior_id, implied_id=implied_id)
    epoch.touch(tx)
    return prior, implied


def unimply(tx: Tx, prior_id: str, implied_id: str) -> None:
    """Raises NotFound."""
    implication(tx, prior_id, implied_id)
    tx.run("delete from implied_roles where prior_id = :p and implied_id = :i", p=prior_id, i=implied_id)
    epoch.touch(tx)
