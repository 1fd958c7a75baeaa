"""Addresses in use. See Neutron's API reference, "Network IP availability and usage stats"."""

from __future__ import annotations

from cumulet.api.network.collection import Calls, Checks, routes
from cumulet.api.network.rules import ADMIN, SERVICE, either
from cumulet.core import ip_availability
from cumulet.wire.network import ip_availability as wire

CALLS = Calls(
    noun=ip_availability.NOUN,
    attributes={},
    view=wire.view,
    page=ip_availability.page,
    show=ip_availability.show,
    path="network-ip-availabilities",
)

ROUTES = routes(CALLS, Checks(get=either(ADMIN, SERVICE)))
