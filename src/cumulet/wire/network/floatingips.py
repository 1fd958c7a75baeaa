"""Floating IPs. See Neutron's API reference, "Floating IPs"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cumulet.wire.network import checks
from cumulet.wire.network.attributes import READ_ONLY, Attribute, Table
from cumulet.wire.network.shapes import STANDARD, UUID, standard

ATTRIBUTES: Table = {
    **STANDARD,
    "floating_network_id": UUID,
    "floating_ip_address": Attribute(
        post=True, default=None, convert=checks.plain_ip, check=checks.either(checks.ip)
    ),
    "subnet_id": Attribute(post=True, default=None, check=checks.either(checks.uuid)),
    "port_id": Attribute(post=True, put=True, default=None, check=checks.either(checks.uuid)),
    "fixed_ip_address": Attribute(
        post=True, put=True, default=None, convert=checks.plain_ip, check=checks.either(checks.ip)
    ),
    "router_id": READ_ONLY,
    "status": READ_ONLY,
    "port_details": READ_ONLY,
    "dns_name": Attribute(post=True, default="", convert=checks.lower, check=checks.dns_name),
    "dns_domain": Attribute(post=True, default="", convert=checks.lower, check=checks.dns_domain),
}


def view(row: Mapping[str, Any]) -> dict[str, Any]:
    """A floating IP in an answer."""
    return {
        **standard(row),
        "floating_network_id": row["floating_network_id"],
        "floating_ip_address": row["floating_ip_address"],
        "port_id": row["port_id"],
        "fixed_ip_address": row["fixed_ip_address"],
        "router_id": row["router_id"],
        "status": row["status"],
        "port_details": row["port_details"],
        "dns_name": row["dns_name"],
        "dns_domain": row["dns_domain"],
    }
