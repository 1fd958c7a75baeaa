"""Roles, what implies what, who has them where, and the list of it all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.cloud import PASSWORD, TestCloud, test_cloud

from cumulet.core.bootstrap import DOMAIN, fixed
from cumulet.db.engine import Database

pytestmark = pytest.mark.anyio

V3 = "/identity/v3"
URL = f"{V3}/roles"
MEMBER, READER, ADMIN = fixed("role", "member"), fixed("role", "reader"), fixed("role", "admin")


@pytest.fixture
async def cloud(db: Database) -> AsyncIterator[TestCloud]:
    async with test_cloud(db) as made:
        yield made


async def make(cloud: TestCloud, noun: str, **fields: Any) -> str:
    plural = {"domain": "domains"}.get(noun, noun + "s")
    response = await cloud.post(f"{V3}/{plural}", as_="admin", json={noun: fields})
    assert response.status_code == 201, response.text
    return str(response.json()[noun]["id"])


async def roles_of(cloud: TestCloud, user: str, **scope: Any) -> list[str] | None:
    """Names of the roles in a token of the scope; None if there is no token to be had."""
    response = await cloud.log_in(id=user, scope=scope)
    if response.status_code == 401:
        return None
    return [role["name"] for role in response.json()["token"]["roles"]]


async def test_shape(cloud: TestCloud) -> None:
    response = await cloud.post(URL, as_="admin", json={"role": {"name": "r", "description": "d"}})
    role = response.json()["role"]
    assert role == {
        "id": role["id"], "name": "r", "domain_id": None, "description": "d", "options": {},
        "links": {"self": f"http://cloud{URL}/{role['id']}"},
    }  # fmt: skip
    path = f"{URL}/{role['id']}"
    assert (await cloud.get(path, as_="admin")).json() == {"role": role}
    assert (await cloud.post(URL, as_="admin", json={"role": {"name": "r"}})).status_code == 409
    assert (await cloud.post(URL, as_="admin", json={"role": {"name": ""}})).status_code == 400
    assert (await cloud.patch(path, as_="admin", json={"role": {"name": "s"}})).json()["role"]["name"] == "s"
    assert (await cloud.patch(path, as_="admin", json={"role": {"domain_id": DOMAIN}})).status_code == 400
    assert (
        await cloud.patch(f"{URL}/{MEMBER}", as_="admin", json={"role": {"name": "s"}})
    ).status_code == 403
    assert (await cloud.delete(f"{URL}/{MEMBER}", as_="admin")).status_code == 403
    listed = (await cloud.get(URL, as_="admin")).json()["roles"]
    assert [r["name"] for r in listed] == ["admin", "manager", "member", "reader", "s", "service"]
    assert (await cloud.delete(path, as_="admin")).status_code == 204
    assert (await cloud.get(path, as_="admin")).status_code == 404


async def test_a_role_of_a_domain_gives_what_it_implies(cloud: TestCloud) -> None:
    role = await make(cloud, "role", name="inner", domain_id=DOMAIN)
    assert [r["id"] for r in (await cloud.get(f"{URL}?domain_id={DOMAIN}", as_="admin")).json()["roles"]] == [
        role
    ]
    assert role not in [r["id"] for r in (await cloud.get(URL, as_="admin")).json()["roles"]]
    user = cloud.user("reader")
    grant = f"{V3}/projects/{cloud.project('other')}/users/{user}/roles/{role}"
    assert (await cloud.put(grant, as_="admin")).status_code == 204
    assert await roles_of(cloud, user, project={"id": cloud.project("other")}) is None
    assert (await cloud.put(f"{URL}/{role}/implies/{MEMBER}", as_="admin")).status_code == 201
    assert await roles_of(cloud, user, project={"id": cloud.project("other")}) == ["member", "reader"]
    assert (await cloud.put(f"{URL}/{MEMBER}/implies/{role}", as_="admin")).status_code == 403
    elsewhere = await make(cloud, "domain", name="d")
    project = await make(cloud, "project", name="p", domain_id=elsewhere)
    assert (
        await cloud.put(f"{V3}/projects/{project}/users/{user}/roles/{role}", as_="admin")
    ).status_code == 403
    assert (await cloud.put(f"{V3}/system/users/{user}/roles/{role}", as_="admin")).status_code == 400


async def test_what_implies_what(cloud: TestCloud) -> None:
    role = await make(cloud, "role", name="r")
    path = f"{URL}/{role}/implies"
    made = await cloud.put(f"{path}/{READER}", as_="admin")
    assert made.status_code == 201

    def short(id: str, name: str) -> dict[str, Any]:
        return {"id": id, "name": name, "links": {"self": f"http://cloud{URL}/{id}"}}

    assert made.json() == {
        "role_inference": {"prior_role": short(role, "r"), "implies": short(READER, "reader")},
        "links": {"self": f"http://cloud{path}/{READER}"},
    }
    assert (await cloud.put(f"{path}/{READER}", as_="admin")).status_code == 201
    assert (await cloud.get(f"{path}/{READER}", as_="admin")).json() == made.json()
    assert (await cloud.head(f"{path}/{READER}", as_="admin")).status_code == 204
    assert (await cloud.get(path, as_="admin")).json()["role_inference"] == {
        "prior_role": short(role, "r"), "implies": [short(READER, "reader")],
    }  # fmt: skip
    rules = (await cloud.get(f"{V3}/role_inferences", as_="admin")).json()["role_inferences"]
    assert {(r["prior_role"]["name"], i["name"]) for r in rules for i in r["implies"]} == {
        ("admin", "manager"), ("manager", "member"), ("member", "reader"), ("r", "reader"),
    }  # fmt: skip
    assert (await cloud.put(f"{path}/{ADMIN}", as_="admin")).status_code == 403
    assert (await cloud.delete(f"{path}/{READER}", as_="admin")).status_code == 204
    assert (await cloud.get(f"{path}/{READER}", as_="admin")).status_code == 404
    assert (await cloud.delete(f"{path}/{READER}", as_="admin")).status_code == 404


async def test_grants(cloud: TestCloud) -> None:
    user, project = cloud.user("other"), cloud.project("demo")
    group = await make(cloud, "group", name="g")
    await cloud.put(f"{V3}/groups/{group}/users/{user}", as_="admin")
    for target, scope in (
        (f"projects/{project}", {"project": {"id": project}}),
        (f"domains/{DOMAIN}", {"domain": {"id": DOMAIN}}),
        ("system", {"system": {"all": True}}),
    ):
        for actor in (f"users/{user}", f"groups/{group}"):
            path = f"{V3}/{target}/{actor}/roles"
            assert (await cloud.get(path, as_="admin")).json()["roles"] == []
            assert (await cloud.head(f"{path}/{MEMBER}", as_="admin")).status_code == 404
            assert await roles_of(cloud, user, **scope) is None
            for _ in range(2):
                assert (await cloud.put(f"{path}/{MEMBER}", as_="admin")).status_code == 204
            assert (await cloud.head(f"{path}/{MEMBER}", as_="admin")).status_code == 204
            assert [r["id"] for r in (await cloud.get(path, as_="admin")).json()["roles"]] == [MEMBER]
            assert await roles_of(cloud, user, **scope) == ["member", "reader"]
            text = await cloud.login(id=user, scope=scope)
            assert (await cloud.delete(f"{path}/{MEMBER}", as_="admin")).status_code == 204
            assert (await cloud.get(f"{V3}/auth/projects", token=text)).status_code == 401
            assert (await cloud.delete(f"{path}/{MEMBER}", as_="admin")).status_code == 404
    for path in (
        f"projects/none/users/{user}/roles/{MEMBER}", f"projects/{project}/users/none/roles/{MEMBER}",
        f"projects/{project}/users/{user}/roles/none", f"domains/{project}/users/{user}/roles/{MEMBER}",
    ):  # fmt: skip
        assert (await cloud.put(f"{V3}/{path}", as_="admin")).status_code == 404, path


async def test_inherited_grants_hold_below_and_not_at_their_place(cloud: TestCloud) -> None:
    user = cloud.user("reader")
    parent = await make(cloud, "project", name="parent")
    child = await make(cloud, "project", name="child", parent_id=parent)
    path = f"{V3}/OS-INHERIT/projects/{parent}/users/{user}/roles/{MEMBER}/inherited_to_projects"
    assert (await cloud.put(path, as_="admin")).status_code == 204
    assert (await cloud.head(path, as_="admin")).status_code == 204
    assert await roles_of(cloud, user, project={"id": parent}) is None
    assert await roles_of(cloud, user, project={"id": child}) == ["member", "reader"]
    mine = (await cloud.get(f"{V3}/users/{user}/projects", as_="admin")).json()["projects"]
    assert {p["name"] for p in mine} == {"demo", "child"}
    plain = f"{V3}/projects/{parent}/users/{user}/roles/{MEMBER}"
    assert (await cloud.head(plain, as_="admin")).status_code == 404
    assert (await cloud.delete(path, as_="admin")).status_code == 204
    assert await roles_of(cloud, user, project={"id": child}) is None
    group = await make(cloud, "group", name="g")
    await cloud.put(f"{V3}/groups/{group}/users/{user}", as_="admin")
    path = f"{V3}/OS-INHERIT/domains/{DOMAIN}/groups/{group}/roles"
    assert (await cloud.put(f"{path}/{READER}/inherited_to_projects", as_="admin")).status_code == 204
    listed = (await cloud.get(f"{path}/inherited_to_projects", as_="admin")).json()["roles"]
    assert [r["id"] for r in listed] == [READER]
    assert await roles_of(cloud, user, project={"id": child}) == ["reader"]
    assert await roles_of(cloud, user, domain={"id": DOMAIN}) is None


async def assignments(cloud: TestCloud, query: str, as_: str = "admin") -> list[dict[str, Any]]:
    response = await cloud.get(f"{V3}/role_assignments?{query}", as_=as_)
    assert response.status_code == 200, response.text
    found: list[dict[str, Any]] = response.json()["role_assignments"]
    return found


async def test_the_list_as_it_was_given(cloud: TestCloud) -> None:
    user, project = cloud.user("demo"), cloud.project("demo")
    assert await assignments(cloud, f"user.id={user}") == [
        {
            "role": {"id": MEMBER}, "user": {"id": user}, "scope": {"project": {"id": project}},
            "links": {"assignment": f"http://cloud{V3}/projects/{project}/users/{user}/roles/{MEMBER}"},
        }
    ]  # fmt: skip
    named = (await assignments(cloud, f"user.id={user}&include_names"))[0]
    domain = {"id": DOMAIN, "name": "Default"}
    assert named["user"] == {"id": user, "name": "demo", "domain": domain}
    assert named["role"] == {"id": MEMBER, "name": "member"}
    assert named["scope"]["project"] == {"id": project, "name": "demo", "domain": domain}
    system = await assignments(cloud, "scope.system=all&include_names")
    assert {(a["user"]["name"], a["role"]["name"]) for a in system} == {
        ("admin", "admin"),
        ("system_reader", "reader"),
    }
    assert system[0]["scope"] == {"system": {"all": True}}
    domains = await assignments(cloud, f"scope.domain.id={DOMAIN}&role.id={READER}")
    assert [a["user"]["id"] for a in domains] == [cloud.user("domain_reader")]
    for query in (
        "scope.domain.id=x&scope.project.id=y", "user.id=x&group.id=y", "scope.project.id=x&scope.system=all",
        "effective&group.id=x", "effective&scope.domain.id=x&scope.OS-INHERIT:inherited_to=projects",
        "include_subtree",
    ):  # fmt: skip
        assert (await cloud.get(f"{V3}/role_assignments?{query}", as_="admin")).status_code == 400, query


async def test_the_list_as_it_works(cloud: TestCloud) -> None:
    user = cloud.user("reader")
    parent = await make(cloud, "project", name="parent")
    child = await make(cloud, "project", name="child", parent_id=parent)
    group = await make(cloud, "group", name="g")
    await cloud.put(f"{V3}/groups/{group}/users/{user}", as_="admin")
    path = f"{V3}/OS-INHERIT/projects/{parent}/groups/{group}/roles/{MEMBER}/inherited_to_projects"
    await cloud.put(path, as_="admin")
    given = await assignments(cloud, f"group.id={group}")
    assert given == [
        {
            "role": {"id": MEMBER}, "group": {"id": group},
            "scope": {"project": {"id": parent}, "OS-INHERIT:inherited_to": "projects"},
            "links": {"assignment": f"http://cloud{path}"},
        }
    ]  # fmt: skip
    scope = {"project": {"id": child}, "OS-INHERIT:inherited_to": "projects"}
    membership = f"http://cloud{V3}/groups/{group}/users/{user}"
    effective = [
        {
            "role": {"id": MEMBER}, "user": {"id": user}, "scope": scope,
            "links": {"assignment": f"http://cloud{path}", "membership": membership},
        },
        {
            "role": {"id": READER}, "user": {"id": user}, "scope": scope,
            "links": {
                "assignment": f"http://cloud{path}", "membership": membership,
                "prior_role": f"http://cloud{V3}/prior_role/{MEMBER}/implies/{READER}",
            },
        },
    ]  # fmt: skip
    assert await assignments(cloud, f"effective&user.id={user}&scope.project.id={child}") == effective
    assert await assignments(cloud, f"effective&scope.project.id={child}") == effective
    assert await assignments(cloud, f"effective&scope.project.id={child}&role.id={READER}") == effective[1:]
    assert await assignments(cloud, f"effective&scope.project.id={parent}&include_subtree") == effective
    assert await assignments(cloud, f"effective&scope.project.id={parent}") == []
    assert len(await assignments(cloud, f"scope.project.id={parent}&include_subtree")) == 1
    of_user = await assignments(cloud, f"effective&user.id={user}&include_names")
    assert {(a["scope"]["project"]["name"], a["role"]["name"]) for a in of_user} == {
        ("demo", "reader"), ("child", "member"), ("child", "reader"),
    }  # fmt: skip
    assert len(await assignments(cloud, "effective")) > 3


async def test_a_domain_sees_its_own_assignments_only(cloud: TestCloud) -> None:
    elsewhere = await make(cloud, "domain", name="d")
    project = await make(cloud, "project", name="p", domain_id=elsewhere)
    await cloud.put(f"{V3}/projects/{project}/users/{cloud.user('demo')}/roles/{MEMBER}", as_="admin")
    for query in (f"user.id={cloud.user('demo')}", f"effective&user.id={cloud.user('demo')}"):
        seen = await assignments(cloud, query, as_="domain_reader")
        assert {a["scope"]["project"]["id"] for a in seen} == {cloud.project("demo")}
    assert (await cloud.get(f"{V3}/role_assignments")).status_code == 403
    tree = f"{V3}/role_assignments?include_subtree&scope.project.id="
    assert (await cloud.get(tree + cloud.project("demo"), as_="domain_reader")).status_code == 200
    assert (await cloud.get(tree + project, as_="domain_reader")).status_code == 403


async def test_who_may_give_roles(cloud: TestCloud) -> None:
    path = f"{V3}/projects/{cloud.project('demo')}/users/{cloud.user('other')}/roles"
    for who in ("demo", "manager", "domain_reader", "system_reader"):
        assert (await cloud.put(f"{path}/{READER}", as_=who)).status_code == 403
    assert (await cloud.put(f"{path}/{READER}", as_="domain_manager")).status_code == 204
    assert (await cloud.head(f"{path}/{READER}", as_="domain_reader")).status_code == 204
    assert (await cloud.put(f"{path}/{ADMIN}", as_="domain_manager")).status_code == 403
    assert (await cloud.delete(f"{path}/{READER}", as_="domain_manager")).status_code == 204
    system = f"{V3}/system/users/{cloud.user('demo')}/roles/{READER}"
    assert (await cloud.put(system, as_="domain_manager")).status_code == 403
    elsewhere = await make(cloud, "domain", name="d")
    project = await make(cloud, "project", name="p", domain_id=elsewhere)
    foreign = f"{V3}/projects/{project}/users/{cloud.user('other')}/roles/{READER}"
    assert (await cloud.put(foreign, as_="domain_manager")).status_code == 403
    for url in (URL, f"{URL}/{READER}"):
        assert (await cloud.get(url, as_="demo")).status_code == 403
        assert (await cloud.get(url, as_="domain_manager")).status_code == 200
    assert (await cloud.get(f"{URL}/{ADMIN}", as_="domain_manager")).status_code == 403
    assert (await cloud.post(URL, as_="domain_manager", json={"role": {"name": "x"}})).status_code == 403


async def test_a_role_taken_away_takes_its_application_credentials(cloud: TestCloud) -> None:
    user, project = cloud.user("demo"), cloud.project("demo")
    body = {"application_credential": {"name": "a", "secret": PASSWORD}}
    url = f"{V3}/users/{user}/application_credentials"
    assert (await cloud.post(url, json=body)).status_code == 201
    grant = f"{V3}/projects/{project}/users/{user}/roles/{MEMBER}"
    assert (await cloud.delete(grant, as_="admin")).status_code == 204
    assert (await cloud.put(grant, as_="admin")).status_code == 204
    assert (await cloud.get(url)).json()["application_credentials"] == []


async def test_nobody_who_goes_is_given_a_role_meanwhile(cloud: TestCloud) -> None:
    await cloud.token("admin")
    for i in range(8):
        user = await make(cloud, "user", name=f"u{i}")
        project = await make(cloud, "project", name=f"p{i}")
        grant = f"{V3}/projects/{project}/users/{user}/roles/{MEMBER}"
        answers = await asyncio.gather(
            cloud.put(grant, as_="admin"),
            cloud.delete(f"{V3}/users/{user}", as_="admin"),
            cloud.put(grant, as_="admin"),
            cloud.delete(f"{V3}/projects/{project}", as_="admin"),
            cloud.put(grant, as_="admin"),
        )
        assert {answer.status_code for answer in answers} <= {204, 404, 409}
        assert [answers[1].status_code, answers[3].status_code] == [204, 204]
    orphans = (
        "select count(*) from role_assignments where target_type <> 'system' and"
        " (target_id not in (select id from projects) or actor_id not in (select id from users))"
    )
    assert await cloud.db.read(lambda tx: tx.value(orphans)) == 0
