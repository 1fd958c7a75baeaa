"""Clouds and hosts as real processes: started, asked, killed."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx2

from cumulet.chance import RealChance
from cumulet.db.engine import PostgresDatabase, SqliteDatabase
from tests.leftovers import Look, difference, look

#: Seconds in which what a test waits for must come true.
PATIENCE = 90.0
ROOT = Path(__file__).parents[2]
#: Hashing as cheap as it can be.
CHEAP = {"CUMULET_AUTH_HASH_MEMORY_KIB": "8", "CUMULET_AUTH_HASH_PASSES": "1"}


def environment(**more: str) -> dict[str, str]:
    """What a program is started with: nothing of the user's own settings."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("CUMULET_", "OS_", "XDG_"))}
    path = f"{ROOT / 'src'}{os.pathsep}{ROOT}"
    return {**kept, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", **CHEAP, **more}


def run(
    *words: str | Path, env: Mapping[str, str] | None = None, **more: Any
) -> subprocess.CompletedProcess[str]:
    """One command that ends by itself."""
    return subprocess.run(
        [sys.executable, "-m", "cumulet", *map(str, words)],
        env=environment(**(env or {})), text=True, capture_output=True, timeout=PATIENCE, **more,
    )  # fmt: skip


class Program:
    """A command that runs until it is ended; its output is kept."""

    def __init__(
        self, *words: str | Path, env: Mapping[str, str] | None = None, dies: str = "", **more: Any
    ) -> None:
        """``dies``: a point of the code at which it kills itself after ``arm``; see tests/process/dying.py."""
        program = ["tests.process.dying", dies] if dies else ["cumulet"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", *program, *map(str, words)],
            env=environment(**(env or {})), text=True, stdout=subprocess.PIPE,
            **{"stderr": subprocess.STDOUT, **more},
        )  # fmt: skip
        self.lines: list[str] = []
        self._news = threading.Condition()
        self._ended = False
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._news:
                self.lines.append(line)
                self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()

    def await_line(self, word: str) -> str:
        """The first line that has the word in it, as soon as it is printed."""
        with self._news:
            found = self._news.wait_for(
                lambda: next((line for line in self.lines if word in line), None) or self._ended, PATIENCE
            )
        if not isinstance(found, str):
            raise AssertionError(f"no line with {word!r} came:\n{self.output}")
        return found

    @property
    def output(self) -> str:
        return "".join(self.lines)

    def kill(self) -> None:
        """As a crash of the machine would."""
        self.process.kill()
        self.process.wait(PATIENCE)

    def arm(self) -> None:
        """From now on it dies at its point."""
        self.process.send_signal(signal.SIGUSR1)

    def died(self) -> None:
        """Wait until it has killed itself."""
        assert self.process.wait(PATIENCE) == -signal.SIGKILL, self.output

    def stop(self) -> int:
        """End it as a user does; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(PATIENCE)
        with self._news:
            self._news.wait_for(lambda: self._ended, PATIENCE)
        return code

    def close(self) -> None:
        if self.process.poll() is None:
            self.kill()
        with self._news:
            self._news.wait_for(lambda: self._ended, PATIENCE)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def limit_files(self, size: int | None) -> None:
        """No file can grow beyond ``size``, as on a full disk; None lifts that."""
        _, hard = resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(
            self.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY if size is None else size, hard)
        )


class Cloud(Program):
    """``cumulet up`` on a free port."""

    def __init__(
        self, directory: Path, *words: str | Path, env: Mapping[str, str] | None = None, **more: Any
    ) -> None:
        self.directory = directory
        self.env_file = directory.parent / f"{directory.name}.env"
        super().__init__(
            "up", "--data", directory, "--port", "0", "--write-env", self.env_file, *words, env=env, **more
        )
        self._token = ""
        self.http = httpx2.Client(timeout=PATIENCE, trust_env=False)

    def close(self) -> None:
        self.http.close()
        super().close()

    def ready(self) -> Cloud:
        self.await_line("Stop it with")
        self.url = self.await_line("serves at").split()[-1]
        self.http.base_url = self.url
        return self

    @property
    def variables(self) -> dict[str, str]:
        lines = [line.removeprefix("export ") for line in self.env_file.read_text().splitlines()]
        return dict(line.split("=", 1) for line in lines)

    def login(self, user: str = "admin", password: str = "") -> httpx2.Response:
        given = password or self.variables["OS_PASSWORD"]
        who = {"name": user, "domain": {"id": "default"}, "password": given}
        auth = {
            "identity": {"methods": ["password"], "password": {"user": who}},
            "scope": {"project": {"name": user, "domain": {"id": "default"}}},
        }
        return self.http.post("/identity/v3/auth/tokens", json={"auth": auth})

    def request(self, method: str, path: str, **more: Any) -> httpx2.Response:
        """As the administrator."""
        if not self._token:
            self._token = self.login().headers["x-subject-token"]
        headers = {"X-Auth-Token": self._token, "OpenStack-API-Version": "compute 2.96"}
        return self.http.request(method, path, headers=headers, **more)

    def get(self, path: str) -> Any:
        response = self.request("GET", path)
        assert response.status_code == 200, response.text
        return response.json()

    def post(self, path: str, body: Any) -> Any:
        response = self.request("POST", path, json=body)
        assert response.status_code in (200, 201, 202), response.text
        return response.json() if response.content else None

    def boot(self, name: str, **more: Any) -> str:
        """A server without networks, from the cloud's own image, and its id; not yet active."""
        image = self.get("/image/v2/images?name=tiny")["images"][0]["id"]
        flavor = min(self.get("/compute/v2.1/flavors/detail")["flavors"], key=lambda f: f["ram"])["id"]
        server = {"name": name, "imageRef": image, "flavorRef": flavor, "networks": "none", **more}
        return str(self.post("/compute/v2.1/servers", {"server": server})["server"]["id"])

    def server(self, id: str) -> dict[str, Any] | None:
        response = self.request("GET", f"/compute/v2.1/servers/{id}")
        return None if response.status_code == 404 else response.json()["server"]

    def await_server(self, id: str, status: str | None) -> dict[str, Any] | None:
        """The server in that status; None: until there is none."""

        def there() -> Any:
            server = self.server(id)
            return (
                (server is None)
                if status is None
                else server is not None and server["status"] == status and (server,)
            )

        found = until(there)
        return found[0] if isinstance(found, tuple) else None


def ledger(directory: Path, database: str = "") -> Look:
    """All that there is: the rows of the database, and the files of the agents below the data directory."""
    with contextlib.closing(_opened(directory, database)) as db:
        return look(db, directory)


def _opened(directory: Path, database: str) -> SqliteDatabase | PostgresDatabase:
    if database:
        return PostgresDatabase(database, RealChance(), connections=2)
    return SqliteDatabase(directory / "cumulet.db", RealChance())


def at_rest(directory: Path, database: str = "") -> bool:
    """Nobody has anything to do: everything that the cloud began with is there, too."""
    moves = (
        "select 1 from holders where due <= :now union all select 1 from claims "
        "where not wanted or seen <> 'present' or acted < revision"
    )
    with contextlib.closing(_opened(directory, database)) as db:
        return db.read_now(lambda tx: tx.one(moves, now=tx.now)) is None


def await_clean(before: Look, directory: Path, database: str = "") -> None:
    """Return once the ledger is as before. Fails after PATIENCE, naming what came or went."""
    end = time.monotonic() + PATIENCE
    while found := difference(before, ledger(directory, database)):
        assert time.monotonic() < end, found
        time.sleep(0.02)


def until(condition: Callable[[], Any]) -> Any:
    """What ``condition`` gives once that is true; it is asked again and again. Fails after PATIENCE."""
    end = time.monotonic() + PATIENCE
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.01)


@contextlib.contextmanager
def cloud(directory: Path, *words: str | Path, **more: Any) -> Iterator[Cloud]:
    """A cloud that serves while the block runs."""
    with started(Cloud(directory, *words, **more)) as made:
        yield made.ready()


@contextlib.contextmanager
def started(program: Any) -> Iterator[Any]:
    """A program that is ended with the block, whatever happens in it."""
    try:
        yield program
    finally:
        program.close()
