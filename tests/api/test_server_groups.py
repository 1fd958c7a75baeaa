"""Server groups over HTTP."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.api.test_hosts import make_host, make_server
from tests.cloud import TestCloud, test_cloud

from cumulet.core import quota
from cumulet.db.engine import PostgresDatabase, SqliteDatabase

pytestmark = pytest.mark.anyio

URL = "/compute/v2.1/os-server-groups"


@pytest.fixture
async def cloud(db: SqliteDatabase | PostgresDatabase) -> AsyncIterator[TestCloud]:
    async with test_cloud(db) as made:
        yield made


async def make(cloud: TestCloud, version: str = "2.64", who: str = "demo", **fields: Any) -> Any:
    body = {"server_group": {"name": "g", **fields}}
    return await cloud.post(URL, as_=who, json=body, version=f"compute {version}")


async def test_shape_of_each_version(cloud: TestCloud) -> None:
    old, owned = {"id", "name", "policies", "metadata", "members"}, {"project_id", "user_id"}
    made = await make(cloud, "2.1", policies=["anti-affinity"])
    assert made.status_code == 200
    assert set(made.json()["server_group"]) == old
    path = f"{URL}/{made.json()['server_group']['id']}"
    for version, keys in (
        ("2.1", old), ("2.13", old | owned), ("2.64", {"id", "name", "policy", "rules", "members"} | owned),
    ):  # fmt: skip
        shown = (await cloud.get(path, version=f"compute {version}")).json()["server_group"]
        assert set(shown) == keys
        assert (await cloud.get(URL, version=f"compute {version}")).json() == {"server_groups": [shown]}
    assert shown["policy"] == "anti-affinity"
    assert shown["rules"] == {}


@pytest.mark.parametrize(
    ("version", "fields", "status"),
    [
        ("2.1", {"policies": ["soft-affinity"]}, 400), ("2.15", {"policies": ["soft-affinity"]}, 200),
        ("2.1", {"policies": []}, 400), ("2.1", {"policies": ["affinity", "anti-affinity"]}, 400), ("2.1", {}, 400),
        ("2.1", {"policy": "affinity"}, 400), ("2.64", {"policies": ["affinity"]}, 400), ("2.64", {}, 400),
        ("2.64", {"policy": "x"}, 400), ("2.64", {"policy": "affinity", "rules": {"max_server_per_host": 2}}, 400),
        ("2.64", {"policy": "affinity", "rules": {}}, 200),
        ("2.64", {"policy": "anti-affinity", "rules": {"max_server_per_host": "2"}}, 200),
        ("2.64", {"policy": "anti-affinity", "rules": {"max_server_per_host": 0}}, 400),
        ("2.64", {"policy": "anti-affinity", "rules": {"more": 1}}, 400),
        ("2.64", {"policy": "affinity", "name": ""}, 400), ("2.64", {"policy": "affinity", "name": "n" * 256}, 400),
    ],
)  # fmt: skip
async def test_what_is_taken(cloud: TestCloud, version: str, fields: dict[str, Any], status: int) -> None:
    assert (await make(cloud, version, **fields)).status_code == status


async def test_who_sees_a_group(cloud: TestCloud) -> None:
    mine = (await make(cloud, policy="affinity")).json()["server_group"]["id"]
    assert (await cloud.get(f"{URL}/{mine}", as_="other")).status_code == 404
    assert (await cloud.delete(f"{URL}/{mine}", as_="other")).status_code == 404
    assert (await cloud.delete(f"{URL}/{mine}", as_="reader")).status_code == 403
    assert (await cloud.get(f"{URL}/{mine}", as_="reader")).status_code == 200
    for who, query, found in (
        ("other", "?all_projects=1", 0),
        ("admin", "", 0),
        ("admin", "?all_projects=1", 1),
    ):
        assert len((await cloud.get(URL + query, as_=who)).json()["server_groups"]) == found
    assert (await cloud.delete(f"{URL}/{mine}")).status_code == 204
    assert (await cloud.delete(f"{URL}/{mine}")).status_code == 404
    assert (await cloud.get(f"{URL}/{uuid.uuid4()}")).status_code == 404


async def test_members_and_pages(cloud: TestCloud) -> None:
    host = await cloud.db.write(make_host, "h1")
    server = await cloud.db.write(make_server, host)
    group = (await make(cloud, policy="affinity")).json()["server_group"]["id"]
    await make(cloud, policy="affinity", name="second")
    await cloud.db.write(lambda tx: tx.update("servers", server, group_id=group))
    shown = (await cloud.get(f"{URL}/{group}")).json()["server_group"]
    assert shown["members"] == [server]
    first = (await cloud.get(f"{URL}?limit=1")).json()["server_groups"]
    second = (await cloud.get(f"{URL}?limit=1&offset=1")).json()["server_groups"]
    assert [one["name"] for one in first + second] == ["g", "second"]
    assert (await cloud.get(f"{URL}?limit=x")).status_code == 400
    assert (await cloud.get(f"{URL}?x=1", version="compute 2.75")).status_code == 400
    # The servers of a group outlive it.
    assert (await cloud.delete(f"{URL}/{group}")).status_code == 204
    assert (
        await cloud.db.read(lambda tx: tx.value("select count(*) from servers where group_id is null")) == 1
    )


async def test_the_limit(cloud: TestCloud) -> None:
    await cloud.db.write(quota.set_limits, "compute", quota.DEFAULT_CLASS, {"server_groups": 1})
    assert (await make(cloud, policy="affinity")).status_code == 200
    over = await make(cloud, policy="affinity")
    assert over.status_code == 403
    assert "Quota exceeded" in over.json()["forbidden"]["message"]
    assert (await make(cloud, policy="affinity", who="other")).status_code == 200
