"""Groups and group snapshots. See the Block Storage API reference, "Generic volume groups", "Group snapshots"."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from cumulet.api.asgi import Route
from cumulet.api.request import Request, Response, accepted, boolean, ok
from cumulet.api.volume import page, permit
from cumulet.core import volume_groups
from cumulet.core.policy import ADMIN, MEMBER, READER
from cumulet.db.engine import Row
from cumulet.db.query import Query
from cumulet.errors import Invalid
from cumulet.wire import volume_forms
from cumulet.wire import volume_groups as wire
from cumulet.wire.body import encode
from cumulet.wire.forms import precise

_SEE_PROJECT = "group:group_project_attribute"
_SEE_SNAPSHOT_PROJECT = "group:group_snapshot_project_attribute"


def _id(request: Request) -> str:
    return request.params["group_id"]


def _basic(row: Row) -> dict[str, Any]:
    return {"id": row["id"], "name": row["name"]}


def _full(request: Request, row: Row) -> dict[str, Any]:
    body = wire.Group(
        id=row["id"],
        status=row["shown"],
        availability_zone=row["zone"],
        created_at=precise(row["created_at"]),
        name=row["name"],
        description=row["description"],
        group_type=row["group_type_id"],
        volume_types=row["volume_types"],
        group_snapshot_id=row["group_snapshot_id"],
        source_group_id=row["source_group_id"],
        volumes=row["volumes"] if request.flag("list_volume") else UNSET,
        project_id=row["project_id"] if permit.allows(request, _SEE_PROJECT) else UNSET,
    )
    return encode(body, request.version)


async def index(request: Request) -> Response:
    """GET /groups"""
    return await _list(request, detailed=False)


async def detail(request: Request) -> Response:
    """GET /groups/detail"""
    return await _list(request, detailed=True)


async def _list(request: Request, *, detailed: bool) -> Response:
    query = page.page_of(request, volume_groups.SORTABLE)
    found = page.parameters(request, "group", drop={"list_volume"})
    found.pop("all_tenants", None)
    rows = await request.cloud.db.read(
        volume_groups.groups, request.caller, query, found, everybody=page.everybody(request)
    )
    body = {"groups": [_full(request, row) if detailed else _basic(row) for row in rows]}
    return ok(page.with_more(body, "group_links", request, query, [row["id"] for row in rows]))


async def show(request: Request) -> Response:
    """GET /groups/{group_id}"""
    row = await request.cloud.db.read(volume_groups.find, request.caller, _id(request))
    return ok({"group": _full(request, row)})


async def create(request: Request) -> Response:
    """POST /groups"""
    asked = (await request.struct(wire.Create)).group
    row = await request.cloud.db.write(
        volume_groups.create,
        request.caller,
        name=volume_forms.clean(asked.name),
        description=volume_forms.clean(asked.description),
        group_type=asked.group_type,
        types=asked.volume_types,
        zone=asked.availability_zone,
    )
    return accepted({"group": _basic(row)})


async def create_from(request: Request) -> Response:
    """POST /groups/action {"create-from-src": …}, since 3.14"""
    asked = request.action_as(wire.FromSource)
    row = await request.cloud.db.write(
        volume_groups.create_from,
        request.caller,
        name=volume_forms.clean(asked.name),
        description=volume_forms.clean(asked.description),
        group_id=asked.source_group_id,
        group_snapshot_id=asked.group_snapshot_id,
    )
    return accepted({"group": _basic(row)})


async def update(request: Request) -> Response:
    """PUT /groups/{group_id}"""
    asked = (await request.struct(wire.Update)).group
    changes = {
        "name": volume_forms.clean(asked.name),
        "description": volume_forms.clean(asked.description),
    }
    await request.cloud.db.write(
        volume_groups.update,
        request.caller,
        _id(request),
        changes,
        _several(asked.add_volumes),
        _several(asked.remove_volumes),
    )
    return accepted()


def _several(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


async def delete(request: Request) -> Response:
    """POST /groups/{group_id}/action {"delete": …}"""
    asked = request.action_as(wire.Delete)
    await request.cloud.db.write(
        volume_groups.delete,
        request.caller,
        _id(request),
        with_volumes=boolean(asked.with_volumes, "delete-volumes"),
    )
    return accepted()


async def reset_status(request: Request) -> Response:
    """POST /groups/{group_id}/action {"reset_status": …}, since 3.20"""
    status = request.action_as(wire.Status).status.lower()
    if status not in volume_groups.STATUSES:
        raise Invalid(
            f"Group status: {status} is invalid, valid status are: {', '.join(sorted(volume_groups.STATUSES))}."
        )
    await request.cloud.db.write(volume_groups.reset_status, request.caller, _id(request), status)
    return accepted()


# --- group snapshots ---


def _snapshot_id(request: Request) -> str:
    return request.params["group_snapshot_id"]


def _full_snapshot(request: Request, row: Row) -> dict[str, Any]:
    body = wire.GroupSnapshot(
        id=row["id"],
        group_id=row["group_id"],
        group_type_id=row["group_type_id"],
        status=row["shown"],
        created_at=precise(row["created_at"]),
        name=row["name"],
        description=row["description"],
        project_id=row["project_id"] if permit.allows(request, _SEE_SNAPSHOT_PROJECT) else UNSET,
    )
    return encode(body, request.version)


async def list_snapshots(request: Request) -> Response:
    """GET /group_snapshots"""
    return await _list_snapshots(request, detailed=False)


async def detail_snapshots(request: Request) -> Response:
    """GET /group_snapshots/detail"""
    return await _list_snapshots(request, detailed=True)


async def _list_snapshots(request: Request, *, detailed: bool) -> Response:
    query, found = Query(limit=page.PAGE), {}
    if request.version >= (3, 29):
        query = page.page_of(request, volume_groups.SORTABLE)
        found = page.parameters(request, "group_snapshot")
        found.pop("all_tenants", None)
    rows = await request.cloud.db.read(
        volume_groups.group_snapshots, request.caller, query, found, everybody=page.everybody(request)
    )
    shown = [_full_snapshot(request, row) if detailed else _basic(row) for row in rows]
    body = {"group_snapshots": shown}
    return ok(page.with_more(body, "group_snapshot_links", request, query, [row["id"] for row in rows]))


async def show_snapshot(request: Request) -> Response:
    """GET /group_snapshots/{group_snapshot_id}"""
    row = await request.cloud.db.read(volume_groups.find_snapshot, request.caller, _snapshot_id(request))
    return ok({"group_snapshot": _full_snapshot(request, row)})


async def create_snapshot(request: Request) -> Response:
    """POST /group_snapshots"""
    asked = (await request.struct(wire.CreateSnapshot)).group_snapshot
    row = await request.cloud.db.write(
        volume_groups.take,
        request.caller,
        asked.group_id,
        name=volume_forms.clean(asked.name),
        description=volume_forms.clean(asked.description),
    )
    return accepted({"group_snapshot": {**_basic(row), "group_type_id": row["group_type_id"]}})


async def delete_snapshot(request: Request) -> Response:
    """DELETE /group_snapshots/{group_snapshot_id}"""
    await request.cloud.db.write(volume_groups.delete_snapshot, request.caller, _snapshot_id(request))
    return accepted()


async def reset_snapshot_status(request: Request) -> Response:
    """POST /group_snapshots/{group_snapshot_id}/action {"reset_status": …}, since 3.19"""
    status = request.action_as(wire.Status).status.lower()
    known = volume_groups.SNAPSHOT_STATUSES
    if status not in known:
        raise Invalid(
            f"Group snapshot status: {status} is invalid, valid statuses are: {', '.join(sorted(known))}."
        )
    await request.cloud.db.write(
        volume_groups.reset_snapshot_status, request.caller, _snapshot_id(request), status
    )
    return accepted()


RULES = {_SEE_PROJECT: ADMIN, _SEE_SNAPSHOT_PROJECT: ADMIN}

_ALL = "/v3/groups"
_ONE = f"{_ALL}/{{group_id}}"
_SNAPSHOTS = "/v3/group_snapshots"
_SNAPSHOT = f"{_SNAPSHOTS}/{{group_snapshot_id}}"

ROUTES = (
    Route("GET", _ALL, index, "group:get_all", READER, since=(3, 13)),
    Route("POST", _ALL, create, "group:create", MEMBER, since=(3, 13)),
    Route("GET", f"{_ALL}/detail", detail, "group:get_all", READER, since=(3, 13)),
    Route("POST", f"{_ALL}/action", create_from, "group:create", MEMBER, since=(3, 14), action="create-from-src"),
    Route("GET", _ONE, show, "group:get", READER, since=(3, 13)),
    Route("PUT", _ONE, update, "group:update", MEMBER, since=(3, 13)),
    Route("POST", f"{_ONE}/action", delete, "group:delete", MEMBER, since=(3, 13), action="delete"),
    Route("POST", f"{_ONE}/action", reset_status, "group:reset_status", ADMIN, since=(3, 20), action="reset_status"),
    Route("GET", _SNAPSHOTS, list_snapshots, "group:get_all_group_snapshots", READER, since=(3, 14)),
    Route("POST", _SNAPSHOTS, create_snapshot, "group:create_group_snapshot", MEMBER, since=(3, 14)),
    Route("GET", f"{_SNAPSHOTS}/detail", detail_snapshots, "group:get_all_group_snapshots", READER, since=(3, 14)),
    Route("GET", _SNAPSHOT, show_snapshot, "group:get_group_snapshot", READER, since=(3, 14)),
    Route("DELETE", _SNAPSHOT, delete_snapshot, "group:delete_group_snapshot", MEMBER, since=(3, 14)),
    Route(
        "POST", f"{_SNAPSHOT}/action", reset_snapshot_status, "group:reset_group_snapshot_status", ADMIN, since=(3, 19),
        action="reset_status",
    ),
)  # fmt: skip
