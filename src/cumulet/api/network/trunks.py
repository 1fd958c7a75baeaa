"""Trunks. See Neutron's API reference, "Trunk networking"."""

from __future__ import annotations

from typing import Any

from cumulet.api.asgi import Route
from cumulet.api.network.collection import Calls, Checks, identifier, rights, routes, settled
from cumulet.api.network.rules import MEMBER, READER
from cumulet.api.request import Request, Response, ok
from cumulet.core import trunks
from cumulet.errors import Invalid
from cumulet.wire.network import checks
from cumulet.wire.network import trunks as wire

CALLS = Calls(
    noun=trunks.NOUN,
    attributes=wire.ATTRIBUTES,
    view=wire.view,
    page=trunks.page,
    show=trunks.show,
    create=trunks.create,
    update=trunks.update,
    delete=trunks.delete,
)


async def _asked(request: Request) -> Any:
    body = await request.document()
    if "sub_ports" not in body:
        raise Invalid("Invalid input for operation: the body names no sub_ports.", code="InvalidInput")
    return body["sub_ports"]


async def subports(request: Request) -> Response:
    """GET /trunks/{id}/get_subports"""
    row = await request.cloud.db.read(trunks.show, rights(request), identifier(request))
    return ok({"sub_ports": row["sub_ports"]})


async def add(request: Request) -> Response:
    """PUT /trunks/{id}/add_subports"""
    asked = wire.plain(await _asked(request))
    wrong = wire.subports(asked)
    if wrong:
        raise Invalid(f"Invalid input for sub_ports. Reason: {wrong}.")
    row = await settled(
        request.cloud.db.write(trunks.add_subports, rights(request), identifier(request), asked)
    )
    return ok(wire.view(row))


async def remove(request: Request) -> Response:
    """PUT /trunks/{id}/remove_subports"""
    asked = await _asked(request)
    if not isinstance(asked, list) or len(asked) > 1000 or not all(isinstance(one, dict) for one in asked):
        raise Invalid("Invalid input for sub_ports. Reason: it is not a list of objects.")
    ids = [one.get("port_id") for one in asked]
    wrong = next((found for found in map(checks.uuid, ids) if found), None)
    if wrong:
        raise Invalid(f"Invalid input for sub_ports. Reason: {wrong}.")
    row = await settled(
        request.cloud.db.write(trunks.remove_subports, rights(request), identifier(request), ids)
    )
    return ok(wire.view(row))


ROUTES = (
    *routes(CALLS, Checks(get=READER, create=MEMBER, update=MEMBER, delete=MEMBER)),
    Route("GET", "/v2.0/trunks/{id}/get_subports", subports, rule="get_subports", check=READER, late=True),
    Route("PUT", "/v2.0/trunks/{id}/add_subports", add, rule="add_subports", check=MEMBER, late=True),
    Route(
        "PUT", "/v2.0/trunks/{id}/remove_subports", remove, rule="remove_subports", check=MEMBER, late=True
    ),
)
