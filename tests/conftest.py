"""What all tests share: both databases, always. PostgreSQL that cannot be started is a failure, not a skip."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from cumulet.chance import RealChance
from cumulet.db.engine import Database, PostgresDatabase, SqliteDatabase
from cumulet.db.migrate import prepare

#: A cluster that somebody started already (tests/postgres.py), as a libpq URL without a database.
POSTGRES = "CUMULET_TEST_POSTGRES"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--no-skips", action="store_true", help="A test that is skipped is a failure.")


class Failures:
    """Names what fails as soon as it does: a run that is ended early, or by its time limit, has told that much."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._terminal.write_line(f"\nFAILED {report.nodeid} ({report.when}, {report.duration:.1f} s)")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None:
        config.pluginmanager.register(Failures(terminal), "failures at once")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter is not None else []
    if session.config.getoption("--no-skips") and skipped and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How much was tried, summed over all tests that count it."""
    counts: Counter[str] = Counter()
    for report in terminalreporter.getreports("passed"):
        if report.when == "call":
            counts.update({name: value for name, value in report.user_properties if isinstance(value, int)})
    for name, count in counts.items():
        terminalreporter.write_line(f"{count:9,} {name}")


@pytest.fixture(scope="session", autouse=True)
def _quiet() -> None:
    """Nothing below a warning is drawn: there are thousands of steps. Traces are plain: pictures take a second."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
    )


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def postgres_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A running PostgreSQL of our own, without durability."""
    from tests.postgres import cluster

    given = os.environ.get(POSTGRES)
    if given:
        yield given
        return
    with cluster() as url:
        yield url


@pytest.fixture(scope="session")
def postgres_template(postgres_cluster: str) -> str:
    """A database with our schema, to be copied."""
    import psycopg

    name = f"template_{os.getpid()}"
    with psycopg.connect(postgres_cluster + "/postgres", autocommit=True) as connection:
        connection.execute(f"create database {name}")
    db = PostgresDatabase(f"{postgres_cluster}/{name}", RealChance(), connections=2)
    prepare(db)
    db.close()
    return name


@contextlib.contextmanager
def copied(cluster: str, template: str) -> Iterator[str]:
    """A fresh database with our schema, while the block runs."""
    import psycopg

    name = f"test_{os.getpid()}_{os.urandom(4).hex()}"
    with psycopg.connect(cluster + "/postgres", autocommit=True) as connection:
        connection.execute(f"create database {name} template {template}")
        yield f"{cluster}/{name}"
        connection.execute(f"drop database {name} with (force)")


@pytest.fixture
def postgres_url(postgres_cluster: str, postgres_template: str) -> Iterator[str]:
    """A fresh database with our schema."""
    with copied(postgres_cluster, postgres_template) as url:
        yield url


class Spares:
    """Databases with our schema that are lent, one after the other, to the tests of this process.

    To make and drop one costs several times what most tests do; to empty it costs little. After some uses it is
    dropped all the same, for rows that were deleted take room.
    """

    USES = 50

    def __init__(self, cluster: str, template: str) -> None:
        self._cluster, self._template = cluster, template
        self._spare: list[tuple[str, int]] = []
        self._all = contextlib.ExitStack()

    @contextlib.contextmanager
    def lent(self) -> Iterator[str]:
        """An empty database with our schema, while the block runs."""
        if self._spare:
            url, uses = self._spare.pop()
        else:
            url, uses = self._all.enter_context(copied(self._cluster, self._template)), 0
        yield url
        if uses < self.USES:
            emptied(url)
            self._spare.append((url, uses + 1))

    def close(self) -> None:
        self._all.close()


def emptied(url: str) -> None:
    """Delete every row of a database; who is still connected is thrown out first."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "select pg_terminate_backend(pid, 10000) from pg_stat_activity "
            "where datname = current_database() and pid <> pg_backend_pid()"
        )
        tables = [
            name
            for (name,) in connection.execute(
                "select tablename from pg_tables where schemaname = 'public' and tablename <> 'alembic_version'"
            )
        ]
        probes = " union all ".join(f"(select '{name}' from {name} limit 1)" for name in tables)
        full = [name for (name,) in connection.execute(probes)]  # type: ignore[arg-type]
        # Without foreign keys and their order.
        deletes = ["set session_replication_role = replica", *(f"delete from {name}" for name in full)]
        connection.execute("; ".join(deletes))  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def postgres_spares(postgres_cluster: str, postgres_template: str) -> Iterator[Spares]:
    spares = Spares(postgres_cluster, postgres_template)
    yield spares
    spares.close()


ENGINES = ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)]


@contextlib.contextmanager
def opened(request: pytest.FixtureRequest) -> Iterator[Database]:
    """An empty database with our schema, on the engine that the fixture's parameter names."""
    with contextlib.ExitStack() as stack:
        made: SqliteDatabase | PostgresDatabase
        if request.param == "sqlite":
            made = SqliteDatabase(None, RealChance())
        else:
            url = stack.enter_context(request.getfixturevalue("postgres_spares").lent())
            made = PostgresDatabase(url, RealChance(), connections=4)
        stack.callback(made.close)
        prepare(made)
        yield made


@pytest.fixture(params=ENGINES)
def db(request: pytest.FixtureRequest) -> Iterator[Database]:
    """An empty database with our schema, once on each engine."""
    with opened(request) as made:
        yield made


@pytest.fixture(scope="module", params=ENGINES)
def shared_db(request: pytest.FixtureRequest) -> Iterator[Database]:
    """The same for tests that look at one and the same run."""
    with opened(request) as made:
        yield made


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory with a short name: Unix sockets have little room."""
    path = Path(tempfile.mkdtemp(prefix="c-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


def run(*words: str, **kwargs: object) -> subprocess.CompletedProcess[str]:
    """A program that must end with 0."""
    return subprocess.run(words, check=True, text=True, capture_output=True, **kwargs)  # type: ignore[call-overload, no-any-return]
