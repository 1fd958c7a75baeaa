"""Allocation candidates: which providers together meet a request."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.api.test_placement import Admin
from tests.cloud import TestCloud, test_cloud

from cumulet.db.engine import PostgresDatabase, SqliteDatabase

pytestmark = pytest.mark.anyio


@pytest.fixture
async def cloud(db: SqliteDatabase | PostgresDatabase) -> AsyncIterator[TestCloud]:
    async with test_cloud(db) as made:
        yield made


@pytest.fixture
def admin(cloud: TestCloud) -> Admin:
    return Admin(cloud)


async def ask(admin: Admin, query: str, version: str = "1.39") -> Any:
    answer = await admin("GET", f"/allocation_candidates?{query}", version=version)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def found(admin: Admin, query: str, **names: str) -> list[dict[str, dict[str, int]]]:
    """The candidates, with names for ids."""
    by_id = {key: name for name, key in names.items()}
    return [
        {by_id[key]: one["resources"] for key, one in request["allocations"].items()}
        for request in (await ask(admin, query))["allocation_requests"]
    ]


async def test_flat_hosts(admin: Admin) -> None:
    big = await admin.provider("big", {"VCPU": 8, "MEMORY_MB": 1024})
    small = await admin.provider("small", {"VCPU": 2, "MEMORY_MB": 1024})
    names = {"big": big, "small": small}
    two = {"VCPU": 2, "MEMORY_MB": 512}
    query = "resources=VCPU:2,MEMORY_MB:512"
    assert await found(admin, query, **names) == [{"big": two}, {"small": two}]
    assert await found(admin, f"{query}&limit=1", **names) == [{"big": two}]
    await admin.take({small: {"VCPU": 1}})
    assert await found(admin, query, **names) == [{"big": two}]
    await admin.traits(big, "HW_CPU_X86_VMX")
    assert await found(admin, f"{query}&required=!HW_CPU_X86_VMX", **names) == []
    assert await found(admin, f"{query}&required=HW_CPU_X86_VMX", **names) == [{"big": two}]
    assert await found(admin, f"{query}&root_required=!HW_CPU_X86_VMX", **names) == []


async def test_shapes_of_the_answer(admin: Admin) -> None:
    key = await admin.provider("one", {"VCPU": 8, "DISK_GB": 10})
    await admin.traits(key, "HW_CPU_X86_VMX")
    resources = {"VCPU": 2}
    old = await ask(admin, "resources=VCPU:2", "1.10")
    assert old == {
        "allocation_requests": [
            {"allocations": [{"resource_provider": {"uuid": key}, "resources": resources}]}
        ],
        "provider_summaries": {key: {"resources": {"VCPU": {"capacity": 8, "used": 0}}}},
    }
    new = await ask(admin, "resources=VCPU:2")
    assert new == {
        "allocation_requests": [{"allocations": {key: {"resources": resources}}, "mappings": {"": [key]}}],
        "provider_summaries": {
            key: {
                "resources": {"VCPU": {"capacity": 8, "used": 0}, "DISK_GB": {"capacity": 10, "used": 0}},
                "traits": ["HW_CPU_X86_VMX"], "parent_provider_uuid": None, "root_provider_uuid": key,
            }
        },
    }  # fmt: skip


@pytest.fixture
async def tree(admin: Admin) -> dict[str, str]:
    """A host with two NUMA nodes, and a disk that it shares with another host."""
    names = {"cn": await admin.provider("cn", {"DISK_GB": 10})}
    for name in ("numa0", "numa1"):
        names[name] = await admin.provider(
            name, {"VCPU": 4, "MEMORY_MB": 512}, parent_provider_uuid=names["cn"]
        )
    names["disk"] = await admin.provider("disk", {"DISK_GB": 100})
    await admin.traits(names["disk"], "MISC_SHARES_VIA_AGGREGATE")
    names["other"] = await admin.provider("other", {"VCPU": 1})
    names["aggregate"] = str(uuid.uuid4())
    for name in ("cn", "disk", "other"):
        body = {
            "aggregates": [names["aggregate"]],
            "resource_provider_generation": await admin.generation(names[name]),
        }
        await admin("PUT", f"/resource_providers/{names[name]}/aggregates", body)
    return names


async def test_a_group_without_a_name_spreads_over_a_tree(admin: Admin, tree: dict[str, str]) -> None:
    candidates = await found(admin, "resources=VCPU:2,DISK_GB:5", **tree)
    assert len(candidates) == 4
    assert {"numa0": {"VCPU": 2}, "disk": {"DISK_GB": 5}} in candidates
    assert {"numa1": {"VCPU": 2}, "cn": {"DISK_GB": 5}} in candidates
    only = await found(admin, "resources=VCPU:1,DISK_GB:50", **tree)
    assert {"other": {"VCPU": 1}, "disk": {"DISK_GB": 50}} in only
    assert len(only) == 3
    old = await ask(admin, "resources=VCPU:2,DISK_GB:5", "1.28")
    assert all(tree["disk"] in one["allocations"] for one in old["allocation_requests"])


async def test_named_groups(admin: Admin, tree: dict[str, str]) -> None:
    query = "resources1=VCPU:2,MEMORY_MB:128&resources2=VCPU:2"
    refused = await admin("GET", f"/allocation_candidates?{query}")
    assert refused.status_code == 400
    apart = await found(admin, f"{query}&group_policy=isolate", **tree)
    assert sorted(sorted(one) for one in apart) == [["numa0", "numa1"], ["numa0", "numa1"]]
    either = await found(admin, f"{query}&group_policy=none", **tree)
    assert {"numa0": {"VCPU": 4, "MEMORY_MB": 128}} in either
    assert len(either) == 4
    # Two that fit alone do not fit together.
    big = await found(admin, "resources1=VCPU:3&resources2=VCPU:3&group_policy=none", **tree)
    assert len(big) == 2


async def test_traits_and_trees(admin: Admin, tree: dict[str, str]) -> None:
    await admin.traits(tree["numa0"], "CUSTOM_GOLD")
    assert await found(admin, "resources1=VCPU:1&required1=CUSTOM_GOLD", **tree) == [{"numa0": {"VCPU": 1}}]
    in_tree = await found(admin, f"resources=VCPU:1&in_tree={tree['numa1']}", **tree)
    assert in_tree == [{"numa0": {"VCPU": 1}}, {"numa1": {"VCPU": 1}}]
    assert await found(admin, f"resources=VCPU:1&in_tree={uuid.uuid4()}", **tree) == []


async def test_one_subtree(admin: Admin, tree: dict[str, str]) -> None:
    gpu = await admin.provider("gpu", {"VGPU": 1}, parent_provider_uuid=tree["numa1"])
    query = "resources_C=VCPU:1&resources_G=VGPU:1&group_policy=none"
    names = {**tree, "gpu": gpu}
    assert len(await found(admin, query, **names)) == 2
    assert await found(admin, f"{query}&same_subtree=_C,_G", **names) == [
        {"numa1": {"VCPU": 1}, "gpu": {"VGPU": 1}}
    ]


async def test_aggregates(admin: Admin, tree: dict[str, str]) -> None:
    # An aggregate of the root spans its tree, but not for named groups.
    spread = await found(admin, f"resources=VCPU:2&member_of={tree['aggregate']}", **tree)
    assert len(spread) == 2
    assert await found(admin, f"resources1=VCPU:2&member_of1={tree['aggregate']}", **tree) == []
    assert await found(admin, f"resources=VCPU:2&member_of=!{tree['aggregate']}", **tree) == []


@pytest.mark.parametrize(
    ("query", "version"),
    [
        ("", "1.39"), ("", "1.10"), ("resources=VCPU", "1.39"), ("resources=NOTHING:1", "1.39"),
        ("resources=VCPU:1&required=NOTHING", "1.39"), ("resources=VCPU:1&limit=0", "1.39"),
        ("resources=VCPU:1&limit=1", "1.15"), ("resources=VCPU:1&required=HW_CPU_X86_VMX", "1.16"),
        ("resources1=VCPU:1", "1.24"), ("resources_A=VCPU:1", "1.32"), ("resources=VCPU:1&x=1", "1.39"),
        ("resources=VCPU:1&required1=HW_CPU_X86_VMX", "1.35"), ("resources=VCPU:1&group_policy=x", "1.39"),
        ("resources=VCPU:1&required=HW_CPU_X86_VMX,!HW_CPU_X86_VMX", "1.39"),
        ("resources=VCPU:1&same_subtree=_A", "1.39"), ("resources=VCPU:1&in_tree=x", "1.39"),
        ("resources=VCPU:1&root_required=HW_CPU_X86_VMX&root_required=HW_CPU_X86_AVX", "1.39"),
        ("resources=VCPU:1&required=in:HW_CPU_X86_VMX,HW_CPU_X86_AVX", "1.38"), ("resources=VCPU:1&member_of=a", "1.39"),
        ("resources=VCPU:99999999999999999999", "1.39"),
    ],
)  # fmt: skip
async def test_bad_requests(admin: Admin, query: str, version: str) -> None:
    assert (await admin("GET", f"/allocation_candidates?{query}", version=version)).status_code == 400
