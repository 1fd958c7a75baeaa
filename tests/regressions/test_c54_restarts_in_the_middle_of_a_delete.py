"""C54: the compute service restarts in the middle of a delete. Nova LP 1247174, 1281324.

The processes are real, and so is their death. The host dies at each step of its own; the control plane dies in the
transactions that give back what was held.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.process.cumulet import Cloud, Program, at_rest, await_clean, ledger, run, started, until

SERVERS = "/compute/v2.1/servers"
FAR = "far"
#: Where the host dies: before it reads the message, or at a step of its own.
STEPS = ["unread"] + [
    f"{kind}.remove {moment}"
    for kind in ("guest", "tap", "connection", "disk")
    for moment in ("before", "after")
]
#: Where the control plane dies: before the request is stored and before it is answered, after the ports are
#: released, the attachment removed, the record marked, and the record removed but for the commit.
POINTS = {
    "stored": "cumulet.core.servers.deleting:delete:after",
    "answered": "cumulet.api.compute.servers:no_content:before",
    "ports": "cumulet.core.ports:give_back:after",
    "attachment": "cumulet.core.volumes:end_attachment:after",
    "record": "cumulet.core.servers.remove:record:before",
    "removed": "cumulet.core.servers.remove:record:after",
}


class Things:
    """What every server of the case has: a port and a volume of the user's, a port and a disk of its own."""

    def __init__(self, up: Cloud) -> None:
        self.up = up
        body: dict[str, Any] = {"network": {"name": "n"}}
        network = up.post("/network/v2.0/networks", body)["network"]["id"]
        subnet = {"network_id": network, "ip_version": 4, "cidr": "192.168.7.0/24"}
        up.post("/network/v2.0/subnets", {"subnet": subnet})
        self.port = up.post("/network/v2.0/ports", {"port": {"network_id": network}})["port"]["id"]
        self.volume = up.post("/volume/v3/volumes", {"volume": {"size": 1}})["volume"]["id"]
        until(lambda: self.volume_is("available"))
        self.image = up.get("/image/v2/images?name=tiny")["images"][0]["id"]
        self.networks = [{"port": self.port}, {"uuid": network}]
        until(lambda: at_rest(up.directory))

    def volume_is(self, status: str) -> bool:
        return bool(self.up.get(f"/volume/v3/volumes/{self.volume}")["volume"]["status"] == status)

    def boot(self, *, in_error: bool) -> str:
        """A server that is active, or shown in ERROR."""
        devices = [
            {"boot_index": 0, "uuid": self.image, "source_type": "image", "destination_type": "local"},
            {"uuid": self.volume, "source_type": "volume", "destination_type": "volume"},
        ]
        server = self.up.boot("s", config_drive=True, networks=self.networks, block_device_mapping_v2=devices)
        self.up.await_server(server, "ACTIVE")
        if in_error:
            self.up.post(f"{SERVERS}/{server}/action", {"os-resetState": {"state": "error"}})
            self.up.await_server(server, "ERROR")
        return server


def delete(up: Cloud, server: str, *codes: int) -> None:
    response = up.request("DELETE", f"{SERVERS}/{server}")
    assert response.status_code in (codes or (204,)), response.text


@contextlib.contextmanager
def joined(up: Cloud, token: str) -> Iterator[Program]:
    """The host, while the block runs; its state is where a local one's would be."""
    state = up.directory / "agents" / f"host-{FAR}"
    env = {"CUMULET_HOST_TOKEN": token}
    with started(Program("host", "join", up.url, "--name", FAR, "--state", state, env=env)) as host:
        yield host


@pytest.fixture(scope="module")
def far() -> Iterator[tuple[Things, str]]:
    """A cloud for one host that is a process of its own, and the host's token."""
    import tempfile

    with (
        tempfile.TemporaryDirectory(prefix="c-") as directory,
        started(Cloud(Path(directory) / "data", "--hypervisor", "none")) as up,
    ):
        token = run("token", "host", FAR, "--data", up.ready().directory).stdout.strip()
        yield Things(up), token


@pytest.mark.parametrize("in_error", [False, True], ids=["ACTIVE", "ERROR"])
@pytest.mark.parametrize("step", STEPS)
def test_the_host_dies(far: tuple[Things, str], step: str, in_error: bool) -> None:
    things, token = far
    up = things.up
    with joined(up, token) as host:
        until(lambda: host_is_up(up))
        until(lambda: up.get("/cumulet/v1/summary")["summary"]["debts"] == 0)
        before = ledger(up.directory)
        server = things.boot(in_error=in_error)
        if step == "unread":
            host.kill()
            delete(up, server)
        else:
            name, _, moment = step.partition(" ")
            up.post("/cumulet/v1/faults", {"step": name, "effect": "crash", "moment": moment, "count": 1})
            delete(up, server)
            host.died()
        # It is there as long as something of it is; a second delete is taken, and harmless.
        assert up.server(server) is not None
        delete(up, server)
    with joined(up, token):
        # Nobody calls again.
        up.await_server(server, None)
        assert things.volume_is("available")
        port = up.get(f"/network/v2.0/ports/{things.port}")["port"]
        assert (port["device_id"], port["binding:host_id"]) == ("", "")
        await_clean(before, up.directory)


def host_is_up(up: Cloud) -> bool:
    agents = up.get("/cumulet/v1/agents")["agents"]
    return any(one["name"] == FAR and one["state"] == "up" for one in agents)


@pytest.mark.parametrize("point", POINTS)
def test_the_control_plane_dies(directory: Path, point: str) -> None:
    data = directory / "data"
    with started(Cloud(data, "--hosts", "1", dies=POINTS[point])) as up:
        things = Things(up.ready())
        before = ledger(data)
        server = things.boot(in_error=False)
        up.arm()
        with contextlib.suppress(httpx2.TransportError):
            delete(up, server)
        up.died()
    with started(Cloud(data, "--hosts", "1")) as up:
        things.up = up.ready()
        if point == "stored":
            # It was not: the client, who has heard nothing, asks again.
            assert up.server(server) is not None
            delete(up, server)
        up.await_server(server, None)
        assert things.volume_is("available")
        await_clean(before, data)
