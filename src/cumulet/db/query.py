"""Lists: filters, sorting, and pages that cost the same wherever they begin.

A page begins behind a marker: the SQL compares the sort keys with those of the marker's row, so an index
finds the place and nothing is counted off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from cumulet.db.engine import Row, Tx


class Query(msgspec.Struct, frozen=True):
    """What a list request asks for, apart from the area's own filters."""

    #: At most so many rows; None for all.
    limit: int | None = None
    #: The id of the row that the page begins behind.
    marker: str | None = None
    #: (name, "asc" or "desc"), the most significant first.
    sort: tuple[tuple[str, str], ...] = ()
    offset: int = 0


class Where:
    """Conditions joined by ``and``, with their parameters."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.params: dict[str, Any] = {}

    def add(self, condition: str, /, **params: Any) -> None:
        """``where.add("project_id = :project", project=…)``"""
        self.parts.append(f"({condition})")
        self.params.update(params)

    def equal(self, column: str, value: Any) -> None:
        """``column = value``."""
        name = f"p{len(self.params)}"
        self.add(f"{column} = :{name}", **{name: value})

    def among(self, column: str, values: Sequence[Any]) -> None:
        """``column`` is one of the values; none for an empty list."""
        name = f"p{len(self.params)}"
        self.add(f"{column} in :{name}", **{name: tuple(values)})

    @property
    def sql(self) -> str:
        return " and ".join(self.parts) or "1 = 1"


class MarkerNotFound(Exception):
    """No row has the marker's id, or the caller does not see it."""


def page(
    tx: Tx,
    source: str,
    where: Where,
    query: Query,
    sortable: Mapping[str, str],
    default: Sequence[tuple[str, str]] = (("created_at", "desc"),),
    *,
    columns: str = "*",
    key: str = "id",
) -> list[Row]:
    """One page of ``source`` (what stands behind FROM).

    ``sortable`` maps a name to an SQL expression that is never null. The key breaks ties, in the direction
    of the least significant sort key. Raises MarkerNotFound.
    """
    sort = list(query.sort or default)
    if all(name != key for name, _ in sort):
        sort.append((key, sort[-1][1] if sort else "asc"))
    expressions = [(sortable.get(name, key if name == key else name), direction) for name, direction in sort]
    params = dict(where.params)
    condition = where.sql
    if query.marker is not None:
        picked = ", ".join(f"{expression} as k{i}" for i, (expression, _) in enumerate(expressions))
        marker = tx.one(
            f"select {picked} from {source} where {where.sql} and {key} = :marker_",
            marker_=query.marker,
            **params,
        )
        if marker is None:
            raise MarkerNotFound(query.marker)
        params.update({f"marker_{name}": value for name, value in marker.items()})
        condition += f" and ({_behind(expressions)})"
    order = ", ".join(f"{expression} {direction}" for expression, direction in expressions)
    sql = f"select {columns} from {source} where {condition} order by {order}"
    if query.limit is not None:
        sql += " limit :limit_"
        params["limit_"] = query.limit
    if query.offset:
        if query.limit is None:
            sql += " limit 9223372036854775807"
        sql += " offset :offset_"
        params["offset_"] = query.offset
    return tx.all(sql, **params)


def _behind(expressions: Sequence[tuple[str, str]]) -> str:
    """Rows behind the marker. One direction throughout is a row comparison, which an index answers."""
    directions = {direction for _, direction in expressions}
    if len(directions) == 1:
        sign = ">" if directions == {"asc"} else "<"
        left = ", ".join(expression for expression, _ in expressions)
        right = ", ".join(f":marker_k{i}" for i in range(len(expressions)))
        return f"({left}) {sign} ({right})"
    cases = []
    for i, (expression, direction) in enumerate(expressions):
        equal = [f"{before} = :marker_k{j}" for j, (before, _) in enumerate(expressions[:i])]
        cases.append(
            " and ".join([*equal, f"{expression} {'>' if direction == 'asc' else '<'} :marker_k{i}"])
        )
    return " or ".join(f"({case})" for case in cases)
