"""Volumes: made, found, changed and deleted, by the agents of a running cloud."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.cloud import TestCloud
from tests.servers import make_image
from tests.volumes import (
    NEWEST,
    NOTHING,
    ROOT,
    SNAPSHOTS,
    TYPES,
    VOLUMES,
    ask,
    gone,
    left,
    shows,
    snapshot,
    things,
    volume,
)

pytestmark = pytest.mark.anyio


def ids(body: Any) -> list[str]:
    return [one["id"] for one in body["volumes"]]


async def test_a_volume_is_made_and_leaves_nothing_when_it_is_deleted(
    cloud: TestCloud, directory: Path
) -> None:
    made = (await ask(cloud, "POST", VOLUMES, 202, json={"volume": {"size": 2, "name": " v "}}))["volume"]
    assert made["status"] == "creating"
    assert made["name"] == "v"
    assert made["updated_at"] is None
    assert made["attachments"] == []
    assert made["bootable"] == "false"
    assert made["volume_type"] == "__DEFAULT__"
    path = f"{VOLUMES}/{made['id']}"
    shown = await shows(cloud, path, "available")
    assert shown["os-vol-host-attr:host"] == "sim@sim#sim"
    assert shown["os-vol-tenant-attr:tenant_id"] == cloud.project("demo")
    assert len(things(directory)["volume"]) == 1
    await ask(cloud, "DELETE", path, 202)
    await gone(cloud, path)
    assert things(directory) == NOTHING
    assert await left(cloud) == {}


async def test_what_clients_send_with_explicit_nulls_is_understood(cloud: TestCloud) -> None:
    body = {
        "size": 1,
        "name": None,
        "description": None,
        "volume_type": None,
        "snapshot_id": None,
        "source_volid": None,
        "consistencygroup_id": None,
        "availability_zone": None,
        "metadata": None,
        "imageRef": None,
        "backup_id": None,
        "group_id": None,
    }
    made = await volume(cloud, **body)
    assert made["name"] is None
    assert made["metadata"] == {}
    await ask(cloud, "POST", VOLUMES, 202, json={"volume": {"size": "1", "surprise": 1}})
    await ask(cloud, "POST", VOLUMES, 400, json={"volume": {"size": 1, "surprise": 1}}, version="volume 3.53")


REFUSED: tuple[dict[str, Any], ...] = (
    {},
    {"size": 0},
    {"size": -1},
    {"size": "#$%"},
    {"size": ""},
    {"size": 1.5},
    {"size": 1, "name": "x" * 256},
    {"size": 1, "metadata": {"": "x"}},
    {"size": 1, "metadata": {"k": "v" * 256}},
    {"size": 1, "metadata": {"k": 1}},
    {"size": 1, "snapshot_id": "x"},
    {"size": 1, "availability_zone": "nowhere"},
    {"size": 1, "multiattach": True},
    {"size": 1, "imageRef": "no-such-image"},
)


async def test_a_request_that_makes_no_sense_is_refused(cloud: TestCloud) -> None:
    for body in REFUSED:
        await ask(cloud, "POST", VOLUMES, 400, json={"volume": body})
    for field in ("snapshot_id", "source_volid", "volume_type"):
        # What it is made from must exist.
        await ask(cloud, "POST", VOLUMES, 404, json={"volume": {"size": 1, field: cloud.chance.uuid()}})
    assert await left(cloud) == {}


async def test_an_empty_id_is_that_of_no_volume(cloud: TestCloud) -> None:
    for root in (ROOT, f"{ROOT}/{cloud.project('demo')}"):
        for method, body in (("GET", None), ("DELETE", None), ("PUT", {"volume": {"name": "n"}})):
            await ask(cloud, method, f"{root}/volumes/", 404, json=body)
        await ask(cloud, "GET", f"{root}/volumes", 200)
        await ask(cloud, "GET", f"{root}/", 200)


async def test_another_project_sees_nothing_of_it(cloud: TestCloud) -> None:
    path = f"{VOLUMES}/{(await volume(cloud))['id']}"
    for method, body in (("GET", None), ("DELETE", None), ("PUT", {"volume": {"name": "x"}})):
        await ask(cloud, method, path, 404, json=body, as_="other")
    await ask(cloud, "POST", f"{path}/action", 404, json={"os-extend": {"new_size": 2}}, as_="other")
    await ask(cloud, "POST", VOLUMES, 404, json={"volume": {"source_volid": path[-36:]}}, as_="other")
    assert (await ask(cloud, "GET", VOLUMES, 200, as_="other"))["volumes"] == []
    assert (await ask(cloud, "GET", f"{VOLUMES}?all_tenants=1", 200, as_="other"))["volumes"] == []
    await ask(cloud, "GET", path, 200, as_="reader")
    await ask(cloud, "DELETE", path, 403, as_="reader")
    await ask(cloud, "GET", path, 401, as_=None)
    assert ids(await ask(cloud, "GET", f"{VOLUMES}?all_tenants=1", 200, as_="admin")) == [path[-36:]]


async def test_a_project_in_the_path_comes_back_in_the_links(cloud: TestCloud) -> None:
    made = await volume(cloud)
    project = cloud.project("demo")
    shown = (await ask(cloud, "GET", f"/volume/v3/{project}/volumes/{made['id']}", 200))["volume"]
    assert [link["href"] for link in shown["links"]] == [
        f"http://cloud/volume/v3/{project}/volumes/{made['id']}",
        f"http://cloud/volume/{project}/volumes/{made['id']}",
    ]
    assert made["links"][0]["href"] == f"http://cloud/volume/v3/volumes/{made['id']}"


async def test_fields_come_with_their_versions(cloud: TestCloud) -> None:
    path = f"{VOLUMES}/{(await volume(cloud))['id']}"
    expected = {
        "3.0": set(),
        "3.13": {"group_id"},
        "3.48": {"group_id", "shared_targets", "service_uuid"},
        "3.63": {"group_id", "shared_targets", "service_uuid", "volume_type_id"},
        "3.65": {"group_id", "shared_targets", "service_uuid", "volume_type_id", "consumes_quota"},
    }
    new = expected["3.65"]
    for version, fields in expected.items():
        response = await cloud.get(path, version=f"volume {version}")
        assert response.headers["openstack-api-version"] == f"volume {version}"
        assert set(response.json()["volume"]) & new == fields
    for name in ("migration_status", "provider_id", "cluster_name", "os-vol-host-attr:host"):
        assert name not in (await cloud.get(path, version=NEWEST)).json()["volume"]
        assert name in (await cloud.get(path, version=NEWEST, as_="admin")).json()["volume"]
    assert (await cloud.get(path, version="volume 3.72")).status_code == 406


# --- copies ---


async def test_a_copy_of_a_volume_or_snapshot_has_what_its_original_has(cloud: TestCloud) -> None:
    image = await make_image(cloud, min_disk=2)
    await ask(cloud, "POST", VOLUMES, 400, json={"volume": {"size": 1, "imageRef": image}})
    made = await volume(cloud, size=2, imageRef=image, volume_type="standard")
    assert made["bootable"] == "true"
    assert made["volume_image_metadata"]["image_id"] == image
    assert made["volume_image_metadata"]["min_disk"] == "2"
    taken = await snapshot(cloud, made["id"])
    assert taken["size"] == 2
    for source in ({"source_volid": made["id"]}, {"snapshot_id": taken["id"]}):
        copy = await volume(cloud, size=None, **source)
        assert copy["size"] == 2
        assert copy["bootable"] == "true"
        assert copy["volume_type"] == "standard"
        assert copy["volume_image_metadata"] == made["volume_image_metadata"]
        assert {name: copy[name] for name in source} == source
        larger = await volume(cloud, size=3, **source)
        assert larger["size"] == 3
        await ask(cloud, "POST", VOLUMES, 400, json={"volume": {"size": 1, **source}})
    both = {"source_volid": made["id"], "snapshot_id": taken["id"]}
    await ask(cloud, "POST", VOLUMES, 400, json={"volume": both})
    # Copies do not keep their originals.
    await ask(cloud, "DELETE", f"{SNAPSHOTS}/{taken['id']}", 202)
    await gone(cloud, f"{SNAPSHOTS}/{taken['id']}")
    await ask(cloud, "DELETE", f"{VOLUMES}/{made['id']}", 202)
    await gone(cloud, f"{VOLUMES}/{made['id']}")


async def test_an_image_is_found_by_its_name(cloud: TestCloud) -> None:
    image = await make_image(cloud)
    made = await volume(cloud, imageRef="image")
    assert made["volume_image_metadata"]["image_id"] == image
    await make_image(cloud)
    await ask(cloud, "POST", VOLUMES, 409, json={"volume": {"size": 1, "imageRef": "image"}})


# --- delete ---


async def test_snapshots_keep_a_volume_unless_they_go_with_it(cloud: TestCloud, directory: Path) -> None:
    made = await volume(cloud)
    taken = await snapshot(cloud, made["id"])
    path = f"{VOLUMES}/{made['id']}"
    refused = await ask(cloud, "DELETE", path, 400)
    assert "snapshots" in refused["badRequest"]["message"]
    await ask(cloud, "DELETE", f"{path}?cascade=True", 202)
    await gone(cloud, f"{SNAPSHOTS}/{taken['id']}")
    await gone(cloud, path)
    assert things(directory) == NOTHING
    assert await left(cloud) == {}


async def test_only_some_statuses_let_a_volume_go_except_by_force(cloud: TestCloud) -> None:
    made = await volume(cloud)
    path = f"{VOLUMES}/{made['id']}"
    await ask(
        cloud, "POST", f"{path}/action", 202, json={"os-reset_status": {"status": "maintenance"}}, as_="admin"
    )
    await ask(cloud, "DELETE", path, 400)
    await ask(cloud, "DELETE", f"{path}?force=True", 400)
    await ask(cloud, "DELETE", f"{path}?force=True", 403, version="volume 3.23")
    await ask(cloud, "DELETE", f"{path}?cascade=maybe", 400)
    await ask(cloud, "DELETE", f"{path}?force=True", 202, version="volume 3.23", as_="admin")
    await gone(cloud, path)


# --- changes ---


async def test_name_description_and_metadata_change(cloud: TestCloud) -> None:
    path = f"{VOLUMES}/{(await volume(cloud, metadata={'a': '1'}))['id']}"
    changed = (await ask(cloud, "PUT", path, 200, json={"volume": {"name": "n", "description": " d "}}))[
        "volume"
    ]
    assert (changed["name"], changed["description"]) == ("n", "d")
    changed = (await ask(cloud, "PUT", path, 200, json={"volume": {"metadata": {"b": "2"}}}))["volume"]
    assert changed["metadata"] == {"b": "2"}
    assert changed["name"] == "n"
    await ask(cloud, "PUT", path, 200, json={"volume": {}})
    await ask(cloud, "PUT", path, 400, json={"volume": {}}, version="volume 3.53")
    await ask(cloud, "PUT", path, 400, json={"volume": {"size": 2}})
    await ask(cloud, "PUT", f"{VOLUMES}/{cloud.chance.uuid()}", 404, json={"volume": {"name": "x"}})


async def test_metadata_by_itself(cloud: TestCloud) -> None:
    path = f"{VOLUMES}/{(await volume(cloud))['id']}/metadata"
    body = {"metadata": {"a": "1", "b": "2"}}
    assert await ask(cloud, "POST", path, 200, json=body) == body
    assert await ask(cloud, "POST", path, 200, json={"metadata": {"c": "3"}}) == {
        "metadata": {"a": "1", "b": "2", "c": "3"}
    }
    assert await ask(cloud, "PUT", path, 200, json={"metadata": {"a": "4"}}) == {"metadata": {"a": "4"}}
    assert await ask(cloud, "GET", f"{path}/a", 200) == {"meta": {"a": "4"}}
    assert await ask(cloud, "PUT", f"{path}/b", 200, json={"meta": {"b": "5"}}) == {"meta": {"b": "5"}}
    await ask(cloud, "PUT", f"{path}/b", 400, json={"meta": {"c": "5"}})
    await ask(cloud, "PUT", f"{path}/b", 400, json={"meta": {"b": "5", "c": "6"}})
    assert (await cloud.delete(f"{path}/a")).status_code == 200
    assert await ask(cloud, "GET", path, 200) == {"metadata": {"b": "5"}}
    await ask(cloud, "GET", f"{path}/a", 404)
    await ask(cloud, "DELETE", f"{path}/a", 404)
    await ask(cloud, "POST", path, 400, json={"metadata": {"": "x"}})


async def test_metadata_that_changed_meanwhile_is_not_overwritten(cloud: TestCloud) -> None:
    path = f"{VOLUMES}/{(await volume(cloud, metadata={'a': '1'}))['id']}/metadata"
    modern = {"version": "volume 3.15"}
    tag = (await cloud.get(path, **modern)).headers["etag"]
    match = {"headers": {"If-Match": tag}, **modern}
    await ask(cloud, "PUT", path, 200, json={"metadata": {"a": "2"}}, **match)
    await ask(cloud, "PUT", path, 412, json={"metadata": {"a": "3"}}, **match)
    assert await ask(cloud, "GET", path, 200) == {"metadata": {"a": "2"}}


# --- lists ---


async def test_lists_are_narrowed_sorted_and_paged(cloud: TestCloud) -> None:
    made = [
        await volume(cloud, name=f"v{i}", size=3 - i, metadata={"n": str(i), "all": "yes"}) for i in range(3)
    ]
    a, b, c = (one["id"] for one in made)
    assert ids(await ask(cloud, "GET", VOLUMES, 200)) == [c, b, a]
    expected = {
        "name=v1": [b],
        "status=available": [c, b, a],
        "status=in-use": [],
        "availability_zone=nova": [c, b, a],
        "metadata={'n': '1'}": [b],
        "metadata={'all': 'yes'}&name=v2": [c],
        "sort=size:asc": [c, b, a],
        "sort_key=size&sort_dir=desc": [a, b, c],
        "sort=name": [c, b, a],
        "bootable=false": [c, b, a],
        "bootable=true": [],
        "limit=1": [c],
        f"limit=1&marker={c}": [b],
        f"marker={b}": [a],
        "offset=1": [b, a],
        "limit=0": [],
        "all_tenants=0": [c, b, a],
    }
    for query, wanted in expected.items():
        assert ids(await ask(cloud, "GET", f"{VOLUMES}?{query}", 200)) == wanted, query
        assert ids(await ask(cloud, "GET", f"{VOLUMES}/detail?{query}", 200)) == wanted, query
    for query in (
        "limit=x",
        "limit=-1",
        "sort=nonsense",
        "sort=name:up",
        "sort=name&sort_key=name",
        "offset=-1",
    ):
        await ask(cloud, "GET", f"{VOLUMES}?{query}", 400)
    await ask(cloud, "GET", f"{VOLUMES}?marker={cloud.chance.uuid()}", 404)


async def test_pages_are_linked(cloud: TestCloud) -> None:
    made = [(await volume(cloud))["id"] for _ in range(3)]
    path = f"{VOLUMES}/detail?limit=2"
    seen: list[str] = []
    while path:
        body = await ask(cloud, "GET", path, 200)
        seen += ids(body)
        path = (
            body["volumes_links"][0]["href"].removeprefix("http://cloud") if "volumes_links" in body else ""
        )
    assert seen == made[::-1]


async def test_filters_that_users_may_not_use(cloud: TestCloud) -> None:
    made = (await volume(cloud, name="abc"))["id"]
    assert ids(await ask(cloud, "GET", f"{VOLUMES}?host=x&surprise=1", 200)) == [made]
    await ask(cloud, "GET", f"{VOLUMES}?surprise=1", 400, version="volume 3.31")
    assert ids(await ask(cloud, "GET", f"{VOLUMES}?all_tenants=1", 200, version=NEWEST)) == [made]
    admin = {"as_": "admin", "version": NEWEST}
    assert ids(await ask(cloud, "GET", f"{VOLUMES}?all_tenants=1&host=sim@sim", 200, **admin)) == [made]
    assert ids(await ask(cloud, "GET", f"{VOLUMES}?all_tenants=1&surprise=1", 200, **admin)) == []
    assert ids(await ask(cloud, "GET", f"{VOLUMES}?all_tenants=1&name~=b", 200, **admin)) == [made]
    assert ids(
        await ask(cloud, "GET", f"{VOLUMES}?created_at=gt:2020-01-01T00:00:00", 200, version=NEWEST)
    ) == [made]
    assert (
        ids(await ask(cloud, "GET", f"{VOLUMES}?created_at=lt:2020-01-01T00:00:00", 200, version=NEWEST))
        == []
    )
    await ask(cloud, "GET", f"{VOLUMES}?created_at=sooner:2020-01-01", 400, version=NEWEST)


async def test_counts_and_the_summary(cloud: TestCloud) -> None:
    for size in (1, 2):
        await volume(cloud, size=size, metadata={"k": str(size)})
    body = await ask(cloud, "GET", f"{VOLUMES}?limit=1&with_count=True", 200, version="volume 3.45")
    assert body["count"] == 2
    assert "count" not in await ask(cloud, "GET", f"{VOLUMES}?with_count=True", 200)
    summary = (await ask(cloud, "GET", f"{VOLUMES}/summary", 200, version="volume 3.36"))["volume-summary"]
    assert summary["total_count"] == 2
    assert summary["total_size"] == 3
    assert sorted(summary["metadata"]["k"]) == ["1", "2"]
    summary = (await ask(cloud, "GET", f"{VOLUMES}/summary", 200, version="volume 3.12"))["volume-summary"]
    assert set(summary) == {"total_count", "total_size"}
    await ask(cloud, "GET", f"{VOLUMES}/summary", 404)


# --- quota ---


async def test_quota_is_counted_and_refused_with_413(cloud: TestCloud) -> None:
    quotas = f"/volume/v3/os-quota-sets/{cloud.project('demo')}"
    body = {"quota_set": {"volumes": 2, "gigabytes": 4, "per_volume_gigabytes": 3, "volumes_standard": 1}}
    await ask(cloud, "PUT", quotas, 200, json=body, as_="admin")
    refused = await ask(cloud, "POST", VOLUMES, 413, json={"volume": {"size": 4}})
    assert "per_volume_gigabytes" in refused["overLimit"]["message"]
    first = await volume(cloud, size=1, volume_type="standard")
    refused = await ask(cloud, "POST", VOLUMES, 413, json={"volume": {"size": 1, "volume_type": "standard"}})
    assert "volumes_standard" in refused["overLimit"]["message"]
    await volume(cloud, size=1)
    await ask(cloud, "POST", VOLUMES, 413, json={"volume": {"size": 1}})
    await ask(cloud, "POST", f"{VOLUMES}/{first['id']}/action", 413, json={"os-extend": {"new_size": 4}})
    await snapshot(cloud, first["id"])
    await snapshot(cloud, first["id"])
    await ask(cloud, "POST", SNAPSHOTS, 413, json={"snapshot": {"volume_id": first["id"]}})
    usage = (await ask(cloud, "GET", f"{quotas}?usage=True", 200))["quota_set"]
    assert usage["volumes"] == {"limit": 2, "in_use": 2, "reserved": 0}
    assert usage["gigabytes"]["in_use"] == 4
    assert usage["volumes_standard"]["in_use"] == 1
    assert usage["gigabytes_standard"]["in_use"] == 3


async def test_a_type_of_another_project_is_not_there(cloud: TestCloud) -> None:
    body = {"volume_type": {"name": "private", "os-volume-type-access:is_public": False}}
    type_ = (await ask(cloud, "POST", TYPES, 200, json=body, as_="admin"))["volume_type"]
    await ask(cloud, "POST", VOLUMES, 404, json={"volume": {"size": 1, "volume_type": "private"}})
    access = {"addProjectAccess": {"project": cloud.project("demo")}}
    await ask(cloud, "POST", f"{TYPES}/{type_['id']}/action", 202, json=access, as_="admin")
    made = await volume(cloud, volume_type="private")
    assert made["volume_type_id"] == type_["id"]
