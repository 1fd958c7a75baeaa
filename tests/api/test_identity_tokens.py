"""Tokens: what one gets for which proof, and how a token loses its worth."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from tests.cloud import CHEAP, TestCloud, test_cloud

from cumulet.chance import SeededChance
from cumulet.config import Config
from cumulet.core import credentials, token
from cumulet.core.bootstrap import DOMAIN, seed_identity
from cumulet.db.engine import Database, PostgresDatabase, SqliteDatabase, Tx

pytestmark = pytest.mark.anyio

URL = "/identity/v3/auth/tokens"


@pytest.fixture
async def cloud(db: Database) -> AsyncIterator[TestCloud]:
    async with test_cloud(db) as made:
        yield made


async def show(cloud: TestCloud, text: str, as_: str = "admin", query: str = "?nocatalog") -> Any:
    return await cloud.get(URL + query, as_=as_, headers={"X-Subject-Token": text})


async def test_version_documents_need_no_token(cloud: TestCloud) -> None:
    for path, status in (
        ("/identity", 300),
        ("/identity/", 300),
        ("/identity/v3", 200),
        ("/identity/v3/", 200),
    ):
        response = await cloud.get(path, as_=None)
        assert response.status_code == status
        found = response.json()
        version = found["version"] if status == 200 else found["versions"]["values"][0]
        assert version["id"].startswith("v3.")
        assert version["links"][0]["href"] == "http://cloud/identity/v3/"
    assert (await cloud.get("/", as_=None)).json()["services"]["compute"] == "http://cloud/compute/v2.1"
    assert (await cloud.get("/healthz", as_=None)).status_code == 200


async def test_a_project_token_says_who_and_where(cloud: TestCloud) -> None:
    auth = {
        "identity": {
            "methods": ["password"],
            "password": {"user": {"name": "demo", "domain": {"name": "Default"}, "password": "secret"}},
        },
        "scope": {"project": {"name": "demo", "domain": {"id": "default"}}},
    }
    response = await cloud.post(URL, as_=None, json={"auth": auth})
    assert response.status_code == 201
    text = response.headers["x-subject-token"]
    assert len(text) < 256
    body = response.json()["token"]
    assert body["user"] == {
        "domain": {"id": "default", "name": "Default"}, "id": cloud.user("demo"), "name": "demo",
        "password_expires_at": None,
    }  # fmt: skip
    assert body["project"]["id"] == cloud.project("demo")
    assert [role["name"] for role in body["roles"]] == ["member", "reader"]
    assert body["is_domain"] is False
    catalog = {service["type"]: service for service in body["catalog"]}
    assert set(catalog) == {
        "identity", "image", "compute", "placement", "network", "block-storage", "volumev3",
    }  # fmt: skip
    assert {e["interface"] for e in catalog["compute"]["endpoints"]} == {"public", "internal", "admin"}
    assert catalog["compute"]["endpoints"][0]["url"] == "http://cloud/compute/v2.1"
    assert catalog["compute"]["endpoints"][0]["region"] == "RegionOne"
    again = await show(cloud, text, query="")
    assert again.json()["token"] == body
    assert again.headers["x-subject-token"] == text
    assert "catalog" not in (await show(cloud, text)).json()["token"]


async def test_scopes(cloud: TestCloud) -> None:
    domain = (await show(cloud, await cloud.token("domain"))).json()["token"]
    assert domain["domain"] == {"id": "default", "name": "Default"}
    assert [r["name"] for r in domain["roles"]] == ["admin", "manager", "member", "reader"]
    system = (await show(cloud, await cloud.token("system"))).json()["token"]
    assert system["system"] == {"all": True}
    unscoped = (await show(cloud, await cloud.token("unscoped"), query="")).json()["token"]
    assert not {"project", "domain", "system", "roles", "catalog"} & set(unscoped)


@pytest.mark.parametrize(
    "scope", [{}, {"project": {"id": "a"}, "domain": {"id": "b"}}, {"project": {}}, "else"]
)
async def test_a_scope_that_makes_no_sense(cloud: TestCloud, scope: Any) -> None:
    assert (await cloud.log_in(id=cloud.user("demo"), scope=scope)).status_code == 400


@pytest.mark.parametrize(
    "scope",
    [{"system": {"all": True}}, {"domain": {"id": DOMAIN}}, {"project": {"id": "x"}}],
)
async def test_a_scope_without_a_role(cloud: TestCloud, scope: Any) -> None:
    assert (await cloud.log_in(id=cloud.user("demo"), scope=scope)).status_code == 401


@pytest.mark.parametrize(
    "body",
    [{}, {"auth": {}}, {"auth": {"identity": {}}}, {"auth": {"identity": {"methods": ["password"]}}}, [], 1],
)
async def test_a_body_that_makes_no_sense(cloud: TestCloud, body: Any) -> None:
    response = await cloud.post(URL, as_=None, json=body)
    assert response.status_code == 400
    assert response.json()["error"]["title"] == "Bad Request"


async def test_wrong_password_and_unknown_user_look_alike(cloud: TestCloud) -> None:
    wrong = await cloud.log_in(id=cloud.user("demo"), password="no")
    unknown = await cloud.log_in(id="nobody", password="no")
    nowhere = await cloud.log_in(name="demo", domain={"name": "nowhere"}, password="no")
    assert wrong.status_code == unknown.status_code == nowhere.status_code == 401
    assert wrong.json() == unknown.json() == nowhere.json()
    assert wrong.headers["www-authenticate"].startswith("Keystone uri=")


async def test_who_guesses_must_wait(db: Database) -> None:
    config = Config(auth=CHEAP.__class__(hash_memory_kib=8, hash_passes=1, throttle_failures=3))
    async with test_cloud(db, config=config) as cloud:
        for user in ("demo", "nobody"):
            codes = [(await cloud.log_in(id=cloud.user(user), password="no")).status_code for _ in range(4)]
            assert codes == [401, 401, 401, 429]
        refused = await cloud.log_in(id=cloud.user("demo"))
        assert int(refused.headers["retry-after"]) > 0
        assert (await cloud.log_in(id=cloud.user("reader"))).status_code == 201


async def test_default_project(cloud: TestCloud) -> None:
    def default(tx: Tx, project: str) -> None:
        tx.update("users", cloud.user("demo"), default_project_id=cloud.project(project))

    await cloud.db.write(default, "demo")
    text = await cloud.login(id=cloud.user("demo"))
    assert (await show(cloud, text)).json()["token"]["project"]["name"] == "demo"
    text = await cloud.login(id=cloud.user("demo"), scope="unscoped")
    assert "project" not in (await show(cloud, text)).json()["token"]
    await cloud.db.write(default, "other")
    text = await cloud.login(id=cloud.user("demo"))
    assert "project" not in (await show(cloud, text)).json()["token"]


async def rescope(cloud: TestCloud, text: str, scope: Any = None) -> Any:
    auth: dict[str, Any] = {"identity": {"methods": ["token"], "token": {"id": text}}}
    if scope:
        auth["scope"] = scope
    return await cloud.post(URL, as_=None, json={"auth": auth})


async def test_a_token_from_a_token(cloud: TestCloud) -> None:
    first = await cloud.token("unscoped")
    response = await rescope(cloud, first, {"project": {"id": cloud.project("demo")}})
    assert response.status_code == 201
    old, new = (await show(cloud, first)).json()["token"], response.json()["token"]
    assert set(new["methods"]) == {"password", "token"}
    assert new["expires_at"] == old["expires_at"]
    assert new["audit_ids"][1] == old["audit_ids"][0]
    second = await rescope(cloud, response.headers["x-subject-token"])
    assert second.json()["token"]["audit_ids"][1] == old["audit_ids"][0]
    system = await cloud.token("system")
    assert (await rescope(cloud, system, {"project": {"id": cloud.project("admin")}})).status_code == 403
    assert (await rescope(cloud, "no token")).status_code == 404


async def test_revocation_of_one_token_and_of_a_chain(cloud: TestCloud) -> None:
    first = await cloud.login(id=cloud.user("demo"), scope="unscoped")
    second = (await rescope(cloud, first, {"project": {"id": cloud.project("demo")}})).headers[
        "x-subject-token"
    ]
    assert (await cloud.delete(URL, token=first, headers={"X-Subject-Token": first})).status_code == 204
    assert (await show(cloud, first)).status_code == 404
    assert (await cloud.get(URL, token=first, headers={"X-Subject-Token": first})).status_code == 401
    assert (await rescope(cloud, first)).status_code == 404
    assert (await show(cloud, second)).status_code == 200
    chain = await cloud.db.read(lambda tx: token.unseal(tx, second).chain)
    await cloud.db.write(token.revoke, f"chain:{chain}")
    assert (await show(cloud, second)).status_code == 404


async def test_whose_token_one_may_look_at(cloud: TestCloud) -> None:
    mine, theirs = await cloud.token("demo"), await cloud.token("other")
    assert (await show(cloud, mine, as_="demo")).status_code == 200
    assert (await show(cloud, theirs, as_="demo")).status_code == 403
    assert (await show(cloud, theirs, as_="service")).status_code == 200
    assert (await show(cloud, theirs, as_="system_reader")).status_code == 200
    head = await cloud.head(URL, as_="admin", headers={"X-Subject-Token": mine})
    assert (head.status_code, head.content) == (200, b"")
    assert (await cloud.head(URL, as_="service", headers={"X-Subject-Token": theirs})).status_code == 403
    assert (await cloud.delete(URL, as_="demo", headers={"X-Subject-Token": theirs})).status_code == 403
    for who in ("admin", "demo"):
        assert (await show(cloud, "nonsense", as_=who)).status_code == 404
    assert (await cloud.get(URL, as_=None, headers={"X-Subject-Token": mine})).status_code == 401


async def test_keys_rotate_without_logging_anybody_out(cloud: TestCloud) -> None:
    old = await cloud.login(id=cloud.user("demo"), scope="unscoped")
    await cloud.db.write(credentials.rotate_keys)
    assert (await show(cloud, old)).status_code == 200
    for _ in range(token.KEPT_KEYS):
        await cloud.db.write(credentials.rotate_keys)
    fresh = await cloud.login(id=cloud.user("admin"), scope={"project": {"id": cloud.project("admin")}})
    found = await cloud.get(URL, token=fresh, headers={"X-Subject-Token": old})
    assert found.status_code == 404


async def test_a_service_may_look_at_a_token_that_expired_lately(
    db: SqliteDatabase | PostgresDatabase,
) -> None:
    chance = SeededChance(1)
    db.chance = chance
    async with test_cloud(db, chance=chance) as cloud:
        text = await cloud.login(id=cloud.user("demo"), scope={"project": {"id": cloud.project("demo")}})
        chance.time += 25 * 3600
        for query, status in (("", 404), ("?allow_expired=0", 404), ("?allow_expired=1", 200)):
            assert (await show(cloud, text, query=query)).status_code == status
        assert (await cloud.get("/identity/v3/auth/projects", token=text)).status_code == 401
        chance.time += 48 * 3600
        cloud._tokens.clear()
        assert (await show(cloud, text, query="?allow_expired=1")).status_code == 404


async def test_processes_that_start_at_once_seed_once(db: Database) -> None:
    def seed(tx: Tx) -> None:
        seed_identity(tx, admin_password="a", demo_password="d", memory_kib=8, passes=1)

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(db.write, seed)
    assert await db.read(lambda tx: tx.value("select count(*) from users where name = 'admin'")) == 1


async def test_another_process_is_believed_at_once(cloud: TestCloud) -> None:
    """Two processes share the database: what one changes, the other's memory must not hide."""
    from cumulet.core import epoch

    there = token.verifier(cloud.db, cloud.config)
    text = await cloud.token("demo")

    class Asked:
        id, method, path = "req-1", "GET", "/compute/v2.1/servers"

    assert (await there(text, Asked())).project_id == cloud.project("demo")

    def unassign(tx: Tx) -> None:
        tx.run("delete from role_assignments where actor_id = :id", id=cloud.user("demo"))
        epoch.touch(tx)

    await cloud.db.write(unassign)
    with pytest.raises(Exception, match="requires authentication"):
        await there(text, Asked())
