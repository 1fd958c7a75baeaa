"""Networks, subnets, ports, routers, floating IPs, security groups."""

from __future__ import annotations

import sqlalchemy as sa

from cumulet.db.schema.base import document, flag, integer, key, moment, ref, table, text


def standard() -> list[sa.Column[object]]:
    """Columns that Neutron's standard attributes have."""
    return [
        text("description", ""),
        moment("created_at"),
        moment("updated_at"),
        integer("revision_number", 1),
    ]


def held() -> sa.Column[object]:
    """The id of a row that is driven to a desired state."""
    return sa.Column("id", sa.Text, sa.ForeignKey("holders.id", ondelete="RESTRICT"), primary_key=True)


networks = table(
    "networks",
    held(),
    text("project_id", index=True),
    text("name", ""),
    flag("admin_state_up", default=True),
    flag("shared"),
    flag("external"),
    flag("is_default"),
    flag("port_security_enabled", default=True),
    integer("mtu", 1442),
    text("dns_domain", ""),
    text("network_type", "geneve"),
    text("physical_network", null=True),
    integer("segmentation_id", null=True),
    document("zone_hints", "[]"),
    *standard(),
    #: No two networks on one segment.
    sa.Index(
        "uq_networks_segment",
        "network_type",
        sa.text("coalesce(physical_network, '')"),
        sa.text("coalesce(segmentation_id, 0)"),
        unique=True,
    ),
)

subnets = table(
    "subnets",
    key(),
    text("project_id", index=True),
    ref("network_id", "networks.id"),
    text("name", ""),
    integer("ip_version"),
    text("cidr"),
    text("gateway_ip", null=True),
    flag("enable_dhcp", default=True),
    text("ipv6_address_mode", null=True),
    text("ipv6_ra_mode", null=True),
    ref("subnetpool_id", "subnetpools.id", null=True),
    document("dns_nameservers", "[]"),
    document("host_routes", "[]"),
    document("service_types", "[]"),
    #: Rank of the address that was chosen last; the next one is looked for behind it.
    text("cursor", ""),
    *standard(),
)

allocation_pools = table(
    "allocation_pools",
    key(),
    ref("subnet_id", "subnets.id", on_delete="CASCADE"),
    text("first"),
    text("last"),
)

subnetpools = table(
    "subnetpools",
    key(),
    text("project_id", index=True),
    text("name"),
    integer("ip_version"),
    document("prefixes", "[]"),
    integer("default_prefixlen"),
    integer("min_prefixlen"),
    integer("max_prefixlen"),
    integer("default_quota", null=True),
    flag("shared"),
    flag("is_default"),
    text("address_scope_id", null=True),
    *standard(),
)

ports = table(
    "ports",
    held(),
    text("project_id", index=True),
    ref("network_id", "networks.id", index=False),
    text("name", ""),
    text("mac_address"),
    flag("admin_state_up", default=True),
    text("device_id", "", index=True),
    text("device_owner", ""),
    text("status", "DOWN"),
    text("binding_host", ""),
    document("binding_profile"),
    text("vnic_type", "normal"),
    flag("port_security_enabled", default=True),
    document("allowed_address_pairs", "[]"),
    document("extra_dhcp_opts", "[]"),
    text("dns_name", ""),
    text("qos_policy_id", null=True),
    *standard(),
    sa.UniqueConstraint("network_id", "mac_address"),
)

#: An address in use. It is unique in its subnet by the primary key.
fixed_ips = table(
    "fixed_ips",
    ref("subnet_id", "subnets.id", primary=True),
    sa.Column("address", sa.Text, primary_key=True),
    ref("port_id", "ports.id", on_delete="CASCADE"),
    #: The address as hexadecimal digits of fixed width: it sorts as the number does, which its text does not.
    text("rank"),
    integer("position", 0),
    sa.Index("ix_fixed_ips_subnet_id_rank", "subnet_id", "rank"),
    narrow=True,
)

#: An address of a guest that may still run on a host that nobody reaches; not chosen again until its claim is closed.
held_ips = table(
    "held_ips",
    ref("subnet_id", "subnets.id", primary=True, on_delete="CASCADE"),
    sa.Column("address", sa.Text, primary_key=True),
    ref("claim", "claims.id", primary=True, on_delete="CASCADE"),
)

port_security_groups = table(
    "port_security_groups",
    ref("port_id", "ports.id", primary=True, on_delete="CASCADE"),
    ref("security_group_id", "security_groups.id", primary=True),
    sa.Index("ix_port_security_groups_security_group_id", "security_group_id"),
    narrow=True,
)

security_groups = table(
    "security_groups",
    key(),
    text("project_id", index=True),
    text("name"),
    flag("stateful", default=True),
    flag("is_default"),
    *standard(),
)

security_group_rules = table(
    "security_group_rules",
    key(),
    text("project_id", index=True),
    ref("security_group_id", "security_groups.id", on_delete="CASCADE"),
    text("direction"),
    text("ethertype"),
    text("protocol", null=True),
    integer("port_range_min", null=True),
    integer("port_range_max", null=True),
    text("remote_ip_prefix", null=True),
    ref("remote_group_id", "security_groups.id", null=True, on_delete="CASCADE"),
    *standard(),
)

routers = table(
    "routers",
    held(),
    text("project_id", index=True),
    text("name", ""),
    flag("admin_state_up", default=True),
    text("status", "ACTIVE"),
    ref("gateway_network_id", "networks.id", null=True),
    ref("gateway_port_id", "ports.id", null=True),
    flag("enable_snat", default=True),
    document("routes", "[]"),
    flag("distributed"),
    flag("ha"),
    document("zone_hints", "[]"),
    *standard(),
)

#: Which ports of a router are its interfaces (the gateway is not one).
router_interfaces = table(
    "router_interfaces",
    ref("port_id", "ports.id", primary=True, on_delete="CASCADE"),
    ref("router_id", "routers.id"),
    ref("subnet_id", "subnets.id", null=True),
)

floatingips = table(
    "floatingips",
    held(),
    text("project_id", index=True),
    ref("floating_network_id", "networks.id"),
    #: The port on the external network that keeps the address.
    ref("floating_port_id", "ports.id"),
    text("floating_ip_address"),
    ref("port_id", "ports.id", null=True, on_delete="SET NULL"),
    text("fixed_ip_address", null=True),
    ref("router_id", "routers.id", null=True),
    text("status", "DOWN"),
    text("dns_name", ""),
    text("dns_domain", ""),
    *standard(),
    sa.UniqueConstraint("floating_network_id", "floating_ip_address"),
)

#: A port of a server that carries more networks than its own, each in a VLAN that the guest sees.
trunks = table(
    "trunks",
    key(),
    text("project_id", index=True),
    text("name", ""),
    flag("admin_state_up", default=True),
    #: The server's port; a trunk goes with it.
    ref("port_id", "ports.id", on_delete="CASCADE", index=False),
    *standard(),
    sa.UniqueConstraint("port_id"),
)

#: The other networks of a trunk. A port is in one trunk only.
trunk_subports = table(
    "trunk_subports",
    ref("port_id", "ports.id", primary=True, on_delete="CASCADE"),
    ref("trunk_id", "trunks.id", on_delete="CASCADE"),
    text("segmentation_type"),
    integer("segmentation_id"),
    sa.UniqueConstraint("trunk_id", "segmentation_type", "segmentation_id"),
)

#: Shares: who else may use a network (and later other things), and how. A share with everybody ("*") is also a
#: flag of the network, which lists ask for.
rbac_policies = table(
    "rbac_policies",
    key(),
    text("project_id", index=True),
    text("object_type"),
    text("object_id"),
    text("action"),
    text("target_project"),
    sa.UniqueConstraint("object_id", "action", "target_project"),
    sa.Index("ix_rbac_policies_target_project", "target_project", "object_type", "action"),
)

#: The network that was made for a project that wanted one without naming it, and its router.
auto_topologies = table(
    "auto_topologies",
    key("project_id"),
    ref("network_id", "networks.id", on_delete="CASCADE"),
    ref("router_id", "routers.id", null=True, on_delete="SET NULL"),
)

#: Tags of everything in this area; ``resource`` is the collection's name.
network_tags = table(
    "network_tags",
    sa.Column("resource", sa.Text, primary_key=True),
    sa.Column("resource_id", sa.Text, primary_key=True),
    sa.Column("tag", sa.Text, primary_key=True),
    narrow=True,
)
