"""The identity API's list filters as SQL: ``name=x``, ``name__contains=x``, ``name__istartswith=x``.

See the API reference, "Filtering". The SQL gives the same answer on both databases: LIKE would not, as it
looks at case on one of them only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from cumulet.db.query import Where

How = Literal["equals", "contains", "startswith", "endswith"]


class Match(msgspec.Struct, frozen=True):
    """One condition on one attribute."""

    name: str
    value: str
    how: How = "equals"
    any_case: bool = False


def narrow(
    where: Where, matches: Sequence[Match], columns: Mapping[str, str], flags: Sequence[str] = ()
) -> None:
    """Add the conditions. ``columns`` maps attributes to SQL; those among ``flags`` are true or false."""
    for match in matches:
        column = columns.get(match.name)
        if column is None:
            continue
        if match.name in flags:
            where.add(column if truth(match.value) else f"not {column}")
            continue
        _text(where, column, match)


def truth(value: str) -> bool:
    """Whatever is not false is true, also nothing at all: ``?enabled``."""
    return value.strip().lower() not in ("0", "false", "no", "off", "n", "f")


def _text(where: Where, column: str, match: Match) -> None:
    if match.how == "equals":
        where.equal(column, match.value)
        return
    value = match.value.lower() if match.any_case else match.value
    column = f"lower({column})" if match.any_case else column
    name, size = f"p{len(where.params)}", f"p{len(where.params) + 1}"
    text = f"cast(:{name} as text)"
    if match.how == "contains":
        where.add(
            f"(:{size} = 0 or replace({column}, {text}, '') <> {column})", **{name: value, size: len(value)}
        )
    elif match.how == "startswith":
        where.add(f"substr({column}, 1, :{size}) = {text}", **{name: value, size: len(value)})
    else:
        where.add(
            f"length({column}) >= :{size} and substr({column}, length({column}) - :{size} + 1) = {text}",
            **{name: value, size: len(value)},
        )
