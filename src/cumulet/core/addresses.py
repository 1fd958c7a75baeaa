"""Addresses of ports: chosen, checked and written down.

Whoever chooses or takes an address holds the rows of the network's subnets, so two transactions never reach
for the same one; the primary key of ``fixed_ips`` would refuse it anyway. Which address comes next is
decided in core.ipam.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from cumulet.core import ipam
from cumulet.db.engine import Row, Tx
from cumulet.errors import Conflict, Invalid, NotFound

#: Addresses looked at in one statement while a gap is searched for.
_BATCH = 500


def subnets_of(tx: Tx, network_id: str) -> list[Row]:
    """The network's subnets, the oldest first; kept from others until the end of the transaction."""
    return tx.all(
        f"select * from subnets where network_id = :network order by created_at, id{tx.for_update}",
        network=network_id,
    )


def is_automatic(subnet: Row) -> bool:
    """True if addresses on the subnet follow from MAC addresses."""
    return ipam.is_automatic(subnet["ip_version"], subnet["ipv6_address_mode"], subnet["ipv6_ra_mode"])


def pick(
    tx: Tx, network_id: str, mac: str, owner: str, asked: Sequence[dict[str, Any]] | None
) -> list[tuple[Row, str]]:
    """Addresses for a new port: pairs of subnet and address.

    ``asked`` is the request's fixed_ips; None where it had none: then one address of each IP version. The
    addresses that guests give themselves on automatic subnets come on top, whatever was asked for.
    Raises Invalid, NotFound, Conflict as Neutron's IPAM does.
    """
    subnets = _candidates(network_id, subnets_of(tx, network_id), owner)
    automatic = [] if owner in ipam.ROUTER_OWNERS else [s for s in subnets if is_automatic(s)]
    found = (
        _choose_any(tx, network_id, subnets)
        if asked is None
        else _take(tx, network_id, subnets, owner, asked, mac)
    )
    have = {subnet["id"] for subnet, _ in found}
    for subnet in automatic:
        if subnet["id"] not in have:
            found.append((subnet, _free(tx, subnet, ipam.eui64(subnet["cidr"], mac), network_id)))
    return found


def _candidates(network_id: str, subnets: list[Row], owner: str) -> list[Row]:
    """The subnets that are open to this kind of port; those made for it come first.

    See "Subnet service types" in Neutron's API reference.
    """
    found = _open_to(subnets, owner)
    if subnets and not found:
        raise Conflict(
            f"No valid service subnet for the given device owner, network {network_id}, service type {owner}.",
            code="IpAddressGenerationFailureNoMatchingSubnet",
        )
    return found


def _open_to(subnets: Iterable[Row], owner: str) -> list[Row]:
    made_for = [subnet for subnet in subnets if owner and owner in subnet["service_types"]]
    return made_for + [subnet for subnet in subnets if not subnet["service_types"]]


def _choose_any(tx: Tx, network_id: str, subnets: list[Row]) -> list[tuple[Row, str]]:
    found = []
    for version in (4, 6):
        choices = [s for s in subnets if s["ip_version"] == version and not is_automatic(s)]
        if choices:
            found.append(_choose_first(tx, network_id, choices))
    return found


def _choose_first(
    tx: Tx, network_id: str, subnets: list[Row], reserved: Collection[str] = ()
) -> tuple[Row, str]:
    for subnet in subnets:
        address = _choose(tx, subnet, reserved)
        if address is not None:
            return subnet, address
    raise Conflict(
        f"No more IP addresses available on network {network_id}.", code="IpAddressGenerationFailure"
    )


def _choose(tx: Tx, subnet: Row, reserved: Collection[str]) -> str | None:
    """The next free address of the subnet's pools, or None. The caller has locked the subnet.

    ``reserved`` are addresses that the same port gets and that are not written down yet.
    """
    pools = tx.all("select first, last from allocation_pools where subnet_id = :id", id=subnet["id"])
    for low, high in ipam.search_order([(pool["first"], pool["last"]) for pool in pools], subnet["cursor"]):
        rank = _first_free(tx, subnet["id"], low, high, reserved)
        if rank is not None:
            tx.update("subnets", subnet["id"], cursor=rank)
            # The same transaction may need another one.
            subnet["cursor"] = rank
            return ipam.address(rank)
    return None


def _first_free(tx: Tx, subnet_id: str, low: str, high: str, reserved: Collection[str]) -> str | None:
    """The first rank in a range that no port has and no guest out of reach may still have."""
    batch = 1
    while True:
        taken = tx.values(
            "select rank from fixed_ips where subnet_id = :id and rank between :low and :high "
            "order by rank limit :batch",
            id=subnet_id, low=low, high=high, batch=batch,
        )  # fmt: skip
        gap = ipam.first_gap(low, high, taken)
        if gap is None or gap > high:
            return None
        if len(taken) == batch and gap > taken[-1]:
            # All of this batch was one run; the next address may be taken too.
            low, batch = gap, _BATCH
            continue
        address = ipam.address(gap)
        if address not in reserved and not _is_held(tx, subnet_id, address):
            return gap
        if gap == high:
            return None
        low = ipam.behind(gap)


def _is_held(tx: Tx, subnet_id: str, address: str) -> bool:
    return (
        tx.one(
            "select 1 from held_ips where subnet_id = :id and address = :address",
            id=subnet_id,
            address=address,
        )
        is not None
    )


def _free(tx: Tx, subnet: Row, address: str, network_id: str) -> str:
    """The address, if nobody has it. Raises Conflict."""
    taken = tx.one(
        "select 1 from fixed_ips where subnet_id = :id and address = :address",
        id=subnet["id"],
        address=address,
    )
    if taken is not None or _is_held(tx, subnet["id"], address):
        raise Conflict(
            f"Unable to complete operation for network {network_id}. The IP address {address} is in use.",
            code="IpAddressInUse",
        )
    return address


def _take(
    tx: Tx, network_id: str, subnets: list[Row], owner: str, asked: Sequence[dict[str, Any]], mac: str
) -> list[tuple[Row, str]]:
    found: list[tuple[Row, str]] = []
    later: list[tuple[int, Row]] = []
    for position, fixed in enumerate(asked):
        subnet = _subnet_for(tx, network_id, subnets, owner, fixed)
        address = fixed.get("ip_address")
        if address is None:
            # On automatic subnets the address is not chosen but follows, unless it is a router's.
            if owner in ipam.ROUTER_OWNERS or not is_automatic(subnet):
                later.append((position, subnet))
            continue
        if (
            is_automatic(subnet)
            and owner not in ipam.ROUTER_OWNERS
            and address != ipam.eui64(subnet["cidr"], mac)
        ):
            raise Invalid(
                f"IPv6 address {address} cannot be directly assigned to a port on subnet {subnet['id']} as the "
                "subnet is configured for automatic addresses",
                code="AllocationOnAutoAddressSubnet",
            )
        found.append((subnet, _free(tx, subnet, address, network_id)))
    # What was named goes first, so that it is not chosen for another entry.
    for position, subnet in later:
        reserved = [address for _, address in found]
        found.insert(min(position, len(found)), _choose_first(tx, network_id, [subnet], reserved))
    return found


def _subnet_for(tx: Tx, network_id: str, subnets: list[Row], owner: str, fixed: dict[str, Any]) -> Row:
    """The subnet that an entry of fixed_ips means. Raises Invalid, NotFound."""
    if not subnets:
        raise Invalid(
            "Invalid input for operation: IP allocation requires subnets for network.", code="InvalidInput"
        )
    address = fixed.get("ip_address")
    if "subnet_id" in fixed:
        subnet = next((s for s in subnets if s["id"] == fixed["subnet_id"]), None)
        if subnet is None:
            if tx.one("select 1 from subnets where id = :id", id=fixed["subnet_id"]) is None:
                raise NotFound(f"Subnet {fixed['subnet_id']} could not be found.", code="SubnetNotFound")
            raise Invalid(
                f"Invalid input for operation: Failed to create port on network {network_id}, because fixed_ips "
                f"included invalid subnet {fixed['subnet_id']}.",
                code="InvalidInput",
            )
        if address is not None and not ipam.assignable(subnet["cidr"], address, owner):
            raise Invalid(
                f"IP address {address} is not a valid IP for the specified subnet.", code="InvalidIpForSubnet"
            )
        return subnet
    if address is None:
        raise Invalid(
            "Invalid input for operation: IP allocation requires subnet_id or ip_address.",
            code="InvalidInput",
        )
    for subnet in subnets:
        if ipam.assignable(subnet["cidr"], address, owner):
            return subnet
    raise Invalid(
        f"IP address {address} is not a valid IP for any of the subnets on the specified network.",
        code="InvalidIpForNetwork",
    )


def store(tx: Tx, port_id: str, found: Iterable[tuple[Row, str]], position: int = 0) -> None:
    """Write down that the port has the addresses."""
    for subnet, address in found:
        tx.insert(
            "fixed_ips", subnet_id=subnet["id"], address=address, port_id=port_id, rank=ipam.rank(address),
            position=position,
        )  # fmt: skip
        position += 1


def change(tx: Tx, port: Row, mac: str, owner: str, asked: Sequence[dict[str, Any]]) -> None:
    """Give a port the addresses that an update asks for; those that it has and may keep stay.

    An entry without an address keeps one that the port has on that subnet. Addresses on automatic subnets
    stay, and are made anew for a new MAC address.
    """
    network_id = port["network_id"]
    subnets = {subnet["id"]: subnet for subnet in subnets_of(tx, network_id)}
    current: list[tuple[str, str]] = [
        (row["subnet_id"], row["address"])
        for row in tx.all(
            "select subnet_id, address from fixed_ips where port_id = :id order by position", id=port["id"]
        )
    ]
    kept, wanted = _match(current, asked)
    for subnet_id, address in current:
        if (subnet_id, address) in kept or owner in ipam.ROUTER_OWNERS:
            continue
        subnet = subnets[subnet_id]
        if is_automatic(subnet) and address == ipam.eui64(subnet["cidr"], mac):
            kept.append((subnet_id, address))
    # A new MAC address: what followed from the old one goes, and is added anew below.
    kept = [pair for pair in kept if not _is_stale(subnets[pair[0]], pair[1], port["mac_address"], mac)]
    tx.run("delete from fixed_ips where port_id = :id", id=port["id"])
    store(tx, port["id"], [(subnets[subnet_id], address) for subnet_id, address in kept])
    added: list[tuple[Row, str]] = []
    if wanted:
        candidates = _candidates(network_id, list(subnets.values()), owner)
        added = _take(tx, network_id, candidates, owner, wanted, mac)
    if owner not in ipam.ROUTER_OWNERS:
        have = {subnet_id for subnet_id, _ in kept} | {subnet["id"] for subnet, _ in added}
        for subnet in _open_to(subnets.values(), owner):
            if is_automatic(subnet) and subnet["id"] not in have:
                added.append((subnet, _free(tx, subnet, ipam.eui64(subnet["cidr"], mac), network_id)))
    store(tx, port["id"], added, len(kept))


def _is_stale(subnet: Row, address: str, old_mac: str, mac: str) -> bool:
    return old_mac != mac and is_automatic(subnet) and address == ipam.eui64(subnet["cidr"], old_mac)


def _match(
    current: Sequence[tuple[str, str]], asked: Sequence[dict[str, Any]]
) -> tuple[list[tuple[str, str]], list[dict[str, Any]]]:
    """What of the port's addresses is asked for again, and what is asked for anew."""
    rest = list(current)
    kept: list[tuple[str, str]] = []
    wanted: list[dict[str, Any]] = []
    for fixed in asked:
        if "ip_address" in fixed:
            same = next((pair for pair in rest if pair[1] == fixed["ip_address"]), None)
            if same is None:
                wanted.append(fixed)
            else:
                rest.remove(same)
                kept.append(same)
    for fixed in asked:
        if "ip_address" not in fixed:
            same = next((pair for pair in rest if pair[0] == fixed.get("subnet_id")), None)
            if same is None:
                wanted.append(fixed)
            else:
                rest.remove(same)
                kept.append(same)
    return kept, wanted


def add_automatic(tx: Tx, subnet: Row) -> list[str]:
    """Every port of the network gets its address on a new automatic subnet; returns the ports' ids."""
    ports = tx.all(
        "select id, mac_address, device_owner from ports where network_id = :network",
        network=subnet["network_id"],
    )
    ids = []
    for port in ports:
        if port["device_owner"] not in ipam.ROUTER_OWNERS and not subnet["service_types"]:
            position = tx.value("select count(*) from fixed_ips where port_id = :id", id=port["id"])
            store(tx, port["id"], [(subnet, ipam.eui64(subnet["cidr"], port["mac_address"]))], position)
            ids.append(port["id"])
    return ids
