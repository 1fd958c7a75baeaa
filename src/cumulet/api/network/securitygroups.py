"""Security groups and their rules. See Neutron's API reference, "Security groups", "Security group rules"."""

from __future__ import annotations

from cumulet.api.network.collection import Calls, Checks, routes
from cumulet.api.network.rules import ADMIN, MEMBER, READER, either
from cumulet.core import securitygroups
from cumulet.wire.network import securitygroups as wire

GROUPS = Calls(
    noun=securitygroups.NOUN,
    attributes=wire.ATTRIBUTES,
    view=wire.view,
    page=securitygroups.page,
    show=securitygroups.show,
    create=securitygroups.create,
    update=securitygroups.update,
    delete=securitygroups.delete,
    path="security-groups",
    reads_write=True,
)

RULES = Calls(
    noun=securitygroups.RULE,
    attributes=wire.RULE_ATTRIBUTES,
    view=wire.view_rule,
    page=securitygroups.page_rules,
    show=securitygroups.find_rule,
    create=securitygroups.create_rule,
    create_all=securitygroups.create_rules,
    delete=securitygroups.delete_rule,
    path="security-group-rules",
    reads_write=True,
)

ROUTES = (
    *routes(
        GROUPS,
        Checks(get=either(READER, "rule:shared_security_group"), create=MEMBER, update=MEMBER, delete=MEMBER),
    ),
    *routes(
        RULES,
        Checks(
            get=either(ADMIN, "role:reader and rule:sg_owner"),
            create=either(ADMIN, "role:member and rule:sg_owner"),
            delete=either(ADMIN, "role:member and rule:sg_owner"),
        ),
    ),
)
