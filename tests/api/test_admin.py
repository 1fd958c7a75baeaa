"""What the administrator of the cloud asks below /cumulet: fault rules, the ledger, agents, the mode."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.cloud import CHEAP, TestCloud, running_cloud, test_cloud, until

from cumulet.agent.build import Supervisor
from cumulet.app import running
from cumulet.config import Config, Hosts
from cumulet.db.engine import Database, Tx
from cumulet.reconcile import mode
from cumulet.wire import agent as wire

pytestmark = pytest.mark.anyio

V1 = "/cumulet/v1"
ROUTES = (
    ("GET", "/faults"), ("POST", "/faults"), ("DELETE", "/faults"), ("DELETE", "/faults/x"), ("GET", "/steps"),
    ("GET", "/claims"), ("GET", "/debts"), ("GET", "/holders"), ("GET", "/orphans"), ("GET", "/summary"),
    ("GET", "/audit"), ("POST", "/audit"), ("DELETE", "/agents/x/orphans/x"), ("POST", "/accept"), ("GET", "/agents"), ("POST", "/tokens"), ("POST", "/agents/x/destroyed"), ("GET", "/backup"),
)  # fmt: skip


async def test_nobody_but_an_administrator_is_let_in(db: Database) -> None:
    async with test_cloud(db) as cloud:
        for method, path in ROUTES:
            for who, status in (("demo", 403), ("manager", 403), ("reader", 403), (None, 401)):
                answer = await cloud.request(method, V1 + path, as_=who, json={})
                assert answer.status_code == status, (method, path, who)


async def admin(cloud: TestCloud, method: str, path: str, **more: Any) -> httpx2.Response:
    return await cloud.request(method, V1 + path, as_="admin", **more)


async def test_a_rule_is_made_listed_and_removed(db: Database) -> None:
    async with test_cloud(db) as cloud:
        steps = (await admin(cloud, "GET", "/steps")).json()
        assert "guest.ensure" in steps["steps"]
        assert steps["effects"] == ["fail", "lose", "slow", "hold", "crash"]
        made = await admin(
            cloud,
            "POST",
            "/faults",
            json={"step": "guest.*", "effect": "fail", "server": "x", "host": "h1", "count": 2},
        )
        assert made.status_code == 201
        listed = (await admin(cloud, "GET", "/faults")).json()["faults"]
        assert listed == [made.json()]
        assert (listed[0]["remaining"], listed[0]["server"], listed[0]["host"]) == (2, "x", "h1")
        assert (await admin(cloud, "DELETE", f"/faults/{listed[0]['id']}")).status_code == 204
        assert (await admin(cloud, "DELETE", f"/faults/{listed[0]['id']}")).status_code == 404
        await admin(cloud, "POST", "/faults", json={"step": "disk.remove", "effect": "hold"})
        assert (await admin(cloud, "DELETE", "/faults")).status_code == 204
        assert (await admin(cloud, "GET", "/faults")).json() == {"faults": []}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"effect": "fail"}, "step"),
        ({"step": "guest.ensure", "effect": "explode"}, "effect"),
        ({"step": "nothing.ensure", "effect": "fail"}, "step"),
        ({"step": "guest.ensure", "effect": "slow"}, "seconds"),
        ({"step": "guest.ensure", "effect": "fail", "count": 0}, "count"),
        ({"step": "guest.ensure", "effect": "fail", "moment": "never"}, "moment"),
        ({"step": "guest.ensure", "effect": "fail", "message": "x" * 501}, "message"),
        ({"step": 7, "effect": "fail"}, "step"),
    ],
)
async def test_a_bad_rule_is_refused_and_names_the_field(db: Database, body: Any, field: str) -> None:
    async with test_cloud(db) as cloud:
        answer = await admin(cloud, "POST", "/faults", json=body)
        assert answer.status_code == 400
        assert field in answer.json()["errors"][0]["detail"]


async def test_rules_are_off_while_a_host_is_real(db: Database) -> None:
    rule = {"step": "guest.ensure", "effect": "fail"}
    async with test_cloud(db) as cloud:
        for config, status in (
            (Config(hosts=Hosts(hypervisor="qemu")), 403),
            (Config(hosts=Hosts(hypervisor="qemu"), faults=True), 201),
            (Config(), 201),
        ):
            cloud.app.cloud.config = config
            assert (await admin(cloud, "POST", "/faults", json=rule)).status_code == status
        joined = (await admin(cloud, "POST", "/tokens", json={"host": "real"})).json()
        await hello(cloud, joined, {"hypervisor": "qemu"})
        answer = await admin(cloud, "POST", "/faults", json=rule)
        assert answer.status_code == 403
        assert "faults = true" in answer.json()["errors"][0]["detail"]


async def boot(cloud: TestCloud, name: str) -> str:
    """A server of the project demo without disks of an image, and its id."""
    image = await cloud.post(
        "/image/v2/images", json={"name": "i", "disk_format": "raw", "container_format": "bare"}
    )
    id = image.json()["id"]
    sent = await cloud.put(
        f"/image/v2/images/{id}/file", content=b"bytes", headers={"Content-Type": "application/octet-stream"}
    )
    assert sent.status_code == 204, sent.text
    flavors = (await cloud.get("/compute/v2.1/flavors/detail")).json()["flavors"]
    flavor = min(flavors, key=lambda flavor: flavor["ram"])["id"]
    server = {"name": name, "imageRef": id, "flavorRef": flavor, "networks": "none"}
    made = await cloud.post("/compute/v2.1/servers", version="compute 2.96", json={"server": server})
    assert made.status_code == 202, made.text
    return str(made.json()["server"]["id"])


async def claims(cloud: TestCloud, query: str) -> list[dict[str, Any]]:
    answer = await admin(cloud, "GET", f"/claims?{query}")
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["claims"]
    return found


async def test_claims_say_what_a_server_holds_and_why_not_more(db: Database, tmp_path: Path) -> None:
    async with running_cloud(db, tmp_path) as cloud:
        rule = {"step": "guest.remove", "effect": "fail", "server": "held", "message": "no way off the moon"}
        await admin(cloud, "POST", "/faults", json=rule)
        server = await boot(cloud, "held")

        async def active() -> bool:
            return bool(
                (await cloud.get(f"/compute/v2.1/servers/{server}")).json()["server"]["status"] == "ACTIVE"
            )

        await until(active)
        assert (await cloud.delete(f"/compute/v2.1/servers/{server}")).status_code == 204

        async def failing() -> list[dict[str, Any]]:
            return [one for one in await claims(cloud, "server=held") if one["state"] == "failing"]

        found = (await until(failing))[0]
        assert (found["kind"], found["error"], found["holder"]) == (
            "guest",
            "no way off the moon",
            server,
        )
        by_id = await claims(cloud, f"server={server}")
        assert {one["kind"] for one in by_id} >= {"disk", "guest"}
        assert [one["id"] for one in await claims(cloud, f"holder={server}&kind=guest")] == [found["id"]]
        assert {one["agent"] for one in await claims(cloud, f"agent={found['agent']}")} == {found["agent"]}
        waiting = (await admin(cloud, "GET", "/holders")).json()["holders"]
        mine = next(holder for holder in waiting if holder["id"] == server)
        assert (mine["server"], mine["kind"]) == ("held", "server")
        assert mine["reason"]
        assert mine["waiting_since"]
        assert (await admin(cloud, "GET", "/claims?server=nobody")).status_code == 404
        assert (await admin(cloud, "GET", "/claims?limit=0")).status_code == 400


async def test_lists_have_pages(db: Database, tmp_path: Path) -> None:
    async with running_cloud(db, tmp_path) as cloud:
        first = await claims(cloud, "limit=1")
        second = await claims(cloud, f"limit=1000&marker={first[0]['id']}")
        assert {one["id"] for one in first + second} == {one["id"] for one in await claims(cloud, "")}


async def hello(cloud: TestCloud, joined: dict[str, str], facts: dict[str, Any]) -> httpx2.Response:
    agent, secret = joined["token"].split(".")
    said = wire.Hello(wire.VERSION, "host", joined["name"], f"directory of {joined['name']}", "s", facts)
    return await cloud.client.post(
        "/agent/v1/hello", headers={"x-agent": agent, "x-agent-token": secret}, content=encode(said)
    )


def encode(said: Any) -> bytes:
    import msgspec

    return msgspec.json.encode(said)


async def test_a_host_joins_with_its_token_and_no_other(db: Database) -> None:
    async with test_cloud(db) as cloud:
        for bad in ("", "-x", "x y", "x" * 64, "a/b"):
            assert (await admin(cloud, "POST", "/tokens", json={"host": bad})).status_code == 400, bad
        made = await admin(cloud, "POST", "/tokens", json={"host": "far"})
        assert made.status_code == 201
        joined = made.json()
        agents = (await admin(cloud, "GET", "/agents")).json()["agents"]
        assert [(a["name"], a["state"]) for a in agents] == [("far", "new")]
        assert joined["token"].split(".")[1] not in str(agents)
        wrong = {**joined, "token": joined["agent"] + ".wrong"}
        assert (await hello(cloud, wrong, {"hypervisor": "sim"})).status_code == 401
        assert (await hello(cloud, joined, {"hypervisor": "sim"})).status_code == 200
        assert (await admin(cloud, "POST", "/tokens", json={"host": "far"})).status_code == 409
        again = (await admin(cloud, "POST", "/tokens", json={"host": "far", "renew": True})).json()
        assert again["agent"] == joined["agent"]
        assert (await hello(cloud, joined, {"hypervisor": "sim"})).status_code == 401
        assert (await hello(cloud, again, {"hypervisor": "sim"})).status_code == 200


async def test_what_a_destroyed_host_owed_is_closed(db: Database, tmp_path: Path) -> None:
    async with running_cloud(db, tmp_path) as cloud:
        server = await boot(cloud, "lost")

        async def active() -> bool:
            return bool(
                (await cloud.get(f"/compute/v2.1/servers/{server}")).json()["server"]["status"] == "ACTIVE"
            )

        await until(active)
        host = (await claims(cloud, f"holder={server}&kind=guest"))[0]["agent"]
        assert (await admin(cloud, "POST", f"/agents/{host}/destroyed")).status_code == 409
        await admin(cloud, "POST", "/faults", json={"step": "*.remove", "effect": "hold", "host": host})
        service = next(
            s for s in (await cloud.get("/compute/v2.1/os-services", as_="admin", version="compute 2.53")).json()["services"]
            if s["host"] == host
        )  # fmt: skip
        forced = await cloud.put(
            f"/compute/v2.1/os-services/{service['id']}",
            as_="admin",
            version="compute 2.53",
            json={"forced_down": True},
        )
        assert forced.status_code == 200
        assert (await cloud.delete(f"/compute/v2.1/servers/{server}")).status_code == 204

        async def gone() -> bool:
            return (await cloud.get(f"/compute/v2.1/servers/{server}")).status_code == 404

        await until(gone)
        owed = (await admin(cloud, "GET", f"/debts?agent={host}")).json()["debts"]
        assert {debt["kind"] for debt in owed} == {"disk", "guest"}
        assert all(debt["holder"] is None and debt["left_reason"] for debt in owed)
        said = await admin(cloud, "POST", f"/agents/{host}/destroyed")
        assert said.status_code == 200, said.text
        assert said.json()["closed"] == len(owed)
        assert (await admin(cloud, "GET", "/debts")).json()["debts"] == []
        agents = {a["name"]: a["state"] for a in (await admin(cloud, "GET", "/agents")).json()["agents"]}
        assert agents[host] == "destroyed"
        joined = (await admin(cloud, "POST", "/tokens", json={"host": host})).json()
        assert (await hello(cloud, joined, {"hypervisor": "sim"})).status_code == 200


async def test_report_only_touches_nothing_until_it_is_accepted(db: Database, directory: Path) -> None:
    async with test_cloud(db, config=Config(auth=CHEAP, hosts=Hosts(count=2))) as cloud:

        async def active() -> bool:
            shown = (await cloud.get(f"/compute/v2.1/servers/{server}")).json()["server"]
            return bool(shown["status"] == "ACTIVE")

        async def gone() -> bool:
            return (await cloud.get(f"/compute/v2.1/servers/{server}")).status_code == 404

        async with started(cloud, directory):
            server = await boot(cloud, "kept")
            await until(active)
        await db.write(mode.enter, "a test")
        seen = await db.read(_claims)
        async with started(cloud, directory) as agents:
            health = (await cloud.client.get("/healthz")).json()
            assert health["status"] == "report-only"
            assert health["report_only"]["reason"] == "a test"
            assert (await cloud.delete(f"/compute/v2.1/servers/{server}")).status_code == 204
            # The agents hear of nothing to do: each has one full look at what it has.
            for supervisor in agents.values():
                assert supervisor.agent is not None
                await supervisor.agent.audit()
            assert [(id, seen) for id, _, seen in await db.read(_claims)] == [
                (id, seen) for id, _, seen in seen
            ]
            assert guests(directory)
            assert (await admin(cloud, "GET", "/summary")).json()["report_only"]["reason"] == "a test"
            assert (await admin(cloud, "POST", "/accept")).status_code == 204
            assert (await admin(cloud, "POST", "/accept")).status_code == 409
            await until(gone)
            assert not guests(directory)
            assert (await cloud.client.get("/healthz")).json()["status"] == "ok"


def guests(directory: Path) -> list[Path]:
    return list(directory.glob("agents/host-*/guest/*"))


@contextlib.asynccontextmanager
async def started(cloud: TestCloud, directory: Path) -> AsyncIterator[dict[str, Supervisor]]:
    """The workers and agents of the cloud, each agent in a session of its own."""
    await cloud.db.write(lambda tx: tx.run("update agents set session = null"))
    async with running(cloud.db, cloud.app, cloud.config, cloud.chance, directory) as agents:
        await until(
            lambda: cloud.db.read(lambda tx: not tx.values("select id from agents where session is null"))
        )
        yield agents


def _claims(tx: Tx) -> list[tuple[str, bool, str]]:
    return [
        (row["id"], row["wanted"], row["seen"])
        for row in tx.all("select id, wanted, seen from claims order by id")
    ]


async def test_health_tells_of_a_part_that_ended(db: Database, tmp_path: Path) -> None:
    async with running_cloud(db, tmp_path) as cloud:
        answer = await cloud.client.get("/healthz")
        assert answer.status_code == 200
        assert answer.json()["agents"] == {"up": 5, "silent": 0, "new": 0}
        cloud.app.cloud.parts["worker"].cancel()

        async def failed() -> bool:
            return (await cloud.client.get("/healthz")).status_code == 503

        await until(failed)
        assert (await cloud.client.get("/healthz")).json()["parts"]["worker"] == "ended"
