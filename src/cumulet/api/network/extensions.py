"""What of Neutron's extensions is here. Only what works is listed: clients choose their calls by it."""

from __future__ import annotations

import msgspec

from cumulet.api.asgi import Route
from cumulet.api.request import Request, Response, ok
from cumulet.errors import NotFound


class Extension(msgspec.Struct, frozen=True):
    """An extension as clients know it; name and date are Neutron's."""

    alias: str
    name: str
    description: str
    updated: str


def _table(*lines: tuple[str, str, str, str]) -> dict[str, Extension]:
    return {
        alias: Extension(alias, name, description, f"{date}T10:00:00-00:00")
        for alias, name, date, description in lines
    }


EXTENSIONS = _table(
    ("agent", "agent", "2013-02-03", "The agents that carry out what is asked"),
    ("allowed-address-pairs", "Allowed Address Pairs", "2013-07-23", "More addresses for a port than its own"),
    ("auto-allocated-topology", "Auto Allocated Topology Services", "2016-01-01", "A network on demand"),
    ("availability_zone", "Availability Zone", "2015-01-01", "The zones of networks and routers"),
    ("binding", "Port Binding", "2014-02-03", "The host that a port is on"),
    ("default-subnetpools", "Default Subnetpools", "2016-02-18", "A subnet pool that is used unless another is named"),
    ("dns-integration", "DNS Integration", "2015-08-15", "Names of ports and domains of networks"),
    ("dvr", "Distributed Virtual Router", "2014-06-01", "Whether floating IPs are translated on the ports' hosts"),
    ("empty-string-filtering", "Empty String Filtering Extension", "2018-05-01", "Filters for what is empty"),
    ("ext-gw-mode", "Neutron L3 Configurable external gateway mode", "2013-03-28", "Gateways without translation"),
    ("external-net", "Neutron external network", "2013-01-14", "Networks that lead outside"),
    ("extra_dhcp_opt", "Neutron Extra DHCP options", "2013-03-17", "DHCP options of single ports"),
    ("extraroute", "Neutron Extra Route", "2013-02-01", "More routes of routers"),
    ("extraroute-atomic", "Atomically add/remove extra routes", "2019-07-10", "Single routes of routers"),
    ("filter-validation", "Filter parameters validation", "2018-03-21", "Filters that there are not are refused"),
    ("fip-port-details", "Floating IP Port Details Extension", "2018-04-09", "What port a floating IP leads to"),
    ("floatingip-pools", "Floating IP Pools Extension", "2018-03-21", "Where floating IPs come from"),
    ("ip-substring-filtering", "IP address substring filtering", "2017-11-28", "Ports by a part of their address"),
    ("l3-ha", "HA Router extension", "2014-04-26", "Whether a router's gateway is on several hosts"),
    ("net-mtu", "Network MTU", "2015-03-25", "The MTU of networks"),
    ("net-mtu-writable", "Network MTU (writable)", "2017-07-12", "The MTU of networks can be chosen"),
    ("network-ip-availability", "Network IP Availability", "2015-09-24", "How many addresses are in use"),
    ("network_availability_zone", "Network Availability Zone", "2015-01-01", "The zone of a network"),
    ("pagination", "Pagination support", "2016-06-12", "Lists in pages"),
    ("port-security", "Port Security", "2012-07-23", "Ports and networks without filters"),
    ("port-security-groups-filtering", "Port filtering on security groups", "2018-01-09", "Ports by their groups"),
    ("project-id", "project_id field enabled", "2016-09-09", "project_id beside tenant_id"),
    ("provider", "Provider Network", "2012-09-07", "The segment of a network"),
    ("quota_details", "Quota details management support", "2017-02-10", "What is used of a quota"),
    ("quota-check-limit", "Quota engine limit check", "2021-10-15", "Limits below what is used are refused"),
    ("quotas", "Quota management support", "2012-07-29", "Limits of projects"),
    ("rbac-policies", "RBAC Policies", "2015-06-17", "Networks shared with single projects"),
    ("rbac-security-groups", "Add security_group type to network RBAC", "2019-04-22", "Security groups shared"),
    ("revision-if-match", "If-Match constraints based on revision_number", "2016-12-11", "Changes of a revision only"),
    ("router", "Neutron L3 Router", "2012-07-20", "Routers and floating IPs"),
    (
        "router-admin-state-down-before-update", "Enforce Router's Admin State Down Before Update Extension",
        "2019-01-30", "Routers are taken down before they are made distributed or highly available",
    ),
    ("router_availability_zone", "Router Availability Zone", "2015-01-01", "The zone of a router"),
    ("security-group", "security-group", "2012-10-05", "Filters of ports"),
    (
        "security-groups-normalized-cidr", "Normalized CIDR field for security group rules", "2020-02-13",
        "Prefixes of rules without host bits",
    ),
    (
        "security-groups-rules-belongs-to-default-sg", "Security group rules belongs to the default security group",
        "2022-12-05", "Which rules are of a default group",
    ),
    ("security-groups-shared-filtering", "Security group filtering on the shared field", "2021-03-19", "Shared groups"),
    ("service-type", "Neutron Service Type Management", "2013-01-20", "Who provides services; here none is a plug-in"),
    ("sort-key-validation", "Sort key validation", "2018-08-12", "Sort keys that there are not are refused"),
    ("sorting", "Sorting support", "2016-06-12", "Lists in order"),
    ("standard-attr-description", "standard-attr-description", "2016-02-10", "Descriptions"),
    ("standard-attr-revisions", "Resource revision numbers", "2016-04-11", "Revisions"),
    ("standard-attr-tag", "Tag support for resources with standard attribute", "2017-01-01", "Tags"),
    ("standard-attr-timestamp", "Resource timestamps", "2016-09-12", "When something was made and changed"),
    ("stateful-security-group", "Stateful security group", "2019-11-26", "Groups that do not follow connections"),
    ("subnet-external-network", "Subnet belongs to an external network", "2023-10-23", "Subnets of external networks"),
    ("subnet-service-types", "Subnet service types", "2016-03-15", "Subnets for certain ports only"),
    ("subnet_allocation", "Subnet Allocation", "2015-03-30", "Subnets from pools"),
    ("subnetpool-prefix-ops", "Subnet Pool Prefix Operations", "2019-02-08", "Single prefixes of pools"),
    ("trunk", "Trunk Extension", "2016-01-01", "Ports that carry several networks"),
    ("trunk-details", "Trunk port details", "2016-01-01", "What a port's trunk carries"),
    ("tag-creation", "Tag creation extension", "2024-07-23", "Several tags at once"),
    ("tag-ports-during-bulk-creation", "Tag Ports During Bulk Creation", "2019-12-29", "Tags of new ports"),
)  # fmt: skip


def _view(extension: Extension) -> dict[str, object]:
    return {
        "alias": extension.alias,
        "name": extension.name,
        "description": extension.description,
        "updated": extension.updated,
        "links": [],
    }


async def page(request: Request) -> Response:
    """GET /extensions"""
    return ok({"extensions": list(map(_view, EXTENSIONS.values()))})


async def show(request: Request) -> Response:
    """GET /extensions/{alias}"""
    found = EXTENSIONS.get(request.params["alias"])
    if found is None:
        raise NotFound(f"Extension with alias {request.params['alias'][:100]} does not exist")
    return ok({"extension": _view(found)})


async def service_providers(request: Request) -> Response:
    """GET /service-providers"""
    # No service is plugged in: routers and the rest are this program's own.
    return ok({"service_providers": []})


ROUTES = (
    # Neutron lists them to whoever has a token.
    Route("GET", "/v2.0/extensions", page, rule="get_extension", check="@"),
    Route("GET", "/v2.0/extensions/{alias}", show, rule="get_extension", check="@"),
    Route(
        "GET", "/v2.0/service-providers", service_providers, rule="get_service_provider", check="role:reader"
    ),
)
