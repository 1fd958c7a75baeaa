"""Floating IPs: what they lead to, and who has them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.api.test_routers import external, plug
from tests.cloud import TestCloud
from tests.network import BASE, bare_cloud, ids, make, net, problem

from cumulet.core import ports
from cumulet.db.engine import Database

pytestmark = pytest.mark.anyio
FLOATING = f"{BASE}/floatingips"


class Way:
    """A network behind a router on an external one."""

    def __init__(self, public: str, network: str, subnet: str, router: str) -> None:
        self.public, self.network, self.subnet, self.router = public, network, subnet, router


async def way(cloud: TestCloud, public: str = "", cidr: str = "10.1.0.0/24") -> Way:
    public = public or (await external(cloud))[0]
    network, subnet = await net(cloud, cidr)
    router = (await make(cloud, "router", external_gateway_info={"network_id": public}))["id"]
    assert (await plug(cloud, router, subnet_id=subnet)).status_code == 200
    return Way(public, network, subnet, router)


async def change(cloud: TestCloud, id: str, **body: Any) -> dict[str, Any]:
    response = await cloud.put(f"{FLOATING}/{id}", json={"floatingip": body})
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()["floatingip"]
    return found


async def test_a_floating_ip_leads_to_a_port(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        there = await way(cloud)
        first, second = [await make(cloud, "port", network_id=there.network) for _ in range(2)]
        made = await make(cloud, "floatingip", floating_network_id=there.public, port_id=first["id"])
        assert made["floating_ip_address"] == "172.24.4.3"
        assert (made["port_id"], made["router_id"]) == (first["id"], there.router)
        assert made["fixed_ip_address"] == first["fixed_ips"][0]["ip_address"]
        assert made["port_details"]["mac_address"] == first["mac_address"]
        assert (await cloud.get(f"{FLOATING}/{made['id']}")).json()["floatingip"] == made
        assert await ids(cloud, f"floatingips?port_id={first['id']}") == [made["id"]]
        moved = await change(cloud, made["id"], port_id=second["id"])
        assert moved["fixed_ip_address"] == second["fixed_ips"][0]["ip_address"]
        loose = await change(cloud, made["id"], port_id=None)
        assert (loose["port_id"], loose["fixed_ip_address"], loose["router_id"], loose["status"]) == (
            None, None, None, "DOWN",
        )  # fmt: skip
        assert (await cloud.delete(f"{FLOATING}/{made['id']}")).status_code == 204
        assert problem(await cloud.get(f"{FLOATING}/{made['id']}")) == (404, "FloatingIPNotFound")
        assert await ids(cloud, "ports?device_owner=network:floatingip", "admin") == []


async def test_the_address_is_kept_by_a_hidden_port(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        public, _ = await external(cloud)
        made = await make(cloud, "floatingip", floating_network_id=public)
        assert await ids(cloud, "ports") == []
        keeper = (await ids(cloud, "ports?device_owner=network:floatingip", "admin"))[0]
        assert problem(await cloud.delete(f"{BASE}/ports/{keeper}", as_="admin")) == (409, "ServicePortInUse")
        body = {"network_id": public, "fixed_ips": [{"ip_address": made["floating_ip_address"]}]}
        taken = await cloud.post(f"{BASE}/ports", as_="admin", json={"port": body})
        assert problem(taken) == (409, "IpAddressInUse")


async def test_choosing_the_address(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        public, subnet = await external(cloud)
        body = {"floating_network_id": public, "floating_ip_address": "172.24.4.99"}
        assert (await cloud.post(FLOATING, json={"floatingip": body})).status_code == 403
        made = await make(cloud, "floatingip", "manager", **body)
        assert made["floating_ip_address"] == "172.24.4.99"
        again = await cloud.post(FLOATING, as_="manager", json={"floatingip": body})
        assert problem(again) == (409, "IpAddressInUse")
        assert (await make(cloud, "floatingip", floating_network_id=public, subnet_id=subnet))["id"]


async def test_one_of_several_addresses_is_chosen(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        there = await way(cloud)
        fixed = [{"ip_address": "10.1.0.10"}, {"ip_address": "10.1.0.11"}]
        port = (await make(cloud, "port", network_id=there.network, fixed_ips=fixed))["id"]
        body = {"floating_network_id": there.public, "port_id": port}
        assert "multiple fixed IPv4 addresses" in (await cloud.post(FLOATING, json={"floatingip": body})).text
        made = await make(cloud, "floatingip", **body, fixed_ip_address="10.1.0.10")
        moved = await change(cloud, made["id"], port_id=port, fixed_ip_address="10.1.0.11")
        assert moved["fixed_ip_address"] == "10.1.0.11"
        # Clients send what changed only.
        assert (await change(cloud, made["id"], fixed_ip_address="10.1.0.10"))[
            "fixed_ip_address"
        ] == "10.1.0.10"
        assert (await change(cloud, made["id"], description="x"))["port_id"] == port
        assert (await change(cloud, made["id"]))["port_id"] is None
        await change(cloud, made["id"], port_id=port, fixed_ip_address="10.1.0.10")
        clash = await cloud.post(FLOATING, json={"floatingip": {**body, "fixed_ip_address": "10.1.0.10"}})
        assert problem(clash) == (409, "FloatingIPPortAlreadyAssociated")
        absent = await cloud.post(FLOATING, json={"floatingip": {**body, "fixed_ip_address": "10.1.0.99"}})
        assert problem(absent) == (400, "BadRequest")
        kept = await cloud.put(f"{BASE}/ports/{port}", json={"port": {"fixed_ips": fixed[1:]}})
        assert problem(kept) == (400, "BadRequest")


async def test_what_is_not_reachable(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        public, _ = await external(cloud)
        network, subnet = await net(cloud)
        router = (await make(cloud, "router"))["id"]
        await plug(cloud, router, subnet_id=subnet)
        port = (await make(cloud, "port", network_id=network))["id"]
        body = {"floating_network_id": public, "port_id": port}
        refused = await cloud.post(FLOATING, json={"floatingip": body})
        assert problem(refused) == (404, "ExternalGatewayForFloatingIPNotFound")
        made = await make(cloud, "floatingip", floating_network_id=public)
        later = await cloud.put(f"{FLOATING}/{made['id']}", json={"floatingip": {"port_id": port}})
        assert later.status_code == 404
        inside = await cloud.post(FLOATING, json={"floatingip": {"floating_network_id": network}})
        assert problem(inside) == (400, "BadRequest")
        fixed_only = await cloud.put(
            f"{FLOATING}/{made['id']}", json={"floatingip": {"fixed_ip_address": "10.1.0.5"}}
        )
        assert problem(fixed_only) == (400, "BadRequest")


async def test_a_floating_ip_outlives_its_port(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        there = await way(cloud)
        port = await make(cloud, "port", network_id=there.network)
        made = await make(cloud, "floatingip", floating_network_id=there.public, port_id=port["id"])
        await cloud.delete(f"{BASE}/ports/{port['id']}")
        shown = (await cloud.get(f"{FLOATING}/{made['id']}")).json()["floatingip"]
        assert (shown["port_id"], shown["fixed_ip_address"], shown["router_id"]) == (None, None, None)


async def test_the_floating_address_of_a_server_shows_at_its_port(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        there = await way(cloud)
        port = await make(
            cloud, "port", network_id=there.network, device_id="s1", device_owner="compute:nova"
        )
        made = await make(cloud, "floatingip", floating_network_id=there.public, port_id=port["id"])
        found = await db.read(lambda tx: ports.of_server(tx, ["s1"]))
        assert found["s1"][0]["fixed_ips"][0]["floating_ips"] == [made["floating_ip_address"]]


async def test_a_port_behind_another_router(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        one = await way(cloud)
        other = await way(cloud, one.public, "10.2.0.0/24")
        first = await make(cloud, "port", network_id=one.network)
        second = await make(cloud, "port", network_id=other.network)
        made = await make(cloud, "floatingip", floating_network_id=one.public, port_id=first["id"])
        moved = await change(cloud, made["id"], port_id=second["id"])
        assert (made["router_id"], moved["router_id"]) == (one.router, other.router)


async def test_what_a_floating_ip_keeps_in_place(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        there = await way(cloud)
        port = await make(cloud, "port", network_id=there.network)
        await make(cloud, "floatingip", floating_network_id=there.public, port_id=port["id"])
        removed = await plug(cloud, there.router, remove=True, subnet_id=there.subnet)
        assert problem(removed) == (409, "RouterInterfaceInUseByFloatingIP")
        path = f"{BASE}/routers/{there.router}"
        cleared = await cloud.put(path, json={"router": {"external_gateway_info": {}}})
        assert problem(cleared) == (409, "RouterExternalGatewayInUseByFloatingIp")
        gone = await cloud.delete(f"{BASE}/networks/{there.public}", as_="admin")
        assert problem(gone) == (409, "NetworkInUse")
        closed = await cloud.put(
            f"{BASE}/networks/{there.public}", as_="admin", json={"network": {"router:external": False}}
        )
        assert problem(closed) == (409, "ExternalNetworkInUse")


async def test_unused_floating_ips_go_with_their_network(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        public, _ = await external(cloud)
        made = await make(cloud, "floatingip", floating_network_id=public)
        assert (await cloud.delete(f"{BASE}/networks/{public}", as_="admin")).status_code == 204
        assert (await cloud.get(f"{FLOATING}/{made['id']}")).status_code == 404
        left = await db.read(
            lambda tx: [
                tx.value(f"select count(*) from {table}") for table in ("ports", "fixed_ips", "holders")
            ]
        )
        assert left == [0, 0, 0]


async def test_each_project_sees_its_own(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        public, _ = await external(cloud)
        mine = await make(cloud, "floatingip", floating_network_id=public)
        theirs = await make(cloud, "floatingip", "other", floating_network_id=public)
        given = await make(
            cloud, "floatingip", "admin", floating_network_id=public, project_id=cloud.project("demo")
        )
        assert await ids(cloud, "floatingips") == sorted([mine["id"], given["id"]])
        assert await ids(cloud, "floatingips", "admin") == sorted([mine["id"], theirs["id"], given["id"]])
        assert (await cloud.delete(f"{FLOATING}/{theirs['id']}")).status_code == 404
        pools = (await cloud.get(f"{BASE}/floatingip-pools")).json()["floatingip_pools"]
        assert [pool["network_id"] for pool in pools] == [public]
