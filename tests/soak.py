"""Everything that is drawn by chance, with fresh seeds, for a time: ``python -m tests.soak --seconds 60``.

Three parts share the time: runs of the simulated cloud, hostile requests to every route, and operations over processes
that are killed. Ends with a line ``N runs, N faults, N left``; the exit code is 0 only if nothing was left.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import secrets
import subprocess
import sys
import time
import traceback
from dataclasses import dataclass

import structlog

#: Each part's share of the time; what has no room to begin in gives its share to the simulated cloud.
HOSTILE, KILLED = 0.25, 0.25
LEAST = 10.0


@dataclass
class Totals:
    """What became of the runs of one part."""

    runs: int = 0
    faults: int = 0
    left: int = 0

    def __str__(self) -> str:
        return f"{self.runs} runs, {self.faults} faults, {self.left} left"

    def failed(self, repeat: str, why: str) -> None:
        self.left += 1
        print(f"\nfailed; repeat with: {repeat}\n{why}", flush=True)


@dataclass
class Outcome:
    """What became of one run of the simulated cloud."""

    seed: int
    operations: int = 0
    faults: int = 0
    error: str | None = None


def one(seed: int) -> Outcome:
    """One run, quietly."""
    from tests.sim.cloud import run

    _quietly()
    try:
        made = run(seed)
        return Outcome(seed, made.operations, made.faults)
    except Exception:
        return Outcome(seed, error=traceback.format_exc())


def simulated(first: int, seconds: float, workers: int) -> Totals:
    """Runs of the simulated cloud, with the seeds from ``first`` on."""
    made, started = Totals(), time.monotonic()
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        for outcome in pool.imap_unordered(one, range(first, first + 10**6), chunksize=1):
            made.runs += 1
            made.faults += outcome.faults
            if outcome.error is not None:
                made.failed(f"python -m tests.sim.cloud {outcome.seed}", outcome.error)
            if sys.stdout.isatty():
                print(f"\r{made}", end="", flush=True)
            if time.monotonic() - started >= seconds:
                pool.terminate()
                break
    print(f"\rsimulated cloud: {made}; {made.runs * 60 / (time.monotonic() - started):.0f} a minute")
    return made


def hostile(first: int, seconds: float) -> Totals:
    """Every place of every request spoilt, and what chance adds to that; a run is one seed's."""
    made, end = Totals(), time.monotonic() + seconds
    while time.monotonic() < end:
        seed = first % 10**9 + made.runs
        words = [sys.executable, "-m", "pytest", "-q", "-k", "sqlite", "tests/api/test_hostile_input.py"]
        run = subprocess.run(
            words,
            env={**os.environ, "CUMULET_HOSTILE_SEED": str(seed)},
            text=True,
            capture_output=True,
            check=False,
        )
        made.runs += 1
        if run.returncode:
            made.failed(f"CUMULET_HOSTILE_SEED={seed} {' '.join(words[1:])}", run.stdout[-8000:])
    print(f"hostile input: {made}")
    return made


def killed(first: int, seconds: float) -> Totals:
    """Combinations of operation, step and fault over processes that are killed, for the time."""
    from tests.process import killed as processes

    seed, made = first % 10**9, Totals()
    try:
        run = processes.killed(seed, 10**6, seconds=seconds)
        made.runs, made.faults = run.done, run.met
    except Exception:
        made.failed(f"python -m tests.process.killed {seed} 1000000", traceback.format_exc())
    print(f"over processes that are killed: {made}")
    return made


def _quietly() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=60.0)
    options.add_argument("--from", dest="first", type=int, help="the first seed; fresh ones without it")
    options.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    given = options.parse_args()
    _quietly()
    first = secrets.randbelow(1 << 40) if given.first is None else given.first
    end = time.monotonic() + given.seconds
    parts = []
    if given.seconds * HOSTILE >= LEAST:
        parts.append(hostile(first, given.seconds * HOSTILE))
    if given.seconds * KILLED >= LEAST:
        parts.append(killed(first, given.seconds * KILLED))
    parts.append(simulated(first, end - time.monotonic(), given.workers))
    print(Totals(*(sum(getattr(part, name) for part in parts) for name in ("runs", "faults", "left"))))
    sys.exit(1 if any(part.left for part in parts) else 0)


if __name__ == "__main__":
    main()
