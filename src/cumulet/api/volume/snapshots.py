"""Snapshots. See the Block Storage API reference, "Volume snapshots (snapshots)"."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from cumulet.api.asgi import Route
from cumulet.api.request import Request, Response, accepted, boolean, ok
from cumulet.api.volume import page, permit
from cumulet.core import snapshots
from cumulet.core.policy import ADMIN, MEMBER, READER
from cumulet.db.engine import Row
from cumulet.errors import Invalid, NotFound
from cumulet.wire import snapshots as wire
from cumulet.wire import volume_forms
from cumulet.wire import volumes as volumes_wire
from cumulet.wire.body import encode
from cumulet.wire.forms import precise, precise_or_none

_EXTENDED = "volume_extension:extended_snapshot_attributes"
_USABLE = ("status", "volume_id", "name", "metadata")


def _shown(request: Request, row: Row, *, detailed: bool, extended: bool = False) -> dict[str, Any]:
    extended = extended and permit.allows(request, _EXTENDED)
    progress = row["progress"] or ("100%" if row["status"] in ("available", "deleting") else "0%")
    body = wire.Snapshot(
        id=row["id"],
        created_at=precise(row["created_at"]),
        updated_at=precise_or_none(row["updated_at"] if row["updated_at"] != row["created_at"] else None),
        name=row["name"],
        description=row["description"],
        volume_id=row["volume_id"],
        status=row["status"],
        size=row["size"],
        metadata=row["metadata"],
        group_snapshot_id=row["group_snapshot_id"] if detailed else UNSET,
        user_id=row["user_id"] if detailed else UNSET,
        consumes_quota=True if detailed else UNSET,
        progress=progress if extended else UNSET,
        project_id=row["project_id"] if extended else UNSET,
    )
    return encode(body, request.version)


def shown(request: Request, row: Row) -> dict[str, Any]:
    """A snapshot as answers to those who make one show it."""
    return _shown(request, row, detailed=True)


async def index(request: Request) -> Response:
    """GET /snapshots"""
    return await _list(request, detailed=False)


async def detail(request: Request) -> Response:
    """GET /snapshots/detail"""
    return await _list(request, detailed=True)


async def _list(request: Request, *, detailed: bool) -> Response:
    query = page.page_of(request, snapshots.SORTABLE)
    drop = {"with_count"} if request.version >= (3, 45) else set()
    if request.version < (3, 22):
        drop.add("metadata")
    filters = page.filters(request, page.parameters(request, "snapshot", drop=drop, allowed=_USABLE))
    db = request.cloud.db
    rows = await db.read(snapshots.snapshots, request.caller, query, filters)
    shown = [_shown(request, row, detailed=detailed, extended=detailed) for row in rows]
    body = page.with_more(
        {"snapshots": shown}, "snapshots_links", request, query, [row["id"] for row in rows]
    )
    if request.version >= (3, 45) and request.flag("with_count"):
        body["count"] = await db.read(snapshots.count, request.caller, filters)
    return ok(body)


async def show(request: Request) -> Response:
    """GET /snapshots/{snapshot_id}"""
    row = await request.cloud.db.read(snapshots.find, request.caller, request.params["snapshot_id"])
    return ok({"snapshot": _shown(request, row, detailed=True, extended=True)})


async def create(request: Request) -> Response:
    """POST /snapshots; of a volume in use with force, and since 3.66 without"""
    asked = (await request.struct(wire.Create)).snapshot
    if asked.volume_id is None:
        raise NotFound("Volume null could not be found: volume_id must name the volume.")
    force = None if asked.force is None else boolean(asked.force, "force")
    modern = request.version >= (3, 66)
    if modern and force is False:
        raise Invalid("Since microversion 3.66 the 'force' flag is invalid for this request.")
    row = await request.cloud.db.write(
        snapshots.create,
        request.caller,
        str(asked.volume_id),
        name=volume_forms.clean(asked.name if asked.name is not None else asked.display_name),
        description=volume_forms.clean(asked.description),
        metadata=asked.metadata or {},
        in_use=modern or bool(force),
    )
    return accepted({"snapshot": _shown(request, row, detailed=True)})


async def update(request: Request) -> Response:
    """PUT /snapshots/{snapshot_id}"""
    asked = (await request.struct(wire.Update)).snapshot
    changes: dict[str, Any] = {}
    for column in ("name", "description"):
        for name in (f"display_{column}", column):
            value = getattr(asked, name)
            if value is not UNSET:
                changes[column] = volume_forms.clean(value)
    row = await request.cloud.db.write(
        snapshots.update, request.caller, request.params["snapshot_id"], changes
    )
    return ok({"snapshot": _shown(request, row, detailed=True)})


async def delete(request: Request) -> Response:
    """DELETE /snapshots/{snapshot_id}"""
    await request.cloud.db.write(snapshots.delete, request.caller, request.params["snapshot_id"])
    return accepted()


# --- metadata ---


async def _metadata(request: Request) -> dict[str, str]:
    row = await request.cloud.db.read(snapshots.find, request.caller, request.params["snapshot_id"])
    return dict(row["metadata"])


async def list_metadata(request: Request) -> Response:
    """GET /snapshots/{snapshot_id}/metadata"""
    return ok({"metadata": await _metadata(request)})


async def create_metadata(request: Request) -> Response:
    """POST /snapshots/{snapshot_id}/metadata"""
    return await _set_metadata(request, replace=False)


async def replace_metadata(request: Request) -> Response:
    """PUT /snapshots/{snapshot_id}/metadata"""
    return await _set_metadata(request, replace=True)


async def _set_metadata(request: Request, *, replace: bool) -> Response:
    asked = await request.struct(volumes_wire.Metadata)
    found = await request.cloud.db.write(
        snapshots.set_metadata, request.caller, request.params["snapshot_id"], asked.metadata, replace=replace
    )
    return ok({"metadata": found})


async def show_metadata(request: Request) -> Response:
    """GET /snapshots/{snapshot_id}/metadata/{key}"""
    found, key = await _metadata(request), request.params["key"]
    if key not in found:
        raise NotFound(f"Snapshot {request.params['snapshot_id']} has no metadata with key {key}.")
    return ok({"meta": {key: found[key]}})


async def update_metadata(request: Request) -> Response:
    """PUT /snapshots/{snapshot_id}/metadata/{key}"""
    asked = await request.struct(volumes_wire.Meta)
    if request.params["key"] not in asked.meta:
        raise Invalid("Request body and URI mismatch: the body must hold the pair that the path names.")
    await request.cloud.db.write(
        snapshots.set_metadata, request.caller, request.params["snapshot_id"], asked.meta
    )
    return ok({"meta": asked.meta})


async def delete_metadata(request: Request) -> Response:
    """DELETE /snapshots/{snapshot_id}/metadata/{key}"""
    await request.cloud.db.write(
        snapshots.delete_metadata, request.caller, request.params["snapshot_id"], request.params["key"]
    )
    return Response(200)


# --- actions ---


async def reset_status(request: Request) -> Response:
    """POST /snapshots/{snapshot_id}/action {"os-reset_status": …}"""
    status = request.action_as(wire.Status).status.lower()
    if status not in snapshots.STATUSES:
        raise Invalid(
            f"Snapshot status: {status} is invalid, valid statuses are: {', '.join(sorted(snapshots.STATUSES))}."
        )
    await request.cloud.db.write(
        snapshots.reset_status, request.caller, request.params["snapshot_id"], status
    )
    return accepted()


async def update_status(request: Request) -> Response:
    """POST /snapshots/{snapshot_id}/action {"os-update_snapshot_status": …}"""
    asked = request.action_as(wire.StatusAndProgress)
    await request.cloud.db.write(
        snapshots.update_status, request.caller, request.params["snapshot_id"], asked.status, asked.progress
    )
    return accepted()


async def force_delete(request: Request) -> Response:
    """POST /snapshots/{snapshot_id}/action {"os-force_delete": {}}"""
    await request.cloud.db.write(snapshots.delete, request.caller, request.params["snapshot_id"], force=True)
    return accepted()


RULES = {_EXTENDED: READER}

_ALL = "/v3/snapshots"
_ONE = f"{_ALL}/{{snapshot_id}}"
_META = f"{_ONE}/metadata"
_ADMIN = "volume_extension:snapshot_admin_actions"
_UPDATE_STATUS = "snapshot_extension:snapshot_actions:update_snapshot_status"

ROUTES = (
    Route("GET", _ALL, index, "volume:get_all_snapshots", READER),
    Route("POST", _ALL, create, "volume:create_snapshot", MEMBER),
    Route("GET", f"{_ALL}/detail", detail, "volume:get_all_snapshots", READER),
    Route("GET", _ONE, show, "volume:get_snapshot", READER),
    Route("PUT", _ONE, update, "volume:update_snapshot", MEMBER),
    Route("DELETE", _ONE, delete, "volume:delete_snapshot", MEMBER),
    Route("GET", _META, list_metadata, "volume:get_snapshot_metadata", READER),
    Route("POST", _META, create_metadata, "volume:update_snapshot_metadata", MEMBER),
    Route("PUT", _META, replace_metadata, "volume:update_snapshot_metadata", MEMBER),
    Route("GET", f"{_META}/{{key}}", show_metadata, "volume:get_snapshot_metadata", READER),
    Route("PUT", f"{_META}/{{key}}", update_metadata, "volume:update_snapshot_metadata", MEMBER),
    Route("DELETE", f"{_META}/{{key}}", delete_metadata, "volume:delete_snapshot_metadata", MEMBER),
    Route("POST", f"{_ONE}/action", reset_status, f"{_ADMIN}:reset_status", ADMIN, action="os-reset_status"),
    Route("POST", f"{_ONE}/action", force_delete, f"{_ADMIN}:force_delete", ADMIN, action="os-force_delete"),
    Route(
        "POST", f"{_ONE}/action", update_status, _UPDATE_STATUS, MEMBER, action="os-update_snapshot_status"
    ),
)
