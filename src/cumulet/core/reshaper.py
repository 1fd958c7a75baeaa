"""Moves inventory between providers together with what is taken of it, all or nothing."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from cumulet.core import allocations, inventory, providers
from cumulet.core.allocations import Wanted
from cumulet.core.inventory import Lines
from cumulet.db.engine import Tx
from cumulet.errors import Invalid

NOT_FOUND = "placement.resource_provider.not_found"


class Shape(msgspec.Struct, frozen=True):
    """What a provider shall have, and the generation that it must be at."""

    lines: Lines
    generation: int


def reshape(tx: Tx, shapes: Mapping[str, Shape], wanted: Mapping[str, Wanted]) -> None:
    """Replace inventories and allocations at once.

    Raises Invalid for what is not there, Conflict for what has changed meanwhile or is still taken in the end,
    NoRoom for allocations that do not fit into the new inventories.
    """
    found = providers.lock_all(tx, shapes.keys())
    missing = sorted(shapes.keys() - found.keys())
    if missing:
        raise Invalid(f"Resource provider {', '.join(missing)} in inventories not found", code=NOT_FOUND)
    before = inventory.lines(tx, list(shapes))
    for provider_id, shape in shapes.items():
        # First all that was and all that is to be: nothing that is taken can go, and nothing that is to be
        # taken may lack.
        providers.lock(tx, provider_id, shape.generation)
        if shape.lines:
            inventory.replace(tx, provider_id, {**before.get(provider_id, {}), **shape.lines})
    allocations.replace(tx, wanted)
    for provider_id, shape in shapes.items():
        inventory.replace(tx, provider_id, shape.lines)
