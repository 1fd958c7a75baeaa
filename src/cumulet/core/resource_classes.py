"""Placement's resource classes: standard ones, and those of the operator's own making (CUSTOM_…)."""

from __future__ import annotations

from collections.abc import Collection

from cumulet.db.engine import Row, Tx
from cumulet.errors import Conflict, Invalid, NotFound

VCPU, MEMORY_MB, DISK_GB = "VCPU", "MEMORY_MB", "DISK_GB"

#: In the order in which the services number them.
STANDARD = (
    VCPU, MEMORY_MB, DISK_GB, "PCI_DEVICE", "SRIOV_NET_VF", "NUMA_SOCKET", "NUMA_CORE", "NUMA_THREAD",
    "NUMA_MEMORY_MB", "IPV4_ADDRESS", "VGPU", "VGPU_DISPLAY_HEAD", "NET_BW_EGR_KILOBIT_PER_SEC",
    "NET_BW_IGR_KILOBIT_PER_SEC", "PCPU", "MEM_ENCRYPTION_CONTEXT", "FPGA", "PGPU",
    "NET_PACKET_RATE_KILOPACKET_PER_SEC", "NET_PACKET_RATE_EGR_KILOPACKET_PER_SEC",
    "NET_PACKET_RATE_IGR_KILOPACKET_PER_SEC",
)  # fmt: skip


def listing(tx: Tx) -> list[Row]:
    """Every class: {"name", "created_at"}; the standard ones first, in their order."""
    rows = {row["name"]: row for row in tx.all("select name, created_at from resource_classes order by name")}
    standard = [rows.pop(name) for name in STANDARD if name in rows]
    return [*standard, *rows.values()]


def find(tx: Tx, name: str) -> Row:
    """One class. Raises NotFound."""
    row = tx.one("select name, created_at from resource_classes where name = :name", name=name)
    if row is None:
        raise NotFound(f"No such resource class {name}.")
    return row


def check_known(tx: Tx, names: Collection[str]) -> None:
    """Raise NotFound, naming those that are not there, unless every name is a class's."""
    unknown = [name for name in names if name not in STANDARD]
    if unknown:
        found = tx.values("select name from resource_classes where name in :names", names=tuple(unknown))
        missing = sorted(frozenset(unknown) - frozenset(found))
        if missing:
            raise NotFound(f"No such resource class {', '.join(missing)}.")


def create(tx: Tx, name: str) -> bool:
    """Make a class; False if it is there already."""
    return tx.insert_new("resource_classes", name=name, created_at=tx.now)


def rename(tx: Tx, name: str, to: str) -> None:
    """Give a custom class another name. Raises NotFound, Invalid for a standard class, Conflict."""
    find(tx, name)
    if name in STANDARD:
        raise Invalid(f"Cannot update standard resource class {name}.")
    if not create(tx, to):
        raise Conflict(f"Resource class already exists: {to}")
    # Inventories and allocations name the class; a class in use keeps its name, for others know it by that.
    _check_unused(tx, name)
    tx.run("delete from resource_classes where name = :name", name=name)


def delete(tx: Tx, name: str) -> None:
    """Forget a custom class. Raises NotFound, Invalid for a standard class, Conflict while it is in use."""
    find(tx, name)
    if name in STANDARD:
        raise Invalid(f"Error in delete resource class: {name} is a standard resource class.")
    _check_unused(tx, name)
    tx.run("delete from resource_classes where name = :name", name=name)


def _check_unused(tx: Tx, name: str) -> None:
    provider = tx.value("select provider_id from inventories where resource_class = :name", name=name)
    if provider is not None:
        raise Conflict(f"Resource class {name} is in use in the inventory of resource provider {provider}.")


def seed(tx: Tx) -> None:
    """Make the standard classes."""
    for name in STANDARD:
        create(tx, name)
