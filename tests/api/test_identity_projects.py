"""Projects, domains, their tree and tags: shapes, rules of the tree, what goes with them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.cloud import TestCloud, test_cloud

from cumulet.db.engine import Database

pytestmark = pytest.mark.anyio

URL = "/identity/v3/projects"
DOMAINS = "/identity/v3/domains"


@pytest.fixture
async def cloud(db: Database) -> AsyncIterator[TestCloud]:
    async with test_cloud(db) as made:
        yield made


async def make(cloud: TestCloud, name: str = "p", **fields: Any) -> dict[str, Any]:
    response = await cloud.post(URL, as_="admin", json={"project": {"name": name, **fields}})
    assert response.status_code == 201, response.text
    project: dict[str, Any] = response.json()["project"]
    return project


async def make_domain(cloud: TestCloud, name: str = "d", **fields: Any) -> dict[str, Any]:
    response = await cloud.post(DOMAINS, as_="admin", json={"domain": {"name": name, **fields}})
    assert response.status_code == 201, response.text
    domain: dict[str, Any] = response.json()["domain"]
    return domain


async def test_shape(cloud: TestCloud) -> None:
    project = await make(cloud, description="d", tags=["b", "a"], mine={"x": 1})
    assert project == {
        "id": project["id"], "name": "p", "domain_id": "default", "parent_id": "default", "description": "d",
        "enabled": True, "is_domain": False, "tags": ["b", "a"], "options": {}, "mine": {"x": 1},
        "links": {"self": f"http://cloud{URL}/{project['id']}"},
    }  # fmt: skip
    path = f"{URL}/{project['id']}"
    assert (await cloud.get(path, as_="admin")).json() == {"project": {**project, "tags": ["a", "b"]}}
    changed = await cloud.patch(
        path, as_="admin", json={"project": {"name": "q", "enabled": False, "tags": []}}
    )
    assert changed.json()["project"] == {**project, "name": "q", "enabled": False, "tags": []}
    assert (await cloud.delete(path, as_="admin")).status_code == 204
    assert (await cloud.get(path, as_="admin")).status_code == 404


@pytest.mark.parametrize(
    "fields",
    [
        {"name": ""}, {"name": "x" * 65}, {"parent_id": "none"}, {"domain_id": "none"}, {"tags": ["a/b"]},
        {"tags": ["a", "a"]}, {"tags": [str(i) for i in range(81)]}, {"enabled": 7},
        {"is_domain": True, "parent_id": "default"}, {"options": {"x": 1}},
    ],
)  # fmt: skip
async def test_what_is_no_project(cloud: TestCloud, fields: Any) -> None:
    body = {"project": {"name": "p", **fields}}
    assert (await cloud.post(URL, as_="admin", json=body)).status_code == 400


async def test_names_are_unique_in_a_domain(cloud: TestCloud) -> None:
    await make(cloud)
    assert (await cloud.post(URL, as_="admin", json={"project": {"name": "p"}})).status_code == 409
    domain = await make_domain(cloud)
    await make(cloud, domain_id=domain["id"])
    assert (await cloud.post(DOMAINS, as_="admin", json={"domain": {"name": "d"}})).status_code == 409


async def test_the_tree(cloud: TestCloud) -> None:
    chain = [await make(cloud, "l0")]
    for i in range(1, 5):
        chain.append(await make(cloud, f"l{i}", parent_id=chain[-1]["id"]))
    body = {"project": {"name": "deep", "parent_id": chain[-1]["id"]}}
    assert (await cloud.post(URL, as_="admin", json=body)).status_code == 403
    top, second = f"{URL}/{chain[0]['id']}", f"{URL}/{chain[1]['id']}"
    assert (await cloud.delete(top, as_="admin")).status_code == 403
    assert (await cloud.patch(top, as_="admin", json={"project": {"enabled": False}})).status_code == 403
    assert (
        await cloud.patch(second, as_="admin", json={"project": {"parent_id": "default"}})
    ).status_code == 403
    assert (await cloud.patch(second, as_="admin", json={"project": {"domain_id": "x"}})).status_code == 400
    for project in reversed(chain):
        path = f"{URL}/{project['id']}"
        assert (await cloud.patch(path, as_="admin", json={"project": {"enabled": False}})).status_code == 200
    assert (await cloud.patch(second, as_="admin", json={"project": {"enabled": True}})).status_code == 403
    body = {"project": {"name": "below", "parent_id": chain[0]["id"]}}
    assert (await cloud.post(URL, as_="admin", json=body)).status_code == 400
    found = (await cloud.get(f"{top}?subtree_as_ids&parents_as_ids", as_="admin")).json()["project"]
    ids = [project["id"] for project in chain]
    assert found["parents"] == {"default": None}
    assert found["subtree"] == {ids[1]: {ids[2]: {ids[3]: {ids[4]: None}}}}
    deep = (await cloud.get(f"{URL}/{ids[2]}?parents_as_ids", as_="admin")).json()["project"]
    assert deep["parents"] == {ids[1]: {ids[0]: {"default": None}}}
    assert (await cloud.get(f"{top}?subtree_as_ids&subtree_as_list", as_="admin")).status_code == 400
    assert (await cloud.get(f"{top}?subtree_as_list", as_="admin")).json()["project"]["subtree"] == []
    role = await cloud.db.read(lambda tx: tx.value("select id from roles where name = 'reader'"))
    await cloud.put(f"{URL}/{ids[2]}/users/{cloud.user('admin')}/roles/{role}", as_="admin")
    found = (await cloud.get(f"{top}?subtree_as_list&include_limits", as_="admin")).json()["project"][
        "subtree"
    ]
    assert [one["project"]["id"] for one in found] == [ids[2]]
    assert found[0]["project"]["limits"] == []


async def test_filters(cloud: TestCloud) -> None:
    first = await make(cloud, "one", tags=["red", "green"])
    await make(cloud, "two", tags=["red"], enabled=False)
    await make(cloud, "three", parent_id=first["id"])

    async def names(query: str) -> list[str]:
        return sorted(p["name"] for p in (await cloud.get(f"{URL}?{query}", as_="admin")).json()["projects"])

    assert await names("tags=red,green") == ["one"]
    assert await names("tags-any=red,green") == ["one", "two"]
    rest = {"admin", "demo", "other", "service", "three"}
    assert set(await names("not-tags=red,green")) == rest | {"two"}
    assert set(await names("not-tags-any=red,green")) == rest
    assert await names("enabled=0") == ["two"]
    assert await names(f"parent_id={first['id']}") == ["three"]
    assert await names("name=one&tags=red") == ["one"]
    assert await names("is_domain=1") == ["Default"]
    assert "Default" not in await names("")


async def test_tags(cloud: TestCloud) -> None:
    project = await make(cloud)
    path = f"{URL}/{project['id']}/tags"
    added = await cloud.put(f"{path}/a", as_="admin")
    assert (added.status_code, added.content) == (201, b"")
    assert added.headers["location"] == f"http://cloud{path}/a"
    assert (await cloud.put(f"{path}/a", as_="admin")).status_code == 201
    assert (await cloud.head(f"{path}/a", as_="admin")).status_code == 204
    assert (await cloud.get(f"{path}/b", as_="admin")).status_code == 404
    shown = await cloud.get(path, as_="admin")
    assert shown.json() == {"tags": ["a"], "links": {"self": f"http://cloud{path}"}}
    assert (await cloud.put(path, as_="admin", json={"tags": ["x", "y"]})).json()["tags"] == ["x", "y"]
    assert (await cloud.put(path, as_="admin", json={"tags": ["a,b"]})).status_code == 400
    assert (await cloud.delete(f"{path}/x", as_="admin")).status_code == 204
    assert (await cloud.delete(f"{path}/x", as_="admin")).status_code == 404
    assert (await cloud.put(path, as_="admin", json={"tags": [str(i) for i in range(80)]})).status_code == 200
    assert (await cloud.put(f"{path}/more", as_="admin")).status_code == 400
    assert (await cloud.delete(path, as_="admin")).status_code == 204
    assert (await cloud.get(path, as_="admin")).json()["tags"] == []


async def test_a_domain_is_a_project_too(cloud: TestCloud) -> None:
    domain = await make_domain(cloud, description="x", tags=["t"])
    assert domain == {
        "id": domain["id"], "name": "d", "description": "x", "enabled": True, "tags": ["t"], "options": {},
        "links": {"self": f"http://cloud{DOMAINS}/{domain['id']}"},
    }  # fmt: skip
    project = (await cloud.get(f"{URL}/{domain['id']}", as_="admin")).json()["project"]
    assert (project["is_domain"], project["domain_id"], project["parent_id"]) == (True, None, None)
    made = await make(cloud, "d2", is_domain=True)
    assert (await cloud.get(f"{DOMAINS}/{made['id']}", as_="admin")).json()["domain"]["name"] == "d2"
    assert (await cloud.get(f"{DOMAINS}/{cloud.project('demo')}", as_="admin")).status_code == 404
    chosen = "0123456789abcdef0123456789abcdef"
    assert (await make_domain(cloud, "d3", explicit_domain_id=chosen))["id"] == chosen
    body = {"domain": {"name": "d4", "explicit_domain_id": "short"}}
    assert (await cloud.post(DOMAINS, as_="admin", json=body)).status_code == 400
    names = [
        d["name"] for d in (await cloud.get(f"{DOMAINS}?name__startswith=d", as_="admin")).json()["domains"]
    ]
    assert names == ["d", "d2", "d3"]


async def test_a_disabled_domain_shuts_out_its_users_and_projects(cloud: TestCloud) -> None:
    domain = await make_domain(cloud)
    body = {"user": {"name": "u", "password": "p", "domain_id": domain["id"]}}
    user = (await cloud.post("/identity/v3/users", as_="admin", json=body)).json()["user"]
    project = await make(cloud, domain_id=domain["id"])
    role = await cloud.db.read(lambda tx: tx.value("select id from roles where name = 'member'"))
    for who in (user["id"], cloud.user("demo")):
        await cloud.put(f"{URL}/{project['id']}/users/{who}/roles/{role}", as_="admin")
    scope = {"project": {"id": project["id"]}}
    tokens = [
        await cloud.login(id=user["id"], password="p", scope=scope),
        await cloud.login(id=cloud.user("demo"), scope=scope),
        await cloud.login(id=user["id"], password="p"),
    ]
    for enabled in (False, True):
        await cloud.patch(f"{DOMAINS}/{domain['id']}", as_="admin", json={"domain": {"enabled": enabled}})
        for text in tokens:
            assert (await cloud.get("/identity/v3/auth/projects", token=text)).status_code == 401
    assert (await cloud.log_in(id=user["id"], password="p", scope=scope)).status_code == 201


async def test_a_domain_goes_with_all_that_is_in_it(cloud: TestCloud) -> None:
    domain = await make_domain(cloud)
    path, inside = f"{DOMAINS}/{domain['id']}", {"domain_id": domain["id"]}
    before = await cloud.db.read(lambda tx: tx.values("select count(*) from role_assignments"))
    parent = await make(cloud, "p1", **inside)
    project = await make(cloud, "p2", parent_id=parent["id"], **inside)
    user = (
        await cloud.post("/identity/v3/users", as_="admin", json={"user": {"name": "u", **inside}})
    ).json()
    group = (
        await cloud.post("/identity/v3/groups", as_="admin", json={"group": {"name": "g", **inside}})
    ).json()
    role = (
        await cloud.post("/identity/v3/roles", as_="admin", json={"role": {"name": "r", **inside}})
    ).json()
    user_id, group_id, role_id = user["user"]["id"], group["group"]["id"], role["role"]["id"]
    await cloud.put(f"/identity/v3/groups/{group_id}/users/{user_id}", as_="admin")
    for actor in (f"users/{user_id}", f"groups/{group_id}", f"users/{cloud.user('demo')}"):
        for target in (f"projects/{project['id']}", f"domains/{domain['id']}"):
            url = f"/identity/v3/{target}/{actor}/roles/{role_id}"
            assert (await cloud.put(url, as_="admin")).status_code == 204
    assert (await cloud.delete(path, as_="admin")).status_code == 403
    await cloud.patch(path, as_="admin", json={"domain": {"enabled": False}})
    assert (await cloud.delete(path, as_="admin")).status_code == 204
    for url in (
        path, f"{URL}/{project['id']}", f"{URL}/{parent['id']}", f"/identity/v3/users/{user_id}",
        f"/identity/v3/groups/{group_id}", f"/identity/v3/roles/{role_id}",
    ):  # fmt: skip
        assert (await cloud.get(url, as_="admin")).status_code == 404, url
    assert await cloud.db.read(lambda tx: tx.values("select count(*) from role_assignments")) == before


async def test_what_is_immutable_must_be_made_mutable_first(cloud: TestCloud) -> None:
    project = await make(cloud, options={"immutable": True})
    path = f"{URL}/{project['id']}"
    assert (await cloud.patch(path, as_="admin", json={"project": {"name": "x"}})).status_code == 403
    both = {"project": {"name": "x", "options": {"immutable": False}}}
    assert (await cloud.patch(path, as_="admin", json=both)).status_code == 403
    assert (await cloud.delete(path, as_="admin")).status_code == 403
    free = {"project": {"options": {"immutable": False}}}
    assert (await cloud.patch(path, as_="admin", json=free)).status_code == 200
    assert (await cloud.delete(path, as_="admin")).status_code == 204


async def test_who_may_see_and_change_projects(cloud: TestCloud) -> None:
    mine, other = f"{URL}/{cloud.project('demo')}", f"{URL}/{cloud.project('other')}"
    assert (await cloud.get(mine)).status_code == 200
    assert (await cloud.get(f"{mine}/tags")).status_code == 200
    assert (await cloud.get(other)).status_code == 403
    assert (await cloud.get(URL)).status_code == 403
    assert (await cloud.get(other, as_="domain_reader")).status_code == 200
    assert (await cloud.get(URL, as_="system_reader")).status_code == 200
    body = {"project": {"name": "n", "domain_id": "default"}}
    for who in ("demo", "manager", "domain_reader", "system_reader"):
        assert (await cloud.post(URL, as_=who, json=body)).status_code == 403
        assert (await cloud.delete(other, as_=who)).status_code == 403
        assert (await cloud.post(DOMAINS, as_=who, json={"domain": {"name": "n"}})).status_code == 403
    assert (await cloud.post(URL, as_="domain_manager", json=body)).status_code == 201
    body = {"project": {"name": "n2", "is_domain": True}}
    assert (
        await cloud.post(DOMAINS, as_="domain_manager", json={"domain": {"name": "n"}})
    ).status_code == 403
    assert (await cloud.post(URL, as_="domain_manager", json=body)).status_code == 403
    assert (await cloud.get(f"{DOMAINS}/default")).status_code == 200
    domain = await make_domain(cloud)
    assert (await cloud.get(f"{DOMAINS}/{domain['id']}")).status_code == 403
    listed = (await cloud.get(DOMAINS, as_="domain_reader")).json()["domains"]
    assert [one["id"] for one in listed] == ["default"]
