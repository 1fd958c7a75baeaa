"""Network's quotas: limits, what is used, who may see and set them."""

from __future__ import annotations

import pytest
from tests.network import BASE, bare_cloud, make, net, problem

from cumulet.db.engine import Database

pytestmark = pytest.mark.anyio
QUOTAS = f"{BASE}/quotas"

DEFAULTS = {
    "network": 100, "subnet": 100, "subnetpool": -1, "port": 500, "router": 10, "floatingip": 50,
    "security_group": 10, "security_group_rule": 100, "rbac_policy": 10,
}  # fmt: skip


async def test_defaults_and_who_reads_them(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        demo, other = cloud.project("demo"), cloud.project("other")
        shown = (await cloud.get(f"{QUOTAS}/{demo}", as_="admin")).json()["quota"]
        assert shown == {**DEFAULTS, "project_id": demo}
        assert (await cloud.get(f"{QUOTAS}/{demo}", as_="manager")).status_code == 200
        assert (await cloud.get(f"{QUOTAS}/{demo}")).status_code == 404
        assert (await cloud.get(f"{QUOTAS}/{demo}/default")).json() == {"quota": DEFAULTS}
        assert (await cloud.get(f"{QUOTAS}/{other}/default")).status_code == 403
        assert (await cloud.get(f"{QUOTAS}/tenant")).json() == {"tenant": {"tenant_id": demo}}
        assert (await cloud.get(QUOTAS)).status_code == 403
        assert (await cloud.get(QUOTAS, as_="admin")).json() == {"quotas": []}


async def test_what_is_used_is_counted(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        demo = cloud.project("demo")
        network, _ = await net(cloud)
        await make(cloud, "port", network_id=network)
        for path in (f"{QUOTAS}/{demo}/details", f"{QUOTAS}/{demo}/details.json"):
            found = (await cloud.get(path)).json()["quota"]
            assert found["port"] == {"limit": 500, "used": 1, "reserved": 0}
            assert (found["security_group"]["used"], found["security_group_rule"]["used"]) == (1, 4)
        assert (await cloud.get(f"{QUOTAS}/{cloud.project('other')}/details")).status_code == 403


async def test_limits_are_set_and_forgotten(db: Database) -> None:
    async with bare_cloud(db) as cloud:
        demo = cloud.project("demo")
        path = f"{QUOTAS}/{demo}"
        assert (await cloud.put(path, json={"quota": {"port": 1}})).status_code == 403
        changed = await cloud.put(path, as_="admin", json={"quota": {"port": "1", "router": -1}})
        assert changed.json()["quota"] == {**DEFAULTS, "port": 1, "router": -1, "project_id": demo}
        listed = (await cloud.get(QUOTAS, as_="admin")).json()["quotas"]
        assert [(quota["project_id"], quota["port"]) for quota in listed] == [(demo, 1)]
        network, _ = await net(cloud)
        await make(cloud, "port", network_id=network)
        full = await cloud.post(f"{BASE}/ports", json={"port": {"network_id": network}})
        assert problem(full) == (409, "OverQuota")
        lower = {"quota": {"port": 0, "check_limit": True}}
        assert problem(await cloud.put(path, as_="admin", json=lower)) == (400, "InvalidInput")
        for bad in ({"port": -2}, {"port": "x"}, {"colour": 1}, {"port": 1 << 40}):
            assert (await cloud.put(path, as_="admin", json={"quota": bad})).status_code == 400, bad
        assert (await cloud.delete(path, as_="admin")).status_code == 204
        assert problem(await cloud.delete(path, as_="admin")) == (404, "TenantQuotaNotFound")
        await make(cloud, "port", network_id=network)
