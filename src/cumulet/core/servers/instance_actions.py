"""What was done to a server, to be read: also when the server is gone. See core.history, which writes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from cumulet.core.servers import find
from cumulet.db.engine import Row, Tx
from cumulet.db.query import Query, Where, page
from cumulet.errors import NotFound
from cumulet.values import Caller


class Action(msgspec.Struct, frozen=True):
    """One request, and what it led to."""

    row: Row
    project_id: str
    events: Sequence[Row] = ()


class Between(msgspec.Struct, frozen=True):
    """Only what changed in a time."""

    since: float | None = None
    before: float | None = None


def _project(tx: Tx, caller: Caller, server_id: str, *, deleted: bool) -> str:
    """Whose the server is, or was. Raises NotFound."""
    try:
        return str(find.find(tx, caller, server_id)["project_id"])
    except NotFound:
        project = tx.value("select project_id from deleted_servers where id = :id", id=server_id)
        if not deleted or project is None or not caller.sees(project):
            raise
        return str(project)


def listing(
    tx: Tx, caller: Caller, server_id: str, query: Query, between: Between, *, deleted: bool
) -> list[Row]:
    """A page of the actions, the newest first; a marker is a request's id. Raises NotFound, MarkerNotFound."""
    _project(tx, caller, server_id, deleted=deleted)
    where = Where()
    where.equal("server_id", server_id)
    if between.since is not None:
        where.add("updated_at >= :since", since=between.since)
    if between.before is not None:
        where.add("updated_at <= :before", before=between.before)
    # One request has one action of a server, so its id is as good as the row's.
    return page(tx, "actions", where, query, {}, (("started_at", "desc"),), key="request_id")


def show(tx: Tx, caller: Caller, server_id: str, request_id: str, *, deleted: bool) -> Action:
    """One action with its events. Raises NotFound."""
    project = _project(tx, caller, server_id, deleted=deleted)
    row = tx.one(
        "select * from actions where server_id = :server and request_id = :request order by started_at limit 1",
        server=server_id, request=request_id,
    )  # fmt: skip
    if row is None:
        raise NotFound(f"Action {request_id} not found")
    events = tx.all(
        "select * from action_events where action_id = :id order by started_at desc, id", id=row["id"]
    )
    return Action(row, row["project_id"] or project, events)


class Event(msgspec.Struct, frozen=True):
    """What another service says has happened to something of a server."""

    server_id: str
    name: str
    tag: str | None = None


#: Events that say what they are about.
_ABOUT = frozenset({"volume-extended", "power-update", "accelerator-request-bound", "volume-reimaged"})


def take(tx: Tx, caller: Caller, events: Sequence[Event]) -> list[int]:
    """Take down events of other services; a code for each: 200, 400 (no tag), 404 (no server), 422 (no host)."""
    from cumulet.core import history
    from cumulet.reconcile import holders

    ids = tuple({event.server_id for event in events})
    servers: Mapping[str, Any] = {
        row["id"]: row for row in tx.all("select * from servers where id in :ids", ids=ids)
    }
    codes = []
    for event in events:
        row = servers.get(event.server_id)
        if row is None:
            codes.append(404)
        elif event.name in _ABOUT and event.tag is None:
            codes.append(400)
        elif row["host"] is None:
            codes.append(422)
        else:
            if event.name == "volume-extended":
                tx.update("servers", row["id"], devices_pending=True)
                history.begin(tx, row["id"], "extend_volume", caller, host=find.host_name(tx, row))
            holders.touch(tx, row["id"])
            codes.append(200)
    return codes
