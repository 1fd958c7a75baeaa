"""Combinations of operation, step, fault and what comes then, over a cloud whose processes are killed.

``cumulet up`` and three hosts are processes of their own. A crash is a SIGKILL that a process gives itself at a step of
its work: a host's steps kill the host, those of volumes, networks and images kill the control plane. Whoever dies is
started again, as by an init system. Clients ask again when an answer was lost. What is run follows from a seed:

    python -m tests.process.killed SEED [COUNT]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import logging
import random
import secrets
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import structlog

from tests.cleanup.operations import OPERATIONS, THEN, staged
from tests.cleanup.steps import undisturbed
from tests.process.cumulet import Cloud, Program, await_clean, ledger, run

COMPUTE, NETWORK, VOLUME, IMAGE = "/compute/v2.1", "/network/v2.0", "/volume/v3", "/image/v2"
HOSTS = ("h1", "h2", "h3")
#: Servers at the same time, and combinations between two looks at everything.
AT_ONCE = 8
BETWEEN = 67
#: Seconds: until an operation has met its fault, and until a server has come to rest.
MEETING, RESTING = 4.0, 90.0
FAULTS: dict[str, dict[str, Any]] = {
    "refused": {"effect": "fail"},
    "done, but the answer is lost": {"effect": "lose"},
    "killed before": {"effect": "crash"},
    "killed after": {"effect": "crash", "moment": "after"},
    "held": {"effect": "hold"},
    "held, and the control plane is killed": {"effect": "hold"},
}
#: What as many servers at a time have more of than a project usually may.
QUOTAS = {
    f"{COMPUTE}/os-quota-sets/{{}}": ("instances", "cores", "ram", "server_groups"),
    f"{VOLUME}/os-quota-sets/{{}}": ("volumes", "snapshots", "gigabytes"),
}
#: Steps of claims that fault rules find by their server.
_OF_SERVERS = ("guest.", "disk.", "tap.", "connection.", "export.", "lport.")

Ask = Callable[["Server"], Awaitable[None]]


@dataclass(frozen=True)
class Operation:
    """As in tests/cleanup/operations.py, by requests."""

    ask: Ask
    reverse: Ask
    #: What is asked before, and the status that is waited for.
    before: tuple[Ask, str] | None = None
    volume_backed: bool = False


@dataclass
class Server:
    """One combination's server."""

    run: Run
    name: str
    port: str
    other_port: str
    volume: str
    other_volume: str
    id: str = ""
    host: str = ""

    @property
    def path(self) -> str:
        return f"{COMPUTE}/servers/{self.id}"

    async def shown(self) -> Mapping[str, Any] | None:
        code, body = await self.run.call("GET", self.path)
        return None if code == 404 else body["server"]

    async def act(self, action: str, body: Any = None) -> int:
        code, _ = await self.run.call("POST", f"{self.path}/action", {action: body})
        return code

    async def create(self, volume_backed: bool) -> None:
        devices: list[dict[str, Any]] = [
            {"boot_index": 0, "uuid": self.run.image, "source_type": "image", "destination_type": "local"},
            {"uuid": self.volume, "source_type": "volume", "destination_type": "volume"},
        ]
        if volume_backed:
            devices[0] |= {"destination_type": "volume", "volume_size": 1, "delete_on_termination": True}
        server = {
            "name": self.name, "flavorRef": self.run.flavors[0], "config_drive": not volume_backed,
            "networks": [{"port": self.port}, {"uuid": self.run.network}], "block_device_mapping_v2": devices,
        }  # fmt: skip
        if not volume_backed:
            server["imageRef"] = self.run.image
        while not self.id:
            code, body = await self.run.once("POST", f"{COMPUTE}/servers", {"server": server})
            if code == 202:
                self.id = body["server"]["id"]
                return
            if code is not None and code not in (400, 409):
                raise AssertionError(f"{self.name} could not be created: {code} {body}")
            # The answer may have been lost: then it is there, by its name.
            _, body = await self.run.call("GET", f"{COMPUTE}/servers?name=^{self.name}$")
            if body["servers"]:
                self.id = body["servers"][0]["id"]

    async def reaches(self, status: str) -> bool:
        """Wait until it has the status; False if it comes to rest with another one."""

        async def there() -> str | None:
            shown = await self.shown()
            if shown is None:
                return "GONE"
            return shown["status"] if shown["OS-EXT-STS:task_state"] is None else None

        rested = 0
        end = time.monotonic() + RESTING
        while time.monotonic() < end:
            found = await there()
            if found == status:
                return True
            # What was asked for may have failed, as where no host is up at this moment: then it stays as it was.
            rested = rested + 1 if found not in (None, "BUILD") else 0
            if rested > 20:
                return False
            await asyncio.sleep(0.05)
        return False

    async def rests(self) -> None:
        """Wait until nothing of it is under way."""

        async def rested() -> bool:
            shown = await self.shown()
            return shown is None or shown["OS-EXT-STS:task_state"] is None

        await self.run.until(rested, f"{self.name} ({self.id}) to rest")

    async def goes(self) -> None:
        """It is deleted for good, and 404."""
        await self.act("forceDelete")

        async def gone() -> bool:
            shown = await self.shown()
            if shown is not None and shown["OS-EXT-STS:task_state"] != "deleting":
                await self.act("forceDelete")
            return shown is None

        await self.run.until(gone, f"{self.name} ({self.id}) to be gone")


def acts(action: str, body: Any = None) -> Ask:
    async def ask(server: Server) -> None:
        await server.act(action, body)

    return ask


def requests(method: str, path: str, body: Callable[[Server], Any] | None = None) -> Ask:
    async def ask(server: Server) -> None:
        known = {"volume": server.other_volume, "port": server.other_port}
        await server.run.call(method, server.path + path.format(**known), body(server) if body else None)

    return ask


async def resize(server: Server) -> None:
    await server.act("resize", {"flavorRef": server.run.flavors[1]})


async def rebuild(server: Server) -> None:
    await server.act("rebuild", {"imageRef": server.run.image})


async def abort(server: Server) -> None:
    code, body = await server.run.call("GET", f"{server.path}/migrations")
    for move in body["migrations"] if code == 200 else ():
        await server.run.call("DELETE", f"{server.path}/migrations/{move['id']}")


async def lose_the_host(server: Server) -> None:
    await server.run.force_down(server.host, True)


async def host_returns(server: Server) -> None:
    await server.run.force_down(server.host, False)


async def drop_images(server: Server) -> None:
    _, body = await server.run.call("GET", f"{IMAGE}/images?instance_uuid={server.id}")
    for image in body["images"]:
        await server.run.call("DELETE", f"{IMAGE}/images/{image['id']}")


async def delete(server: Server) -> None:
    """Soft, in this cloud, and then for good."""
    await server.run.call("DELETE", server.path)
    await server.act("forceDelete")


delete_softly = requests("DELETE", "")
stop, start = acts("os-stop"), acts("os-start")
attach = requests(
    "POST", "/os-volume_attachments", lambda s: {"volumeAttachment": {"volumeId": s.other_volume}}
)
detach = requests("DELETE", "/os-volume_attachments/{volume}")
plug = requests("POST", "/os-interface", lambda s: {"interfaceAttachment": {"port_id": s.other_port}})
unplug = requests("DELETE", "/os-interface/{port}")
take_image, restore, shelve, unshelve = (
    acts("createImage", {"name": "saved"}), acts("restore"), acts("shelve"), acts("unshelve"),
)  # fmt: skip
HTTP: dict[str, Operation] = {
    "delete": Operation(delete, delete),
    "stop": Operation(stop, start),
    "start": Operation(start, stop, (stop, "SHUTOFF")),
    "reboot": Operation(acts("reboot", {"type": "SOFT"}), stop),
    "hard reboot": Operation(acts("reboot", {"type": "HARD"}), stop),
    "pause": Operation(acts("pause"), acts("unpause")),
    "unpause": Operation(acts("unpause"), acts("pause"), (acts("pause"), "PAUSED")),
    "suspend": Operation(acts("suspend"), acts("resume")),
    "resume": Operation(acts("resume"), acts("suspend"), (acts("suspend"), "SUSPENDED")),
    "rescue": Operation(acts("rescue"), acts("unrescue")),
    "unrescue": Operation(acts("unrescue"), acts("rescue"), (acts("rescue"), "RESCUE")),
    "rebuild": Operation(rebuild, stop),
    "rebuild a volume": Operation(rebuild, stop, volume_backed=True),
    "resize": Operation(resize, acts("revertResize")),
    "migrate": Operation(acts("migrate"), acts("revertResize")),
    "confirm": Operation(acts("confirmResize"), acts("revertResize"), (resize, "VERIFY_RESIZE")),
    "revert": Operation(acts("revertResize"), acts("confirmResize"), (resize, "VERIFY_RESIZE")),
    "live migrate": Operation(acts("os-migrateLive", {"host": None, "block_migration": "auto"}), abort),
    "evacuate": Operation(acts("evacuate", {}), host_returns, (lose_the_host, "ACTIVE")),
    "shelve": Operation(shelve, unshelve),
    "unshelve": Operation(unshelve, shelve, (shelve, "SHELVED_OFFLOADED")),
    "create image": Operation(take_image, drop_images),
    "create image of volumes": Operation(take_image, drop_images, volume_backed=True),
    "create backup": Operation(
        acts("createBackup", {"name": "backup", "backup_type": "daily", "rotation": 1}), drop_images
    ),
    "soft delete": Operation(delete_softly, restore),
    "restore": Operation(restore, delete_softly, (delete_softly, "SOFT_DELETED")),
    "attach volume": Operation(attach, detach),
    "detach volume": Operation(detach, attach, (attach, "ACTIVE")),
    "attach port": Operation(plug, unplug),
    "detach port": Operation(unplug, plug, (plug, "ACTIVE")),
}
#: Operations that no request of a user leads to.
NOT_ASKED = {"swap volume": "block storage asks for it, while it migrates a volume"}
assert set(HTTP) | set(NOT_ASKED) == set(OPERATIONS)

Step = tuple[str, str]
Combination = tuple[str, Step, str, str]


def combinations(steps: Mapping[str, Sequence[Step]]) -> list[Combination]:
    """All that there are, of which a run samples."""
    found = []
    for name in HTTP:
        for step, fault, then in itertools.product(steps[name], FAULTS, THEN):
            if step[0] != "schedule" or fault.startswith("held"):
                found.append((name, step, fault, then))
    return found


@dataclass
class Run:
    """A cloud of several processes, and what is done to it."""

    directory: Path
    random: random.Random
    tell: Callable[[str], None] = lambda _: None
    kills: int = 0
    met: int = 0
    done: int = 0
    image: str = ""
    network: str = ""
    flavors: tuple[str, str] = ("", "")
    hosts: dict[str, Program] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)
    services: dict[str, str] = field(default_factory=dict)
    rules: set[str] = field(default_factory=set)

    # --- processes ---

    @contextlib.asynccontextmanager
    async def processes(self) -> AsyncIterator[None]:
        """All are up while the block runs, again and again."""
        port = "0"

        def control() -> Cloud:
            return Cloud(
                self.directory, "--hypervisor", "none", "--port", port, dies="rules",
                env={"CUMULET_RECONCILE_RECLAIM_AFTER": "3600"},
            )  # fmt: skip

        self.up = control()
        try:
            self.up.ready()
            port = self.up.url.rsplit(":", 1)[1]
            self.control = control
            login = self.up.login()
            self.token = login.headers["x-subject-token"]
            self.project = login.json()["token"]["project"]["id"]
            self.http = httpx2.AsyncClient(base_url=self.up.url, timeout=30.0, trust_env=False)
            for host in HOSTS:
                self.tokens[host] = run("token", "host", host, "--data", self.directory).stdout.strip()
                self.hosts[host] = self.join(host)
            self.watcher = asyncio.create_task(self.watch())
            try:
                await self.until(self.are_up, "the hosts to join")
                yield
            finally:
                self.watcher.cancel()
                await asyncio.gather(self.watcher, return_exceptions=True)
                await self.http.aclose()
        finally:
            for program in (self.up, *self.hosts.values()):
                program.close()

    def join(self, host: str) -> Program:
        state = self.directory / "agents" / f"host-{host}"
        env = {"CUMULET_HOST_TOKEN": self.tokens[host]}
        return Program("host", "join", self.up.url, "--name", host, "--state", state, env=env)

    async def watch(self) -> None:
        """Start whoever was killed again."""
        while True:
            if self.ended(self.up):
                self.up.close()
                self.up = self.control()
                try:
                    await asyncio.to_thread(self.up.ready)
                except AssertionError:
                    # Killed again before it served is one more kill.
                    if self.up.process.poll() != -signal.SIGKILL:
                        raise
            for host, program in self.hosts.items():
                if self.ended(program):
                    program.close()
                    self.hosts[host] = self.join(host)
            await asyncio.sleep(0.05)

    def ended(self, program: Program) -> bool:
        code = program.process.poll()
        if code is None:
            return False
        if code != -signal.SIGKILL:
            raise AssertionError(f"a process ended by itself ({code}):\n{program.output[-3000:]}")
        self.kills += 1
        return True

    async def are_up(self) -> bool:
        _, body = await self.call("GET", "/cumulet/v1/agents")
        return sum(agent["state"] == "up" for agent in body["agents"] if agent["name"] in HOSTS) == len(HOSTS)

    # --- requests ---

    async def once(self, method: str, path: str, body: Any = None) -> tuple[int | None, Any]:
        """One request; its code is None if no answer came."""
        if self.watcher.done():
            self.watcher.result()
        headers = {"X-Auth-Token": self.token, "OpenStack-API-Version": "compute 2.94"}
        if path.startswith(VOLUME):
            headers["OpenStack-API-Version"] = "volume 3.70"
        try:
            response = await self.http.request(method, path, json=body, headers=headers)
        except httpx2.TransportError:
            return None, None
        if response.status_code >= 500 and response.status_code != 503:
            raise AssertionError(f"{method} {path}: {response.status_code} {response.text}")
        answer = response.content and response.headers.get("content-type", "").startswith("application/json")
        return response.status_code, response.json() if answer else None

    async def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """The same, asked again until an answer comes: that something was done twice is what clients live with."""
        end = time.monotonic() + RESTING
        while True:
            code, found = await self.once(method, path, body)
            if code is not None and code != 503:
                return code, found
            assert time.monotonic() < end, f"{method} {path} is not answered"
            await asyncio.sleep(0.1)

    async def made(self, path: str, noun: str, **body: Any) -> str:
        code, found = await self.call("POST", path, {noun: body})
        assert code in (200, 201, 202), found
        return str(found[noun]["id"])

    async def until(self, check: Callable[[], Awaitable[bool]], what: str) -> None:
        end = time.monotonic() + RESTING
        while not await check():
            if time.monotonic() > end:
                _, waiting = await self.call("GET", "/cumulet/v1/holders")
                _, debts = await self.call("GET", "/cumulet/v1/debts")
                raise AssertionError(f"waited in vain for {what}; waiting: {waiting}; debts: {debts}")
            await asyncio.sleep(0.05)

    async def force_down(self, host: str, down: bool) -> None:
        if host not in self.services:
            _, body = await self.call("GET", f"{COMPUTE}/os-services?host={host}&binary=nova-compute")
            self.services[host] = body["services"][0]["id"]
        await self.call("PUT", f"{COMPUTE}/os-services/{self.services[host]}", {"forced_down": down})

    # --- combinations ---

    async def prepare(self) -> list[Server]:
        """What servers are made with: as many as there are at the same time."""
        for path, names in QUOTAS.items():
            limits = dict.fromkeys(names, -1)
            code, body = await self.call("PUT", path.format(self.project), {"quota_set": limits})
            assert code == 200, body
        _, body = await self.call("GET", f"{IMAGE}/images?name=tiny")
        self.image = body["images"][0]["id"]
        _, body = await self.call("GET", f"{COMPUTE}/flavors/detail")
        flavors = sorted(body["flavors"], key=lambda flavor: (flavor["ram"], flavor["disk"]))
        self.flavors = flavors[0]["id"], next(f["id"] for f in flavors if f["disk"] > flavors[0]["disk"])
        self.network = await self.made(f"{NETWORK}/networks", "network", name="n")
        await self.made(
            f"{NETWORK}/subnets", "subnet", network_id=self.network, ip_version=4, cidr="192.168.7.0/24"
        )
        servers = []
        for i in range(AT_ONCE):
            ports = [await self.made(f"{NETWORK}/ports", "port", network_id=self.network) for _ in range(2)]
            volumes = [await self.made(f"{VOLUME}/volumes", "volume", size=1) for _ in range(2)]
            servers.append(Server(self, f"s{i}", *ports, *volumes))
        self.kept = {volume for server in servers for volume in (server.volume, server.other_volume)}
        await self.until(self.is_at_rest, "the cloud to settle")
        self.before = ledger(self.directory)
        return servers

    async def is_at_rest(self) -> bool:
        _, body = await self.call("GET", "/cumulet/v1/summary")
        counts = body["summary"]
        return not (counts["waiting"] or counts["debts"] or counts["orphans"] or counts["failing"])

    async def one(self, server: Server, number: int, combination: Combination) -> None:
        name, (step, agent), fault, then = combination
        operation = HTTP[name]
        server.name, server.id = f"n{number}", ""
        try:
            await server.create(operation.volume_backed)
            if await server.reaches("ACTIVE"):
                await self.broken(server, operation, step, agent, fault, then)
        finally:
            self.tell(f"{number}: {name}: {step} on {agent}: {fault}: {then}")
        await server.goes()
        self.done += 1

    async def broken(
        self, server: Server, operation: Operation, step: str, agent: str, fault: str, then: str
    ) -> None:
        shown = await server.shown()
        server.host = str(shown and shown["OS-EXT-SRV-ATTR:host"])
        if operation.before is not None:
            await operation.before[0](server)
            if not await server.reaches(operation.before[1]):
                return
        rule: dict[str, Any] = {"step": step, "count": 1, **FAULTS[fault]}
        if rule["effect"] == "hold":
            del rule["count"]
        if step.startswith(_OF_SERVERS):
            rule["server"] = server.name
        if agent == HOSTS[0]:
            rule["host"] = server.host
        _, body = await self.call("POST", "/cumulet/v1/faults", rule)
        id = body["id"]
        self.rules.add(id)
        await operation.ask(server)
        await self.meets(server, id)
        if fault.endswith("is killed") and self.up.process.poll() is None:
            self.up.process.kill()
        if then == "is deleted":
            await delete(server)
        elif then == "turns back":
            await operation.reverse(server)
        if rule["effect"] == "hold" or then == "is deleted":
            await self.lift(id)
        if then != "is deleted":
            await server.rests()
        await self.lift(id)
        if operation.before is not None and operation.before[0] is lose_the_host:
            await host_returns(server)

    async def meets(self, server: Server, rule: str) -> None:
        """Wait until the rule has hit, or it is clear that it will not."""
        end = time.monotonic() + MEETING
        while time.monotonic() < end:
            _, body = await self.call("GET", "/cumulet/v1/faults")
            left = [one for one in body["faults"] if one["id"] == rule]
            shown = await server.shown()
            _, held = await self.call("GET", "/cumulet/v1/holders")
            waits = [one["reason"] for one in held["holders"] if one["id"] == server.id]
            if not left or left[0]["hits"] or any(why.startswith("a fault rule holds") for why in waits):
                self.met += 1
                return
            if shown is None:
                return
            await asyncio.sleep(0.05)

    async def lift(self, rule: str) -> None:
        if rule in self.rules:
            self.rules.discard(rule)
            await self.call("DELETE", f"/cumulet/v1/faults/{rule}")

    async def clean(self) -> None:
        """No server is there: what was made of them goes, and everything is as before."""
        await self.call("DELETE", "/cumulet/v1/faults")
        for host in HOSTS:
            await self.force_down(host, False)
        await self.until(self.are_up, "the hosts to be up")
        await self.until(self.has_nothing, "images, snapshots and volumes to go")
        await self.until(self.is_at_rest, "the cloud to settle")
        await asyncio.to_thread(await_clean, self.before, self.directory)
        _, body = await self.call("GET", "/cumulet/v1/audit")
        assert body["findings"] == []

    async def has_nothing(self) -> bool:
        left = False
        for path, noun in (
            (f"{IMAGE}/images?visibility=private", "images"), (f"{VOLUME}/snapshots", "snapshots"),
            (f"{VOLUME}/volumes", "volumes"),
        ):  # fmt: skip
            _, body = await self.call("GET", path)
            for one in body[noun]:
                if one["id"] not in self.kept:
                    left = True
                    await self.call("DELETE", f"{path.split('?')[0]}/{one['id']}")
        return not left

    async def all(self, chosen: Sequence[Combination], until: float) -> None:
        """All combinations, some at a time."""
        async with self.processes():
            servers = await self.prepare()
            numbered = list(enumerate(chosen))
            for first in range(0, len(numbered), BETWEEN):
                some = iter(numbered[first : first + BETWEEN])

                async def work(server: Server, some: Any = some) -> None:
                    for number, combination in some:
                        if time.monotonic() > until:
                            return
                        try:
                            await self.one(server, number, combination)
                        except BaseException as error:
                            error.add_note(f"in combination {number}: {combination}")
                            raise

                async with asyncio.TaskGroup() as group:
                    for server in servers:
                        group.create_task(work(server))
                await self.clean()
                if time.monotonic() > until:
                    return


def steps() -> dict[str, list[Step]]:
    """The steps of every operation, seen in a simulated cloud inside this process."""
    with staged() as (stage, stand):
        return {name: stage.run(undisturbed(stand, OPERATIONS[name])) for name in HTTP}


def killed(
    seed: int, count: int, *, seconds: float = 3600.0, tell: Callable[[str], None] = lambda _: None
) -> Run:
    """Run ``count`` combinations, or as many as there is time for. Raises AssertionError if anything is left."""
    chance = random.Random(seed)
    every = combinations(steps())
    chosen = chance.sample(every, min(count, len(every)))
    with tempfile.TemporaryDirectory(prefix="c-") as directory:
        made = Run(Path(directory) / "data", chance, tell)
        asyncio.run(made.all(chosen, time.monotonic() + seconds))
        return made


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("seed", nargs="?", type=int, default=None)
    options.add_argument("count", nargs="?", type=int, default=200)
    options.add_argument("--seconds", type=float, default=3600.0, help="begin nothing new after that time")
    given = options.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    seed = secrets.randbelow(1 << 31) if given.seed is None else given.seed
    try:
        made = killed(
            seed, given.count, seconds=given.seconds, tell=print if sys.stdout.isatty() else lambda _: None
        )
    except BaseException:
        print(f"repeat with: python -m tests.process.killed {seed} {given.count}")
        raise
    print(
        f"seed {seed}: {made.done} combinations, {made.met} faults met, {made.kills} processes killed, 0 left"
    )


if __name__ == "__main__":
    main()
