"""/v3/auth/projects, /v3/auth/domains, …: what a token could be scoped to; and the catalogue.

See the API reference, "Authentication and token management".
"""

from __future__ import annotations

from cumulet.api.asgi import Route
from cumulet.api.identity import lists
from cumulet.api.identity.checks import ADMIN_OR_READER
from cumulet.api.identity.domains import domains_of
from cumulet.api.identity.users import projects_of
from cumulet.api.request import Request, Response, ok
from cumulet.core import assignments
from cumulet.core.catalog import catalogue
from cumulet.core.policy import ANYONE
from cumulet.errors import Forbidden


async def projects(request: Request) -> Response:
    """GET /v3/auth/projects"""
    return await projects_of(request, request.caller.user_id)


async def domains(request: Request) -> Response:
    """GET /v3/auth/domains"""
    return await domains_of(request, request.caller.user_id)


async def system(request: Request) -> Response:
    """GET /v3/auth/system"""
    roles = await request.cloud.db.read(assignments.on_system, request.caller.user_id)
    return ok({"system": [{"all": True}] if roles else [], "links": lists.links(request, "auth/system")})


async def catalog(request: Request) -> Response:
    """GET /v3/auth/catalog"""
    caller = request.caller
    if caller.project_id is None:
        raise Forbidden("A project-scoped token is required to produce a service catalog.")
    ids = {"project_id": caller.project_id, "tenant_id": caller.project_id, "user_id": caller.user_id}
    found = await request.cloud.db.read(catalogue, request.base, ids)
    return ok({"catalog": found, "links": lists.links(request, "auth/catalog")})


async def service_providers(request: Request) -> Response:
    """GET /v3/OS-FEDERATION/service_providers: there are none, as nothing here federates"""
    return lists.collection(request, "service_providers", [])


ROUTES = (
    Route("GET", "/v3/auth/projects", projects, "identity:get_auth_projects", ANYONE),
    Route("GET", "/v3/auth/domains", domains, "identity:get_auth_domains", ANYONE),
    Route("GET", "/v3/auth/system", system, "identity:get_auth_system", ANYONE),
    Route("GET", "/v3/auth/catalog", catalog, "identity:get_auth_catalog", ANYONE),
    # The older names of the first two.
    Route("GET", "/v3/OS-FEDERATION/projects", projects, "identity:get_auth_projects", ANYONE),
    Route("GET", "/v3/OS-FEDERATION/domains", domains, "identity:get_auth_domains", ANYONE),
    Route(
        "GET", "/v3/OS-FEDERATION/service_providers", service_providers, "identity:list_service_providers",
        ADMIN_OR_READER,
    ),
)  # fmt: skip
