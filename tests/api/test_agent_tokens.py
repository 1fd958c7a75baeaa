"""An agent's token reaches what is that agent's own, and nothing else; a user's token reaches no agent's route.

The cloud runs with its own agents and a user's things, so that there is a claim of every kind. A host that joined
with a token of its own, and has nothing, tries to get at them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx2
import pytest
from tests.cloud import TestCloud, running_cloud, until
from tests.leftovers import difference, look
from tests.routes import key, lines, path_of
from tests.tenants import COMPUTE, Tenant, furnish

from cumulet.api.agent import AREA
from cumulet.core import joining
from cumulet.db.engine import Database, Tx
from cumulet.reconcile import agents

pytestmark = pytest.mark.anyio

FACTS = {"hypervisor": "sim", "inventories": {"VCPU": {"total": 1}}}


class Host:
    """A host that joined, as it speaks for itself: nothing but requests."""

    def __init__(self, cloud: TestCloud, made: Any) -> None:
        self.cloud = cloud
        self.id, self.name = str(made["agent"]), str(made["name"])
        self.secret = str(made["token"]).partition(".")[2]
        self.session = f"session of {made['token'][-8:]}"

    async def ask(self, method: str, path: str, *, as_: str = "", **more: Any) -> httpx2.Response:
        """A request with the host's token; ``as_``: the id that it gives out as its own."""
        headers = {"x-agent": as_ or self.id, "x-agent-token": self.secret}
        return await self.cloud.client.request(method, f"/agent/v1/{path}", headers=headers, **more)

    async def hello(self, **more: Any) -> httpx2.Response:
        said = {
            "version": 1, "kind": "host", "name": self.name, "directory": f"of {self.name}",
            "session": self.session, "facts": FACTS,
        }  # fmt: skip
        return await self.ask("POST", "hello", json=said | more)

    async def polls(self, **more: Any) -> httpx2.Response:
        return await self.ask("GET", "claims", params={"session": self.session, "since": 0, "wait": 0} | more)

    async def reports(self, sequence: int, *sights: Any, session: str = "", **more: Any) -> httpx2.Response:
        told = {"session": session or self.session, "sequence": sequence, "claims": sights}
        return await self.ask("POST", "report", json=told | more)


async def join(cloud: TestCloud, name: str, **more: Any) -> Host:
    return Host(cloud, await cloud.db.write(joining.token, name, **more))


class Stage:
    """The cloud, a user with one of everything, and the host that reaches for it."""

    def __init__(
        self, cloud: TestCloud, directory: Path, user: Tenant, host: Host, claims: list[Any]
    ) -> None:
        self.cloud = cloud
        self.directory = directory
        self.user = user
        self.host = host
        #: Everything in the ledger.
        self.claims = claims

    async def look(self) -> Any:
        return await asyncio.to_thread(look, self.cloud.db, self.directory)


@pytest.fixture(scope="module")
async def stage(shared_db: Database) -> AsyncIterator[Stage]:
    with TemporaryDirectory(prefix="c-") as name:
        async with running_cloud(shared_db, Path(name)) as cloud:
            user = await furnish(cloud, "demo", 1)
            host = await join(cloud, "stranger")
            assert (await host.hello()).status_code == 200

            async def rests() -> Any:
                return await cloud.db.read(
                    lambda tx: (
                        tx.one("select 1 from claims where seen <> 'present' or acted < revision") is None
                    )
                )

            await until(rests)
            claims = await cloud.db.read(lambda tx: tx.all("select * from claims order by id"))
            assert {claim["kind"] for claim in claims} >= {
                "disk",
                "tap",
                "guest",
                "volume",
                "export",
                "file",
                "lport",
            }
            yield Stage(cloud, Path(name), user, host, claims)


async def test_another_hosts_claims_are_not_served(stage: Stage) -> None:
    news = (await stage.host.polls()).json()
    assert news["claims"] == []
    assert stage.claims


async def test_what_is_said_of_another_agents_claims_is_not_heard(stage: Stage) -> None:
    before = await stage.look()
    sequence = 0
    for seen, error in (("absent", None), ("present", "it broke"), ("unknown", None)):
        for ahead in (0, 1):
            sequence += 1
            sights = [
                {
                    "id": claim["id"], "revision": claim["revision"] + ahead, "seen": seen, "error": error,
                    "facts": {"power": "off"},
                }
                for claim in stage.claims
            ]  # fmt: skip
            assert (await stage.host.reports(sequence, *sights)).status_code == 200
    # What it says that it has and nobody gave it is on record, as its own.
    orphans = await stage.cloud.db.read(lambda tx: tx.all("select agent, thing from orphans"))
    assert {row["agent"] for row in orphans} == {stage.host.id}
    sequence += 1
    assert (await stage.host.reports(sequence, orphans=[])).status_code == 200
    assert difference(before, await stage.look()) == []


async def test_bytes_of_what_is_not_its_own(stage: Stage) -> None:
    edges = await stage.cloud.db.read(lambda tx: tx.all("select claim, needs from needs"))
    files = [claim["id"] for claim in stage.claims if claim["kind"] in ("file", "volume", "disk")]
    pairs = [(edge["claim"], edge["needs"]) for edge in edges] + [(id, id) for id in files]
    assert len(pairs) > 5
    for claim, need in pairs:
        answer = await stage.host.ask("GET", f"claims/{claim}/bytes/{need}")
        nobodys = await stage.host.ask("GET", f"claims/{stage.cloud.chance.uuid()}/bytes/{need}")
        assert (answer.status_code, nobodys.status_code) == (404, 404)
        assert answer.json()["errors"][0]["detail"] == nobodys.json()["errors"][0]["detail"]


async def test_another_session_and_another_name(stage: Stage) -> None:
    cloud, host = stage.cloud, stage.host
    rows = await cloud.db.read(lambda tx: tx.all("select id, kind, name, session, directory from agents"))
    before = await stage.look()
    for row in rows:
        if row["id"] == host.id:
            continue
        # Its own id with a stranger's session, then a stranger's id with its own token.
        assert (await host.polls(session=row["session"])).status_code == 409
        assert (await host.reports(1000, session=row["session"])).status_code == 409
        for method, path, body in (
            ("GET", f"claims?session={row['session']}&since=0&wait=0", None),
            ("POST", "report", {"session": row["session"], "sequence": 10**6, "claims": []}),
            ("POST", "hello", {}),
            ("POST", "fault", {"claim": "x", "step": "disk.ensure", "moment": "before"}),
            ("GET", "claims/x/bytes/y", None),
            ("POST", "answers/x", None),
        ):
            assert (await host.ask(method, path, as_=row["id"], json=body)).status_code == 401
        assert (await host.hello(kind=row["kind"], name=row["name"])).status_code == 403
        # Whoever has the things of a stranger's directory is not known by it.
        assert (await host.hello(directory=row["directory"])).status_code == 409
    assert difference(before, await stage.look()) == []


async def test_a_question_to_another_host(stage: Stage) -> None:
    """It neither hears the question nor can it answer, even if it knew the question's id."""
    cloud = stage.cloud
    server = stage.user.things["server"]
    at = await cloud.db.read(
        lambda tx: tx.value(
            "select a.name from servers s join agents a on a.id = s.host where s.id = :id", id=server
        )
    )
    await cloud.agents[at].stop()
    path = f"{COMPUTE}/servers/{server}/action"
    asked = asyncio.create_task(cloud.post(path, json={"os-getConsoleOutput": {}}))
    questions = cloud.app.cloud.questions

    async def waits() -> Any:
        return list(questions._channels)

    try:
        (question,) = await until(waits)
        assert (await stage.host.polls()).json()["questions"] == []
        answer = await stage.host.ask("POST", f"answers/{question}", content=b"a lie")
        assert answer.status_code == 404
        refused = {"x-agent": stage.host.id, "x-agent-token": stage.host.secret, "x-error": "no"}
        assert (await cloud.client.post(f"/agent/v1/answers/{question}", headers=refused)).status_code == 404
        cloud.agents[at].start()
        answered = await asked
        assert answered.status_code == 200, answered.text
        output = answered.json()["output"]
        assert output
        assert "a lie" not in output
    finally:
        asked.cancel()
        with suppress(asyncio.CancelledError):
            await asked
        if cloud.agents[at]._task is None:
            cloud.agents[at].start()


async def test_faults_are_not_used_up_by_another(stage: Stage) -> None:
    rule = {"step": "*", "effect": "fail", "server": stage.user.things["server"], "count": 1}
    made = await stage.cloud.post("/cumulet/v1/faults", as_="admin", json=rule)
    assert made.status_code == 201, made.text
    try:
        for claim in stage.claims:
            query = {"claim": claim["id"], "step": f"{claim['kind']}.ensure", "moment": "before"}
            assert (await stage.host.ask("POST", "fault", json=query)).json()["effect"] == ""
    finally:
        await stage.cloud.delete("/cumulet/v1/faults", as_="admin")


async def test_a_token_that_was_renewed_or_whose_host_is_destroyed(stage: Stage) -> None:
    cloud = stage.cloud
    old = await join(cloud, "changing")
    assert (await old.hello()).status_code == 200
    assert (await old.polls()).status_code == 200
    new = await join(cloud, "changing", renew=True)
    assert new.id == old.id

    async def refused(host: Host) -> None:
        # A poll and a report within a session end with the session, and there is no other.
        assert (await host.polls()).status_code in (401, 409)
        assert (await host.reports(1)).status_code in (401, 409)
        assert (await host.hello()).status_code == 401
        assert (await host.ask("GET", "claims/x/bytes/y")).status_code == 401
        assert (await host.ask("POST", "answers/x")).status_code == 401

    await refused(old)
    assert (await new.hello()).status_code == 200
    await refused(old)
    assert (await new.polls()).status_code == 200

    def down(tx: Tx) -> None:
        tx.update("agents", new.id, forced_down=True)

    await cloud.db.write(down)
    assert (await cloud.post(f"/cumulet/v1/agents/{new.id}/destroyed", as_="admin")).status_code == 200
    await refused(new)


async def test_a_host_that_was_retired_gets_no_work_by_a_hello(stage: Stage) -> None:
    cloud = stage.cloud
    host = await join(cloud, "retiring")
    assert (await host.hello()).status_code == 200
    version = "compute 2.96"
    listed = (await cloud.get(f"{COMPUTE}/os-services?host=retiring", as_="admin", version=version)).json()
    path = f"{COMPUTE}/os-services/{listed['services'][0]['id']}"
    assert (await cloud.delete(path, as_="admin", version=version)).status_code == 204
    assert (await host.hello()).status_code == 200
    names = await cloud.db.read(lambda tx: tx.values("select name from resource_providers"))
    assert "retiring" not in names


async def test_users_tokens_on_agents_routes(stage: Stage) -> None:
    cloud = stage.cloud
    for who in ("admin", "service", "demo", "system"):
        token = await cloud.token(who)
        user = cloud.user("admin" if who == "system" else who)
        for route in AREA.routes:
            path = path_of(AREA, route, ["x"] * route.path.count("{"))
            for headers in (
                {"X-Auth-Token": token},
                {"X-Auth-Token": token, "x-agent": user, "x-agent-token": token},
                {"X-Auth-Token": token, "x-agent": stage.host.id, "x-agent-token": token},
                {"X-Auth-Token": token, "x-agent": stage.host.id},
            ):
                answer = await cloud.client.request(route.method, path, headers=headers)
                assert answer.status_code == 401, (who, path, headers)


async def test_agents_tokens_on_users_routes(stage: Stage) -> None:
    host = stage.host
    stored = await stage.cloud.db.read(
        lambda tx: tx.value("select token_digest from agents where id = :id", id=host.id)
    )
    assert stored == agents.digest(host.secret)
    for given in (host.secret, f"{host.id}.{host.secret}", stored):
        headers = {"X-Auth-Token": given, "x-agent": host.id, "x-agent-token": host.secret}
        wrong = []
        for area, route in lines():
            if not route.rule or area is AREA:
                continue
            path = path_of(area, route, ["x"] * route.path.count("{"))
            answer = await stage.cloud.client.request(route.method, path, headers=headers)
            if answer.status_code != 401:
                wrong.append(f"{key(area, route)}: {answer.status_code}")
        assert not wrong
        methods: dict[str, Any] = {"methods": ["token"], "token": {"id": given}}
        logged_in = await stage.cloud.client.post(
            "/identity/v3/auth/tokens", json={"auth": {"identity": methods}}
        )
        assert logged_in.status_code in (401, 404)


@pytest.mark.parametrize(
    ("kind", "facts", "field"),
    [
        ("host", {"inventories": {"VCPU": {"total": "many"}}}, "inventories"),
        ("host", {"inventories": {"VCPU": {"total": -1}}}, "inventories"),
        ("host", {"inventories": {"VCPU": {"total": 1 << 80}}}, "inventories"),
        ("host", {"inventories": {"VCPU": {"total": 1, "ratio": 1e300}}}, "inventories"),
        ("host", {"inventories": {"NO_SUCH_CLASS": {"total": 1}}}, "inventories"),
        ("host", {"inventories": []}, "inventories"),
        ("host", {"hypervisor_version": "x"}, "hypervisor_version"),
        ("host", {"booted_at": "yesterday"}, "booted_at"),
        ("host", {"cpu_info": 7}, "cpu_info"),
        ("host", {"traits": ["lower case"]}, "traits"),
        ("volume", {"capacity_gb": "much"}, "capacity_gb"),
        ("volume", {"backend": 7}, "backend"),
    ],
)
async def test_facts_that_would_break_others_are_refused(
    stage: Stage, kind: str, facts: Any, field: str
) -> None:
    """What one host says of itself stands in lists that an operator reads, and the scheduler reads."""
    cloud = stage.cloud
    host = await join(cloud, "liar")
    if kind != "host":
        secret = cloud.chance.token()
        id = await cloud.db.write(agents.register, kind, "liar", secret)
        host = Host(cloud, {"agent": id, "name": "liar", "token": f"{id}.{secret}"})
    answer = await host.hello(kind=kind, facts=FACTS | facts)
    assert answer.status_code == 400, answer.text
    assert field in answer.json()["errors"][0]["detail"]
    for path, version in (
        ("/compute/v2.1/os-hypervisors/detail", "compute 2.87"),
        ("/compute/v2.1/os-hypervisors/detail", "compute 2.96"),
        ("/volume/v3/scheduler-stats/get_pools?detail=true", "volume 3.70"),
        ("/cumulet/v1/agents", ""),
    ):
        assert (await cloud.get(path, as_="admin", version=version)).status_code == 200
