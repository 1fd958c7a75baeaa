"""Servers: their rows, what they hold, and what is done with them."""

from __future__ import annotations

from cumulet.core.servers.apply import apply
from cumulet.core.servers.view import view

__all__ = ["apply", "view"]
