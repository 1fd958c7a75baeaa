"""Starts a throw-away PostgreSQL: ``python -m tests.postgres COMMAND…`` runs a command beside one."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path


def binaries() -> Path:
    """Where initdb and postgres are. Raises RuntimeError that says what to install."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    if on_path:
        return Path(on_path).parent
    raise RuntimeError("PostgreSQL's server is not installed: apt-get install postgresql")


@contextlib.contextmanager
def cluster() -> Iterator[str]:
    """A running cluster on a Unix socket; yields "postgresql://…" without the name of a database."""
    bin_ = binaries()
    directory = Path(tempfile.mkdtemp(prefix="cumulet-pg-"))
    as_user: dict[str, object] = {}
    if os.geteuid() == 0:
        # PostgreSQL refuses to run as root; Debian's package made the user.
        user = pwd.getpwnam("postgres")
        os.chown(directory, user.pw_uid, user.pw_gid)
        as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    data = directory / "data"
    subprocess.run(
        [bin_ / "initdb", "-D", data, "-U", "cumulet", "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C"],
        check=True, capture_output=True, cwd=directory, **as_user,
    )  # fmt: skip
    options = {
        "listen_addresses": "", "unix_socket_directories": str(directory), "fsync": "off",
        "synchronous_commit": "off", "full_page_writes": "off", "max_connections": "200",
        "deadlock_timeout": "200ms",
    }  # fmt: skip
    words = [word for key, value in options.items() for word in ("-c", f"{key}={value}")]
    with (directory / "log").open("wb") as log:
        server = subprocess.Popen(
            [bin_ / "postgres", "-D", data, *words],
            stdout=subprocess.DEVNULL, stderr=log, cwd=directory, **as_user,
        )  # fmt: skip
    try:
        _wait(directory, server)
        yield f"postgresql://cumulet@%2F{str(directory).strip('/').replace('/', '%2F')}"
    finally:
        # Fast: it does not wait for clients, who may be left over from what failed.
        server.send_signal(signal.SIGINT)
        server.wait(30)
        shutil.rmtree(directory, ignore_errors=True)


def _wait(directory: Path, server: subprocess.Popen[bytes]) -> None:
    import psycopg

    until = time.monotonic() + 60
    while True:
        try:
            psycopg.connect(f"host={directory} user=cumulet dbname=postgres").close()
            return
        except psycopg.OperationalError:
            if server.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"PostgreSQL does not start: {(directory / 'log').read_text()}") from None
            time.sleep(0.02)


if __name__ == "__main__":
    with cluster() as url:
        sys.exit(subprocess.run(sys.argv[1:], env={**os.environ, "CUMULET_TEST_POSTGRES": url}).returncode)
