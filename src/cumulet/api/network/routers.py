"""Routers. See Neutron's API reference, "Routers"."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cumulet.api.asgi import Handler, Route
from cumulet.api.network.collection import Calls, Checks, identifier, rights, routes, settled, shape
from cumulet.api.network.rules import MEMBER, READER
from cumulet.api.request import Request, Response, ok
from cumulet.core import routers
from cumulet.db.engine import Row
from cumulet.errors import Invalid
from cumulet.wire.network import checks
from cumulet.wire.network import routers as wire

CALLS = Calls(
    noun=routers.NOUN,
    attributes=wire.ATTRIBUTES,
    view=wire.view,
    page=routers.page,
    show=routers.show,
    create=routers.create,
    update=routers.update,
    delete=routers.delete,
    private=wire.PRIVATE,
)


def _interface(change: Callable[..., Row], *, both: bool) -> Handler:
    """A handler that names a subnet or a port in its body; ``both``: perhaps both."""

    async def call(request: Request) -> Response:
        body = await request.document()
        named: dict[str, Any] = {name: body[name] for name in ("port_id", "subnet_id") if name in body}
        if not named:
            raise _bad("Either subnet_id or port_id must be specified")
        for name, value in named.items():
            wrong = checks.uuid(value)
            if wrong:
                raise _bad(f"{name}: {wrong}")
        if len(named) == 2 and not both:
            raise _bad("Cannot specify both subnet-id and port-id")
        work = request.cloud.db.write(change, rights(request), identifier(request), **named)
        return ok(wire.interface(await settled(work)))

    return call


def _bad(message: str) -> Invalid:
    return Invalid(f"Bad router request: {message}.", code="BadRequest")


def _routes(change: Callable[..., Row]) -> Handler:
    """A handler that adds or removes single routes."""

    async def call(request: Request) -> Response:
        body = await request.document()
        router = body.get("router")
        if not isinstance(router, dict) or set(router) != {"routes"}:
            raise Invalid("Unable to find 'routes' of a 'router' in request body, or there is more than that")
        found = checks.plain_routes(router["routes"])
        wrong = checks.host_routes(found)
        if wrong:
            raise Invalid(f"Invalid input for routes. Reason: {wrong}.")
        row = await settled(request.cloud.db.write(change, rights(request), identifier(request), found))
        return ok({"router": shape(request, CALLS)(row)})

    return call


def _put(name: str, handler: Handler) -> Route:
    return Route("PUT", f"/v2.0/routers/{{id}}/{name}", handler, rule=name, check=MEMBER, late=True)


ROUTES = (
    *routes(CALLS, Checks(get=READER, create=MEMBER, update=MEMBER, delete=MEMBER)),
    _put("add_router_interface", _interface(routers.add_interface, both=False)),
    _put("remove_router_interface", _interface(routers.remove_interface, both=True)),
    _put("add_extraroutes", _routes(routers.add_routes)),
    _put("remove_extraroutes", _routes(routers.remove_routes)),
)
