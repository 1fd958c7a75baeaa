"""Report-only: a cloud that was restored from a backup looks, tells, and touches nothing.

Its ledger is older than the hosts. What it believes to be wanted may have been deleted since, and what it does
not know may be somebody's. So nothing is reconciled, and agents may only observe, until the operator has seen
the audit and lets it go.
"""

from __future__ import annotations

from typing import Any

from cumulet.db.engine import Tx

_ROW = "report-only"
#: The same question as ``report_only``, as a part of another statement.
IS_ON = f"exists(select 1 from settings where id = '{_ROW}')"


def report_only(tx: Tx) -> dict[str, Any] | None:
    """{"since", "reason"} while the cloud only reports; None else."""
    found: dict[str, Any] | None = tx.value("select value from settings where id = :id", id=_ROW)
    return found


def enter(tx: Tx, reason: str) -> None:
    """From now on nothing is reconciled, made or removed."""
    tx.run(
        "insert into settings (id, value) values (:id, :value) on conflict (id) do update set value = excluded.value",
        id=_ROW, value={"since": tx.now, "reason": reason},
    )  # fmt: skip


def leave(tx: Tx) -> bool:
    """Let the cloud go on: every holder is looked at, every agent is told everything again. False if it went on already."""
    if not tx.delete("settings", _ROW):
        return False
    tx.run("update holders set due = :now", now=tx.now)
    # A claim's revision says what its agent was told; told to observe only, it must hear of it once more.
    for agent in tx.values("select id from agents order by id"):
        revision = tx.value(
            "update agents set revision = revision + 1 where id = :id returning revision", id=agent
        )
        tx.run("update claims set revision = :revision where agent = :agent", revision=revision, agent=agent)
        tx.wakes.add(agent)
    tx.wakes.add("due")
    return True
