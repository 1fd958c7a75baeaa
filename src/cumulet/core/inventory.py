"""What providers have: totals, what is kept back, ratios and units, one line a resource class."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from cumulet.core import providers, resource_classes
from cumulet.core.providers import CONCURRENT, Provider
from cumulet.db.engine import Tx, chunks
from cumulet.errors import Conflict, Invalid, NotFound

IN_USE = "placement.inventory.inuse"
MAX_INT = 0x7FFFFFFF


class Inventory(msgspec.Struct, frozen=True):
    """One line: how much of a class there is, and how it can be taken."""

    total: int
    reserved: int = 0
    min_unit: int = 1
    max_unit: int = MAX_INT
    step_size: int = 1
    allocation_ratio: float = 1.0
    updated_at: float = 0.0

    @property
    def capacity(self) -> int:
        """How much can be given out."""
        return int((self.total - self.reserved) * self.allocation_ratio)

    def takes(self, amount: int) -> bool:
        """True if one consumer can have that amount, as far as the units go."""
        return self.min_unit <= amount <= self.max_unit and amount % self.step_size == 0


Lines = Mapping[str, Inventory]
_COLUMNS = "total, reserved, min_unit, max_unit, step_size, allocation_ratio, updated_at"


def of(tx: Tx, provider_id: str) -> tuple[Provider, dict[str, Inventory]]:
    """A provider and what it has, by resource class. Raises NotFound."""
    return providers.find(tx, provider_id), lines(tx, [provider_id]).get(provider_id, {})


def lines(tx: Tx, provider_ids: Collection[str] | None = None) -> dict[str, dict[str, Inventory]]:
    """Provider → resource class → what it has; of these providers, or of all."""
    rows = []
    select = f"select provider_id, resource_class, {_COLUMNS} from inventories"
    if provider_ids is None:
        rows = tx.all(select)
    else:
        for some in chunks(provider_ids):
            rows += tx.all(f"{select} where provider_id in :ids", ids=some)
    found: dict[str, dict[str, Inventory]] = {}
    for row in rows:
        line = Inventory(**{key: row[key] for key in Inventory.__struct_fields__})
        found.setdefault(row["provider_id"], {})[row["resource_class"]] = line
    return found


def one(tx: Tx, provider_id: str, resource_class: str) -> tuple[Provider, Inventory]:
    """A provider and its line of one class. Raises NotFound."""
    provider, found = of(tx, provider_id)
    if resource_class not in found:
        raise NotFound(f"No inventory of class {resource_class} for {provider_id}")
    return provider, found[resource_class]


def check(provider_id: str, wanted: Lines, *, full_reserve: bool) -> None:
    """Raise Invalid for a line that leaves nothing; with ``full_reserve`` (since 1.26) for less than nothing."""
    for name, line in wanted.items():
        if line.reserved > line.total or (line.reserved == line.total and not full_reserve):
            raise Invalid(
                f"Invalid inventory for '{name}' on resource provider '{provider_id}': reserved "
                f"({line.reserved}) must be less than {'or equal to ' if full_reserve else ''}total ({line.total})."
            )
        if line.capacity < 0 or (line.capacity == 0 and not full_reserve):
            raise Invalid(
                f"Invalid inventory for '{name}' on resource provider '{provider_id}': "
                f"allocation_ratio ({line.allocation_ratio}) leaves nothing to allocate."
            )


def replace(
    tx: Tx, provider_id: str, wanted: Lines, generation: int | None = None
) -> tuple[Provider, dict[str, Inventory]]:
    """Set all that a provider has. The generation grows.

    Raises NotFound, Invalid for an unknown class, Conflict if the provider is not at ``generation`` or if
    something that is taken would go. A line may become smaller than what is taken from it.
    """
    provider = providers.lock(tx, provider_id, generation)
    _check_classes(tx, wanted)
    had = frozenset(lines(tx, [provider_id]).get(provider_id, {}))
    _drop(tx, provider, had - frozenset(wanted))
    for name, line in wanted.items():
        _put(tx, provider_id, name, line)
    providers.bump(tx, [provider_id])
    return of(tx, provider_id)


def add(tx: Tx, provider_id: str, resource_class: str, line: Inventory) -> tuple[Provider, Inventory]:
    """Give a provider a new line. Raises NotFound, Invalid for an unknown class, Conflict if it has one."""
    providers.lock(tx, provider_id)
    _check_classes(tx, [resource_class])
    if resource_class in lines(tx, [provider_id]).get(provider_id, {}):
        raise Conflict(
            f"Update conflict: resource provider {provider_id} has an inventory of class {resource_class}.",
            code=CONCURRENT,
        )
    _put(tx, provider_id, resource_class, line)
    providers.bump(tx, [provider_id])
    return one(tx, provider_id, resource_class)


def update(
    tx: Tx, provider_id: str, resource_class: str, line: Inventory, generation: int
) -> tuple[Provider, Inventory]:
    """Change a line. Raises NotFound, Conflict if the provider is not at ``generation``, Invalid if it is not there."""
    providers.lock(tx, provider_id, generation)
    _check_classes(tx, [resource_class])
    if resource_class not in lines(tx, [provider_id]).get(provider_id, {}):
        raise Invalid(f"No inventory of class {resource_class} found on resource provider {provider_id}.")
    _put(tx, provider_id, resource_class, line)
    providers.bump(tx, [provider_id])
    return one(tx, provider_id, resource_class)


def delete(tx: Tx, provider_id: str, resource_class: str) -> None:
    """Remove a line. Raises NotFound, Conflict while something of it is taken."""
    provider = providers.lock(tx, provider_id)
    if resource_class not in lines(tx, [provider_id]).get(provider_id, {}):
        raise NotFound(f"No inventory of class {resource_class} found for delete on {provider_id}")
    _drop(tx, provider, [resource_class], code=CONCURRENT)
    providers.bump(tx, [provider_id])


def _check_classes(tx: Tx, names: Collection[str]) -> None:
    try:
        resource_classes.check_known(tx, names)
    except NotFound as error:
        raise Invalid(f"Unknown resource class in inventory: {error.message}") from None


def _drop(tx: Tx, provider: Provider, names: Collection[str], code: str = IN_USE) -> None:
    if not names:
        return
    taken = tx.values(
        "select distinct resource_class from allocations where provider_id = :id and resource_class in :names",
        id=provider.id,
        names=tuple(names),
    )
    if taken:
        raise Conflict(
            f"update conflict: Inventory for '{', '.join(sorted(taken))}' on resource provider "
            f"'{provider.id}' in use.",
            code=code,
        )
    tx.run(
        "delete from inventories where provider_id = :id and resource_class in :names",
        id=provider.id,
        names=tuple(names),
    )


def _put(tx: Tx, provider_id: str, resource_class: str, line: Inventory) -> None:
    row = {**msgspec.structs.asdict(line), "updated_at": tx.now}
    changes = ", ".join(f"{name} = excluded.{name}" for name in row)
    tx.run(
        f"insert into inventories (provider_id, resource_class, {', '.join(row)}) "
        f"values (:provider, :class, {', '.join(':' + name for name in row)}) "
        f"on conflict (provider_id, resource_class) do update set {changes}",
        provider=provider_id,
        **{"class": resource_class},
        **row,
    )
