"""Runs of the simulated cloud from fixed seeds; ``make soak SECONDS=60`` takes fresh ones."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.soak import one

#: Runs here; others with CUMULET_SIM_RUNS.
RUNS = int(os.environ.get("CUMULET_SIM_RUNS", "2000"))
EACH = 20


@pytest.mark.parametrize("first", range(0, RUNS, EACH))
def test_nothing_is_left_whatever_happens(first: int, record_property: Callable[[str, object], None]) -> None:
    operations = faults = 0
    for seed in range(first, first + EACH):
        outcome = one(seed)
        assert outcome.error is None, f"repeat with: python -m tests.sim.cloud {seed}\n{outcome.error}"
        assert outcome.operations >= 50
        assert outcome.faults >= 5
        operations += outcome.operations
        faults += outcome.faults
    record_property("runs of the simulated cloud", EACH)
    record_property("operations in them", operations)
    record_property("faults in them", faults)
