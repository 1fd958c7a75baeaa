"""Routers: gateways, interfaces, routes."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cloud import TestCloud, test_cloud
from tests.network import BASE, bare_cloud, ids, make, net, problem

from cumulet.db.engine import Database

pytestmark = pytest.mark.anyio
ROUTERS = f"{BASE}/routers"


async def external(cloud: TestCloud, cidr: str = "172.24.4.0/24") -> tuple[str, str]:
    """An external network of the administrator; returns its id and its subnet's."""
    network = await make(cloud, "network", "admin", **{"router:external": True})
    subnet = await make(
        cloud, "subnet", "admin", network_id=network["id"], ip_version=4, cidr=cidr, enable_dhcp=False
    )
    return network["id"], subnet["id"]


async def plug(cloud: TestCloud, router: str, as_: str = "demo", *, remove: bool = False, **body: str) -> Any:
    verb = "remove" if remove else "add"
    return await cloud.put(f"{ROUTERS}/{router}/{verb}_router_interface", as_=as_, json=body)


async def change(cloud: TestCloud, router: str, as_: str = "demo", **body: Any) -> dict[str, Any]:
    response = await cloud.put(f"{ROUTERS}/{router}", as_=as_, json={"router": body})
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()["router"]
    return found


async def test_a_router_has_what_neutron_gives_it(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        made = await make(cloud, "router", name="r")
        assert (made["name"], made["status"], made["admin_state_up"]) == ("r", "ACTIVE", True)
        assert (made["external_gateway_info"], made["routes"]) == (None, [])
        assert not {"distributed", "ha"} & set(made)
        assert (await cloud.get(f"{ROUTERS}/{made['id']}")).json()["router"] == made
        seen = (await cloud.get(f"{ROUTERS}/{made['id']}", as_="admin")).json()["router"]
        assert (seen["distributed"], seen["ha"]) == (False, False)
        assert problem(await cloud.get(f"{ROUTERS}/{made['id']}", as_="other")) == (404, "RouterNotFound")
        assert (await change(cloud, made["id"], name="s", admin_state_up=False))["admin_state_up"] is False
        assert (await cloud.delete(f"{ROUTERS}/{made['id']}")).status_code == 204
        assert (await cloud.get(f"{ROUTERS}/{made['id']}")).status_code == 404


async def test_distribution_is_for_administrators(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        assert (await cloud.post(ROUTERS, json={"router": {"distributed": True}})).status_code == 403
        made = await make(
            cloud, "router", "admin", distributed=False, ha=False, project_id=cloud.project("demo")
        )
        path = f"{ROUTERS}/{made['id']}"
        active = await cloud.put(path, as_="admin", json={"router": {"distributed": True}})
        assert problem(active) == (400, "BadRequest")
        await change(cloud, made["id"], "admin", admin_state_up=False)
        assert (await change(cloud, made["id"], "admin", distributed=True))["distributed"] is True


async def test_the_gateway_is_a_port_that_only_administrators_see(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        public, subnet = await external(cloud)
        made = await make(cloud, "router", external_gateway_info={"network_id": public})
        assert made["external_gateway_info"] == {
            "network_id": public, "enable_snat": True,
            "external_fixed_ips": [{"subnet_id": subnet, "ip_address": "172.24.4.2"}],
        }  # fmt: skip
        query = f"ports?device_id={made['id']}&device_owner=network:router_gateway"
        assert await ids(cloud, query) == []
        port = (await ids(cloud, query, "admin"))[0]
        assert problem(await cloud.delete(f"{BASE}/ports/{port}", as_="admin")) == (409, "ServicePortInUse")
        assert (await change(cloud, made["id"], external_gateway_info={}))["external_gateway_info"] is None
        assert await ids(cloud, query, "admin") == []
        await change(cloud, made["id"], external_gateway_info={"network_id": public})
        assert (await cloud.delete(f"{ROUTERS}/{made['id']}")).status_code == 204
        assert await ids(cloud, "ports", "admin") == []


async def test_what_an_administrator_may_say_of_the_gateway(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        public, subnet = await external(cloud)
        info = {
            "network_id": public,
            "external_fixed_ips": [{"subnet_id": subnet, "ip_address": "172.24.4.77"}],
        }
        for more in (info, {"network_id": public, "enable_snat": False}):
            refused = await cloud.post(ROUTERS, json={"router": {"external_gateway_info": more}})
            assert refused.status_code == 403
        made = await make(cloud, "router", "admin", external_gateway_info={**info, "enable_snat": False})
        gateway = made["external_gateway_info"]
        assert (gateway["external_fixed_ips"], gateway["enable_snat"]) == (info["external_fixed_ips"], False)
        again = await cloud.post(ROUTERS, as_="admin", json={"router": {"external_gateway_info": info}})
        assert problem(again) == (409, "IpAddressInUse")
        moved = {**info, "external_fixed_ips": [{"subnet_id": subnet, "ip_address": "172.24.4.78"}]}
        changed = await change(cloud, made["id"], "admin", external_gateway_info=moved)
        assert changed["external_gateway_info"]["external_fixed_ips"] == moved["external_fixed_ips"]
        at_gateway = {**info, "external_fixed_ips": [{"ip_address": "172.24.4.1"}]}
        refused = await cloud.post(
            ROUTERS, as_="admin", json={"router": {"external_gateway_info": at_gateway}}
        )
        assert problem(refused) == (400, "BadRequest")


async def test_gateways_that_cannot_be(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        inside, _ = await net(cloud)
        made = await make(cloud, "router")
        path = f"{ROUTERS}/{made['id']}"
        for info, expected in (
            ({"network_id": made["id"]}, (404, "NetworkNotFound")),
            ({"network_id": inside}, (400, "BadRequest")),
            ({"network_id": "x"}, (400, "HTTPBadRequest")),
            ({"enable_snat": True}, (400, "HTTPBadRequest")),
            ("x", (400, "HTTPBadRequest")),
        ):
            response = await cloud.put(path, json={"router": {"external_gateway_info": info}})
            assert problem(response) == expected, info


async def test_an_interface_by_subnet(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        network, subnet = await net(cloud)
        router = (await make(cloud, "router"))["id"]
        added = await plug(cloud, router, subnet_id=subnet)
        assert added.status_code == 200
        body = added.json()
        assert {name: body[name] for name in ("id", "subnet_id", "subnet_ids", "network_id", "tenant_id")} == {
            "id": router, "subnet_id": subnet, "subnet_ids": [subnet], "network_id": network,
            "tenant_id": cloud.project("demo"),
        }  # fmt: skip
        port = (await cloud.get(f"{BASE}/ports/{body['port_id']}")).json()["port"]
        assert (port["device_id"], port["device_owner"]) == (router, "network:router_interface")
        assert port["fixed_ips"] == [{"subnet_id": subnet, "ip_address": "10.1.0.1"}]
        assert port["security_groups"] == []
        assert await ids(cloud, f"ports?device_id={router}") == [port["id"]]
        assert problem(await plug(cloud, router, subnet_id=subnet)) == (400, "BadRequest")
        assert problem(await cloud.delete(f"{ROUTERS}/{router}")) == (409, "RouterInUse")
        assert problem(await cloud.delete(f"{BASE}/ports/{port['id']}")) == (409, "ServicePortInUse")
        assert problem(await cloud.delete(f"{BASE}/subnets/{subnet}")) == (409, "SubnetInUse")
        moved = await cloud.put(f"{BASE}/subnets/{subnet}", json={"subnet": {"gateway_ip": None}})
        assert problem(moved) == (409, "GatewayIpInUse")
        same = await cloud.put(
            f"{BASE}/ports/{port['id']}", json={"port": {"fixed_ips": [{"subnet_id": subnet}]}}
        )
        assert same.json()["port"]["fixed_ips"] == port["fixed_ips"]
        removed = await plug(cloud, router, remove=True, subnet_id=subnet)
        assert (removed.status_code, removed.json()["port_id"]) == (200, port["id"])
        assert (await cloud.get(f"{BASE}/ports/{port['id']}")).status_code == 404
        gone = await plug(cloud, router, remove=True, subnet_id=subnet)
        assert problem(gone) == (404, "RouterInterfaceNotFoundForSubnet")


async def test_an_interface_by_port(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        network, subnet = await net(cloud)
        router = (await make(cloud, "router"))["id"]
        port = (await make(cloud, "port", network_id=network))["id"]
        assert (await plug(cloud, router, port_id=port)).json()["subnet_id"] == subnet
        assert problem(await plug(cloud, router, port_id=port)) == (409, "PortInUse")
        mismatch = await plug(cloud, router, remove=True, port_id=port, subnet_id=router)
        assert problem(mismatch) == (400, "SubnetMismatchForPort")
        assert (await plug(cloud, router, remove=True, port_id=port)).status_code == 200
        assert (await cloud.get(f"{BASE}/ports/{port}")).status_code == 404
        assert problem(await plug(cloud, router, remove=True, port_id=port)) == (
            404,
            "RouterInterfaceNotFound",
        )
        bare = (await make(cloud, "port", network_id=network, fixed_ips=[]))["id"]
        assert problem(await plug(cloud, router, port_id=bare)) == (400, "BadRequest")


async def test_what_cannot_be_plugged(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        _, subnet = await net(cloud)
        _, clashing = await net(cloud)
        _, without_gateway = await net(cloud, "10.2.0.0/24", gateway_ip=None)
        router = (await make(cloud, "router"))["id"]
        await plug(cloud, router, subnet_id=subnet)
        assert "overlaps with cidr" in (await plug(cloud, router, subnet_id=clashing)).text
        for body in (
            {"subnet_id": without_gateway},
            {},
            {"subnet_id": "x"},
            {"subnet_id": subnet, "port_id": subnet},
        ):
            assert problem(await plug(cloud, router, **body)) == (400, "BadRequest"), body
        assert (await plug(cloud, router, "other", subnet_id=subnet)).status_code == 404
        assert (await plug(cloud, router, "reader", subnet_id=subnet)).status_code == 403


async def test_a_subnet_of_another_project(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        network, subnet = await net(cloud, as_="admin")
        router = (await make(cloud, "router"))["id"]
        assert (await plug(cloud, router, subnet_id=subnet)).status_code == 404
        await cloud.put(f"{BASE}/networks/{network}", as_="admin", json={"network": {"shared": True}})
        assert problem(await plug(cloud, router, subnet_id=subnet)) == (400, "BadRequest")
        assert (await plug(cloud, router, "admin", subnet_id=subnet)).status_code == 200


async def test_prefixes_of_ipv6_share_a_port(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        network, first = await net(cloud, "fd01::/64", ip_version=6)
        second = (await make(cloud, "subnet", network_id=network, ip_version=6, cidr="fd02::/64"))["id"]
        router = (await make(cloud, "router"))["id"]
        one = (await plug(cloud, router, subnet_id=first)).json()["port_id"]
        assert (await plug(cloud, router, subnet_id=second)).json()["port_id"] == one
        port = (await cloud.get(f"{BASE}/ports/{one}")).json()["port"]
        assert [fixed["ip_address"] for fixed in port["fixed_ips"]] == ["fd01::", "fd02::"]
        await plug(cloud, router, remove=True, subnet_id=first)
        port = (await cloud.get(f"{BASE}/ports/{one}")).json()["port"]
        assert [fixed["ip_address"] for fixed in port["fixed_ips"]] == ["fd02::"]
        await plug(cloud, router, remove=True, subnet_id=second)
        assert (await cloud.get(f"{BASE}/ports/{one}")).status_code == 404


async def test_routes_lead_to_neighbours(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        _, subnet = await net(cloud)
        router = (await make(cloud, "router"))["id"]
        await plug(cloud, router, subnet_id=subnet)
        route = {"destination": "10.99.0.0/16", "nexthop": "10.1.0.5"}
        assert (await change(cloud, router, routes=[route]))["routes"] == [route]
        path = f"{ROUTERS}/{router}"
        for bad, type_ in (
            ({**route, "nexthop": "10.2.0.5"}, "InvalidRoutes"),
            ({**route, "nexthop": "10.1.0.1"}, "InvalidRoutes"),
            ({**route, "destination": "10.99.0.1/16"}, "HTTPBadRequest"),
            ({"nexthop": "10.1.0.5"}, "HTTPBadRequest"),
        ):
            response = await cloud.put(path, json={"router": {"routes": [bad]}})
            assert problem(response) == (400, type_), bad
        in_use = await plug(cloud, router, remove=True, subnet_id=subnet)
        assert problem(in_use) == (409, "RouterInterfaceInUseByRoute")
        more = {"destination": "10.98.0.0/16", "nexthop": "10.1.0.6"}
        added = await cloud.put(f"{path}/add_extraroutes", json={"router": {"routes": [more, route]}})
        assert added.json()["router"]["routes"] == [route, more]
        left = await cloud.put(f"{path}/remove_extraroutes", json={"router": {"routes": [route]}})
        assert left.json()["router"]["routes"] == [more]
        assert (await change(cloud, router, routes=None))["routes"] == []
        assert (await plug(cloud, router, remove=True, subnet_id=subnet)).status_code == 200


async def test_a_new_cloud_has_a_way_out(db: Database) -> None:
    async with test_cloud(db) as cloud:
        found = {
            network["name"]: network for network in (await cloud.get(f"{BASE}/networks")).json()["networks"]
        }
        assert set(found) == {"private", "public"}
        assert (found["public"]["router:external"], found["public"]["is_default"]) == (True, True)
        router = (await cloud.get(f"{ROUTERS}?name=router")).json()["routers"][0]
        assert router["external_gateway_info"]["network_id"] == found["public"]["id"]
        port = await make(cloud, "port", network_id=found["private"]["id"])
        floating = await make(
            cloud, "floatingip", floating_network_id=found["public"]["id"], port_id=port["id"]
        )
        assert floating["router_id"] == router["id"]
        rules = (await cloud.get(f"{BASE}/security-group-rules?direction=ingress&ethertype=IPv4")).json()
        ways = {(rule["protocol"], rule["port_range_min"]) for rule in rules["security_group_rules"]}
        assert ways == {(None, None), ("tcp", 22), ("icmp", None)}
