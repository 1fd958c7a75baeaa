"""Runs with fresh seeds for a time: ``python -m tests.sim.soak --seconds 60``.

Ends with a line ``N runs, N faults, N left``; the exit code is 0 only if nothing was left.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import secrets
import sys
import time
import traceback
from dataclasses import dataclass

import structlog


@dataclass
class Outcome:
    """What became of one run."""

    seed: int
    operations: int = 0
    faults: int = 0
    error: str | None = None


def one(seed: int) -> Outcome:
    """One run, quietly."""
    from tests.sim.cloud import run

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        made = run(seed)
    except Exception:
        return Outcome(seed, error=traceback.format_exc())
    return Outcome(seed, made.operations, made.faults)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=60.0)
    options.add_argument(
        "--from", dest="first", type=int, default=None, help="the first seed; fresh ones without it"
    )
    options.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    given = options.parse_args()
    first = secrets.randbelow(1 << 40) if given.first is None else given.first
    started = time.monotonic()
    runs = faults = left = 0
    with multiprocessing.get_context("spawn").Pool(given.workers) as pool:
        for outcome in pool.imap_unordered(one, range(first, first + 10**6), chunksize=1):
            runs += 1
            faults += outcome.faults
            if outcome.error is not None:
                left += 1
                print(
                    f"seed {outcome.seed} failed; repeat with: python -m tests.sim.cloud {outcome.seed}\n{outcome.error}"
                )
            if sys.stdout.isatty():
                print(f"\r{runs} runs, {faults} faults, {left} left", end="", flush=True)
            if time.monotonic() - started >= given.seconds:
                pool.terminate()
                break
    minutes = (time.monotonic() - started) / 60
    print(f"\r{runs / minutes:.0f} runs a minute")
    print(f"{runs} runs, {faults} faults, {left} left")
    sys.exit(1 if left else 0)


if __name__ == "__main__":
    main()
