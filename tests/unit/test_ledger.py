"""What the ledger makes of a report. Pure."""

from __future__ import annotations

import msgspec

from cumulet.reconcile.ledger import closable, heard
from cumulet.values import Claim, Report

WANTED = Claim(id="c", kind="guest", holder="s", agent="h", wanted=True, revision=4)
GIVEN_UP = msgspec.structs.replace(WANTED, wanted=False, revision=7)


def test_a_failure_is_taken_down_with_its_beginning() -> None:
    once = heard(WANTED, Report("c", 4, "absent", error="no"), 10.0)
    twice = heard(once, Report("c", 4, "absent", error="still no"), 20.0)
    assert (twice.error, twice.failing_since) == ("still no", 10.0)
    well = heard(twice, Report("c", 4, "present"), 30.0)
    assert (well.error, well.failing_since, well.made) == (None, None, True)


def test_what_was_acted_on_the_future_is_not_believed() -> None:
    assert heard(WANTED, Report("c", 5, "present"), 10.0) is WANTED


def test_a_making_that_failed_is_no_failed_removal() -> None:
    """The report was under way when the thing was given up: the agent has not tried to remove it yet."""
    late = heard(GIVEN_UP, Report("c", 4, "absent", error="no"), 10.0)
    assert (late.error, late.failing_since) == (None, None)
    assert not closable(late, [])
    # A removal that fails is one, and stays one when an older report comes late.
    failing = heard(GIVEN_UP, Report("c", 7, "present", error="busy"), 10.0)
    assert (failing.error, failing.failing_since) == ("busy", 10.0)
    later = heard(failing, Report("c", 4, "present", error="no"), 20.0)
    assert (later.error, later.failing_since) == ("busy", 10.0)


def test_only_absence_that_was_seen_after_the_removal_was_known_closes() -> None:
    assert closable(heard(GIVEN_UP, Report("c", 7, "absent"), 10.0), [])
    assert not closable(heard(GIVEN_UP, Report("c", 6, "absent"), 10.0), [])
    assert not closable(heard(GIVEN_UP, Report("c", 7, "absent"), 10.0), [WANTED])
