"""Tags of Network's resources."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cloud import TestCloud
from tests.network import BASE, bare_cloud, ids, make, net, problem

from cumulet.db.engine import Database

pytestmark = pytest.mark.anyio


async def one_of_each(cloud: TestCloud) -> dict[str, str]:
    """A resource of every kind that has tags: the path's name → id."""
    network, subnet = await net(cloud)
    public = (await make(cloud, "network", "admin", **{"router:external": True}))["id"]
    body = {"network_id": public, "ip_version": 4, "cidr": "172.24.4.0/24"}
    await make(cloud, "subnet", "admin", **body)

    async def id(noun: str, path: str = "", **more: Any) -> str:
        return str((await make(cloud, noun, path=path, **more))["id"])

    return {
        "networks": network,
        "subnets": subnet,
        "ports": await id("port", network_id=network),
        "routers": await id("router"),
        "subnetpools": await id("subnetpool", name="p", prefixes=["10.0.0.0/8"]),
        "security-groups": await id("security_group", "security-groups", name="g"),
        "floatingips": await id("floatingip", floating_network_id=public),
        "trunks": await id("trunk", port_id=await id("port", network_id=network)),
    }


async def test_tags_one_by_one_and_all_at_once(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        for path, id in (await one_of_each(cloud)).items():
            tags = f"{BASE}/{path}/{id}/tags"
            assert (await cloud.put(f"{tags}/a")).status_code == 201
            assert (await cloud.put(f"{tags}/a")).status_code == 201
            assert (await cloud.get(f"{tags}/a")).status_code == 204
            assert problem(await cloud.get(f"{tags}/b")) == (404, "TagNotFound")
            assert (await cloud.get(tags)).json() == {"tags": ["a"]}
            assert (await cloud.put(tags, json={"tags": ["c", "b"]})).json() == {"tags": ["b", "c"]}
            assert (await cloud.post(tags, json={"tags": ["d", "b"]})).json() == {"tags": ["b", "c", "d"]}
            assert (await cloud.delete(f"{tags}/b")).status_code == 204
            assert problem(await cloud.delete(f"{tags}/b")) == (404, "TagNotFound")
            one = (await cloud.get(f"{BASE}/{path}/{id}")).json()
            assert next(iter(one.values()))["tags"] == ["c", "d"]
            assert await ids(cloud, f"{path}?tags=c,d") == [id]
            assert (await cloud.delete(tags)).status_code == 204
            assert (await cloud.get(tags)).json() == {"tags": []}


async def test_tags_of_others(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        for path, id in (await one_of_each(cloud)).items():
            tags = f"{BASE}/{path}/{id}/tags"
            assert (await cloud.get(tags, as_="other")).status_code == 404
            assert (await cloud.put(f"{tags}/a", as_="other")).status_code == 404
            assert (await cloud.put(f"{tags}/a", as_="reader")).status_code == 403
            assert (await cloud.get(tags, as_="reader")).status_code == 200
        shared = await make(cloud, "network", "admin", shared=True)
        assert (await cloud.get(f"{BASE}/networks/{shared['id']}/tags")).status_code == 200
        assert (await cloud.put(f"{BASE}/networks/{shared['id']}/tags/a")).status_code == 403


async def test_tags_that_cannot_be(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        network = (await make(cloud, "network"))["id"]
        tags = f"{BASE}/networks/{network}/tags"
        for body in ({}, {"tags": "x"}, {"tags": [1]}, {"tags": ["x" * 256]}, {"tags": ["a\x00"]}):
            assert (await cloud.put(tags, json=body)).status_code == 400, body
        assert (await cloud.put(tags, json={"tags": [f"t{i}" for i in range(51)]})).status_code == 400
        assert (await cloud.put(tags, json={"tags": [f"t{i}" for i in range(50)]})).status_code == 200
        assert (await cloud.put(f"{tags}/one-more")).status_code == 400
