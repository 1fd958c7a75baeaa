"""Servers as real guests: a cloud as a real process, asked over HTTP, killed and started again."""

from __future__ import annotations

import base64
import contextlib
import os
import re
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.guest import BOOT, SCRIPT, image, kill, processes
from tests.process.cumulet import Cloud, Program, cloud, run, started
from tests.process.test_hosts import state_of

from cumulet.exits import MISSING

ENV = {
    "CUMULET_HOSTS_ACCELERATOR": "tcg",
    "CUMULET_HOSTS_IMAGE_CACHE_SECONDS": "0",
    "CUMULET_RECONCILE_SWEEP": "2",
}
COMPUTE = "/compute/v2.1"


def wait(condition: Callable[[], Any], seconds: float = BOOT) -> Any:
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.1)
    return found


def host_of(directory: Path) -> Path:
    """The state directory of the cloud's own host."""
    return directory / "agents" / f"host-{os.uname().nodename}"


def left(host: Path) -> dict[str, list[str]]:
    """What a host has that is somebody's."""
    kinds = ("guest", "disk", "tap", "connection", "source", "working", "cache")
    return {kind: found for kind in kinds if (found := os.listdir(host / kind))}


def upload(up: Cloud) -> str:
    """The test guest's image in the cloud; its id."""
    body = {"name": "guest", "disk_format": "qcow2", "container_format": "bare", "visibility": "public"}
    id = str(up.post("/image/v2/images", body)["id"])
    headers = {
        "Content-Type": "application/octet-stream",
        "X-Auth-Token": up.login().headers["x-subject-token"],
    }
    sent = up.http.put(f"/image/v2/images/{id}/file", content=image().read_bytes(), headers=headers)
    assert sent.status_code == 204, sent.text
    return id


def flavor(up: Cloud) -> str:
    body = {"name": "small", "ram": 192, "vcpus": 1, "disk": 1}
    return str(up.post(f"{COMPUTE}/flavors", {"flavor": body})["flavor"]["id"])


def make_network(up: Cloud) -> str:
    id = str(up.post("/network/v2.0/networks", {"network": {"name": "n"}})["network"]["id"])
    up.post("/network/v2.0/subnets", {"subnet": {"network_id": id, "ip_version": 4, "cidr": "10.9.8.0/24"}})
    return id


def console(up: Cloud, server: str) -> str:
    return str(up.post(f"{COMPUTE}/servers/{server}/action", {"os-getConsoleOutput": {}})["output"])


def see(up: Cloud, server: str, pattern: str, *, times: int = 1, seconds: float = BOOT) -> re.Match[str]:
    """Wait until the console shows what matches, so many times; the last match."""
    last = ""

    def there() -> re.Match[str] | None:
        nonlocal last
        last = console(up, server)
        found = list(re.finditer(pattern, last, re.MULTILINE))
        return found[-1] if len(found) >= times else None

    try:
        return wait(there, seconds)  # type: ignore[no-any-return]
    except AssertionError:
        raise AssertionError(f"{pattern} was not seen; the console ends: {last[-1500:]}") from None


def act(up: Cloud, server: str, action: str, value: Any = None) -> None:
    response = up.request("POST", f"{COMPUTE}/servers/{server}/action", json={action: value})
    assert response.status_code == 202, response.text


def become(up: Cloud, server: str, status: str) -> dict[str, Any]:
    """Wait until nothing is under way and the status is as wanted."""

    def there() -> dict[str, Any] | None:
        found = up.server(server)
        assert found is not None
        assert status == "ERROR" or found["status"] != "ERROR", found["fault"]
        return found if found["status"] == status and found["OS-EXT-STS:task_state"] is None else None

    found: dict[str, Any] = wait(there, 120)
    return found


def delete(up: Cloud, server: str) -> None:
    up.request("DELETE", f"{COMPUTE}/servers/{server}")
    wait(lambda: up.server(server) is None, 60)


@contextlib.contextmanager
def qemu_cloud(directory: Path, *words: str, **env: str) -> Iterator[Cloud]:
    """A cloud with real guests; whatever runs at the end is killed."""
    try:
        with cloud(directory, "--hypervisor", "qemu", *words, env={**ENV, **env}) as up:
            yield up
    finally:
        kill(directory)


def test_a_server_is_a_real_guest(directory: Path) -> None:
    """Boot, a look inside, another network card, kill -9 of the cloud, stop, start, shelve, unshelve, delete."""
    data = directory / "data"
    with qemu_cloud(data) as up:
        network = make_network(up)
        server = up.boot(
            "real", imageRef=upload(up), flavorRef=flavor(up), config_drive=True,
            user_data=base64.b64encode(SCRIPT).decode(), networks=[{"uuid": network}],
        )  # fmt: skip
        shown = become(up, server, "ACTIVE")
        (address,) = [one["addr"] for ones in shown["addresses"].values() for one in ones]
        found = see(up, server, r"guest: ready host=(\S+) ip=(\S*) metadata=(\S+)")
        assert found.groups() == ("real", address, "config-drive")
        told = up.get(f"{COMPUTE}/servers/{server}/diagnostics")
        assert (told["state"], told["num_cpus"], told["num_nics"]) == ("running", 1, 1)
        assert told["cpu_details"][0]["time"] > 0
        (pid,) = [pid for pid in processes(data) if pid != up.process.pid]

        up.kill()
        with started(Cloud(data, "--hypervisor", "qemu", env=ENV)) as again:
            again.ready()
            assert processes(host_of(data) / "guest") == [pid], (
                "the guest runs on, and nothing was started twice"
            )
            become(again, server, "ACTIVE")
            interface = again.post(
                f"{COMPUTE}/servers/{server}/os-interface", {"interfaceAttachment": {"net_id": network}}
            )
            see(again, server, r"^seen: \S+ nics=eth0,eth1,lo,", seconds=60)
            port = interface["interfaceAttachment"]["port_id"]
            assert (
                again.request("DELETE", f"{COMPUTE}/servers/{server}/os-interface/{port}").status_code == 202
            )
            see(again, server, r"^seen: \S+ nics=eth0,lo,", times=2, seconds=60)

            act(again, server, "os-stop")
            assert become(again, server, "SHUTOFF")["OS-EXT-STS:power_state"] == 4
            assert processes(host_of(data) / "guest") == []
            assert "Power down" in console(again, server)
            act(again, server, "os-start")
            become(again, server, "ACTIVE")
            (second,) = processes(host_of(data) / "guest")
            assert second != pid

            # Its disk becomes an image, and it leaves the host; then it comes back with what it had.
            act(again, server, "shelve")
            become(again, server, "SHELVED_OFFLOADED")
            wait(lambda: left(host_of(data)) == {}, 20)
            (saved,) = again.get("/image/v2/images?name=real-shelved")["images"]
            assert saved["size"] > image().stat().st_size
            act(again, server, "unshelve")
            become(again, server, "ACTIVE")
            see(again, server, rf"guest: ready host=real ip={address} metadata=config-drive")
            assert "user data" not in console(again, server), "it is the same system, not a new one"

            delete(again, server)
            assert processes(host_of(data) / "guest") == []
            wait(lambda: left(host_of(data)) == {}, 20)
            assert again.get("/cumulet/v1/orphans")["orphans"] == []


def test_a_guest_that_ends_by_itself_is_shown_stopped(directory: Path) -> None:
    with qemu_cloud(directory / "data") as up:
        server = up.boot("short")
        become(up, server, "ACTIVE")
        home = host_of(directory / "data") / "guest"
        (guest,) = os.listdir(home)
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as tools:
            link = directory / "t"  # a socket's name has little room
            link.symlink_to(home / guest / "tools")
            tools.connect(str(link))
            tools.sendall(b'{"execute": "qmp_capabilities"}\n{"execute": "quit"}\n')
            become(up, server, "SHUTOFF")
        act(up, server, "os-start")
        become(up, server, "ACTIVE")
        act(up, server, "reboot", {"type": "HARD"})
        become(up, server, "ACTIVE")
        delete(up, server)
        wait(lambda: left(host_of(directory / "data")) == {}, 20)


def test_what_is_deleted_while_the_cloud_is_dead_goes_when_it_comes_back(directory: Path) -> None:
    data = directory / "data"
    with qemu_cloud(data) as up:
        servers = [up.boot(f"s{i}") for i in range(3)]
        for server in servers:
            become(up, server, "ACTIVE")
        for server in servers:
            assert up.request("DELETE", f"{COMPUTE}/servers/{server}").status_code == 204
        up.kill()
        with started(Cloud(data, "--hypervisor", "qemu", env=ENV)) as again:
            again.ready()
            wait(lambda: again.get(f"{COMPUTE}/servers")["servers"] == [], 60)
            assert processes(host_of(data) / "guest") == []
            wait(lambda: left(host_of(data)) == {}, 20)


def test_a_host_that_joins_is_killed_after_a_guest_was_made(directory: Path) -> None:
    far = directory / "far"
    with cloud(directory / "data", "--hypervisor", "none", env={"CUMULET_FAULTS": "true"}) as up:
        token = run("token", "host", "far", "--data", up.directory).stdout.strip()
        words = ("host", "join", up.url, "--name", "far", "--state", far, "--hypervisor", "qemu")
        env = {**ENV, "CUMULET_HOST_TOKEN": token}
        try:
            with started(Program(*words, env=env)) as host:
                wait(lambda: state_of(up, "far") == "up", 30)
                rule = {
                    "step": "guest.ensure",
                    "effect": "crash",
                    "host": "far",
                    "moment": "after",
                    "count": 1,
                }
                up.post("/cumulet/v1/faults", rule)
                server = up.boot("survivor")
                assert host.process.wait(60) == -signal.SIGKILL
            (pid,) = processes(far)
            with started(Program(*words, env=env)) as host:
                become(up, server, "ACTIVE")
                assert processes(far / "guest") == [pid]
                delete(up, server)
                assert processes(far / "guest") == []
                assert host.stop() == 0
                assert left(far) == {}
        finally:
            kill(far)


def test_what_this_machine_lacks_is_named(directory: Path) -> None:
    for variable, value, word in (
        ("CUMULET_HOSTS_QEMU", "/nowhere/qemu", "apt-get install qemu-system-x86"),
        ("CUMULET_HOSTS_GUEST_USER", "nobody-like-this", "hosts.guest_user"),
    ):
        if "USER" in variable and os.geteuid() != 0:
            continue
        told = run(
            "up", "--data", directory / "data", "--hypervisor", "qemu", "--port", "0", env={variable: value}
        )
        assert told.returncode == MISSING
        assert word in told.stderr
        assert "Traceback" not in told.stderr
        assert not (directory / "data").exists()


def test_a_host_says_what_it_is(directory: Path) -> None:
    with qemu_cloud(directory / "data") as up:
        (found,) = up.get(f"{COMPUTE}/os-hypervisors/detail?with_servers=true")["hypervisors"]
        assert found["hypervisor_type"] == "QEMU"
        assert found["hypervisor_version"] >= 5_000_000
        (provider,) = up.get("/placement/resource_providers")["resource_providers"]
        inventories = up.get(f"/placement/resource_providers/{provider['uuid']}/inventories")["inventories"]
        assert inventories["VCPU"]["total"] == len(os.sched_getaffinity(0))
        assert 256 < inventories["MEMORY_MB"]["total"] < 1 << 24
        assert inventories["DISK_GB"]["total"] > 0
        headers = {
            "X-Auth-Token": up.login().headers["x-subject-token"],
            "OpenStack-API-Version": "placement 1.6",
        }
        traits = up.http.get(
            f"/placement/resource_providers/{provider['uuid']}/traits", headers=headers
        ).json()
        assert "COMPUTE_IMAGE_TYPE_QCOW2" in traits["traits"]
