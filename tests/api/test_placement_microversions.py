"""What each placement microversion changed, as the API reference and its history of versions tell it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
from tests.cloud import TestCloud, running_cloud, test_cloud
from tests.tenants import Tenant, furnish
from tests.versions import Routes, Shape, at, edges, within, wrong_routes, wrong_shapes

from cumulet.api.placement import AREA
from cumulet.db.engine import PostgresDatabase, SqliteDatabase

pytestmark = pytest.mark.anyio

ROOT = "/placement/"
#: The id of nothing.
NONE = "5f1a6f52-62b3-4a5e-8a0b-3d6c9ac20a5b"
_CANDIDATES = "allocation_candidates?resources=VCPU:1"

SHAPES: Mapping[str, Shape] = {
    "a provider": Shape(
        "admin", "resource_providers/{host}", "", "generation links name uuid",
        {14: ("parent_provider_uuid root_provider_uuid", "")},
    ),
    "a provider's inventory": Shape(
        "admin", "resource_providers/{host}/inventories", "", "inventories resource_provider_generation"
    ),
    "a provider's usage": Shape(
        "admin", "resource_providers/{host}/usages", "", "resource_provider_generation usages"
    ),
    "a provider's allocations": Shape(
        "admin", "resource_providers/{host}/allocations", "", "allocations resource_provider_generation"
    ),
    "a provider's aggregates": Shape(
        "admin", "resource_providers/{host}/aggregates", "", "aggregates",
        {19: ("resource_provider_generation", "")}, first=1,
    ),
    "a provider's traits": Shape(
        "admin", "resource_providers/{host}/traits", "", "resource_provider_generation traits", first=6
    ),
    "a consumer": Shape(
        "admin", "allocations/{server}", "", "allocations",
        {12: ("project_id user_id", ""), 28: ("consumer_generation", ""), 38: ("consumer_type", "")},
    ),
    "a project's usage": Shape("admin", "usages?project_id={project}", "", "usages", first=9),
    "candidates": Shape("admin", _CANDIDATES, "", "allocation_requests provider_summaries", first=10),
    "a candidate": Shape(
        "admin", _CANDIDATES, "allocation_requests 0", "allocations", {34: ("mappings", "")}, first=10
    ),
    "a candidate's provider": Shape(
        "admin", _CANDIDATES, "provider_summaries {host}", "resources",
        {17: ("traits", ""), 29: ("parent_provider_uuid root_provider_uuid", "")}, first=10,
    ),
    "classes": Shape("admin", "resource_classes", "resource_classes 0", "links name", first=2),
    "traits": Shape("admin", "traits", "", "traits", first=6),
}  # fmt: skip

ROUTES: Routes = {
    ("GET", f"resource_providers/{NONE}/aggregates", ""): (1, 0),
    ("PUT", f"resource_providers/{NONE}/aggregates", ""): (1, 0),
    ("GET", "resource_classes", ""): (2, 0),
    ("POST", "resource_classes", ""): (2, 0),
    ("GET", "traits", ""): (6, 0),
    ("PUT", "traits/CUSTOM_A", ""): (6, 0),
    ("GET", f"resource_providers/{NONE}/traits", ""): (6, 0),
    ("GET", "usages", ""): (9, 0),
    ("GET", "allocation_candidates", ""): (10, 0),
    ("POST", "allocations", ""): (13, 0),
    ("POST", "reshaper", ""): (30, 0),
}

#: Queries that are understood since a version; before, they are refused.
QUERIES: Mapping[str, int] = {
    f"resource_providers?member_of={NONE}": 3,
    "resource_providers?resources=VCPU:1": 4,
    f"resource_providers?in_tree={NONE}": 14,
    "resource_providers?required=HW_CPU_X86_AVX": 18,
    "resource_providers?required=!HW_CPU_X86_AVX": 22,
    f"resource_providers?member_of=!{NONE}": 32,
    "resource_providers?required=in:HW_CPU_X86_AVX,HW_CPU_X86_AVX2": 39,
    f"{_CANDIDATES}&limit=1": 16,
    f"{_CANDIDATES}&required=HW_CPU_X86_AVX": 17,
    f"{_CANDIDATES}&member_of={NONE}": 21,
    f"{_CANDIDATES}&required=!HW_CPU_X86_AVX": 22,
    f"{_CANDIDATES}&resources1=VCPU:1": 25,
    f"{_CANDIDATES}&resources1=VCPU:1&resources2=VCPU:1&group_policy=none": 25,
    f"{_CANDIDATES}&in_tree={NONE}": 31,
    f"{_CANDIDATES}&member_of=!{NONE}": 32,
    f"{_CANDIDATES}&resources_NET=VCPU:1": 33,
    f"{_CANDIDATES}&root_required=HW_CPU_X86_AVX": 35,
    f"{_CANDIDATES}&resources_NET=VCPU:1&same_subtree=_NET": 36,
    f"{_CANDIDATES}&required=in:HW_CPU_X86_AVX,HW_CPU_X86_AVX2": 39,
    f"usages?project_id={NONE}&consumer_type=INSTANCE": 38,
}


@pytest.fixture
async def tenant(db: SqliteDatabase | PostgresDatabase, tmp_path: Path) -> AsyncIterator[Tenant]:
    """One of everything."""
    async with running_cloud(db, tmp_path) as cloud:
        yield await furnish(cloud, "demo", 1)


@pytest.fixture
async def cloud(db: SqliteDatabase | PostgresDatabase) -> AsyncIterator[TestCloud]:
    async with test_cloud(db) as made:
        yield made


async def test_every_noun_has_the_shape_of_every_version(tenant: Tenant) -> None:
    wrong = await wrong_shapes(tenant.cloud, AREA, ROOT, SHAPES, tenant.things)
    assert not wrong, "\n".join(wrong)
    host = tenant.things["host"]
    came = {0: {"self", "inventories", "usages"}, 1: {"aggregates"}, 6: {"traits"}, 11: {"allocations"}}
    for minor in (0, 1, 5, 6, 10, 11, 39):
        answer = await tenant.cloud.get(
            f"{ROOT}resource_providers/{host}", as_="admin", version=at(AREA, minor)
        )
        links = {link["rel"] for link in answer.json()["links"]}
        assert links == set().union(*(rels for since, rels in came.items() if since <= minor)), minor
    for minor, shape in ((11, list), (12, dict)):
        answer = await tenant.cloud.get(ROOT + _CANDIDATES, as_="admin", version=at(AREA, minor))
        assert isinstance(answer.json()["allocation_requests"][0]["allocations"], shape)
    for minor in (37, 38):
        url = f"{ROOT}usages?project_id={tenant.things['project']}"
        usages = (await tenant.cloud.get(url, as_="admin", version=at(AREA, minor))).json()["usages"]
        assert set(usages) == ({"VCPU", "MEMORY_MB", "DISK_GB"} if minor < 38 else {"INSTANCE"})


async def test_routes_and_queries_came(cloud: TestCloud) -> None:
    wrong = await wrong_routes(cloud, AREA, ROOT, ROUTES)
    for query, first in QUERIES.items():
        for minor in edges(first, 0, 0):
            answer = await cloud.get(ROOT + query, as_="admin", version=at(AREA, minor))
            if (answer.status_code == 200) is not within(minor, first, 0):
                wrong.append(f"{query} at {minor}: {answer.status_code} {answer.text[:300]}")
    assert not wrong, "\n".join(wrong)


async def test_what_else_changed(cloud: TestCloud) -> None:
    none = f"resource_providers/{NONE}"
    twice = f"resource_providers?member_of={NONE}&member_of={NONE}"
    for method, path, minor, status in (
        ("DELETE", f"{none}/inventories", 4, 405), ("DELETE", f"{none}/inventories", 5, 404),
        ("GET", twice, 23, 400), ("GET", twice, 24, 200), ("GET", "", 39, 200), ("GET", twice, 40, 406),
    ):  # fmt: skip
        answer = await cloud.request(method, ROOT + path, as_="admin", version=at(AREA, minor))
        assert answer.status_code == status, (method, path, minor)
    for minor in (14, 15):
        answer = await cloud.get(f"{ROOT}resource_classes", as_="admin", version=at(AREA, minor))
        assert ("last-modified" in answer.headers) is (minor >= 15)
        assert (answer.headers.get("cache-control") == "no-cache") is (minor >= 15)
    for minor in (22, 23):
        error = await cloud.get(ROOT + none, as_="admin", version=at(AREA, minor))
        assert ("code" in error.json()["errors"][0]) is (minor >= 23)
    for minor, status in ((19, 201), (20, 200)):
        body = {"name": f"p{minor}"}
        answer = await cloud.post(
            f"{ROOT}resource_providers", as_="admin", json=body, version=at(AREA, minor)
        )
        assert answer.status_code == status
        assert bool(answer.content) is (minor >= 20)
    newest = await cloud.get(f"{ROOT}resource_providers", as_="admin", version="placement latest")
    assert newest.headers["openstack-api-version"] == "placement 1.39"
