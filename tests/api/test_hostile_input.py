"""Whatever is sent to whatever route: an answer that tells what is wrong, and never a failure of the cloud."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from tests import hostile
from tests.cloud import TestCloud, running_cloud
from tests.hostile import Ask, Subject
from tests.routes import key
from tests.tenants import furnish, operate

from cumulet.api import asgi
from cumulet.db.engine import Database
from cumulet.db.wake import Waiter
from cumulet.errors import Unavailable

pytestmark = pytest.mark.anyio

#: How often every place is spoilt, each time by other values, and how many requests are spoilt by chance.
TURNS = int(os.environ.get("CUMULET_HOSTILE_TURNS", "1"))
EXAMPLES = int(os.environ.get("CUMULET_HOSTILE_EXAMPLES", "200"))
#: Other values and other chances than those of every run of the tests.
SEED = int(os.environ.get("CUMULET_HOSTILE_SEED", "0"))


class Stage:
    """A cloud with one of everything in it, whose agents rest and whose transactions are rolled back."""

    def __init__(self, cloud: TestCloud, subject: Subject) -> None:
        self.cloud = cloud
        self.subject = subject
        self.good = hostile.asks(subject)
        self._usual: dict[Any, str] = {}
        #: What was logged as a failure of the cloud, or as what only a race can bring about.
        self.logged: list[str] = []

    async def send(self, ask: Ask, who: str) -> hostile.Answer:
        agent = self.cloud.agents["h1"].client._headers
        return await hostile.send(self.cloud.app, ask, await self.cloud.token(who), agent)

    async def usual(self, ask: Ask, who: str) -> str:
        """What is told of the request without what is wrong in it."""
        body = ask.body_before
        name = who, ask.path, body
        if name not in self._usual:
            self._usual[name] = (await self.send(replace(ask, body=body), who)).text
        return self._usual[name]

    async def wrong(self, ask: Ask, who: str = "admin") -> list[str]:
        """What is wrong with the answer to a request, in words."""
        usual = await self.usual(ask, who) if ask.wrong else ""
        self.logged.clear()
        try:
            answer = await self.send(ask, who)
        except TimeoutError:
            return [f"{ask}\n  is not answered"]
        found = [*hostile.faults(ask, answer, usual), *self.logged]
        return [f"{ask}\n  {fault}: {answer.status} {answer.text[:600]}" for fault in found]


def _rests(*words: Any) -> Any:
    """Nobody is there to be asked, and nobody waits for that."""
    raise Unavailable("The host does not answer; try again when it is back.")


@pytest.fixture(scope="module")
async def stage(shared_db: Database) -> AsyncIterator[Stage]:
    with TemporaryDirectory(prefix="c-") as name, pytest.MonkeyPatch.context() as patch:
        async with running_cloud(shared_db, Path(name)) as cloud:
            tenant = await furnish(cloud, "demo", 1)
            await operate(tenant)
            for agent in cloud.agents.values():
                await agent.stop()
            made = Stage(cloud, Subject(tenant))
            for who in ("admin", "demo", "reader", "system"):
                await cloud.token(who)

            def exception(event: str, **more: Any) -> None:
                import traceback

                made.logged.append(f"{event} {traceback.format_exc()[-1500:]}")

            patch.setattr(cloud.app.cloud.questions, "ask", _rests)
            patch.setattr(cloud.app.cloud.questions, "upload", _rests)
            patch.setattr(Waiter, "wait", _rests)
            patch.setattr(asgi.log, "exception", exception, raising=False)
            with hostile.forgetful(shared_db):
                yield made


class Findings:
    """What was wrong, each kind once."""

    def __init__(self) -> None:
        self.kinds: dict[str, str] = {}
        self.asked = 0

    async def ask(self, stage: Stage, ask: Ask, who: str) -> None:
        self.asked += 1
        for fault in await stage.wrong(ask, who):
            kind = f"{key(ask.area, ask.route)} {fault.splitlines()[-1][:80]}"
            self.kinds.setdefault(kind, fault)

    def check(self) -> None:
        assert self.asked
        assert not self.kinds, f"{len(self.kinds)} of {self.asked}\n" + "\n".join(self.kinds.values())


async def test_good_requests(stage: Stage) -> None:
    """What the others are made from."""
    found = Findings()
    for ask in stage.good:
        await found.ask(stage, ask, "admin")
    found.check()


@pytest.mark.parametrize("who", ["admin", "demo"])
async def test_every_place(stage: Stage, who: str) -> None:
    """Each parameter, each member of each body, left out and replaced."""
    found = Findings()
    # PostgreSQL takes ten times as long, and differs where something is stored: a sample is enough for each run.
    step = 8 if stage.cloud.db.dialect == "postgresql" and TURNS == 1 else 1
    for turn in range(TURNS):
        asks = hostile.each_place(stage.subject, stage.good, SEED + turn * 2 + (who == "demo"))
        for ask in islice(asks, 0, None, step):
            await found.ask(stage, ask, who)
    found.check()


async def test_anything(stage: Stage) -> None:
    """Several things at once, drawn by chance that is the same each time."""
    asks: list[Ask] = []

    @seed(SEED)
    @settings(
        max_examples=EXAMPLES,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(hostile.hostile(stage.subject, stage.good))
    def draw(ask: Ask) -> None:
        asks.append(ask)

    draw()
    found = Findings()
    for ask in asks:
        await found.ask(stage, ask, "admin")
    found.check()
