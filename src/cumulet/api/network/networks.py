"""Networks. See Neutron's API reference, "Networks"."""

from __future__ import annotations

from cumulet.api.network.collection import Calls, Checks, routes
from cumulet.api.network.rules import ADMIN, MEMBER, OWN_READER, SERVICE, either
from cumulet.core import networks
from cumulet.wire.network import networks as wire

CALLS = Calls(
    noun=networks.NOUN,
    attributes=wire.ATTRIBUTES,
    view=wire.view,
    page=networks.page,
    show=networks.show,
    create=networks.create,
    update=networks.update,
    delete=networks.delete,
    private=("provider:network_type", "provider:physical_network", "provider:segmentation_id"),
)

ROUTES = routes(
    CALLS,
    Checks(
        get=either(ADMIN, OWN_READER, SERVICE, "rule:shared", "rule:external"),
        create=MEMBER,
        update=MEMBER,
        delete=MEMBER,
    ),
)
