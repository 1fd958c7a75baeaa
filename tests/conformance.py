"""Runs the project's conformance kit against a cloud of its own: ``python -m tests.conformance [LIST…] [-p full] …``.

Whatever is said on the command line goes to the kit's ``run-tempest``, and so does what it must know of this cloud;
see the README beside it. The exit code is the kit's: 0 if all tests passed and nothing was left behind. Several can run
at once: each takes a work folder of its own, and the virtual environment with tempest is made once for all of them. What
the cloud said is in the work folder's cloud.log.

``--kill-after SECONDS`` kills the cloud in the middle of the run, as a crash of the machine would, and starts it again: the
tests are held still, every GET of every service is asked before and after and must be answered alike, and the tests go on.

With CUMULET_TEST_POSTGRES set (``python -m tests.postgres python -m tests.conformance smoke``) the cloud keeps its state
in PostgreSQL.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx2

from cumulet.config import Auth
from tests import everything
from tests.process.cumulet import ROOT, Cloud, cloud

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
    # As the image service has it by default: whoever may say where an image's bytes are may change them.
    "image-feature-enabled.manage_locations": "False",
    # There is no screen behind a console.
    "compute-feature-enabled.vnc_console": "False",
    "volume.volume_type_multiattach": "multiattach",
    # What must be copied is copied, local disks and all.
    "compute-feature-enabled.live_migration": "True",
    "compute-feature-enabled.block_migration_for_live_migration": "True",
    "compute-feature-enabled.volume_backed_live_migration": "True",
    "compute-feature-enabled.change_password": "True",
    "compute-feature-enabled.stable_rescue": "True",
}
#: What no simulated guest can do: it asks for the answer to a ping.
LEFT_OUT = r"tempest\.scenario\.test_network_basic_ops\.TestNetworkBasicOps\.test_network_basic_ops\b"


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
    kill_after = None
    if "--kill-after" in words:
        at = words.index("--kill-after")
        kill_after = float(words[at + 1])
        words = words[:at] + words[at + 2 :]
    options = [word for name, value in OPTIONS.items() for word in ("-s", f"{name}={value}")]
    with (
        _work(base) as work,
        _database() as database,
        tempfile.TemporaryDirectory(prefix="c-") as place,
        contextlib.ExitStack() as stack,
    ):
        data = Path(place) / "data"
        up = stack.enter_context(cloud(data, *database, env=SETTINGS))
        # A volume can be attached twice if its type says so, which a new cloud has none of.
        multiattach = {"name": "multiattach", "extra_specs": {"multiattach": "<is> True"}}
        up.post("/volume/v3/types", {"volume_type": multiattach})
        run = [str(kit), "--work", str(work), "--fail-on-leaks", "-x", LEFT_OUT, *options, *words]
        log = ""
        environment = {**os.environ, "CONFORMANCE_VENV": _tempest(kit, base), **up.variables}
        with subprocess.Popen(run, env=environment) as running:
            try:
                if kill_after is None:
                    return running.wait()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    running.wait(kill_after)
                    print("The tests ended before the cloud was killed.", file=sys.stderr)
                    return 2
                with _held(running.pid):
                    before = _settled(up)
                    up.kill()
                    log = up.output
                    up = stack.enter_context(
                        cloud(data, "--port", up.url.rsplit(":", 1)[1], *database, env=SETTINGS)
                    )
                    changed = _changed(before, up)
                print(
                    f"killed, and started again: {len(before)} answers, {len(changed)} not as before",
                    flush=True,
                )
                print("\n".join(changed))
                return running.wait() or (1 if changed else 0)
            finally:
                running.terminate()
                print(_speed(up), flush=True)
                (work / "cloud.log").write_text(log + up.output)


#: What the design has a budget for, by the labels of the metrics: how many milliseconds.
BUDGETS = {
    "discovery": (("root", "/", "GET"), 1),
    "show a server": (("compute", "/v2.1/servers/{server_id}", "GET"), 2),
    "check a token": (("identity", "/v3/auth/tokens", "GET"), 2),
}


def _speed(up: Cloud) -> str:
    """How long the cloud took over requests, as its metrics tell, and how many it failed at."""
    try:
        text = up.http.get("/metrics").text
    except httpx2.HTTPError as error:
        return f"no metrics: {error}"
    all_: Counter[float] = Counter()
    found: dict[tuple[str, ...], Counter[float]] = {}
    failed = 0
    for line in text.splitlines():
        labels = dict(re.findall(r'(\w+)="([^"]*)"', line))
        value = float(line.rsplit(" ", 1)[1]) if labels else 0.0
        if line.startswith("cumulet_requests_total") and labels["status"] == "500":
            failed += int(value)
        if "_bucket{" in line and labels["area"] != "agent":  # agents wait for news as they should
            of = (labels["area"], labels["route"], labels["method"])
            found.setdefault(of, Counter())[float(labels["le"])] += int(value)
            all_[float(labels["le"])] += int(value)
    lines = [f"requests: {_within(all_)}; {failed} answered with 500"]
    for what, (of, budget) in BUDGETS.items():
        if of in found:
            lines.append(f"{what} (budget {budget} ms): {_within(found[of])}")
    return "\n".join(lines)


def _within(buckets: Counter[float]) -> str:
    """ "1200, half within 1 ms, 99 % within 25 ms" """
    total = max(buckets.values())
    bounds = {
        share: next(b for b in sorted(buckets) if buckets[b] >= share * total) for share in (0.5, 0.95, 0.99)
    }
    return f"{total:.0f}, " + ", ".join(f"{share:.0%} within {1000 * b:g} ms" for share, b in bounds.items())


def _settled(up: Cloud) -> dict[str, Any]:
    """Every GET, once two rounds are answered alike: nothing is under way any more."""
    before = _answers(up)
    for _ in range(20):
        now = _answers(up)
        if not everything.difference(before, now):
            return now
        before = now
    raise AssertionError("the cloud does not come to rest")


def _changed(before: dict[str, Any], up: Cloud) -> list[str]:
    """What is answered otherwise, even after the hosts had their time to come back."""
    for _ in range(20):
        if not (found := everything.difference(before, _answers(up))):
            break
    return found


def _answers(up: Cloud) -> dict[str, Any]:
    token = up.login().headers["x-subject-token"]

    def ask(path: str, headers: Mapping[str, str]) -> tuple[int, bytes]:
        answer = up.http.get(path, headers={"X-Auth-Token": token, **headers})
        return answer.status_code, answer.content

    # Not all of each list: while the cloud is asked, the tests stand still, and they wait for nothing longer than a minute.
    return everything.answers(ask, 6)


@contextlib.contextmanager
def _held(parent: int) -> Iterator[None]:
    """The processes that run the tests stand still while the block runs; their parent does not: it serves images."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rsplit(")", 1)[1].split()
            children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    below, found = [parent], []
    while below:
        below = [child for pid in below for child in children.get(pid, ())]
        found += below
    try:
        for pid in found:
            os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


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
