"""The smaller parts of the Network API: extensions, agents, zones, addresses in use, networks on demand."""

from __future__ import annotations

import pytest
from tests.cloud import test_cloud
from tests.network import BASE, bare_cloud, ids, make, net, problem

from cumulet.api.network import AREA
from cumulet.api.network.extensions import EXTENSIONS
from cumulet.core import auto_topology
from cumulet.db.engine import Database, Tx

pytestmark = pytest.mark.anyio


async def test_extensions(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        listed = (await cloud.get(f"{BASE}/extensions")).json()["extensions"]
        assert {found["alias"] for found in listed} == set(EXTENSIONS)
        assert {"router", "security-group", "external-net", "provider", "quotas", "standard-attr-tag"} <= set(
            EXTENSIONS
        )
        for found in listed:
            assert set(found) == {"alias", "name", "description", "updated", "links"}
        assert (await cloud.get(f"{BASE}/extensions/router")).json()["extension"] in listed
        assert (await cloud.get(f"{BASE}/extensions/vpnaas")).status_code == 404
        assert (await cloud.get(f"{BASE}/service-providers?service_type=VPN")).json() == {
            "service_providers": []
        }


def test_every_route_names_a_rule() -> None:
    open_to_all = {route.path for route in AREA.routes if not route.rule}
    assert open_to_all == {"/", "/v2.0"}
    assert all(route.check for route in AREA.routes if route.rule)


def agent(tx: Tx) -> None:
    tx.insert(
        "agents", id="n1", kind="network", name="net", token_digest="", session="s", seen_at=tx.now,
        created_at=tx.now, updated_at=tx.now, number=1,
    )  # fmt: skip


async def test_agents_are_shown_to_administrators_only(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        await db.write(agent)
        assert (await cloud.get(f"{BASE}/agents")).json() == {"agents": []}
        found = (await cloud.get(f"{BASE}/agents", as_="admin")).json()["agents"]
        assert [(one["host"], one["alive"], one["admin_state_up"]) for one in found] == [("net", True, True)]
        assert (await cloud.get(f"{BASE}/agents/n1", as_="admin")).json()["agent"] == found[0]
        assert (await cloud.get(f"{BASE}/agents/n1")).status_code == 404
        network = (await make(cloud, "network"))["id"]

        def claim(tx: Tx) -> None:
            tx.insert(
                "claims", id="c", kind="switch", holder=network, opened_for=network, agent="n1", created_at=0,
                updated_at=0,
            )  # fmt: skip

        await db.write(claim)
        path = f"{BASE}/networks/{network}/dhcp-agents"
        assert [one["id"] for one in (await cloud.get(path, as_="admin")).json()["agents"]] == ["n1"]
        assert (await cloud.get(path)).status_code == 403
        held = (await cloud.get(f"{BASE}/agents/n1/dhcp-networks", as_="admin")).json()["networks"]
        assert [one["id"] for one in held] == [network]
        assert (await cloud.get(f"{BASE}/agents/n1/l3-routers", as_="admin")).json() == {"routers": []}


async def test_zones(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        await db.write(agent)
        zones = (await cloud.get(f"{BASE}/availability_zones")).json()["availability_zones"]
        assert [(zone["name"], zone["resource"]) for zone in zones] == [
            ("nova", "network"),
            ("nova", "router"),
        ]
        made = await make(cloud, "network", availability_zone_hints=["nova"])
        assert (made["availability_zone_hints"], made["availability_zones"]) == (["nova"], ["nova"])
        lost = await cloud.post(f"{BASE}/routers", json={"router": {"availability_zone_hints": ["mars"]}})
        assert problem(lost) == (404, "AvailabilityZoneNotFound")


async def test_addresses_in_use(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        network, subnet = await net(cloud)
        await make(cloud, "subnet", network_id=network, ip_version=6, cidr="fd00::/64")
        await make(cloud, "port", network_id=network)
        path = f"{BASE}/network-ip-availabilities"
        assert (await cloud.get(path)).json() == {"network_ip_availabilities": []}
        assert (await cloud.get(f"{path}/{network}")).status_code == 404
        found = (await cloud.get(f"{path}/{network}?ip_version=4", as_="admin")).json()[
            "network_ip_availability"
        ]
        assert found["total_ips"] == 253 + (1 << 64) - 1
        only = (await cloud.get(f"{path}?ip_version=4", as_="admin")).json()["network_ip_availabilities"]
        assert [(one["network_id"], one["total_ips"], one["used_ips"]) for one in only] == [(network, 253, 1)]
        assert only[0]["subnet_ip_availability"][0]["subnet_id"] == subnet


async def test_a_network_on_demand(db: Database) -> None:
    async with test_cloud(db) as cloud:
        other = cloud.project("other")
        path = f"{BASE}/auto-allocated-topology"
        dry = (await cloud.get(f"{path}/None?fields=dry-run", as_="other")).json()["auto_allocated_topology"]
        assert dry["id"] == "dry-run=pass"
        made = (await cloud.get(f"{path}/{other}", as_="other")).json()["auto_allocated_topology"]
        assert (await cloud.get(f"{path}/None", as_="other")).json()["auto_allocated_topology"] == made
        assert await db.write(auto_topology.ensure, other) == made["id"]
        subnet = (await cloud.get(f"{BASE}/subnets?network_id={made['id']}", as_="other")).json()["subnets"][
            0
        ]
        assert subnet["cidr"] == "10.128.0.0/26"
        router = (await cloud.get(f"{BASE}/routers", as_="other")).json()["routers"][0]
        assert router["external_gateway_info"] is not None
        assert (await cloud.get(f"{path}/{other}")).status_code == 403
        port = await make(cloud, "port", "other", network_id=made["id"])
        in_use = await cloud.delete(f"{path}/{other}", as_="other")
        assert problem(in_use) == (409, "NetworkInUse")
        assert await ids(cloud, "routers", "other") == [router["id"]]
        await cloud.delete(f"{BASE}/ports/{port['id']}", as_="other")
        assert (await cloud.delete(f"{path}/{other}", as_="other")).status_code == 204
        assert (await cloud.delete(f"{path}/{other}", as_="other")).status_code == 204
        assert await ids(cloud, "routers", "other") == []
        again = (await cloud.get(f"{path}/{other}", as_="other")).json()["auto_allocated_topology"]
        router = (await ids(cloud, "routers", "other"))[0]
        port = (await ids(cloud, f"ports?device_id={router}", "other"))[0]
        unplug = f"{BASE}/routers/{router}/remove_router_interface"
        assert (await cloud.put(unplug, as_="other", json={"port_id": port})).status_code == 200
        assert (await cloud.delete(f"{BASE}/routers/{router}", as_="other")).status_code == 204
        assert (await cloud.delete(f"{BASE}/networks/{again['id']}", as_="other")).status_code == 204
        assert (await cloud.get(f"{path}/{other}", as_="other")).json()["auto_allocated_topology"] != again


async def test_a_network_on_demand_needs_defaults(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        refused = await cloud.get(f"{BASE}/auto-allocated-topology/None")
        assert problem(refused) == (409, "AutoAllocationFailure")
