"""Users, their passwords and groups: shapes, filters, what changes do to tokens, what a delete takes along."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.cloud import CHEAP, TestCloud, test_cloud

from cumulet.chance import SeededChance
from cumulet.config import Auth, Config
from cumulet.db.engine import Database, PostgresDatabase, SqliteDatabase

pytestmark = pytest.mark.anyio

URL = "/identity/v3/users"
GROUPS = "/identity/v3/groups"


@pytest.fixture
async def cloud(db: Database) -> AsyncIterator[TestCloud]:
    async with test_cloud(db) as made:
        yield made


async def make(cloud: TestCloud, name: str = "u", **fields: Any) -> dict[str, Any]:
    response = await cloud.post(URL, as_="admin", json={"user": {"name": name, **fields}})
    assert response.status_code == 201, response.text
    user: dict[str, Any] = response.json()["user"]
    return user


async def works(cloud: TestCloud, token: str) -> bool:
    response = await cloud.get("/identity/v3/auth/projects", token=token)
    assert response.status_code in (200, 401)
    return response.status_code == 200


async def test_shape(cloud: TestCloud) -> None:
    user = await make(cloud, password="p", email="u@x", options={"ignore_password_expiry": True})
    assert user == {
        "id": user["id"], "name": "u", "domain_id": "default", "enabled": True, "email": "u@x",
        "password_expires_at": None, "options": {"ignore_password_expiry": True},
        "links": {"self": f"http://cloud{URL}/{user['id']}"},
    }  # fmt: skip
    assert len(user["id"]) == 32
    shown = await cloud.get(f"{URL}/{user['id']}", as_="admin")
    assert shown.json() == {"user": user}
    changed = await cloud.patch(
        f"{URL}/{user['id']}",
        as_="admin",
        json={"user": {"name": "v", "email": "v@x", "default_project_id": cloud.project("demo"),
                       "options": {"ignore_password_expiry": None}}},
    )  # fmt: skip
    assert changed.status_code == 200
    assert changed.json()["user"] == {
        **user, "name": "v", "email": "v@x", "default_project_id": cloud.project("demo"), "options": {},
    }  # fmt: skip


@pytest.mark.parametrize(
    "body",
    [
        {}, {"user": {}}, {"user": []}, {"user": {"name": ""}}, {"user": {"name": " "}}, {"user": {"name": "x" * 256}},
        {"user": {"name": "x", "enabled": "perhaps"}}, {"user": {"name": "x"}, "more": 1},
        {"user": {"name": "x", "options": {"what": True}}},
        {"user": {"name": "x", "password": "x" * 5000}}, {"user": {"name": "x", "note": "x" * 40000}},
        {"user": {"name": "x", "default_project_id": "default"}},
    ],
)  # fmt: skip
async def test_what_is_no_user(cloud: TestCloud, body: Any) -> None:
    assert (await cloud.post(URL, as_="admin", json=body)).status_code == 400


async def test_what_is_made_nowhere(cloud: TestCloud) -> None:
    for url, noun in ((URL, "user"), (GROUPS, "group")):
        body = {noun: {"name": "x", "domain_id": "nowhere"}}
        assert (await cloud.post(url, as_="admin", json=body)).status_code == 404


async def test_names_are_unique_in_a_domain(cloud: TestCloud) -> None:
    await make(cloud)
    assert (await cloud.post(URL, as_="admin", json={"user": {"name": "u"}})).status_code == 409
    domain = (await cloud.post("/identity/v3/domains", as_="admin", json={"domain": {"name": "d"}})).json()[
        "domain"
    ]
    other = await make(cloud, domain_id=domain["id"])
    path = f"{URL}/{other['id']}"
    assert (await cloud.patch(path, as_="admin", json={"user": {"name": "u"}})).status_code == 200
    assert (await cloud.patch(path, as_="admin", json={"user": {"domain_id": "default"}})).status_code == 400
    assert (await cloud.patch(path, as_="admin", json={"user": {"id": "x"}})).status_code == 400


async def test_filters_and_pages(cloud: TestCloud) -> None:
    for name in ("alpha", "Alphabet", "beta", "50%_off"):
        await make(cloud, name, enabled=name != "beta")

    async def names(query: str) -> list[str]:
        response = await cloud.get(f"{URL}?{query}", as_="admin")
        assert response.status_code == 200
        return [user["name"] for user in response.json()["users"]]

    assert await names("name=alpha") == ["alpha"]
    assert sorted(await names("name__startswith=alpha")) == ["alpha"]
    assert sorted(await names("name__istartswith=ALPHA")) == ["Alphabet", "alpha"]
    assert await names("name__contains=habe") == ["Alphabet"]
    assert await names("name__endswith=eta") == ["beta"]
    assert await names("name__iendswith=BET") == ["Alphabet"]
    assert await names("name__contains=%_") == ["50%_off"]
    assert await names("name__startswith=lpha") == []
    assert await names("enabled=false") == ["beta"]
    assert await names("domain_id=none") == []
    everybody = await names("")
    assert len(everybody) == len(set(everybody))
    found: list[str] = []
    url = f"{URL}?limit=3"
    while url:
        body = (await cloud.get(url, as_="admin")).json()
        assert len(body["users"]) <= 3
        found += [user["name"] for user in body["users"]]
        url = body["links"]["next"]
    assert found == everybody
    whole = (await cloud.get(URL, as_="admin")).json()
    assert whole["links"] == {"next": None, "self": f"http://cloud{URL}", "previous": None}
    assert (await cloud.get(f"{URL}?limit=x", as_="admin")).status_code == 400
    assert (await cloud.get(f"{URL}?marker=x", as_="admin")).status_code == 404


async def test_a_disabled_user_is_out_at_once_and_old_tokens_stay_worthless(cloud: TestCloud) -> None:
    text = await cloud.login(id=cloud.user("demo"), scope={"project": {"id": cloud.project("demo")}})
    assert await works(cloud, text)
    path = f"{URL}/{cloud.user('demo')}"
    await cloud.patch(path, as_="admin", json={"user": {"enabled": False}})
    assert not await works(cloud, text)
    assert (await cloud.log_in(id=cloud.user("demo"))).status_code == 401
    await cloud.patch(path, as_="admin", json={"user": {"enabled": True}})
    assert not await works(cloud, text)
    assert await works(cloud, await cloud.login(id=cloud.user("demo")))


async def test_a_new_password_ends_old_tokens_and_the_memory_of_the_old_one(cloud: TestCloud) -> None:
    user = cloud.user("demo")
    text = await cloud.login(id=user)
    await cloud.patch(f"{URL}/{user}", as_="admin", json={"user": {"password": "new"}})
    assert not await works(cloud, text)
    assert (await cloud.log_in(id=user)).status_code == 401
    assert await works(cloud, await cloud.login(id=user, password="new"))


async def change(cloud: TestCloud, old: str, new: str, user: str = "demo") -> Any:
    body = {"user": {"original_password": old, "password": new}}
    return await cloud.post(f"{URL}/{cloud.user(user)}/password", as_=None, json=body)


async def test_a_user_changes_the_password_without_a_token(cloud: TestCloud) -> None:
    text = await cloud.login(id=cloud.user("demo"))
    assert (await change(cloud, "wrong", "new")).status_code == 401
    assert (await change(cloud, "secret", "new", user="nobody")).status_code == 401
    assert await works(cloud, text)
    assert (await change(cloud, "secret", "new")).status_code == 204
    assert not await works(cloud, text)
    assert (await cloud.log_in(id=cloud.user("demo"))).status_code == 401
    assert (await cloud.log_in(id=cloud.user("demo"), password="new")).status_code == 201
    path = f"{URL}/{cloud.user('demo')}"
    await cloud.patch(path, as_="admin", json={"user": {"options": {"lock_password": True}}})
    assert (await change(cloud, "new", "newer")).status_code == 400


@pytest.fixture
def chance(db: SqliteDatabase | PostgresDatabase) -> SeededChance:
    """A clock that tests move."""
    made = SeededChance(1)
    db.chance = made
    return made


def strict(**fields: Any) -> Config:
    return Config(auth=Auth(hash_memory_kib=8, hash_passes=1, **fields))


async def test_passwords_of_before_may_not_come_back(db: Database, chance: SeededChance) -> None:
    async with test_cloud(
        db, config=strict(password_history=2, password_regex="^[a-z]+[0-9]*$"), chance=chance
    ) as cloud:
        chance.time += 1
        assert (await change(cloud, "secret", "secret")).status_code == 400
        assert (await change(cloud, "secret", "NO")).status_code == 400
        for old, new, status in (
            ("secret", "a", 204),
            ("a", "secret", 400),
            ("a", "b", 204),
            ("b", "secret", 204),
        ):
            chance.time += 1
            assert (await change(cloud, old, new)).status_code == status, (old, new)


async def test_too_many_failures_lock_a_user_for_a_time(db: Database, chance: SeededChance) -> None:
    async with test_cloud(db, config=strict(lockout_failures=2, lockout_seconds=5.0), chance=chance) as cloud:
        user = cloud.user("demo")
        assert (await cloud.log_in(id=user, password="no")).status_code == 401
        assert (await cloud.log_in(id=user)).status_code == 201
        for _ in range(2):
            assert (await cloud.log_in(id=user, password="no")).status_code == 401
        assert (await cloud.log_in(id=user)).status_code == 401
        chance.time += 6
        assert (await cloud.log_in(id=user)).status_code == 201


async def test_passwords_expire(db: Database, chance: SeededChance) -> None:
    config = strict(password_days=10, password_change_first=True, password_minimum_days=1)
    async with test_cloud(db, config=config, chance=chance) as cloud:
        user = await make(cloud, password="p")
        assert user["password_expires_at"] is not None
        assert (await cloud.log_in(id=user["id"], password="p")).status_code == 401
        chance.time += 1
        url = f"{URL}/{user['id']}/password"
        body = {"user": {"original_password": "p", "password": "q"}}
        assert (await cloud.post(url, as_=None, json=body)).status_code == 204
        chance.time += 1
        assert (await cloud.log_in(id=user["id"], password="q")).status_code == 201
        body = {"user": {"original_password": "q", "password": "r"}}
        assert (await cloud.post(url, as_=None, json=body)).status_code == 400
        chance.time += 11 * 86400
        assert (await cloud.log_in(id=user["id"], password="q")).status_code == 401
        assert (await cloud.post(url, as_=None, json=body)).status_code == 204
        chance.time += 1
        assert (await cloud.log_in(id=user["id"], password="r")).status_code == 201


async def test_a_user_goes_with_everything_of_the_users(cloud: TestCloud) -> None:
    user = cloud.user("demo")
    token = await cloud.token("demo")
    rules = [{"service": "compute", "method": "GET", "path": "/v2.1/servers"}]
    for url, body in (
        (f"{URL}/{user}/application_credentials", {"application_credential": {"name": "a", "access_rules": rules}}),
        ("/identity/v3/credentials", {"credential": {"type": "x", "blob": "b"}}),
        (f"{URL}/{user}/credentials/OS-EC2", {"tenant_id": cloud.project("demo")}),
        ("/identity/v3/OS-TRUST/trusts", {"trust": {"trustor_user_id": user, "trustee_user_id": cloud.user("other"),
                                                    "impersonation": False}}),
    ):  # fmt: skip
        assert (await cloud.post(url, token=token, json=body)).status_code == 201, url
    group = (await cloud.post(GROUPS, as_="admin", json={"group": {"name": "g"}})).json()["group"]["id"]
    assert (await cloud.put(f"{GROUPS}/{group}/users/{user}", as_="admin")).status_code == 204
    assert (await cloud.delete(f"{URL}/{user}", as_="admin")).status_code == 204
    assert not await works(cloud, token)
    assert (await cloud.get(f"{URL}/{user}", as_="admin")).status_code == 404
    assert (await cloud.delete(f"{URL}/{user}", as_="admin")).status_code == 404
    for table in (
        "application_credentials", "application_credential_rules", "access_rules", "credentials", "trusts",
        "group_members",
    ):  # fmt: skip
        assert await cloud.db.read(lambda tx, t=table: tx.value(f"select count(*) from {t}")) == 0, table
    left = "select count(*) from role_assignments where actor_id = :id"
    assert await cloud.db.read(lambda tx: tx.value(left, id=user)) == 0


async def test_groups(cloud: TestCloud) -> None:
    response = await cloud.post(
        GROUPS, as_="admin", json={"group": {"name": "g", "description": "d", "mine": 1}}
    )
    assert response.status_code == 201
    group = response.json()["group"]
    assert group == {
        "id": group["id"], "name": "g", "domain_id": "default", "description": "d", "mine": 1,
        "links": {"self": f"http://cloud{GROUPS}/{group['id']}"},
    }  # fmt: skip
    path = f"{GROUPS}/{group['id']}"
    assert (await cloud.post(GROUPS, as_="admin", json={"group": {"name": "g"}})).status_code == 409
    changed = await cloud.patch(path, as_="admin", json={"group": {"description": "e"}})
    assert changed.json()["group"] == {**group, "description": "e"}
    member = f"{path}/users/{cloud.user('demo')}"
    assert (await cloud.head(member, as_="admin")).status_code == 404
    for _ in range(2):
        assert (await cloud.put(member, as_="admin")).status_code == 204
    assert (await cloud.head(member, as_="admin")).status_code == 204
    assert [u["name"] for u in (await cloud.get(f"{path}/users", as_="admin")).json()["users"]] == ["demo"]
    mine = await cloud.get(f"{URL}/{cloud.user('demo')}/groups")
    assert [g["name"] for g in mine.json()["groups"]] == ["g"]
    assert (await cloud.delete(member, as_="admin")).status_code == 204
    assert (await cloud.delete(member, as_="admin")).status_code == 404
    assert (await cloud.delete(path, as_="admin")).status_code == 204
    assert (await cloud.get(path, as_="admin")).status_code == 404
    assert (await cloud.put(f"{path}/users/{cloud.user('demo')}", as_="admin")).status_code == 404


async def test_who_may_see_and_change_users(cloud: TestCloud) -> None:
    mine, other = f"{URL}/{cloud.user('demo')}", f"{URL}/{cloud.user('other')}"
    assert (await cloud.get(mine)).status_code == 200
    assert (await cloud.get(other)).status_code == 403
    assert (await cloud.get(f"{URL}/none")).status_code == 403
    assert (await cloud.get(URL)).status_code == 403
    for who in ("system_reader", "domain_reader", "domain_manager"):
        assert (await cloud.get(other, as_=who)).status_code == 200
        assert (await cloud.get(URL, as_=who)).status_code == 200
    body = {"user": {"name": "n", "domain_id": "default"}}
    for who, status in (("demo", 403), ("manager", 403), ("system_reader", 403), ("domain_reader", 403)):
        assert (await cloud.post(URL, as_=who, json=body)).status_code == status
        assert (await cloud.patch(mine, as_=who, json={"user": {"email": "x"}})).status_code == status
        assert (await cloud.delete(other, as_=who)).status_code == status
    assert (await cloud.post(URL, as_="domain_manager", json=body)).status_code == 201
    domain = (await cloud.post("/identity/v3/domains", as_="admin", json={"domain": {"name": "d"}})).json()[
        "domain"
    ]
    foreign = await make(cloud, "f", domain_id=domain["id"])
    assert (await cloud.get(f"{URL}/{foreign['id']}", as_="domain_manager")).status_code == 403
    seen = (await cloud.get(URL, as_="domain_manager")).json()["users"]
    assert foreign["id"] not in [user["id"] for user in seen]
    body = {"user": {"name": "n", "domain_id": domain["id"]}}
    assert (await cloud.post(URL, as_="domain_manager", json=body)).status_code == 403


def test_cheap_hashing_is_for_tests_only() -> None:
    assert Auth().hash_memory_kib > 1000 * CHEAP.hash_memory_kib
