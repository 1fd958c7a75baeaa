"""Transactions on SQLite and PostgreSQL.

A transaction is a plain function ``f(tx, …)``; ``await db.write(f, …)`` runs it. Nothing in it can wait, it
may be run again whole when the database asks for that, and a test calls it with a ``Tx`` and nothing else.

SQL is text with ``:name`` parameters, which both databases get to see almost as written. A ``tuple``, ``set``
or ``frozenset`` as a parameter stands for a list (``where id in :ids``); a ``dict`` or ``list`` is stored as
JSON; booleans are booleans. Rows are dicts.

On SQLite a transaction runs on the event loop's own thread (docs/decisions/2026-11-30-sqlite-inline.md), on
PostgreSQL in a pool of threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar

import msgspec
import structlog

from cumulet.chance import Chance
from cumulet.db.wake import Wake
from cumulet.errors import Refused, Unavailable
from cumulet.exits import DATABASE

log = structlog.get_logger()

P = ParamSpec("P")
R = TypeVar("R")
Row = dict[str, Any]
Dialect = Literal["sqlite", "postgresql"]

_PARAMETER = re.compile(r"(?<![:\w]):([a-z_][a-z0-9_]*)")
_NAME = re.compile(r"[a-z_][a-z0-9_]*\Z")
#: A parameter that stands for a list.
_LIST = re.compile(r"\bin\s+:([a-z_][a-z0-9_]*)", re.IGNORECASE)
#: The id of the user's request that the present task serves. It goes with what the request leads to: into the rows of
#: holders and claims, through the worker, to the agents, and into their logs.
REQUEST_ID: ContextVar[str | None] = ContextVar("request_id", default=None)
#: How often a transaction is run again after a serialization failure or a deadlock.
RETRIES = 8


class Duplicate(Exception):
    """A unique index refused the row."""


class StillHeld(Exception):
    """A foreign key refused the change: something refers to the row, or the row referred to is not there."""


class Cursor(Protocol):
    """The part of a DBAPI cursor that is used here."""

    @property
    def rowcount(self) -> int: ...
    @property
    def description(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...


class Tx:
    """One open transaction."""

    def __init__(
        self,
        execute: Callable[[str, Mapping[str, Any]], Cursor],
        told: Callable[[Exception], Exception],
        dialect: Dialect,
        chance: Chance,
        columns: dict[str, tuple[str, ...]],
    ) -> None:
        self._execute = execute
        #: An error of the database as ours, or itself.
        self._told = told
        #: Names of the columns that a statement gives, by its text.
        self._columns = columns
        self.dialect = dialect
        self.chance = chance
        #: The one time of this transaction, in seconds since the epoch.
        self.now = chance.now()
        #: Names to wake once committed: agents' ids, holders' ids, "due".
        self.wakes: set[str] = set()
        #: Holders to reconcile before the commit, in order; see reconcile.holders.
        self.unsettled: dict[str, None] = {}
        #: What runs in transactions of its own once this one is committed, by name, and what if that fails. It is a
        #: short cut: whatever is lost when the process dies in between, a later pass makes up for.
        self.afterwards: dict[str, tuple[Callable[[Tx], None], Callable[[Tx], None]]] = {}
        #: How far the transaction has come in the order of locks; see reconcile.worker.
        self.rank = 0
        #: Reconciles them; None where nothing does, and then ``due`` says that they wait.
        self.settle: Callable[[Tx], None] | None = None
        #: Claims whose revision must move before the commit, by agent; see reconcile.ledger.
        self.moved: dict[str, set[str]] = {}
        #: What runs last in the transaction, once each.
        self.before_commit: dict[str, Callable[[Tx], None]] = {}
        self.statements = 0
        #: The request that this is for; None where nobody asked.
        self.request_id = REQUEST_ID.get()
        #: How often each table was written here, and what was read since; see ``memo``.
        self._written: dict[str, int] = {}
        self._deletes = 0
        self._memo: dict[Any, tuple[int, Any]] = {}
        #: What a module remembers for the rest of the transaction, and keeps up itself.
        self.remembered: dict[str, Any] = {}

    def memo(self, key: Any, tables: tuple[str, ...], read: Callable[[], R]) -> R:
        """What ``read()`` gives, remembered in this transaction until one of the tables is written in it.

        Only what nobody else can change meanwhile may be remembered: rows that this transaction has locked,
        or of which it needs no newer ones than it has seen. A delete forgets everything, for it may cascade.
        """
        stamp = self._stamp(tables)
        found = self._memo.get(key)
        if found is not None and found[0] == stamp:
            return found[1]  # type: ignore[no-any-return]
        value = read()
        self._memo[key] = (stamp, value)
        return value

    def row(self, table: str, key: str) -> Row | None:
        """The row whose ``id`` is ``key``, or None; remembered as by ``memo``, and kept up by ``update``.

        It is not the caller's to change.
        """
        sql = f"select * from {_checked(table)} where id = :key_"
        return self.memo((table, key), (table,), lambda: self.one(sql, key_=key))

    def _stamp(self, tables: tuple[str, ...]) -> int:
        stamp = self._deletes
        for table in tables:
            stamp += self._written.get(table, 0)
        return stamp

    def forget(self, table: str) -> None:
        """What was remembered of a table does not hold any more, although the table was not written."""
        self._written[table] = self._written.get(table, 0) + 1

    def run(self, sql: str, /, **params: Any) -> int:
        """Execute; return the number of rows that it changed."""
        return self._do(sql, params).rowcount

    def all(self, sql: str, /, **params: Any) -> list[Row]:
        """Execute; return the rows."""
        cursor = self._do(sql, params)
        rows = cursor.fetchall()
        if not rows:
            return []
        names = self._columns.get(sql)
        if names is None or len(names) != len(rows[0]):
            names = self._columns[sql] = tuple(column[0] for column in cursor.description)
        return [dict(zip(names, row, strict=True)) for row in rows]

    def tuples(self, sql: str, /, **params: Any) -> list[tuple[Any, ...]]:
        """Execute; return the rows as tuples."""
        return self._do(sql, params).fetchall()

    def one(self, sql: str, /, **params: Any) -> Row | None:
        """Execute; return the first row, or None."""
        rows = self.all(sql, **params)
        return rows[0] if rows else None

    def value(self, sql: str, /, **params: Any) -> Any:
        """Execute; return the first column of the first row, or None."""
        rows = self._do(sql, params).fetchall()
        return rows[0][0] if rows else None

    def values(self, sql: str, /, **params: Any) -> list[Any]:
        """Execute; return the first column of every row."""
        return [row[0] for row in self._do(sql, params).fetchall()]

    def insert(self, table: str, /, **row: Any) -> None:
        """Insert one row. Raises Duplicate, StillHeld."""
        self._do(_insert(table, tuple(row)), row)

    def insert_new(self, table: str, /, **row: Any) -> bool:
        """Insert one row; False, and nothing is done, if a unique index refuses it. Raises StillHeld."""
        return self._do(_insert(table, tuple(row)) + " on conflict do nothing", row).rowcount == 1

    def update(self, table: str, key: str, /, **changes: Any) -> int:
        """Change the row whose ``id`` is ``key``; return 1, or 0 if there is none."""
        found = self._memo.get((table, key))
        known = found is not None and found[0] == self._stamp((table,))
        changed = self._do(_update(table, tuple(changes)), {**changes, "key_": key}).rowcount
        if known and found is not None and found[1] is not None:
            row = {**found[1], **{name: as_read(value) for name, value in changes.items()}}
            self._memo[table, key] = (self._stamp((table,)), row)
        return changed

    def delete(self, table: str, key: str, /) -> int:
        """Delete the row whose ``id`` is ``key``; return 1, or 0 if there is none. Raises StillHeld."""
        return self._do(f"delete from {_checked(table)} where id = :key_", {"key_": key}).rowcount

    def lock(self, table: str, key: str, /) -> bool:
        """Keep others from the row until the end of the transaction; False if there is none.

        SQLite has one writer, so there it only looks.
        """
        return (
            self._do(
                f"select 1 from {_checked(table)} where id = :key_{self.for_update}", {"key_": key}
            ).fetchall()
            != []
        )

    @property
    def for_update(self) -> str:
        """What to append to a select so that it locks the rows."""
        return "" if self.dialect == "sqlite" else " for update"

    @property
    def skip_locked(self) -> str:
        """What to append to a select so that it locks the rows and passes over those that others locked."""
        return "" if self.dialect == "sqlite" else " for update skip locked"

    def uuid(self) -> str:
        """A fresh id."""
        return self.chance.uuid()

    def _do(self, sql: str, params: Mapping[str, Any]) -> Cursor:
        self.statements += 1
        written, lists = _known(sql)
        if written:
            for table in written:
                self._written[table] = self._written.get(table, 0) + 1
        elif written is None:
            self._deletes += 1
        if lists:
            sql, params = _expand(sql, params, lists)
        try:
            return self._execute(sql, params)
        except Exception as error:
            told = self._told(error)
            if told is error:
                raise
            raise told from error


def _checked(name: str) -> str:
    if not _NAME.match(name):
        raise ValueError(f"{name!r} is not a name of a table or column")
    return name


@lru_cache(maxsize=1024)
def _insert(table: str, columns: tuple[str, ...]) -> str:
    names = ", ".join(_checked(column) for column in columns)
    return f"insert into {_checked(table)} ({names}) values ({', '.join(':' + c for c in columns)})"


@lru_cache(maxsize=1024)
def _update(table: str, columns: tuple[str, ...]) -> str:
    sets = ", ".join(f"{_checked(column)} = :{column}" for column in columns)
    return f"update {_checked(table)} set {sets} where id = :key_"


#: What goes, or is changed, with the rows of some tables; tests compare it with the schema.
CASCADES: dict[str, tuple[str, ...]] = {
    "action_events": (),
    "block_devices": ("block_devices",),
    "claims": ("held_ips", "needs"),
    "consumers": ("allocations",),
    "fixed_ips": (),
    "holders": (),
    "interfaces": (),
    "needs": (),
    "network_tags": (),
    "port_security_groups": (),
    "ports": (
        "fixed_ips",
        "floatingips",
        "interfaces",
        "port_security_groups",
        "router_interfaces",
        "trunk_subports",
        "trunks",
    ),
    "servers": ("block_devices", "interfaces", "server_tags"),
}


@lru_cache(maxsize=4096)
def _known(sql: str) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """The tables that a statement writes, None for a delete that may reach any; and its list parameters."""
    return _writes(sql), tuple(dict.fromkeys(_LIST.findall(sql)))


def _writes(sql: str) -> tuple[str, ...] | None:
    words = sql.split(None, 3)
    first = words[0].lower() if words else ""
    if first == "update":
        return (words[1],)
    if first == "insert":
        return (words[2],)
    if first == "delete" and words[2] in CASCADES:
        return (words[2], *CASCADES[words[2]])
    return () if first in ("select", "with", "set") else None


def as_read(value: Any) -> Any:
    """A value of a column as the database gives it back."""
    return msgspec.json.decode(msgspec.json.encode(value)) if value.__class__ in (dict, list) else value


def _expand(sql: str, params: Mapping[str, Any], lists: tuple[str, ...]) -> tuple[str, Mapping[str, Any]]:
    """Write out list parameters; an empty list becomes a select that finds nothing."""
    flat = dict(params)
    sizes: list[tuple[str, int]] = []
    for name in lists:
        items = flat.pop(name)
        sizes.append((name, len(items)))
        flat.update(zip(_numbered(name, len(items)), items, strict=True))
    return _expanded(sql, tuple(sizes)), flat


@lru_cache(maxsize=4096)
def _numbered(name: str, size: int) -> tuple[str, ...]:
    return tuple(f"{name}_{i}" for i in range(size))


@lru_cache(maxsize=4096)
def _expanded(sql: str, sizes: tuple[tuple[str, int], ...]) -> str:
    for name, size in sizes:
        names = ", ".join(f":{one}" for one in _numbered(name, size))
        listed = f"({names})" if names else "(select null where 1 = 0)"
        sql = re.sub(rf"(?<![:\w]):{name}\b", listed, sql)
    return sql


class Database:
    """Runs transactions. ``sqlite(path)`` and ``postgresql(url)`` make one."""

    dialect: Dialect
    wake: Wake
    chance: Chance
    #: Reconciles what a transaction touched, before it commits; set by the composition root.
    settle: Callable[[Tx], None] | None = None
    #: What was done since the process began, for its metrics.
    statements = 0
    commits = 0

    def __init__(self, chance: Chance) -> None:
        self.chance = chance
        self.wake = Wake()
        self.columns: dict[str, tuple[str, ...]] = {}

    async def write(
        self, function: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Run ``function(tx, …)`` in one transaction and wake whoever waits for what it did."""
        raise NotImplementedError

    async def read(
        self, function: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Run ``function(tx, …)`` on one consistent view; what it writes is not kept."""
        raise NotImplementedError

    def write_now(self, function: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """``write``, where it is called."""
        raise NotImplementedError

    def _afterwards(self, tx: Tx) -> None:
        for name, (function, otherwise) in tx.afterwards.items():
            try:
                self.write_now(function)
            except Exception:
                # The transaction that it follows is committed; whoever asked for that must not hear of this.
                log.exception("what was to follow a transaction failed", what=name)
                with contextlib.suppress(Exception):
                    self.write_now(otherwise)

    def close(self) -> None:
        raise NotImplementedError


def _finish(tx: Tx) -> None:
    while tx.unsettled or tx.before_commit:
        if tx.settle is not None and tx.unsettled:
            tx.settle(tx)
        tx.unsettled.clear()
        functions, tx.before_commit = tx.before_commit, {}
        for function in functions.values():
            function(tx)


class SqliteDatabase(Database):
    """One file, one process, one connection; every transaction runs where it is called."""

    dialect: Dialect = "sqlite"

    def __init__(self, path: Path | None, chance: Chance, *, busy_seconds: float = 2.0) -> None:
        super().__init__(chance)
        self.path = path
        self.connection = connect_sqlite(path, busy_seconds=busy_seconds)

    async def write(
        self, function: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs
    ) -> R:
        return self.write_now(function, *args, **kwargs)

    def write_now(self, function: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """``write``, for callers that are not coroutines: the command line, tests."""
        tx = Tx(self.connection.execute, _told, self.dialect, self.chance, self.columns)
        tx.settle = self.settle
        self._run("begin immediate")
        try:
            result = function(tx, *args, **kwargs)
            _finish(tx)
            self._run("commit")
        except BaseException:
            if self.connection.in_transaction:
                self.connection.execute("rollback")
            raise
        self.commits += 1
        self.statements += tx.statements
        if tx.wakes:
            self.wake.notify(tx.wakes)
        self._afterwards(tx)
        return result

    async def read(
        self, function: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs
    ) -> R:
        return self.read_now(function, *args, **kwargs)

    def read_now(self, function: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """``read``, for callers that are not coroutines. Nothing else can run meanwhile, so no BEGIN is needed."""
        tx = Tx(self.connection.execute, _told, self.dialect, self.chance, self.columns)
        try:
            return function(tx, *args, **kwargs)
        finally:
            self.statements += tx.statements

    def _run(self, sql: str) -> None:
        try:
            self.connection.execute(sql)
        except sqlite3.Error as error:
            told = _told(error)
            if told is error:
                raise
            raise told from error

    def close(self) -> None:
        # The last writer folds the log into the file, so that a copy of the file alone is whole.
        with contextlib.suppress(sqlite3.Error):
            self.connection.execute("pragma wal_checkpoint(truncate)")
        self.connection.close()


sqlite3.register_adapter(dict, lambda value: msgspec.json.encode(value).decode())
sqlite3.register_adapter(list, lambda value: msgspec.json.encode(value).decode())
sqlite3.register_converter("JSON", msgspec.json.decode)
sqlite3.register_converter("BOOLEAN", lambda value: value != b"0")


def connect_sqlite(
    path: Path | None, *, busy_seconds: float = 2.0, read_only: bool = False
) -> sqlite3.Connection:
    """Open the file (None: memory) with the settings that Cumulet relies on."""
    if path is None:
        target, uri = ":memory:", False
    elif read_only:
        target, uri = f"{path.absolute().as_uri()}?mode=ro", True
    else:
        target, uri = str(path), False
    connection = sqlite3.connect(
        target, uri=uri, isolation_level=None, timeout=busy_seconds, check_same_thread=False,
        cached_statements=1024, detect_types=sqlite3.PARSE_DECLTYPES,
    )  # fmt: skip
    if not read_only:
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma synchronous = normal")
        # A server changes the same pages many times in its life: they are folded into the file, and that is waited
        # for, after about 30 MB.
        connection.execute("pragma wal_autocheckpoint = 8000")
        connection.execute("pragma cache_size = -16000")
    connection.execute("pragma foreign_keys = on")
    connection.execute("pragma temp_store = memory")
    return connection


def _told(error: Exception) -> Exception:
    """An error of sqlite3 as ours, or itself."""
    name = getattr(error, "sqlite_errorname", "")
    if name in ("SQLITE_CONSTRAINT_UNIQUE", "SQLITE_CONSTRAINT_PRIMARYKEY", "SQLITE_CONSTRAINT_ROWID"):
        return Duplicate(str(error))
    if name in ("SQLITE_CONSTRAINT_FOREIGNKEY", "SQLITE_CONSTRAINT_TRIGGER"):
        return StillHeld(str(error))
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return Unavailable("The database is locked by another program; the request was not carried out.")
    if name.startswith(("SQLITE_FULL", "SQLITE_IOERR")):
        return Unavailable(
            "The disk that holds the database is full or failing; the request was not carried out."
        )
    return error


class PostgresDatabase(Database):
    """Any number of processes; transactions run in threads over a pool of connections."""

    dialect: Dialect = "postgresql"

    def __init__(self, url: str, chance: Chance, *, connections: int = 8) -> None:
        try:
            import psycopg
            import psycopg.types.json
            import psycopg_pool
        except ImportError as error:
            raise Refused("PostgreSQL needs the extra: pip install 'cumulet[postgres]'", 2) from error
        super().__init__(chance)
        self._psycopg = psycopg
        self.url = url
        #: Marks the notifications of this process, which need not come back to it.
        self.process = chance.token(4)
        self._threads = ThreadPoolExecutor(connections, "transactions")
        psycopg.types.json.set_json_dumps(msgspec.json.encode)
        psycopg.types.json.set_json_loads(msgspec.json.decode)

        def configure(connection: Any) -> None:
            connection.adapters.register_dumper(dict, psycopg.types.json.JsonbDumper)
            connection.adapters.register_dumper(list, psycopg.types.json.JsonbDumper)
            connection.prepare_threshold = 2

        try:
            with psycopg.connect(url, connect_timeout=5):
                pass
        except psycopg.OperationalError as error:
            raise Refused(f"The database does not answer: {error}", DATABASE) from error
        self.pool = psycopg_pool.ConnectionPool(
            url, min_size=2, max_size=connections, open=True, configure=configure, timeout=10
        )

    async def write(
        self, function: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs
    ) -> R:
        return await self._in_thread(partial(self.write_now, function, *args, **kwargs))

    def write_now(self, function: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        result, tx = self._again(function, args, kwargs, keep=True)
        if tx.wakes:
            self.wake.notify(tx.wakes)
        self._afterwards(tx)
        return result

    async def read(
        self, function: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs
    ) -> R:
        return await self._in_thread(partial(self.read_now, function, *args, **kwargs))

    async def _in_thread(self, call: Callable[[], R]) -> R:
        """Who is cancelled waits for what it began: no transaction outlives its request."""
        running = asyncio.get_running_loop().run_in_executor(self._threads, copy_context().run, call)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            await asyncio.wait([running])
            raise

    def read_now(self, function: Callable[Concatenate[Tx, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        result, _ = self._again(function, args, kwargs, keep=False)
        return result

    def _again(self, function: Callable[..., R], args: Any, kwargs: Any, *, keep: bool) -> tuple[R, Tx]:
        psycopg = self._psycopg
        for attempt in range(RETRIES):
            try:
                return self._once(function, args, kwargs, keep=keep)
            except (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected):
                if attempt == RETRIES - 1:
                    raise
                time.sleep(0.002 * 2**attempt * (1 + random.random()))
            except psycopg.errors.UniqueViolation as error:
                raise Duplicate(str(error)) from error
            except psycopg.errors.ForeignKeyViolation as error:
                raise StillHeld(str(error)) from error
            except psycopg.OperationalError as error:
                raise Unavailable("The database does not answer; the request was not carried out.") from error
        raise AssertionError("unreachable")

    def _once(self, function: Callable[..., R], args: Any, kwargs: Any, *, keep: bool) -> tuple[R, Tx]:
        with self.pool.connection() as connection:
            cursor = connection.cursor()

            def execute(sql: str, params: Mapping[str, Any]) -> Cursor:
                return cursor.execute(_percent(sql), params)  # type: ignore[no-any-return]

            if not keep:
                cursor.execute("set transaction isolation level repeatable read read only")
            tx = Tx(execute, self._told, self.dialect, self.chance, self.columns)
            tx.settle = self.settle if keep else None
            result = function(tx, *args, **kwargs)
            _finish(tx)
            if keep and tx.wakes:
                # Sent by the database with the commit, to the other processes; only a hint. It has little room.
                names = ",".join(sorted(tx.wakes))
                payload = f"{self.process}:{names if len(names) < 7900 else '*'}"
                cursor.execute("select pg_notify('cumulet', %s)", (payload,))
            if keep:
                try:
                    self._commit(connection)
                except Unavailable:
                    self.wake.notify(tx.wakes)  # it may have been carried out
                    raise
            self.statements += tx.statements
            self.commits += keep
            return result, tx

    def _told(self, error: Exception) -> Exception:
        """Told apart here already, so that the transaction itself can say what was refused."""
        if isinstance(error, self._psycopg.errors.UniqueViolation):
            return Duplicate(str(error))
        if isinstance(error, self._psycopg.errors.ForeignKeyViolation):
            return StillHeld(str(error))
        return error

    def _commit(self, connection: Any) -> None:
        errors = self._psycopg.errors
        try:
            connection.commit()
        except (errors.SerializationFailure, errors.DeadlockDetected):
            raise
        except self._psycopg.OperationalError as error:
            raise Unavailable(
                "The database went away before it answered: whether the request was carried out is not known. Look "
                "before you repeat it."
            ) from error

    def close(self) -> None:
        self._threads.shutdown()
        self.pool.close()


@lru_cache(maxsize=4096)
def _percent(sql: str) -> str:
    """``:name`` as psycopg wants it."""
    return _PARAMETER.sub(r"%(\1)s", sql.replace("%", "%%"))


def chunks(items: Iterable[R], size: int = 400) -> Iterator[tuple[R, ...]]:
    """Split into tuples that fit into one statement's list parameter."""
    batch: list[R] = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield tuple(batch)
            batch = []
    if batch:
        yield tuple(batch)
