"""What every driver must do, whatever it drives: repeat itself, show what is there, and be killed anywhere."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import run
from tests.drivers import CASES, Here, opened
from tests.guest import kill

from cumulet.drivers.base import Unknown
from cumulet.wire.agent import Claim

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _nothing_runs_on(directory: Path) -> Iterator[None]:
    """What a case has started is ended with its test."""
    yield
    kill(directory)


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def here(case: str, directory: Path) -> Iterator[Here]:
    with opened(CASES[case][0], directory) as made:
        yield made


@pytest.fixture
async def claim(here: Here, case: str) -> Claim:
    """The claim that the case is about; what it needs is made."""
    *first, last = CASES[case][1]
    for one in first:
        await here.ensure(one)
    return last


async def test_made_twice_is_made_once(here: Here, claim: Claim) -> None:
    first = await here.ensure(claim)
    files = here.files()
    assert await here.ensure(claim) == first
    assert here.files() == files


async def test_what_was_never_made_can_be_removed(here: Here, claim: Claim) -> None:
    before = here.files()
    await here.remove(claim)
    await here.remove(claim)
    assert here.files() == before


async def test_what_is_there_is_seen(here: Here, claim: Claim) -> None:
    others = await here.observe()
    assert claim.id not in others
    assert await here.look(claim) is None
    made = await here.ensure(claim)
    assert await here.observe() == {**others, claim.id: made}
    assert await here.look(claim) == made
    await here.remove(claim)
    assert await here.observe() == others
    assert await here.look(claim) is None


async def test_a_removal_leaves_nothing(here: Here, claim: Claim) -> None:
    before = here.files()
    await here.ensure(claim)
    await here.remove(claim)
    await here.remove(claim)
    assert here.files() == before
    assert os.listdir(here.directory / "working") == []


async def test_another_process_sees_the_same(case: str, directory: Path) -> None:
    driver, claims = CASES[case]
    with opened(driver, directory) as here:
        for one in claims:
            await here.ensure(one)
        seen = await here.observe()
    with opened(driver, directory) as here:
        assert await here.observe() == seen
        assert await here.ensure(claims[-1]) == seen[claims[-1].id]


async def test_what_cannot_be_seen_is_not_absent(here: Here, claim: Claim) -> None:
    await here.ensure(claim)
    (here.directory / claim.kind).rename(here.directory / "away")
    with pytest.raises(Unknown):
        await here.look(claim)
    with pytest.raises(Unknown):
        await here.observe()


@pytest.mark.parametrize("verb", ["make", "remove"])
def test_killed_at_any_step(case: str, verb: str, directory: Path) -> None:
    run(sys.executable, "-m", "tests.drivers", case, verb, str(directory))
