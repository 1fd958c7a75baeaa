"""Images and what belongs to them."""

from __future__ import annotations

from cumulet.core.images.lifecycle import apply, create_inner, delete_inner, fill_from_disk, view

__all__ = ["apply", "create_inner", "delete_inner", "fill_from_disk", "view"]
