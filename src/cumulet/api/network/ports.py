"""Ports. See Neutron's API reference, "Ports"."""

from __future__ import annotations

from cumulet.api.network.collection import Calls, Checks, routes
from cumulet.api.network.rules import (
    ADMIN,
    NET_MEMBER,
    NET_READER,
    ON_SHARED,
    OWN_MEMBER,
    OWN_READER,
    SERVICE,
    either,
)
from cumulet.core import ports
from cumulet.wire.network import ports as wire

CALLS = Calls(
    noun=ports.NOUN,
    attributes=wire.ATTRIBUTES,
    view=wire.view,
    page=ports.page,
    show=ports.show,
    create=ports.create,
    update=ports.update,
    delete=ports.delete_as,
    private=wire.PRIVATE,
)

ROUTES = routes(
    CALLS,
    Checks(
        get=either(ADMIN, SERVICE, NET_READER, OWN_READER),
        create=ON_SHARED,
        update=either(ADMIN, SERVICE, OWN_MEMBER),
        delete=either(ADMIN, SERVICE, NET_MEMBER, OWN_MEMBER),
    ),
)
