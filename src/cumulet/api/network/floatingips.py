"""Floating IPs. See Neutron's API reference, "Floating IPs", "Floating IP pools"."""

from __future__ import annotations

from cumulet.api.asgi import Route
from cumulet.api.network.collection import Calls, Checks, rights, routes
from cumulet.api.network.rules import MEMBER, READER
from cumulet.api.request import Request, Response, ok
from cumulet.core import floatingips
from cumulet.wire.network import floatingips as wire

CALLS = Calls(
    noun=floatingips.NOUN,
    attributes=wire.ATTRIBUTES,
    view=wire.view,
    page=floatingips.page,
    show=floatingips.show,
    create=floatingips.create,
    update=floatingips.update,
    delete=floatingips.delete,
)


async def pools(request: Request) -> Response:
    """GET /floatingip-pools"""
    rows = await request.cloud.db.read(floatingips.pools, rights(request))
    return ok({"floatingip_pools": [{**row, "tenant_id": row["project_id"]} for row in rows]})


ROUTES = (
    *routes(CALLS, Checks(get=READER, create=MEMBER, update=MEMBER, delete=MEMBER)),
    # The reference writes it with "_", Neutron serves it with "-".
    Route("GET", "/v2.0/floatingip-pools", pools, rule="get_floatingip_pool", check=READER),
    Route("GET", "/v2.0/floatingip_pools", pools, rule="get_floatingip_pool", check=READER),
)
