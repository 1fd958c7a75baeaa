"""Networks: who sees them, what can be asked for, what keeps them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cloud import TestCloud
from tests.network import bare_cloud

from cumulet.db.engine import Database

pytestmark = pytest.mark.anyio
NETWORKS = "/network/v2.0/networks"


async def make(cloud: TestCloud, as_: str = "demo", **body: Any) -> dict[str, Any]:
    response = await cloud.post(NETWORKS, as_=as_, json={"network": body})
    assert response.status_code == 201, response.text
    found: dict[str, Any] = response.json()["network"]
    return found


async def names(cloud: TestCloud, query: str = "", as_: str = "demo") -> list[str]:
    response = await cloud.get(f"{NETWORKS}{query}", as_=as_)
    assert response.status_code == 200, response.text
    return sorted(network["name"] for network in response.json()["networks"])


async def test_a_network_has_what_neutron_gives_it(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        made = await make(cloud, name="n", description="d")
        assert made["project_id"] == made["tenant_id"] == cloud.project("demo")
        assert {name: made[name] for name in ("name", "status", "shared", "mtu", "subnets", "revision_number")} == {
            "name": "n", "status": "ACTIVE", "shared": False, "mtu": 1442, "subnets": [], "revision_number": 1,
        }  # fmt: skip
        assert made["router:external"] is False
        assert made["created_at"].endswith("Z")
        assert "provider:network_type" not in made
        shown = (await cloud.get(f"{NETWORKS}/{made['id']}")).json()["network"]
        assert shown == made


async def test_segments_are_for_administrators(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        made = await make(cloud, "admin", name="a")
        assert made["provider:network_type"] == "geneve"
        assert made["provider:segmentation_id"] > 0
        body = {
            "provider:network_type": "vlan",
            "provider:physical_network": "p",
            "provider:segmentation_id": 7,
        }
        refused = await cloud.post(NETWORKS, json={"network": body})
        assert refused.status_code == 403
        assert refused.json()["NeutronError"]["type"] == "PolicyNotAuthorized"
        await make(cloud, "admin", **body)
        again = await cloud.post(NETWORKS, as_="admin", json={"network": body})
        assert (again.status_code, again.json()["NeutronError"]["type"]) == (409, "VlanIdInUse")


async def test_only_own_shared_and_external_networks_are_seen(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        mine = await make(cloud, name="mine")
        await make(cloud, "admin", name="hidden")
        await make(cloud, "admin", name="shared", shared=True)
        await make(cloud, "admin", name="external", **{"router:external": True})
        assert await names(cloud) == ["external", "mine", "shared"]
        assert await names(cloud, as_="other") == ["external", "shared"]
        assert await names(cloud, as_="admin") == ["external", "hidden", "mine", "shared"]
        assert await names(cloud, "?shared=True") == ["shared"]
        assert await names(cloud, "?router:external=True") == ["external"]
        foreign = await cloud.get(f"{NETWORKS}/{mine['id']}", as_="other")
        assert (foreign.status_code, foreign.json()["NeutronError"]["type"]) == (404, "NetworkNotFound")


async def test_what_is_seen_but_not_owned_cannot_be_changed(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        shared = await make(cloud, "admin", name="shared", shared=True)
        path = f"{NETWORKS}/{shared['id']}"
        assert (await cloud.put(path, json={"network": {"name": "x"}})).status_code == 403
        assert (await cloud.delete(path)).status_code == 403
        mine = await make(cloud)
        path = f"{NETWORKS}/{mine['id']}"
        assert (await cloud.put(path, as_="other", json={"network": {"name": "x"}})).status_code == 404
        assert (await cloud.delete(path, as_="other")).status_code == 404
        assert (await cloud.put(path, as_="reader", json={"network": {"name": "x"}})).status_code == 403
        assert (await cloud.put(path, json={"network": {"shared": True}})).status_code == 403


async def test_a_change_counts_the_revision_and_can_be_conditional(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        made = await make(cloud)
        path = f"{NETWORKS}/{made['id']}"
        changed = (await cloud.put(path, json={"network": {"name": "x", "admin_state_up": "false"}})).json()[
            "network"
        ]
        assert (changed["name"], changed["admin_state_up"], changed["revision_number"]) == ("x", False, 2)
        stale = {"If-Match": "revision_number=1"}
        refused = await cloud.put(path, headers=stale, json={"network": {"name": "y"}})
        assert refused.status_code == 412
        assert (await cloud.delete(path, headers=stale)).status_code == 412
        assert (await cloud.delete(path, headers={"If-Match": "revision_number=2"})).status_code == 204
        assert (await cloud.get(path)).status_code == 404


@pytest.mark.parametrize(
    ("body", "type_", "message"),
    [
        ({}, "HTTPBadRequest", "Resource body required"),
        ({"net": {}}, "HTTPBadRequest", "Unable to find 'network' in request body"),
        ({"network": {"nme": "x"}}, "HTTPBadRequest", "Unrecognized attribute(s) 'nme'"),
        ({"network": {"id": "x"}}, "HTTPBadRequest", "Attribute 'id' not allowed in POST"),
        (
            {"network": {"name": 7}},
            "HTTPBadRequest",
            "Invalid input for name. Reason: '7' is not a valid string.",
        ),
        ({"network": {"name": "x" * 256}}, "HTTPBadRequest", "exceeds maximum length of 255"),
        ({"network": {"name": "a\x00b"}}, "HTTPBadRequest", "U+0000"),
        ({"network": {"admin_state_up": "maybe"}}, "InvalidInput", "'maybe' cannot be converted to boolean"),
        ({"network": {"tenant_id": "x"}}, "HTTPBadRequest", "requires admin privileges"),
        ({"network": {"tenant_id": "x", "project_id": "y"}}, "HTTPBadRequest", "do not match"),
        ({"network": {"mtu": 99999}}, "HTTPBadRequest", "Invalid input for mtu."),
        ({"network": {"mtu": 1443}}, "InvalidInput", "Requested MTU is too big, maximum is 1442"),
        ({"networks": []}, "HTTPBadRequest", "Resources required"),
        ({"networks": ["x"]}, "HTTPBadRequest", "contains invalid data"),
    ],
)
async def test_a_body_that_is_not_understood(db: Database, body: Any, type_: str, message: str) -> None:
    async with bare_cloud(db) as cloud:
        response = await cloud.post(NETWORKS, json=body)
        error = response.json()["NeutronError"]
        assert (response.status_code, error["type"]) == (400, type_)
        assert message in error["message"]


async def test_several_at_once_or_none(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        bulk = {"networks": [{"name": "a"}, {"name": "b"}]}
        made = await cloud.post(NETWORKS, json=bulk)
        assert [network["name"] for network in made.json()["networks"]] == ["a", "b"]
        bad = {"networks": [{"name": "c"}, {"name": "d", "shared": True}]}
        assert (await cloud.post(NETWORKS, json=bad)).status_code == 403
        assert await names(cloud) == ["a", "b"]


async def test_the_quota_is_kept(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        await db.write(
            lambda tx: tx.insert(
                "quotas", area="network", owner=cloud.project("demo"), resource="network", hard_limit=1
            )
        )
        await make(cloud)
        over = await cloud.post(NETWORKS, json={"network": {}})
        assert (over.status_code, over.json()["NeutronError"]["type"]) == (409, "OverQuota")
        assert over.json()["NeutronError"]["message"].startswith("Quota exceeded for resources: ['network'].")


async def test_pages_in_both_directions(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        for name in "edcba":
            await make(cloud, name=name)
        first = (await cloud.get(f"{NETWORKS}?limit=2&sort_key=name&sort_dir=asc")).json()
        assert [network["name"] for network in first["networks"]] == ["a", "b"]
        links = {link["rel"]: link["href"] for link in first["networks_links"]}
        second = (await cloud.get(links["next"].removeprefix("http://cloud"))).json()
        assert [network["name"] for network in second["networks"]] == ["c", "d"]
        links = {link["rel"]: link["href"] for link in second["networks_links"]}
        third = (await cloud.get(links["next"].removeprefix("http://cloud"))).json()
        assert [network["name"] for network in third["networks"]] == ["e"]
        assert [link["rel"] for link in third["networks_links"]] == ["previous"]
        back = (await cloud.get(links["previous"].removeprefix("http://cloud"))).json()
        assert [network["name"] for network in back["networks"]] == ["a", "b"]


async def test_filters_fields_and_what_is_neither(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        a, b = await make(cloud, name="a"), await make(cloud, name="b", admin_state_up=False, tags=["x", "y"])
        await make(cloud, name="c", tags=["y"])
        assert await names(cloud, "?name=a&name=c") == ["a", "c"]
        assert await names(cloud, f"?id={b['id']}") == ["b"]
        assert await names(cloud, "?admin_state_up=false") == ["b"]
        assert await names(cloud, "?tags=x,y") == ["b"]
        assert await names(cloud, "?tags-any=x,y") == ["b", "c"]
        assert await names(cloud, "?not-tags=x,y") == ["a", "c"]
        assert await names(cloud, "?not-tags-any=x,y") == ["a"]
        assert await names(cloud, "?status=ACTIVE&name=a") == ["a"]
        assert await names(cloud, "?status=DOWN") == []
        fields = (await cloud.get(f"{NETWORKS}/{a['id']}?fields=id&fields=name&fields=mtu")).json()["network"]
        assert fields == {"id": a["id"], "name": "a", "mtu": 1442}
        for query in (
            "colour=red",
            "sort_key=name",
            "sort_key=colour&sort_dir=asc",
            "limit=-1",
            "mtu=x",
            "name=%00",
        ):
            assert (await cloud.get(f"{NETWORKS}?{query}")).status_code == 400, query
        assert (await cloud.get(f"{NETWORKS}?marker=none&limit=1")).status_code == 404
        assert await names(cloud, "?mtu=99999999999999999999999") == []


async def test_deleting_takes_subnets_along_but_not_ports(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        made = await make(cloud)
        body = {"network_id": made["id"], "ip_version": 4, "cidr": "10.1.0.0/24"}
        subnet = (await cloud.post("/network/v2.0/subnets", json={"subnet": body})).json()["subnet"]
        port = (await cloud.post("/network/v2.0/ports", json={"port": {"network_id": made["id"]}})).json()[
            "port"
        ]
        refused = await cloud.delete(f"{NETWORKS}/{made['id']}")
        assert (refused.status_code, refused.json()["NeutronError"]["type"]) == (409, "NetworkInUse")
        assert "There are one or more ports still in use on the network" in refused.text
        assert port["id"] in refused.text
        assert (await cloud.delete(f"/network/v2.0/ports/{port['id']}")).status_code == 204
        assert (await cloud.delete(f"{NETWORKS}/{made['id']}")).status_code == 204
        assert (await cloud.get(f"/network/v2.0/subnets/{subnet['id']}")).status_code == 404
        left = await db.read(
            lambda tx: {
                table: tx.value(f"select count(*) from {table}")
                for table in (
                    "networks",
                    "subnets",
                    "allocation_pools",
                    "ports",
                    "fixed_ips",
                    "holders",
                    "network_tags",
                )
            }
        )
        assert set(left.values()) == {0}


async def test_a_network_in_use_by_others_stays_shared(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        shared = await make(cloud, "admin", shared=True)
        path = f"{NETWORKS}/{shared['id']}"
        port = await cloud.post("/network/v2.0/ports", json={"port": {"network_id": shared["id"]}})
        assert port.status_code == 201
        refused = await cloud.put(path, as_="admin", json={"network": {"shared": False}})
        assert (refused.status_code, refused.json()["NeutronError"]["type"]) == (409, "InvalidSharedSetting")
        await cloud.delete(f"/network/v2.0/ports/{port.json()['port']['id']}")
        assert (await cloud.put(path, as_="admin", json={"network": {"shared": False}})).status_code == 200
        assert (await cloud.get(path)).status_code == 404


async def test_version_documents_need_no_token(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        for path in ("/network", "/network/"):
            root = await cloud.get(path, as_=None)
            assert root.status_code == 200
            assert [version["id"] for version in root.json()["versions"]] == ["v2.0"]
        listed = await cloud.get("/network/v2.0/", as_=None)
        assert {"network", "subnet", "port"} <= {resource["name"] for resource in listed.json()["resources"]}
        assert (await cloud.get(NETWORKS, as_=None)).status_code == 401
