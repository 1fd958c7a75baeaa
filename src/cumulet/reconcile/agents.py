"""Agents: their sessions, and the judgement that one of them is silent.

A session begins with ``hello``. The newest session of a state directory wins; another directory under the
same name is a stranger and is refused, for it does not have what the first one owes.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from cumulet.db.engine import Row, Tx
from cumulet.errors import Conflict, Unauthorized
from cumulet.reconcile import holders
from cumulet.values import AgentKind, AgentView

#: Woken when an agent begins a session.
HELLO = "hello"
#: How often a poll is written down, as a part of the patience.
NOTE_EVERY = 0.2
#: If more than this part of the hosts falls silent at once, it is more likely that we cannot hear.
TOO_MANY = 0.3


def digest(token: str) -> str:
    """What is stored of an agent's token. It is random and long, so a plain hash keeps it."""
    return sha256(token.encode()).hexdigest()


def register(tx: Tx, kind: AgentKind, name: str, token: str, facts: Mapping[str, Any] | None = None) -> str:
    """Make an agent known, or give a known one a new token; return its id."""
    row = tx.one("select id from agents where kind = :kind and name = :name", kind=kind, name=name)
    if row is not None:
        tx.update(
            "agents", row["id"], token_digest=digest(token), session=None, retired=False, updated_at=tx.now
        )
        return str(row["id"])
    id = tx.uuid()
    number = int(tx.value("select coalesce(max(number), 0) from agents")) + 1
    tx.insert(
        "agents", id=id, kind=kind, name=name, token_digest=digest(token), facts=dict(facts or {}),
        created_at=tx.now, updated_at=tx.now, number=number,
    )  # fmt: skip
    # Some may have been waiting for an agent of its kind since before there was one.
    holders.touch_all(tx, tx.values("select id from holders where waiting is not null"))
    return id


def authenticate(tx: Tx, agent: str, token: str) -> Row:
    """The agent's row if the token is its own. Raises Unauthorized."""
    row = tx.one("select * from agents where id = :id", id=agent)
    if row is None or not hmac.compare_digest(row["token_digest"], digest(token)) or row["destroyed"]:
        raise Unauthorized("This is not the token of a known agent. Join the host again with a new one.")
    return row


def hello(tx: Tx, agent: Row, *, directory: str, session: str, facts: Mapping[str, Any]) -> None:
    """Begin a session. Raises Conflict for a stranger's directory."""
    if agent["directory"] is not None and agent["directory"] != directory:
        raise Conflict(
            f"The {agent['kind']} {agent['name']} is known with another state directory. Start it with that "
            "directory, or declare the old one destroyed if everything that it had is gone."
        )
    tx.update(
        "agents", agent["id"], directory=directory, session=session, sequence=0, facts=dict(facts),
        updated_at=tx.now,
    )  # fmt: skip
    heard_of(tx, agent["id"], always=True)
    tx.wakes.add(HELLO)


def heard_of(tx: Tx, agent: str, *, always: bool = False, patience: float = 60.0) -> None:
    """The agent spoke. Written down now and then only; if it was judged silent, it is not any more."""
    row = tx.one("select seen_at, silent from agents where id = :id", id=agent)
    if row is None:
        return
    if always or row["silent"] or row["seen_at"] is None or tx.now - row["seen_at"] > patience * NOTE_EVERY:
        tx.update("agents", agent, seen_at=tx.now, silent=False)
    if row["silent"]:
        touch_holders(tx, agent)


def judge(tx: Tx, patience: float, listening_since: float) -> list[str]:
    """Judge who is silent; return the names of those who newly are.

    Only silence counts that this process was there to hear, from ``listening_since`` on. If too many hosts
    fall silent at once, none is judged; the caller raises the alarm when "" is in the answer.
    """
    if tx.now - listening_since < patience:
        return []
    rows = tx.all(
        "select id, kind, name, seen_at, silent from agents where not destroyed and session is not null"
    )
    deadline = tx.now - patience
    newly = [row for row in rows if not row["silent"] and (row["seen_at"] or 0) < deadline]
    hosts = [row for row in rows if row["kind"] == "host" and not row["silent"]]
    silent_hosts = [row for row in newly if row["kind"] == "host"]
    if len(hosts) >= 4 and len(silent_hosts) > TOO_MANY * len(hosts):
        return [""]
    for row in newly:
        tx.update("agents", row["id"], silent=True)
        touch_holders(tx, row["id"])
    return [row["name"] for row in newly]


def touch_holders(tx: Tx, agent: str) -> None:
    """What became of the agent matters to everybody who holds something there, and to servers that go with them."""
    ids = tx.values(
        "select c.holder from claims c where c.agent = :agent and c.holder is not null "
        "union select h.leaving_with from claims c join holders h on h.id = c.holder "
        "where c.agent = :agent and h.leaving_with is not null "
        # A server that is on its way there may hold nothing there yet.
        "union select s.id from servers s join migrations m on m.id = s.migration_id "
        "where m.phase <> '' and (m.target = :agent or m.source = :agent)",
        agent=agent,
    )
    holders.touch_all(tx, ids)


def views(tx: Tx, ids: set[str]) -> dict[str, AgentView]:
    """What plans may know of agents."""
    if not ids:
        return {}
    return tx.memo(("agents", frozenset(ids)), ("agents",), lambda: _views(tx, ids))


def _views(tx: Tx, ids: set[str]) -> dict[str, AgentView]:
    rows = tx.all(
        "select id, kind, name, silent, forced_down, destroyed from agents where id in :ids", ids=ids
    )
    return {
        row["id"]: AgentView(
            id=row["id"], kind=row["kind"], name=row["name"],
            away=row["silent"] or row["forced_down"] or row["destroyed"],
        )
        for row in rows
    }  # fmt: skip


def of_kind(tx: Tx, kind: AgentKind) -> str | None:
    """The id of the one agent of a kind that there is one of: the network's, the image store's."""
    found = tx.value(
        "select id from agents where kind = :kind and not destroyed order by created_at limit 1", kind=kind
    )
    return str(found) if found is not None else None


def counts(tx: Tx) -> dict[tuple[str, str], int]:
    """How many agents of each kind are up, silent (or forced down), or new and never heard: (kind, state) → number."""
    found: dict[tuple[str, str], int] = {}
    rows = tx.all("select kind, session, silent, forced_down from agents where not destroyed and not retired")
    for row in rows:
        state = "new" if row["session"] is None else "silent" if row["silent"] or row["forced_down"] else "up"
        found[row["kind"], state] = found.get((row["kind"], state), 0) + 1
    return found
