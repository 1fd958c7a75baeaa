"""A whole cloud on one thread with a virtual clock: tenants, an operator, and everything that goes wrong.

A run follows from its seed. ``python -m tests.sim.cloud SEED`` repeats one and tells what it does.
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from cumulet.config import Config, Hosts, Reconcile
from cumulet.core import faults
from cumulet.db.engine import Tx
from tests.case import COMPUTE, NETWORK, VOLUME, Case
from tests.cloud import CHEAP
from tests.virtual import Stage

OPERATIONS = 50
FAULTS = 5
HOSTS = ("h1", "h2", "h3")
#: Answers that a tenant may get: the cloud says no, in words. A 5xx is a defect, but for "try again later".
FINE = {200, 201, 202, 204, 400, 403, 404, 409, 413, 503}


class Broken(AssertionError):
    """A law does not hold."""


@dataclass
class Run:
    """One run."""

    case: Case
    random: random.Random
    tell: Callable[[str], None] = lambda _: None
    servers: list[str] = field(default_factory=list)
    volumes: list[str] = field(default_factory=list)
    ports: list[str] = field(default_factory=list)
    operations: int = 0
    faults: int = 0
    stopped: set[str] = field(default_factory=set)

    # --- what tenants do ---

    async def call(self, method: str, path: str, body: Any = None, as_: str = "demo") -> httpx2.Response:
        self.operations += 1
        answer = await self.case.cloud.request(
            method, path, as_=as_, json=body,
            version="volume 3.70" if path.startswith(VOLUME) else "compute 2.96",
        )  # fmt: skip
        self.tell(f"{method} {path} {answer.status_code}")
        if answer.status_code not in FINE:
            raise Broken(f"{method} {path} answered {answer.status_code}: {answer.text}")
        return answer

    async def create_server(self) -> None:
        networks: Any = "none"
        if self.random.random() < 0.7:
            networks = [{"uuid": self.case.network["id"]}]
            if self.ports and self.random.random() < 0.5:
                networks.append({"port": self.random.choice(self.ports)})
        devices: list[dict[str, Any]] = [
            {"uuid": self.case.image, "source_type": "image", "destination_type": "local", "boot_index": 0}
        ]
        if self.volumes and self.random.random() < 0.4:
            devices.append(
                {
                    "uuid": self.random.choice(self.volumes),
                    "source_type": "volume",
                    "destination_type": "volume",
                }
            )
        if self.random.random() < 0.3:
            devices.append(
                {"source_type": "blank", "destination_type": "volume", "volume_size": 1,
                 "delete_on_termination": self.random.random() < 0.7}
            )  # fmt: skip
        body = {
            "name": "s", "flavorRef": self.case.flavor, "networks": networks, "imageRef": self.case.image,
            "block_device_mapping_v2": devices, "config_drive": self.random.random() < 0.3,
        }  # fmt: skip
        answer = await self.call("POST", f"{COMPUTE}/servers", {"server": body})
        if answer.status_code == 202:
            self.servers.append(answer.json()["server"]["id"])

    def _server(self) -> str | None:
        return self.random.choice(self.servers) if self.servers else None

    async def delete_server(self) -> None:
        if server := self._server():
            await self.call("DELETE", f"{COMPUTE}/servers/{server}")
            self.servers.remove(server)

    async def act(self) -> None:
        if server := self._server():
            action = self.random.choice(
                [{"os-start": None}, {"os-stop": None}, {"reboot": {"type": "HARD"}}, {"reboot": {"type": "SOFT"}},
                 {"shelve": None}, {"unshelve": None}, {"shelveOffload": None}]
            )  # fmt: skip
            as_ = "admin" if "shelveOffload" in action else "demo"
            await self.call("POST", f"{COMPUTE}/servers/{server}/action", action, as_)

    async def create_volume(self) -> None:
        answer = await self.call("POST", f"{VOLUME}/volumes", {"volume": {"size": 1}})
        if answer.status_code == 202:
            self.volumes.append(answer.json()["volume"]["id"])

    async def delete_volume(self) -> None:
        if self.volumes:
            volume = self.random.choice(self.volumes)
            answer = await self.call("DELETE", f"{VOLUME}/volumes/{volume}")
            if answer.status_code in (202, 404):
                self.volumes.remove(volume)

    async def attach_volume(self) -> None:
        server = self._server()
        if server and self.volumes:
            body = {"volumeAttachment": {"volumeId": self.random.choice(self.volumes)}}
            await self.call("POST", f"{COMPUTE}/servers/{server}/os-volume_attachments", body)

    async def detach_volume(self) -> None:
        server = self._server()
        if server and self.volumes:
            volume = self.random.choice(self.volumes)
            await self.call("DELETE", f"{COMPUTE}/servers/{server}/os-volume_attachments/{volume}")

    async def create_port(self) -> None:
        answer = await self.call(
            "POST", f"{NETWORK}/ports", {"port": {"network_id": self.case.network2["id"]}}
        )
        if answer.status_code == 201:
            self.ports.append(answer.json()["port"]["id"])

    async def delete_port(self) -> None:
        if self.ports:
            port = self.random.choice(self.ports)
            answer = await self.call("DELETE", f"{NETWORK}/ports/{port}")
            if answer.status_code in (204, 404):
                self.ports.remove(port)

    async def attach_interface(self) -> None:
        if server := self._server():
            attachment: dict[str, Any] = {"net_id": self.case.network["id"]}
            if self.ports and self.random.random() < 0.5:
                attachment = {"port_id": self.random.choice(self.ports)}
            await self.call(
                "POST", f"{COMPUTE}/servers/{server}/os-interface", {"interfaceAttachment": attachment}
            )

    async def detach_interface(self) -> None:
        if server := self._server():
            ports = (
                (await self.case.cloud.get(f"{COMPUTE}/servers/{server}/os-interface"))
                .json()
                .get("interfaceAttachments", [])
            )
            if ports:
                port = self.random.choice(ports)["port_id"]
                await self.call("DELETE", f"{COMPUTE}/servers/{server}/os-interface/{port}")

    # --- what goes wrong ---

    async def add_fault(self) -> None:
        step = self.random.choice([*faults.steps(), "*.ensure", "*.remove", "volume.*", "export.*"])
        effect = self.random.choice(["fail", "lose", "slow", "hold", "crash"])
        rule = faults.Rule(
            step=step, effect=effect, moment=self.random.choice(["before", "after"]),
            host=self.random.choice([None, None, *HOSTS]), count=self.random.randint(1, 4),
            seconds=self.random.uniform(0.1, 20.0) if effect == "slow" else None,
        )  # fmt: skip
        if effect == "hold":
            rule = faults.Rule(step=step, effect=effect, moment=rule.moment, host=rule.host)
        self.faults += 1
        self.tell(f"fault: {rule}")
        await self.case.db.write(faults.add, rule)

    async def clear_faults(self) -> None:
        self.tell("faults are lifted")
        await self.case.release()

    async def stop_agent(self) -> None:
        name = self.random.choice([*HOSTS, "sim", "network", "store"])
        self.faults += 1
        if name in self.stopped:
            self.tell(f"{name} comes back")
            self.stopped.discard(name)
            self.case.cloud.agents[name].start()
        else:
            self.tell(f"{name} stops")
            self.stopped.add(name)
            await self.case.cloud.agents[name].stop()

    async def force_down(self) -> None:
        host = self.random.choice(HOSTS)
        down = self.random.random() < 0.5
        self.faults += 1
        self.tell(f"{host} is forced {'down' if down else 'up'}")
        await self.case.force_down(host, down)

    async def wait(self) -> None:
        seconds = self.random.choice([0.0, 0.01, 0.1, 1.0, 10.0, 100.0])
        self.tell(f"{seconds} s pass")
        await asyncio.sleep(seconds)

    # --- the run ---

    async def go(self) -> None:
        """Operations and faults in random order, the laws after each, and nothing left at the end."""
        steps: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (10, self.create_server), (8, self.delete_server), (8, self.act), (4, self.create_volume),
            (3, self.delete_volume), (4, self.attach_volume), (3, self.detach_volume), (3, self.create_port),
            (2, self.delete_port), (3, self.attach_interface), (2, self.detach_interface), (5, self.add_fault),
            (2, self.clear_faults), (3, self.stop_agent), (2, self.force_down), (12, self.wait),
        ]  # fmt: skip
        weights = [weight for weight, _ in steps]
        while self.operations < OPERATIONS or self.faults < FAULTS:
            _, step = self.random.choices(steps, weights)[0]
            await step()
            await self.case.db.read(check_laws)
        await self.end()

    async def end(self) -> None:
        """Faults are lifted, everything of the tenants is deleted, and the ledger is as before."""
        await self.clear_faults()
        for name in sorted(self.stopped):
            self.case.cloud.agents[name].start()
        self.stopped.clear()
        for host in HOSTS:
            await self.case.force_down(host, False)
        listed = (await self.case.cloud.get(f"{COMPUTE}/servers")).json()["servers"]
        for server in listed:
            await self.call("DELETE", f"{COMPUTE}/servers/{server['id']}")
        for server in listed:
            await self.case.gone(server["id"])
        for port in (await self.case.get(f"{NETWORK}/ports?network_id={self.case.network2['id']}"))["ports"]:
            await self.call("DELETE", f"{NETWORK}/ports/{port['id']}")
        await self.case.until(self._no_volumes, "the volumes to be gone")
        await self.case.clean()
        await self.case.db.read(check_laws)

    async def _no_volumes(self) -> bool:
        volumes = (await self.case.get(f"{VOLUME}/volumes/detail", version="volume 3.70"))["volumes"]
        for volume in volumes:
            if volume["status"] in ("available", "error"):
                await self.call("DELETE", f"{VOLUME}/volumes/{volume['id']}")
        return not volumes


def check_laws(tx: Tx) -> None:
    """The laws that hold at every moment, whatever is broken. Raises Broken."""
    for law, sql in LAWS.items():
        row = tx.one(sql)
        if row is not None:
            raise Broken(f"{law}: {row}")


#: Law → a query that finds what breaks it.
LAWS = {
    "a holder that is not as desired is due, waits with a reason, or has a claim that its agent works on": (
        "select h.id, h.kind from holders h join servers s on s.id = h.id where h.due is null and h.waiting is null "
        "and s.task_state is not null"
    ),
    "a claim's holder is there, or it is a debt": (
        "select c.id from claims c left join holders h on h.id = c.holder where c.holder is not null and h.id is null "
        "or c.holder is null and not c.is_left"
    ),
    "a volume is exported to one host at a time": (
        "select v.volume_id from (select t.volume_id, c.spec from claims c join attachments t on t.id = c.part "
        "join volumes vv on vv.id = t.volume_id and not vv.multiattach "
        "where c.kind = 'export' and c.seen = 'present') v group by v.volume_id having count(*) > 1"
    ),
    "an allocation belongs to a server that is there": (
        "select c.id from consumers c left join servers s on s.id = c.id where s.id is null and c.type = 'INSTANCE'"
    ),
    "an attachment's server is there, or the volume waits for its end": (
        "select t.id from attachments t left join servers s on s.id = t.server_id "
        "where s.id is null and not t.passed and not t.by_client"
    ),
    "a port's server is there": (
        "select p.id from ports p left join servers s on s.id = p.device_id "
        "where p.device_owner like 'compute:%' and p.device_id <> '' and s.id is null"
    ),
    "a server on a host has its allocation there": (
        "select s.id from servers s left join consumers c on c.id = s.id where s.host is not null and c.id is null "
        "and s.desired <> 'gone' and s.desired <> 'failed' and s.desired <> 'offloaded' and not s.giving_up"
    ),
}


def run(seed: int, tell: Callable[[str], None] = lambda _: None) -> Run:
    """One run, of which everything follows from the seed. Raises Broken or AssertionError."""
    with tempfile.TemporaryDirectory(prefix="c-") as name:
        directory = Path(name)
        config = Config(
            auth=CHEAP, hosts=Hosts(count=len(HOSTS)), reconcile=Reconcile(patience=30.0, build_time=300.0)
        )
        stage = Stage(directory, config, seed)
        try:
            case = Case(stage.cloud, directory)
            stage.run(case.prepare())
            stage.run(case.settle())
            case.remember()
            made = Run(case, random.Random(seed), tell)
            stage.run(made.go())
            return made
        finally:
            stage.close()


def main() -> None:
    import logging

    import structlog

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    for seed in [int(word) for word in sys.argv[1:]]:
        made = run(seed, print)
        print(f"seed {seed}: {made.operations} operations, {made.faults} faults, nothing left")


if __name__ == "__main__":
    main()
