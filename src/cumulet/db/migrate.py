"""Brings a database to this program's schema.

A new database gets the whole schema at once; an older one goes through the migrations. A test holds both
equal. A newer one is refused: the program would not know what it reads.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import sqlite3
from functools import lru_cache
from pathlib import Path
from typing import Any

from cumulet.db.engine import Database, PostgresDatabase, SqliteDatabase, Tx, connect_sqlite
from cumulet.errors import Refused

#: The newest migration; a test compares it with db/migrations/versions.
HEAD = "0001"
MIGRATIONS = Path(__file__).parent / "migrations"


def prepare(db: Database) -> str:
    """Make the schema current; return "created", "upgraded" or "current".

    Raises Refused if the database is newer than the program, or not Cumulet's.
    """
    found = version(db)
    if found == HEAD:
        return "current"
    if found is None:
        assert isinstance(db, SqliteDatabase | PostgresDatabase)
        _refuse(db.read_now(_any_table))
        _create(db)
        return "created"
    if found not in _known():
        raise Refused(
            f"The database has schema {found}, which is newer than this program's {HEAD}. Start the newer "
            "version of Cumulet, or restore a backup that was made before the upgrade.",
            4,
        )
    _upgrade(db)
    return "upgraded"


def version(db: Database) -> str | None:
    """The schema's version; None for an empty database."""
    assert isinstance(db, SqliteDatabase | PostgresDatabase)
    return db.read_now(_version)


def _version(tx: Tx) -> str | None:
    exists = (
        "select 1 from sqlite_master where name = 'alembic_version'"
        if tx.dialect == "sqlite"
        else "select 1 from pg_tables where schemaname = current_schema() and tablename = 'alembic_version'"
    )
    if tx.one(exists) is None:
        return None
    found = tx.value("select version_num from alembic_version")
    return str(found) if found is not None else None


def refuse_others(path: Path) -> None:
    """Raise Refused for a SQLite file with tables of others, before it is opened to be written, which changes it."""
    if path.with_name(path.name + "-wal").exists():
        return  # A log that must be folded in first, which a reader cannot do; ``prepare`` looks then.
    with (
        contextlib.suppress(sqlite3.Error),
        contextlib.closing(connect_sqlite(path, read_only=True)) as connection,
    ):
        names = [row[0] for row in connection.execute(_TABLES["sqlite"])]
        if "alembic_version" not in names:
            _refuse(names[0] if names else None)


def _refuse(other: str | None) -> None:
    if other is not None:
        raise Refused(
            f"The database has tables that are not Cumulet's, such as {other}: it is somebody else's. Nothing was "
            "changed. Name an empty database, or another data directory with --data.",
            4,
        )


_TABLES = {
    "sqlite": "select name from sqlite_master where type = 'table' and name not like 'sqlite%' order by name",
    "postgresql": "select tablename from pg_tables where schemaname = current_schema() order by tablename",
}


def _any_table(tx: Tx) -> str | None:
    """The name of a table that is there."""
    found = tx.value(_TABLES[tx.dialect])
    return str(found) if found is not None else None


def _create(db: Database) -> None:
    assert isinstance(db, SqliteDatabase | PostgresDatabase)
    statements = ddl(db.dialect)

    def create(tx: Tx) -> None:
        for statement in statements:
            tx.run(statement)
        tx.run("create table alembic_version (version_num varchar(32) not null primary key)")
        tx.run("insert into alembic_version values (:version)", version=HEAD)

    db.write_now(create)


@lru_cache
def ddl(dialect: str) -> tuple[str, ...]:
    """The statements that make the whole schema: as they were written down, or else from the tables themselves.

    SQLAlchemy takes longer to import than the whole cloud to start, and a third of its memory.
    """
    return written(dialect) or compiled(dialect)


SCHEMA = Path(__file__).parent / "schema"
_BETWEEN = ";\n\n"


def written(dialect: str) -> tuple[str, ...] | None:
    """The statements in schema/DIALECT.sql; None unless the file is of the present tables."""
    try:
        mark, _, text = (SCHEMA / f"{dialect}.sql").read_text().partition("\n")
    except FileNotFoundError:
        return None
    return tuple(text.strip().removesuffix(";").split(_BETWEEN)) if mark == _mark() else None


def write_down() -> None:
    """Make schema/*.sql anew."""
    for dialect in ("sqlite", "postgresql"):
        text = _BETWEEN.join(compiled(dialect))
        (SCHEMA / f"{dialect}.sql").write_text(f"{_mark()}\n{text};\n")


def _mark() -> str:
    """Says of which tables a file is."""
    digest = hashlib.sha256()
    for path in sorted(SCHEMA.glob("*.py")):
        digest.update(path.read_bytes())
    return f"-- made by make docs from tables with digest {digest.hexdigest()}"


def compiled(dialect: str) -> tuple[str, ...]:
    """The statements as SQLAlchemy makes them from the tables."""
    from sqlalchemy import create_mock_engine
    from sqlalchemy.schema import SchemaItem

    from cumulet.db.schema import metadata

    found: list[str] = []

    def collect(item: SchemaItem, *_: Any, **__: Any) -> None:
        found.append(str(item.compile(dialect=engine.dialect)).strip())  # type: ignore[attr-defined]

    url = "sqlite://" if dialect == "sqlite" else "postgresql+psycopg://"
    engine = create_mock_engine(url, collect)
    metadata.create_all(engine, checkfirst=False)
    # A table's indexes come in no order of their own.
    ordered: list[str] = []
    for is_table, statements in itertools.groupby(found, _is_table):
        group = list(statements)
        ordered += group if is_table else sorted(group)
    return tuple(ordered)


def _is_table(statement: str) -> bool:
    return statement.startswith("CREATE TABLE")


def _known() -> set[str]:
    return {path.name.split("_", 1)[0] for path in (MIGRATIONS / "versions").glob("*.py")}


def _upgrade(db: Database) -> None:
    import alembic.command
    import alembic.config

    assert isinstance(db, SqliteDatabase | PostgresDatabase)
    config = alembic.config.Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    if isinstance(db, SqliteDatabase):
        url = f"sqlite:///{db.path}"
    else:
        url = db.url.replace("postgresql://", "postgresql+psycopg://", 1)
    config.set_main_option("sqlalchemy.url", url.replace("%", "%%"))
    try:
        alembic.command.upgrade(config, "head")
    except sqlite3.Error as error:  # pragma: no cover - only a broken disk gets here
        raise Refused(f"The database could not be brought to schema {HEAD}: {error}", 4) from error
