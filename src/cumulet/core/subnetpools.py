"""Subnet pools: prefixes from which subnets are cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cumulet.core import ipam, network_quotas
from cumulet.core.network_resources import (
    STANDARD,
    Column,
    Item,
    Listing,
    Noun,
    bump,
    drop_tags,
    owner_of,
    row_of,
    set_tags,
    stamps,
    with_tags,
)
from cumulet.core.network_resources import page as page_of
from cumulet.core.rights import Rights
from cumulet.db.engine import Row, Tx
from cumulet.db.query import Where
from cumulet.errors import Conflict, Invalid

NOUN = Noun(
    one="subnetpool",
    many="subnetpools",
    title="Subnet pool",
    source="subnetpools n",
    columns={
        **STANDARD,
        "ip_version": Column("n.ip_version", "number"),
        "default_prefixlen": Column("n.default_prefixlen", "number"),
        "min_prefixlen": Column("n.min_prefixlen", "number"),
        "max_prefixlen": Column("n.max_prefixlen", "number"),
        "default_quota": Column("coalesce(n.default_quota, -1)", "number"),
        "is_default": Column("n.is_default", "flag"),
        "shared": Column("n.shared", "flag"),
    },
)

_POLICED = frozenset({"shared", "is_default", "tags"})
#: Default of min_prefixlen, and the longest prefix there is.
_SHORTEST = {4: 8, 6: 64}
_LONGEST = {4: 32, 6: 128}


def _visible(where: Where, rights: Rights) -> None:
    reach = rights.reach("get_subnetpool")
    if reach == "own":
        where.add("n.project_id = :caller_project or n.shared", caller_project=rights.project)
    elif reach == "none":
        where.add("n.shared")


def page(tx: Tx, rights: Rights, listing: Listing) -> list[Row]:
    """A page of the pools that the caller sees."""
    where = Where()
    _visible(where, rights)
    rows = page_of(tx, NOUN, where, listing)
    with_tags(tx, NOUN.many, rows)
    return rows


def find(tx: Tx, rights: Rights, id: str) -> Row:
    """The pool's row. Raises NotFound."""
    where = Where()
    _visible(where, rights)
    return row_of(tx, NOUN, where, id)


def show(tx: Tx, rights: Rights, id: str) -> Row:
    """The pool with its tags. Raises NotFound."""
    row = find(tx, rights, id)
    with_tags(tx, NOUN.many, [row])
    return row


def default_of(tx: Tx, version: int) -> Row | None:
    """The default pool of an IP version."""
    return tx.one("select * from subnetpools where is_default and ip_version = :version", version=version)


def create(tx: Tx, rights: Rights, item: Item) -> Row:
    """Make a pool. Raises Forbidden, OverQuota, Invalid."""
    project_id = owner_of(rights, item)
    rights.demand("create_subnetpool", {"project_id": project_id})
    rights.demand_each("create_subnetpool", item.given & _POLICED, {"project_id": project_id})
    network_quotas.check(tx, project_id, "subnetpool")
    id = insert(tx, project_id, item)
    if item.get("tags"):
        set_tags(tx, NOUN.many, id, item["tags"])
    return show(tx, rights, id)


def insert(tx: Tx, project_id: str, item: Item) -> str:
    """Make a pool, without asking who may; returns its id. Raises Invalid."""
    prefixes = _prefixes(item["prefixes"])
    version = ipam.version(prefixes[0])
    if item.get("is_default"):
        _only_default(tx, version, "")
    id = tx.uuid()
    tx.insert(
        "subnetpools", id=id, project_id=project_id, prefixes=prefixes, ip_version=version,
        **_lengths(version, item.values, {}),
        **item.columns("name", "description", "default_quota", "shared", "is_default"), **stamps(tx),
    )  # fmt: skip
    return id


def _prefixes(asked: Sequence[str]) -> list[str]:
    """The pool's prefixes, without host bits, those that adjoin made one. Raises Invalid."""
    if not asked:
        raise Invalid("Empty subnet pool prefix list.", code="EmptySubnetPoolPrefixList")
    if len({ipam.version(prefix) for prefix in asked}) > 1:
        raise Invalid("Cannot mix IPv4 and IPv6 prefixes in a subnet pool.", code="PrefixVersionMismatch")
    return ipam.compact(asked)


def _lengths(version: int, values: Mapping[str, Any], current: Mapping[str, Any]) -> dict[str, int]:
    """The lengths of prefix that may be cut from the pool. Raises Invalid."""

    def length(name: str, default: int) -> int:
        found = values.get(name, current.get(name))
        return default if found is None else int(found)

    shortest = length("min_prefixlen", _SHORTEST[version])
    longest = length("max_prefixlen", _LONGEST[version])
    default = length("default_prefixlen", shortest)
    for low, low_name, high, high_name in (
        (shortest, "min_prefixlen", longest, "max_prefixlen"),
        (longest, "max_prefixlen", _LONGEST[version], "ip_version_max"),
        (shortest, "min_prefixlen", default, "default_prefixlen"),
        (default, "default_prefixlen", longest, "max_prefixlen"),
    ):
        if low > high:
            raise Invalid(
                f"Illegal prefix bounds: {low_name}={low}, {high_name}={high}.",
                code="IllegalSubnetPoolPrefixBounds",
            )
    return {"min_prefixlen": shortest, "max_prefixlen": longest, "default_prefixlen": default}


def _only_default(tx: Tx, version: int, id: str) -> None:
    other = default_of(tx, version)
    if other is not None and other["id"] != id:
        raise Invalid(
            "Invalid input for operation: A default subnetpool for this IP family has already been set. "
            "Only one default may exist per IP family.",
            code="InvalidInput",
        )


def update(tx: Tx, rights: Rights, id: str, item: Item) -> Row:
    """Change a pool; prefixes can only be added. Raises NotFound, Forbidden, Invalid."""
    tx.lock("subnetpools", id)
    row = find(tx, rights, id)
    rights.demand("update_subnetpool", {"project_id": row["project_id"]})
    rights.demand_each("update_subnetpool", item.given & _POLICED, {"project_id": row["project_id"]})
    changes = item.columns("name", "description", "default_quota", "is_default")
    if item.get("is_default"):
        _only_default(tx, row["ip_version"], id)
    if "prefixes" in item:
        changes["prefixes"] = _grown(row, item["prefixes"])
    changes |= _lengths(row["ip_version"], item.values, row)
    if item.values:
        bump(tx, "subnetpools", id, **changes)
    return show(tx, rights, id)


def _grown(row: Row, asked: Sequence[str]) -> list[str]:
    prefixes = _prefixes(asked)
    if ipam.version(prefixes[0]) != row["ip_version"]:
        raise Invalid("Cannot mix IPv4 and IPv6 prefixes in a subnet pool.", code="PrefixVersionMismatch")
    if not all(ipam.fits(old, prefixes, ()) for old in row["prefixes"]):
        raise Invalid(
            "Illegal update to prefixes: Existing prefixes must be a subset of the new prefixes.",
            code="IllegalSubnetPoolPrefixUpdate",
        )
    return prefixes


def add_prefixes(tx: Tx, rights: Rights, id: str, asked: Sequence[str]) -> list[str]:
    """Make a pool larger; returns its prefixes. Raises NotFound, Forbidden, Invalid."""
    tx.lock("subnetpools", id)
    row = find(tx, rights, id)
    rights.demand("add_prefixes", {"project_id": row["project_id"]})
    prefixes = _grown(row, [*row["prefixes"], *asked])
    bump(tx, "subnetpools", id, prefixes=prefixes)
    return prefixes


def remove_prefixes(tx: Tx, rights: Rights, id: str, asked: Sequence[str]) -> list[str]:
    """Make a pool smaller; returns its prefixes. Raises NotFound, Forbidden, Invalid while subnets are there."""
    tx.lock("subnetpools", id)
    row = find(tx, rights, id)
    rights.demand("remove_prefixes", {"project_id": row["project_id"]})
    removed = _prefixes(asked)
    prefixes = ipam.without(row["prefixes"], removed)
    if any(ipam.overlap(cidr, prefix) for cidr in _allocated(tx, id) for prefix in removed):
        raise Invalid(
            "Illegal update to prefixes: A prefix cannot be removed while subnets have addresses from it.",
            code="IllegalSubnetPoolPrefixUpdate",
        )
    if not prefixes:
        raise Invalid("Empty subnet pool prefix list.", code="EmptySubnetPoolPrefixList")
    bump(tx, "subnetpools", id, prefixes=prefixes)
    return prefixes


def delete(tx: Tx, rights: Rights, id: str) -> None:
    """Remove a pool. Raises NotFound, Forbidden, Invalid while subnets are from it."""
    row = find(tx, rights, id)
    rights.demand("delete_subnetpool", {"project_id": row["project_id"]})
    if tx.one("select 1 from subnets where subnetpool_id = :id", id=id) is not None:
        raise Invalid(
            "Unable to delete subnet pool: Subnet pool has existing allocations.",
            code="SubnetPoolDeleteError",
        )
    tx.delete("subnetpools", id)
    drop_tags(tx, NOUN.many, id)


def _allocated(tx: Tx, id: str) -> list[str]:
    return tx.values("select cidr from subnets where subnetpool_id = :id", id=id)


def allocate(tx: Tx, pool: Row, project_id: str, cidr: str | None, length: int | None) -> str:
    """A prefix for a new subnet: the one asked for, or a free one of a length. Raises Invalid, Conflict.

    The pool is kept from others until the end of the transaction.
    """
    tx.lock("subnetpools", pool["id"])
    if cidr is not None:
        length = ipam.network(cidr).prefixlen
    elif length is None:
        length = pool["default_prefixlen"]
    if length > pool["max_prefixlen"]:
        raise Invalid(
            f"Unable to allocate subnet with prefix length {length}, maximum allowed prefix is "
            f"{pool['max_prefixlen']}.",
            code="MaxPrefixSubnetAllocationError",
        )
    if length < pool["min_prefixlen"]:
        raise Invalid(
            f"Unable to allocate subnet with prefix length {length}, minimum allowed prefix is "
            f"{pool['min_prefixlen']}.",
            code="MinPrefixSubnetAllocationError",
        )
    _check_quota(tx, pool, project_id, length)
    allocated = _allocated(tx, pool["id"])
    if cidr is not None:
        if not ipam.fits(cidr, pool["prefixes"], allocated):
            raise _failed("Cannot allocate requested subnet from the available set of prefixes")
        return cidr
    found = ipam.split(pool["prefixes"], allocated, length)
    if found is None:
        raise _failed(f"Insufficient prefix space to allocate subnet size /{length}")
    return found


def _failed(reason: str) -> Conflict:
    return Conflict(f"Failed to allocate subnet: {reason}.", code="SubnetAllocationError")


def _check_quota(tx: Tx, pool: Row, project_id: str, length: int) -> None:
    """The pool's own limit on what a project has from it, in addresses (IPv4) or /64s (IPv6)."""
    if not pool["default_quota"]:
        return
    unit = 32 if pool["ip_version"] == 4 else 64
    used = sum(
        2.0 ** (unit - ipam.network(cidr).prefixlen)
        for cidr in tx.values(
            "select cidr from subnets where subnetpool_id = :id and project_id = :project",
            id=pool["id"],
            project=project_id,
        )
    )
    if used + 2.0 ** (unit - length) > pool["default_quota"]:
        raise Conflict("Per-project subnet pool prefix quota exceeded.", code="SubnetPoolQuotaExceeded")
