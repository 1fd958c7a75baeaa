"""Flavors over HTTP: the shapes of each version, who sees what, and what is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.cloud import TestCloud, test_cloud

from cumulet.db.engine import PostgresDatabase, SqliteDatabase

pytestmark = pytest.mark.anyio

URL = "/compute/v2.1/flavors"
OLD = {
    "id", "name", "ram", "disk", "vcpus", "swap", "links", "rxtx_factor", "os-flavor-access:is_public",
    "OS-FLV-EXT-DATA:ephemeral", "OS-FLV-DISABLED:disabled",
}  # fmt: skip

NEW = (OLD | {"description", "extra_specs"}) - {"rxtx_factor", "OS-FLV-DISABLED:disabled"}


@pytest.fixture
async def cloud(db: SqliteDatabase | PostgresDatabase) -> AsyncIterator[TestCloud]:
    async with test_cloud(db) as made:
        yield made


async def project(cloud: TestCloud, name: str) -> str:
    found = await cloud.db.read(lambda tx: tx.value("select id from projects where name = :name", name=name))
    assert isinstance(found, str)
    return found


async def make(cloud: TestCloud, **fields: Any) -> Any:
    body = {"flavor": {"name": "f", "ram": 64, "vcpus": 1, "disk": 0, **fields}}
    return await cloud.post(URL, as_="admin", json=body, version="compute 2.96")


@pytest.mark.parametrize(
    ("version", "keys", "swap"),
    [
        ("2.1", OLD, ""),
        ("2.55", OLD | {"description"}, ""),
        ("2.61", OLD | {"description", "extra_specs"}, ""),
        ("2.75", OLD | {"description", "extra_specs"}, 0),
        ("2.101", OLD | {"description", "extra_specs"}, 0),
        ("2.102", NEW, 0),
    ],
)
async def test_shape_of_each_version(cloud: TestCloud, version: str, keys: set[str], swap: Any) -> None:
    for path in (f"{URL}/1", f"{URL}/detail"):
        body = (await cloud.get(path, version=f"compute {version}")).json()
        flavor = body["flavor"] if "flavor" in body else body["flavors"][0]
        assert set(flavor) == keys
        assert flavor["swap"] == swap
        assert flavor["id"] == "1"
        assert flavor["ram"] == 512
    brief = (await cloud.get(URL, version=f"compute {version}")).json()["flavors"][0]
    assert set(brief) == {"id", "name", "links"} | (set() if version == "2.1" else {"description"})


async def test_made_shown_described_deleted(cloud: TestCloud) -> None:
    made = await make(
        cloud, id=None, swap="16", description="d", rxtx_factor="1.5",
        **{"OS-FLV-EXT-DATA:ephemeral": 3, "os-flavor-access:is_public": "no"},
    )  # fmt: skip
    assert made.status_code == 200
    flavor = made.json()["flavor"]
    assert (flavor["swap"], flavor["description"], flavor["rxtx_factor"]) == (16, "d", 1.5)
    assert flavor["os-flavor-access:is_public"] is False
    path = f"{URL}/{flavor['id']}"
    assert (await cloud.get(path, as_="admin", version="compute 2.96")).json()["flavor"] == flavor
    changed = await cloud.put(
        path, as_="admin", version="compute 2.55", json={"flavor": {"description": None}}
    )
    assert changed.json()["flavor"]["description"] is None
    assert (await cloud.put(path, as_="admin", json={"flavor": {"description": None}})).status_code == 404
    assert (await cloud.delete(path, as_="admin")).status_code == 202
    assert (await cloud.delete(path, as_="admin")).status_code == 404


async def test_lists_by_name_since_2_102(cloud: TestCloud) -> None:
    async def names(query: str, version: str = "2.102") -> list[str]:
        answer = await cloud.get(f"{URL}?{query}", version=f"compute {version}")
        assert answer.status_code == 200, answer.text
        return [flavor["name"] for flavor in answer.json()["flavors"]]

    assert await names("name=nano") == ["m1.nano"]
    assert await names("name=^m1.(tiny|small)$") == ["m1.tiny", "m1.small"]
    assert await names("name=m1&minRam=8192&limit=1") == ["m1.large"]
    assert await names("name=moon") == []
    assert len(await names("name=nano", "2.74")) == 7
    for query in ("name=(", "sort_key=rxtx_factor", "surprise=1"):
        assert (await cloud.get(f"{URL}?{query}", version="compute 2.102")).status_code == 400
    assert (await cloud.get(f"{URL}?name=nano", version="compute 2.101")).status_code == 400
    body = {"flavor": {"name": "f", "ram": 64, "vcpus": 1, "disk": 0, "rxtx_factor": 1.0}}
    for version, status in (("2.102", 400), ("2.101", 200)):
        answer = await cloud.post(URL, as_="admin", json=body, version=f"compute {version}")
        assert answer.status_code == status


async def test_taken_ids_and_names(cloud: TestCloud) -> None:
    assert (await make(cloud, id=99)).json()["flavor"]["id"] == "99"
    assert (await make(cloud, id="99", name="g")).status_code == 409
    assert (await make(cloud, id="98", name="f")).status_code == 409


@pytest.mark.parametrize(
    "fields",
    [
        {"ram": 0}, {"ram": 2147483648}, {"ram": "x"}, {"ram": True}, {"vcpus": -1}, {"disk": -1}, {"name": ""},
        {"name": " "}, {"name": " a"}, {"name": "a\n"}, {"name": "n" * 256}, {"id": "a/b"}, {"id": " a"},
        {"id": ""}, {"swap": -1}, {"rxtx_factor": 0}, {"rxtx_factor": "inf"}, {"unknown": 1}, {"description": "\x00"},
        {"os-flavor-access:is_public": "perhaps"}, {"description": "d" * 65536},
    ],
)  # fmt: skip
async def test_bad_fields_are_refused(cloud: TestCloud, fields: dict[str, Any]) -> None:
    answer = await make(cloud, **fields)
    assert answer.status_code == 400, answer.text
    assert list(answer.json()) == ["badRequest"]


async def test_description_is_unknown_before_its_version(cloud: TestCloud) -> None:
    body = {"flavor": {"name": "f", "ram": 64, "vcpus": 1, "disk": 0, "description": "d"}}
    assert (await cloud.post(URL, as_="admin", json=body, version="compute 2.54")).status_code == 400


async def test_only_administrators_change_flavors(cloud: TestCloud) -> None:
    body = {"flavor": {"name": "f", "ram": 64, "vcpus": 1, "disk": 0}}
    assert (await cloud.post(URL, as_="demo", json=body)).status_code == 403
    assert (await cloud.delete(f"{URL}/1", as_="demo")).status_code == 403
    assert (await cloud.post(f"{URL}/1/os-extra_specs", json={"extra_specs": {}})).status_code == 403
    assert (await cloud.get(f"{URL}/1/os-flavor-access")).status_code == 403


async def test_who_sees_a_flavor_that_is_not_public(cloud: TestCloud) -> None:
    await make(cloud, id="p", **{"os-flavor-access:is_public": False})
    action = {"addTenantAccess": {"tenant": await project(cloud, "demo")}}
    added = await cloud.post(f"{URL}/p/action", as_="admin", json=action)
    assert added.json() == {"flavor_access": [{"flavor_id": "p", "tenant_id": await project(cloud, "demo")}]}
    assert (await cloud.post(f"{URL}/p/action", as_="admin", json=action)).status_code == 409

    async def sees(who: str, query: str = "") -> tuple[bool, bool]:
        listed = (await cloud.get(f"{URL}{query}", as_=who)).json()["flavors"]
        return (await cloud.get(f"{URL}/p", as_=who)).is_success, "p" in [f["id"] for f in listed]

    assert await sees("demo") == (True, True)
    assert await sees("other") == (False, False)
    assert await sees("other", "?is_public=None") == (False, False)
    assert await sees("admin") == (True, False)
    assert await sees("admin", "?is_public=None") == (True, True)
    assert await sees("admin", "?is_public=false") == (True, True)

    remove = {"removeTenantAccess": {"tenant": await project(cloud, "demo")}}
    assert (await cloud.post(f"{URL}/p/action", as_="admin", json=remove)).json() == {"flavor_access": []}
    assert (await cloud.post(f"{URL}/p/action", as_="admin", json=remove)).status_code == 404
    assert await sees("demo") == (False, False)


async def test_access_of_public_flavors(cloud: TestCloud) -> None:
    assert (await cloud.get(f"{URL}/1/os-flavor-access", as_="admin")).status_code == 404
    action = {"addTenantAccess": {"tenant": await project(cloud, "demo")}}
    for version, status in (("2.6", 200), ("2.7", 409)):
        answer = await cloud.post(f"{URL}/1/action", as_="admin", json=action, version=f"compute {version}")
        assert answer.status_code == status
    unknown = {"addTenantAccess": {"tenant": "nobody"}}
    assert (await cloud.post(f"{URL}/1/action", as_="admin", json=unknown)).status_code == 400


async def test_extra_specs(cloud: TestCloud) -> None:
    path = f"{URL}/1/os-extra_specs"
    specs = {"hw:cpu_policy": "dedicated", "n": 1}
    made = await cloud.post(path, as_="admin", json={"extra_specs": specs})
    assert (made.status_code, made.json()) == (200, {"extra_specs": specs})
    assert (await cloud.get(path)).json() == {"extra_specs": {"hw:cpu_policy": "dedicated", "n": "1"}}
    assert (await cloud.get(f"{path}/n")).json() == {"n": "1"}
    assert (await cloud.put(f"{path}/n", as_="admin", json={"n": "2"})).json() == {"n": "2"}
    assert (await cloud.put(f"{path}/n", as_="admin", json={"m": "2"})).status_code == 400
    shown = (await cloud.get(f"{URL}/1", version="compute 2.61")).json()["flavor"]
    assert shown["extra_specs"] == {"hw:cpu_policy": "dedicated", "n": "2"}
    assert (await cloud.delete(f"{path}/n", as_="admin")).status_code == 200
    assert (await cloud.delete(f"{path}/n", as_="admin")).status_code == 404
    assert (await cloud.get(f"{path}/n")).status_code == 404
    for bad in ({"a/b": "1"}, {"a": None}, {"a": "v" * 256}, {"a": True}, {"k" * 256: "v"}, {"a": {}}):
        assert (await cloud.post(path, as_="admin", json={"extra_specs": bad})).status_code == 400


async def test_pages(cloud: TestCloud) -> None:
    url, found = f"{URL}?limit=3&sort_key=memory_mb", []
    while url:
        body = (await cloud.get(url)).json()
        found += [flavor["name"] for flavor in body["flavors"]]
        url = body["flavors_links"][0]["href"] if "flavors_links" in body else ""
    assert found == ["m1.nano", "m1.micro", "m1.tiny", "m1.small", "m1.medium", "m1.large", "m1.xlarge"]
    large = (await cloud.get(f"{URL}?minRam=8192&minDisk=81")).json()["flavors"]
    assert [flavor["name"] for flavor in large] == ["m1.xlarge"]
    assert (await cloud.get(f"{URL}?limit=0")).json() == {"flavors": []}
    for query in ("minRam=x", "limit=-1", "limit=x", "sort_key=nothing", "sort_dir=up", "marker=nothing"):
        assert (await cloud.get(f"{URL}?{query}")).status_code == 400, query
    assert (await cloud.get(f"{URL}?unknown=1")).status_code == 200
    assert (await cloud.get(f"{URL}?unknown=1", version="compute 2.75")).status_code == 400


async def test_links_use_the_address_that_the_client_used(cloud: TestCloud) -> None:
    flavor = (await cloud.get(f"{URL}/1")).json()["flavor"]
    assert [link["rel"] for link in flavor["links"]] == ["self", "bookmark"]
    assert (await cloud.get(flavor["links"][0]["href"])).json()["flavor"] == flavor


async def test_extra_specs_are_checked_since_2_86(cloud: TestCloud) -> None:
    path, bad = f"{URL}/1/os-extra_specs", {"extra_specs": {"hw:cpu_policy": "sharrred"}}
    assert (await cloud.post(path, as_="admin", json=bad, version="compute 2.86")).status_code == 400
    assert (await cloud.post(path, as_="admin", json=bad, version="compute 2.85")).status_code == 200
    one = {"hw:cpu_policy": "sharrred"}
    answer = await cloud.put(f"{path}/hw:cpu_policy", as_="admin", json=one, version="compute 2.86")
    assert answer.status_code == 400
