"""Quotas. See Neutron's API reference, "Quotas extension", "Quotas details extension"."""

from __future__ import annotations

from typing import Any

from cumulet.api.asgi import Route
from cumulet.api.network.collection import identifier, rights
from cumulet.api.network.rules import ADMIN, MANAGER
from cumulet.api.request import Request, Response, no_content, ok
from cumulet.core import network_quotas
from cumulet.errors import Forbidden, Invalid, NotFound
from cumulet.wire.network import checks


def _only_admin(request: Request, reason: str = "Only admin can view or configure quota") -> None:
    if not rights(request).may("update_quota", {"project_id": ""}):
        raise Forbidden(f"User does not have admin privileges: {reason}.", code="AdminRequired")


def _own_or_admin(request: Request) -> str:
    project_id = identifier(request)
    if project_id != request.caller.project_id:
        _only_admin(request, "Only admin is authorized to access quotas for another project")
    return project_id


async def page(request: Request) -> Response:
    """GET /quotas"""
    _only_admin(request)
    found = await request.cloud.db.read(network_quotas.page)
    quotas = [{**limits, "project_id": id, "tenant_id": id} for id, limits in found.items()]
    return ok({"quotas": quotas})


async def show(request: Request) -> Response:
    """GET /quotas/{project_id}"""
    project_id = identifier(request)
    if project_id in ("tenant", "project"):
        # Clients ask in this way which project their token is for.
        return ok({project_id: {f"{project_id}_id": request.caller.project_id}})
    if not rights(request).may("get_quota", {"project_id": project_id}):
        raise NotFound("The resource could not be found.")
    return ok({"quota": await _quota(request, project_id)})


async def _quota(request: Request, project_id: str) -> dict[str, Any]:
    return {**await request.cloud.db.read(network_quotas.limits, project_id), "project_id": project_id}


async def defaults(request: Request) -> Response:
    """GET /quotas/{project_id}/default"""
    _own_or_admin(request)
    return ok({"quota": await request.cloud.db.read(network_quotas.defaults)})


async def details(request: Request) -> Response:
    """GET /quotas/{project_id}/details"""
    project_id = _own_or_admin(request)
    return ok({"quota": await request.cloud.db.read(network_quotas.details, project_id)})


async def update(request: Request) -> Response:
    """PUT /quotas/{project_id}"""
    project_id = identifier(request)
    body = (await request.document()).get("quota")
    if not isinstance(body, dict):
        raise Invalid("Unable to find 'quota' in request body")
    changes: dict[str, int] = {}
    options: dict[str, bool] = {}
    for name, value in body.items():
        if name in ("tenant_id", "project_id"):
            continue
        if name in ("check_limit", "force"):
            options[name] = checks.boolean(value)
            continue
        if name not in network_quotas.TABLES:
            raise Invalid(f"Unrecognized attribute(s) '{name[:100]}'")
        changes[name] = checks.integer(value)
        wrong = checks.between(-1, checks.MAX_INT)(changes[name])
        if wrong:
            raise Invalid(f"Invalid input for {name}. Reason: {wrong}.")
    check_used = options.get("check_limit", False) and not options.get("force", False)
    found = await request.cloud.db.write(network_quotas.update, project_id, changes, check_used=check_used)
    return ok({"quota": {**found, "project_id": project_id}})


async def delete(request: Request) -> Response:
    """DELETE /quotas/{project_id}"""
    await request.cloud.db.write(network_quotas.delete, identifier(request))
    return no_content()


ROUTES = (
    Route("GET", "/v2.0/quotas", page, rule="get_quota", check=MANAGER, late=True),
    Route("GET", "/v2.0/quotas/{id}", show, rule="get_quota", check=MANAGER, late=True),
    Route("GET", "/v2.0/quotas/{id}/default", defaults, rule="get_quota", check=MANAGER, late=True),
    Route("GET", "/v2.0/quotas/{id}/default.json", defaults, rule="get_quota", check=MANAGER, late=True),
    Route("GET", "/v2.0/quotas/{id}/details", details, rule="get_quota", check=MANAGER, late=True),
    Route("GET", "/v2.0/quotas/{id}/details.json", details, rule="get_quota", check=MANAGER, late=True),
    Route("PUT", "/v2.0/quotas/{id}", update, rule="update_quota", check=ADMIN),
    Route("DELETE", "/v2.0/quotas/{id}", delete, rule="delete_quota", check=ADMIN),
)
