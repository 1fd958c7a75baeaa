"""Unified limits: what is registered, what projects have instead, and who sees it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.cloud import TestCloud, test_cloud

from cumulet.core.bootstrap import DOMAIN, fixed
from cumulet.db.engine import Database

pytestmark = pytest.mark.anyio

V3 = "/identity/v3"
COMPUTE = fixed("service", "compute")
CORES = {"service_id": COMPUTE, "resource_name": "cores", "default_limit": 10}


@pytest.fixture
async def cloud(db: Database) -> AsyncIterator[TestCloud]:
    async with test_cloud(db) as made:
        yield made


async def send(cloud: TestCloud, method: str, path: str, status: int, as_: str = "admin", **body: Any) -> Any:
    response = await cloud.request(method, f"{V3}/{path}", as_=as_, **({"json": body} if body else {}))
    assert response.status_code == status, response.text
    return response.json() if response.content else None


async def test_registered_limits(cloud: TestCloud) -> None:
    regional = {**CORES, "region_id": "RegionOne", "description": "d"}
    made = (await send(cloud, "POST", "registered_limits", 201, registered_limits=[CORES, regional]))[
        "registered_limits"
    ]
    assert made[0] == {
        **CORES, "id": made[0]["id"], "region_id": None, "description": None,
        "links": {"self": f"http://cloud{V3}/registered_limits/{made[0]['id']}"},
    }  # fmt: skip
    for again in (CORES, regional):
        await send(cloud, "POST", "registered_limits", 409, registered_limits=[again])
    for wrong in (
        {"service_id": "x"},
        {"region_id": "x"},
        {"default_limit": -2},
        {"default_limit": None},
        {"more": 1},
    ):
        await send(cloud, "POST", "registered_limits", 400, registered_limits=[{**CORES, **wrong}])
    await send(cloud, "POST", "registered_limits", 400, registered_limits=[])
    assert (
        len((await send(cloud, "GET", "registered_limits?region_id=RegionOne", 200))["registered_limits"])
        == 1
    )
    path = f"registered_limits/{made[0]['id']}"
    assert (await send(cloud, "GET", path, 200, as_="demo"))["registered_limit"] == made[0]
    changed = await send(cloud, "PATCH", path, 200, registered_limit={"default_limit": 5})
    assert changed["registered_limit"]["default_limit"] == 5
    await send(cloud, "PATCH", path, 409, registered_limit={"region_id": "RegionOne"})
    await send(cloud, "PATCH", path, 403, as_="demo", registered_limit={"default_limit": 5})
    await send(cloud, "DELETE", f"services/{COMPUTE}", 409)
    await send(cloud, "DELETE", path, 204)
    await send(cloud, "GET", path, 404)


async def test_limits(cloud: TestCloud) -> None:
    limit = {"service_id": COMPUTE, "resource_name": "cores", "resource_limit": 5}
    mine = {**limit, "project_id": cloud.project("demo")}
    await send(cloud, "POST", "limits", 403, limits=[mine])
    registered = (await send(cloud, "POST", "registered_limits", 201, registered_limits=[CORES]))[
        "registered_limits"
    ][0]
    made = (await send(cloud, "POST", "limits", 201, limits=[mine, {**limit, "domain_id": DOMAIN}]))["limits"]
    assert made[0] == {
        **mine, "id": made[0]["id"], "domain_id": None, "region_id": None, "description": None,
        "links": {"self": f"http://cloud{V3}/limits/{made[0]['id']}"},
    }  # fmt: skip
    await send(cloud, "POST", "limits", 409, limits=[mine])
    for wrong in (
        limit,
        {**mine, "domain_id": DOMAIN},
        {**mine, "project_id": "x"},
        {**mine, "resource_limit": "x"},
    ):
        await send(cloud, "POST", "limits", 400, limits=[wrong])
    for method, body in (("PATCH", {"registered_limit": {"default_limit": 1}}), ("DELETE", {})):
        await send(cloud, method, f"registered_limits/{registered['id']}", 403, **body)
    path = f"limits/{made[0]['id']}"
    assert (await send(cloud, "PATCH", path, 200, limit={"resource_limit": 0}))["limit"][
        "resource_limit"
    ] == 0
    await send(cloud, "PATCH", path, 400, limit={"resource_name": "x"})
    await send(cloud, "GET", path, 200, as_="demo")
    await send(cloud, "GET", path, 403, as_="other")
    await send(cloud, "GET", path, 200, as_="domain_reader")
    for who, number in (("demo", 1), ("other", 0), ("domain_reader", 2), ("admin", 2), ("service", 2)):
        assert len((await send(cloud, "GET", "limits", 200, as_=who))["limits"]) == number, who
    assert (await send(cloud, "GET", "limits/model", 200, as_="demo"))["model"]["name"] == "flat"
    await send(cloud, "DELETE", path, 204)
    await send(cloud, "GET", path, 404)


async def test_a_project_goes_with_its_limits(cloud: TestCloud) -> None:
    project = (await send(cloud, "POST", "projects", 201, project={"name": "p"}))["project"]["id"]
    await send(cloud, "POST", "registered_limits", 201, registered_limits=[CORES])
    limit = {"service_id": COMPUTE, "resource_name": "cores", "resource_limit": 5, "project_id": project}
    await send(cloud, "POST", "limits", 201, limits=[limit])
    await send(cloud, "DELETE", f"projects/{project}", 204)
    assert (await send(cloud, "GET", "limits", 200))["limits"] == []
