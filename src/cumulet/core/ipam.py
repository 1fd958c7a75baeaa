"""Addresses and prefixes: what a subnet has, what may be chosen, and which comes next. Pure.

A *rank* is an address as hexadecimal digits of fixed width, 8 for IPv4 and 32 for IPv6. Ranks of one subnet
sort as text the way their numbers do, so an index in the database finds the neighbours of an address.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from cumulet.errors import Conflict, Invalid

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
#: First and last address of a range, as ranks.
Range = tuple[str, str]

ROUTER_INTERFACE = "network:router_interface"
ROUTER_GATEWAY = "network:router_gateway"
FLOATING_IP = "network:floatingip"
#: Owners of the ports of routers.
ROUTER_OWNERS = (ROUTER_INTERFACE, ROUTER_GATEWAY)
#: Modes in which a guest makes its own address from its MAC address.
AUTOMATIC = ("slaac", "dhcpv6-stateless")


@lru_cache(maxsize=4096)
def network(cidr: str) -> Network:
    """A prefix. Raises ValueError."""
    return ipaddress.ip_network(cidr)


def interface(text: str) -> ipaddress.IPv4Interface | ipaddress.IPv6Interface:
    """An address with the length of its prefix. Raises ValueError."""
    return ipaddress.ip_interface(text)


def rank(address: str) -> str:
    """The address's rank."""
    parsed = ipaddress.ip_address(address)
    return f"{int(parsed):0{8 if parsed.version == 4 else 32}x}"


def address(rank: str) -> str:
    """The address of a rank, in its normal form."""
    number = int(rank, 16)
    return str(ipaddress.IPv4Address(number) if len(rank) == 8 else ipaddress.IPv6Address(number))


def behind(rank: str) -> str:
    """The next rank; of the last one, the first."""
    width = len(rank)
    return f"{(int(rank, 16) + 1) % (1 << 4 * width):0{width}x}"


def normal(text: str) -> str:
    """An address in its normal form. Raises ValueError."""
    return str(ipaddress.ip_address(text))


def version(text: str) -> int:
    """4 or 6, of an address or a prefix."""
    return 6 if ":" in text else 4


def within(address: str, cidr: str) -> bool:
    """True if the address is in the prefix."""
    return version(address) == version(cidr) and ipaddress.ip_address(address) in network(cidr)


def overlap(one: str, other: str) -> bool:
    """True if two prefixes have an address in common."""
    return version(one) == version(other) and network(one).overlaps(network(other))


def is_automatic(ip_version: int, address_mode: str | None, ra_mode: str | None) -> bool:
    """True if addresses on the subnet follow from MAC addresses."""
    return ip_version == 6 and (address_mode in AUTOMATIC or ra_mode in AUTOMATIC)


def eui64(cidr: str, mac: str) -> str:
    """The address that a guest with this MAC address gives itself: RFC 4291, appendix A."""
    octets = [int(part, 16) for part in mac.split(":")]
    octets[0] ^= 2
    low = int.from_bytes(bytes([*octets[:3], 0xFF, 0xFE, *octets[3:]]))
    return str(ipaddress.IPv6Address(int(network(cidr).network_address) + low))


def assignable(cidr: str, address: str, owner: str = "") -> bool:
    """True if a port may have the address on the subnet.

    Not the network's own and not the broadcast address, where a prefix has them. In IPv6 the first address
    means "any router", so routers' ports may have it.
    """
    if not within(address, cidr):
        return False
    found, parsed = network(cidr), ipaddress.ip_address(address)
    if found.version == 4:
        if found.prefixlen > 30:
            return True
        return parsed not in (found.network_address, found.broadcast_address)
    return owner in ("", *ROUTER_OWNERS) or found.prefixlen > 126 or parsed != found.network_address


def default_gateway(cidr: str) -> str:
    """The gateway of a subnet for which none was named.

    The first address behind the network's own in IPv4. In IPv6 that one itself, which means "any router"
    (RFC 4291, 2.6.1); both as Neutron has it.
    """
    first = network(cidr).network_address
    return str(first + 1) if first.version == 4 and network(cidr).num_addresses > 1 else str(first)


def _bounds(cidr: str) -> tuple[int, int]:
    """The first and the last number that a port may have."""
    found = network(cidr)
    first, last = int(found.network_address), int(found.broadcast_address)
    if first == last:
        return first, last
    if found.version == 6:
        return first + 1, last
    return (first + 1, last - 1) if found.prefixlen <= 30 else (first, last)


def default_pools(cidr: str, gateway: str | None) -> list[tuple[str, str]]:
    """Everything but the gateway: pairs of first and last address."""
    first, last = _bounds(cidr)
    ranges = [(first, last)]
    if gateway is not None and within(gateway, cidr) and first != last:
        middle = int(ipaddress.ip_address(gateway))
        ranges = [(first, middle - 1), (middle + 1, last)] if first <= middle <= last else ranges
    make = ipaddress.IPv4Address if version(cidr) == 4 else ipaddress.IPv6Address
    return [(str(make(low)), str(make(high))) for low, high in ranges if low <= high]


def check_pools(pools: Sequence[tuple[str, str]], cidr: str) -> None:
    """Raise Invalid for a pool that is none or leaves the subnet, Conflict for two that overlap."""
    first, last = _bounds(cidr)
    seen: list[tuple[int, int, str]] = []
    for low, high in pools:
        shown = f"{low}-{high}"
        if version(low) != version(cidr) or version(high) != version(cidr):
            raise Invalid(f"The allocation pool {shown} is not valid.", code="InvalidAllocationPool")
        begin, end = int(ipaddress.ip_address(low)), int(ipaddress.ip_address(high))
        if begin > end:
            raise Invalid(f"The allocation pool {shown} is not valid.", code="InvalidAllocationPool")
        if begin < first or end > last:
            raise Invalid(
                f"The allocation pool {shown} spans beyond the subnet cidr {cidr}.",
                code="OutOfBoundsAllocationPool",
            )
        for other_begin, other_end, other in seen:
            if begin <= other_end and other_begin <= end:
                raise Conflict(
                    f"Found overlapping allocation pools: {other} {shown} for subnet {cidr}.",
                    code="OverlappingAllocationPools",
                )
        seen.append((begin, end, shown))


def check_gateway(gateway: str, pools: Iterable[tuple[str, str]]) -> None:
    """Raise Conflict if the gateway's address could be chosen for a port."""
    at = rank(gateway)
    for low, high in pools:
        if version(low) == version(gateway) and rank(low) <= at <= rank(high):
            raise Conflict(
                f"Gateway ip {gateway} conflicts with allocation pool {low}-{high}.",
                code="GatewayConflictWithAllocationPools",
            )


def search_order(pools: Iterable[tuple[str, str]], cursor: str) -> Iterator[Range]:
    """The ranges in which to look for a free address: from behind the cursor to the end, then from the start.

    So addresses are given out one after the other, and one that was freed rests until the pools were gone
    through once.
    """
    ranges = sorted((rank(low), rank(high)) for low, high in pools)
    for low, high in ranges:
        if high > cursor:
            yield max(low, behind(cursor)) if cursor else low, high
    for low, high in ranges:
        if cursor and low <= cursor:
            yield low, min(high, cursor)


def first_gap(low: str, high: str, taken: Sequence[str]) -> str | None:
    """The first rank from ``low`` to ``high`` that is not among ``taken``, which begins at ``low``, sorted.

    None if all that ``taken`` tells of is taken.
    """
    for found in taken:
        if found != low:
            break
        if low == high:
            return None
        low = behind(low)
    return low


def split(prefixes: Iterable[str], allocated: Iterable[str], length: int) -> str | None:
    """A free prefix of ``length`` from a pool of prefixes: from the smallest free block that is large enough."""
    free = [network(prefix) for prefix in without(prefixes, allocated)]
    fitting = sorted(
        (block for block in free if block.prefixlen <= length),
        key=lambda block: (-block.prefixlen, int(block.network_address)),
    )
    return next((str(next(block.subnets(new_prefix=length))) for block in fitting), None)


def fits(cidr: str, prefixes: Iterable[str], allocated: Iterable[str]) -> bool:
    """True if the prefix lies in one of a pool's prefixes and nothing of it was given out."""
    length = network(cidr).prefixlen
    return any(
        overlap(cidr, prefix) and network(prefix).prefixlen <= length for prefix in prefixes
    ) and not any(overlap(cidr, other) for other in allocated)


def compact(prefixes: Iterable[str]) -> list[str]:
    """Prefixes of one version without host bits, sorted; those that adjoin or overlap made one."""
    nets = [interface(prefix).network for prefix in prefixes]
    return [str(net) for net in ipaddress.collapse_addresses(nets)]  # type: ignore[type-var]


def without(prefixes: Iterable[str], removed: Iterable[str]) -> list[str]:
    """What is left of prefixes after others were cut out of them."""
    rest: list[Network] = [network(prefix) for prefix in prefixes]
    for text in removed:
        gone = network(text)
        cut: list[Network] = []
        for block in rest:
            if not block.overlaps(gone):
                cut.append(block)
            elif gone.prefixlen > block.prefixlen:
                cut.extend(block.address_exclude(gone))  # type: ignore[arg-type]
        rest = cut
    return compact(map(str, rest))
