"""A sample of tests/cleanup's combinations, over processes that are killed. ``make soak`` samples others."""

from __future__ import annotations

import os
from collections.abc import Callable

from tests.process.killed import killed

SEED = int(os.environ.get("CUMULET_KILLED_SEED", "1"))
COUNT = int(os.environ.get("CUMULET_KILLED", "200"))


def test_nothing_is_left(record_property: Callable[[str, object], None]) -> None:
    print(f"repeat with: python -m tests.process.killed {SEED} {COUNT}")
    run = killed(SEED, COUNT)
    assert run.done == COUNT
    # Not every sampled fault lies on the way that its server takes, but most do.
    assert run.met > COUNT / 2
    assert run.kills > COUNT / 20
    record_property("combinations over processes that are killed", run.done)
    record_property("processes killed in them", run.kills)
