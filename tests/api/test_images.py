"""Images as records: make, show, list, change, delete, tag."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from tests.cloud import TestCloud, test_cloud

from cumulet.app import reconciler
from cumulet.core import quota
from cumulet.db.engine import Database

pytestmark = pytest.mark.anyio

IMAGES = "/image/v2/images"
PATCH = {"Content-Type": "application/openstack-images-v2.1-json-patch"}
OLD_PATCH = {"Content-Type": "application/openstack-images-v2.0-json-patch"}


@pytest.fixture
async def cloud(db: Database) -> Any:
    async with test_cloud(db) as made:
        reconciler(db, made.config)
        yield made


async def new(cloud: TestCloud, *, as_: str = "demo", **body: Any) -> dict[str, Any]:
    response = await cloud.post(IMAGES, json=body, as_=as_)
    assert response.status_code == 201, response.text
    return dict(response.json())


async def patch(cloud: TestCloud, id: str, *changes: Any, as_: str = "demo") -> httpx2.Response:
    return await cloud.patch(f"{IMAGES}/{id}", json=list(changes), headers=PATCH, as_=as_)


async def names(cloud: TestCloud, query: str = "", as_: str = "demo") -> list[str]:
    response = await cloud.get(f"{IMAGES}?{query}", as_=as_)
    assert response.status_code == 200, response.text
    return [image["name"] for image in response.json()["images"]]


# --- make and show ---


async def test_create_and_show(cloud: TestCloud) -> None:
    body = {
        "name": "cirros",
        "disk_format": "qcow2",
        "container_format": "bare",
        "min_disk": 1,
        "min_ram": 64,
        "tags": ["b", "a", "b"],
        "owner_specified.openstack.md5": "abc",
        "hw_disk_bus": "virtio",
    }
    response = await cloud.post(IMAGES, json=body)
    assert response.status_code == 201
    image = response.json()
    assert response.headers["location"] == f"http://cloud{IMAGES}/{image['id']}"
    assert response.headers["openstack-image-store-ids"] == "file"
    assert image == {
        "id": image["id"],
        "name": "cirros",
        "status": "queued",
        "visibility": "shared",
        "protected": False,
        "os_hidden": False,
        "disk_format": "qcow2",
        "container_format": "bare",
        "min_disk": 1,
        "min_ram": 64,
        "size": None,
        "virtual_size": None,
        "checksum": None,
        "os_hash_algo": None,
        "os_hash_value": None,
        "owner": cloud.project("demo"),
        "created_at": image["created_at"],
        "updated_at": image["created_at"],
        "tags": ["a", "b"],
        "self": f"/v2/images/{image['id']}",
        "file": f"/v2/images/{image['id']}/file",
        "schema": "/v2/schemas/image",
        "owner_specified.openstack.md5": "abc",
        "hw_disk_bus": "virtio",
    }
    assert (await cloud.get(f"{IMAGES}/{image['id']}")).json() == image


async def test_an_image_needs_nothing(cloud: TestCloud) -> None:
    image = await new(cloud)
    assert image["name"] is None
    assert image["disk_format"] is None


async def test_a_chosen_id_is_taken_once(cloud: TestCloud) -> None:
    id = "00000000-1111-2222-3333-444455556666"
    assert (await new(cloud, id=id))["id"] == id
    assert (await cloud.post(IMAGES, json={"id": id})).status_code == 409
    assert (await cloud.post(IMAGES, json={"id": "x"})).status_code == 400


REFUSED: tuple[tuple[dict[str, Any], int], ...] = (
    ({"container_format": "wrong"}, 400),
    ({"disk_format": "wrong"}, 400),
    ({"name": "x" * 256}, 400),
    ({"name": 3}, 400),
    ({"min_disk": -1}, 400),
    ({"min_ram": True}, 400),
    ({"min_ram": "5"}, 400),
    ({"protected": "yes"}, 400),
    ({"visibility": "secret"}, 400),
    ({"tags": ["x" * 256]}, 400),
    ({"tags": "x"}, 400),
    ({"color": 3}, 400),
    ({"color": None}, 400),
    ({"x" * 256: "y"}, 400),
    ({"self": "x"}, 403),
    ({"status": "active"}, 403),
    ({"size": 3}, 403),
    ({"checksum": "x"}, 403),
    ({"os_hash_value": "x"}, 403),
    ({"stores": "x"}, 403),
    ({"deleted": "x"}, 403),
    ({"locations": []}, 403),
    ({"os_glance_foo": "bar"}, 403),
    ({"visibility": "public"}, 403),
    ({"owner": "somebody"}, 403),
    ({f"p{i}": "x" for i in range(129)}, 413),
    ({"tags": [str(i) for i in range(129)]}, 413),
)


async def test_what_create_refuses(cloud: TestCloud) -> None:
    for body, status in REFUSED:
        response = await cloud.post(IMAGES, json=body)
        assert response.status_code == status, body
        assert response.json()["code"].startswith(str(status))
    assert await names(cloud) == []


async def test_who_may_create(cloud: TestCloud) -> None:
    assert (await cloud.post(IMAGES, json={}, as_="reader")).status_code == 403
    assert (await cloud.post(IMAGES, json={}, as_="unscoped")).status_code == 403
    assert (await cloud.post(IMAGES, json={}, as_=None)).status_code == 401
    assert (await new(cloud, as_="admin", owner="somebody"))["owner"] == "somebody"
    assert (await new(cloud, as_="admin", visibility="public"))["visibility"] == "public"
    assert (await new(cloud, visibility="community"))["visibility"] == "community"


async def test_a_quota_of_images(cloud: TestCloud) -> None:
    await cloud.db.write(quota.set_limits, "image", cloud.project("demo"), {"image_count_total": 1})
    id = (await new(cloud))["id"]
    response = await cloud.post(IMAGES, json={})
    assert response.status_code == 413
    assert "image_count_total: requested 1, used 1, limit 1" in response.json()["message"]
    await cloud.delete(f"{IMAGES}/{id}")
    await new(cloud)


# --- who sees it ---


async def test_what_one_may_not_see_is_not_there(cloud: TestCloud) -> None:
    for visibility, seen in (("private", 404), ("shared", 404), ("community", 200)):
        id = (await new(cloud, visibility=visibility))["id"]
        path = f"{IMAGES}/{id}"
        assert (await cloud.get(path, as_="reader")).status_code == 200
        assert (await cloud.get(path, as_="admin")).status_code == 200
        assert (await cloud.get(path, as_="other")).status_code == seen
        hidden = 404 if seen == 404 else 403
        assert (await cloud.delete(path, as_="other")).status_code == hidden
        assert (
            await patch(cloud, id, {"op": "add", "path": "/a", "value": "b"}, as_="other")
        ).status_code == hidden
        assert (await cloud.put(f"{path}/tags/x", as_="other")).status_code == hidden
        assert (await cloud.post(f"{path}/actions/deactivate", as_="other")).status_code == hidden


async def test_lists_show_what_is_for_the_caller(cloud: TestCloud) -> None:
    for visibility in ("private", "shared", "community"):
        await new(cloud, name=f"demo-{visibility}", visibility=visibility)
        await new(cloud, name=f"other-{visibility}", visibility=visibility, as_="other")
    await new(cloud, name="public", visibility="public", as_="admin")
    mine = {"demo-private", "demo-shared", "demo-community", "public"}
    assert set(await names(cloud)) == mine
    assert set(await names(cloud, "visibility=community")) == {"demo-community", "other-community"}
    assert set(await names(cloud, "visibility=all")) == mine | {"other-community"}
    assert set(await names(cloud, "visibility=private")) == {"demo-private"}
    assert set(await names(cloud, "visibility=public")) == {"public"}
    everything = mine | {"other-private", "other-shared", "other-community"}
    assert set(await names(cloud, "visibility=all", as_="admin")) == everything
    assert set(await names(cloud, as_="admin")) == everything - {"demo-community", "other-community"}
    assert (await cloud.get(f"{IMAGES}?visibility=odd")).status_code == 400


async def test_hidden_images(cloud: TestCloud) -> None:
    await new(cloud, name="shown")
    hidden = await new(cloud, name="hidden", os_hidden=True)
    assert await names(cloud) == ["shown"]
    assert await names(cloud, "os_hidden=true") == ["hidden"]
    assert (await cloud.get(f"{IMAGES}?os_hidden=maybe")).status_code == 400
    await patch(cloud, hidden["id"], {"op": "replace", "path": "/os_hidden", "value": False})
    assert set(await names(cloud)) == {"shown", "hidden"}


# --- lists ---


async def test_filters(cloud: TestCloud) -> None:
    a = await new(cloud, name="a", disk_format="raw", container_format="bare", min_ram=64, tags=["x", "y"])
    b = await new(
        cloud, name="b,c", disk_format="qcow2", container_format="ovf", min_ram=128, tags=["x"], color="red"
    )
    await new(cloud, name="d", disk_format="qcow2", protected=True, color="blue")
    assert await names(cloud, "name=a") == ["a"]
    assert set(await names(cloud, 'name=in:a,"b,c"')) == {"a", "b,c"}
    assert set(await names(cloud, f"id=in:{a['id']},{b['id']}")) == {"a", "b,c"}
    assert await names(cloud, "id=in:") == []
    assert set(await names(cloud, "disk_format=in:qcow2,vdi")) == {"b,c", "d"}
    assert await names(cloud, "container_format=eq:ovf") == ["b,c"]
    assert await names(cloud, "status=active") == []
    assert len(await names(cloud, "status=in:queued,active")) == 3
    assert set(await names(cloud, "tag=x")) == {"a", "b,c"}
    assert await names(cloud, "tag=x&tag=y") == ["a"]
    assert await names(cloud, "color=red") == ["b,c"]
    assert await names(cloud, "color=green") == []
    assert await names(cloud, "protected=true") == ["d"]
    assert await names(cloud, "min_ram=128") == ["b,c"]
    assert await names(cloud, "min_ram_min=1&min_ram_max=100") == ["a"]
    assert await names(cloud, "size_min=1") == []
    assert len(await names(cloud, f"owner={cloud.project('demo')}")) == 3
    assert await names(cloud, "owner=somebody") == []
    for wrong in ("name=xx:a", 'name=in:"a', 'name=in:a"b"', "size_min=x", "size=x", "protected=maybe",
                  "changes-since=2026-01-01", "member_status=odd", "created_at=xx:2026-01-01T00:00:00Z",
                  "created_at=gt:yesterday"):  # fmt: skip
        response = await cloud.get(f"{IMAGES}?{wrong}")
        assert response.status_code == 400, wrong


async def test_filters_by_time(cloud: TestCloud) -> None:
    await new(cloud, name="a")
    await cloud.db.write(
        lambda tx: tx.run("update images set created_at = 1700000000.75, updated_at = 1700000100")
    )
    second = "2023-11-14T22:13:20Z"
    for operator, found in (
        ("eq:", 1),
        ("", 1),
        ("gte:", 1),
        ("lte:", 1),
        ("gt:", 0),
        ("lt:", 0),
        ("neq:", 0),
    ):
        assert len(await names(cloud, f"created_at={operator}{second}")) == found, operator
    assert len(await names(cloud, "created_at=lt:2023-11-14T22:13:21Z")) == 1
    assert len(await names(cloud, "created_at=gt:2023-11-14T22:13:19")) == 1
    assert len(await names(cloud, "updated_at=gt:2023-11-14T23:15:01%2B01:00")) == 0


async def test_sorting(cloud: TestCloud) -> None:
    for name, ram in (("b", "raw"), ("a", "raw"), ("c", "qcow2")):
        await new(cloud, name=name, disk_format=ram)
    assert await names(cloud) == ["c", "a", "b"]
    assert await names(cloud, "sort_key=name&sort_dir=asc") == ["a", "b", "c"]
    assert await names(cloud, "sort_key=name") == ["c", "b", "a"]
    assert await names(cloud, "sort_dir=asc") == ["b", "a", "c"]
    assert await names(cloud, "sort=disk_format:asc,name:desc") == ["c", "b", "a"]
    assert await names(cloud, "sort_key=disk_format&sort_key=name&sort_dir=desc&sort_dir=asc") == [
        "a",
        "b",
        "c",
    ]
    assert await names(cloud, "sort=name") == ["c", "b", "a"]
    for wrong in ("sort=odd", "sort=name:up", "sort=name&sort_dir=asc", "sort_key=odd", "sort_key=name&sort_dir=up",
                  "sort_key=name&sort_dir=asc&sort_dir=desc"):  # fmt: skip
        assert (await cloud.get(f"{IMAGES}?{wrong}")).status_code == 400, wrong


async def test_pages(cloud: TestCloud) -> None:
    for i in range(27):
        await new(cloud, name=f"i{i:02}", tags=["t"] if i % 2 else [])
    first = (await cloud.get(IMAGES)).json()
    assert len(first["images"]) == 25
    assert first["first"] == "/v2/images"
    assert first["schema"] == "/v2/schemas/images"
    second = (await cloud.get("/image" + first["next"])).json()
    assert [image["name"] for image in second["images"]] == ["i01", "i00"]
    assert "next" not in second
    found = []
    path = "/v2/images?limit=5&sort=name:asc&tag=t"
    while path:
        page = (await cloud.get("/image" + path)).json()
        assert page["first"] == "/v2/images?limit=5&sort=name%3Aasc&tag=t"
        found += [image["name"] for image in page["images"]]
        path = page.get("next", "")
    assert found == [f"i{i:02}" for i in range(27) if i % 2]
    assert await names(cloud, "limit=0") == []
    assert len(await names(cloud, "limit=5000")) == 27
    for wrong in ("limit=-1", "limit=x", "marker=nothing"):
        assert (await cloud.get(f"{IMAGES}?{wrong}")).status_code == 400


# --- change ---


async def test_patch(cloud: TestCloud) -> None:
    image = await new(cloud, name="a", color="red", size_class="s", tags=["x"])
    response = await patch(
        cloud, image["id"],
        {"op": "replace", "path": "/name", "value": "b"},
        {"op": "replace", "path": "/tags", "value": ["y", "z"]},
        {"op": "add", "path": "/min_ram", "value": 7},
        {"op": "add", "path": "/disk_format", "value": "raw"},
        {"op": "replace", "path": "/color", "value": "blue"},
        {"op": "add", "path": "/trait:STORAGE~1DISK ~0", "value": "required"},
        {"op": "remove", "path": "/size_class"},
    )  # fmt: skip
    assert response.status_code == 200
    changed = response.json()
    assert changed["name"] == "b"
    assert changed["tags"] == ["y", "z"]
    assert changed["min_ram"] == 7
    assert changed["disk_format"] == "raw"
    assert changed["color"] == "blue"
    assert changed["trait:STORAGE/DISK ~"] == "required"
    assert "size_class" not in changed
    assert (await cloud.get(f"{IMAGES}/{image['id']}")).json() == changed
    assert (await patch(cloud, image["id"])).json() == changed


async def test_the_old_form_of_patches(cloud: TestCloud) -> None:
    id = (await new(cloud))["id"]
    body: list[Any] = [{"replace": "/name", "value": "b"}, {"add": "/color", "value": "red"}]
    response = await cloud.patch(f"{IMAGES}/{id}", json=body, headers=OLD_PATCH)
    assert response.status_code == 200
    assert (response.json()["name"], response.json()["color"]) == ("b", "red")
    for body, status in (
        ([{"add": "/color", "value": "red"}], 409),
        ([{"add": "/name", "value": "red"}], 409),
        ([{"add": "/x", "replace": "/y", "value": "red"}], 400),
        ([{"op": "add", "path": "/x", "value": "red"}], 400),
        ([{"remove": "/color"}], 200),
    ):
        response = await cloud.patch(f"{IMAGES}/{id}", json=body, headers=OLD_PATCH)
        assert response.status_code == status, body


REFUSED_CHANGES: tuple[tuple[Any, int], ...] = (
    ({"op": "replace", "path": "/missing", "value": "x"}, 409),
    ({"op": "remove", "path": "/missing"}, 409),
    ({"op": "remove", "path": "/name"}, 403),
    ({"op": "replace", "path": "/id", "value": "x"}, 403),
    ({"op": "replace", "path": "/status", "value": "active"}, 403),
    ({"op": "add", "path": "/os_glance_foo", "value": "bar"}, 403),
    ({"op": "add", "path": "/deleted", "value": "bar"}, 403),
    ({"op": "replace", "path": "/owner", "value": "x"}, 403),
    ({"op": "add", "path": "/owner", "value": "x"}, 403),
    ({"op": "replace", "path": "/visibility", "value": "public"}, 403),
    ({"op": "replace", "path": "/visibility", "value": "odd"}, 400),
    ({"op": "replace", "path": "/min_disk", "value": -3}, 400),
    ({"op": "replace", "path": "/disk_format", "value": "odd"}, 400),
    ({"op": "add", "path": "/color", "value": 3}, 400),
    ({"op": "add", "path": "/color"}, 400),
    ({"op": "move", "path": "/color", "value": "x"}, 400),
    ({"op": "add", "value": "x"}, 400),
    ({"op": "add", "path": "color", "value": "x"}, 400),
    ({"op": "add", "path": "/a/b", "value": "x"}, 400),
    ({"op": "add", "path": "/a//b", "value": "x"}, 400),
    ({"op": "add", "path": "/a/", "value": "x"}, 400),
    ({"op": "add", "path": "/a~2", "value": "x"}, 400),
    ({"op": "add", "path": "/", "value": "x"}, 400),
    ({"op": "add", "path": 3, "value": "x"}, 400),
    ({"op": "add", "path": "/locations/-", "value": {"url": "http://x", "metadata": {}}}, 403),
    ({"op": "replace", "path": "/locations", "value": []}, 403),
    ("x", 400),
)


async def test_what_patch_refuses(cloud: TestCloud) -> None:
    image = await new(cloud, name="a")
    for change, status in REFUSED_CHANGES:
        response = await patch(cloud, image["id"], {"op": "replace", "path": "/name", "value": "b"}, change)
        assert response.status_code == status, change
        # All or nothing.
        assert (await cloud.get(f"{IMAGES}/{image['id']}")).json() == image


async def test_patches_have_their_media_types(cloud: TestCloud) -> None:
    id = (await new(cloud))["id"]
    assert (await cloud.patch(f"{IMAGES}/{id}", json=[])).status_code == 415
    assert (await cloud.patch(f"{IMAGES}/{id}", json={}, headers=PATCH)).status_code == 400
    assert (await cloud.patch(f"{IMAGES}/{id}", content=b"{", headers=PATCH)).status_code == 400


async def test_administrators_give_images_away(cloud: TestCloud) -> None:
    id = (await new(cloud))["id"]
    other = cloud.project("other")
    response = await patch(cloud, id, {"op": "replace", "path": "/owner", "value": other}, as_="admin")
    assert response.json()["owner"] == other
    assert (await cloud.get(f"{IMAGES}/{id}")).status_code == 404
    assert (await cloud.get(f"{IMAGES}/{id}", as_="other")).status_code == 200


async def test_the_number_of_properties_is_limited(cloud: TestCloud) -> None:
    id = (await new(cloud, **{f"p{i}": "x" for i in range(128)}))["id"]
    assert (await patch(cloud, id, {"op": "add", "path": "/one", "value": "x"})).status_code == 413
    assert (await patch(cloud, id, {"op": "add", "path": "/p0", "value": "y"})).status_code == 200


# --- delete ---


async def test_delete(cloud: TestCloud) -> None:
    id = (await new(cloud, color="red", tags=["x"]))["id"]
    assert (await cloud.delete(f"{IMAGES}/{id}", as_="reader")).status_code == 403
    assert (await cloud.delete(f"{IMAGES}/{id}")).status_code == 204
    assert (await cloud.get(f"{IMAGES}/{id}")).status_code == 404
    assert (await cloud.delete(f"{IMAGES}/{id}")).status_code == 404
    for table in ("images", "holders", "image_properties", "image_tags"):
        left = await cloud.db.read(
            lambda tx, table=table: tx.value(
                f"select count(*) from {table}{' where kind = :k' if table == 'holders' else ''}",
                **({"k": "image"} if table == "holders" else {}),
            )
        )
        assert left == 0, table


async def test_a_protected_image_stays(cloud: TestCloud) -> None:
    id = (await new(cloud, protected=True))["id"]
    assert (await cloud.delete(f"{IMAGES}/{id}")).status_code == 403
    assert (await cloud.delete(f"{IMAGES}/{id}", as_="admin")).status_code == 403
    await patch(cloud, id, {"op": "replace", "path": "/protected", "value": False})
    assert (await cloud.delete(f"{IMAGES}/{id}")).status_code == 204


async def test_an_empty_id_names_nothing(cloud: TestCloud) -> None:
    assert (await cloud.get(f"{IMAGES}/")).status_code == 404
    assert (await cloud.delete(f"{IMAGES}/")).status_code == 404
    assert (await cloud.get(IMAGES)).status_code == 200


# --- tags ---


async def test_tags(cloud: TestCloud) -> None:
    id = (await new(cloud))["id"]
    path = f"{IMAGES}/{id}/tags"
    for _ in range(2):
        assert (await cloud.put(f"{path}/a b")).status_code == 204
    assert (await cloud.put(f"{path}/{'x' * 256}")).status_code == 400
    assert (await cloud.put(f"{path}/z", as_="reader")).status_code == 403
    assert (await cloud.get(f"{IMAGES}/{id}")).json()["tags"] == ["a b"]
    assert (await cloud.delete(f"{path}/a b")).status_code == 204
    assert (await cloud.delete(f"{path}/a b")).status_code == 404
    assert (await cloud.get(f"{IMAGES}/{id}")).json()["tags"] == []
    assert (await cloud.put(f"{IMAGES}/nothing/tags/a")).status_code == 404


# --- versions ---


async def test_versions_need_no_token(cloud: TestCloud) -> None:
    for path, status in (("/image", 300), ("/image/", 300), ("/image/versions", 200)):
        response = await cloud.get(path, as_=None)
        assert response.status_code == status
        newest, *older = response.json()["versions"]
        assert newest == {
            "id": "v2.15",
            "status": "CURRENT",
            "links": [{"rel": "self", "href": "http://cloud/image/v2/"}],
        }
        assert {version["status"] for version in older} == {"SUPPORTED"}
        assert older[-1]["id"] == "v2.0"
