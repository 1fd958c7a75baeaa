"""Volumes and their attachments."""

from __future__ import annotations

from cumulet.core.volumes.attachments import (
    end_attachment,
    pass_attachment,
    reserve,
    set_attachment,
    shown_status,
)
from cumulet.core.volumes.lifecycle import apply, create_inner, delete_inner, delete_with_server, view

__all__ = [
    "apply",
    "create_inner",
    "delete_inner",
    "delete_with_server",
    "end_attachment",
    "pass_attachment",
    "reserve",
    "set_attachment",
    "shown_status",
    "view",
]
