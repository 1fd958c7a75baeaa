"""Switches of users, projects, domains and roles ("resource options"), and what ``immutable`` forbids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cumulet.errors import Forbidden


def merged(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """The options after a change; null takes one away."""
    return {name: value for name, value in {**old, **new}.items() if value is not None}


def check_change(noun: str, id: str, old: Mapping[str, Any], changes: Mapping[str, Any]) -> None:
    """Raises Forbidden when something immutable is changed other than by making it mutable, and that alone."""
    if not old.get("immutable"):
        return
    options = changes.get("options") or {}
    if set(changes) != {"options"} or "immutable" not in options or options["immutable"]:
        raise Forbidden(
            f"Unable to update immutable {noun} resource: {id}. Set its option immutable to false first, alone."
        )


def check_delete(noun: str, id: str, old: Mapping[str, Any]) -> None:
    """Raises Forbidden for something immutable."""
    if old.get("immutable"):
        raise Forbidden(
            f"Unable to delete immutable {noun} resource: {id}. Set its option immutable to false first."
        )
