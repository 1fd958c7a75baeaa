"""A host's agent is killed anywhere in its work: whoever comes after it finds everything, and leaves nothing."""

from __future__ import annotations

import asyncio
import os
import random
import sys
from pathlib import Path

import pytest
from tests.guest import host, processes, until
from tests.host.making import Claims, claims
from tests.process.cumulet import ROOT, environment

from cumulet.agent.store import Store

pytestmark = pytest.mark.anyio
#: How often it is killed, and seconds after it has begun in which that happens.
KILLS = 8
SECONDS = 1.5


async def test_whatever_is_killed_when_nothing_is_left(directory: Path) -> None:
    seed = int.from_bytes(os.urandom(4))
    chance, all_ = random.Random(seed), claims()
    for round in range(KILLS):
        program = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.host.making", str(directory), stdout=asyncio.subprocess.PIPE, cwd=ROOT,
            env={**environment(), "CUMULET_TEST_GUEST": os.environ.get("CUMULET_TEST_GUEST", "")},
        )  # fmt: skip
        assert program.stdout is not None
        assert await program.stdout.readline() == b"begins\n"
        await asyncio.sleep(chance.uniform(0, SECONDS))
        program.kill()
        await program.communicate()
        where = f"seed {seed}, round {round}"
        with host(directory) as here:
            # Helpers die with their agent; as long as one does not, nothing is done to its claim.
            await until(lambda: _idle(here.store, all_), 10, 0.01)
            found = await here.observe()
            assert set(found) <= {claim.id for claim in all_}, where
            if chance.random() < 0.5:
                # It goes on with what was wanted, and there is one process at the most.
                for one in all_.to_make:
                    await here.ensure(one)
                assert len(processes(directory / "guest")) == 1, where
            for one in all_.to_remove:
                await here.remove(one)
            assert processes(directory) == [], where
            for kind in ("guest", "disk", "source", "working"):
                assert os.listdir(directory / kind) == [], (where, kind)


async def _idle(store: Store, all_: Claims) -> bool:
    return all(store.idle(claim.id) for claim in all_)
