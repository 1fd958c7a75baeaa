"""Usages. See the Placement API reference, "Resource provider usages" and "Usages"."""

from __future__ import annotations

import re
from typing import Any

from cumulet.api.asgi import Route
from cumulet.api.placement.answer import check_accept, fresh
from cumulet.api.placement.providers import CHECK
from cumulet.api.query import only
from cumulet.api.request import Request, Response
from cumulet.core import usages
from cumulet.errors import Forbidden, Invalid

_TYPE = re.compile(r"[A-Z0-9_]+\Z|all\Z|unknown\Z")
_TOTAL = "placement:usages"


async def of_provider(request: Request) -> Response:
    """GET /resource_providers/{uuid}/usages"""
    check_accept(request)
    provider, used = await request.cloud.db.read(usages.of, request.params["uuid"])
    return fresh(request, {"resource_provider_generation": provider.generation, "usages": used})


async def of_project(request: Request) -> Response:
    """GET /usages; by type of consumer since 1.38"""
    check_accept(request)
    project_id = request.arg("project_id")
    target = {"project_id": project_id, "user_id": request.caller.user_id}
    if not request.cloud.policy.allows(_TOTAL, request.caller, target):
        raise Forbidden(f"Policy does not allow {_TOTAL} to be performed.")
    typed = request.version >= (1, 38)
    only(request, "project_id", "user_id", *(["consumer_type"] if typed else []))
    kind = request.arg("consumer_type")
    for name, value in (("project_id", project_id), ("user_id", request.arg("user_id"))):
        if value is not None and not 1 <= len(value) <= 255:
            raise Invalid(f"Invalid query string parameters: {name} must have 1 to 255 characters.")
    if project_id is None:
        raise Invalid("Invalid query string parameters: 'project_id' is a required property")
    if kind is not None and not (_TYPE.match(kind) and len(kind) <= 255):
        raise Invalid(f"Invalid query string parameters: {kind!r} is not a consumer_type.")
    user_id = request.arg("user_id")
    found: dict[str, Any]
    if typed:
        found = await request.cloud.db.read(usages.by_type, project_id, user_id, kind)
    else:
        found = await request.cloud.db.read(usages.of_project, project_id, user_id)
    return fresh(request, {"usages": found})


ROUTES = (
    Route("GET", "/resource_providers/{uuid}/usages", of_provider, "placement:resource_providers:usages", CHECK),
    Route(
        "GET", "/usages", of_project, _TOTAL, "rule:admin_or_project_reader_or_service_api", since=(1, 9)
    ),
)  # fmt: skip
