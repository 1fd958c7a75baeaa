"""Networks, floating IPs and security groups as compute showed them to old clients."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.api.test_hosts import make_host, make_server
from tests.cloud import TestCloud, test_cloud

from cumulet.db.engine import PostgresDatabase, SqliteDatabase, Tx

pytestmark = pytest.mark.anyio

URL = "/compute/v2.1"


@pytest.fixture
async def cloud(db: SqliteDatabase | PostgresDatabase) -> AsyncIterator[TestCloud]:
    async with test_cloud(db) as made:
        yield made


async def get(cloud: TestCloud, path: str, who: str = "demo") -> Any:
    answer = await cloud.get(URL + path, as_=who)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_networks(cloud: TestCloud) -> None:
    listed = {one["label"]: one for one in (await get(cloud, "/os-networks"))["networks"]}
    assert set(listed) == {"private", "public"}
    private = listed["private"]
    assert "bridge" not in private
    assert (await get(cloud, f"/os-networks/{private['id']}"))["network"] == private
    assert "bridge" in (await get(cloud, f"/os-networks/{private['id']}", "admin"))["network"]
    tenant = {one["label"]: one for one in (await get(cloud, "/os-tenant-networks"))["networks"]}
    assert tenant["private"] == {"id": private["id"], "label": "private", "cidr": "None"}
    assert set(tenant) == {"private", "public"}
    assert (await get(cloud, f"/os-tenant-networks/{private['id']}"))["network"] == tenant["private"]
    assert [one["label"] for one in (await get(cloud, "/os-networks", "other"))["networks"]] == ["public"]
    for path in (f"/os-networks/{private['id']}", f"/os-networks/{uuid.uuid4()}"):
        assert (await cloud.get(URL + path, as_="other")).status_code == 404
    assert (await cloud.get(f"{URL}/os-networks", version="compute 2.36")).status_code == 404
    assert (await cloud.post(f"{URL}/os-networks", as_="admin", json={})).status_code == 410


async def test_floating_ips(cloud: TestCloud) -> None:
    assert await get(cloud, "/os-floating-ip-pools") == {"floating_ip_pools": [{"name": "public"}]}
    made = await cloud.post(f"{URL}/os-floating-ips", json={"pool": "public"})
    floating = made.json()["floating_ip"]
    assert floating == {
        "id": floating["id"], "ip": floating["ip"], "fixed_ip": None, "instance_id": None, "pool": "public",
    }  # fmt: skip
    assert (await get(cloud, f"/os-floating-ips/{floating['id']}"))["floating_ip"] == floating
    assert (await get(cloud, "/os-floating-ips"))["floating_ips"] == [floating]
    assert (await get(cloud, "/os-floating-ips", "other"))["floating_ips"] == []
    for path in (f"/os-floating-ips/{floating['id']}", f"/os-floating-ips/{uuid.uuid4()}"):
        assert (await cloud.delete(URL + path, as_="other")).status_code == 404
    assert (await cloud.delete(f"{URL}/os-floating-ips/{floating['id']}")).status_code == 202
    assert (await get(cloud, "/os-floating-ips"))["floating_ips"] == []
    assert (await cloud.post(f"{URL}/os-floating-ips")).status_code == 200
    assert (await cloud.post(f"{URL}/os-floating-ips", json={"pool": "none"})).status_code == 404
    assert (await cloud.post(f"{URL}/os-floating-ips", json={"pool": 1})).status_code == 400
    assert (await cloud.get(f"{URL}/os-floating-ips", version="compute 2.36")).status_code == 404


async def server_with_port(cloud: TestCloud) -> tuple[str, str]:
    """A server of demo's on the private network: its id and its address."""
    host = await cloud.db.write(make_host, "h1")
    server = await cloud.db.write(make_server, host)
    networks = (await get(cloud, "/os-networks"))["networks"]
    network = next(one["id"] for one in networks if one["label"] == "private")
    port = await cloud.post("/network/v2.0/ports", json={"port": {"network_id": network}})
    key, address = port.json()["port"]["id"], port.json()["port"]["fixed_ips"][0]["ip_address"]

    def plug(tx: Tx) -> None:
        tx.update("servers", server, project_id=cloud.project("demo"))
        tx.update("ports", key, device_id=server, device_owner="compute:nova")

    await cloud.db.write(plug)
    return server, address


async def test_floating_ips_of_servers(cloud: TestCloud) -> None:
    server, address = await server_with_port(cloud)
    floating = (await cloud.post(f"{URL}/os-floating-ips")).json()["floating_ip"]
    path = f"{URL}/servers/{server}/action"

    async def act(name: str, who: str = "demo", version: str = "2.1", **asked: Any) -> int:
        body = {name: {"address": floating["ip"], **asked}}
        return (await cloud.post(path, as_=who, json=body, version=f"compute {version}")).status_code

    assert await act("removeFloatingIp") == 409
    assert await act("addFloatingIp", fixed_address="10.99.0.1") == 400
    assert await act("addFloatingIp", address="172.24.4.250") == 404
    assert await act("addFloatingIp", who="other") == 404
    assert await act("addFloatingIp", version="2.44") == 404
    assert await act("addFloatingIp") == 202
    shown = (await get(cloud, f"/os-floating-ips/{floating['id']}"))["floating_ip"]
    assert (shown["fixed_ip"], shown["instance_id"]) == (address, server)
    second = (await cloud.post(f"{URL}/os-floating-ips")).json()["floating_ip"]
    assert await act("addFloatingIp", address=second["ip"]) == 400
    assert await act("removeFloatingIp") == 202
    shown = (await get(cloud, f"/os-floating-ips/{floating['id']}"))["floating_ip"]
    assert (shown["fixed_ip"], shown["instance_id"]) == (None, None)


async def test_security_groups(cloud: TestCloud) -> None:
    body = {"security_group": {"name": "web", "description": "d"}}
    group = (await cloud.post(f"{URL}/os-security-groups", json=body)).json()["security_group"]
    spaced = {"security_group": {"name": " a b ", "description": " "}}
    other = (await cloud.post(f"{URL}/os-security-groups", json=spaced)).json()["security_group"]
    assert (await get(cloud, f"/os-security-groups/{other['id']}"))["security_group"]["name"] == " a b "
    assert (await cloud.delete(f"{URL}/os-security-groups/{other['id']}")).status_code == 202
    assert group == {
        "id": group["id"], "name": "web", "description": "d", "tenant_id": cloud.project("demo"), "rules": [],
    }  # fmt: skip
    path = f"/os-security-groups/{group['id']}"
    assert (await get(cloud, path))["security_group"] == group
    listed = (await get(cloud, "/os-security-groups"))["security_groups"]
    assert [one["name"] for one in listed] == ["default", "web"]
    assert len((await get(cloud, "/os-security-groups?limit=1"))["security_groups"]) == 1
    changed = {"security_group": {"name": "www", "description": ""}}
    assert (await cloud.put(URL + path, json=changed)).json()["security_group"]["name"] == "www"
    assert (await cloud.get(URL + path, as_="other")).status_code == 404
    assert (await cloud.delete(URL + path, as_="other")).status_code == 404
    for bad in ({"name": "x"}, {"name": "n" * 256, "description": ""}, {"name": 1, "description": ""}):
        answer = await cloud.post(f"{URL}/os-security-groups", json={"security_group": bad})
        assert answer.status_code == 400
    assert (await cloud.delete(URL + path)).status_code == 202
    assert (await cloud.get(URL + path)).status_code == 404
    assert (await cloud.get(f"{URL}/os-security-groups", version="compute 2.36")).status_code == 404


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        (
            {"ip_protocol": "tcp", "from_port": 22, "to_port": 22, "cidr": "10.0.0.0/8"},
            ("tcp", 22, 22, {"cidr": "10.0.0.0/8"}),
        ),
        (
            {"ip_protocol": "TCP", "from_port": "1", "to_port": "65535"},
            ("tcp", 1, 65535, {"cidr": "0.0.0.0/0"}),
        ),
        ({"ip_protocol": "icmp", "from_port": -1, "to_port": -1}, ("icmp", -1, -1, {"cidr": "0.0.0.0/0"})),
        (
            {"ip_protocol": "udp", "from_port": 53, "to_port": 53, "cidr": "::/0"},
            ("udp", 53, 53, {"cidr": "::/0"}),
        ),
    ],
)
async def test_rules(cloud: TestCloud, asked: dict[str, Any], shown: tuple[Any, ...]) -> None:
    body = {"security_group": {"name": "web", "description": "d"}}
    group = (await cloud.post(f"{URL}/os-security-groups", json=body)).json()["security_group"]["id"]
    rule = {"security_group_rule": {"parent_group_id": group, **asked}}
    made = await cloud.post(f"{URL}/os-security-group-rules", json=rule)
    assert made.status_code == 200, made.text
    one = made.json()["security_group_rule"]
    assert (one["ip_protocol"], one["from_port"], one["to_port"], one["ip_range"]) == shown
    assert (one["group"], one["parent_group_id"]) == ({}, group)
    assert (await get(cloud, f"/os-security-groups/{group}"))["security_group"]["rules"] == [one]
    assert (await cloud.delete(f"{URL}/os-security-group-rules/{one['id']}", as_="other")).status_code == 404
    assert (await cloud.delete(f"{URL}/os-security-group-rules/{one['id']}")).status_code == 202
    assert (await cloud.delete(f"{URL}/os-security-group-rules/{one['id']}")).status_code == 404


async def test_rules_of_groups(cloud: TestCloud) -> None:
    body = {"security_group": {"name": "web", "description": "d"}}
    group = (await cloud.post(f"{URL}/os-security-groups", json=body)).json()["security_group"]["id"]
    rule = {"security_group_rule": {"parent_group_id": group, "group_id": group, "ip_protocol": "tcp"}}
    one = (await cloud.post(f"{URL}/os-security-group-rules", json=rule)).json()["security_group_rule"]
    assert one["group"] == {"name": "web", "tenant_id": cloud.project("demo")}
    assert (one["ip_range"], one["from_port"], one["to_port"]) == ({}, 1, 65535)
    assert (await cloud.post(f"{URL}/os-security-group-rules", json=rule)).status_code == 400
    default = (await get(cloud, "/os-security-groups"))["security_groups"][0]
    assert (default["name"], len(default["rules"]) > 0) == ("default", True)
    assert (await cloud.delete(f"{URL}/os-security-groups/{default['id']}")).status_code == 400


@pytest.mark.parametrize(
    "asked",
    [
        {}, {"ip_protocol": "tcp", "from_port": 2, "to_port": 1}, {"ip_protocol": "tcp", "from_port": 0, "to_port": 1},
        {"ip_protocol": "sctp", "from_port": 1, "to_port": 1}, {"ip_protocol": "tcp", "from_port": "x", "to_port": 1},
        {"ip_protocol": "tcp", "from_port": 1, "to_port": 70000}, {"ip_protocol": "icmp", "from_port": 256, "to_port": 0},
        {"ip_protocol": "tcp", "from_port": 1, "to_port": 1, "cidr": "x"},
        {"ip_protocol": "tcp", "from_port": 1, "to_port": 1, "cidr": "10.0.0.0/0"},
    ],
)  # fmt: skip
async def test_bad_rules(cloud: TestCloud, asked: dict[str, Any]) -> None:
    body = {"security_group": {"name": "web", "description": "d"}}
    group = (await cloud.post(f"{URL}/os-security-groups", json=body)).json()["security_group"]["id"]
    rule = {"security_group_rule": {"parent_group_id": group, **asked}}
    assert (await cloud.post(f"{URL}/os-security-group-rules", json=rule)).status_code == 400
    for name in ("parent_group_id", "group_id"):
        whole = {"parent_group_id": group, "ip_protocol": "tcp", "from_port": 1, "to_port": 1}
        answer = await cloud.post(
            f"{URL}/os-security-group-rules", json={"security_group_rule": {**whole, name: "web"}}
        )
        assert answer.status_code == 400
    other = {
        "security_group_rule": {
            "parent_group_id": str(uuid.uuid4()),
            "ip_protocol": "icmp",
            "from_port": -1,
            "to_port": -1,
        }
    }
    assert (await cloud.post(f"{URL}/os-security-group-rules", json=other)).status_code == 404
