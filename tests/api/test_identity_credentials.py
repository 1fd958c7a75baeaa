"""Credentials, EC2 keys, consumers, application credentials with access rules, and trusts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from tests.cloud import TestCloud, test_cloud

from cumulet.chance import SeededChance
from cumulet.core.bootstrap import fixed
from cumulet.core.token import path_matches
from cumulet.db.engine import Database, PostgresDatabase, SqliteDatabase

pytestmark = pytest.mark.anyio

V3 = "/identity/v3"
URL = f"{V3}/credentials"
TRUSTS = f"{V3}/OS-TRUST/trusts"
MEMBER, READER = fixed("role", "member"), fixed("role", "reader")


@pytest.fixture
async def cloud(db: Database) -> AsyncIterator[TestCloud]:
    async with test_cloud(db) as made:
        yield made


async def token_by(cloud: TestCloud, **identity: Any) -> Any:
    """The response to a login by another method than a password."""
    scope = identity.pop("scope", None)
    auth: dict[str, Any] = {"identity": {"methods": list(identity), **identity}}
    if scope is not None:
        auth["scope"] = scope
    return await cloud.client.post(f"{V3}/auth/tokens?nocatalog", json={"auth": auth})


# -- Credentials ---------------------------------------------------------------------------------------------


async def test_credentials_are_encrypted_where_they_are_kept(cloud: TestCloud) -> None:
    wanted = {"type": "cert", "blob": "very secret", "project_id": cloud.project("demo")}
    made = (await cloud.post(URL, json={"credential": wanted})).json()["credential"]
    assert made == {
        **wanted, "id": made["id"], "user_id": cloud.user("demo"), "links": {"self": f"http://cloud{URL}/{made['id']}"},
    }  # fmt: skip
    kept = await cloud.db.read(lambda tx: tx.value("select blob from credentials"))
    assert "secret" not in kept
    for keys in (2, 3, 3, 3):
        # A token ends with the key that it was made with; the credential must not.
        cloud._tokens.clear()
        assert (await cloud.post("/cumulet/v1/keys", as_="admin")).json() == {"keys": keys}
    path = f"{URL}/{made['id']}"
    assert (await cloud.get(path)).json() == {"credential": made}
    changed = await cloud.patch(path, json={"credential": {"blob": {"a": 1}}})
    assert changed.json()["credential"]["blob"] == '{"a":1}'
    assert (await cloud.get(f"{URL}?type=cert")).json()["credentials"][0]["id"] == made["id"]
    assert (await cloud.get(f"{URL}?type=other")).json()["credentials"] == []
    assert (await cloud.delete(path)).status_code == 204
    assert (await cloud.get(path, as_="admin")).status_code == 404


async def test_whose_credentials_one_sees(cloud: TestCloud) -> None:
    ids = {}
    for who in ("demo", "other"):
        made = await cloud.post(URL, as_=who, json={"credential": {"type": "x", "blob": "b"}})
        ids[who] = made.json()["credential"]["id"]
    assert [c["id"] for c in (await cloud.get(URL)).json()["credentials"]] == [ids["demo"]]
    assert (await cloud.get(f"{URL}?user_id={cloud.user('other')}")).json()["credentials"] == []
    assert len((await cloud.get(URL, as_="admin")).json()["credentials"]) == 2
    assert len((await cloud.get(URL, as_="system_reader")).json()["credentials"]) == 2
    for method in ("GET", "DELETE"):
        assert (await cloud.request(method, f"{URL}/{ids['other']}")).status_code == 403
    mine = f"{URL}/{ids['demo']}"
    give = {"credential": {"user_id": cloud.user("other")}}
    assert (await cloud.patch(mine, json=give)).status_code == 403
    foreign = {"credential": {"type": "x", "blob": "b", "user_id": cloud.user("other")}}
    assert (await cloud.post(URL, json=foreign)).status_code == 403
    assert (await cloud.post(URL, as_="admin", json=foreign)).status_code == 201


async def test_ec2_keys(cloud: TestCloud) -> None:
    url = f"{V3}/users/{cloud.user('demo')}/credentials/OS-EC2"
    response = await cloud.post(url, json={"tenant_id": cloud.project("demo")})
    assert response.status_code == 201
    key = response.json()["credential"]
    path = f"{url}/{key['access']}"
    assert key == {
        "user_id": cloud.user("demo"), "tenant_id": cloud.project("demo"), "access": key["access"],
        "secret": key["secret"], "trust_id": None, "links": {"self": f"http://cloud{path}"},
    }  # fmt: skip
    assert (await cloud.get(path)).json() == {"credential": key}
    assert (await cloud.get(url)).json()["credentials"] == [key]
    # What a stranger may not see is as if it were not there.
    assert (await cloud.get(path, as_="other")).status_code == 404
    assert (await cloud.get(f"{url}/none")).status_code == 404
    assert (await cloud.post(url, as_="reader", json={"tenant_id": cloud.project("demo")})).status_code == 403
    assert (await cloud.post(url, json={"tenant_id": "none"})).status_code == 404
    blob = msgspec.json.encode({"access": key["access"], "secret": "s"}).decode()
    again = {"credential": {"type": "ec2", "blob": blob, "project_id": cloud.project("demo")}}
    assert (await cloud.post(URL, json=again)).status_code == 409
    again["credential"]["blob"] = "no json"
    assert (await cloud.post(URL, json=again)).status_code == 400
    listed = (await cloud.get(URL)).json()["credentials"][0]
    renamed = {"credential": {"blob": msgspec.json.encode({"access": "new", "secret": "s"}).decode()}}
    bound = {"credential": {"blob": msgspec.json.encode({"access": "new", "trust_id": "t"}).decode()}}
    assert (await cloud.patch(f"{URL}/{listed['id']}", json=bound)).status_code == 400
    assert (await cloud.patch(f"{URL}/{listed['id']}", json=renamed)).status_code == 200
    assert (await cloud.get(path)).status_code == 404
    path = f"{url}/new"
    assert (await cloud.get(path)).json()["credential"]["access"] == "new"
    assert (await cloud.delete(path)).status_code == 204
    assert (await cloud.get(path, as_="admin")).status_code == 404


async def test_consumers(cloud: TestCloud) -> None:
    url = f"{V3}/OS-OAUTH1/consumers"
    made = (await cloud.post(url, as_="admin", json={"consumer": {"description": "d"}})).json()["consumer"]
    secret = made.pop("secret")
    assert len(secret) == 32
    path = f"{url}/{made['id']}"
    assert made == {"id": made["id"], "description": "d", "links": {"self": f"http://cloud{path}"}}
    assert (await cloud.get(path, as_="admin")).json() == {"consumer": made}
    changed = await cloud.patch(path, as_="admin", json={"consumer": {"description": "e"}})
    assert changed.json()["consumer"]["description"] == "e"
    assert len((await cloud.get(url, as_="admin")).json()["consumers"]) == 1
    assert (await cloud.post(url, json={"consumer": {}})).status_code == 403
    assert (await cloud.delete(path, as_="admin")).status_code == 204
    assert (await cloud.get(path, as_="admin")).status_code == 404


# -- Application credentials -----------------------------------------------------------------------------------


def own(cloud: TestCloud, who: str = "demo") -> str:
    return f"{V3}/users/{cloud.user(who)}/application_credentials"


async def make(cloud: TestCloud, token: str = "", **fields: Any) -> Any:
    body = {"application_credential": {"name": "a", **fields}}
    return await cloud.post(own(cloud), token=token, json=body)


async def test_shape_of_an_application_credential(cloud: TestCloud) -> None:
    response = await make(cloud, description="d")
    assert response.status_code == 201
    made = response.json()["application_credential"]
    assert len(made.pop("secret")) == 86
    path = f"{own(cloud)}/{made['id']}"
    assert made == {
        "id": made["id"], "name": "a", "description": "d", "user_id": cloud.user("demo"), "system": None,
        "project_id": cloud.project("demo"), "expires_at": None, "unrestricted": False,
        "roles": [
            {"id": id, "name": name, "domain_id": None, "description": None, "options": {"immutable": True}}
            for id, name in ((MEMBER, "member"), (READER, "reader"))
        ],
        "links": {"self": f"http://cloud{path}"},
    }  # fmt: skip
    assert (await cloud.get(path)).json() == {"application_credential": made}
    assert (await cloud.get(own(cloud))).json()["application_credentials"] == [made]
    assert (await cloud.get(f"{own(cloud)}?name=b")).json()["application_credentials"] == []
    assert (await make(cloud)).status_code == 409
    digest = await cloud.db.read(lambda tx: tx.value("select secret_digest from application_credentials"))
    assert digest.startswith("$argon2id$")


async def test_login_with_an_application_credential(cloud: TestCloud) -> None:
    made = (await make(cloud, secret="s", roles=[{"name": "reader"}])).json()["application_credential"]
    by_name = {"name": "a", "user": {"name": "demo", "domain": {"id": "default"}}, "secret": "s"}
    for proof in ({"id": made["id"], "secret": "s"}, by_name):
        response = await token_by(cloud, application_credential=proof)
        assert response.status_code == 201, response.text
        body = response.json()["token"]
        assert body["project"]["id"] == cloud.project("demo")
        assert [role["name"] for role in body["roles"]] == ["reader"]
        assert body["application_credential"] == {"id": made["id"], "name": "a", "restricted": True}
        assert body["methods"] == ["application_credential"]
    for proof in ({"id": made["id"], "secret": "no"}, {"id": "none", "secret": "s"}):
        assert (await token_by(cloud, application_credential=proof)).status_code == 401
    scope = {"project": {"id": cloud.project("demo")}}
    proof = {"id": made["id"], "secret": "s"}
    assert (await token_by(cloud, application_credential=proof, scope=scope)).status_code == 401
    text = response.headers["x-subject-token"]
    assert (await token_by(cloud, token={"id": text}, scope=scope)).status_code == 403
    again = await token_by(cloud, token={"id": text})
    assert again.json()["token"]["application_credential"]["id"] == made["id"]
    assert (await cloud.delete(f"{own(cloud)}/{made['id']}")).status_code == 204
    for old in (text, again.headers["x-subject-token"]):
        assert (await cloud.get(f"{V3}/auth/projects", token=old)).status_code == 401


async def test_an_application_credential_cannot_outgrow_its_bounds(cloud: TestCloud) -> None:
    for roles in ([{"name": "admin"}], [{"id": fixed("role", "manager")}]):
        assert (await make(cloud, roles=roles)).status_code == 400
    assert (await make(cloud, roles=[{"name": "none"}])).status_code == 404
    assert (await make(cloud, token=await cloud.token("unscoped"))).status_code == 400
    url = own(cloud, "other")
    assert (await cloud.post(url, json={"application_credential": {"name": "x"}})).status_code == 403
    assert (
        await cloud.post(url, as_="admin", json={"application_credential": {"name": "x"}})
    ).status_code == 403
    made = (await make(cloud, secret="s")).json()["application_credential"]
    free = (await make(cloud, name="free", secret="s", unrestricted=True)).json()["application_credential"]
    login = {"id": made["id"], "secret": "s"}
    text = (await token_by(cloud, application_credential=login)).headers["x-subject-token"]
    assert (await make(cloud, token=text, name="more")).status_code == 403
    assert (await cloud.delete(f"{own(cloud)}/{free['id']}", token=text)).status_code == 403
    ec2 = {"tenant_id": cloud.project("demo")}
    assert (
        await cloud.post(f"{V3}/users/{cloud.user('demo')}/credentials/OS-EC2", token=text, json=ec2)
    ).status_code == 403
    elsewhere = {"credential": {"type": "x", "blob": "b", "project_id": cloud.project("other")}}
    assert (await cloud.post(URL, token=text, json=elsewhere)).status_code == 403
    text = (await token_by(cloud, application_credential={"id": free["id"], "secret": "s"})).headers[
        "x-subject-token"
    ]
    assert (await make(cloud, token=text, name="more")).status_code == 201
    body = {
        "trust": {
            "trustor_user_id": cloud.user("demo"),
            "trustee_user_id": cloud.user("other"),
            "impersonation": False,
        }
    }
    assert (await cloud.post(TRUSTS, token=text, json=body)).status_code == 403


async def test_whose_application_credentials_one_sees(cloud: TestCloud) -> None:
    made = (await make(cloud)).json()["application_credential"]
    mine = f"{own(cloud)}/{made['id']}"
    for who, status in (("other", 403), ("admin", 200), ("system_reader", 200)):
        assert (await cloud.get(mine, as_=who)).status_code == status
    # The path of one's own user does not make it one's own.
    borrowed = f"{own(cloud, 'other')}/{made['id']}"
    assert (await cloud.get(borrowed, as_="other")).status_code == 404
    assert (await cloud.delete(borrowed, as_="other")).status_code == 404
    assert (await cloud.get(mine)).status_code == 200
    assert (await cloud.get(f"{own(cloud)}/none")).status_code == 404


@pytest.fixture
def chance(db: SqliteDatabase | PostgresDatabase) -> SeededChance:
    made = SeededChance(1, start=1_800_000_000.0)
    db.chance = made
    return made


async def test_application_credentials_expire(db: Database, chance: SeededChance) -> None:
    async with test_cloud(db, chance=chance) as cloud:
        at = datetime.fromtimestamp(chance.time, UTC).replace(tzinfo=None) + timedelta(
            seconds=60, microseconds=123456
        )
        made = (await make(cloud, secret="s", expires_at=at.isoformat())).json()["application_credential"]
        assert made["expires_at"] == at.isoformat()
        past = (at - timedelta(days=1)).isoformat()
        assert (await make(cloud, name="b", expires_at=past)).status_code == 400
        assert (await make(cloud, name="b", expires_at="soon")).status_code == 400
        proof = {"id": made["id"], "secret": "s"}
        response = await token_by(cloud, application_credential=proof)
        text = response.headers["x-subject-token"]
        assert response.json()["token"]["expires_at"] < made["expires_at"]
        assert (await cloud.get(f"{V3}/auth/projects", token=text)).status_code == 200
        chance.time += 61
        assert (await cloud.get(f"{V3}/auth/projects", token=text)).status_code == 401
        assert (await token_by(cloud, application_credential=proof)).status_code == 401


async def test_access_rules_hold_for_every_service(cloud: TestCloud) -> None:
    rules = [
        {"service": "compute", "method": "GET", "path": "/v2.1/flavors/*"},
        {"service": "identity", "method": "GET", "path": "/v3/auth/projects"},
    ]
    made = (await make(cloud, secret="s", access_rules=rules)).json()["application_credential"]
    assert [{k: r[k] for k in ("service", "method", "path")} for r in made["access_rules"]]
    response = await token_by(cloud, application_credential={"id": made["id"], "secret": "s"})
    assert len(response.json()["token"]["application_credential"]["access_rules"]) == 2
    text = response.headers["x-subject-token"]
    for path, status in (
        ("/compute/v2.1/flavors/1", 200), ("/compute/v2.1/flavors", 401), ("/compute/v2.1/flavors/1/os-extra_specs", 401),
        (f"{V3}/auth/projects", 200), (f"{V3}/auth/domains", 401), ("/network/v2.0/networks", 401),
    ):  # fmt: skip
        assert (await cloud.get(path, token=text)).status_code == status, path
    assert (await cloud.delete("/compute/v2.1/flavors/1", token=text)).status_code == 401
    url = f"{V3}/users/{cloud.user('demo')}/access_rules"
    listed = (await cloud.get(url)).json()["access_rules"]
    assert {r["id"] for r in listed} == {r["id"] for r in made["access_rules"]}
    assert listed[0]["links"] == {"self": f"http://cloud{url}/{listed[0]['id']}"}
    assert (await cloud.get(f"{url}?service=compute")).json()["access_rules"][0]["method"] == "GET"
    rule = f"{url}/{listed[0]['id']}"
    assert (await cloud.get(rule)).json() == {"access_rule": listed[0]}
    assert (await cloud.delete(rule)).status_code == 403
    shared = await make(cloud, name="b", access_rules=[{"id": listed[0]["id"]}, rules[0]])
    assert {r["id"] for r in shared.json()["application_credential"]["access_rules"]} <= {
        r["id"] for r in listed
    }
    for id in (made["id"], shared.json()["application_credential"]["id"]):
        assert (await cloud.delete(f"{own(cloud)}/{id}")).status_code == 204
    assert (await cloud.delete(rule)).status_code == 204
    assert (await cloud.get(rule)).status_code == 404
    for wrong in (
        {"service": "x"},
        {"service": "x", "method": "GIT", "path": "/"},
        {"service": "x", "method": "GET", "path": "x"},
    ):
        assert (await make(cloud, name="c", access_rules=[wrong])).status_code == 400
    assert (await cloud.get(url, as_="other")).status_code == 403


@pytest.mark.parametrize(
    ("pattern", "path", "found"),
    [
        ("/v3/users", "/v3/users", True), ("/v3/users", "/v3/users/", True), ("/v3/users", "/v3/users/1", False),
        ("/v3/*/x", "/v3/a/x", True), ("/v3/*/x", "/v3/a/b/x", False), ("/v3/**/x", "/v3/a/b/x", True),
        ("/v3/{id}", "/v3/a", True), ("/v3/{id}", "/v3/", False), ("**", "/anything/at/all", True),
        ("/v3.", "/v3x", False), ("/v3/users", "/v3/users\n", False),
    ],
)  # fmt: skip
def test_patterns_of_access_rules(pattern: str, path: str, found: bool) -> None:
    assert path_matches(path, pattern) is found


# -- Trusts ----------------------------------------------------------------------------------------------------


async def trust(cloud: TestCloud, token: str = "", **fields: Any) -> Any:
    body = {
        "trustor_user_id": cloud.user("demo"), "trustee_user_id": cloud.user("other"), "impersonation": False,
        "project_id": cloud.project("demo"), "roles": [{"name": "member"}], **fields,
    }  # fmt: skip
    return await cloud.post(TRUSTS, token=token, json={"trust": body})


async def use(cloud: TestCloud, trust_id: str, who: str = "other") -> Any:
    return await cloud.log_in(id=cloud.user(who), scope={"OS-TRUST:trust": {"id": trust_id}})


async def test_a_trust_lets_the_trustee_act_in_the_project(cloud: TestCloud) -> None:
    response = await trust(cloud)
    assert response.status_code == 201
    made = response.json()["trust"]
    path = f"{TRUSTS}/{made['id']}"
    assert [role["name"] for role in made["roles"]] == ["member"]
    rest = {k: v for k, v in made.items() if k not in ("roles", "roles_links")}
    assert rest == {
        "id": made["id"], "trustor_user_id": cloud.user("demo"), "trustee_user_id": cloud.user("other"),
        "project_id": cloud.project("demo"), "impersonation": False, "expires_at": None, "deleted_at": None,
        "remaining_uses": None, "redelegated_trust_id": None, "redelegation_count": 0,
        "links": {"self": f"http://cloud{path}"},
    }  # fmt: skip
    assert (await cloud.get(path)).json()["trust"] == made
    assert (await cloud.get(f"{path}/roles", as_="other")).json()["roles"] == made["roles"]
    assert (await cloud.head(f"{path}/roles/{MEMBER}")).status_code == 200
    assert (await cloud.get(f"{path}/roles/{READER}")).status_code == 404
    assert (await cloud.get(f"{TRUSTS}?trustor_user_id={cloud.user('demo')}")).json()["trusts"] == [rest]
    assert (await cloud.get(f"{TRUSTS}?trustee_user_id={cloud.user('other')}")).status_code == 403
    assert (await cloud.get(TRUSTS)).status_code == 403
    assert len((await cloud.get(f"{TRUSTS}/", as_="admin")).json()["trusts"]) == 1
    for more in ("", "/roles", f"/roles/{MEMBER}"):
        assert (await cloud.get(f"{path}{more}", as_="reader")).status_code == 404
    assert (await cloud.delete(path, as_="reader")).status_code == 404
    body = (await use(cloud, made["id"])).json()["token"]
    assert body["user"]["id"] == cloud.user("other")
    assert body["project"]["id"] == cloud.project("demo")
    assert [role["name"] for role in body["roles"]] == ["member", "reader"]
    assert body["OS-TRUST:trust"] == {
        "id": made["id"], "impersonation": False, "trustor_user": {"id": cloud.user("demo")},
        "trustee_user": {"id": cloud.user("other")},
    }  # fmt: skip
    assert (await use(cloud, made["id"], "reader")).status_code == 403
    assert (await use(cloud, "none")).status_code == 401


async def test_a_trust_ends_with_what_it_stands_on(cloud: TestCloud) -> None:
    made = (await trust(cloud, impersonation=True)).json()["trust"]
    response = await use(cloud, made["id"])
    assert response.json()["token"]["user"]["id"] == cloud.user("demo")
    text = response.headers["x-subject-token"]
    assert (await cloud.get("/compute/v2.1/flavors", token=text)).status_code == 200
    assert (
        await cloud.post(f"{own(cloud)}", token=text, json={"application_credential": {"name": "x"}})
    ).status_code == 403
    scope = {"project": {"id": cloud.project("demo")}}
    assert (await token_by(cloud, token={"id": text}, scope=scope)).status_code == 403
    grant = f"{V3}/projects/{cloud.project('demo')}/users/{cloud.user('demo')}/roles/{MEMBER}"
    await cloud.delete(grant, as_="admin")
    assert (await cloud.get("/compute/v2.1/flavors", token=text)).status_code == 401
    assert (await use(cloud, made["id"])).status_code == 401
    await cloud.put(grant, as_="admin")
    assert (await use(cloud, made["id"])).status_code == 201
    path = f"{TRUSTS}/{made['id']}"
    assert (await cloud.delete(path, as_="other")).status_code == 403
    assert (await cloud.delete(path)).status_code == 204
    assert (await cloud.get(path)).status_code == 404
    assert (await cloud.get("/compute/v2.1/flavors", token=text)).status_code == 401


async def test_what_is_no_trust(cloud: TestCloud) -> None:
    for fields, status in (
        ({"roles": []}, 403), ({"roles": [{"name": "admin"}]}, 404), ({"roles": [{"name": "none"}]}, 404),
        ({"trustor_user_id": cloud.user("other")}, 403), ({"trustee_user_id": "none"}, 404),
        ({"project_id": cloud.project("other")}, 404), ({"remaining_uses": 0}, 400),
        ({"expires_at": "2001-01-01T00:00:00Z"}, 400), ({"expires_at": "x"}, 400),
        ({"allow_redelegation": True, "redelegation_count": 9}, 403),
        ({"allow_redelegation": True, "remaining_uses": 1}, 400),
    ):  # fmt: skip
        assert (await trust(cloud, **fields)).status_code == status, fields  # type: ignore[arg-type]


async def test_uses_run_out(cloud: TestCloud) -> None:
    made = (await trust(cloud, remaining_uses=2)).json()["trust"]
    for _ in range(2):
        assert (await use(cloud, made["id"])).status_code == 201
    assert (await use(cloud, made["id"])).status_code == 401


async def test_a_trust_is_passed_on_within_its_bounds(cloud: TestCloud) -> None:
    first = (await trust(cloud, impersonation=True, allow_redelegation=True)).json()["trust"]
    assert first["redelegation_count"] == 3
    text = (await use(cloud, first["id"])).headers["x-subject-token"]
    to = {"trustee_user_id": cloud.user("reader"), "impersonation": True}
    assert (await trust(cloud, text, **to, remaining_uses=1)).status_code == 403
    assert (await trust(cloud, text, **to, allow_redelegation=True, redelegation_count=1)).status_code == 403
    second = (await trust(cloud, text, **to)).json()["trust"]
    assert second["redelegated_trust_id"] == first["id"]
    assert second["redelegation_count"] == 0
    last = (await use(cloud, second["id"], "reader")).headers["x-subject-token"]
    assert (await cloud.get("/compute/v2.1/flavors", token=last)).status_code == 200
    assert (await trust(cloud, last, **to)).status_code == 403
    assert (await cloud.delete(f"{TRUSTS}/{first['id']}")).status_code == 204
    assert (await cloud.get(f"{TRUSTS}/{second['id']}", as_="admin")).status_code == 404
    assert (await cloud.get("/compute/v2.1/flavors", token=last)).status_code == 401
