"""Traits. See the Placement API reference, "Traits" and "Resource provider traits"."""

from __future__ import annotations

import re
from typing import Any

from cumulet.api.asgi import Route
from cumulet.api.placement.answer import check_accept, fresh, struct
from cumulet.api.placement.providers import CHECK
from cumulet.api.query import only
from cumulet.api.request import Request, Response, no_content
from cumulet.core import providers, traits
from cumulet.core.providers import Provider
from cumulet.db.engine import Row
from cumulet.errors import Invalid
from cumulet.wire import placement as wire

_CUSTOM = re.compile(r"CUSTOM_[A-Z0-9_]+\Z")


async def index(request: Request) -> Response:
    """GET /traits"""
    check_accept(request)
    only(request, "name", "associated")
    names, prefix = _named(request.arg("name"))
    found = await request.cloud.db.read(
        traits.listing, names=names, prefix=prefix, associated=_associated(request.arg("associated"))
    )
    return fresh(request, {"traits": [row["name"] for row in found]}, [row["created_at"] for row in found])


def _named(text: str | None) -> tuple[list[str] | None, str | None]:
    if text is None:
        return None, None
    operator, colon, value = text.partition(":")
    if not colon:
        raise Invalid(
            "Badly formatted name parameter. Expected name query string parameter in form: "
            f"?name=[in|startswith]:[name1,name2|prefix]. Got: {text!r}"
        )
    return value.split(",") if operator == "in" else None, value if operator == "startswith" else None


def _associated(text: str | None) -> bool | None:
    if text is None:
        return None
    if text.lower() not in ("true", "false"):
        raise Invalid('The query parameter "associated" only accepts "true" or "false"')
    return text.lower() == "true"


async def show(request: Request) -> Response:
    """GET /traits/{name}"""
    found = await request.cloud.db.read(traits.find, request.params["name"])
    return fresh(request, None, [found["created_at"]], status=204)


async def put(request: Request) -> Response:
    """PUT /traits/{name}"""
    name = request.params["name"]
    if not (_CUSTOM.match(name) and len(name) <= 255):
        raise Invalid(
            "The trait is invalid: it must begin with 'CUSTOM_', go on with 'A'-'Z', '0'-'9' and '_', and have at "
            "most 255 characters."
        )
    made, row = await request.cloud.db.write(traits.create, name)
    return fresh(request, None, [row["created_at"]], status=201 if made else 204, location=f"/traits/{name}")


async def delete(request: Request) -> Response:
    """DELETE /traits/{name}"""
    await request.cloud.db.write(traits.delete, request.params["name"])
    return no_content()


async def of_provider(request: Request) -> Response:
    """GET /resource_providers/{uuid}/traits"""
    check_accept(request)
    return _of(request, *await request.cloud.db.read(traits.of, request.params["uuid"]))


async def set_of_provider(request: Request) -> Response:
    """PUT /resource_providers/{uuid}/traits"""
    key = request.params["uuid"]
    asked = await struct(request, wire.Traits)
    return _of(
        request,
        *await request.cloud.db.write(traits.replace, key, asked.traits, asked.resource_provider_generation),
    )


async def clear_of_provider(request: Request) -> Response:
    """DELETE /resource_providers/{uuid}/traits"""
    key = request.params["uuid"]
    await request.cloud.db.read(providers.find, key)
    await request.cloud.db.write(traits.replace, key, [])
    return no_content()


def _of(request: Request, provider: Provider, found: list[Row]) -> Response:
    body: dict[str, Any] = {
        "traits": [row["name"] for row in found],
        "resource_provider_generation": provider.generation,
    }
    return fresh(request, body, [row["created_at"] for row in found])


_OF = "/resource_providers/{uuid}/traits"
_RULE = "placement:traits"
_OF_RULE = "placement:resource_providers:traits"

ROUTES = (
    Route("GET", "/traits", index, f"{_RULE}:list", CHECK, since=(1, 6)),
    Route("GET", "/traits/{name}", show, f"{_RULE}:show", CHECK, since=(1, 6)),
    Route("PUT", "/traits/{name}", put, f"{_RULE}:update", CHECK, since=(1, 6)),
    Route("DELETE", "/traits/{name}", delete, f"{_RULE}:delete", CHECK, since=(1, 6)),
    Route("GET", _OF, of_provider, f"{_OF_RULE}:list", CHECK, since=(1, 6)),
    Route("PUT", _OF, set_of_provider, f"{_OF_RULE}:update", CHECK, since=(1, 6)),
    Route("DELETE", _OF, clear_of_provider, f"{_OF_RULE}:delete", CHECK, since=(1, 6)),
)
