"""The reshaper. See the Placement API reference, "Reshaper"."""

from __future__ import annotations

from cumulet.api.asgi import Route
from cumulet.api.placement import allocations, inventory
from cumulet.api.placement.answer import raw
from cumulet.api.request import Request, Response, no_content
from cumulet.core import reshaper
from cumulet.core.reshaper import Shape
from cumulet.errors import Conflict, Invalid, NoRoom
from cumulet.wire import placement as wire
from cumulet.wire.body import decode


async def reshape(request: Request) -> Response:
    """POST /reshaper, since 1.30"""
    body = await raw(request)
    asked = decode(body, wire.Reshape, request.version)
    shapes = {
        key: Shape(
            lines={name: inventory.line(line) for name, line in one.inventories.items()},
            generation=one.resource_provider_generation,
        )
        for key, one in asked.inventories.items()
    }
    changes = allocations.many(request, body["allocations"])
    try:
        await request.cloud.db.write(reshaper.reshape, shapes, changes)
    except NoRoom as error:
        raise Conflict(f"Unable to allocate inventory: {error.message}") from None
    except Invalid as error:
        raise Invalid(f"malformed reshaper data: {error.message}", code=error.code) from None
    return no_content()


ROUTES = (
    Route("POST", "/reshaper", reshape, "placement:reshaper:reshape", "rule:service_api", since=(1, 30)),
)
