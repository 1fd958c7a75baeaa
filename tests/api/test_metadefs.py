"""Metadata definitions and the schemas of the image service."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cloud import TestCloud, test_cloud

from cumulet.db.engine import Database
from cumulet.wire.imageschemas import SCHEMAS

pytestmark = pytest.mark.anyio

DEFS = "/image/v2/metadefs"
ALL = f"{DEFS}/namespaces"


@pytest.fixture
async def cloud(db: Database) -> Any:
    async with test_cloud(db) as made:
        yield made


async def new(cloud: TestCloud, name: str, **body: Any) -> dict[str, Any]:
    response = await cloud.post(ALL, json={"namespace": name, **body}, as_="admin")
    assert response.status_code == 201, response.text
    return dict(response.json())


WHOLE: dict[str, Any] = {
    "display_name": "CPU",
    "description": "What CPUs are like",
    "visibility": "public",
    "protected": True,
    "resource_type_associations": [
        {"name": "OS::Glance::Image", "prefix": "hw_"},
        {"name": "OS::My::Thing", "prefix": "my:", "properties_target": "image"},
    ],
    "properties": {
        "cores": {"title": "Cores", "type": "integer", "minimum": 1, "default": 4},
        "mode": {"title": "Mode", "type": "string", "enum": ["a", "b"], "operators": ["<or>"]},
    },
    "objects": [
        {
            "name": "Cache",
            "description": "d",
            "required": ["size"],
            "properties": {
                "size": {"title": "Size", "type": "array", "items": {"type": "string"}, "uniqueItems": True}
            },
        }
    ],
    "tags": [{"name": "t1"}, {"name": "t2"}],
}


async def test_a_namespace_with_all_that_it_can_have(cloud: TestCloud) -> None:
    made = await new(cloud, "OS::CPU", **WHOLE)
    shown = (await cloud.get(f"{ALL}/OS::CPU")).json()
    assert shown == made
    for name, value in WHOLE.items():
        if name in ("objects", "resource_type_associations"):
            assert [{key: one[key] for key in value[i]} for i, one in enumerate(shown[name])] == value
        else:
            assert shown[name] == value, name
    assert shown["owner"] == cloud.project("admin")
    assert shown["self"] == "/v2/metadefs/namespaces/OS::CPU"
    assert shown["objects"][0]["self"] == "/v2/metadefs/namespaces/OS::CPU/objects/Cache"
    prefixed = (await cloud.get(f"{ALL}/OS::CPU?resource_type=OS::Glance::Image")).json()
    assert set(prefixed["properties"]) == {"hw_cores", "hw_mode"}
    assert prefixed["objects"][0]["required"] == ["hw_size"]
    assert set(prefixed["objects"][0]["properties"]) == {"hw_size"}
    types = [one["name"] for one in (await cloud.get(f"{DEFS}/resource_types")).json()["resource_types"]]
    assert "OS::My::Thing" in types
    assert "OS::Nova::Flavor" in types


async def test_protected_namespaces_stay(cloud: TestCloud) -> None:
    await new(cloud, "n", protected=True, tags=[{"name": "t"}])
    assert (await cloud.delete(f"{ALL}/n", as_="admin")).status_code == 403
    assert (await cloud.delete(f"{ALL}/n/tags", as_="admin")).status_code == 403
    body = {"namespace": "m", "protected": False, "visibility": "public"}
    changed = await cloud.put(f"{ALL}/n", json=body, as_="admin")
    assert changed.status_code == 200
    assert (changed.json()["namespace"], changed.json()["protected"]) == ("m", False)
    assert (await cloud.get(f"{ALL}/n")).status_code == 404
    assert (await cloud.get(f"{ALL}/m")).json()["tags"] == [{"name": "t"}]
    assert (await cloud.delete(f"{ALL}/m", as_="admin")).status_code == 204
    assert (await cloud.get(f"{ALL}/m")).status_code == 404
    left = await cloud.db.read(lambda tx: tx.value("select count(*) from metadef_parts"))
    assert left == 0


async def test_who_sees_and_who_changes(cloud: TestCloud) -> None:
    await new(cloud, "hidden", visibility="private", tags=[{"name": "t"}])
    await new(cloud, "public", visibility="public")
    await new(cloud, "mine", visibility="private", owner=cloud.project("demo"))
    listed = [one["namespace"] for one in (await cloud.get(ALL)).json()["namespaces"]]
    assert listed == ["mine", "public"]
    assert len((await cloud.get(ALL, as_="admin")).json()["namespaces"]) == 3
    assert (await cloud.get(f"{ALL}/hidden")).status_code == 404
    assert (await cloud.get(f"{ALL}/hidden/tags")).status_code == 404
    assert (await cloud.get(f"{ALL}/hidden/tags/t")).status_code == 404
    assert (await cloud.get(f"{ALL}/mine", as_="reader")).status_code == 200
    assert (await cloud.get(f"{ALL}/mine", as_="other")).status_code == 404
    for method, path, body in (
        ("POST", ALL, {"namespace": "x"}),
        ("PUT", f"{ALL}/mine", {"namespace": "x"}),
        ("DELETE", f"{ALL}/mine", None),
        ("POST", f"{ALL}/mine/objects", {"name": "x"}),
        ("POST", f"{ALL}/mine/tags/x", None),
        ("POST", f"{ALL}/mine/resource_types", {"name": "x"}),
    ):
        assert (await cloud.request(method, path, json=body)).status_code == 403, path
    assert (await cloud.get(ALL, as_=None)).status_code == 401


async def test_lists_of_namespaces(cloud: TestCloud) -> None:
    for i in range(4):
        types = [{"name": f"T{i % 2}"}]
        await new(cloud, f"n{i}", visibility="public" if i else "private", resource_type_associations=types)

    async def names(query: str) -> list[str]:
        response = await cloud.get(f"{ALL}?{query}", as_="admin")
        assert response.status_code == 200, response.text
        return [one["namespace"] for one in response.json()["namespaces"]]

    assert await names("") == ["n3", "n2", "n1", "n0"]
    assert await names("visibility=private") == ["n0"]
    assert await names("resource_types=T1,TX") == ["n3", "n1"]
    assert await names("sort_key=namespace&sort_dir=asc&limit=2") == ["n0", "n1"]
    page = (await cloud.get(f"{ALL}?limit=3", as_="admin")).json()
    assert page["next"] == "/v2/metadefs/namespaces?limit=3&marker=n1"
    assert await names("limit=3&marker=n1") == ["n0"]
    for query, status in (
        ("visibility=odd", 400), ("sort_dir=odd", 400), ("sort_key=odd", 400), ("limit=x", 400), ("marker=odd", 404),
    ):  # fmt: skip
        assert (await cloud.get(f"{ALL}?{query}", as_="admin")).status_code == status, query


async def test_objects(cloud: TestCloud) -> None:
    await new(cloud, "n", visibility="public")
    path = f"{ALL}/n/objects"
    body = {
        "name": "a",
        "required": ["p"],
        "properties": {"p": {"title": "P", "type": "boolean", "default": True}},
    }
    made = await cloud.post(path, json=body, as_="admin")
    assert made.status_code == 201
    assert (await cloud.post(path, json=body, as_="admin")).status_code == 409
    assert (await cloud.get(f"{path}/a")).json() == made.json()
    assert {**made.json(), **body} == made.json()
    changed = await cloud.put(f"{path}/a", json={"name": "b", "description": "d"}, as_="admin")
    assert changed.status_code == 200
    assert changed.json()["name"] == "b"
    assert "properties" not in changed.json()
    assert (await cloud.get(f"{path}/a")).status_code == 404
    await cloud.post(path, json={"name": "c"}, as_="admin")
    assert (await cloud.put(f"{path}/c", json={"name": "b"}, as_="admin")).status_code == 409
    listed = (await cloud.get(f"{path}?sort_key=name&sort_dir=asc")).json()
    assert [one["name"] for one in listed["objects"]] == ["b", "c"]
    assert (await cloud.delete(f"{path}/b", as_="admin")).status_code == 204
    assert (await cloud.delete(f"{path}/b", as_="admin")).status_code == 404
    assert (await cloud.delete(path, as_="admin")).status_code == 204
    assert (await cloud.get(path)).json()["objects"] == []


async def test_properties(cloud: TestCloud) -> None:
    await new(cloud, "n", visibility="public", resource_type_associations=[{"name": "T", "prefix": "x_"}])
    path = f"{ALL}/n/properties"
    body = {"name": "OS::Glance::Image", "title": "a", "type": "string", "enum": ["xen", "qemu"]}
    made = await cloud.post(path, json=body, as_="admin")
    assert made.status_code == 201
    assert made.json() == body
    assert (await cloud.get(f"{path}/OS::Glance::Image")).json() == body
    assert (await cloud.get(f"{path}/x_OS::Glance::Image?resource_type=T")).json() == body
    assert (await cloud.get(f"{path}/OS::Glance::Image?resource_type=T")).status_code == 404
    assert (await cloud.get(f"{path}/x_OS::Glance::Image?resource_type=U")).status_code == 404
    changed = await cloud.put(f"{path}/OS::Glance::Image", json={**body, "title": "b"}, as_="admin")
    assert changed.json()["title"] == "b"
    assert (await cloud.get(path)).json() == {
        "properties": {"OS::Glance::Image": {"title": "b", "type": "string", "enum": ["xen", "qemu"]}}
    }
    assert (await cloud.delete(f"{path}/OS::Glance::Image", as_="admin")).status_code == 204
    for wrong in ({}, {"name": "p"}, {"name": "p", "title": "t"}, {"name": "p", "title": "t", "type": "odd"},
                  {"name": "p" * 81, "title": "t", "type": "string"}, {**body, "minLength": -1}, {**body, "odd": 1}):  # fmt: skip
        assert (await cloud.post(path, json=wrong, as_="admin")).status_code == 400, wrong


async def test_tags(cloud: TestCloud) -> None:
    await new(cloud, "n", visibility="public")
    path = f"{ALL}/n/tags"

    async def names() -> set[str]:
        return {tag["name"] for tag in (await cloud.get(path)).json()["tags"]}

    body = {"tags": [{"name": "a"}, {"name": "b"}]}
    made = await cloud.post(path, json=body, as_="admin")
    assert made.status_code == 201
    assert made.json() == body
    await cloud.post(path, json={"tags": [{"name": "c"}]}, as_="admin")
    assert await names() == {"c"}
    append = {"X-Openstack-Append": "true"}
    await cloud.post(path, json=body, as_="admin", headers=append)
    assert await names() == {"a", "b", "c"}
    assert (await cloud.post(path, json=body, as_="admin", headers=append)).status_code == 409
    assert (await cloud.post(f"{path}/d", as_="admin")).status_code == 201
    assert (await cloud.post(f"{path}/d", as_="admin")).status_code == 409
    assert (await cloud.get(f"{path}/d")).json()["name"] == "d"
    assert (await cloud.put(f"{path}/d", json={"name": "e"}, as_="admin")).json()["name"] == "e"
    assert (await cloud.delete(f"{path}/e", as_="admin")).status_code == 204
    assert (await cloud.get(f"{path}/e")).status_code == 404
    assert (await cloud.post(f"{path}/{'x' * 81}", as_="admin")).status_code == 400
    assert (
        await cloud.post(path, json={"tags": [{"name": "x"}, {"name": "x"}]}, as_="admin")
    ).status_code == 400
    assert (await cloud.delete(path, as_="admin")).status_code == 204
    assert await names() == set()


async def test_associations(cloud: TestCloud) -> None:
    await new(cloud, "n", visibility="public")
    path = f"{ALL}/n/resource_types"
    body = {"name": "OS::Nova::Flavor", "prefix": "hw:"}
    made = await cloud.post(path, json=body, as_="admin")
    assert made.status_code == 201
    assert {**made.json(), **body} == made.json()
    assert (await cloud.post(path, json=body, as_="admin")).status_code == 409
    listed = (await cloud.get(path)).json()["resource_type_associations"]
    assert [one["name"] for one in listed] == ["OS::Nova::Flavor"]
    assert (await cloud.delete(f"{path}/OS::Nova::Flavor", as_="admin")).status_code == 204
    assert (await cloud.delete(f"{path}/OS::Nova::Flavor", as_="admin")).status_code == 404
    assert (await cloud.get(path)).json()["resource_type_associations"] == []


async def test_what_is_refused(cloud: TestCloud) -> None:
    await new(cloud, "n")
    for body, status in (
        ({"namespace": "n"}, 409),
        ({}, 400),
        ({"namespace": "x" * 81}, 400),
        ({"namespace": "x", "visibility": "shared"}, 400),
        ({"namespace": "x", "protected": "yes"}, 400),
        ({"namespace": "x", "odd": 1}, 400),
        ({"namespace": "x", "self": "y"}, 403),
        ({"namespace": "x", "created_at": "y"}, 403),
        ({"namespace": "x", "tags": [{"name": "a"}, {"name": "a"}]}, 400),
        ({"namespace": "x", "properties": {"p": {"type": "string"}}}, 400),
    ):
        response = await cloud.post(ALL, json=body, as_="admin")
        assert response.status_code == status, body
    assert (await cloud.put(f"{ALL}/missing", json={"namespace": "x"}, as_="admin")).status_code == 404
    await new(cloud, "m")
    assert (await cloud.put(f"{ALL}/m", json={"namespace": "n"}, as_="admin")).status_code == 409


async def test_schemas(cloud: TestCloud) -> None:
    for name in SCHEMAS:
        response = await cloud.get(f"/image/v2/schemas/{name}", as_="reader")
        assert response.status_code == 200
        assert response.json() == SCHEMAS[name]
        expected = name.removeprefix("metadefs/").replace("resource_type", "resource_type_association")
        assert response.json()["name"] == expected
    assert (await cloud.get("/image/v2/schemas/image", as_=None)).status_code == 401
    assert (await cloud.get("/image/v2/schemas/odd")).status_code == 404
    assert (await cloud.post("/image/v2/schemas/image", json={})).status_code == 405
