"""What each main request costs in statements and commits: ``python -m bench.cost [--sql] [--profile N] [--postgres]``.

The cloud runs in this process, without sockets, so the figures are the same on every machine but for the time.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import cProfile
import gc
import json
import pstats
import tempfile
import time
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import uvloop

from cumulet import config as settings
from cumulet import logs
from cumulet.app import application, running
from cumulet.chance import RealChance
from cumulet.config import Auth, Config, Hosts
from cumulet.datadir import Secrets
from cumulet.db.engine import Database, PostgresDatabase, SqliteDatabase, Tx
from cumulet.db.migrate import prepare
from cumulet.metrics import Requests
from cumulet.reconcile import agents
from cumulet.serve import seed, upload_image
from cumulet.wire import asgi
from cumulet.wire.asgi import InProcess

PASSWORD = "secret"
COMPUTE = "/compute/v2.1"


@dataclass
class Cost:
    """Of one request: in its own transactions, and in all that it led to."""

    what: str
    statements: int
    commits: int
    all_statements: int
    all_commits: int
    cpu_ms: float


class Bench:
    """A cloud in this process, and a token for it."""

    def __init__(self, db: Database, app: Any) -> None:
        self.db = db
        self.app = app
        self.token = ""

    async def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """(status, body) of one request."""
        headers = [
            (b"x-auth-token", self.token.encode()),
            (b"openstack-api-version", b"compute 2.96"),
            (b"content-type", b"application/json"),
        ]
        raw = json.dumps(body).encode() if body is not None else b""
        status, answer = await asgi.call(self.app, method, path, headers, raw)
        return status, json.loads(answer) if answer else None

    async def rest(self) -> None:
        """Until nobody does anything any more."""
        step = 0.0 if self.db.dialect == "sqlite" else 0.005
        quiet, before = 0, -1
        while quiet < (40 if step == 0 else 20):
            await asyncio.sleep(step)
            quiet = quiet + 1 if self.db.statements == before else 0
            before = self.db.statements

    async def cost(self, what: str, method: str, path: str, body: Any = None, expect: int = 200) -> Any:
        """Carry out a request until all that it led to is done; (its cost, its answer)."""
        await self.rest()
        statements, commits, cpu = self.db.statements, self.db.commits, time.process_time()
        status, answer = await self.call(method, path, body)
        if status != expect:
            raise RuntimeError(f"{what}: {status} {answer}")
        own = self.db.statements - statements, self.db.commits - commits
        await self.rest()
        spent = (time.process_time() - cpu) * 1000
        every = self.db.statements - statements, self.db.commits - commits
        return Cost(what, *own, *every, spent), answer


@contextlib.asynccontextmanager
async def cloud(url: str | None) -> AsyncIterator[Bench]:
    """A new cloud with its agents, its image and a network."""
    config = Config(auth=Auth(hash_memory_kib=8, hash_passes=1), hosts=Hosts(count=3))
    chance = RealChance()
    with tempfile.TemporaryDirectory(prefix="cumulet-bench-") as name:
        directory = Path(name)
        db = PostgresDatabase(url, chance) if url else SqliteDatabase(directory / "cumulet.db", chance)
        with contextlib.closing(db):
            prepare(db)
            await db.write(seed, config, Secrets(PASSWORD, PASSWORD))
            app = application(db, config, chance, metrics=Requests())
            async with running(db, app, config, chance, directory):
                with db.wake.listen(agents.HELLO) as waiter:
                    while await db.read(_new_agents):
                        await waiter.wait(1.0)
                bench = Bench(db, app)
                async with httpx2.AsyncClient(transport=InProcess(app), base_url="http://bench") as http:
                    await upload_image(http, PASSWORD)
                    bench.token = await _login(http)
                gc.freeze()  # as the real process does
                yield bench


def _new_agents(tx: Tx) -> bool:
    return tx.one("select 1 from agents where session is null") is not None


async def _login(http: Any) -> str:
    who = {"name": "admin", "domain": {"id": "default"}, "password": PASSWORD}
    auth = {
        "identity": {"methods": ["password"], "password": {"user": who}},
        "scope": {"project": {"name": "admin", "domain": {"id": "default"}}},
    }
    answer = await http.post("/identity/v3/auth/tokens", json={"auth": auth})
    return str(answer.headers["x-subject-token"])


async def things(bench: Bench) -> dict[str, Any]:
    """The body of a server with a port."""
    flavors = (await bench.call("GET", f"{COMPUTE}/flavors"))[1]["flavors"]
    flavor = next(f["id"] for f in flavors if f["name"] == "m1.nano")
    image = (await bench.call("GET", "/image/v2/images"))[1]["images"][0]["id"]
    network = (await bench.call("POST", "/network/v2.0/networks", {"network": {"name": "bench"}}))[1]
    id = network["network"]["id"]
    subnet = {"network_id": id, "ip_version": 4, "cidr": "10.128.0.0/16"}
    await bench.call("POST", "/network/v2.0/subnets", {"subnet": subnet})
    return {"name": "bench", "flavorRef": flavor, "imageRef": image, "networks": [{"uuid": id}]}


async def requests(bench: Bench, server: dict[str, Any]) -> list[Cost]:
    """The main requests, one after the other."""
    costs = []

    async def one(what: str, method: str, path: str, body: Any = None, expect: int = 200) -> Any:
        cost, answer = await bench.cost(what, method, path, body, expect)
        costs.append(cost)
        return answer

    await pair(bench, server)  # what is looked up once only
    await bench.call("GET", f"{COMPUTE}/servers/detail")
    servers = f"{COMPUTE}/servers"
    plain = {**server, "networks": "none"}
    id = (await one("create a server without a port", "POST", servers, {"server": plain}, 202))["server"][
        "id"
    ]
    await one("delete it", "DELETE", f"{servers}/{id}", None, 204)
    id = (await one("create a server with a port", "POST", servers, {"server": server}, 202))["server"]["id"]
    await one("show it", "GET", f"{servers}/{id}")
    await one("list servers with details", "GET", f"{servers}/detail")
    await one("stop it", "POST", f"{servers}/{id}/action", {"os-stop": None}, 202)
    await one("start it", "POST", f"{servers}/{id}/action", {"os-start": None}, 202)
    volumes = "/volume/v3/volumes"
    volume = await one("create a volume", "POST", volumes, {"volume": {"size": 1}}, 202)
    attachments = f"{servers}/{id}/os-volume_attachments"
    attach = {"volumeAttachment": {"volumeId": volume["volume"]["id"]}}
    await one("attach it", "POST", attachments, attach)
    await one("detach it", "DELETE", f"{attachments}/{volume['volume']['id']}", None, 202)
    await one("delete it", "DELETE", f"{volumes}/{volume['volume']['id']}", None, 202)
    await one("delete the server with its port", "DELETE", f"{servers}/{id}", None, 204)
    port = {"port": {"network_id": server["networks"][0]["uuid"]}}
    made = await one("create a port", "POST", "/network/v2.0/ports", port, 201)
    await one("delete it", "DELETE", f"/network/v2.0/ports/{made['port']['id']}", None, 204)
    return costs


async def pair(bench: Bench, server: dict[str, Any]) -> None:
    """A server until it is ACTIVE, and until it is gone."""
    status, answer = await bench.call("POST", f"{COMPUTE}/servers", {"server": server})
    if status != 202:
        raise RuntimeError(f"{status} {answer}")
    path = f"{COMPUTE}/servers/{answer['server']['id']}"
    await bench.rest()
    _, answer = await bench.call("GET", path)
    if answer["server"]["status"] != "ACTIVE":
        raise RuntimeError(str(answer))
    await bench.call("DELETE", path)
    await bench.rest()
    status, answer = await bench.call("GET", path)
    if status != 404:
        raise RuntimeError(str(answer))


async def texts(bench: Bench, server: dict[str, Any]) -> collections.Counter[str]:
    """The statements of one pair, by their text."""
    await pair(bench, server)
    found: collections.Counter[str] = collections.Counter()
    do = Tx._do

    def counted(tx: Tx, sql: str, params: Any) -> Any:
        found[" ".join(sql.split())] += 1
        return do(tx, sql, params)

    Tx._do = counted  # type: ignore[method-assign]
    try:
        await pair(bench, server)
    finally:
        Tx._do = do  # type: ignore[method-assign]
    return found


async def run(options: argparse.Namespace, url: str | None) -> None:
    async with cloud(url) as bench:
        server = await things(bench)
        if options.sql:
            found = await texts(bench, server)
            for text, number in found.most_common():
                print(f"{number:4} {text}")
            print(f"{found.total():4} in all")
        elif options.profile:
            await pair(bench, server)
            profile = cProfile.Profile()
            begun = time.process_time()
            for _ in range(options.profile):
                await pair(bench, server)
            print(f"{(time.process_time() - begun) / options.profile * 1000:.2f} ms of CPU a pair")
            profile.enable()
            for _ in range(options.profile):
                await pair(bench, server)
            profile.disable()
            pstats.Stats(profile).sort_stats("tottime").print_stats(60).sort_stats("cumtime").print_stats(80)
        else:
            show(await requests(bench, server))


def show(costs: list[Cost]) -> None:
    print("| request | its own statements | commits | until all is done: statements | commits | CPU, ms |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for c in costs:
        print(
            f"| {c.what} | {c.statements} | {c.commits} | {c.all_statements} | {c.all_commits} | {c.cpu_ms:.1f} |"
        )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument(
        "--sql", action="store_true", help="the statements of a create and delete, by their text"
    )
    options.add_argument("--profile", type=int, default=0, help="a profile of so many creates and deletes")
    options.add_argument("--postgres", action="store_true", help="on PostgreSQL instead of SQLite")
    given = options.parse_args()
    logs.configure(settings.Log())
    if given.postgres:
        import psycopg
        from tests.postgres import cluster

        with cluster() as url:
            with psycopg.connect(url + "/postgres", autocommit=True) as connection:
                connection.execute("create database bench")
            main_loop(run(given, f"{url}/bench"))
    else:
        main_loop(run(given, None))


def main_loop(work: Coroutine[Any, Any, None]) -> None:
    """On the loop that the real process has."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work)


if __name__ == "__main__":
    main()
