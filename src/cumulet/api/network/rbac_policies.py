"""Shares. See Neutron's API reference, "RBAC policies"."""

from __future__ import annotations

from cumulet.api.network.collection import Calls, Checks, routes
from cumulet.api.network.rules import MEMBER, READER
from cumulet.core import rbac_policies
from cumulet.wire.network import rbac_policies as wire

CALLS = Calls(
    noun=rbac_policies.NOUN,
    attributes=wire.ATTRIBUTES,
    view=wire.view,
    page=rbac_policies.page,
    show=rbac_policies.show,
    create=rbac_policies.create,
    update=rbac_policies.update,
    delete=rbac_policies.delete,
    path="rbac-policies",
)

ROUTES = routes(CALLS, Checks(get=READER, create=MEMBER, update=MEMBER, delete=MEMBER))
