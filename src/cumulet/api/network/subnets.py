"""Subnets. See Neutron's API reference, "Subnets"."""

from __future__ import annotations

from cumulet.api.network.collection import Calls, Checks, routes
from cumulet.api.network.rules import ADMIN, NET_MEMBER, NET_READER, OWN_MEMBER, OWN_READER, SERVICE, either
from cumulet.core import subnets
from cumulet.wire.network import subnets as wire

CALLS = Calls(
    noun=subnets.NOUN,
    attributes=wire.ATTRIBUTES,
    view=wire.view,
    page=subnets.page,
    show=subnets.show,
    create=subnets.create,
    update=subnets.update,
    delete=subnets.delete,
)

ROUTES = routes(
    CALLS,
    Checks(
        get=either(OWN_READER, "rule:shared", "rule:external_network", ADMIN, NET_READER, SERVICE),
        create=either(ADMIN, NET_MEMBER),
        update=either(OWN_MEMBER, ADMIN, NET_MEMBER),
        delete=either(OWN_MEMBER, ADMIN, NET_MEMBER),
    ),
)
