"""Subnets: prefixes, gateways, pools, IPv6 modes."""

from __future__ import annotations

from typing import Any

import pytest
from tests.network import BASE, bare_cloud, ids, make, net, problem

from cumulet.db.engine import Database

pytestmark = pytest.mark.anyio
SUBNETS = f"{BASE}/subnets"


async def test_a_subnet_has_what_neutron_gives_it(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        network = await make(cloud, "network")
        made = await make(cloud, "subnet", network_id=network["id"], ip_version=4, cidr="10.1.0.7/24")
        assert made["cidr"] == "10.1.0.0/24"
        assert made["gateway_ip"] == "10.1.0.1"
        assert made["allocation_pools"] == [{"start": "10.1.0.2", "end": "10.1.0.254"}]
        assert made["enable_dhcp"] is True
        assert (made["dns_nameservers"], made["host_routes"], made["ipv6_ra_mode"]) == ([], [], None)
        assert (await cloud.get(f"{SUBNETS}/{made['id']}")).json()["subnet"] == made
        shown = (await cloud.get(f"{BASE}/networks/{network['id']}")).json()["network"]
        assert shown["subnets"] == [made["id"]]


async def test_what_a_request_chooses_is_kept(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        network = await make(cloud, "network")
        asked: dict[str, Any] = {
            "name": "s", "cidr": "2001:db8::/64", "ip_version": 6, "gateway_ip": "2001:DB8:0::5",
            "allocation_pools": [{"start": "2001:db8::10", "end": "2001:db8::20"}],
            "dns_nameservers": ["2001:4860:4860::8844", "2001:4860:4860::8888"],
            "host_routes": [{"destination": "2002::/64", "nexthop": "2001:db8::9"}], "enable_dhcp": False,
        }  # fmt: skip
        made = await make(cloud, "subnet", network_id=network["id"], **asked)
        assert {name: made[name] for name in asked} == {**asked, "gateway_ip": "2001:db8::5"}
        none = await make(
            cloud, "subnet", network_id=network["id"], ip_version=4, cidr="10.0.0.0/24", gateway_ip=None
        )
        assert none["gateway_ip"] is None
        assert none["allocation_pools"] == [{"start": "10.0.0.1", "end": "10.0.0.254"}]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"cidr": "10.1.0.0/24", "ip_version": 6}, "does not match the ip_version '6'"),
        ({"cidr": "10.1.0.0/33"}, "not in a CIDR format"),
        ({"cidr": "10.1.0.0"}, "is not a valid IP subnet"),
        ({"cidr": "0.0.0.0/0"}, "0 is not allowed as CIDR prefix length"),
        ({"cidr": "224.0.0.0/24"}, "Multicast IP subnet is not supported"),
        ({"cidr": "10.1.0.0/31"}, "incompatible with DHCP service enabled"),
        ({"cidr": "10.1.0.0/24", "gateway_ip": "10.1.0.255"}, "Gateway is not valid on subnet"),
        ({"cidr": "10.1.0.0/24", "gateway_ip": "fd00::1"}, "does not match the ip_version '4'"),
        ({"cidr": "10.1.0.0/24", "gateway_ip": "x"}, "'x' is not a valid IP address"),
        ({"cidr": "10.1.0.0/24", "ipv6_ra_mode": "slaac"}, "ipv6_ra_mode is not valid when ip_version is 4"),
        ({"cidr": "10.1.0.0/24", "dns_nameservers": ["x"]}, "is not a valid nameserver"),
        ({"cidr": "10.1.0.0/24", "dns_nameservers": [f"8.8.8.{i}" for i in range(6)]}, "exceeds the limit 5"),
        (
            {"cidr": "10.1.0.0/24", "host_routes": [{"destination": "x"}]},
            "Validation of dictionary's keys failed",
        ),
        (
            {"cidr": "10.1.0.0/24", "allocation_pools": [{"start": "10.2.0.1", "end": "10.2.0.2"}]},
            "spans beyond",
        ),
        ({"cidr": "10.1.0.0/24", "prefixlen": 24}, "cidr and prefixlen must not be supplied together"),
        ({}, "a subnetpool must be specified in the absence of a cidr"),
    ],
)
async def test_what_cannot_be_a_subnet(db: Database, body: dict[str, Any], message: str) -> None:
    async with bare_cloud(db) as cloud:
        network = await make(cloud, "network")
        subnet = {"network_id": network["id"], "ip_version": 4, **body}
        response = await cloud.post(SUBNETS, json={"subnet": subnet})
        assert response.status_code == 400, response.text
        assert message in response.json()["NeutronError"]["message"]


@pytest.mark.parametrize(
    ("ra", "mode"),
    [("slaac", "dhcpv6-stateful"), ("dhcpv6-stateless", "slaac"), ("dhcpv6-stateful", "slaac")],
)
async def test_modes_that_do_not_go_together(db: Database, ra: str, mode: str) -> None:
    async with bare_cloud(db) as cloud:
        network = await make(cloud, "network")
        body = {"network_id": network["id"], "ip_version": 6, "cidr": "fd00::/64"}
        both = {**body, "ipv6_ra_mode": ra, "ipv6_address_mode": mode}
        assert problem(await cloud.post(SUBNETS, json={"subnet": both})) == (400, "InvalidInput")
        no_dhcp = {**body, "ipv6_ra_mode": ra, "enable_dhcp": False}
        assert problem(await cloud.post(SUBNETS, json={"subnet": no_dhcp})) == (400, "InvalidInput")


async def test_subnets_of_a_network_do_not_overlap(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        network_id, _ = await net(cloud)
        body = {"network_id": network_id, "ip_version": 4, "cidr": "10.1.0.128/25"}
        response = await cloud.post(SUBNETS, json={"subnet": body})
        assert response.status_code == 400
        assert "overlaps with another subnet" in response.text
        await net(cloud)


async def test_networks_of_others(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        network_id, subnet_id = await net(cloud)
        body = {"network_id": network_id, "ip_version": 4, "cidr": "10.2.0.0/24"}
        assert (await cloud.post(SUBNETS, as_="other", json={"subnet": body})).status_code == 404
        assert (await cloud.get(f"{SUBNETS}/{subnet_id}", as_="other")).status_code == 404
        assert await ids(cloud, "subnets", "other") == []
        shared = await make(cloud, "network", "admin", shared=True)
        body["network_id"] = shared["id"]
        assert (await cloud.post(SUBNETS, json={"subnet": body})).status_code == 403
        external = await make(cloud, "network", "admin", **{"router:external": True})
        body["network_id"] = external["id"]
        made = await make(cloud, "subnet", "admin", **body)
        seen = (await cloud.get(f"{SUBNETS}/{made['id']}")).json()["subnet"]
        assert seen["router:external"] is True


async def test_the_gateway_and_the_pools_exclude_each_other(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        network_id, subnet_id = await net(cloud)
        path = f"{SUBNETS}/{subnet_id}"
        refused = await cloud.put(path, json={"subnet": {"gateway_ip": "10.1.0.9"}})
        assert problem(refused) == (409, "GatewayConflictWithAllocationPools")
        pools = [{"start": "10.1.0.20", "end": "10.1.0.30"}]
        both = {"gateway_ip": "10.1.0.9", "allocation_pools": pools}
        changed = (await cloud.put(path, json={"subnet": both})).json()["subnet"]
        assert (changed["gateway_ip"], changed["allocation_pools"]) == ("10.1.0.9", pools)
        port = await make(cloud, "port", network_id=network_id)
        assert port["fixed_ips"][0]["ip_address"] == "10.1.0.20"


async def test_a_change_of_what_dhcp_tells(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        _, subnet_id = await net(cloud)
        asked = {
            "name": "x", "dns_nameservers": ["7.8.8.8"], "enable_dhcp": False,
            "host_routes": [{"destination": "10.20.0.0/32", "nexthop": "10.100.1.2"}],
        }  # fmt: skip
        changed = (await cloud.put(f"{SUBNETS}/{subnet_id}", json={"subnet": asked})).json()["subnet"]
        assert {name: changed[name] for name in asked} == asked
        assert changed["revision_number"] == 2
        read_only = await cloud.put(f"{SUBNETS}/{subnet_id}", json={"subnet": {"cidr": "10.9.0.0/24"}})
        assert "Cannot update read-only attribute cidr" in read_only.text


async def test_a_subnet_with_ports_stays_and_says_which(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        network_id, subnet_id = await net(cloud)
        port = await make(cloud, "port", network_id=network_id)
        refused = await cloud.delete(f"{SUBNETS}/{subnet_id}")
        assert problem(refused) == (409, "SubnetInUse")
        assert port["id"] in refused.text
        await cloud.delete(f"{BASE}/ports/{port['id']}")
        assert (await cloud.delete(f"{SUBNETS}/{subnet_id}")).status_code == 204


@pytest.mark.parametrize("mode", ["slaac", "dhcpv6-stateless"])
async def test_an_automatic_subnet_goes_with_its_addresses(db: Database, mode: str) -> None:
    async with bare_cloud(db) as cloud:
        network_id, subnet_id = await net(
            cloud, "fd00::/64", ip_version=6, ipv6_ra_mode=mode, ipv6_address_mode=mode
        )
        port = await make(cloud, "port", network_id=network_id)
        assert (await cloud.delete(f"{SUBNETS}/{subnet_id}")).status_code == 204
        shown = (await cloud.get(f"{BASE}/ports/{port['id']}")).json()["port"]
        assert shown["fixed_ips"] == []
        assert problem(await cloud.delete(f"{BASE}/networks/{network_id}")) == (409, "NetworkInUse")


async def test_prefixes_from_a_pool(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        pool = await make(
            cloud, "subnetpool", name="p", prefixes=["10.8.0.0/23"], default_prefixlen=24, min_prefixlen=20
        )
        assert (pool["ip_version"], pool["default_prefixlen"], pool["max_prefixlen"]) == (4, "24", "32")
        first, second = await make(cloud, "network"), await make(cloud, "network")
        a = await make(cloud, "subnet", network_id=first["id"], ip_version=4, subnetpool_id=pool["id"])
        b = await make(
            cloud, "subnet", network_id=second["id"], ip_version=4, subnetpool_id=pool["id"], prefixlen=25
        )
        assert (a["cidr"], b["cidr"]) == ("10.8.0.0/24", "10.8.1.0/25")
        assert a["subnetpool_id"] == pool["id"]
        body = {"network_id": second["id"], "ip_version": 4, "subnetpool_id": pool["id"]}
        full = await cloud.post(SUBNETS, json={"subnet": body})
        assert problem(full) == (409, "SubnetAllocationError")
        taken = await cloud.post(SUBNETS, json={"subnet": {**body, "cidr": "10.8.0.0/26"}})
        assert problem(taken) == (409, "SubnetAllocationError")
        not_from_it = {"network_id": first["id"], "ip_version": 4, "cidr": "10.9.0.0/24"}
        mixed = await cloud.post(SUBNETS, json={"subnet": not_from_it})
        assert problem(mixed) == (400, "NetworkSubnetPoolAffinityError")
        path = f"{BASE}/subnetpools/{pool['id']}"
        assert problem(await cloud.delete(path)) == (400, "SubnetPoolDeleteError")
        grown = await cloud.put(f"{path}/add_prefixes", json={"prefixes": ["10.8.2.0/24"]})
        assert grown.json() == {"prefixes": ["10.8.0.0/23", "10.8.2.0/24"]}
        in_use = await cloud.put(f"{path}/remove_prefixes", json={"prefixes": ["10.8.0.0/24"]})
        assert problem(in_use) == (400, "IllegalSubnetPoolPrefixUpdate")
        for network in (first, second):
            await cloud.delete(f"{BASE}/networks/{network['id']}")
        assert (await cloud.delete(path)).status_code == 204


@pytest.mark.parametrize(
    ("body", "type_"),
    [
        ({"name": "", "prefixes": ["10.0.0.0/8"]}, "HTTPBadRequest"),
        ({"name": "p", "prefixes": []}, "EmptySubnetPoolPrefixList"),
        ({"name": "p", "prefixes": ["10.0.0.0/8", "fd00::/48"]}, "PrefixVersionMismatch"),
        ({"name": "p", "prefixes": ["10.0.0.0/8"], "min_prefixlen": 33}, "IllegalSubnetPoolPrefixBounds"),
        ({"name": "p", "prefixes": ["x"]}, "HTTPBadRequest"),
    ],
)
async def test_what_cannot_be_a_pool(db: Database, body: dict[str, Any], type_: str) -> None:
    async with bare_cloud(db) as cloud:
        response = await cloud.post(f"{BASE}/subnetpools", json={"subnetpool": body})
        assert problem(response) == (400, type_)


async def test_the_default_pool(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        network = await make(cloud, "network")
        body = {"network_id": network["id"], "ip_version": 4, "use_default_subnetpool": True}
        assert (
            "No default subnetpool found for IPv4" in (await cloud.post(SUBNETS, json={"subnet": body})).text
        )
        refused = await cloud.post(
            f"{BASE}/subnetpools",
            json={"subnetpool": {"name": "p", "prefixes": ["10.0.0.0/8"], "is_default": True}},
        )
        assert refused.status_code == 403
        await make(
            cloud, "subnetpool", "admin", name="p", prefixes=["10.0.0.0/8"], default_prefixlen=26, is_default=True,
            shared=True,
        )  # fmt: skip
        assert (await make(cloud, "subnet", **body))["cidr"] == "10.0.0.0/26"
