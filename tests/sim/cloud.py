"""A whole cloud on one thread with a virtual clock: tenants, an operator, and everything that goes wrong.

A run follows from its seed. ``python -m tests.sim.cloud SEED…`` repeats some and tells what they do.
"""

from __future__ import annotations

import contextlib
import functools
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import msgspec

from cumulet.app import running
from cumulet.config import Config, Hosts, Reconcile
from tests.case import COMPUTE, IMAGE, NETWORK, VOLUME, Case
from tests.cloud import CHEAP, TestCloud
from tests.sim import laws, tenants, trouble
from tests.sim.laws import Broken
from tests.virtual import Saved, Stage

OPERATIONS = 50
FAULTS = 5
HOSTS = 3
CONFIG = Config(
    auth=CHEAP,
    hosts=Hosts(count=HOSTS),
    reconcile=Reconcile(patience=30.0, build_time=300.0, confirm_after=400.0),
)
#: The second control process has no agents of its own.
SECOND = msgspec.structs.replace(CONFIG, roles=["api", "reconcile"])
#: Answers that a tenant may get: the cloud says no, in words. A 5xx is a defect, but for "try again later".
FINE = {200, 201, 202, 204, 400, 403, 404, 409, 413, 503}


@dataclass
class Run:
    """One run."""

    stage: Stage
    case: Case
    random: random.Random
    tell: Callable[[str], None] = lambda _: None
    servers: list[str] = field(default_factory=list)
    volumes: list[str] = field(default_factory=list)
    snapshots: list[str] = field(default_factory=list)
    ports: list[str] = field(default_factory=list)
    operations: int = 0
    faults: int = 0
    hosts: list[str] = field(default_factory=lambda: [f"h{i + 1}" for i in range(HOSTS)])
    made_hosts: int = 0
    stopped: set[str] = field(default_factory=set)
    second: TestCloud | None = None
    _second: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def server(self) -> str | None:
        return self.random.choice(self.servers) if self.servers else None

    @property
    def second_lives(self) -> bool:
        return self.second is not None

    async def toggle_second(self) -> None:
        """Start the second control process over the same database, or end it."""
        if self.second is not None:
            self.second = None
            await self._second.aclose()
            return
        cloud = self.case.cloud
        self.second = TestCloud(cloud.db, SECOND, cloud.chance)
        self.second._tokens = cloud._tokens
        self._second.push_async_callback(self.second.client.aclose)
        await self._second.enter_async_context(
            running(cloud.db, self.second.app, SECOND, cloud.chance, self.case.directory)
        )

    async def call(self, method: str, path: str, body: Any = None, as_: str = "demo") -> httpx2.Response:
        self.operations += 1
        cloud = self.second if self.second is not None and self.chance(0.5) else self.case.cloud
        version = "volume 3.70" if path.startswith(VOLUME) else "compute 2.96"
        answer = await cloud.request(method, path, as_=as_, json=body, version=version)
        self.tell(f"{method} {path} {body or ''} {answer.status_code}")
        if answer.status_code not in FINE:
            raise Broken(f"{method} {path} {body or ''} answered {answer.status_code}: {answer.text}")
        return answer

    async def go(self) -> None:
        """Operations and faults in random order, the laws after each, and nothing left at the end."""
        await self.toggle_second()
        steps = [*tenants.STEPS, *trouble.STEPS]
        weights = [weight for weight, _ in steps]
        while self.operations < OPERATIONS or self.faults < FAULTS:
            _, step = self.random.choices(steps, weights)[0]
            await step(self)
            await self.check()
        await self.end()

    async def check(self) -> None:
        await self.case.db.read(laws.check)
        await self.case.db.read(laws.check_things, self.case.directory)

    async def end(self) -> None:
        """Faults are lifted, everything of the tenants is deleted, and the ledger is as before."""
        await trouble.clear_faults(self)
        for name in sorted(self.stopped):
            self.case.cloud.agents[name].start()
        self.stopped.clear()
        for host in self.hosts:
            await self.case.force_down(host, False)
            await self.case.enable(host, True)
        listed = (await self.case.cloud.get(f"{COMPUTE}/servers")).json()["servers"]
        for server in listed:
            await self.call("DELETE", f"{COMPUTE}/servers/{server['id']}", as_="admin")
        for server in listed:
            await self.case.gone(server["id"])
        for port in (await self.case.get(f"{NETWORK}/ports?network_id={self.case.network2['id']}"))["ports"]:
            await self.call("DELETE", f"{NETWORK}/ports/{port['id']}")
        await self.case.until(self._no_volumes, "the volumes to be gone")
        for image in (await self.case.get(f"{IMAGE}/images?visibility=private"))["images"]:
            await self.call("DELETE", f"{IMAGE}/images/{image['id']}")
        if self.second is not None:
            await self.toggle_second()
        await self.case.settle()
        # Hosts that burned down are not there any more, and others are.
        self.case.clean_now(*await self.case.db.read(_other_hosts))
        await self.check()
        found = (await self.case.get("/cumulet/v1/audit", as_="admin"))["findings"]
        sweeper = self.case.cloud.app.cloud.sweeper
        if found or sweeper is None or sweeper.repaired:
            raise Broken(f"the audit found {found}, and the sweep {sweeper and sweeper.repaired}")

    async def _no_volumes(self) -> bool:
        for kind in ("snapshots", "volumes"):
            found = (await self.case.get(f"{VOLUME}/{kind}/detail", version="volume 3.70"))[kind]
            for one in found:
                if one["status"] == "available" or one["status"].startswith("error"):
                    await self.call("DELETE", f"{VOLUME}/{kind}/{one['id']}")
            if found:
                return False
        return True


def _other_hosts(tx: Any) -> list[str]:
    """Ids and names of hosts that came or went, and of their providers."""
    rows = tx.all(
        "select a.id, a.name, p.id as provider from agents a left join resource_providers p on p.agent = a.id "
        "where a.kind = 'host' and (a.destroyed or a.name like 'n%')"
    )
    return [text for row in rows for text in (row["id"], f'"{row["name"]}"', row["provider"]) if text]


@functools.cache
def prepared() -> Saved:
    """A cloud as every run begins with it, made once in a process."""
    with tempfile.TemporaryDirectory(prefix="c-") as name:
        stage = Stage(Path(name), CONFIG, seed=-1)
        case = Case(stage.cloud, Path(name))
        stage.run(case.prepare())
        stage.run(case.settle())
        kept = {
            key: value
            for key, value in vars(case).items()
            if key in ("flavor", "flavor2", "image", "network", "network2")
        }
        return stage.save(kept)


def run(seed: int, tell: Callable[[str], None] = lambda _: None) -> Run:
    """One run, of which everything follows from the seed. Raises Broken or AssertionError."""
    saved = prepared()
    directory = Path(tempfile.mkdtemp(prefix="c-"))
    stage = Stage(directory, CONFIG, seed, saved)
    try:
        case = Case(stage.cloud, directory)
        vars(case).update(saved.kept)
        stage.run(case.settle())
        case.remember()
        made = Run(stage, case, random.Random(seed), tell)
        stage.run(made.go())
        return made
    finally:
        stage.close()
        shutil.rmtree(directory, ignore_errors=True)


def main() -> None:
    import logging

    import structlog

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The order of sets is a part of what a seed repeats.
        os.execve(
            sys.executable,
            [sys.executable, "-m", "tests.sim.cloud", *sys.argv[1:]],
            {**os.environ, "PYTHONHASHSEED": "0"},
        )
    for seed in [int(word) for word in sys.argv[1:]]:
        made = run(seed, print)
        print(f"seed {seed}: {made.operations} operations, {made.faults} faults, nothing left")


if __name__ == "__main__":
    main()
