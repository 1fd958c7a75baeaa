"""Column types and shorthands that all areas share.

Times are seconds since the epoch; ids are text; JSON is TEXT on SQLite and JSONB on PostgreSQL.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(column_0_N_label)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

Json = sa.JSON().with_variant(JSONB(), "postgresql")


def table(name: str, *items: sa.Column[Any] | sa.schema.SchemaItem, narrow: bool = False) -> sa.Table:
    """A table of ours. ``narrow``: SQLite keeps its short rows in the tree of their key, so that a change writes one
    page and not two."""
    made = sa.Table(name, metadata, *items, sqlite_with_rowid=not narrow)
    for column in made.columns:
        if column.info.get("sparse"):
            given = column.is_not(None)
            sa.Index(f"ix_{name}_{column.name}", column, sqlite_where=given, postgresql_where=given)
    return made


def key(name: str = "id") -> sa.Column[Any]:
    """The primary key: an id that we drew."""
    return sa.Column(name, sa.Text, primary_key=True)


def text(
    name: str, default: str | None = None, *, null: bool = False, index: bool = False, sparse: bool = False
) -> sa.Column[Any]:
    """Text; not null unless it says so. ``sparse``: few rows have it, and only those are in its index."""
    server_default = None if default is None else sa.text("'" + default + "'")
    info = {"sparse": sparse}
    return sa.Column(name, sa.Text, nullable=null, server_default=server_default, index=index, info=info)


def integer(name: str, default: int | None = None, *, null: bool = False) -> sa.Column[Any]:
    """A whole number of up to 64 bits."""
    server_default = None if default is None else sa.text(str(default))
    return sa.Column(name, sa.BigInteger, nullable=null, server_default=server_default)


def flag(name: str, *, default: bool = False) -> sa.Column[Any]:
    """True or false."""
    return sa.Column(name, sa.Boolean, nullable=False, server_default=sa.true() if default else sa.false())


def moment(name: str, *, null: bool = False) -> sa.Column[Any]:
    """Seconds since the epoch."""
    return sa.Column(name, sa.Double, nullable=null)


def document(name: str, default: str | None = "{}", *, null: bool = False) -> sa.Column[Any]:
    """A JSON document."""
    server_default = None if default is None else sa.text("'" + default + "'")
    return sa.Column(name, Json, nullable=null, server_default=server_default)


def ref(
    name: str,
    to: str,
    *,
    null: bool = False,
    on_delete: str = "RESTRICT",
    primary: bool = False,
    index: bool = True,
    sparse: bool = False,
) -> sa.Column[Any]:
    """A reference to ``table.column``; what is referred to cannot go first unless it cascades.

    ``index=False``: another index begins with it. ``sparse``: few rows have it, and only those are in its index.
    """
    return sa.Column(
        name, sa.Text, sa.ForeignKey(to, ondelete=on_delete), nullable=null and not primary,
        primary_key=primary, index=index and not primary and not sparse, info={"sparse": sparse},
    )  # fmt: skip
