"""C15: the control plane dies between the claim and the record. Nova LP 1859496.

The processes are real, and so is their death. What is claimed at placement and the record of it are one
transaction here, so each point of it is tried: the claim taken, the host written down, the claims opened.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest

from tests.leftovers import Look
from tests.process.cumulet import Cloud, Program, at_rest, await_clean, ledger, started, until

#: Where the process dies: while the request is stored, before it is answered, after the claim, after the record,
#: before the commit.
REQUEST = "cumulet.core.servers.create:_one:after"
ANSWER = "cumulet.api.compute.servers:accepted:before"
CLAIM = "cumulet.core.scheduling:take:after"
POINTS = {
    "claim": CLAIM,
    "record": "cumulet.core.servers.apply:_place:after",
    "commit": "cumulet.reconcile.ledger:_flush:after",
}
FLAVOR, SERVERS = "m1.tiny", "/compute/v2.1/servers"


class Things:
    """A port, a volume, and a request for a server with both, all of the administrator's project."""

    def __init__(self, up: Cloud, database: str = "") -> None:
        body: dict[str, Any] = {"network": {"name": "n"}}
        network = up.post("/network/v2.0/networks", body)["network"]["id"]
        subnet = {"network_id": network, "ip_version": 4, "cidr": "192.168.7.0/24"}
        up.post("/network/v2.0/subnets", {"subnet": subnet})
        self.port = up.post("/network/v2.0/ports", {"port": {"network_id": network}})["port"]["id"]
        self.volume = up.post("/volume/v3/volumes", {"volume": {"size": 1}})["volume"]["id"]
        until(lambda: self.volume_of(up)["status"] == "available")
        image = up.get("/image/v2/images?name=tiny")["images"][0]["id"]
        self.request = {
            "networks": [{"port": self.port}, {"uuid": network}],
            "block_device_mapping_v2": [
                {"boot_index": 0, "uuid": image, "source_type": "image", "destination_type": "local"},
                {"uuid": self.volume, "source_type": "volume", "destination_type": "volume"},
            ],
        }
        until(lambda: at_rest(up.directory, database))

    def volume_of(self, up: Cloud) -> Any:
        return up.get(f"/volume/v3/volumes/{self.volume}")["volume"]

    def are_free(self, up: Cloud) -> None:
        """Nobody has the port or the volume, and nothing is claimed at placement."""
        port = up.get(f"/network/v2.0/ports/{self.port}")["port"]
        assert (port["device_id"], port["binding:host_id"]) == ("", "")
        assert self.volume_of(up)["status"] == "available"
        assert up.get(SERVERS)["servers"] == []
        limits = up.get("/compute/v2.1/limits")["limits"]["absolute"]
        assert (limits["totalInstancesUsed"], limits["totalCoresUsed"], limits["totalRAMUsed"]) == (0, 0, 0)
        for provider in up.get("/placement/resource_providers")["resource_providers"]:
            path = f"/placement/resource_providers/{provider['uuid']}/usages"
            assert set(up.get(path)["usages"].values()) <= {0}


def allocations(before: Look, after: Look) -> list[str]:
    """What was allocated between two looks."""
    return sorted(
        row for table in ("consumers", "allocations") for row in after[table] - before.get(table, frozenset())
    )


def is_deleted(up: Cloud, server: str) -> None:
    assert up.request("DELETE", f"{SERVERS}/{server}").status_code == 204
    up.await_server(server, None)


@pytest.mark.parametrize("deleted", [True, False], ids=["deleted", "kept"])
@pytest.mark.parametrize("point", POINTS)
def test_the_one_process_of_a_cloud(directory: Path, point: str, deleted: bool) -> None:
    data = directory / "data"
    with started(Cloud(data, "--hosts", "1", dies=POINTS[point])) as up:
        things = Things(up.ready())
        before = ledger(data)
        up.arm()
        server = up.boot("s", **things.request)
        up.died()
    # It was stored, and neither claimed nor recorded on a host: these are one.
    assert allocations(before, ledger(data)) == []
    with started(Cloud(data, "--hosts", "1")) as up:
        up.ready()
        if not deleted:
            # Nobody asks for anything: it is not BUILD for ever.
            up.await_server(server, "ACTIVE")
            assert allocations(before, ledger(data)) != []
        is_deleted(up, server)
        things.are_free(up)
        await_clean(before, data)


def test_while_the_request_is_stored(directory: Path) -> None:
    """The client hears nothing, and there is nothing: neither server nor reservation."""
    data = directory / "data"
    with started(Cloud(data, "--hosts", "1", dies=REQUEST)) as up:
        things = Things(up.ready())
        before = ledger(data)
        up.arm()
        with pytest.raises(httpx2.TransportError):
            up.boot("s", **things.request)
        up.died()
    with started(Cloud(data, "--hosts", "1")) as up:
        things.are_free(up.ready())
        await_clean(before, data)
        # The client repeats it, as it must.
        server = up.boot("s", **things.request)
        up.await_server(server, "ACTIVE")
        is_deleted(up, server)
        await_clean(before, data)


def test_before_the_request_is_answered(directory: Path) -> None:
    """The client hears nothing, but the server is there: it is listed, built, and can be deleted."""
    data = directory / "data"
    with started(Cloud(data, "--hosts", "1", dies=ANSWER)) as up:
        things = Things(up.ready())
        before = ledger(data)
        up.arm()
        with pytest.raises(httpx2.TransportError):
            up.boot("s", **things.request)
        up.died()
    with started(Cloud(data, "--hosts", "1")) as up:
        (server,) = [one["id"] for one in up.ready().get(f"{SERVERS}?name=^s$")["servers"]]
        up.await_server(server, "ACTIVE")
        is_deleted(up, server)
        things.are_free(up)
        await_clean(before, data)


# --- several processes ---


@pytest.fixture
def url(postgres_cluster: str) -> Iterator[str]:
    """An empty database, without our schema."""
    with psycopg.connect(postgres_cluster + "/postgres", autocommit=True) as connection:
        connection.execute("create database dying")
        yield postgres_cluster + "/dying"
        connection.execute("drop database dying with (force)")


@contextlib.contextmanager
def reconciling(directory: Path, url: str, dies: str = "") -> Iterator[Program]:
    """The process that orchestrates, beside the one that has the API and the agents."""
    words = ("--data", directory / "two", "--port", "0", "--database", url, "--roles", "reconcile")
    with started(Program("up", *words, dies=dies)) as program:
        program.await_line("Stop it with")
        yield program


@pytest.mark.postgres
@pytest.mark.parametrize("when", ["before the restart", "after the restart", "never"])
def test_the_process_that_orchestrates(directory: Path, url: str, when: str) -> None:
    data = directory / "one"
    words = ("--hosts", "1", "--database", url, "--roles", "api,agent")
    with started(Cloud(data, *words)) as up:
        up.ready()
        with reconciling(directory, url, CLAIM) as other:
            things = Things(up, url)
            before = ledger(data, url)
            other.arm()
            server = up.boot("s", **things.request)
            other.died()
        assert allocations(before, ledger(data, url)) == []
        shown = up.server(server)
        assert shown is not None
        assert (shown["status"], shown["OS-EXT-SRV-ATTR:host"]) == ("BUILD", None)
        if when == "before the restart":
            is_deleted(up, server)
            things.are_free(up)
            await_clean(before, data, url)
        with reconciling(directory, url):
            if when == "never":
                up.await_server(server, "ACTIVE")
            if when != "before the restart":
                is_deleted(up, server)
            await_clean(before, data, url)
            things.are_free(up)
