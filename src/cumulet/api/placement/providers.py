"""Resource providers and their aggregates. See the Placement API reference, "Resource Providers"."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from cumulet.api.asgi import Route
from cumulet.api.placement import search
from cumulet.api.placement.answer import PREFIX, check_accept, check_content, fresh, made, raw, struct
from cumulet.api.query import only
from cumulet.api.request import Request, Response, no_content
from cumulet.core import candidates, providers
from cumulet.core.providers import Filters, Provider
from cumulet.errors import Invalid
from cumulet.wire import placement as wire
from cumulet.wire.body import decode

#: Default of nearly all of Placement's rules.
CHECK = "rule:admin_or_service_api"


def _body(request: Request, provider: Provider) -> dict[str, Any]:
    path = f"{PREFIX}/resource_providers/{provider.id}"
    rels = ["inventories", "usages"]
    rels += [
        name
        for name, since in (("aggregates", (1, 1)), ("traits", (1, 6)), ("allocations", (1, 11)))
        if request.version >= since
    ]
    body: dict[str, Any] = {
        "uuid": provider.id,
        "name": provider.name,
        "generation": provider.generation,
        "links": [
            {"rel": "self", "href": path},
            *({"rel": rel, "href": f"{path}/{rel}"} for rel in rels),
        ],
    }
    if request.version >= (1, 14):
        body["parent_provider_uuid"] = provider.parent_id
        body["root_provider_uuid"] = provider.root_id
    return body


async def index(request: Request) -> Response:
    """GET /resource_providers"""
    check_accept(request)
    only(
        request,
        *(
            name
            for name, since in (
                ("name", (1, 0)), ("uuid", (1, 0)), ("member_of", (1, 3)), ("resources", (1, 4)),
                ("in_tree", (1, 14)), ("required", (1, 18)),
            )
            if request.version >= since
        ),
    )  # fmt: skip
    found = await request.cloud.db.read(candidates.providers_with, *_filters(request))
    body = {"resource_providers": [_body(request, provider) for provider in found]}
    return fresh(request, body, [provider.updated_at for provider in found])


def _filters(request: Request) -> tuple[Filters, dict[str, int]]:
    member_of, not_member_of = search.member_of(request)
    required, forbidden = search.traits(request)
    uuid, in_tree, resources = (request.arg(name) for name in ("uuid", "in_tree", "resources"))
    filters = Filters(
        name=request.arg("name"),
        uuid=search.uuid(uuid, "uuid") if uuid is not None else None,
        in_tree=search.uuid(in_tree, "in_tree") if in_tree is not None else None,
        member_of=member_of,
        not_member_of=not_member_of,
        required=required,
        forbidden=forbidden,
    )
    return filters, search.resources(resources) if resources is not None else {}


async def create(request: Request) -> Response:
    """POST /resource_providers; tells what was made since 1.20"""
    asked = await struct(request, wire.NewProvider)
    parent = asked.parent_provider_uuid
    provider = await request.cloud.db.write(
        providers.create,
        asked.name,
        uuid=asked.uuid if isinstance(asked.uuid, str) else None,
        parent_id=parent if isinstance(parent, str) else None,
    )
    location = f"/resource_providers/{provider.id}"
    if request.version >= (1, 20):
        return fresh(request, _body(request, provider), [provider.updated_at], location=location)
    return made(request, 201, location)


async def show(request: Request) -> Response:
    """GET /resource_providers/{uuid}"""
    check_accept(request)
    provider = await request.cloud.db.read(providers.find, request.params["uuid"])
    return fresh(request, _body(request, provider), [provider.updated_at])


async def update(request: Request) -> Response:
    """PUT /resource_providers/{uuid}; other parents since 1.37"""
    key = request.params["uuid"]
    await check_content(request)
    await request.cloud.db.read(providers.find, key)
    asked = await struct(request, wire.ChangedProvider)
    parent = asked.parent_provider_uuid
    provider = await request.cloud.db.write(
        providers.update, key, asked.name, parent, move=request.version >= (1, 37)
    )
    return fresh(request, _body(request, provider), [provider.updated_at])


async def delete(request: Request) -> Response:
    """DELETE /resource_providers/{uuid}"""
    await request.cloud.db.write(providers.delete, request.params["uuid"])
    return no_content()


async def aggregates(request: Request) -> Response:
    """GET /resource_providers/{uuid}/aggregates"""
    check_accept(request)
    return _aggregates(request, *await request.cloud.db.read(providers.aggregates, request.params["uuid"]))


async def set_aggregates(request: Request) -> Response:
    """PUT /resource_providers/{uuid}/aggregates; with the provider's generation since 1.19"""
    key = request.params["uuid"]
    await check_content(request)
    await request.cloud.db.read(providers.find, key)
    body = await raw(request)
    counts = request.version >= (1, 19)
    if not counts:
        body = {"aggregates": body}
    asked = decode(body, wire.Aggregates, request.version)
    generation = asked.resource_provider_generation
    if counts and generation is UNSET:
        raise Invalid("JSON does not validate: 'resource_provider_generation' is a required property")
    provider = await request.cloud.db.write(
        providers.set_aggregates,
        key,
        asked.aggregates,
        generation if isinstance(generation, int) else None,
        counts=counts,
    )
    return _aggregates(request, provider, asked.aggregates)


def _aggregates(request: Request, provider: Provider, found: list[str]) -> Response:
    body: dict[str, Any] = {"aggregates": found}
    if request.version >= (1, 19):
        body["resource_provider_generation"] = provider.generation
    return fresh(request, body)


_ONE = "/resource_providers/{uuid}"
_RULE = "placement:resource_providers"

ROUTES = (
    Route("GET", "/resource_providers", index, f"{_RULE}:list", CHECK),
    Route("POST", "/resource_providers", create, f"{_RULE}:create", CHECK),
    Route("GET", _ONE, show, f"{_RULE}:show", CHECK),
    Route("PUT", _ONE, update, f"{_RULE}:update", CHECK),
    Route("DELETE", _ONE, delete, f"{_RULE}:delete", CHECK),
    Route("GET", f"{_ONE}/aggregates", aggregates, f"{_RULE}:aggregates:list", CHECK, since=(1, 1)),
    Route("PUT", f"{_ONE}/aggregates", set_aggregates, f"{_RULE}:aggregates:update", CHECK, since=(1, 1)),
)
