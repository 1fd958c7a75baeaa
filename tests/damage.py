"""What may happen to a cloud behind its back: rows and files that come, go and change. All of it can be undone."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cumulet.db.engine import Database, Tx
from cumulet.db.schema import metadata

#: What the cloud's own work writes all the time.
_MOVING = ("faults", "questions")


def _unchecked(tx: Tx, checked: bool) -> None:
    """Foreign keys are not checked, as for whoever opens the file, or is the database's administrator."""
    if tx.dialect == "postgresql":
        tx.run(f"set local session_replication_role = '{'origin' if checked else 'replica'}'")


@contextlib.contextmanager
def unchecked(db: Database) -> Iterator[None]:
    """While the block runs nothing holds SQLite's rows together."""
    connection = getattr(db, "connection", None)
    if connection is not None:
        connection.execute("pragma foreign_keys = off")
    try:
        yield
    finally:
        if connection is not None:
            connection.execute("pragma foreign_keys = on")


def behind(db: Database, *statements: str, **params: Any) -> int:
    """Run SQL that the cloud knows nothing of, and that nothing refuses; returns how many rows it changed."""

    def run(tx: Tx) -> int:
        _unchecked(tx, checked=False)
        return sum(tx.run(sql, **{k: v for k, v in params.items() if f":{k}" in sql}) for sql in statements)

    with unchecked(db):
        return db.write_now(run)


class Kept:
    """A copy of every row and every file, to be put back."""

    def __init__(self, db: Database, directory: Path, copy: Path) -> None:
        self.db = db
        self.directory = directory / "agents"
        self.copy = copy
        self.rows = db.read_now(  # type: ignore[attr-defined]
            lambda tx: {
                name: tx.all(f'select * from "{name}"') for name in metadata.tables if name not in _MOVING
            }
        )
        shutil.copytree(self.directory, copy)

    def put_back(self) -> None:
        with unchecked(self.db):
            self.db.write_now(self._rows)
        for path in [path for path in self.directory.rglob("*") if path.is_file()]:
            if not (self.copy / path.relative_to(self.directory)).exists():
                path.unlink()
        shutil.copytree(self.copy, self.directory, dirs_exist_ok=True)

    def _rows(self, tx: Tx) -> None:
        _unchecked(tx, checked=False)
        for name, rows in self.rows.items():
            if tx.all(f'select * from "{name}"') == rows:
                continue
            tx.run(f'delete from "{name}"')
            for row in rows:
                tx.insert(name, **row)
