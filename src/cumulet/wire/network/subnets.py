"""Subnets. See Neutron's API reference, "Subnets"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cumulet.wire.network import checks
from cumulet.wire.network.attributes import ABSENT, READ_ONLY, Attribute, Table
from cumulet.wire.network.shapes import NAME, STANDARD, UUID, standard

_MODES = ("slaac", "dhcpv6-stateful", "dhcpv6-stateless")
_MODE = Attribute(post=True, default=ABSENT, check=checks.either(checks.among(_MODES)))


def _service_types(value: Any) -> str | None:
    """Owners of ports: "network:floatingip", "compute:nova", …"""
    found = checks.items(checks.text(255), 50)(value)
    if found is None:
        for owner in value:
            if ":" not in owner[1:]:
                return f"Subnet service type {owner} does not correspond to a valid device owner"
    return found


ATTRIBUTES: Table = {
    **STANDARD,
    "name": NAME,
    "network_id": UUID,
    "ip_version": Attribute(post=True, convert=checks.integer, check=checks.among((4, 6))),
    "subnetpool_id": Attribute(post=True, default=ABSENT, check=checks.either(checks.uuid)),
    "use_default_subnetpool": Attribute(post=True, default=False, convert=checks.boolean),
    "prefixlen": Attribute(post=True, default=ABSENT, convert=checks.integer, check=checks.between(0, 128)),
    "cidr": Attribute(post=True, default=ABSENT, convert=checks.plain_cidr, check=checks.cidr),
    "gateway_ip": Attribute(
        post=True, put=True, default=ABSENT, convert=checks.plain_ip, check=checks.either(checks.ip)
    ),
    "allocation_pools": Attribute(
        post=True, put=True, default=ABSENT, convert=checks.plain_pools, check=checks.pools
    ),
    "dns_nameservers": Attribute(
        post=True, put=True, default=ABSENT, convert=checks.list_or_empty, check=checks.nameservers
    ),
    "host_routes": Attribute(
        post=True, put=True, default=ABSENT, convert=checks.plain_routes, check=checks.host_routes
    ),
    "enable_dhcp": Attribute(post=True, put=True, default=True, convert=checks.boolean),
    "ipv6_ra_mode": _MODE,
    "ipv6_address_mode": _MODE,
    "service_types": Attribute(
        post=True, put=True, default=ABSENT, convert=checks.list_or_empty, check=_service_types
    ),
    "router:external": READ_ONLY,
}


def view(row: Mapping[str, Any]) -> dict[str, Any]:
    """A subnet in an answer."""
    return {
        **standard(row),
        "name": row["name"],
        "network_id": row["network_id"],
        "ip_version": row["ip_version"],
        "cidr": row["cidr"],
        "gateway_ip": row["gateway_ip"],
        "allocation_pools": row["allocation_pools"],
        "dns_nameservers": row["dns_nameservers"],
        "host_routes": row["host_routes"],
        "enable_dhcp": row["enable_dhcp"],
        "ipv6_ra_mode": row["ipv6_ra_mode"],
        "ipv6_address_mode": row["ipv6_address_mode"],
        "subnetpool_id": row["subnetpool_id"],
        "service_types": row["service_types"],
        "router:external": row["network_external"],
    }
