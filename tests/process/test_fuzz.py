"""A short run of tests/process/fuzz.py from a fixed seed; longer ones are started by hand."""

from __future__ import annotations

from tests.process.fuzz import fuzz


def test_nothing_is_left_of_random_requests_faults_and_kills() -> None:
    made = fuzz(seed=1, seconds=3.0)
    assert made.requests > 100
    assert made.kills
    assert made.faults
