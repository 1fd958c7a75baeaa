"""Quotas and limits. See the Block Storage API reference, "Quota sets extension", "Quota class set", "Limits"."""

from __future__ import annotations

from typing import Any

from cumulet.api.asgi import Route
from cumulet.api.request import Request, Response, ok
from cumulet.api.volume import permit
from cumulet.core import quota, volume_quotas
from cumulet.core.policy import ADMIN, READER
from cumulet.errors import Invalid
from cumulet.wire.forms import MAX_INT

#: Names in a body that are no resources.
_NO_RESOURCES = ("tenant_id", "id")
_SHOW = "volume_extension:quotas:show"
_USED = "limits_extension:used_limits"


async def _changes(request: Request, name: str) -> dict[str, int]:
    """The limits in a body. Raises Invalid, naming what is not a whole number from -1 on."""
    body = await request.document()
    asked = body.get(name)
    if set(body) != {name} or not isinstance(asked, dict) or not asked or len(asked) > 1000:
        raise Invalid(f"Invalid input for field/attribute {name}: an object with limits was expected.")
    found = {}
    for key, value in asked.items():
        if key in _NO_RESOURCES:
            continue
        try:
            limit = int(value) if not isinstance(value, bool | float) else None
        except (TypeError, ValueError):
            limit = None
        if limit is None or not -1 <= limit <= MAX_INT:
            raise Invalid(
                f"Invalid input for field/attribute {key}: {value!r} is not a whole number from -1 to {MAX_INT}."
            )
        found[key] = limit
    return found


async def show(request: Request) -> Response:
    """GET /os-quota-sets/{target_id}; with usage=True also what is used"""
    project = request.params["target_id"]
    permit.require(request, _SHOW, project_id=project)
    found: Any = await request.cloud.db.read(
        volume_quotas.with_usage if request.flag("usage") else volume_quotas.limits, project
    )
    return ok({"quota_set": {"id": project, **found}})


async def defaults(request: Request) -> Response:
    """GET /os-quota-sets/{target_id}/defaults"""
    project = request.params["target_id"]
    permit.require(request, _SHOW, project_id=project)
    return ok({"quota_set": {"id": project, **await request.cloud.db.read(volume_quotas.defaults)}})


async def update(request: Request) -> Response:
    """PUT /os-quota-sets/{target_id}"""
    changes = await _changes(request, "quota_set")
    found = await request.cloud.db.write(volume_quotas.change, request.params["target_id"], changes)
    return ok({"quota_set": found})


async def delete(request: Request) -> Response:
    """DELETE /os-quota-sets/{target_id}"""
    await request.cloud.db.write(quota.forget_limits, "volume", request.params["target_id"])
    return Response(200)


async def show_class(request: Request) -> Response:
    """GET /os-quota-class-sets/{name}"""
    name = request.params["name"]
    return ok({"quota_class_set": {"id": name, **await request.cloud.db.read(volume_quotas.of_class, name)}})


async def update_class(request: Request) -> Response:
    """PUT /os-quota-class-sets/{name}"""
    changes = await _changes(request, "quota_class_set")
    found = await request.cloud.db.write(volume_quotas.change_class, request.params["name"], changes)
    return ok({"quota_class_set": found})


async def limits(request: Request) -> Response:
    """GET /limits; of another project since 3.39, for administrators"""
    project = request.caller.project_id or ""
    if request.version >= (3, 39) and request.caller.is_admin:
        project = request.arg("project_id") or request.arg("tenant_id") or project
    found = await request.cloud.db.read(
        volume_quotas.absolute, project, with_usage=permit.allows(request, _USED)
    )
    return ok({"limits": {"rate": [], "absolute": found}})


RULES = {_USED: READER}

_SETS = "/v3/os-quota-sets/{target_id}"
_CLASSES = "/v3/os-quota-class-sets/{name}"

ROUTES = (
    Route("GET", _SETS, show, _SHOW, READER),
    Route("PUT", _SETS, update, "volume_extension:quotas:update", ADMIN),
    Route("DELETE", _SETS, delete, "volume_extension:quotas:delete", ADMIN),
    Route("GET", f"{_SETS}/defaults", defaults, _SHOW, READER),
    Route("GET", _CLASSES, show_class, "volume_extension:quota_classes:get", ADMIN),
    Route("PUT", _CLASSES, update_class, "volume_extension:quota_classes:update", ADMIN),
    Route("GET", "/v3/limits", limits, "volume:limits", READER),
)
