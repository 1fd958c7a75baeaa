"""Runs the project's conformance kit against a cloud of its own: ``python -m tests.conformance [LIST…] [-p full] …``.

Whatever is said on the command line goes to the kit's ``run-tempest``, and so does what it must know of this cloud;
see the README beside it. The exit code is the kit's: 0 if all tests passed and nothing was left behind. Several can run
at once: each takes a work folder of its own, and the virtual environment with tempest is made once for all of them. What
the cloud said is in the work folder's cloud.log.

With CUMULET_TEST_POSTGRES set (``python -m tests.postgres python -m tests.conformance smoke``) the cloud keeps its state
in PostgreSQL.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from cumulet.config import Auth
from tests.process.cumulet import ROOT, cloud

#: What the tests ask of a cloud beyond its defaults: downloads from the loopback address, and rules for passwords.
#: Passwords are hashed as they are for users.
SETTINGS = {
    "CUMULET_AUTH_HASH_MEMORY_KIB": str(Auth().hash_memory_kib),
    "CUMULET_AUTH_HASH_PASSES": str(Auth().hash_passes),
    "CUMULET_IMAGES_IMPORT_PRIVATE": "true",
    "CUMULET_AUTH_LOCKOUT_FAILURES": "2",
    "CUMULET_AUTH_LOCKOUT_SECONDS": "5",
    "CUMULET_AUTH_PASSWORD_HISTORY": "2",
}
#: What the kit cannot read from the API.
OPTIONS = {
    "compute.min_compute_nodes": "3",
    "identity-feature-enabled.security_compliance": "True",
    "volume.storage_protocol": "sim",
}


def main(words: list[str]) -> int:
    kit = Path(os.environ.get("CUMULET_CONFORMANCE") or ROOT.parent / "shared/conformance/run-tempest")
    if not kit.exists():
        print(
            f"There is no conformance kit at {kit}; name its run-tempest in CUMULET_CONFORMANCE.",
            file=sys.stderr,
        )
        return 2
    base = Path(
        os.environ.get("CONFORMANCE_WORK")
        or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "openstack-conformance"
    )
    base.mkdir(parents=True, exist_ok=True)
    # Who is told to end ends what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if not words or words[0].startswith("-"):
        words = ["smoke", *words]
    options = [word for name, value in OPTIONS.items() for word in ("-s", f"{name}={value}")]
    with (
        _work(base) as work,
        _database() as database,
        tempfile.TemporaryDirectory(prefix="c-") as place,
        cloud(Path(place) / "data", *database, env=SETTINGS) as up,
    ):
        run = [str(kit), "--work", str(work), "--fail-on-leaks", *options, *words]
        environment = {**os.environ, "CONFORMANCE_VENV": _tempest(kit, base), **up.variables}
        with subprocess.Popen(run, env=environment) as running:
            try:
                return running.wait()
            finally:
                running.terminate()
                (work / "cloud.log").write_text(up.output)


@contextlib.contextmanager
def _work(base: Path) -> Iterator[Path]:
    """A folder that no other run has, while the block runs; what it was last time is overwritten."""
    number = 1
    while True:
        folder = base / f"run-{number}"
        folder.mkdir(exist_ok=True)
        with (folder / ".ours").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                number += 1
                continue
            yield folder
            return


def _tempest(kit: Path, base: Path) -> str:
    """The virtual environment with tempest, made by the kit if there is none."""
    given = os.environ.get("CONFORMANCE_VENV")
    if given:
        return given
    folder = base / "tempest"
    folder.mkdir(exist_ok=True)
    with (folder / ".ours").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Listing makes it if there is none; it asks no cloud.
        subprocess.run(
            [str(kit), "--work", str(folder), "--list", "smoke"],
            env={**os.environ, "OS_AUTH_URL": "http://127.0.0.1:1", "OS_PASSWORD": "none"},
            check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
    return str(max(folder.glob("tempest-*/.complete"), key=os.path.getmtime).parent)


@contextlib.contextmanager
def _database() -> Iterator[tuple[str, ...]]:
    """The words that name the cloud's database: an empty one of the PostgreSQL that runs, or none."""
    server = os.environ.get("CUMULET_TEST_POSTGRES")
    if not server:
        yield ()
        return
    import psycopg

    name = f"conformance_{os.getpid()}"
    with psycopg.connect(server + "/postgres", autocommit=True) as connection:
        connection.execute(f"create database {name}")
        try:
            yield "--database", f"{server}/{name}"
        finally:
            connection.execute(f"drop database {name} with (force)")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
