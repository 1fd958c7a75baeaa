"""The small clouds, explored whole; each safeguard switched off; and a sample of it replayed on the real database."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.sim.model.cloud import Cloud
from tests.sim.model.explore import calm, explore, quiet_steps
from tests.sim.model.instances import BUILDS, MOVES, MUTATIONS
from tests.sim.model.replay import Replay
from tests.sim.model.steps import settled, steps
from tests.sim.model.world import World, key, normal

CLOUDS = {**BUILDS, **MOVES}


@pytest.mark.parametrize("name", CLOUDS)
def test_no_interleaving_breaks_a_law(name: str, record_property: Any) -> None:
    found = explore(CLOUDS[name], calm_every=200 if name in BUILDS else 20)
    record_property("states", found.states)
    assert not found.law, found
    assert found.whole
    print(f"{name}: {found.states} states")


@pytest.mark.parametrize("name", MUTATIONS)
def test_without_a_safeguard_a_law_is_broken(name: str) -> None:
    found = explore(MUTATIONS[name], limit=200_000, calm_every=None if MUTATIONS[name].torn else 20)
    assert found.law, f"{found.states} states without {name}, and nothing was noticed"
    print(f"{name}: {found}")


def test_workers_without_a_lock_are_caught_by_the_foreign_key() -> None:
    """What the mutation above does without: as long as the key holds, even torn reconciles lose nothing."""
    found = explore(Cloud(faults=0, torn=True), limit=30_000)
    assert not found.law, found


@pytest.mark.parametrize("seed", range(12))
def test_the_database_does_what_the_model_does(seed: int) -> None:
    """A random walk through the model, each step also taken by the real ledger and reconciler on SQLite."""
    _walk(Cloud(faults=3, fences=seed % 2 == 0), seed)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("name", MOVES)
def test_the_database_moves_servers_as_the_model_does(name: str, seed: int) -> None:
    _walk(MOVES[name], seed)


def _walk(cloud: Cloud, seed: int) -> None:
    chance = random.Random(seed)
    replay = Replay(cloud)
    world = settled(cloud, cloud.beginning())
    try:
        replay.compare(world, "start")
        if cloud.runs:
            for label, before, after in quiet_steps(cloud, world):
                replay.take(label, before)
                replay.compare(after, f"the build: {label}")
                world = after
        for _ in range(60):
            following = [step for step in steps(cloud, world) if not step[0].startswith("an old database")]
            if not following:
                break
            label, after = chance.choice(following)
            replay.take(label, world)
            replay.compare(after, f"seed {seed}: {label}")
            world = after
    finally:
        replay.db.close()


def test_states_are_told_apart_by_what_matters() -> None:
    """Two orders of steps that have nothing to do with each other lead to one state."""
    cloud = Cloud(faults=0)
    start = settled(cloud, cloud.beginning())

    def after(*labels: str) -> World:
        world = start
        for label in labels:
            world = dict(steps(cloud, world))[label]
        return normal(world, cloud.names)

    one = after("h1 polls", "v polls", "answer to h1", "answer to v")
    other = after("v polls", "h1 polls", "answer to v", "answer to h1")
    assert key(one) == key(other)
    assert key(one) != key(normal(start, cloud.names))
    assert calm(cloud, one) is not None
