"""Group types and their specs. See the Block Storage API reference, "Group types", "Group type specs", since 3.11."""

from __future__ import annotations

from typing import Any

from cumulet.api.asgi import Route
from cumulet.api.request import Request, Response, accepted, boolean, ok
from cumulet.api.volume import page, permit
from cumulet.core import volume_group_types
from cumulet.core.policy import ADMIN, READER
from cumulet.db.engine import Row
from cumulet.errors import Invalid, NotFound
from cumulet.wire import volume_groups as wire
from cumulet.wire.body import decode

_SEE_SPECS = "group:access_group_types_specs"


def _id(request: Request) -> str:
    return request.params["group_type_id"]


def _shown(request: Request, row: Row) -> dict[str, Any]:
    body = {name: row[name] for name in ("id", "name", "description", "is_public")}
    if permit.allows(request, _SEE_SPECS):
        body["group_specs"] = row["group_specs"]
    return body


async def index(request: Request) -> Response:
    """GET /group_types"""
    query = page.page_of(request, volume_group_types.SORTABLE)
    text = request.arg("is_public")
    is_public = True if text is None else None if text.lower() == "none" else boolean(text, "is_public")
    rows = await request.cloud.db.read(volume_group_types.listing, request.caller, query, is_public=is_public)
    body = {"group_types": [_shown(request, row) for row in rows]}
    return ok(page.with_more(body, "group_type_links", request, query, [row["id"] for row in rows]))


async def show(request: Request) -> Response:
    """GET /group_types/{group_type_id}; ``default`` stands for the one of that name"""
    find = volume_group_types.named if _id(request) == volume_group_types.DEFAULT else volume_group_types.find
    return ok(
        {"group_type": _shown(request, await request.cloud.db.read(find, request.caller, _id(request)))}
    )


async def create(request: Request) -> Response:
    """POST /group_types"""
    asked = (await request.struct(wire.CreateType)).group_type
    row = await request.cloud.db.write(
        volume_group_types.create,
        name=asked.name.strip(),
        description=asked.description,
        is_public=boolean(asked.is_public, "is_public"),
        group_specs=asked.group_specs or {},
    )
    return accepted({"group_type": _shown(request, row)})


async def update(request: Request) -> Response:
    """PUT /group_types/{group_type_id}"""
    asked = (await request.struct(wire.UpdateType)).group_type
    changes: dict[str, Any] = {}
    if asked.name is not None:
        changes["name"] = asked.name.strip()
    if asked.description is not None:
        changes["description"] = asked.description
    if asked.is_public is not None:
        changes["is_public"] = boolean(asked.is_public, "is_public")
    row = await request.cloud.db.write(volume_group_types.update, request.caller, _id(request), changes)
    return ok({"group_type": _shown(request, row)})


async def delete(request: Request) -> Response:
    """DELETE /group_types/{group_type_id}"""
    await request.cloud.db.write(volume_group_types.delete, request.caller, _id(request))
    return accepted()


async def _specs(request: Request) -> dict[str, Any]:
    row = await request.cloud.db.read(volume_group_types.find, request.caller, _id(request))
    return dict(row["group_specs"])


async def list_specs(request: Request) -> Response:
    """GET /group_types/{group_type_id}/group_specs"""
    return ok({"group_specs": await _specs(request)})


async def create_specs(request: Request) -> Response:
    """POST /group_types/{group_type_id}/group_specs"""
    asked = await request.struct(wire.Specs)
    await request.cloud.db.write(
        volume_group_types.set_specs, request.caller, _id(request), asked.group_specs
    )
    return accepted({"group_specs": asked.group_specs})


async def show_spec(request: Request) -> Response:
    """GET /group_types/{group_type_id}/group_specs/{key}"""
    found, key = await _specs(request), request.params["key"]
    if key not in found:
        raise NotFound(f"Group Type {_id(request)} has no extra spec with key {key}.")
    return ok({key: found[key]})


async def update_spec(request: Request) -> Response:
    """PUT /group_types/{group_type_id}/group_specs/{key}"""
    body = await request.document()
    decode({"group_specs": body}, wire.Specs, request.version)
    if list(body) != [request.params["key"]]:
        raise Invalid("Request body and URI mismatch: the body must hold the one spec that the path names.")
    await request.cloud.db.write(volume_group_types.set_specs, request.caller, _id(request), body)
    return ok(body)


async def delete_spec(request: Request) -> Response:
    """DELETE /group_types/{group_type_id}/group_specs/{key}"""
    await request.cloud.db.write(
        volume_group_types.delete_spec, request.caller, _id(request), request.params["key"]
    )
    return accepted()


RULES = {_SEE_SPECS: ADMIN}

_ALL = "/v3/group_types"
_ONE = f"{_ALL}/{{group_type_id}}"
_SPECS = f"{_ONE}/group_specs"
_RULE = "group:group_types"
_SINCE = (3, 11)

ROUTES = (
    # Reading group types has no rule upstream: whoever has a token may.
    Route("GET", _ALL, index, f"{_RULE}:get", READER, since=_SINCE),
    Route("POST", _ALL, create, f"{_RULE}:create", ADMIN, since=_SINCE),
    Route("GET", _ONE, show, f"{_RULE}:get", READER, since=_SINCE),
    Route("PUT", _ONE, update, f"{_RULE}:update", ADMIN, since=_SINCE),
    Route("DELETE", _ONE, delete, f"{_RULE}:delete", ADMIN, since=_SINCE),
    Route("GET", _SPECS, list_specs, "group:group_types_specs:get_all", ADMIN, since=_SINCE),
    Route("POST", _SPECS, create_specs, "group:group_types_specs:create", ADMIN, since=_SINCE),
    Route("GET", f"{_SPECS}/{{key}}", show_spec, "group:group_types_specs:get", ADMIN, since=_SINCE),
    Route("PUT", f"{_SPECS}/{{key}}", update_spec, "group:group_types_specs:update", ADMIN, since=_SINCE),
    Route("DELETE", f"{_SPECS}/{{key}}", delete_spec, "group:group_types_specs:delete", ADMIN, since=_SINCE),
)
