"""Shares with single projects and with all."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cloud import TestCloud
from tests.network import BASE, bare_cloud, ids, make, net, problem

from cumulet.db.engine import Database

pytestmark = pytest.mark.anyio
POLICIES = f"{BASE}/rbac-policies"


async def share(cloud: TestCloud, as_: str = "demo", **body: Any) -> dict[str, Any]:
    more = {"object_type": "network", "action": "access_as_shared", **body}
    return await make(cloud, "rbac_policy", as_, path="rbac-policies", **more)


async def test_a_network_shared_with_one_project(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        network, subnet = await net(cloud)
        assert network not in await ids(cloud, "networks", "other")
        made = await share(cloud, object_id=network, target_project=cloud.project("other"))
        assert made["target_tenant"] == cloud.project("other")
        seen = (await cloud.get(f"{BASE}/networks/{network}", as_="other")).json()["network"]
        assert seen["shared"] is True
        assert (await cloud.get(f"{BASE}/networks/{network}")).json()["network"]["shared"] is False
        assert await ids(cloud, "networks?shared=True", "other") == [network]
        assert await ids(cloud, "subnets", "other") == [subnet]
        port = await make(cloud, "port", "other", network_id=network)
        path = f"{POLICIES}/{made['id']}"
        assert problem(await cloud.delete(path)) == (409, "RbacPolicyInUse")
        assert (await cloud.delete(path, as_="other")).status_code == 404
        await cloud.delete(f"{BASE}/ports/{port['id']}", as_="other")
        assert (await cloud.delete(path)).status_code == 204
        assert (await cloud.get(f"{BASE}/networks/{network}", as_="other")).status_code == 404


async def test_a_share_lets_the_project_route(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        network, subnet = await net(cloud)
        await share(cloud, object_id=network, target_project=cloud.project("other"))
        router = (await make(cloud, "router", "other"))["id"]
        added = await cloud.put(
            f"{BASE}/routers/{router}/add_router_interface", as_="other", json={"subnet_id": subnet}
        )
        assert added.status_code == 200


async def test_sharing_with_all_is_for_administrators_and_equals_the_attribute(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        network, _ = await net(cloud)
        body = {
            "object_type": "network",
            "action": "access_as_shared",
            "object_id": network,
            "target_project": "*",
        }
        assert (await cloud.post(POLICIES, json={"rbac_policy": body})).status_code == 403
        made = await share(cloud, "admin", object_id=network, target_project="*")
        assert (await cloud.get(f"{BASE}/networks/{network}", as_="other")).json()["network"][
            "shared"
        ] is True
        again = await cloud.post(POLICIES, as_="admin", json={"rbac_policy": body})
        assert problem(again) == (409, "DuplicateRbacPolicy")
        await cloud.delete(f"{POLICIES}/{made['id']}", as_="admin")
        assert (await cloud.get(f"{BASE}/networks/{network}")).json()["network"]["shared"] is False
        shared = (await make(cloud, "network", "admin", shared=True))["id"]
        assert len(await ids(cloud, f"rbac-policies?object_id={shared}", "admin")) == 1


async def test_an_external_network_for_one_project(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        network = (await make(cloud, "network", "admin"))["id"]
        await share(
            cloud,
            "admin",
            object_id=network,
            action="access_as_external",
            target_project=cloud.project("other"),
        )
        seen = (await cloud.get(f"{BASE}/networks/{network}", as_="other")).json()["network"]
        assert (seen["router:external"], seen["shared"]) == (True, False)
        assert (await cloud.get(f"{BASE}/networks/{network}")).status_code == 404
        policy = (await ids(cloud, "rbac-policies?action=access_as_external", "admin"))[0]
        await cloud.delete(f"{POLICIES}/{policy}", as_="admin")
        shown = (await cloud.get(f"{BASE}/networks/{network}", as_="admin")).json()["network"]
        assert shown["router:external"] is False


async def test_a_security_group_shared(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        group = (await make(cloud, "security_group", path="security-groups", name="g"))["id"]
        made = await share(
            cloud, object_type="security_group", object_id=group, target_project=cloud.project("other")
        )
        assert group in await ids(cloud, "security-groups?shared=True", "other")
        network, _ = await net(cloud, as_="other")
        await make(cloud, "port", "other", network_id=network, security_groups=[group])
        assert problem(await cloud.delete(f"{POLICIES}/{made['id']}")) == (409, "RbacPolicyInUse")


async def test_what_cannot_be_shared(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        foreign, _ = await net(cloud, as_="other")
        mine, _ = await net(cloud)
        good = {
            "object_type": "network",
            "action": "access_as_shared",
            "object_id": mine,
            "target_project": "x",
        }
        for change, status in (
            ({"object_id": foreign}, 404),
            ({"object_type": "port"}, 400),
            ({"action": "access_as_door"}, 400),
            ({"target_project": ""}, 400),
        ):
            response = await cloud.post(POLICIES, json={"rbac_policy": {**good, **change}})
            assert response.status_code == status, change
