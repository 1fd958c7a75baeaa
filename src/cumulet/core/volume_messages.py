"""User messages: why something that a request had been accepted for did not come true.

An event is named ``VOLUME_RESOURCE_ACTION_DETAIL`` with the numbers that Block Storage gives actions and
details. See the Block Storage API reference, "Messages".
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from cumulet.db.engine import Row, Tx
from cumulet.db.query import Query, Where, page
from cumulet.errors import NotFound
from cumulet.values import Caller

#: Seconds that a message stays readable.
LIFE = 30 * 86400.0


class Action(msgspec.Struct, frozen=True):
    """What was to be done."""

    number: str
    words: str


ALLOCATE = Action("001", "schedule allocate volume")
UPLOAD = Action("003", "copy volume to image")
FROM_IMAGE = Action("005", "copy image to volume")
EXTEND = Action("007", "extend volume")
CREATE = Action("008", "create volume from backend storage")
SNAPSHOT = Action("009", "create snapshot")
BACKUP = Action("013", "create backup")
RESTORE = Action("015", "restore backup")

#: Details.
UNKNOWN, NO_BACKEND, NO_UPLOAD, NO_EXTEND, NO_CREATE, NO_SNAPSHOT = "001", "003", "004", "010", "012", "013"
NO_BACKUP, NO_RESTORE = "020", "026"

_TABLES = {"volume": "volumes", "snapshot": "snapshots", "backup": "volume_backups"}
_TYPES = {"volume": "VOLUME", "snapshot": "VOLUME_SNAPSHOT", "backup": "VOLUME_BACKUP"}

SORTABLE: Mapping[str, str] = {
    name: name
    for name in ("created_at", "id", "event_id", "resource_type", "resource_uuid", "request_id", "message_level")
}  # fmt: skip
FILTERS = ("resource_uuid", "resource_type", "event_id", "request_id", "message_level")


def tell(tx: Tx, kind: str, id: str, action: Action, detail: str, words: str | None = None) -> None:
    """Write a message about a volume or snapshot; its words are the error that the row shows, or ``words``."""
    row = tx.one(f"select project_id, request_id, error from {_TABLES[kind]} where id = :id", id=id)
    if row is None:
        return
    tx.run("delete from volume_messages where expires_at < :now", now=tx.now)
    tx.insert(
        "volume_messages", id=tx.uuid(), project_id=row["project_id"], request_id=row["request_id"],
        resource_type=_TYPES[kind], resource_uuid=id, event_id=f"VOLUME_{_TYPES[kind]}_{action.number}_{detail}",
        user_message=f"{action.words}: {words or row['error'] or 'it failed'}", created_at=tx.now,
        expires_at=tx.now + LIFE,
    )  # fmt: skip


def tell_of_failure(tx: Tx, kind: str, id: str, before: str, copied: bool) -> None:
    """Write the message of a volume or snapshot that just went to error from the status ``before``."""
    if kind == "snapshot":
        tell(tx, kind, id, SNAPSHOT, NO_SNAPSHOT)
    elif kind == "backup":
        tell(tx, kind, id, BACKUP, NO_BACKUP)
    elif before == "restoring-backup":
        tell(tx, kind, id, RESTORE, NO_RESTORE)
    elif before == "extending":
        tell(tx, kind, id, EXTEND, NO_EXTEND)
    elif before == "downloading" and copied:
        tell(tx, kind, id, FROM_IMAGE, NO_CREATE)
    else:
        tell(tx, kind, id, CREATE, NO_CREATE)


def listing(tx: Tx, caller: Caller, query: Query, filters: Mapping[str, str]) -> list[Row]:
    """A page of the messages of the caller's project. Raises MarkerNotFound."""
    where = Where()
    where.equal("project_id", caller.project_id)
    where.add("expires_at > :now", now=tx.now)
    for name in FILTERS:
        if name in filters:
            where.equal(name, filters[name])
    return page(tx, "volume_messages", where, query, SORTABLE)


def find(tx: Tx, caller: Caller, id: str) -> Row:
    """One message. Raises NotFound."""
    row = tx.one("select * from volume_messages where id = :id and expires_at > :now", id=id, now=tx.now)
    if row is None or not caller.sees(row["project_id"]):
        raise NotFound(f"Message {id} could not be found.")
    return row


def delete(tx: Tx, caller: Caller, id: str) -> None:
    """Remove a message. Raises NotFound."""
    tx.delete("volume_messages", find(tx, caller, id)["id"])
