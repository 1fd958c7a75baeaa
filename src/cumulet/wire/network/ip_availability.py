"""Addresses in use. See Neutron's API reference, "Network IP availability and usage stats"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def view(row: Mapping[str, Any]) -> dict[str, Any]:
    """A network's addresses in an answer."""
    return {
        "network_id": row["id"],
        "network_name": row["name"],
        "project_id": row["project_id"],
        "tenant_id": row["project_id"],
        "total_ips": sum(subnet["total"] for subnet in row["subnets"]),
        "used_ips": sum(subnet["used"] for subnet in row["subnets"]),
        "subnet_ip_availability": [
            {
                "subnet_id": subnet["id"],
                "subnet_name": subnet["name"],
                "cidr": subnet["cidr"],
                "ip_version": subnet["ip_version"],
                "total_ips": subnet["total"],
                "used_ips": subnet["used"],
            }
            for subnet in row["subnets"]
        ],
    }
