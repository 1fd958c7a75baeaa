"""Security groups and their rules. See Neutron's API reference, "Security groups", "Security group rules"."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any

from cumulet.errors import Invalid
from cumulet.values import IP_PROTOCOLS
from cumulet.wire.network import checks
from cumulet.wire.network.attributes import READ_ONLY, Attribute, Table
from cumulet.wire.network.shapes import NAME, STANDARD, standard

_ANY = (None, "any", -1, "-1", "0", 0)


def _protocol(value: Any) -> str | None:
    """A protocol's name in lower case, or its number as text; None for any."""
    if not isinstance(value, bool | float | list | dict):
        if value in _ANY:
            return None
        text = str(value).lower()
        if text in IP_PROTOCOLS or (text.isascii() and text.isdigit() and int(text) <= 255):
            return text if text in IP_PROTOCOLS else str(int(text))
    raise Invalid(
        f"Security group rule protocol {str(value)[:100]} not supported. Only protocol values "
        f"{[None, 'any', *IP_PROTOCOLS]} and integer representations [0 to 255] are supported.",
        code="SecurityGroupRuleInvalidProtocol",
    )


def _port(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, int | str) and not isinstance(value, bool):
        text = str(value)
        if text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= 65535:
            return int(text)
    raise Invalid(f"Invalid value for port {str(value)[:100]}", code="SecurityGroupInvalidPortValue")


def _ethertype(value: Any) -> str:
    for known in ("IPv4", "IPv6"):
        if isinstance(value, str) and value.lower() == known.lower():
            return known
    raise Invalid(
        f"Security group rule for ethertype '{str(value)[:100]}' not supported. Allowed values are "
        "['IPv4', 'IPv6'].",
        code="SecurityGroupRuleInvalidEtherType",
    )


def _prefix(value: Any) -> str | None:
    """A prefix with its length; a single address gets one."""
    if not value:
        return None
    text = str(value)
    if isinstance(value, str) and (checks.ip(text) is None or checks.cidr(text) is None):
        return str(ipaddress.ip_interface(text))
    raise Invalid(f"Invalid CIDR {text[:100]} given as IP prefix.", code="InvalidCIDR")


ATTRIBUTES: Table = {
    **STANDARD,
    "name": NAME,
    "stateful": Attribute(post=True, put=True, default=True, convert=checks.boolean),
    "shared": READ_ONLY,
    "security_group_rules": READ_ONLY,
}

RULE_ATTRIBUTES: Table = {
    **{name: attribute for name, attribute in STANDARD.items() if name != "tags"},
    "security_group_id": Attribute(post=True, check=checks.text(36)),
    "remote_group_id": Attribute(post=True, default=None, check=checks.either(checks.text(36))),
    "direction": Attribute(post=True, check=checks.among(("ingress", "egress"))),
    "protocol": Attribute(post=True, default=None, convert=_protocol),
    "port_range_min": Attribute(post=True, default=None, convert=_port),
    "port_range_max": Attribute(post=True, default=None, convert=_port),
    "ethertype": Attribute(post=True, default="IPv4", convert=_ethertype),
    "remote_ip_prefix": Attribute(post=True, default=None, convert=_prefix),
    "normalized_cidr": READ_ONLY,
    "belongs_to_default_sg": READ_ONLY,
}


def view(row: Mapping[str, Any]) -> dict[str, Any]:
    """A security group in an answer."""
    return {
        **standard(row),
        "name": row["name"],
        "stateful": row["stateful"],
        "shared": row["shared"],
        "security_group_rules": [view_rule(rule) for rule in row["rules"]],
    }


def view_rule(row: Mapping[str, Any]) -> dict[str, Any]:
    """A rule in an answer."""
    prefix = row["remote_ip_prefix"]
    return {
        **standard(row),
        "security_group_id": row["security_group_id"],
        "direction": row["direction"],
        "ethertype": row["ethertype"],
        "protocol": row["protocol"],
        "port_range_min": row["port_range_min"],
        "port_range_max": row["port_range_max"],
        "remote_ip_prefix": prefix,
        "normalized_cidr": str(ipaddress.ip_interface(prefix).network) if prefix else None,
        "remote_group_id": row["remote_group_id"],
        "belongs_to_default_sg": row["belongs_to_default_sg"],
    }
