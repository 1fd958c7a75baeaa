"""Addresses and prefixes, without a database."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cumulet.core import ipam
from cumulet.errors import Conflict, Invalid


@given(st.lists(st.ip_addresses(v=4), min_size=2) | st.lists(st.ip_addresses(v=6), min_size=2))
def test_ranks_sort_as_the_addresses_do(found: list[ipaddress.IPv4Address]) -> None:
    ranks = sorted(ipam.rank(str(address)) for address in found)
    assert [ipam.address(rank) for rank in ranks] == [str(address) for address in sorted(found)]


def test_the_next_rank() -> None:
    assert ipam.address(ipam.behind(ipam.rank("10.0.0.255"))) == "10.0.1.0"
    assert ipam.address(ipam.behind(ipam.rank("::ffff"))) == "::1:0"


@pytest.mark.parametrize(
    ("cidr", "gateway", "pools"),
    [
        ("10.0.0.0/24", "10.0.0.1", [("10.0.0.2", "10.0.0.254")]),
        ("10.0.0.0/24", "10.0.0.9", [("10.0.0.1", "10.0.0.8"), ("10.0.0.10", "10.0.0.254")]),
        ("10.0.0.0/24", None, [("10.0.0.1", "10.0.0.254")]),
        ("10.0.0.0/24", "192.168.0.1", [("10.0.0.1", "10.0.0.254")]),
        ("10.0.0.0/31", None, [("10.0.0.0", "10.0.0.1")]),
        ("10.0.0.7/32", "10.0.0.7", [("10.0.0.7", "10.0.0.7")]),
        ("fd00::/64", "fd00::", [("fd00::1", "fd00::ffff:ffff:ffff:ffff")]),
        ("fd00::/64", "fd00::1", [("fd00::2", "fd00::ffff:ffff:ffff:ffff")]),
    ],
)
def test_pools_are_everything_but_the_gateway(
    cidr: str, gateway: str | None, pools: list[tuple[str, str]]
) -> None:
    assert ipam.default_pools(cidr, gateway) == pools


def test_gateways() -> None:
    assert ipam.default_gateway("10.0.0.0/24") == "10.0.0.1"
    assert ipam.default_gateway("fd00::/64") == "fd00::"


@pytest.mark.parametrize(
    ("pools", "error", "code"),
    [
        ([("10.0.0.9", "10.0.0.5")], Invalid, "InvalidAllocationPool"),
        ([("10.0.0.9", "fd00::1")], Invalid, "InvalidAllocationPool"),
        ([("10.0.0.0", "10.0.0.5")], Invalid, "OutOfBoundsAllocationPool"),
        ([("10.0.0.5", "10.0.1.5")], Invalid, "OutOfBoundsAllocationPool"),
        ([("10.0.0.5", "10.0.0.9"), ("10.0.0.9", "10.0.0.12")], Conflict, "OverlappingAllocationPools"),
    ],
)
def test_pools_that_are_none(pools: list[tuple[str, str]], error: type[Exception], code: str) -> None:
    with pytest.raises(error) as raised:
        ipam.check_pools(pools, "10.0.0.0/24")
    assert raised.value.code == code  # type: ignore[attr-defined]


def test_the_address_that_follows_from_a_mac_address() -> None:
    # The example of RFC 4291, appendix A, in Neutron's prefix.
    assert ipam.eui64("2001:db8::/64", "34:56:78:9a:bc:de") == "2001:db8::3656:78ff:fe9a:bcde"


@pytest.mark.parametrize(
    ("cidr", "address", "owner", "fine"),
    [
        ("10.0.0.0/24", "10.0.0.0", "", False),
        ("10.0.0.0/24", "10.0.0.255", "", False),
        ("10.0.0.0/24", "10.0.0.1", "", True),
        ("10.0.0.0/24", "10.0.1.1", "", False),
        ("10.0.0.0/24", "fd00::1", "", False),
        ("10.0.0.0/31", "10.0.0.0", "", True),
        ("fd00::/64", "fd00::", "compute:nova", False),
        ("fd00::/64", "fd00::", "network:router_interface", True),
        ("fd00::/64", "fd00::ffff:ffff:ffff:ffff", "compute:nova", True),
    ],
)
def test_which_addresses_a_port_may_have(cidr: str, address: str, owner: str, fine: bool) -> None:
    assert ipam.assignable(cidr, address, owner) is fine


def test_the_search_goes_round_once() -> None:
    pools = [("10.0.0.2", "10.0.0.4"), ("10.0.0.8", "10.0.0.9")]

    def order(cursor: str) -> list[tuple[str, str]]:
        rank = ipam.rank(cursor) if cursor else ""
        return [(ipam.address(low), ipam.address(high)) for low, high in ipam.search_order(pools, rank)]

    assert order("") == pools
    assert order("10.0.0.3") == [("10.0.0.4", "10.0.0.4"), ("10.0.0.8", "10.0.0.9"), ("10.0.0.2", "10.0.0.3")]
    assert order("10.0.0.9") == pools
    assert order("10.0.0.6") == [("10.0.0.8", "10.0.0.9"), ("10.0.0.2", "10.0.0.4")]


@given(st.sets(st.integers(0, 15)), st.integers(0, 15), st.integers(0, 15))
def test_the_first_gap(taken: set[int], low: int, high: int) -> None:
    low, high = min(low, high), max(low, high)

    def rank(number: int) -> str:
        return f"{number:08x}"

    inside = sorted(rank(number) for number in taken if low <= number <= high)
    free = [number for number in range(low, high + 1) if number not in taken]
    assert ipam.first_gap(rank(low), rank(high), inside) == (rank(free[0]) if free else None)


def test_prefixes_are_cut_from_the_smallest_block_that_is_large_enough() -> None:
    pool = ["10.0.0.0/16", "10.2.0.0/24"]
    assert ipam.split(pool, [], 26) == "10.2.0.0/26"
    assert ipam.split(pool, ["10.2.0.0/26"], 26) == "10.2.0.64/26"
    assert ipam.split(pool, [], 20) == "10.0.0.0/20"
    assert ipam.split(pool, ["10.0.0.0/17"], 17) == "10.0.128.0/17"
    assert ipam.split(pool, [], 15) is None
    assert ipam.split(["fd00::/48"], ["fd00::/64"], 64) == "fd00:0:0:1::/64"


def test_prefixes_in_a_pool() -> None:
    assert ipam.fits("10.0.1.0/24", ["10.0.0.0/16"], ["10.0.2.0/24"])
    assert not ipam.fits("10.0.1.0/24", ["10.0.0.0/16"], ["10.0.1.128/25"])
    assert not ipam.fits("10.0.0.0/8", ["10.0.0.0/16"], [])
    assert ipam.compact(["10.0.1.0/24", "10.0.0.0/24"]) == ["10.0.0.0/23"]
    assert ipam.without(["10.0.0.0/23"], ["10.0.0.0/24"]) == ["10.0.1.0/24"]
