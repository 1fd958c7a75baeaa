"""Networks. See Neutron's API reference, "Networks"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cumulet.wire.network import checks
from cumulet.wire.network.attributes import ABSENT, READ_ONLY, Attribute, Table
from cumulet.wire.network.shapes import FLAG, NAME, STANDARD, standard

ATTRIBUTES: Table = {
    **STANDARD,
    "name": NAME,
    "subnets": READ_ONLY,
    "status": READ_ONLY,
    "admin_state_up": Attribute(post=True, put=True, default=True, convert=checks.boolean),
    "shared": FLAG,
    "router:external": FLAG,
    "is_default": FLAG,
    "port_security_enabled": Attribute(post=True, put=True, default=True, convert=checks.boolean),
    "mtu": Attribute(post=True, put=True, default=0, convert=checks.integer, check=checks.between(0, 65535)),
    "dns_domain": Attribute(post=True, put=True, default="", convert=checks.lower, check=checks.dns_domain),
    "availability_zone_hints": Attribute(
        post=True, default=ABSENT, convert=checks.list_or_empty, check=checks.items(checks.text(255), 10)
    ),
    "provider:network_type": Attribute(post=True, put=True, default=ABSENT, check=checks.text(32)),
    "provider:physical_network": Attribute(
        post=True, put=True, default=ABSENT, check=checks.either(checks.text(64))
    ),
    "provider:segmentation_id": Attribute(
        post=True, put=True, default=ABSENT, convert=checks.integer_or_none
    ),
}


def view(row: Mapping[str, Any]) -> dict[str, Any]:
    """A network in an answer."""
    body = {
        **standard(row),
        "name": row["name"],
        "admin_state_up": row["admin_state_up"],
        "status": "ACTIVE",
        "subnets": row["subnets"],
        "shared": row["shared"],
        "router:external": row["external"],
        "mtu": row["mtu"],
        "port_security_enabled": row["port_security_enabled"],
        "dns_domain": row["dns_domain"],
        "availability_zone_hints": row["zone_hints"],
        "availability_zones": row["zones"],
        "provider:network_type": row["network_type"],
        "provider:physical_network": row["physical_network"],
        "provider:segmentation_id": row["segmentation_id"],
    }
    if row["external"]:
        body["is_default"] = row["is_default"]
    return body
