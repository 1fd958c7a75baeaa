"""Allocations. See the Placement API reference, "Allocations" and "Resource provider allocations"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET

from cumulet.api.asgi import Route
from cumulet.api.placement.answer import check_accept, fresh, raw
from cumulet.api.placement.providers import CHECK
from cumulet.api.request import Request, Response, no_content
from cumulet.core import allocations
from cumulet.core.allocations import NOBODY, Wanted
from cumulet.errors import Conflict, Invalid, NoRoom, NotFound
from cumulet.wire import placement as wire
from cumulet.wire.body import decode


async def of_consumer(request: Request) -> Response:
    """GET /allocations/{consumer_uuid}; with the project since 1.12, generation 1.28, type 1.38"""
    check_accept(request)
    consumer, lines, providers = await request.cloud.db.read(
        allocations.of_consumer, request.params["consumer_uuid"]
    )
    found: dict[str, dict[str, Any]] = {}
    for line in lines:
        empty = {"resources": {}, "generation": providers[line.provider_id].generation}
        found.setdefault(line.provider_id, empty)["resources"][line.resource_class] = line.used
    body: dict[str, Any] = {"allocations": found}
    if consumer is not None and request.version >= (1, 12):
        body |= {"project_id": consumer.project_id, "user_id": consumer.user_id}
        if request.version >= (1, 28):
            body["consumer_generation"] = consumer.generation
        if request.version >= (1, 38):
            body["consumer_type"] = consumer.type or "unknown"
    return fresh(request, body, [line.updated_at for line in lines])


async def of_provider(request: Request) -> Response:
    """GET /resource_providers/{uuid}/allocations"""
    check_accept(request)
    provider, lines, consumers = await request.cloud.db.read(allocations.of_provider, request.params["uuid"])
    found: dict[str, dict[str, Any]] = {}
    for line in lines:
        one = found.setdefault(line.consumer_id, {"resources": {}})
        one["resources"][line.resource_class] = line.used
        if request.version >= (1, 28):
            one["consumer_generation"] = consumers[line.consumer_id].generation
    body = {"allocations": found, "resource_provider_generation": provider.generation}
    return fresh(request, body, [line.updated_at for line in lines])


async def put(request: Request) -> Response:
    """PUT /allocations/{consumer_uuid}"""
    try:
        consumer_id = wire.uuid(request.params["consumer_uuid"], "consumer_uuid")
    except ValueError:
        raise Invalid(f"Malformed consumer_uuid: {request.params['consumer_uuid']}") from None
    body = await raw(request)
    if request.version >= (1, 12):
        change = wanted(request, body, may_be_empty=request.version >= (1, 28))
    else:
        change = _old(request, body)
    await _write(request, {consumer_id: change})
    return no_content()


async def post(request: Request) -> Response:
    """POST /allocations: several consumers at once, since 1.13"""
    body = await raw(request)
    if not isinstance(body, dict) or not body:
        raise Invalid("JSON does not validate: an object with at least one consumer was expected")
    await _write(request, many(request, body))
    return no_content()


def many(request: Request, body: Mapping[str, Any]) -> dict[str, Wanted]:
    """What several consumers are to have. Raises Invalid."""
    found = {}
    for key, change in body.items():
        try:
            consumer_id = wire.uuid(key, "consumer") if len(key) == 36 else ""
        except ValueError:
            consumer_id = ""
        if not consumer_id:
            raise Invalid(f"JSON does not validate: {key[:100]!r} is not the id of a consumer")
        found[consumer_id] = wanted(request, change, whole=key)
    return found


def wanted(request: Request, body: Any, *, may_be_empty: bool = True, whole: str = "body") -> Wanted:
    """What one consumer is to have, in the form since 1.12. Raises Invalid."""
    asked = decode(body, wire.Allocations, request.version, whole=whole)
    if not asked.allocations and not may_be_empty:
        raise Invalid("JSON does not validate: allocations does not have enough properties")
    if request.version >= (1, 28) and asked.consumer_generation is UNSET:
        raise Invalid("JSON does not validate: 'consumer_generation' is a required property")
    if request.version >= (1, 38) and asked.consumer_type is UNSET:
        raise Invalid("JSON does not validate: 'consumer_type' is a required property")
    return Wanted(
        taken={key: one.resources for key, one in asked.allocations.items()},
        project_id=asked.project_id,
        user_id=asked.user_id,
        type=asked.consumer_type if isinstance(asked.consumer_type, str) else None,
        generation=asked.consumer_generation,
    )


def _old(request: Request, body: Any) -> Wanted:
    asked = decode(body, wire.OldAllocations, request.version)
    owner = asked.project_id, asked.user_id
    if request.version >= (1, 8) and UNSET in owner:
        raise Invalid("JSON does not validate: 'project_id' and 'user_id' are required properties")
    project_id, user_id = (value if isinstance(value, str) else NOBODY for value in owner)
    taken = {one.resource_provider.uuid: one.resources for one in asked.allocations}
    return Wanted(taken=taken, project_id=project_id, user_id=user_id)


async def _write(request: Request, changes: Mapping[str, Wanted]) -> None:
    try:
        await request.cloud.db.write(allocations.replace, changes)
    except NoRoom as error:
        raise Conflict(f"Unable to allocate inventory: {error.message}") from None


async def delete(request: Request) -> Response:
    """DELETE /allocations/{consumer_uuid}"""
    consumer_id = request.params["consumer_uuid"]
    if not await request.cloud.db.write(allocations.remove, consumer_id):
        raise NotFound(f"No allocations for consumer '{consumer_id}'")
    return no_content()


_ONE = "/allocations/{consumer_uuid}"
_RULE = "placement:allocations"

ROUTES = (
    Route("POST", "/allocations", post, f"{_RULE}:manage", CHECK, since=(1, 13)),
    Route("GET", _ONE, of_consumer, f"{_RULE}:list", CHECK),
    Route("PUT", _ONE, put, f"{_RULE}:update", CHECK),
    Route("DELETE", _ONE, delete, f"{_RULE}:delete", CHECK),
    Route(
        "GET", "/resource_providers/{uuid}/allocations", of_provider,
        "placement:resource_providers:allocations:list", CHECK,
    ),
)  # fmt: skip
