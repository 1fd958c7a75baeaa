"""``cumulet up``: one process, from its settings to its last finished transaction."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import ipaddress
import os
import resource
import signal
import socket
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import structlog
import uvicorn
import uvloop

from cumulet import __version__, backup, clouds, datadir, logs
from cumulet.agent import build
from cumulet.api.asgi import Application
from cumulet.app import AREAS, SEEDS, application, local_agents, rules, running
from cumulet.chance import Chance, RealChance
from cumulet.config import Config
from cumulet.core import catalog
from cumulet.core.bootstrap import DOMAIN, fixed, seed_identity
from cumulet.datadir import Secrets
from cumulet.db import migrate
from cumulet.db.engine import Database, PostgresDatabase, SqliteDatabase, Tx
from cumulet.db.listen import Listener
from cumulet.drivers import qcow2
from cumulet.errors import Refused, Unavailable
from cumulet.exits import BAD_SETTINGS, DATABASE, PORT, SCHEMA
from cumulet.metrics import Requests
from cumulet.reconcile import agents, mode
from cumulet.wire.asgi import InProcess

log = structlog.get_logger()

#: Seconds that requests may take to end when the process is to end.
GRACE = 5.0
#: Seconds in which the agents of the process, and its image, should be ready; the cloud is served meanwhile.
READY_TIME = 30.0
#: The image of a new cloud: its name, and the size of its empty disk.
IMAGE = "tiny"
IMAGE_BYTES = 16 << 20


def up(
    config: Config,
    *,
    write_env: Path | None = None,
    merge: bool = False,
    report_only: bool = False,
    say: Callable[[str], None] = print,
) -> None:
    """Serve until SIGTERM or SIGINT. Raises Refused when it cannot start."""
    logs.configure(config.log)
    _check_address(config)
    rules(config)  # what cannot be followed is said before anything is opened
    _allow_files()
    for kind, _ in local_agents(config):
        build.check(kind, config)
    directory = config.directory
    chance = RealChance()
    with contextlib.ExitStack() as stack:
        stack.enter_context(datadir.opened(directory))
        listening = stack.enter_context(contextlib.closing(listen(config)))
        db = open_database(config, directory, chance)
        stack.callback(db.close)
        secrets = make_ready(db, config, directory, chance)
        if report_only:
            _now(db, mode.enter, "started so by the operator")
        stack.callback(datadir.withdraw, directory)
        # What is here now stays as long as the process.
        gc.freeze()
        gc.enable()
        process = _Process(config, directory, db, chance, secrets, listening)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(process.serve(write_env, merge, say))


def _allow_files() -> None:
    """Every connection, and every agent of the process, has a file open: take as many as the system lets us."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _check_address(config: Config) -> None:
    host = config.server.host
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(host).is_loopback:
            return
    if host != "localhost" and not config.server.insecure:
        raise Refused(
            f"{host} can be reached by others, and this is plain HTTP: passwords could be read on the way. Listen on "
            "127.0.0.1 behind a proxy that speaks TLS, or allow it with --insecure.",
            BAD_SETTINGS,
        )


def listen(config: Config) -> socket.socket:
    """A socket at the address of the settings, not yet listening. Raises Refused."""
    host, port = config.server.host, config.server.port
    try:
        family, kind, number, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(family, kind, number)
    except OSError as error:
        raise Refused(
            f"There is no address {host} to listen on: {error.strerror}. Choose another with --host.", PORT
        ) from error
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(1024)
    except OSError as error:
        made.close()
        raise Refused(
            f"{host}:{port} cannot be listened on: {error.strerror}. Stop who uses it, or choose another port with --port "
            "(0 takes a free one).",
            PORT,
        ) from error
    return made


def open_database(config: Config, directory: Path, chance: Chance) -> SqliteDatabase | PostgresDatabase:
    """The database of the settings, with this program's schema. Raises Refused, and has changed nothing then."""
    if config.database.url:
        if not config.database.url.startswith(("postgresql://", "postgres://")):
            raise Refused(
                "database.url must begin with postgresql://; leave it empty for SQLite in the data directory.",
                BAD_SETTINGS,
            )
        shared = PostgresDatabase(config.database.url, chance, connections=config.database.connections)
        with closed_on_error(shared), _alone(shared):
            migrate.prepare(shared)
        return shared
    path = directory / datadir.DATABASE
    with refuses_sqlite(path):
        with datadir.usable(path):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        migrate.refuse_others(path)
        db = SqliteDatabase(path, chance)
        with closed_on_error(db):
            migrate.prepare(db)
    return db


@contextlib.contextmanager
def closed_on_error(db: Database) -> Iterator[None]:
    try:
        yield
    except BaseException:
        db.close()
        raise


@contextlib.contextmanager
def refuses_sqlite(path: Path) -> Iterator[None]:
    """Turns what SQLite says while the process starts into Refused."""
    try:
        yield
    except Unavailable as error:
        name = getattr(error.__cause__, "sqlite_errorname", "")
        _refuse(path, name, error)
    except sqlite3.Error as error:
        _refuse(path, getattr(error, "sqlite_errorname", ""), error)


def _refuse(path: Path, name: str, error: Exception) -> None:
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        raise Refused(
            f"The database {path} is locked by another program. Close that program (fuser {path} names it) and start again.",
            DATABASE,
        ) from error
    if name.startswith(("SQLITE_FULL", "SQLITE_IOERR")):
        raise Refused(
            f"The database {path} cannot be written: the disk is full or failing. Make room and start again; nothing was lost.",
            6,
        ) from error
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
        raise Refused(
            f"The database {path} cannot be opened for writing: {error}. Check its owner and mode.", 6
        ) from error
    if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
        raise Refused(
            f"{path} is not a database, or damaged: {error}. Move it away, or restore a backup with 'cumulet restore'.",
            SCHEMA,
        ) from error
    raise Refused(f"The database {path} failed: {error}.", DATABASE) from error


@contextlib.contextmanager
def _alone(db: PostgresDatabase) -> Iterator[None]:
    """Keeps other processes that start at the same moment from preparing the same database."""
    import psycopg

    with psycopg.connect(db.url, autocommit=True) as connection:
        connection.execute("select pg_advisory_lock(hashtext('cumulet prepare'))")
        yield


def make_ready(
    db: SqliteDatabase | PostgresDatabase, config: Config, directory: Path, chance: Chance
) -> Secrets | None:
    """Seed a new cloud; return the first users' passwords, None if this directory does not know them."""
    secrets = datadir.secrets(directory)
    alone = _alone(db) if isinstance(db, PostgresDatabase) else contextlib.nullcontext()
    with alone, refuses_sqlite(directory / datadir.DATABASE):
        new = _now(db, _is_new)
        given = (config.auth.admin_password, config.auth.demo_password)
        # Several processes over one database know the passwords only if all are told them.
        if secrets is None and (new or all(given)):
            secrets = datadir.draw_secrets(directory, chance, *given)
        _now(db, seed, config, secrets or Secrets("", ""))
    return secrets


def _now(db: Database, function: Any, *args: Any) -> Any:
    assert isinstance(db, SqliteDatabase | PostgresDatabase)
    return db.write_now(function, *args)


def _is_new(tx: Tx) -> bool:
    return tx.one("select 1 from projects where id = :id", id=DOMAIN) is None


def seed(tx: Tx, config: Config, secrets: Secrets) -> None:
    """What every new cloud has. It can be run at each start."""
    seed_identity(
        tx, admin_password=secrets.admin_password, demo_password=secrets.demo_password, region=config.auth.region,
        memory_kib=config.auth.hash_memory_kib, passes=config.auth.hash_passes,
    )  # fmt: skip
    for more in SEEDS:
        more(tx)


class _Server(uvicorn.Server):
    """uvicorn's server, which ends the polls when the process is to end, and says when it listens."""

    def __init__(self, config: uvicorn.Config, app: Application) -> None:
        super().__init__(config)
        self.app = app
        self.listens = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listens.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.app.cloud.closing = True
        self.app.cloud.db.wake.notify_all()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """An end by signal is an ordinary end: exit code 0."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        yield


class _Process:
    """What belongs together while the process runs."""

    def __init__(
        self,
        config: Config,
        directory: Path,
        db: SqliteDatabase | PostgresDatabase,
        chance: Chance,
        secrets: Secrets | None,
        listening: socket.socket,
    ) -> None:
        self.config = config
        self.directory = directory
        self.db = db
        self.chance = chance
        self.secrets = secrets
        self.socket = listening
        self.url = address(listening)
        self.app = application(
            db, config, chance, metrics=Requests(), address=config.server.address or self.url
        )
        if isinstance(db, SqliteDatabase):
            self.app.cloud.backup = functools.partial(backup.write, directory)

    async def serve(self, write_env: Path | None, merge: bool, say: Callable[[str], None]) -> None:
        served = self.app if "api" in self.config.roles else Application(self.app.cloud, AREAS[:1])
        server = _Server(self._uvicorn(served), self.app)
        listener = Listener(self.db) if isinstance(self.db, PostgresDatabase) else None
        if listener is not None:
            listener.start()
        try:
            async with running(self.db, self.app, self.config, self.chance, self.directory):
                serving = asyncio.create_task(server.serve([self.socket]))
                telling = asyncio.create_task(self._tell(server, write_env, merge, say))
                await asyncio.wait({serving, telling}, return_when=asyncio.FIRST_COMPLETED)
                if telling.done() and telling.exception() is not None:
                    server.should_exit = True
                await serving
                telling.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await telling
        finally:
            if listener is not None:
                listener.stop()

    def _uvicorn(self, app: Application) -> uvicorn.Config:
        return uvicorn.Config(
            app, http="httptools", ws="none", lifespan="off", interface="asgi3", access_log=False, log_config=None,
            limit_concurrency=self.config.server.connections, timeout_graceful_shutdown=int(GRACE), proxy_headers=False,
            server_header=False, backlog=1024, timeout_keep_alive=75,
        )  # fmt: skip

    async def _tell(
        self, server: _Server, write_env: Path | None, merge: bool, say: Callable[[str], None]
    ) -> None:
        """Once the cloud answers, tell where it is and how it is used."""
        await server.listens.wait()
        if "agent" in self.config.roles:
            await self._agents_ready()
        if self.secrets is not None and "agent" in self.config.roles and "api" in self.config.roles:
            await self._first_image()
        datadir.announce(self.directory, datadir.Process(os.getpid(), self.url, __version__, time.time()))
        entries = clouds.clouds(self.url, self.config.auth.region, self.secrets) if self.secrets else {}
        if entries:
            clouds.write(self.directory / datadir.CLOUDS, entries)
        if write_env is not None:
            self._write_env(write_env)
        say(f"Cumulet {__version__} serves at {self.url}")
        for service in catalog.SERVED:
            if service.type != "volumev3":
                say(f"  {service.type:<14} {self.url}{service.path}")
        say(f"  data           {self.directory}{', PostgreSQL' if self.config.database.url else ''}")
        if entries:
            say(
                f"Use it: OS_CLIENT_CONFIG_FILE={self.directory / datadir.CLOUDS} OS_CLOUD=cumulet openstack server list"
            )
            say("        (cumulet-demo is the user without rights of an administrator)")
        if merge and entries:
            path = clouds.user_file()
            backup = clouds.merge(path, entries)
            say(f"Added cumulet and cumulet-demo to {path}{f'; it was {backup}' if backup else ''}.")
        option = self.config.option
        if await self.db.read(mode.report_only) is not None:
            say(
                f"REPORT-ONLY: nothing is made or removed until you have seen 'cumulet audit{option}' and run "
                f"'cumulet audit{option} --accept'."
            )
        say(f"Stop it with Ctrl-C or 'cumulet down{option}'.")
        sys.stdout.flush()

    def _write_env(self, path: Path) -> None:
        if self.secrets is None:
            raise Refused(
                f"{path} was not written: the passwords are in the data directory of the process that made the cloud.",
                BAD_SETTINGS,
            )
        variables = clouds.variables(self.url, self.config.auth.region, "admin", self.secrets.admin_password)
        datadir.write_private(path, clouds.exports(variables))

    async def _agents_ready(self) -> None:
        """Until every agent of the process has said hello."""
        names = tuple(name for _, name in local_agents(self.config))
        with contextlib.suppress(TimeoutError), self.db.wake.listen(agents.HELLO) as waiter:
            async with asyncio.timeout(READY_TIME):
                while await self.db.read(_new_agents, names):
                    await waiter.wait(READY_TIME)

    async def _first_image(self) -> None:
        """A new cloud has an image; it comes in as any upload does. What was deleted stays deleted."""
        if await self.db.read(_seeded_image) or await self.db.read(mode.report_only) is not None:
            return
        assert self.secrets is not None
        transport = InProcess(self.app)
        try:
            async with httpx2.AsyncClient(transport=transport, base_url=self.url, timeout=READY_TIME) as http:
                await upload_image(http, self.secrets.admin_password)
        except (httpx2.HTTPError, KeyError) as error:
            # The cloud is of use without it; the next start tries again.
            log.warning("the first image could not be made", error=str(error))
            return
        await self.db.write(_note_image)


def address(listening: socket.socket) -> str:
    """The URL of a socket."""
    host, port = listening.getsockname()[:2]
    if ipaddress.ip_address(host).is_unspecified:
        host = socket.gethostname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _new_agents(tx: Tx, names: tuple[str, ...]) -> bool:
    found = tx.values("select name from agents where session is null")
    return not set(names).isdisjoint(found)


_IMAGE_ROW = "image seeded"


def _seeded_image(tx: Tx) -> bool:
    return tx.one("select 1 from settings where id = :id", id=_IMAGE_ROW) is not None


def _note_image(tx: Tx) -> None:
    tx.insert_new("settings", id=_IMAGE_ROW, value={"at": tx.now})


async def upload_image(http: httpx2.AsyncClient, password: str) -> None:
    """The image of a new cloud: a small empty disk that everybody sees. Raises httpx2.HTTPError."""
    user = {"name": "admin", "domain": {"id": DOMAIN}, "password": password}
    identity = {"methods": ["password"], "password": {"user": user}}
    scope = {"project": {"id": fixed("project", "admin")}}
    login = await http.post(
        "/identity/v3/auth/tokens?nocatalog", json={"auth": {"identity": identity, "scope": scope}}
    )
    login.raise_for_status()
    headers = {"X-Auth-Token": login.headers["x-subject-token"]}
    found = await http.get(f"/image/v2/images?name={IMAGE}&visibility=public", headers=headers)
    found.raise_for_status()
    images = found.json()["images"]
    if not images:
        body = {
            "name": IMAGE, "visibility": "public", "disk_format": "qcow2", "container_format": "bare", "min_disk": 0,
            "min_ram": 0,
        }  # fmt: skip
        made = await http.post("/image/v2/images", headers=headers, json=body)
        made.raise_for_status()
        images = [made.json()]
    if images[0]["status"] == "queued":
        sent = await http.put(
            f"/image/v2/images/{images[0]['id']}/file",
            headers={**headers, "Content-Type": "application/octet-stream"},
            content=qcow2.empty(IMAGE_BYTES),
        )
        sent.raise_for_status()
