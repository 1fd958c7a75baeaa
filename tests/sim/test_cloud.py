"""Runs of the simulated cloud from fixed seeds; ``make soak SECONDS=60`` takes fresh ones."""

from __future__ import annotations

import os

import pytest

from tests.sim.soak import one

#: Runs here; more with CUMULET_SIM_RUNS.
RUNS = int(os.environ.get("CUMULET_SIM_RUNS", "100"))
EACH = 10


@pytest.mark.parametrize("first", range(0, RUNS, EACH))
def test_nothing_is_left_whatever_happens(first: int) -> None:
    for seed in range(first, first + EACH):
        outcome = one(seed)
        assert outcome.error is None, f"repeat with: python -m tests.sim.cloud {seed}\n{outcome.error}"
        assert outcome.operations >= 50
        assert outcome.faults >= 5
