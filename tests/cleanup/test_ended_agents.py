"""An agent that has ended does nothing more: what it was about to try again is for the next one to do."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cumulet.config import Config, Hosts
from tests.case import H1, Case
from tests.cloud import CHEAP
from tests.virtual import Stage


@pytest.fixture
def case() -> Iterator[Case]:
    with tempfile.TemporaryDirectory(prefix="c-") as directory:
        stage = Stage(Path(directory), Config(auth=CHEAP, hosts=Hosts(count=1)))
        made = Case(stage.cloud, Path(directory))
        made.stage = stage  # type: ignore[attr-defined]
        stage.run(made.prepare())
        stage.run(made.settle())
        made.remember()
        yield made
        stage.close()


def test_nothing_is_tried_again_by_an_agent_that_has_ended(case: Case) -> None:
    case.stage.run(_ends(case))  # type: ignore[attr-defined]


async def _ends(case: Case) -> None:
    server = await case.boot()
    rule = await case.fault("disk.remove", "fail", None)
    await case.call("DELETE", f"/compute/v2.1/servers/{server}", 204)
    await case.struck(rule)
    await case.hangs()
    ended = case.cloud.agents[H1].agent
    assert ended is not None
    await case.cloud.agents[H1].stop()
    things = case.things(H1)
    # It is forgotten why it failed, so whoever tries again would not fail.
    await case.release()
    await asyncio.sleep(40.0)
    assert case.things(H1) == things
    assert not ended._tasks
    case.start(H1)
    await case.gone(server)
    await case.clean()
