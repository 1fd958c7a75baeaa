"""The composition root: which roles, which database, which drivers. The only file that knows all others."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import httpx2
import structlog

from cumulet import policy_file
from cumulet.agent.build import Kind, Supervisor
from cumulet.api import admin, agent, compute, identity, image, network, placement, root, volume
from cumulet.api.asgi import Application, Area
from cumulet.api.cloud import Cloud, Metrics
from cumulet.api.questions import Questions
from cumulet.api.relay import Relay
from cumulet.chance import Chance
from cumulet.config import Config
from cumulet.core import (
    flavors,
    holding,
    images,
    metadefs,
    network_seed,
    resource_classes,
    retention,
    servers,
    token,
    traits,
    unmanaged,
    volume_types,
    volumes,
)
from cumulet.core.passwords import Passwords
from cumulet.core.policy import Policy
from cumulet.db.engine import Database, Tx
from cumulet.errors import Unavailable
from cumulet.reconcile import agents, mode, worker
from cumulet.reconcile.plan import image as image_plan
from cumulet.reconcile.plan import network as network_plan
from cumulet.reconcile.plan import server as server_plan
from cumulet.reconcile.plan import volume as volume_plan
from cumulet.reconcile.sweep import Sweeper
from cumulet.values import Limits
from cumulet.wire.asgi import InProcess

log = structlog.get_logger()

#: Every API of the cloud; the first serves what no other prefix does.
AREAS: tuple[Area, ...] = (
    root.AREA,
    identity.AREA,
    image.AREA,
    compute.AREA,
    network.AREA,
    placement.AREA,
    volume.AREA,
    agent.AREA,
    admin.AREA,
)

#: What a new cloud has, apart from its first users and its image; each can be run at every start.
SEEDS: tuple[Callable[[Tx], None], ...] = (
    flavors.seed,
    resource_classes.seed,
    traits.seed,
    network_seed.seed,
    metadefs.seed,
    volume_types.seed,
)

_VOLUME = worker.Kind(volume_plan.RULES, volumes.view, volumes.apply)
#: How each kind of holder is reconciled.
KINDS = {
    "server": worker.Kind(server_plan.RULES, servers.view, servers.apply),
    "volume": _VOLUME,
    "snapshot": _VOLUME,
    "backup": _VOLUME,
    "unmanaged": worker.Kind((), unmanaged.view, unmanaged.apply),
    "image": worker.Kind(image_plan.RULES, images.view, images.apply),
    **{
        kind: worker.Kind(network_plan.RULES, partial(holding.view, kind=kind), holding.apply)
        for kind in holding.KINDS
    },
}


def policy(areas: Sequence[Area] = AREAS, overrides: Mapping[str, str] | None = None) -> Policy:
    """The rules of all routes with their upstream defaults, and what an operator replaced."""
    checks: dict[str, str] = {}
    for area in areas:
        checks.update(area.rules)
        checks.update({route.rule: route.check for route in area.routes if route.rule})
    return Policy({**checks, **(overrides or {})})


def uses(areas: Sequence[Area] = AREAS) -> dict[str, list[str]]:
    """Rule → the requests that it is for, as "compute POST /v2.1/servers/{server_id}/action: reboot"."""
    found: dict[str, list[str]] = {}
    for area in areas:
        for route in area.routes:
            action = f": {route.action}" if route.action else ""
            line = f"{area.name} {route.method} {route.path}{action}"
            if route.rule and line not in found.setdefault(route.rule, []):
                found[route.rule].append(line)
    return found


def rules(config: Config) -> Policy:
    """The rules that are in force, with the operator's file. Raises Refused."""
    if not config.policy_file:
        return policy()
    replaced = policy_file.read(Path(config.policy_file))
    made = policy(overrides=replaced)
    policy_file.verify(config.policy_file, made, replaced)
    for name in policy_file.unasked(policy(), replaced):
        log.warning("policy: nothing asks for this rule", rule=name, file=config.policy_file)
    return made


def limits(config: Config) -> Limits:
    """What plans are told of the settings."""
    return Limits(
        patience=config.reconcile.patience,
        build_attempts=config.reconcile.build_attempts,
        build_time=config.reconcile.build_time,
        offload_after=config.reconcile.offload_after,
        confirm_after=config.reconcile.confirm_after,
    )


def reconciler(db: Database, config: Config) -> worker.Reconciler:
    """The reconciler, joined to the database so that transactions settle what they touch."""
    made = worker.Reconciler(KINDS, limits(config))
    db.settle = made.settle
    return made


def application(
    db: Database, config: Config, chance: Chance, *, metrics: Metrics | None = None, address: str = ""
) -> Application:
    """The ASGI application over an open, prepared and seeded database."""
    cloud = Cloud(
        db=db,
        chance=chance,
        policy=rules(config),
        config=config,
        caller=token.verifier(db, config),
        passwords=Passwords(
            memory_kib=config.auth.hash_memory_kib,
            passes=config.auth.hash_passes,
            failures=config.auth.throttle_failures,
            wait=config.auth.throttle_seconds,
        ),
        metrics=metrics or Metrics(),
        # Others can ask for the agents that poll this process only where they share its database.
        questions=Questions(
            db.wake, chance, Relay(db, address) if address and db.dialect == "postgresql" else None
        ),
        sweeper=Sweeper(
            db,
            KINDS,
            limits(config),
            floor=config.reconcile.sweep_floor,
            stuck_after=config.reconcile.stuck_after,
        ),
        log_requests=config.log.requests,
        behind_proxy=config.server.behind_proxy,
    )
    return Application(cloud, AREAS)


def local_agents(config: Config) -> list[tuple[Kind, str]]:
    """The agents that run inside the process: (kind, name)."""
    found: list[tuple[Kind, str]] = []
    if "agent" not in config.roles:
        return found
    found += [("image", "store"), ("network", "network")]
    if config.volumes.backend != "none":
        found.append(("volume", config.volumes.backend))
    if config.hosts.hypervisor == "sim":
        found += [("host", f"h{i + 1}") for i in range(config.hosts.count)]
    elif config.hosts.hypervisor == "qemu":
        found.append(("host", os.uname().nodename))
    return found


@contextlib.asynccontextmanager
async def running(
    db: Database, app: Application, config: Config, chance: Chance, directory: Path
) -> AsyncIterator[dict[str, Supervisor]]:
    """Workers and local agents, while the block runs; yields the agents by name."""
    supervisors: dict[str, Supervisor] = {}
    tasks: list[asyncio.Task[None]] = []
    made = reconciler(db, config)
    made.report_only = await db.read(mode.report_only) is not None
    if made.report_only:
        log.warning("report-only: nothing is made or removed before 'cumulet audit --accept'")
    await app.cloud.questions.begin()
    parts = app.cloud.parts
    if "reconcile" in config.roles:
        works = worker.Worker(db, made)
        parts["worker"] = asyncio.create_task(works.run())
        parts["judge"] = asyncio.create_task(works.judge(min(config.reconcile.patience / 4, 5.0)))
        assert app.cloud.sweeper is not None
        parts["sweep"] = asyncio.create_task(works.sweep(app.cloud.sweeper, config.reconcile.sweep))
        parts["refresh"] = asyncio.create_task(works.refresh(config.reconcile.patience))
        parts["retention"] = asyncio.create_task(_forget(db, config))
        tasks += [parts["worker"], parts["judge"], parts["sweep"], parts["refresh"], parts["retention"]]
    async with httpx2.AsyncClient(transport=InProcess(app), base_url="http://cumulet") as http:
        for kind, name in local_agents(config):
            secret = chance.token()
            id = await db.write(agents.register, kind, name, secret)
            supervisors[name] = Supervisor(
                kind,
                name,
                directory / "agents" / f"{kind}-{name}",
                http,
                id,
                secret,
                config,
                chance,
                application=app,
            )
            parts[f"{kind} {name}"] = supervisors[name].start()
            parts[f"{kind} {name}"].add_done_callback(_tell)
        for task in tasks:
            task.add_done_callback(_tell)
        try:
            yield supervisors
        finally:
            await asyncio.gather(*(supervisor.stop() for supervisor in supervisors.values()))
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)


async def _forget(db: Database, config: Config) -> None:
    """Remove what is kept for a time only, now and then."""
    while True:
        try:
            more = True
            while more:
                more = await db.write(retention.forget, config.reconcile.history_days)
                await asyncio.sleep(0)  # requests come in between
        except Unavailable as error:
            log.warning("nothing old was removed", reason=error.message)
        await asyncio.sleep(3600)


def _tell(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        log.error("a part of the process ended", exc_info=task.exception())
