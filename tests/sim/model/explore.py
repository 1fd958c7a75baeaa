"""The search through all that can happen, and what becomes of each world when nothing goes wrong any more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b

from msgspec.structs import replace

from cumulet.reconcile.plan import base
from tests.sim.model import agents, control, laws, users, views
from tests.sim.model.cloud import Cloud
from tests.sim.model.steps import settled, steps, to
from tests.sim.model.world import SERVER, Broken, World, key, normal, without


def calm(cloud: Cloud, w: World) -> World:
    """What becomes of a world when nothing goes wrong any more, and its server is deleted at last.

    Raises Broken if it does not come to rest, or does not end with nothing left.
    """
    try:
        return _calm(cloud, w)
    except Broken as broken:
        raise Broken(f"{broken} (when nothing goes wrong any more)") from None


def _calm(cloud: Cloud, w: World) -> World:
    for name in w.control.away:
        w = to(cloud, w, replace(w.control, away=without(w.control.away, name)))
    w = quiet(cloud, w)
    _, step = control.decide(cloud, w.control, SERVER)
    if isinstance(step, base.Wait) and step.until is not None:
        w = quiet(cloud, to(cloud, w, replace(w.control, now=w.control.now + views.LATER)))
    if not w.restored and not cloud.torn:
        check_rest(cloud, w)
        laws.check_success(cloud, w)
    if w.control.server is not None:
        deleted = users.delete(w.control, w.control.server)
        w = quiet(cloud, to(cloud, w, deleted)) if deleted is not None else w
    if w.control.image is not None:
        if "takes an image" not in w.done:
            raise Broken("the server is gone, and the image that it was shelved in is left")
        w = quiet(cloud, to(cloud, w, users.unwant_image(w.control)))
    left = [claim.id for claim in w.control.claims]
    left += [thing.id for agent in w.agents for thing in agent.things]
    left += list(w.control.consumers)
    if w.control.server is not None or (left and not w.restored):
        raise Broken(f"the server {'stays' if w.control.server else 'is gone'}, and {left} is left")
    return w


def quiet(cloud: Cloud, w: World) -> World:
    """What becomes of the world if nobody asks for anything and nothing goes wrong. Raises Broken."""
    last = w
    for _, _, last in quiet_steps(cloud, w):
        laws.check(cloud, last)
    return last


def quiet_steps(cloud: Cloud, w: World) -> Iterator[tuple[str, World, World]]:
    """One step after the other, with the world before and after it, until nothing happens. Raises Broken."""
    for _ in range(400):
        following = (step for i in range(len(cloud.names)) for step in agents.steps(cloud, w, i))
        # What is done in vain is done again and again; others go on meanwhile.
        step = next((step for step in following if "fail" not in step[0] and step[1] != w), None)
        if step is None:
            step = ("the worker comes", settled(cloud, w))
            if step[1] == w:
                return
        yield step[0], w, step[1]
        w = step[1]
    raise Broken("it does not come to rest")


def check_rest(cloud: Cloud, w: World) -> None:
    """Whoever rests without a fault around waits for nothing but the user, and shows it if something is wrong."""
    row = w.control.server
    if row is None or row.vm_state == "error":
        return
    rule, step = control.decide(cloud, w.control, SERVER)
    if isinstance(step, base.Wait) or row.task_state is not None:
        why = step.reason if isinstance(step, base.Wait) else f"is {row.task_state}"
        raise Broken(f"the server rests and is not done ({rule}): {why}")


def start(cloud: Cloud) -> World:
    """Where the exploration begins."""
    w = settled(cloud, cloud.beginning())
    return normal(quiet(cloud, w) if cloud.runs else w, cloud.names)


# --- the search ---


@dataclass
class Found:
    """What an exploration found."""

    states: int
    #: How it came to a broken law; empty if none was broken.
    path: list[str]
    law: str = ""
    whole: bool = True

    def __str__(self) -> str:
        return f"{self.law}, after: {'; '.join(self.path)}"


def explore(cloud: Cloud, *, limit: int = 2_000_000, calm_every: int | None = None) -> Found:
    """Every reachable state, or the shortest way to a broken law, or ``limit`` states.

    From every ``calm_every``-th state on it is also seen that all ends well once nothing goes wrong any more.
    """
    try:
        first = start(cloud)
    except Broken as broken:
        return Found(0, ["the beginning"], str(broken))
    parents: dict[bytes, tuple[bytes | None, str]] = {_digest(first): (None, "")}
    frontier = [first]
    while frontier:
        upcoming = []
        for world in frontier:
            here = _digest(world)
            label = ""
            try:
                for label, after in steps(cloud, world):
                    after = normal(after, cloud.names)
                    id = _digest(after)
                    if id in parents:
                        continue
                    parents[id] = (here, label)
                    here_, here = here, id
                    laws.check(cloud, after)
                    if calm_every and len(parents) % calm_every == 0:
                        calm(cloud, after)
                    here = here_
                    upcoming.append(after)
            except Broken as broken:
                return Found(len(parents), [*_path(parents, here), "?"], str(broken))
            if len(parents) >= limit:
                return Found(len(parents), [], whole=False)
        frontier = upcoming
    return Found(len(parents), [])


def _digest(w: World) -> bytes:
    return blake2b(key(w), digest_size=16).digest()


def _path(parents: dict[bytes, tuple[bytes | None, str]], id: bytes | None) -> list[str]:
    labels: list[str] = []
    while id is not None:
        id, label = parents[id]
        labels.append(label)
    return labels[::-1][1:]
