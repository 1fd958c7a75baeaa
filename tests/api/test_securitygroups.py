"""Security groups and rules."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cloud import TestCloud
from tests.network import BASE, bare_cloud, ids, make, net, problem

from cumulet.db.engine import Database

pytestmark = pytest.mark.anyio
GROUPS = f"{BASE}/security-groups"
RULES = f"{BASE}/security-group-rules"


async def group(cloud: TestCloud, as_: str = "demo", **body: Any) -> dict[str, Any]:
    return await make(cloud, "security_group", as_, path="security-groups", **body)


async def rule(cloud: TestCloud, as_: str = "demo", **body: Any) -> dict[str, Any]:
    return await make(cloud, "security_group_rule", as_, path="security-group-rules", **body)


async def test_every_project_has_a_default_group(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        for as_ in ("demo", "other", "demo"):
            groups = (await cloud.get(GROUPS, as_=as_)).json()["security_groups"]
            assert [(found["name"], found["description"]) for found in groups] == [
                ("default", "Default security group")
            ]
            rules = groups[0]["security_group_rules"]
            assert sorted((r["direction"], r["ethertype"], r["remote_group_id"]) for r in rules if r["remote_group_id"]) == [
                ("ingress", "IPv4", groups[0]["id"]), ("ingress", "IPv6", groups[0]["id"]),
            ]  # fmt: skip
            assert sorted((r["direction"], r["ethertype"]) for r in rules if not r["remote_group_id"]) == [
                ("egress", "IPv4"), ("egress", "IPv6"),
            ]  # fmt: skip


async def test_the_default_group_keeps_its_name_and_stays(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        default = (await ids(cloud, "security-groups"))[0]
        path = f"{GROUPS}/{default}"
        assert problem(await cloud.put(path, json={"security_group": {"name": "x"}})) == (
            409, "SecurityGroupCannotUpdateDefault",
        )  # fmt: skip
        assert problem(await cloud.delete(path)) == (409, "SecurityGroupCannotRemoveDefault")
        named = await cloud.post(GROUPS, json={"security_group": {"name": "Default"}})
        assert problem(named) == (409, "SecurityGroupDefaultAlreadyExists")
        other = await group(cloud, name="g")
        renamed = await cloud.put(f"{GROUPS}/{other['id']}", json={"security_group": {"name": "default"}})
        assert renamed.status_code == 409
        assert (await cloud.delete(path, as_="admin")).status_code == 204
        assert default not in await ids(cloud, "security-groups")


async def test_a_new_group_lets_everything_out(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        made = await group(cloud, name="g", description="d")
        assert [
            (r["direction"], r["protocol"], r["remote_ip_prefix"]) for r in made["security_group_rules"]
        ] == [("egress", None, None)] * 2
        changed = await cloud.put(
            f"{GROUPS}/{made['id']}", json={"security_group": {"name": "h", "description": "e"}}
        )
        assert {name: changed.json()["security_group"][name] for name in ("name", "description")} == {
            "name": "h", "description": "e",
        }  # fmt: skip
        assert (await cloud.get(f"{GROUPS}/{made['id']}", as_="other")).status_code == 404
        assert (await cloud.delete(f"{GROUPS}/{made['id']}")).status_code == 204
        assert await ids(cloud, f"security-group-rules?security_group_id={made['id']}") == []


async def test_a_group_in_use_stays(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        network_id, _ = await net(cloud)
        made = await group(cloud, name="g")
        port = await make(cloud, "port", network_id=network_id, security_groups=[made["id"]])
        refused = await cloud.delete(f"{GROUPS}/{made['id']}")
        assert problem(refused) == (409, "SecurityGroupInUse")
        assert port["id"] in refused.text
        await cloud.delete(f"{BASE}/ports/{port['id']}")
        assert (await cloud.delete(f"{GROUPS}/{made['id']}")).status_code == 204


@pytest.mark.parametrize(
    ("asked", "stored"),
    [
        (
            {"protocol": "TCP", "port_range_min": 77, "port_range_max": "77"},
            {"protocol": "tcp", "port_range_max": 77},
        ),
        ({"protocol": 17}, {"protocol": "17"}),
        ({"protocol": "any"}, {"protocol": None}),
        (
            {"protocol": "icmp", "port_range_min": 8, "port_range_max": 0},
            {"protocol": "icmp", "port_range_max": 0},
        ),
        ({"protocol": "icmp", "ethertype": "ipv6"}, {"protocol": "ipv6-icmp", "ethertype": "IPv6"}),
        ({"protocol": "tcp", "port_range_min": 1, "port_range_max": 65535}, {"port_range_min": None}),
        (
            {"remote_ip_prefix": "10.0.0.1"},
            {"remote_ip_prefix": "10.0.0.1/32", "normalized_cidr": "10.0.0.1/32"},
        ),
        (
            {"remote_ip_prefix": "10.0.0.7/24"},
            {"remote_ip_prefix": "10.0.0.7/24", "normalized_cidr": "10.0.0.0/24"},
        ),
    ],
)
async def test_rules_as_they_are_kept(db: Database, asked: dict[str, Any], stored: dict[str, Any]) -> None:
    async with bare_cloud(db) as cloud:
        made = await group(cloud, name="g")
        found = await rule(cloud, security_group_id=made["id"], direction="ingress", **asked)
        assert {name: found[name] for name in stored} == stored
        assert (await cloud.get(f"{RULES}/{found['id']}")).json()["security_group_rule"] == found


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"protocol": "bad"}, "Security group rule protocol bad not supported"),
        ({"protocol": 256}, "protocol 256 not supported"),
        ({"ethertype": "x"}, "ethertype 'x' not supported"),
        ({"direction": "sideways"}, "Invalid input for direction"),
        ({"remote_ip_prefix": "192.168.1.1/33"}, "Invalid CIDR"),
        ({"remote_ip_prefix": "192.168.1./24"}, "Invalid CIDR"),
        ({"remote_ip_prefix": "256"}, "Invalid CIDR"),
        ({"remote_ip_prefix": "10.0.0.0/8", "ethertype": "IPv6"}, "Conflicting value ethertype"),
        ({"protocol": "tcp", "port_range_min": -16, "port_range_max": 80}, "Invalid value for port -16"),
        (
            {"protocol": "tcp", "port_range_min": 80, "port_range_max": 79},
            "port_range_min must be <= port_range_max",
        ),
        ({"protocol": "tcp", "port_range_min": 80, "port_range_max": 65536}, "Invalid value for port 65536"),
        ({"protocol": "tcp", "port_range_max": 6}, "port_range_min must be <= port_range_max"),
        ({"protocol": "icmp", "port_range_min": 1, "port_range_max": 256}, "Invalid value for ICMP code"),
        ({"protocol": "icmp", "port_range_min": 300, "port_range_max": 1}, "Invalid value for ICMP type"),
        ({"protocol": "icmp", "port_range_max": 6}, "ICMP type (port-range-min) is missing"),
        ({"port_range_min": 1, "port_range_max": 2}, "Must also specify protocol"),
        (
            {"protocol": "gre", "port_range_min": 1, "port_range_max": 2},
            "Ports cannot be specified for protocol 47",
        ),
        ({"protocol": "ipv6-icmp"}, "Invalid ethertype IPv4 for protocol ipv6-icmp"),
    ],
)
async def test_what_cannot_be_a_rule(db: Database, body: dict[str, Any], message: str) -> None:
    async with bare_cloud(db) as cloud:
        made = await group(cloud, name="g")
        asked = {"security_group_id": made["id"], "direction": "ingress", **body}
        response = await cloud.post(RULES, json={"security_group_rule": asked})
        assert response.status_code == 400, response.text
        assert message in response.json()["NeutronError"]["message"]


async def test_what_a_rule_refers_to_must_be_there(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        mine, foreign = await group(cloud, name="g"), await group(cloud, "other", name="g")
        for asked in (
            {"security_group_id": "6f1b7d2e-4a3c-4a52-9f2c-000000000000"},
            {"security_group_id": foreign["id"]},
            {"security_group_id": mine["id"], "remote_group_id": "bad_group_id"},
            {"security_group_id": mine["id"], "remote_group_id": foreign["id"]},
        ):
            response = await cloud.post(
                RULES, json={"security_group_rule": {"direction": "ingress", **asked}}
            )
            assert problem(response) == (404, "SecurityGroupNotFound"), asked
        both = {
            "security_group_id": mine["id"],
            "remote_group_id": mine["id"],
            "remote_ip_prefix": "10.0.0.0/8",
        }
        response = await cloud.post(RULES, json={"security_group_rule": {"direction": "ingress", **both}})
        assert problem(response) == (400, "SecurityGroupMultipleRemoteEntites")


async def test_the_same_rule_twice(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        made = await group(cloud, name="g")
        body = {"security_group_id": made["id"], "direction": "ingress", "protocol": "tcp", "port_range_min": 66,
                "port_range_max": 67}  # fmt: skip
        first = await rule(cloud, **body)
        again = await cloud.post(RULES, json={"security_group_rule": {**body, "protocol": "6"}})
        assert problem(again) == (409, "SecurityGroupRuleExists")
        assert first["id"] in again.text
        bulk = {"security_group_rules": [{**body, "port_range_min": 1}, {**body, "port_range_min": 1}]}
        assert (await cloud.post(RULES, json=bulk)).status_code == 409
        assert len(await ids(cloud, f"security-group-rules?security_group_id={made['id']}")) == 3


async def test_rules_are_listed_and_removed_by_their_owner(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        made = await group(cloud, name="g")
        found = await rule(cloud, security_group_id=made["id"], direction="ingress", protocol="udp")
        assert found["id"] in await ids(cloud, "security-group-rules?protocol=udp")
        assert found["id"] not in await ids(cloud, "security-group-rules", "other")
        assert (await cloud.delete(f"{RULES}/{found['id']}", as_="other")).status_code == 404
        assert (await cloud.delete(f"{RULES}/{found['id']}", as_="reader")).status_code == 403
        assert (await cloud.delete(f"{RULES}/{found['id']}")).status_code == 204
        assert problem(await cloud.get(f"{RULES}/{found['id']}")) == (404, "SecurityGroupRuleNotFound")


async def test_stateful_and_stateless_do_not_go_together(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        network_id, _ = await net(cloud)
        one, other = await group(cloud, name="a"), await group(cloud, name="b", stateful=False)
        body = {"network_id": network_id, "security_groups": [one["id"], other["id"]]}
        response = await cloud.post(f"{BASE}/ports", json={"port": body})
        assert problem(response) == (409, "SecurityGroupConflict")
