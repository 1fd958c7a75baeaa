"""What is there: every table of the schema, every directory of every agent. Two looks are compared.

Nothing is listed by hand that a look could find by itself. What is left out is named here, with its reason.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from cumulet.db.engine import Database, Tx
from cumulet.db.schema import metadata

#: Tables that are history, or that count what was, not what is.
HISTORY = {
    "actions": "what was done stays readable",
    "action_events": "what was done stays readable",
    "deleted_servers": "an administrator can ask for it",
    "volume_messages": "what the user was told of a failure stays until it expires",
    "numbers": "numbers that were given out are not given out again",
    "project_locks": "rows that are locked while somebody counts; they hold nothing",
    "settings": "epochs and keys of the whole cloud",
}
#: What of a table is history: the rest of it counts.
PARTLY = {"migrations": "phase <> ''"}
#: Columns that move without anything being held.
MOVING = {
    "updated_at", "revision", "acted", "sequence", "session", "seen_at", "generation", "revision_number", "failing_since",
    "request_id", "hits", "last_used_at", "cursor", "token_digest",
}  # fmt: skip
#: Files by which an agent knows itself.
OWN_FILES = {"id", "lock", "token"}

Look = Mapping[str, frozenset[str]]


def look(db: Database, directory: Path, tables: Collection[str] = ()) -> Look:
    """Everything: rows by table (all, or only some), and files by agent."""
    found = {name: frozenset(rows) for name, rows in db.read_now(_rows, tables).items()}  # type: ignore[attr-defined]
    for agent in sorted((directory / "agents").glob("*")) if (directory / "agents").is_dir() else []:
        found[f"files of {agent.name}"] = frozenset(_files(agent))
    return found


def _rows(tx: Tx, tables: Collection[str]) -> dict[str, list[str]]:
    found = {}
    for name in sorted(metadata.tables):
        if name in HISTORY or (tables and name not in tables):
            continue
        rows = tx.all(f'select * from "{name}" where {PARTLY.get(name, "1 = 1")}')
        found[name] = [_text(row) for row in rows]
    return found


def _text(row: Mapping[str, Any]) -> str:
    return json.dumps(
        {k: v for k, v in row.items() if k not in MOVING and v is not None}, sort_keys=True, default=str
    )


def _files(agent: Path) -> Iterable[str]:
    for path in agent.rglob("*"):
        name = str(path.relative_to(agent))
        if not path.is_dir() and name not in OWN_FILES:
            yield name


def difference(before: Look, after: Look, *, without: Collection[str] = ()) -> list[str]:
    """What came and what went, in words; lines that name one of ``without``, or a claim of it, do not count."""
    without = {*without, *_claims_of(without, before), *_claims_of(without, after)}
    found = []
    for name in sorted(set(before) | set(after)):
        for sign, rows in (
            ("new", after.get(name, frozenset()) - before.get(name, frozenset())),
            ("gone", before.get(name, frozenset()) - after.get(name, frozenset())),
        ):
            found += [
                f"{sign} in {name}: {row}" for row in sorted(rows) if not any(word in row for word in without)
            ]
    return found


def _claims_of(holders: Collection[str], found: Look) -> list[str]:
    """The claims by which the things of those holders are named."""
    if not holders:
        return []
    claims = [json.loads(row) for row in found.get("claims", ())]
    return [claim["id"] for claim in claims if claim["opened_for"] in holders]


def assert_nothing_left(before: Look, after: Look, *, without: Collection[str] = ()) -> None:
    """Fail, naming every row and file that came or went; ``without``: ids that the case itself excepts."""
    rest = difference(before, after, without=without)
    assert not rest, "\n".join(["left behind:", *rest])
