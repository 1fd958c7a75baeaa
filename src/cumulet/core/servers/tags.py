"""Tags of a server. See the compute API reference, "Server tags"."""

from __future__ import annotations

from collections.abc import Iterable

from cumulet.core.servers import find
from cumulet.db.engine import Tx
from cumulet.errors import Invalid, NotFound
from cumulet.values import Caller

#: Tags of one server at the most.
MOST = 50
_STATES = ("active", "paused", "suspended", "stopped")


def listing(tx: Tx, caller: Caller, id: str) -> list[str]:
    """All tags, by name. Raises NotFound."""
    find.find(tx, caller, id)
    return _all(tx, id)


def _all(tx: Tx, id: str) -> list[str]:
    return tx.values("select tag from server_tags where server_id = :id order by tag", id=id)


def check(tx: Tx, caller: Caller, id: str, tag: str) -> None:
    """Raise NotFound unless the server has the tag."""
    if tag not in listing(tx, caller, id):
        raise NotFound(f"Server {id} has no tag '{tag}'")


def _changing(tx: Tx, caller: Caller, id: str, action: str) -> None:
    find.require_state(find.locked(tx, caller, id), action, _STATES, None)


def add(tx: Tx, caller: Caller, id: str, tag: str) -> bool:
    """Add a tag; False if the server has it already. Raises NotFound, Conflict, Invalid if there are too many."""
    _changing(tx, caller, id, "update tag")
    present = _all(tx, id)
    if len(present) >= MOST:
        raise Invalid(f"The number of tags exceeded the per-server limit {MOST}")
    return tx.insert_new("server_tags", server_id=id, tag=tag)


def replace(tx: Tx, caller: Caller, id: str, tags: Iterable[str]) -> list[str]:
    """Give the server these tags and no others. Raises NotFound, Conflict."""
    _changing(tx, caller, id, "update tags")
    tx.run("delete from server_tags where server_id = :id", id=id)
    for tag in sorted(set(tags)):
        tx.insert("server_tags", server_id=id, tag=tag)
    return _all(tx, id)


def remove(tx: Tx, caller: Caller, id: str, tag: str) -> None:
    """Take a tag away. Raises NotFound, Conflict."""
    _changing(tx, caller, id, "delete tag")
    if not tx.run("delete from server_tags where server_id = :id and tag = :tag", id=id, tag=tag):
        raise NotFound(f"Server {id} has no tag '{tag}'")


def clear(tx: Tx, caller: Caller, id: str) -> None:
    """Take all tags away. Raises NotFound, Conflict."""
    _changing(tx, caller, id, "delete tags")
    tx.run("delete from server_tags where server_id = :id", id=id)
