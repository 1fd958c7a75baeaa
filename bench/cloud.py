"""A cloud to measure: a process of its own, and a client that costs little."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


class Client:
    """One connection, kept open, with a token."""

    def __init__(self, url: str, token: str = "") -> None:
        self.where = urlsplit(url)
        self.token = token
        self._connection = self._connect()

    def _connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.where.hostname or "", self.where.port, timeout=60)

    def call(
        self, method: str, path: str, body: Any = None, version: str = "compute 2.96"
    ) -> tuple[int, bytes]:
        """(status, body) of one request."""
        headers = {
            "X-Auth-Token": self.token,
            "OpenStack-API-Version": version,
            "Content-Type": "application/json",
        }
        self._connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        answer = self._connection.getresponse()
        return answer.status, answer.read()

    def get(self, path: str, **more: Any) -> Any:
        status, body = self.call("GET", path, **more)
        if status != 200:
            raise RuntimeError(f"GET {path}: {status} {body.decode()[:500]}")
        return json.loads(body)

    def login(self, user: str, password: str) -> str:
        """A token for the project of the user's name."""
        who = {"name": user, "domain": {"id": "default"}, "password": password}
        auth = {
            "identity": {"methods": ["password"], "password": {"user": who}},
            "scope": {"project": {"name": user, "domain": {"id": "default"}}},
        }
        self._connection.request("POST", "/identity/v3/auth/tokens", json.dumps({"auth": auth}))
        answer = self._connection.getresponse()
        answer.read()
        if answer.status != 201:
            raise RuntimeError(f"the login was answered with {answer.status}")
        return answer.headers["X-Subject-Token"]


class Cloud:
    """A running ``cumulet up``."""

    def __init__(self, process: subprocess.Popen[bytes], url: str, password: str, started: float) -> None:
        self.process = process
        self.url = url
        self.password = password
        #: Seconds from the start of the process to the first token.
        self.started = started

    def client(self, user: str = "admin") -> Client:
        client = Client(self.url)
        client.token = client.login(user, self.password)
        return client

    def rss_mb(self) -> float:
        """Memory of the process that counts, MiB."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
        return 0.0

    def cpu(self) -> float:
        """Seconds of CPU that the process has spent."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def running(*options: str, data: Path | None = None) -> Iterator[Cloud]:
    """A cloud while the block runs, in a directory of its own or in ``data``."""
    with contextlib.ExitStack() as stack:
        directory = data or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cumulet-bench-")))
        env = directory / "env"
        env.unlink(missing_ok=True)
        begun = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-m", "cumulet", "up", "--data", str(directory / "data"), "--port", "0",
             "--write-env", str(env), *options],
            stdout=subprocess.DEVNULL, stderr=(directory / "log").open("ab"),
        )  # fmt: skip
        try:
            while not env.exists() or "OS_AUTH_URL" not in env.read_text():
                if process.poll() is not None:
                    raise RuntimeError((directory / "log").read_text())
                time.sleep(0.005)
            values = dict(
                line.removeprefix("export ").split("=", 1)
                for line in env.read_text().splitlines()
                if "=" in line
            )
            url = values["OS_AUTH_URL"].strip("'\"").removesuffix("/v3").removesuffix("/identity")
            password = values["OS_PASSWORD"].strip("'\"")
            Client(url).login("admin", password)
            yield Cloud(process, url, password, time.perf_counter() - begun)
        finally:
            process.terminate()
            process.wait(60)
