"""Backups. See the Block Storage API reference, "Backups (backups)"."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from cumulet.api.asgi import Route
from cumulet.api.request import Request, Response, accepted, boolean, ok
from cumulet.api.volume import page, permit
from cumulet.core import backups
from cumulet.core.policy import ADMIN, MEMBER, READER
from cumulet.db.engine import Row
from cumulet.errors import Invalid
from cumulet.wire import backups as wire
from cumulet.wire import volume_forms
from cumulet.wire.body import encode
from cumulet.wire.forms import precise, precise_or_none

_PROJECT = "backup:backup_project_attribute"


def _basic(request: Request, row: Row) -> dict[str, Any]:
    return {"id": row["id"], "name": row["name"], "links": page.links(request, "backups", row["id"])}


def _full(request: Request, row: Row) -> dict[str, Any]:
    sees = permit.allows(request, _PROJECT)
    body = wire.Backup(
        id=row["id"],
        status=row["status"],
        size=row["size"],
        availability_zone=row["zone"],
        container=row["container"],
        created_at=precise(row["created_at"]),
        updated_at=precise_or_none(row["updated_at"] if row["updated_at"] != row["created_at"] else None),
        name=row["name"],
        description=row["description"],
        fail_reason=row["error"],
        volume_id=row["volume_id"],
        links=page.links(request, "backups", row["id"]),
        is_incremental=row["parent_id"] is not None,
        has_dependent_backups=bool(row["dependents"]),
        snapshot_id=row["snapshot_id"],
        data_timestamp=precise(row["data_timestamp"]),
        metadata=row["metadata"],
        project_id=row["project_id"] if sees else UNSET,
        user_id=row["user_id"] if sees else UNSET,
    )
    return encode(body, request.version)


async def index(request: Request) -> Response:
    """GET /backups"""
    return await _list(request, detailed=False)


async def detail(request: Request) -> Response:
    """GET /backups/detail"""
    return await _list(request, detailed=True)


async def _list(request: Request, *, detailed: bool) -> Response:
    query = page.page_of(request, backups.SORTABLE)
    drop = {"with_count"} if request.version >= (3, 45) else set()
    filters = page.filters(request, page.parameters(request, "backup", drop=drop))
    db = request.cloud.db
    rows = await db.read(backups.backups, request.caller, query, filters)
    shown = [_full(request, row) if detailed else _basic(request, row) for row in rows]
    body = page.with_more({"backups": shown}, "backups_links", request, query, [row["id"] for row in rows])
    if request.version >= (3, 45) and request.flag("with_count"):
        body["count"] = await db.read(backups.count, request.caller, filters)
    return ok(body)


async def show(request: Request) -> Response:
    """GET /backups/{backup_id}"""
    row = await request.cloud.db.read(backups.find, request.caller, request.params["backup_id"])
    return ok({"backup": _full(request, row)})


async def create(request: Request) -> Response:
    """POST /backups"""
    asked = (await request.struct(wire.Create)).backup
    new = backups.New(
        volume_id=asked.volume_id,
        snapshot_id=asked.snapshot_id,
        name=volume_forms.clean(asked.name),
        description=volume_forms.clean(asked.description),
        container=asked.container,
        zone=asked.availability_zone,
        metadata=asked.metadata or {},
        incremental=boolean(asked.incremental, "incremental"),
        force=boolean(asked.force, "force"),
    )
    row = await request.cloud.db.write(backups.create, request.caller, new)
    return accepted({"backup": _basic(request, row)})


async def update(request: Request) -> Response:
    """PUT /backups/{backup_id}, since 3.9"""
    asked = (await request.struct(wire.Update)).backup
    if asked is None:
        raise Invalid("Missing required element 'backup' in request body.")
    changes: dict[str, Any] = {
        name: volume_forms.clean(value)
        for name in ("name", "description")
        if (value := getattr(asked, name)) is not UNSET
    }
    if asked.metadata is not UNSET:
        changes["metadata"] = asked.metadata
    row = await request.cloud.db.write(backups.update, request.caller, request.params["backup_id"], changes)
    return ok({"backup": _basic(request, row)})


async def delete(request: Request) -> Response:
    """DELETE /backups/{backup_id}"""
    await request.cloud.db.write(backups.delete, request.caller, request.params["backup_id"])
    return accepted()


async def restore(request: Request) -> Response:
    """POST /backups/{backup_id}/restore"""
    asked = (await request.struct(wire.Restore)).restore or wire.Target()
    id = request.params["backup_id"]
    volume = await request.cloud.db.write(
        backups.restore, request.caller, id, asked.volume_id, volume_forms.clean(asked.name)
    )
    return accepted(
        {"restore": {"backup_id": id, "volume_id": volume["id"], "volume_name": volume["name"] or ""}}
    )


async def export_record(request: Request) -> Response:
    """GET /backups/{backup_id}/export_record"""
    url = await request.cloud.db.read(backups.export_record, request.caller, request.params["backup_id"])
    return ok({"backup-record": {"backup_service": backups.SERVICE, "backup_url": url}})


async def import_record(request: Request) -> Response:
    """POST /backups/import_record"""
    asked = (await request.struct(wire.Import)).record
    row = await request.cloud.db.write(
        backups.import_record, request.caller, asked.backup_service, asked.backup_url
    )
    return Response(201, {"backup": _basic(request, row)})


async def reset_status(request: Request) -> Response:
    """POST /backups/{backup_id}/action {"os-reset_status": …}"""
    status = request.action_as(wire.Status).status.lower()
    if status not in backups.STATUSES:
        raise Invalid(
            f"Backup status: {status} is invalid, valid statuses are: {', '.join(sorted(backups.STATUSES))}."
        )
    await request.cloud.db.write(backups.reset_status, request.caller, request.params["backup_id"], status)
    return accepted()


async def force_delete(request: Request) -> Response:
    """POST /backups/{backup_id}/action {"os-force_delete": {}}"""
    await request.cloud.db.write(backups.delete, request.caller, request.params["backup_id"], force=True)
    return accepted()


RULES = {_PROJECT: ADMIN}

_ALL = "/v3/backups"
_ONE = f"{_ALL}/{{backup_id}}"
_BY_ADMIN = "volume_extension:backup_admin_actions"

ROUTES = (
    Route("GET", _ALL, index, "backup:get_all", READER),
    Route("POST", _ALL, create, "backup:create", MEMBER),
    Route("GET", f"{_ALL}/detail", detail, "backup:get_all", READER),
    Route("POST", f"{_ALL}/import_record", import_record, "backup:backup-import", ADMIN),
    Route("GET", _ONE, show, "backup:get", READER),
    Route("PUT", _ONE, update, "backup:update", MEMBER, since=(3, 9)),
    Route("DELETE", _ONE, delete, "backup:delete", MEMBER),
    Route("POST", f"{_ONE}/restore", restore, "backup:restore", MEMBER),
    Route("GET", f"{_ONE}/export_record", export_record, "backup:export-import", ADMIN),
    Route(
        "POST", f"{_ONE}/action", reset_status, f"{_BY_ADMIN}:reset_status", ADMIN, action="os-reset_status"
    ),
    Route(
        "POST", f"{_ONE}/action", force_delete, f"{_BY_ADMIN}:force_delete", ADMIN, action="os-force_delete"
    ),
)
