"""Subnet pools. See Neutron's API reference, "Subnet pools", "Subnet pool prefix operations"."""

from __future__ import annotations

from collections.abc import Callable

from cumulet.api.asgi import Handler, Route
from cumulet.api.network.collection import Calls, Checks, identifier, rights, routes, settled
from cumulet.api.network.rules import MEMBER, READER, either
from cumulet.api.request import Request, Response, ok
from cumulet.core import subnetpools
from cumulet.errors import Invalid
from cumulet.wire.network import checks
from cumulet.wire.network import subnetpools as wire

CALLS = Calls(
    noun=subnetpools.NOUN,
    attributes=wire.ATTRIBUTES,
    view=wire.view,
    page=subnetpools.page,
    show=subnetpools.show,
    create=subnetpools.create,
    update=subnetpools.update,
    delete=subnetpools.delete,
)


def _prefixes(change: Callable[..., list[str]]) -> Handler:
    async def call(request: Request) -> Response:
        body = await request.document()
        prefixes = checks.plain_prefixes(body.get("prefixes"))
        wrong = checks.items(checks.cidr)(prefixes)
        if wrong:
            raise Invalid(f"Invalid input for prefixes. Reason: {wrong}.")
        work = request.cloud.db.write(change, rights(request), identifier(request), prefixes)
        return ok({"prefixes": await settled(work)})

    return call


ROUTES = (
    *routes(
        CALLS,
        Checks(get=either(READER, "rule:shared_subnetpools"), create=MEMBER, update=MEMBER, delete=MEMBER),
    ),
    Route(
        "PUT", "/v2.0/subnetpools/{id}/add_prefixes", _prefixes(subnetpools.add_prefixes),
        rule="add_prefixes", check=MEMBER, late=True,
    ),
    Route(
        "PUT", "/v2.0/subnetpools/{id}/remove_prefixes", _prefixes(subnetpools.remove_prefixes),
        rule="remove_prefixes", check=MEMBER, late=True,
    ),
)  # fmt: skip
