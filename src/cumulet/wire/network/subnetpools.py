"""Subnet pools. See Neutron's API reference, "Subnet pools"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cumulet.wire.network import checks
from cumulet.wire.network.attributes import ABSENT, READ_ONLY, Attribute, Table
from cumulet.wire.network.shapes import FLAG, STANDARD, standard

_LENGTH = Attribute(post=True, put=True, default=ABSENT, convert=checks.integer, check=checks.not_negative)

ATTRIBUTES: Table = {
    **STANDARD,
    "name": Attribute(post=True, put=True, check=checks.filled_name()),
    "prefixes": Attribute(
        post=True, put=True, convert=checks.plain_prefixes, check=checks.items(checks.cidr)
    ),
    "default_quota": Attribute(
        post=True,
        put=True,
        default=ABSENT,
        convert=checks.integer_or_none,
        check=checks.either(checks.not_negative),
    ),
    "ip_version": READ_ONLY,
    "default_prefixlen": _LENGTH,
    "min_prefixlen": _LENGTH,
    "max_prefixlen": _LENGTH,
    "is_default": FLAG,
    "shared": Attribute(post=True, default=False, convert=checks.boolean),
}


def view(row: Mapping[str, Any]) -> dict[str, Any]:
    """A subnet pool in an answer."""
    return {
        **standard(row),
        "name": row["name"],
        "prefixes": row["prefixes"],
        "ip_version": row["ip_version"],
        # Text, as Neutron has them.
        "default_prefixlen": str(row["default_prefixlen"]),
        "min_prefixlen": str(row["min_prefixlen"]),
        "max_prefixlen": str(row["max_prefixlen"]),
        "default_quota": row["default_quota"],
        "is_default": row["is_default"],
        "shared": row["shared"],
        "address_scope_id": row["address_scope_id"],
    }
