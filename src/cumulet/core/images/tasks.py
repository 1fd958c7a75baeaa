"""Tasks: what is imported, as users ask for it and as it ended. See the image API reference, "Tasks"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from cumulet.db.engine import Row, Tx
from cumulet.db.query import Query, Where, page
from cumulet.errors import NotFound
from cumulet.values import Caller

#: Seconds that a task that has ended stays readable: the service's default of 48 hours.
KEPT = 48 * 3600.0

SORTABLE: Mapping[str, str] = {
    "id": "id",
    "type": "type",
    "status": "status",
    "created_at": "created_at",
    "updated_at": "updated_at",
    "expires_at": "coalesce(expires_at, 0)",
    "owner": "coalesce(owner, '')",
}


class Task(msgspec.Struct, frozen=True):
    """Something that is, or was, imported."""

    id: str
    type: str
    #: processing, success or failure
    status: str
    owner: str | None
    user_id: str
    image_id: str | None
    request_id: str
    input: Mapping[str, Any]
    result: Mapping[str, Any] | None
    message: str
    created_at: float
    updated_at: float
    expires_at: float | None


def _task(row: Row) -> Task:
    return Task(**{name: row[name] for name in Task.__struct_fields__})


def begin(
    tx: Tx, caller: Caller, type: str, image_id: str, input: Mapping[str, Any], *, id: str | None = None
) -> str:
    """Write down that an import began; return the task's id. Old tasks are forgotten meanwhile."""
    tx.run("delete from image_tasks where expires_at < :now", now=tx.now)
    id = id or tx.uuid()
    tx.insert(
        "image_tasks", id=id, type=type, status="processing", owner=caller.project_id, user_id=caller.user_id,
        image_id=image_id, request_id=caller.request_id, input=dict(input), created_at=tx.now, updated_at=tx.now,
    )  # fmt: skip
    return id


def end(tx: Tx, id: str, error: str | None, result: Mapping[str, Any] | None = None) -> None:
    """Write down how a task ended."""
    tx.update(
        "image_tasks", id, status="success" if error is None else "failure", message=error or "",
        result=dict(result) if result is not None else None, updated_at=tx.now, expires_at=tx.now + KEPT,
    )  # fmt: skip


def of_image(tx: Tx, image_id: str) -> list[Task]:
    """The tasks of an image, the newest first."""
    rows = tx.all(
        "select * from image_tasks where image_id = :id and (expires_at is null or expires_at > :now) "
        "order by created_at desc, id limit 1000",
        id=image_id, now=tx.now,
    )  # fmt: skip
    return [_task(row) for row in rows]


def find(tx: Tx, caller: Caller, id: str) -> Task:
    """A task of the caller's project, or any for administrators. Raises NotFound."""
    row = tx.one("select * from image_tasks where id = :id", id=id)
    if row is None or not caller.sees(row["owner"]) or (row["expires_at"] or tx.now + 1) <= tx.now:
        raise NotFound(f"No task found with ID {id}")
    return _task(row)


def listing(tx: Tx, caller: Caller, query: Query, *, type: str | None, status: str | None) -> list[Task]:
    """A page of the tasks that the caller sees. Raises MarkerNotFound."""
    where = Where()
    where.add("expires_at is null or expires_at > :now", now=tx.now)
    if not caller.is_admin:
        where.equal("owner", caller.project_id)
    if type is not None:
        where.equal("type", type)
    if status is not None:
        where.equal("status", status)
    return [_task(row) for row in page(tx, "image_tasks", where, query, SORTABLE)]
