"""Questions to agents and offered uploads, where several processes share one database.

An agent polls one process, and another one may have the question. The row says who asks, so that the process
which gets the answer can pass it on. A row lives as long as somebody waits.
"""

from __future__ import annotations

from typing import Any

from cumulet.db.engine import Row, Tx

#: Nobody waits longer; what a process left behind that was killed is forgotten then. Seconds.
LONGEST = 3600.0


def post(
    tx: Tx, id: str, asker: str, *, agent: str | None = None, name: str, claim: str = "", args: Any = None
) -> None:
    """Ask an agent, or (without one) offer an upload; ``asker``: the URL of the process that waits."""
    tx.run("delete from questions where created_at < :old", old=tx.now - LONGEST)
    tx.insert(
        "questions",
        id=id,
        agent=agent,
        name=name,
        claim=claim,
        args=args or {},
        asker=asker,
        created_at=tx.now,
    )
    if agent is not None:
        tx.wakes.add(agent)


def forget(tx: Tx, asker: str) -> None:
    """Forget what a process asked that was killed; its address is now another's, which asks nothing yet."""
    tx.run("delete from questions where asker = :asker", asker=asker)


def any_for(tx: Tx, agent: str) -> bool:
    """True if a question waits for the agent."""
    return (
        tx.one("select 1 from questions where agent = :agent and not taken limit 1", agent=agent) is not None
    )


def take(tx: Tx, agent: str) -> list[Row]:
    """What waits for the agent: {"id", "name", "claim", "args"}; it is asked once."""
    return tx.all(
        "update questions set taken = true where agent = :agent and not taken returning id, name, claim, args",
        agent=agent,
    )


def withdraw(tx: Tx, id: str) -> None:
    """Nobody waits for it any more."""
    tx.delete("questions", id)


def asker(tx: Tx, id: str, agent: str | None) -> str | None:
    """The URL of the process that waits for that agent's answer, or offers that upload (agent None)."""
    condition = "agent = :agent" if agent is not None else "agent is null"
    params = {"agent": agent} if agent is not None else {}
    found = tx.value(f"select asker from questions where id = :id and {condition}", id=id, **params)
    return str(found) if found is not None else None
