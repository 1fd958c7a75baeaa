"""Domains: projects that act as one, seen from the other side. See the API reference, "Domains"."""

from __future__ import annotations

from collections.abc import Sequence

from cumulet.core.matches import Match, narrow
from cumulet.db.engine import Row, Tx
from cumulet.db.query import Query, Where, page
from cumulet.errors import Invalid, NotFound

COLUMNS = {"name": "name", "enabled": "enabled"}
SORTABLE = {"name": "name", "id": "id"}


def show(tx: Tx, domain_id: str) -> Row:
    """One domain. Raises NotFound."""
    domain = tx.one("select * from projects where id = :id and is_domain", id=domain_id)
    if domain is None:
        raise NotFound(f"Could not find domain: {domain_id[:64]}.")
    return domain


def require(tx: Tx, domain_id: str) -> Row:
    """A domain that something is to be made in. Raises Invalid if there is none."""
    try:
        return show(tx, domain_id)
    except NotFound as error:
        raise Invalid(error.message) from None


def find(
    tx: Tx,
    matches: Sequence[Match],
    query: Query,
    *,
    domain_id: str | None = None,
    among: Sequence[str] | None = None,
) -> list[Row]:
    """Domains that match; the one, or among some, if given. Raises MarkerNotFound."""
    where = Where()
    where.add("is_domain")
    narrow(where, matches, COLUMNS, flags=("enabled",))
    if domain_id is not None:
        where.equal("id", domain_id)
    if among is not None:
        where.among("id", among)
    return page(tx, "projects", where, query, SORTABLE, (("name", "asc"),))
