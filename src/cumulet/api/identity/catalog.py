"""/v3/regions, /v3/services, /v3/endpoints, /v3/policies. See the API reference of these names."""

from __future__ import annotations

from typing import Any

from cumulet.api.asgi import Route
from cumulet.api.identity import lists
from cumulet.api.identity.body import changes, read
from cumulet.api.identity.checks import ADMIN, ADMIN_OR_READER
from cumulet.api.request import Request, Response, created, no_content, ok
from cumulet.core import catalog, endpoints, policies, regions, services
from cumulet.core.policy import ANYONE
from cumulet.db.engine import Row
from cumulet.db.query import MarkerNotFound
from cumulet.errors import Invalid
from cumulet.wire.identity import (
    EndpointChange,
    EndpointNew,
    PolicyChange,
    PolicyNew,
    RegionChange,
    RegionNew,
    ServiceChange,
    ServiceNew,
)

# -- Regions ---------------------------------------------------------------------------------------------------


def region_view(request: Request, region: Row) -> dict[str, Any]:
    return {
        **region["extra"],
        "id": region["id"],
        "description": region["description"],
        "parent_region_id": region["parent_region_id"],
        "links": lists.links(request, f"regions/{region['id']}"),
    }


async def list_regions(request: Request) -> Response:
    """GET /v3/regions"""
    query = lists.page(request, regions.SORTABLE)
    try:
        found = await request.cloud.db.read(regions.find, lists.matches(request, "parent_region_id"), query)
    except MarkerNotFound as error:
        raise lists.unknown_marker(error) from None
    return lists.collection(request, "regions", [region_view(request, row) for row in found], query)


async def show_region(request: Request) -> Response:
    """GET /v3/regions/{region_id}"""
    region = await request.cloud.db.read(regions.show, request.params["region_id"])
    return ok({"region": region_view(request, region)})


async def create_region(request: Request) -> Response:
    """POST /v3/regions, and PUT /v3/regions/{region_id} with a chosen id"""
    body, extra = await read(request, "region", RegionNew)
    chosen = request.params.get("region_id")
    if chosen is not None and body.id not in (None, chosen):
        raise Invalid(f'Conflicting region IDs specified: "{chosen}" != "{body.id}"')
    region = await request.cloud.db.write(
        regions.create,
        region_id=chosen or body.id,
        parent_id=body.parent_region_id,
        description=body.description or "",
        extra=extra,
    )
    return created({"region": region_view(request, region)})


async def update_region(request: Request) -> Response:
    """PATCH /v3/regions/{region_id}"""
    body, extra = await read(request, "region", RegionChange)
    region = await request.cloud.db.write(regions.update, request.params["region_id"], changes(body), extra)
    return ok({"region": region_view(request, region)})


async def delete_region(request: Request) -> Response:
    """DELETE /v3/regions/{region_id}"""
    await request.cloud.db.write(regions.delete, request.params["region_id"])
    return no_content()


# -- Services --------------------------------------------------------------------------------------------------


def service_view(request: Request, service: Row) -> dict[str, Any]:
    shown = {
        **service["extra"],
        "id": service["id"],
        "type": service["type"],
        "name": service["name"] or "",
        "enabled": service["enabled"],
        "links": lists.links(request, f"services/{service['id']}"),
    }
    if service["description"] is not None:
        shown["description"] = service["description"]
    return shown


async def list_services(request: Request) -> Response:
    """GET /v3/services"""
    query = lists.page(request, services.SORTABLE)
    try:
        found = await request.cloud.db.read(services.find, lists.matches(request, "type", "name"), query)
    except MarkerNotFound as error:
        raise lists.unknown_marker(error) from None
    return lists.collection(request, "services", [service_view(request, row) for row in found], query)


async def show_service(request: Request) -> Response:
    """GET /v3/services/{service_id}"""
    service = await request.cloud.db.read(services.show, request.params["service_id"])
    return ok({"service": service_view(request, service)})


async def create_service(request: Request) -> Response:
    """POST /v3/services"""
    body, extra = await read(request, "service", ServiceNew, strict=True)
    service = await request.cloud.db.write(
        services.create,
        type=body.type,
        name=body.name,
        description=body.description,
        enabled=body.enabled,
        extra=extra,
    )
    return created({"service": service_view(request, service)})


async def update_service(request: Request) -> Response:
    """PATCH /v3/services/{service_id}"""
    body, extra = await read(request, "service", ServiceChange, strict=True)
    service = await request.cloud.db.write(
        services.update, request.params["service_id"], changes(body), extra
    )
    return ok({"service": service_view(request, service)})


async def delete_service(request: Request) -> Response:
    """DELETE /v3/services/{service_id}"""
    await request.cloud.db.write(services.delete, request.params["service_id"])
    return no_content()


# -- Endpoints -------------------------------------------------------------------------------------------------


def endpoint_view(request: Request, endpoint: Row) -> dict[str, Any]:
    """An endpoint as it is shown; its address as the client would use it."""
    return {
        **endpoint["extra"],
        "id": endpoint["id"],
        "interface": endpoint["interface"],
        "service_id": endpoint["service_id"],
        "region_id": endpoint["region_id"],
        "region": endpoint["region_id"],
        "url": endpoint["url"].replace(catalog.BASE, request.base),
        "enabled": endpoint["enabled"],
        "links": lists.links(request, f"endpoints/{endpoint['id']}"),
    }


async def list_endpoints(request: Request) -> Response:
    """GET /v3/endpoints"""
    query = lists.page(request, endpoints.SORTABLE)
    matches = lists.matches(request, *endpoints.COLUMNS)
    try:
        found = await request.cloud.db.read(endpoints.find, matches, query)
    except MarkerNotFound as error:
        raise lists.unknown_marker(error) from None
    return lists.collection(request, "endpoints", [endpoint_view(request, row) for row in found], query)


async def show_endpoint(request: Request) -> Response:
    """GET /v3/endpoints/{endpoint_id}"""
    endpoint = await request.cloud.db.read(endpoints.show, request.params["endpoint_id"])
    return ok({"endpoint": endpoint_view(request, endpoint)})


async def create_endpoint(request: Request) -> Response:
    """POST /v3/endpoints"""
    body, extra = await read(request, "endpoint", EndpointNew, strict=True)
    fields = changes(body)
    if body.region_id is None:
        del fields["region_id"]
    endpoint = await request.cloud.db.write(endpoints.create, fields, extra)
    return created({"endpoint": endpoint_view(request, endpoint)})


async def update_endpoint(request: Request) -> Response:
    """PATCH /v3/endpoints/{endpoint_id}"""
    body, extra = await read(request, "endpoint", EndpointChange, strict=True)
    endpoint = await request.cloud.db.write(
        endpoints.update, request.params["endpoint_id"], changes(body), extra
    )
    return ok({"endpoint": endpoint_view(request, endpoint)})


async def delete_endpoint(request: Request) -> Response:
    """DELETE /v3/endpoints/{endpoint_id}"""
    await request.cloud.db.write(endpoints.delete, request.params["endpoint_id"])
    return no_content()


# -- Policies --------------------------------------------------------------------------------------------------


def policy_view(request: Request, policy: Row) -> dict[str, Any]:
    return {
        **policy["extra"],
        "id": policy["id"],
        "type": policy["type"],
        "blob": policy["blob"],
        "links": lists.links(request, f"policies/{policy['id']}"),
    }


async def list_policies(request: Request) -> Response:
    """GET /v3/policies"""
    query = lists.page(request, policies.SORTABLE)
    try:
        found = await request.cloud.db.read(policies.find, lists.matches(request, "type"), query)
    except MarkerNotFound as error:
        raise lists.unknown_marker(error) from None
    return lists.collection(request, "policies", [policy_view(request, row) for row in found], query)


async def show_policy(request: Request) -> Response:
    """GET /v3/policies/{policy_id}"""
    policy = await request.cloud.db.read(policies.show, request.params["policy_id"])
    return ok({"policy": policy_view(request, policy)})


async def create_policy(request: Request) -> Response:
    """POST /v3/policies"""
    body, extra = await read(request, "policy", PolicyNew)
    policy = await request.cloud.db.write(policies.create, type=body.type, blob=body.blob, extra=extra)
    return created({"policy": policy_view(request, policy)})


async def update_policy(request: Request) -> Response:
    """PATCH /v3/policies/{policy_id}"""
    body, extra = await read(request, "policy", PolicyChange)
    policy = await request.cloud.db.write(policies.update, request.params["policy_id"], changes(body), extra)
    return ok({"policy": policy_view(request, policy)})


async def delete_policy(request: Request) -> Response:
    """DELETE /v3/policies/{policy_id}"""
    await request.cloud.db.write(policies.delete, request.params["policy_id"])
    return no_content()


_REGION, _SERVICE = "/v3/regions/{region_id}", "/v3/services/{service_id}"
_ENDPOINT, _POLICY = "/v3/endpoints/{endpoint_id}", "/v3/policies/{policy_id}"

ROUTES = (
    Route("GET", "/v3/regions", list_regions, "identity:list_regions", ANYONE),
    Route("POST", "/v3/regions", create_region, "identity:create_region", ADMIN),
    Route("GET", _REGION, show_region, "identity:get_region", ANYONE),
    Route("PUT", _REGION, create_region, "identity:create_region", ADMIN),
    Route("PATCH", _REGION, update_region, "identity:update_region", ADMIN),
    Route("DELETE", _REGION, delete_region, "identity:delete_region", ADMIN),
    Route("GET", "/v3/services", list_services, "identity:list_services", ADMIN_OR_READER),
    Route("POST", "/v3/services", create_service, "identity:create_service", ADMIN),
    Route("GET", _SERVICE, show_service, "identity:get_service", ADMIN_OR_READER),
    Route("PATCH", _SERVICE, update_service, "identity:update_service", ADMIN),
    Route("DELETE", _SERVICE, delete_service, "identity:delete_service", ADMIN),
    Route("GET", "/v3/endpoints", list_endpoints, "identity:list_endpoints", ADMIN_OR_READER),
    Route("POST", "/v3/endpoints", create_endpoint, "identity:create_endpoint", ADMIN),
    Route("GET", _ENDPOINT, show_endpoint, "identity:get_endpoint", ADMIN_OR_READER),
    Route("PATCH", _ENDPOINT, update_endpoint, "identity:update_endpoint", ADMIN),
    Route("DELETE", _ENDPOINT, delete_endpoint, "identity:delete_endpoint", ADMIN),
    Route("GET", "/v3/policies", list_policies, "identity:list_policies", ADMIN_OR_READER),
    Route("POST", "/v3/policies", create_policy, "identity:create_policy", ADMIN),
    Route("GET", _POLICY, show_policy, "identity:get_policy", ADMIN_OR_READER),
    Route("PATCH", _POLICY, update_policy, "identity:update_policy", ADMIN),
    Route("DELETE", _POLICY, delete_policy, "identity:delete_policy", ADMIN),
)
