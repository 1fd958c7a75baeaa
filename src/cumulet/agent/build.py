"""Builds an agent over a state directory, with the drivers that the settings ask for, and keeps it running."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import httpx2
import structlog

from cumulet.agent.client import Client
from cumulet.agent.loop import Agent, Crashed
from cumulet.agent.store import Store
from cumulet.chance import Chance
from cumulet.config import Config
from cumulet.drivers import program, qemu, sim
from cumulet.drivers.base import Driver
from cumulet.drivers.download import Rules
from cumulet.drivers.imagefiles import ImageFiles
from cumulet.drivers.qemu import host
from cumulet.drivers.volumefiles import VolumeFiles
from cumulet.wire.asgi import Application

log = structlog.get_logger()

Kind = Literal["host", "volume", "network", "image"]
#: Pause before a crashed agent is started again, in seconds.
RESTART_PAUSE = 0.05


def inventories(config: Config) -> dict[str, Any]:
    """What a simulated host says that it has."""
    hosts = config.hosts
    return {
        "VCPU": {"total": hosts.vcpus, "reserved": 0, "ratio": hosts.cpu_ratio},
        "MEMORY_MB": {"total": hosts.ram_mb, "reserved": hosts.reserved_ram_mb, "ratio": hosts.ram_ratio},
        "DISK_GB": {"total": hosts.disk_gb, "reserved": 0, "ratio": hosts.disk_ratio},
    }


def booted_at() -> float:
    """When this machine was started, in seconds since the epoch; the same whenever it is asked."""
    with contextlib.suppress(OSError, StopIteration, ValueError), open("/proc/stat") as file:
        return float(next(line.split()[1] for line in file if line.startswith("btime ")))
    return round(time.time() - time.monotonic())


def check(kind: Kind, config: Config) -> None:
    """Raise Refused if an agent of the kind cannot work on this machine."""
    if kind == "host" and config.hosts.hypervisor == "qemu":
        host.check(config.hosts)


def facts(kind: Kind, config: Config, directory: Path) -> dict[str, Any]:
    """What an agent says of itself in its hello."""
    if kind == "host" and config.hosts.hypervisor == "qemu":
        return {**host.facts(config.hosts, directory), "booted_at": booted_at()}
    if kind == "host":
        return {
            "hypervisor": config.hosts.hypervisor,
            "inventories": inventories(config),
            "booted_at": booted_at(),
            "passwords": True,
        }
    if kind == "volume":
        return {
            "backend": config.volumes.backend,
            "capacity_gb": config.volumes.capacity_gb,
            # A simulated host connects an export before its guest uses it, and loses it when it is removed.
            "connects": config.volumes.backend == "sim",
            "fences": config.volumes.backend == "sim",
            # A file is locked by the guest that writes to it.
            "multiattach": config.volumes.backend == "sim",
        }
    return {}


def drivers(
    kind: Kind,
    name: str,
    store: Store,
    client: Client,
    config: Config,
    chance: Chance,
    closing: contextlib.ExitStack,
) -> list[Driver]:
    """The drivers of an agent. ``closing`` lets go of what they hold in this process."""
    directory = store.directory
    if kind == "host" and config.hosts.hypervisor == "qemu":
        return qemu.drivers(directory, store.working, client.bytes_of, config.hosts, closing)
    if kind == "host":
        return [sim.SimDriver(directory, sim.HOST_KINDS, chance)]
    if kind == "volume" and config.volumes.backend == "files":
        user = program.user(config.hosts.guest_user)
        return [VolumeFiles(directory, store.working, client.bytes_of, user)]
    if kind == "volume":
        return [sim.SimDriver(directory, sim.VOLUME_KINDS, chance, target=name)]
    if kind == "network":
        return [sim.SimDriver(directory, sim.NETWORK_KINDS, chance)]
    web = Rules(private=config.images.import_private, seconds=config.images.import_seconds)
    return [ImageFiles(directory, client.bytes_of, limit=config.images.size_limit_gb << 30, web=web)]


class Supervisor:
    """Runs one agent, and runs it anew from its state directory when a fault rule crashed it."""

    def __init__(
        self,
        kind: Kind,
        name: str,
        directory: Path,
        http: httpx2.AsyncClient,
        agent_id: str,
        token: str,
        config: Config,
        chance: Chance,
        *,
        crash: Callable[[], None] | None = None,
        application: Application | None = None,
    ) -> None:
        self.kind = kind
        self.name = name
        self.directory = directory
        self.client = Client(http, agent_id, token, application)
        self.config = config
        self.chance = chance
        self.crash = crash
        self.agent: Agent | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> asyncio.Task[None]:
        """Run as a task of its own, until ``stop``."""
        self._task = asyncio.create_task(self.run())
        return self._task

    async def stop(self) -> None:
        """End it; what it has stays as it is."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None

    async def _facts(self) -> dict[str, Any]:
        if self.config.hosts.hypervisor == "qemu":
            # Programs are asked for their versions.
            return await asyncio.to_thread(facts, self.kind, self.config, self.directory)
        return facts(self.kind, self.config, self.directory)

    async def run(self) -> None:
        """Serve until cancelled. Raises Rejected if the control plane does not know the agent."""
        while True:
            store = Store(self.directory, self.chance)
            closing = contextlib.ExitStack()
            try:
                self.agent = Agent(
                    self.client,
                    store,
                    drivers(self.kind, self.name, store, self.client, self.config, self.chance, closing),
                    kind=self.kind,
                    name=self.name,
                    facts=await self._facts(),
                    chance=self.chance,
                    audit_every=self.config.reconcile.sweep,
                    crash=self.crash,
                )
                await self.agent.run()
            except Crashed:
                log.warning("agent crashed by a fault rule", agent=self.name)
                await asyncio.sleep(RESTART_PAUSE)
            finally:
                self.agent = None
                closing.close()
                store.close()
