"""Every table, one module an area. What is counted (usage, quota) is not stored anywhere here."""

from __future__ import annotations

from cumulet.db.schema import compute, identity, image, ledger, network, placement, volume
from cumulet.db.schema.base import metadata

__all__ = ["compute", "identity", "image", "ledger", "metadata", "network", "placement", "volume"]
