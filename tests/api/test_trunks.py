"""Trunks: ports that carry other ports' networks."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cloud import TestCloud, fixed
from tests.network import BASE, bare_cloud, make, net, problem

from cumulet.core import holding, ports
from cumulet.db.engine import Database
from cumulet.errors import Conflict
from cumulet.values import Limits

pytestmark = pytest.mark.anyio
TRUNKS = f"{BASE}/trunks"
OTHER = fixed("project", "other")


async def some_ports(cloud: TestCloud, count: int) -> list[dict[str, Any]]:
    found = []
    for i in range(count):
        network, _ = await net(cloud, f"10.{i + 1}.0.0/24")
        found.append(await make(cloud, "port", network_id=network))
    return found


def vlan(port: dict[str, Any], number: int) -> dict[str, Any]:
    return {"port_id": port["id"], "segmentation_type": "vlan", "segmentation_id": number}


async def test_a_trunk_and_its_subports(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        parent, one, two = await some_ports(cloud, 3)
        made = await make(cloud, "trunk", port_id=parent["id"], name="t", sub_ports=[vlan(one, 10)])
        assert (made["name"], made["status"], made["sub_ports"]) == ("t", "DOWN", [vlan(one, 10)])
        path = f"{TRUNKS}/{made['id']}"
        added = await cloud.put(f"{path}/add_subports", json={"sub_ports": [vlan(two, 20)]})
        assert added.json()["sub_ports"] == [vlan(one, 10), vlan(two, 20)]
        shown = (await cloud.get(f"{BASE}/ports/{parent['id']}")).json()["port"]
        assert shown["trunk_details"] == {
            "trunk_id": made["id"],
            "sub_ports": [{**vlan(p, n), "mac_address": p["mac_address"]} for p, n in ((one, 10), (two, 20))],
        }
        carried = (await cloud.get(f"{BASE}/ports/{one['id']}")).json()["port"]
        assert carried["device_owner"] == "trunk:subport"
        assert problem(await cloud.delete(f"{BASE}/ports/{one['id']}")) == (409, "PortInUseAsSubPort")
        assert problem(await cloud.delete(f"{BASE}/ports/{parent['id']}")) == (409, "PortInUseAsTrunkParent")
        left = await cloud.put(f"{path}/remove_subports", json={"sub_ports": [{"port_id": one["id"]}]})
        assert left.json()["sub_ports"] == [vlan(two, 20)]
        gone = await cloud.put(f"{path}/remove_subports", json={"sub_ports": [{"port_id": one["id"]}]})
        assert problem(gone) == (404, "SubPortNotFound")
        assert (await cloud.get(f"{path}/get_subports")).json() == {"sub_ports": [vlan(two, 20)]}
        assert (await cloud.get(path, as_="other")).status_code == 404
        assert (await cloud.delete(path)).status_code == 204
        for port in (parent, one, two):
            assert (await cloud.get(f"{BASE}/ports/{port['id']}")).json()["port"]["device_owner"] == ""
            assert (await cloud.delete(f"{BASE}/ports/{port['id']}")).status_code == 204


async def test_subports_are_where_their_parent_is(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        parent, one, two = await some_ports(cloud, 3)
        made = await make(cloud, "trunk", port_id=parent["id"], sub_ports=[vlan(one, 10)])
        await db.write(lambda tx: ports.bind(tx, parent["id"], "h1"))
        await cloud.put(f"{TRUNKS}/{made['id']}/add_subports", json={"sub_ports": [vlan(two, 20)]})
        for port in (parent, one, two):
            shown = (await cloud.get(f"{BASE}/ports/{port['id']}", as_="admin")).json()["port"]
            assert shown["binding:host_id"] == "h1"
        thing = await db.read(lambda tx: holding.view(tx, two["id"], Limits(), kind="port"))
        assert thing is not None
        assert (thing.spec["parent"], thing.spec["vlan"], thing.spec["host"]) == (parent["id"], 20, "h1")
        assert problem(await cloud.delete(f"{TRUNKS}/{made['id']}")) == (409, "TrunkInUse")
        await db.write(
            lambda tx: tx.run("update ports set status = 'ACTIVE' where id = :id", id=parent["id"])
        )
        assert (await cloud.get(f"{TRUNKS}/{made['id']}")).json()["trunk"]["status"] == "ACTIVE"
        await db.write(lambda tx: ports.unbind(tx, parent["id"]))
        shown = (await cloud.get(f"{BASE}/ports/{one['id']}", as_="admin")).json()["port"]
        assert shown["binding:host_id"] == ""


async def test_what_cannot_be_trunked(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        parent, one, two, three = await some_ports(cloud, 4)
        made = await make(cloud, "trunk", port_id=parent["id"], sub_ports=[vlan(one, 10)])
        path = f"{TRUNKS}/{made['id']}/add_subports"
        for body, expected in (
            ([vlan(one, 11)], (409, "TrunkPortInUse")),
            ([vlan(two, 10)], (409, "DuplicateSubPort")),
            ([vlan(parent, 11)], (409, "ParentPortInUse")),
            ([vlan(two, 5000)], (400, "HTTPBadRequest")),
            ([{"port_id": two["id"], "segmentation_type": "inherit"}], (400, "InvalidInput")),
            ([{"port_id": "x"}], (400, "HTTPBadRequest")),
            ("x", (400, "HTTPBadRequest")),
            ([vlan(two, 20), vlan(three, 20)], (400, "HTTPBadRequest")),
            ([vlan(two, 20), vlan(two, 21)], (400, "HTTPBadRequest")),
        ):
            assert problem(await cloud.put(path, json={"sub_ports": body})) == expected, body
        again = await cloud.post(TRUNKS, json={"trunk": {"port_id": parent["id"]}})
        assert problem(again) == (409, "ParentPortInUse")
        await cloud.put(f"{TRUNKS}/{made['id']}", json={"trunk": {"admin_state_up": False}})
        assert problem(await cloud.put(path, json={"sub_ports": [vlan(two, 20)]})) == (409, "TrunkDisabled")
        await cloud.put(
            f"{BASE}/ports/{two['id']}", json={"port": {"device_id": "s1", "device_owner": "compute:nova"}}
        )
        await cloud.put(f"{TRUNKS}/{made['id']}", json={"trunk": {"admin_state_up": True}})
        assert problem(await cloud.put(path, json={"sub_ports": [vlan(two, 20)]})) == (409, "PortInUse")


async def test_ports_of_others_are_not_carried(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        network = (await make(cloud, "network", "admin", shared=True, project_id=OTHER))["id"]
        theirs = await make(cloud, "port", network_id=network)
        mine = await make(cloud, "port", "other", network_id=network)
        assert (await cloud.get(f"{BASE}/ports/{theirs['id']}", as_="other")).status_code == 200
        asked = {"trunk": {"port_id": mine["id"], "sub_ports": [vlan(theirs, 10)]}}
        assert (await cloud.post(TRUNKS, as_="other", json=asked)).status_code == 403
        asked = {"trunk": {"port_id": theirs["id"]}}
        assert (await cloud.post(TRUNKS, as_="other", json=asked)).status_code == 403
        assert (await cloud.get(TRUNKS, as_="admin")).json() == {"trunks": []}


async def test_a_port_that_goes_with_its_server_frees_what_it_carried(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        parent, one = await some_ports(cloud, 2)
        made = await make(cloud, "trunk", port_id=parent["id"], sub_ports=[vlan(one, 10)], tags=["t"])
        await db.write(lambda tx: ports.bind(tx, parent["id"], "h1"))
        await db.write(lambda tx: ports.delete(tx, parent["id"]))
        assert (await cloud.get(f"{TRUNKS}/{made['id']}")).status_code == 404
        shown = (await cloud.get(f"{BASE}/ports/{one['id']}", as_="admin")).json()["port"]
        assert (shown["device_owner"], shown["binding:host_id"]) == ("", "")
        assert await db.read(lambda tx: tx.all("select * from network_tags")) == []


async def test_a_carried_port_is_no_servers(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        parent, one = await some_ports(cloud, 2)
        await make(cloud, "trunk", port_id=parent["id"], sub_ports=[vlan(one, 10)])
        whose: dict[str, Any] = {"zone": "nova", "project_id": one["project_id"], "is_admin": False}
        with pytest.raises(Conflict, match="trunk"):
            await db.write(lambda tx: ports.take(tx, one["id"], server_id="s1", **whose))
        taken = await db.write(lambda tx: ports.take(tx, parent["id"], server_id="s1", **whose))
        assert taken["device_id"] == "s1"


async def test_an_administrator_moves_the_parent(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        parent, one = await some_ports(cloud, 2)
        await make(cloud, "trunk", port_id=parent["id"], sub_ports=[vlan(one, 10)])
        for host in ("h1", ""):
            path = f"{BASE}/ports/{parent['id']}"
            moved = await cloud.put(path, as_="admin", json={"port": {"binding:host_id": host}})
            assert moved.status_code == 200
            shown = (await cloud.get(f"{BASE}/ports/{one['id']}", as_="admin")).json()["port"]
            assert shown["binding:host_id"] == host
