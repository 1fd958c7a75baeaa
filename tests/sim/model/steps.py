"""What can happen next in a small cloud: what users ask, what agents do, and what goes wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from cumulet.reconcile.plan import base
from tests.sim.model import agents, control, users, views
from tests.sim.model.cloud import Cloud
from tests.sim.model.world import POWER, SERVER, Agent, Control, World, added, drop, without


def steps(cloud: Cloud, w: World) -> Iterator[tuple[str, World]]:
    """Everything that can happen next, with a name. Raises Broken."""
    yield from _asked(cloud, w)
    if cloud.torn:
        yield from _workers(cloud, w)
    elif cloud.users:
        after = settled(cloud, w)
        if after != w:
            yield "the worker comes", after
    for i in range(len(cloud.names)):
        yield from agents.steps(cloud, w, i)
    if w.faults < cloud.faults:
        for label, after in _faults(cloud, w):
            yield label, replace(after, faults=w.faults + 1)
    for name in cloud.unsteady:
        if name not in w.control.away:
            yield f"{name} is silent", _silent(cloud, w, name)
    for name in w.control.away:
        yield f"{name} comes back", _judged(cloud, w, name, without(w.control.away, name))


def settled(cloud: Cloud, w: World) -> World:
    """The world after its reconcile."""
    return to(cloud, w, w.control)


def to(cloud: Cloud, w: World, c: Control) -> World:
    """The world with that control plane, reconciled."""
    return replace(w, control=control.settle(cloud, c))


def _silent(cloud: Cloud, w: World, name: str) -> World:
    return _judged(cloud, w, name, added(w.control.away, [name]))


def _judged(cloud: Cloud, w: World, name: str, away: tuple[str, ...]) -> World:
    """Who holds something there is looked at; others are when the worker comes."""
    c = replace(w.control, away=away)
    return replace(w, control=c) if cloud.users and not holds(w, name) else to(cloud, w, c)


def holds(w: World, agent: str) -> bool:
    """True if a holder waits for something at the agent."""
    return any(claim.agent == agent and claim.holder is not None for claim in w.control.claims)


def _asked(cloud: Cloud, w: World) -> Iterator[tuple[str, World]]:
    c = w.control
    if c.server is not None:
        deleted = users.delete(c, c.server)
        if deleted is not None:
            yield "user deletes", to(cloud, w, deleted)
    if "deletes the volume" in cloud.users:
        gone = users.delete_volume(c)
        if gone is not None:
            yield "user deletes the volume", to(cloud, w, gone)
    for name in cloud.users:
        if name in w.done or name not in users.ASKS or c.server is None:
            continue
        after = users.ASKS[name](c, c.server)
        if after is not None:
            asked = replace(w, done=added(w.done, [name]))
            later = name in users.LATER
            yield f"user {name}", replace(asked, control=after) if later else to(cloud, asked, after)


def _faults(cloud: Cloud, w: World) -> Iterator[tuple[str, World]]:
    for i, name in enumerate(cloud.names):
        agent = w.agents[i]
        # What it was told or had said goes with its connections: as if it had died a moment sooner.
        mute = replace(w, news=tuple(message for message in w.news if message.agent != name))
        if "dies" in cloud.kinds:
            helpers = tuple(replace(helper, ours=False) for helper in agent.helpers)
            died = Agent(things=agent.things, helpers=helpers)
            yield f"{name} dies", agents.with_agent(cloud, mute, i, died)
        if POWER in cloud.kinds and name in cloud.hosts:
            kept = tuple(thing for thing in agent.things if thing.kind in ("disk", "source"))
            dark = replace(mute, done=added(w.done, [POWER]))
            yield f"{name} loses power", agents.with_agent(cloud, dark, i, Agent(things=kept))
        if "silent" in cloud.kinds and name not in w.control.away and name not in cloud.unsteady:
            yield f"{name} is silent", _silent(cloud, w, name)
        if "vanishes" in cloud.kinds:
            for thing in agent.things:
                if thing.kind == "disk":
                    yield f"{thing.id} vanishes", agents.with_agent(cloud, w, i, _vanished(agent, thing.id))
    if "restored" in cloud.kinds and not w.restored and any(agent.things for agent in w.agents):
        yield "an old database is restored", _restored(cloud, w)
    failing = any(claim.failing_since is not None for claim in w.control.claims)
    if "silent" in cloud.kinds and w.control.now == 0 and failing:
        yield "patience ends", to(cloud, w, replace(w.control, now=views.LATER))


def _vanished(agent: Agent, id: str) -> Agent:
    """Somebody deletes a disk behind the cloud's back, and its agent notices."""
    return replace(
        agent,
        things=drop(agent.things, id),
        believed=without(agent.believed, id),
        acted=tuple(one for one in agent.acted if one[0] != id),
        claims=tuple(replace(claim, made=True) if claim.id == id else claim for claim in agent.claims),
    )


def _restored(cloud: Cloud, w: World) -> World:
    """The backup is from before the server was made; every agent begins a new session."""
    alone = tuple(
        Agent(things=agent.things, helpers=tuple(replace(helper, ours=False) for helper in agent.helpers))
        for agent in w.agents
    )
    start = cloud.beginning()
    old = replace(start.control, server=None, given_up=w.control.given_up)
    return replace(start, control=old, agents=alone, restored=True, disks=w.disks)


def _workers(cloud: Cloud, w: World) -> Iterator[tuple[str, World]]:
    """Two workers without a lock: each reads and decides, and writes when it likes."""
    for i, pending in enumerate(w.control.pending):
        slots: list[Any] = list(w.control.pending)
        if pending is not None:
            slots[i] = None
            c = replace(w.control, pending=(slots[0], slots[1]))
            after, moved = control.write(cloud, c, SERVER, pending)
            yield f"worker {i} writes", replace(w, control=control.flush(cloud, after, moved))
        elif w.control.server is not None:
            _, step = control.decide(cloud, w.control, SERVER)
            if not isinstance(step, base.Wait | base.Rest):
                slots[i] = tuple(step)
                c = replace(w.control, pending=(slots[0], slots[1]))
                yield f"worker {i} reads", replace(w, control=c)
