"""Images and what belongs to them."""

from __future__ import annotations

from cumulet.core.images.changing import mismatch
from cumulet.core.images.finding import Image, find, known
from cumulet.core.images.lifecycle import apply, create_inner, delete_inner, fill, fill_from_disk, view

__all__ = [
    "Image",
    "apply",
    "create_inner",
    "delete_inner",
    "fill",
    "fill_from_disk",
    "find",
    "known",
    "mismatch",
    "view",
]
