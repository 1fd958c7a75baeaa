"""Inventories of resource providers. See the Placement API reference, "Resource provider inventories"."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from cumulet.api.asgi import MethodNotAllowed, Route
from cumulet.api.placement.answer import check_accept, check_content, fresh, struct
from cumulet.api.placement.providers import CHECK
from cumulet.api.request import Request, Response, no_content
from cumulet.core import inventory, providers
from cumulet.core.inventory import Inventory
from cumulet.core.providers import Provider
from cumulet.errors import Invalid
from cumulet.wire import placement as wire

_FIELDS = ("total", "reserved", "min_unit", "max_unit", "step_size", "allocation_ratio")


def line(asked: wire.Line) -> Inventory:
    """What a body says of one line."""
    return Inventory(**{name: getattr(asked, name) for name in _FIELDS})


def _body(found: Inventory) -> dict[str, Any]:
    return {name: getattr(found, name) for name in _FIELDS}


def _one(
    request: Request, provider: Provider, found: Inventory, *, status: int = 200, location: str = ""
) -> Response:
    body = {**_body(found), "resource_provider_generation": provider.generation}
    return fresh(request, body, [found.updated_at], status=status, location=location)


def _all(request: Request, provider: Provider, found: dict[str, Inventory]) -> Response:
    body = {
        "resource_provider_generation": provider.generation,
        "inventories": {name: _body(one) for name, one in found.items()},
    }
    return fresh(request, body, [one.updated_at for one in found.values()])


def check(request: Request, provider_id: str, wanted: dict[str, Inventory]) -> None:
    """Raise Invalid for lines that leave nothing to give out; since 1.26 nothing is enough."""
    inventory.check(provider_id, wanted, full_reserve=request.version >= (1, 26))


async def index(request: Request) -> Response:
    """GET /resource_providers/{uuid}/inventories"""
    check_accept(request)
    return _all(request, *await request.cloud.db.read(inventory.of, request.params["uuid"]))


async def create(request: Request) -> Response:
    """POST /resource_providers/{uuid}/inventories"""
    key = request.params["uuid"]
    await check_content(request)
    await request.cloud.db.read(providers.find, key)
    asked = await struct(request, wire.NewLine)
    name = asked.resource_class
    if not name:
        raise Invalid("JSON does not validate: 'resource_class' is a required property")
    check(request, key, {name: line(asked)})
    provider, made = await request.cloud.db.write(inventory.add, key, name, line(asked))
    location = f"/resource_providers/{key}/inventories/{name}"
    return _one(request, provider, made, status=201, location=location)


async def replace(request: Request) -> Response:
    """PUT /resource_providers/{uuid}/inventories"""
    key = request.params["uuid"]
    await check_content(request)
    await request.cloud.db.read(providers.find, key)
    asked = await struct(request, wire.Lines)
    wanted = {name: line(one) for name, one in asked.inventories.items()}
    check(request, key, wanted)
    return _all(
        request,
        *await request.cloud.db.write(inventory.replace, key, wanted, asked.resource_provider_generation),
    )


async def clear(request: Request) -> Response:
    """DELETE /resource_providers/{uuid}/inventories, since 1.5"""
    await request.cloud.db.write(inventory.replace, request.params["uuid"], {})
    return no_content()


async def clear_old(request: Request) -> Response:
    """DELETE /resource_providers/{uuid}/inventories, before it was there"""
    raise MethodNotAllowed(["GET", "POST", "PUT"])


async def show(request: Request) -> Response:
    """GET /resource_providers/{uuid}/inventories/{resource_class}"""
    check_accept(request)
    found = await request.cloud.db.read(
        inventory.one, request.params["uuid"], request.params["resource_class"]
    )
    return _one(request, *found)


async def update(request: Request) -> Response:
    """PUT /resource_providers/{uuid}/inventories/{resource_class}"""
    key, name = request.params["uuid"], request.params["resource_class"]
    await check_content(request)
    await request.cloud.db.read(providers.find, key)
    asked = await struct(request, wire.Line)
    generation = asked.resource_provider_generation
    if generation is UNSET:
        raise Invalid("JSON does not validate: 'resource_provider_generation' is a required property")
    assert isinstance(generation, int)
    check(request, key, {name: line(asked)})
    return _one(request, *await request.cloud.db.write(inventory.update, key, name, line(asked), generation))


async def delete(request: Request) -> Response:
    """DELETE /resource_providers/{uuid}/inventories/{resource_class}"""
    await request.cloud.db.write(inventory.delete, request.params["uuid"], request.params["resource_class"])
    return no_content()


_ALL = "/resource_providers/{uuid}/inventories"
_RULE = "placement:resource_providers:inventories"

ROUTES = (
    Route("GET", _ALL, index, f"{_RULE}:list", CHECK),
    Route("POST", _ALL, create, f"{_RULE}:create", CHECK),
    Route("PUT", _ALL, replace, f"{_RULE}:update", CHECK),
    Route("DELETE", _ALL, clear, f"{_RULE}:delete", CHECK, since=(1, 5)),
    Route("DELETE", _ALL, clear_old, f"{_RULE}:delete", CHECK, until=(1, 4)),
    Route("GET", f"{_ALL}/{{resource_class}}", show, f"{_RULE}:show", CHECK),
    Route("PUT", f"{_ALL}/{{resource_class}}", update, f"{_RULE}:update", CHECK),
    Route("DELETE", f"{_ALL}/{{resource_class}}", delete, f"{_RULE}:delete", CHECK),
)
