"""Agents. See Neutron's API reference, "Networking agents"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cumulet.wire.forms import instant_or_none


def view(row: Mapping[str, Any]) -> dict[str, Any]:
    """An agent in an answer."""
    return {
        "id": row["id"],
        "agent_type": row["type"],
        "binary": "cumulet",
        "topic": "N/A",
        "host": row["name"],
        "availability_zone": row["zone"],
        "admin_state_up": not row["disabled"],
        "alive": row["alive"],
        "created_at": _moment(row["created_at"]),
        "started_at": _moment(row["created_at"]),
        "heartbeat_timestamp": _moment(row["seen_at"]),
        "description": None,
        "configurations": {},
        "resources_synced": None,
    }


def _moment(seconds: float | None) -> str | None:
    """``2026-08-01 10:20:30``, as agents have it."""
    found = instant_or_none(seconds)
    return None if found is None else found.replace("T", " ").removesuffix("Z")
