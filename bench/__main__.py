"""One command that measures: ``python -m bench [--seconds N] [--json FILE] [--only WORD]``.

Prints a table of what was measured against the budgets of the design, and writes it as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.postgres import cluster

from bench.cloud import Client, Cloud, running

COMPUTE = "/compute/v2.1"


@dataclass
class Figure:
    """One line of the table; ``met`` is None where the design has no budget."""

    what: str
    value: float
    unit: str
    budget: float | None = None
    #: True: more is better.
    at_least: bool = False

    @property
    def met(self) -> bool | None:
        if self.budget is None:
            return None
        return self.value >= self.budget if self.at_least else self.value <= self.budget


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=15.0, help="how long pairs are made")
    options.add_argument("--servers", type=int, default=10_000, help="servers of the large cloud")
    options.add_argument("--json", type=Path, default=Path("bench/results/latest.json"))
    options.add_argument("--only", default="", help="start, read, pairs, postgres or large")
    given = options.parse_args()
    figures: list[Figure] = []
    parts: dict[str, Callable[[], list[Figure]]] = {
        "start": start,
        "read": read,
        "pairs": lambda: pairs("SQLite", given.seconds),
        "postgres": lambda: pairs("PostgreSQL", given.seconds),
        "large": lambda: large(given.servers),
    }
    load = os.getloadavg()[0]
    for name, part in parts.items():
        if given.only in ("", name):
            print(f"measuring: {name} …", file=sys.stderr, flush=True)
            figures += part()
    show(figures)
    given.json.parent.mkdir(parents=True, exist_ok=True)
    machine = {
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "load_before": load,
        "load_after": os.getloadavg()[0],
    }
    given.json.write_text(
        json.dumps({"machine": machine, "figures": [asdict(f) | {"met": f.met} for f in figures]}, indent=1)
    )


def show(figures: list[Figure]) -> None:
    width = max(len(figure.what) for figure in figures)
    print(f"{'what':{width}}  {'measured':>14}  {'budget':>14}")
    for f in figures:
        budget = "" if f.budget is None else f"{'≥' if f.at_least else '≤'} {f.budget:g} {f.unit}"
        mark = {
            None: "",
            True: "met",
            False: f"MISSED by {abs(f.value - (f.budget or 0)) / (f.budget or 1) * 100:.0f} %",
        }[f.met]
        print(f"{f.what:{width}}  {f.value:>10.4g} {f.unit:3}  {budget:>14}  {mark}")


def start() -> list[Figure]:
    """How long a new cloud and a restart take until the first token, and their memory."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="cumulet-bench-") as name:
        with running(data=Path(name)) as cloud:
            new, memory = cloud.started, cloud.rss_mb()
        with running(data=Path(name)) as cloud:
            again = cloud.started
    return [
        Figure("start of a new cloud until the first token", new, "s", 1.0),
        Figure("start again until the first token", again, "s", 1.0),
        Figure("memory after the start", memory, "MB", 150),
    ]


def _each(
    cloud: Cloud, client: Client, what: str, call: Callable[[], Any], n: int, budget: float | None
) -> list[Figure]:
    """Median time of a request as its client sees it, and the CPU that the cloud spends on one."""
    for _ in range(5):
        call()
    times = []
    cpu = cloud.cpu()
    for _ in range(n):
        begun = time.perf_counter()
        call()
        times.append(time.perf_counter() - begun)
    spent = (cloud.cpu() - cpu) / n * 1000
    return [
        Figure(f"{what}, CPU of the cloud", spent, "ms", budget),
        Figure(f"{what}, as the client sees it", statistics.median(times) * 1000, "ms"),
    ]


def _things(client: Client) -> tuple[str, str, str]:
    flavor = next(f["id"] for f in client.get(f"{COMPUTE}/flavors")["flavors"] if f["name"] == "m1.nano")
    image = client.get("/image/v2/images")["images"][0]["id"]
    networks = client.get("/network/v2.0/networks?name=bench")["networks"]
    return flavor, image, networks[0]["id"] if networks else _network(client)


def _network(client: Client) -> str:
    _, body = client.call("POST", "/network/v2.0/networks", {"network": {"name": "bench"}})
    id = str(json.loads(body)["network"]["id"])
    subnet = {"network_id": id, "ip_version": 4, "cidr": "10.128.0.0/16"}
    client.call("POST", "/network/v2.0/subnets", {"subnet": subnet})
    return id


def _no_quota(client: Client) -> None:
    limits = {"instances": -1, "cores": -1, "ram": -1}
    projects = client.get("/identity/v3/auth/projects")["projects"]
    project = next(p["id"] for p in projects if p["name"] == "admin")
    client.call("PUT", f"{COMPUTE}/os-quota-sets/{project}", {"quota_set": limits})
    client.call("PUT", f"/network/v2.0/quotas/{project}", {"quota": {"port": -1}})


def _fill(client: Client, count: int, networks: Any) -> None:
    """So many servers, and wait until all are ACTIVE."""
    flavor, image, _ = _things(client)
    left = count
    while left:
        n = min(left, 100)
        server = {
            "name": "s",
            "flavorRef": flavor,
            "imageRef": image,
            "networks": networks,
            "min_count": n,
            "max_count": n,
        }
        status, body = client.call("POST", f"{COMPUTE}/servers", {"server": server})
        if status != 202:
            raise RuntimeError(body.decode()[:300])
        left -= n
    while client.get(f"{COMPUTE}/servers?status=BUILD&limit=1")["servers"]:
        time.sleep(0.1)
    failed = client.get(f"{COMPUTE}/servers?status=ERROR&limit=1")["servers"]
    if failed:
        raise RuntimeError(client.get(f"{COMPUTE}/servers/{failed[0]['id']}")["server"]["fault"])


def read() -> list[Figure]:
    """Discovery, token, show, lists."""
    with running("--hosts", "20") as cloud:
        client = cloud.client()
        _no_quota(client)
        _fill(client, 100, "none")
        one = client.get(f"{COMPUTE}/servers")["servers"][0]["id"]
        found = _each(cloud, client, "discovery document", lambda: client.get("/compute/v2.1"), 200, 1.0)
        found += _each(cloud, client, "token", lambda: client.login("admin", cloud.password), 200, 2.0)
        found += _each(
            cloud, client, "show a server", lambda: client.get(f"{COMPUTE}/servers/{one}"), 200, 2.0
        )
        found += _each(
            cloud,
            client,
            "list of 100 with details",
            lambda: client.get(f"{COMPUTE}/servers/detail?limit=100"),
            50,
            None,
        )
        _fill(client, 900, "none")
        found += _each(
            cloud,
            client,
            "list of 1000 with details",
            lambda: client.get(f"{COMPUTE}/servers/detail?limit=1000"),
            20,
            50.0,
        )
    return found


def pairs(database: str, seconds: float) -> list[Figure]:
    """Create and delete pairs: how many a second, what one costs, how long a delete takes."""
    if database == "SQLite":
        return _pairs(database, seconds)
    with cluster() as url:
        import psycopg

        with psycopg.connect(url + "/postgres", autocommit=True) as connection:
            connection.execute("create database bench")
        return _pairs(database, seconds, "--database", f"{url}/bench")


def _pairs(database: str, seconds: float, *options: str) -> list[Figure]:
    with running(*options) as cloud:
        client = cloud.client("admin")
        _no_quota(client)
        flavor, image, network = _things(client)
        words = [
            sys.executable,
            "-m",
            "bench.pairs",
            cloud.url,
            client.token,
            str(seconds),
            "8",
            flavor,
            image,
            network,
        ]
        subprocess.run([*words[:5], "1", *words[6:]], stdout=subprocess.DEVNULL)  # warm
        cpu = cloud.cpu()
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            raise SystemExit(done.returncode)
        spent = cloud.cpu() - cpu
        found = json.loads(done.stdout)
        memory = cloud.rss_mb()
    name = f"create + delete with a port, {database}"
    sqlite = database == "SQLite"
    return [
        Figure(
            f"{name}: pairs a second",
            found["pairs"] / found["seconds"],
            "/s",
            150 if sqlite else None,
            at_least=True,
        ),
        Figure(
            f"{name}: CPU of the cloud for a pair",
            spent / found["pairs"] * 1000,
            "ms",
            5.0 if sqlite else None,
        ),
        Figure(f"{name}: create until ACTIVE, median", found["create_ms"], "ms"),
        Figure(f"{name}: delete until 404, p99", found["delete_p99_ms"], "ms", 1000),
        Figure(f"{name}: memory afterwards", memory, "MB"),
    ]


def large(servers: int) -> list[Figure]:
    """Many servers on a tenth as many hosts: time and memory."""
    hosts = max(servers // 10, 1)
    with running("--hosts", str(hosts)) as cloud:
        client = cloud.client()
        _no_quota(client)
        begun = time.perf_counter()
        _fill(client, servers, "none")
        took = time.perf_counter() - begun
        memory = cloud.rss_mb()
        one = _each(
            cloud,
            client,
            f"a page of 100 among {servers}",
            lambda: client.get(f"{COMPUTE}/servers/detail?limit=100"),
            20,
            None,
        )
    label = f"{servers} servers on {hosts} simulated hosts"
    return [
        Figure(f"{label}: until all are ACTIVE", took, "s", 120 if servers == 10_000 else None),
        Figure(f"{label}: memory", memory, "MB", 1024 if servers == 10_000 else None),
        *one,
    ]


if __name__ == "__main__":
    main()
