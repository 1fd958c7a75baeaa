"""Routers. See Neutron's API reference, "Routers"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cumulet.wire.network import checks
from cumulet.wire.network.attributes import ABSENT, READ_ONLY, Attribute, Table
from cumulet.wire.network.shapes import NAME, STANDARD, standard

#: Attributes that only some may see.
PRIVATE = ("distributed", "ha")


def _gateway(value: Any) -> str | None:
    """Where the router's gateway is: a network, perhaps addresses on it, perhaps without NAT. Null or {}: none."""
    if not value:
        return None
    if not isinstance(value, dict):
        return f"'{value}' is not a dictionary"
    if "network_id" not in value:
        return (
            "Validation of dictionary's keys failed. Expected keys: {'network_id'} "
            f"Provided keys: {set(map(str, value))}"
        )
    unknown = sorted(set(value) - {"network_id", "external_fixed_ips", "enable_snat"})
    if unknown:
        return f"Unexpected keys supplied: {', '.join(unknown)}"
    return checks.uuid(value["network_id"]) or checks.fixed_ips(value.get("external_fixed_ips", []))


def _plain_gateway(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    plain = dict(value)
    if "external_fixed_ips" in plain:
        plain["external_fixed_ips"] = checks.plain_fixed_ips(plain["external_fixed_ips"])
    if "enable_snat" in plain:
        plain["enable_snat"] = checks.boolean(plain["enable_snat"])
    return plain


ATTRIBUTES: Table = {
    **STANDARD,
    "name": NAME,
    "admin_state_up": Attribute(post=True, put=True, default=True, convert=checks.boolean),
    "status": READ_ONLY,
    "external_gateway_info": Attribute(
        post=True, put=True, default=None, convert=_plain_gateway, check=_gateway
    ),
    "routes": Attribute(put=True, convert=checks.plain_routes, check=checks.host_routes),
    "distributed": Attribute(post=True, put=True, default=ABSENT, convert=checks.boolean_or_none),
    "ha": Attribute(post=True, put=True, default=ABSENT, convert=checks.boolean_or_none),
    "availability_zone_hints": Attribute(
        post=True, default=ABSENT, convert=checks.list_or_empty, check=checks.items(checks.text(255), 10)
    ),
}


def view(row: Mapping[str, Any]) -> dict[str, Any]:
    """A router in an answer."""
    gateway = None
    if row["gateway_network_id"] is not None:
        gateway = {
            "network_id": row["gateway_network_id"],
            "external_fixed_ips": row["external_fixed_ips"],
            "enable_snat": row["enable_snat"],
        }
    return {
        **standard(row),
        "name": row["name"],
        "admin_state_up": row["admin_state_up"],
        "status": row["status"],
        "external_gateway_info": gateway,
        "routes": row["routes"],
        "distributed": row["distributed"],
        "ha": row["ha"],
        "availability_zone_hints": row["zone_hints"],
        "availability_zones": row["zones"],
    }


def interface(row: Mapping[str, Any]) -> dict[str, Any]:
    """What is answered to adding or removing an interface."""
    return {**row, "tenant_id": row["project_id"]}
