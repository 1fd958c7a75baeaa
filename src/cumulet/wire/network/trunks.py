"""Trunks. See Neutron's API reference, "Trunk networking"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cumulet.wire.network import checks
from cumulet.wire.network.attributes import READ_ONLY, Attribute, Table
from cumulet.wire.network.shapes import NAME, STANDARD, UUID, standard


def subports(value: Any) -> str | None:
    """``[{"port_id": …, "segmentation_type": "vlan", "segmentation_id": …}]``; "inherit" has no id."""
    if not isinstance(value, list) or len(value) > 1000:
        return f"Invalid data format for subports: '{str(value)[:300]}'"
    seen: set[str] = set()
    numbers: set[int] = set()
    for subport in value:
        if not isinstance(subport, dict):
            return f"Invalid data format for subports: '{subport}'"
        unknown = sorted(set(map(str, subport)) - {"port_id", "segmentation_type", "segmentation_id"})
        if unknown:
            return f"Unexpected keys supplied: {', '.join(unknown)}"
        found = checks.uuid(subport.get("port_id")) or _segment(subport)
        if found:
            return found
        if subport["port_id"] in seen:
            return f"port_id '{subport['port_id']}' is listed twice"
        seen.add(subport["port_id"])
        number = subport.get("segmentation_id") if subport["segmentation_type"] == "vlan" else None
        if number is not None and number in numbers:
            return f"segmentation_id {number} of port {subport['port_id']} is listed twice"
        if number is not None:
            numbers.add(number)
    return None


def _segment(subport: Mapping[str, Any]) -> str | None:
    kind, number = subport.get("segmentation_type"), subport.get("segmentation_id")
    if kind == "inherit":
        return None
    if kind != "vlan":
        return f"Invalid segmentation_type: {kind}. It must be vlan or inherit"
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= 4094:
        return f"Invalid segmentation_id: {number}. It must be from 1 to 4094"
    return None


def plain(value: Any) -> Any:
    """Subports with the number as a number, and "inherit" where nothing else is said."""
    if not isinstance(value, list):
        return [] if value is None else value
    return [_plain(subport) if isinstance(subport, dict) else subport for subport in value]


def _plain(subport: dict[str, Any]) -> dict[str, Any]:
    number = subport.get("segmentation_id")
    if isinstance(number, str) and number.isascii() and number.isdigit() and len(number) < 6:
        subport = {**subport, "segmentation_id": int(number)}
    if "segmentation_type" not in subport and number is None:
        subport = {**subport, "segmentation_type": "inherit"}
    return subport


ATTRIBUTES: Table = {
    **STANDARD,
    "name": NAME,
    "admin_state_up": Attribute(post=True, put=True, default=True, convert=checks.boolean),
    "port_id": UUID,
    "status": READ_ONLY,
    "sub_ports": Attribute(post=True, default=[], convert=plain, check=subports),
}


def view(row: Mapping[str, Any]) -> dict[str, Any]:
    """A trunk in an answer."""
    return {
        **standard(row),
        "name": row["name"],
        "admin_state_up": row["admin_state_up"],
        "status": row["status"],
        "port_id": row["port_id"],
        "sub_ports": row["sub_ports"],
    }
