"""Commands that speak to a cloud that runs, as its administrator, over its HTTP API."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2

from cumulet import clouds, datadir
from cumulet.config import Config
from cumulet.core.bootstrap import DOMAIN
from cumulet.errors import Refused
from cumulet.exits import FAILED, NOT_RUNNING, REFUSED

#: Seconds that ``down`` waits for the process to end by itself.
DOWN_TIME = 30.0


class Remote:
    """A session of the user admin."""

    def __init__(self, http: httpx2.Client, url: str) -> None:
        self._http = http
        self.url = url

    def call(self, method: str, path: str, **more: Any) -> Any:
        """One request below /cumulet/v1; the body of the answer. Raises Refused with the answer's reason."""
        response = self._send(method, path, **more)
        return response.json() if response.content else None

    def all(self, name: str) -> list[Any]:
        """Every page of a list."""
        found: list[Any] = []
        while True:
            marker = f"?marker={found[-1]['id']}" if found else ""
            page = self.call("GET", f"/{name}{marker}")[name]
            found += page
            if len(page) < 1000 or "id" not in page[-1]:
                return found

    def download(self, path: str, file: Path) -> None:
        """The body of an answer as a file, mode 0600: all of it or nothing. Raises Refused."""
        file = datadir.target(file)
        draft = file.with_name(f".{file.name}.{os.getpid()}")
        try:
            with (
                datadir.usable(file, instead="another file"),
                self._http.stream("GET", f"/cumulet/v1{path}") as response,
            ):
                if response.status_code >= 400:
                    response.read()
                    raise Refused(_reason(response), FAILED)
                fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
                with os.fdopen(fd, "wb") as out:
                    for piece in response.iter_bytes():
                        out.write(piece)
                    out.flush()
                    os.fsync(out.fileno())
                os.replace(draft, file)
        except httpx2.HTTPError as error:
            raise Refused(f"The cloud at {self.url} broke off: {error}.", NOT_RUNNING) from error
        finally:
            with contextlib.suppress(OSError):  # where it cannot be removed it could not be made either
                draft.unlink()

    def _send(self, method: str, path: str, **more: Any) -> httpx2.Response:
        try:
            response = self._http.request(method, f"/cumulet/v1{path}", **more)
        except httpx2.HTTPError as error:
            raise Refused(f"The cloud at {self.url} does not answer: {error}.", NOT_RUNNING) from error
        if response.status_code >= 400:
            raise Refused(_reason(response), REFUSED if response.status_code in (401, 403, 409) else FAILED)
        return response


def _reason(response: httpx2.Response) -> str:
    try:
        return str(response.json()["errors"][0]["detail"])
    except (ValueError, KeyError, IndexError, TypeError):
        return f"The cloud answered {response.status_code}."


def connect(config: Config, environment: Mapping[str, str] = os.environ) -> Remote:
    """A session as administrator with the cloud of the data directory, or else with that of the OS_* variables.

    Who can read the secrets of a data directory is its operator, whatever user the shell's variables name. Who names a
    data directory means no other cloud. Raises Refused.
    """
    named = environment.get("OS_PASSWORD") and environment.get("OS_AUTH_URL") and not config.data
    given = environment if named else None
    secrets = datadir.secrets(config.directory) if datadir.is_used(config.directory) else None
    refusal: Refused | None = None
    if secrets is not None:
        url = datadir.running(config.directory).url
        try:
            return _login(url, "admin", secrets.admin_password, "admin")
        except Refused as error:
            if given is None:
                raise
            refusal = error
    if given is not None:
        url = given["OS_AUTH_URL"].split("/identity")[0].rstrip("/")
        user = given.get("OS_USERNAME", "admin")
        return _login(url, user, given["OS_PASSWORD"], given.get("OS_PROJECT_NAME") or user)
    datadir.running(config.directory)
    raise refusal or Refused(
        f"The administrator's password is not in {config.directory}. Set OS_AUTH_URL, OS_USERNAME and OS_PASSWORD.",
        NOT_RUNNING,
    )


def _login(url: str, user: str, password: str, project: str) -> Remote:
    # No proxies of the environment: the cloud is on this machine, or named on purpose.
    http = httpx2.Client(base_url=url, timeout=60.0, trust_env=False)
    who = {"name": user, "domain": {"id": DOMAIN}, "password": password}
    auth = {
        "identity": {"methods": ["password"], "password": {"user": who}},
        "scope": {"project": {"name": project, "domain": {"id": DOMAIN}}},
    }
    try:
        login = http.post("/identity/v3/auth/tokens?nocatalog", json={"auth": auth})
    except httpx2.HTTPError as error:
        raise Refused(
            f"The cloud at {url} does not answer: {error}. Start it with 'cumulet up', or name another one with --data "
            "or OS_AUTH_URL.",
            NOT_RUNNING,
        ) from error
    if login.status_code != 201:
        raise Refused(
            f"The cloud at {url} did not let {user} in ({login.status_code}). If its password was changed, set OS_AUTH_URL, "
            "OS_USERNAME and OS_PASSWORD.",
            REFUSED,
        )
    http.headers["X-Auth-Token"] = login.headers["x-subject-token"]
    return Remote(http, url)


def down(directory: Path, *, seconds: float = DOWN_TIME) -> int:
    """Ask the cloud of a data directory to end, and wait until it has; return its pid. Raises Refused."""
    found = datadir.running(directory)
    try:
        process = os.pidfd_open(found.pid)
    except ProcessLookupError:
        raise Refused(
            f"Process {found.pid} of {directory} is gone, but its directory is in use.", FAILED
        ) from None
    try:
        # The lock says that the directory is in use, the descriptor that the number is not somebody else's since.
        if not datadir.is_used(directory) or datadir.process(directory) != found:
            return found.pid
        signal.pidfd_send_signal(process, signal.SIGTERM)
    except PermissionError:
        raise Refused(f"Process {found.pid} belongs to another user.", FAILED) from None
    finally:
        os.close(process)
    until = time.monotonic() + seconds
    while datadir.is_used(directory):
        if time.monotonic() > until:
            raise Refused(
                f"Process {found.pid} has not ended within {seconds:.0f} seconds. See its log.", FAILED
            )
        time.sleep(0.02)
    return found.pid


def status(config: Config) -> dict[str, Any]:
    """What runs over the data directory, and how it is. Raises Refused when nothing does."""
    found = datadir.running(config.directory)
    answer: dict[str, Any] = {
        "url": found.url, "pid": found.pid, "version": found.version, "started_at": found.started_at,
        "data": str(config.directory),
    }  # fmt: skip
    try:
        health = httpx2.get(f"{found.url}/healthz", timeout=10.0, trust_env=False).json()
    except (httpx2.HTTPError, ValueError) as error:
        raise Refused(
            f"Process {found.pid} runs, but {found.url} does not answer: {error}.", NOT_RUNNING
        ) from error
    answer["health"] = health
    if datadir.secrets(config.directory) is not None:
        answer["counts"] = connect(config, {}).call("GET", "/summary")["summary"]
    return answer


def environment(config: Config, user: str) -> dict[str, str]:
    """The OS_* variables of one of the first users. Raises Refused."""
    secrets = datadir.secrets(config.directory)
    found = datadir.process(config.directory)
    if secrets is None or found is None:
        raise Refused(f"No cloud runs over {config.directory}. Start it with 'cumulet up'.", NOT_RUNNING)
    return clouds.variables(found.url, config.auth.region, user, clouds.password(secrets, user))


def audit(remote: Remote, *, fix: bool = False) -> dict[str, Any]:
    """All that is not as it should be, and whether the cloud waits for somebody to look at it.

    ``fix``: after what is proven was put right.
    """
    found: dict[str, Any] = remote.call("POST" if fix else "GET", "/audit")
    return found
