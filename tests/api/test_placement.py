"""Placement over HTTP: providers, inventories, allocations, usages, traits and classes, at their versions."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.cloud import TestCloud, test_cloud

from cumulet.db.engine import PostgresDatabase, SqliteDatabase

pytestmark = pytest.mark.anyio

URL = "/placement"
NEWEST = "placement 1.39"


@pytest.fixture
async def cloud(db: SqliteDatabase | PostgresDatabase) -> AsyncIterator[TestCloud]:
    async with test_cloud(db) as made:
        yield made


class Admin:
    """Requests of an administrator at one version, below /placement."""

    def __init__(self, cloud: TestCloud, version: str = NEWEST) -> None:
        self.cloud = cloud
        self.version = version

    async def __call__(self, method: str, path: str, json: Any = None, version: str = "") -> Any:
        version = f"placement {version}" if version else self.version
        call = getattr(self.cloud, method.lower())
        body = {} if json is None else {"json": json}
        return await call(URL + path, as_="admin", version=version, **body)

    async def provider(self, name: str, lines: dict[str, Any] | None = None, **more: Any) -> str:
        made = await self("POST", "/resource_providers", {"name": name, **more})
        assert made.status_code == 200, made.text
        key = str(made.json()["uuid"])
        if lines:
            await self.lines(key, lines)
        return key

    async def generation(self, key: str) -> int:
        return int((await self("GET", f"/resource_providers/{key}")).json()["generation"])

    async def lines(self, key: str, lines: dict[str, Any]) -> None:
        whole = {name: line if isinstance(line, dict) else {"total": line} for name, line in lines.items()}
        body = {"inventories": whole, "resource_provider_generation": await self.generation(key)}
        answer = await self("PUT", f"/resource_providers/{key}/inventories", body)
        assert answer.status_code == 200, answer.text

    async def traits(self, key: str, *names: str) -> None:
        for name in names:
            if name.startswith("CUSTOM_"):
                await self("PUT", f"/traits/{name}")
        body = {"traits": names, "resource_provider_generation": await self.generation(key)}
        answer = await self("PUT", f"/resource_providers/{key}/traits", body)
        assert answer.status_code == 200, answer.text

    async def take(self, taken: dict[str, Any], consumer: str = "", generation: int | None = None) -> Any:
        body = {
            "allocations": {key: {"resources": amounts} for key, amounts in taken.items()},
            "project_id": "p", "user_id": "u", "consumer_generation": generation, "consumer_type": "INSTANCE",
        }  # fmt: skip
        return await self("PUT", f"/allocations/{consumer or uuid.uuid4()}", body)


@pytest.fixture
def admin(cloud: TestCloud) -> Admin:
    return Admin(cloud)


async def test_root_needs_no_token(cloud: TestCloud) -> None:
    for path in (URL, URL + "/"):
        answer = await cloud.client.get(path)
        assert answer.status_code == 200
        version = answer.json()["versions"][0]
        assert (version["min_version"], version["max_version"]) == ("1.0", "1.39")


async def test_only_administrators_and_services(cloud: TestCloud) -> None:
    refused = await cloud.get(f"{URL}/resource_providers", as_="demo", version=NEWEST)
    assert refused.status_code == 403
    assert refused.json()["errors"][0]["code"] == "placement.undefined_code"
    assert (await cloud.client.get(f"{URL}/resource_providers")).status_code == 401


@pytest.mark.parametrize(
    ("version", "rels", "keys"),
    [
        ("1.0", ["self", "inventories", "usages"], set()),
        ("1.6", ["self", "inventories", "usages", "aggregates", "traits"], set()),
        (
            "1.14",
            ["self", "inventories", "usages", "aggregates", "traits", "allocations"],
            {"parent_provider_uuid", "root_provider_uuid"},
        ),
    ],
)
async def test_shape_of_providers(admin: Admin, version: str, rels: list[str], keys: set[str]) -> None:
    key = await admin.provider("one")
    shown = (await admin("GET", f"/resource_providers/{key}", version=version)).json()
    listed = (await admin("GET", "/resource_providers", version=version)).json()["resource_providers"]
    assert listed == [shown]
    assert set(shown) == {"uuid", "name", "generation", "links"} | keys
    assert [link["rel"] for link in shown["links"]] == rels


async def test_caching_headers_since_1_15(admin: Admin) -> None:
    old = await admin("GET", "/resource_providers", version="1.14")
    new = await admin("GET", "/resource_providers", version="1.15")
    assert "last-modified" not in old.headers
    assert new.headers["cache-control"] == "no-cache"
    assert new.headers["last-modified"].endswith("GMT")


async def test_a_provider_is_made_and_told_of_since_1_20(admin: Admin) -> None:
    old = await admin("POST", "/resource_providers", {"name": "old"}, "1.19")
    assert (old.status_code, old.content) == (201, b"")
    assert old.headers["location"].startswith("http://")
    assert (await admin("GET", "/resource_providers?name=old")).json()["resource_providers"][0][
        "generation"
    ] == 0
    again = await admin("POST", "/resource_providers", {"name": "old"})
    assert again.status_code == 409
    assert again.json()["errors"][0]["code"] == "placement.duplicate_name"


async def test_error_codes_since_1_23(admin: Admin) -> None:
    assert "code" not in (await admin("GET", "/resource_providers/x", version="1.22")).json()["errors"][0]
    assert (await admin("GET", "/nothing", version="1.23")).json()["errors"][0]["code"] == (
        "placement.undefined_code"
    )


@pytest.mark.parametrize(
    "body", [{}, [], {"name": ""}, {"name": "n" * 201}, {"name": "a", "uuid": "x"}, {"name": "a", "more": 1}]
)
async def test_bad_providers(admin: Admin, body: Any) -> None:
    assert (await admin("POST", "/resource_providers", body)).status_code == 400


async def test_media_types(cloud: TestCloud, admin: Admin) -> None:
    headers = {"content-type": "text/plain"}
    for path in ("/resource_providers", "/allocations"):
        answer = await cloud.post(URL + path, as_="admin", version=NEWEST, headers=headers, content=b"{}")
        assert answer.status_code == 415
    answer = await cloud.get(
        f"{URL}/resource_providers", as_="admin", version=NEWEST, headers={"accept": "text/plain"}
    )
    assert answer.status_code == 406


async def test_trees(admin: Admin) -> None:
    root = await admin.provider("root")
    child = await admin.provider("child", parent_provider_uuid=root)
    leaf = await admin.provider("leaf", parent_provider_uuid=child)
    shown = (await admin("GET", f"/resource_providers/{leaf}")).json()
    assert (shown["parent_provider_uuid"], shown["root_provider_uuid"]) == (child, root)
    listed = (await admin("GET", f"/resource_providers?in_tree={child}")).json()["resource_providers"]
    assert [one["name"] for one in listed] == ["child", "leaf", "root"]
    refused = await admin("DELETE", f"/resource_providers/{child}")
    assert refused.json()["errors"][0]["code"] == "placement.resource_provider.cannot_delete_parent"

    loop = {"name": "child", "parent_provider_uuid": leaf}
    assert (await admin("PUT", f"/resource_providers/{child}", loop)).status_code == 400
    alone = {"name": "child", "parent_provider_uuid": None}
    assert (await admin("PUT", f"/resource_providers/{child}", alone, "1.36")).status_code == 400
    assert (await admin("PUT", f"/resource_providers/{child}", alone)).status_code == 200
    assert (await admin("GET", f"/resource_providers/{leaf}")).json()["root_provider_uuid"] == child
    for key in (leaf, child, root):
        assert (await admin("DELETE", f"/resource_providers/{key}")).status_code == 204
    assert (await admin("GET", "/resource_providers")).json()["resource_providers"] == []


async def test_a_parent_must_be_there(admin: Admin) -> None:
    body = {"name": "a", "parent_provider_uuid": str(uuid.uuid4())}
    assert (await admin("POST", "/resource_providers", body)).status_code == 400


async def test_inventories(admin: Admin) -> None:
    key = await admin.provider("one")
    path = f"/resource_providers/{key}/inventories"
    made = await admin("POST", path, {"resource_class": "VCPU", "total": 8})
    assert made.status_code == 201
    assert made.json() == {
        "total": 8, "reserved": 0, "min_unit": 1, "max_unit": 2147483647, "step_size": 1,
        "allocation_ratio": 1.0, "resource_provider_generation": 1,
    }  # fmt: skip
    assert (await admin("POST", path, {"resource_class": "VCPU", "total": 8})).status_code == 409
    assert (await admin("POST", path, {"resource_class": "NOTHING", "total": 8})).status_code == 400
    changed = {"total": 9, "resource_provider_generation": 1, "allocation_ratio": 2.5}
    assert (await admin("PUT", f"{path}/VCPU", changed)).json()["allocation_ratio"] == 2.5
    stale = await admin("PUT", f"{path}/VCPU", changed)
    assert stale.json()["errors"][0]["code"] == "placement.concurrent_update"
    assert (
        await admin("PUT", f"{path}/DISK_GB", {**changed, "resource_provider_generation": 2})
    ).status_code == 400
    assert (await admin("DELETE", f"{path}/DISK_GB")).status_code == 404
    assert (await admin("GET", f"{path}/DISK_GB")).status_code == 404
    assert (await admin("DELETE", f"{path}/VCPU")).status_code == 204
    assert (await admin("GET", path)).json() == {"inventories": {}, "resource_provider_generation": 3}


async def test_all_of_the_reserve_since_1_26(admin: Admin) -> None:
    key = await admin.provider("one")
    path = f"/resource_providers/{key}/inventories"
    body = {"resource_class": "VCPU", "total": 8, "reserved": 8}
    assert (await admin("POST", path, body, "1.25")).status_code == 400
    assert (await admin("POST", path, {**body, "reserved": 9})).status_code == 400
    assert (await admin("POST", path, body)).status_code == 201


@pytest.mark.parametrize(
    "line",
    [
        {}, {"total": 0}, {"total": -1}, {"total": "many"}, {"total": 2147483648}, {"total": 1, "min_unit": 0},
        {"total": 1, "step_size": 0}, {"total": 1, "allocation_ratio": -1.0}, {"total": 1, "allocation_ratio": 1e39},
        {"total": 1, "more": 1}, {"total": 1, "reserved": -1},
    ],
)  # fmt: skip
async def test_bad_lines(admin: Admin, line: dict[str, Any]) -> None:
    key = await admin.provider("one")
    body = {"resource_class": "VCPU", **line}
    assert (await admin("POST", f"/resource_providers/{key}/inventories", body)).status_code == 400


async def test_clearing_an_inventory_since_1_5(admin: Admin) -> None:
    key = await admin.provider("one", {"VCPU": 8})
    path = f"/resource_providers/{key}/inventories"
    assert (await admin("DELETE", path, version="1.4")).status_code == 405
    consumer = str(uuid.uuid4())
    await admin.take({key: {"VCPU": 1}}, consumer)
    refused = await admin("DELETE", path)
    assert refused.json()["errors"][0]["code"] == "placement.inventory.inuse"
    assert (await admin("DELETE", f"/resource_providers/{key}")).status_code == 409
    await admin("DELETE", f"/allocations/{consumer}")
    assert (await admin("DELETE", path)).status_code == 204


async def test_allocations_and_usages(admin: Admin) -> None:
    key = await admin.provider("one", {"VCPU": 8, "MEMORY_MB": 1024})
    consumer = str(uuid.uuid4())
    assert (await admin.take({key: {"VCPU": 2, "MEMORY_MB": 512}}, consumer)).status_code == 204
    shown = (await admin("GET", f"/allocations/{consumer}")).json()
    assert shown == {
        "allocations": {key: {"resources": {"VCPU": 2, "MEMORY_MB": 512}, "generation": 2}},
        "project_id": "p", "user_id": "u", "consumer_generation": 1, "consumer_type": "INSTANCE",
    }  # fmt: skip
    of = (await admin("GET", f"/resource_providers/{key}/allocations")).json()
    assert of["allocations"] == {
        consumer: {"resources": {"VCPU": 2, "MEMORY_MB": 512}, "consumer_generation": 1}
    }
    used = (await admin("GET", f"/resource_providers/{key}/usages")).json()
    assert used == {"usages": {"VCPU": 2, "MEMORY_MB": 512}, "resource_provider_generation": 2}
    assert (await admin("GET", "/usages?project_id=p", version="1.37")).json() == {
        "usages": {"VCPU": 2, "MEMORY_MB": 512}
    }
    typed = {"VCPU": 2, "MEMORY_MB": 512, "consumer_count": 1}
    assert (await admin("GET", "/usages?project_id=p")).json() == {"usages": {"INSTANCE": typed}}
    assert (await admin("GET", "/usages?project_id=p&consumer_type=all")).json() == {"usages": {"all": typed}}
    assert (await admin("GET", "/usages?project_id=p&consumer_type=unknown")).json() == {"usages": {}}
    assert (await admin("GET", "/usages?project_id=p&user_id=v", version="1.9")).json() == {"usages": {}}
    assert (await admin("DELETE", f"/allocations/{consumer}")).status_code == 204
    assert (await admin("DELETE", f"/allocations/{consumer}")).status_code == 404
    assert (await admin("GET", f"/allocations/{consumer}")).json() == {"allocations": {}}
    assert (await admin("GET", f"/resource_providers/{key}/usages")).json()["usages"] == {
        "VCPU": 0, "MEMORY_MB": 0,
    }  # fmt: skip


async def test_a_project_reads_its_own_usages(cloud: TestCloud) -> None:
    mine = await cloud.db.read(lambda tx: tx.value("select id from projects where name = 'demo'"))
    path = f"{URL}/usages?project_id={mine}"
    assert (await cloud.get(path, as_="reader", version=NEWEST)).status_code == 200
    assert (await cloud.get(path, as_="other", version=NEWEST)).status_code == 403


async def test_generations_of_consumers_since_1_28(admin: Admin) -> None:
    key = await admin.provider("one", {"VCPU": 8})
    consumer = str(uuid.uuid4())
    assert (await admin.take({key: {"VCPU": 1}}, consumer, generation=5)).status_code == 409
    assert (await admin.take({key: {"VCPU": 1}}, consumer)).status_code == 204
    again = await admin.take({key: {"VCPU": 1}}, consumer)
    assert again.json()["errors"][0]["code"] == "placement.concurrent_update"
    assert (await admin.take({key: {"VCPU": 2}}, consumer, generation=1)).status_code == 204
    assert (await admin.take({}, consumer, generation=2)).status_code == 204
    assert (await admin("GET", f"/allocations/{consumer}")).json() == {"allocations": {}}


async def test_older_forms_of_allocations(admin: Admin) -> None:
    key = await admin.provider("one", {"VCPU": 8})
    one = {"resource_provider": {"uuid": key}, "resources": {"VCPU": 1}}
    oldest: dict[str, Any] = {"allocations": [one]}
    owned = {**oldest, "project_id": "p", "user_id": "u"}
    new = {**owned, "allocations": {key: {"resources": {"VCPU": 1}}}}
    for version, body, status in (
        ("1.0", oldest, 204), ("1.0", owned, 400), ("1.8", oldest, 400), ("1.8", owned, 204),
        ("1.12", owned, 400), ("1.12", new, 204), ("1.12", {**new, "allocations": {}}, 400), ("1.28", new, 400),
        ("1.33", {**new, "consumer_generation": None, "mappings": {"": [key]}}, 400),
        ("1.34", {**new, "consumer_generation": None, "mappings": {"": [key]}}, 204),
        ("1.38", {**new, "consumer_generation": None}, 400),
    ):  # fmt: skip
        answer = await admin("PUT", f"/allocations/{uuid.uuid4()}", body, version)
        assert answer.status_code == status, (version, body, answer.text)


@pytest.mark.parametrize(
    ("line", "amount", "status"),
    [
        ({"total": 8}, 8, 204), ({"total": 8}, 9, 409), ({"total": 8, "reserved": 4}, 5, 409),
        ({"total": 4, "allocation_ratio": 2.0}, 8, 204), ({"total": 8, "max_unit": 4}, 5, 409),
        ({"total": 8, "min_unit": 2}, 1, 409), ({"total": 8, "step_size": 3}, 4, 409),
        ({"total": 8, "step_size": 3}, 6, 204),
    ],
)  # fmt: skip
async def test_what_fits(admin: Admin, line: dict[str, Any], amount: int, status: int) -> None:
    key = await admin.provider("one", {"VCPU": line})
    assert (await admin.take({key: {"VCPU": amount}})).status_code == status


async def test_what_is_not_there_cannot_be_taken(admin: Admin) -> None:
    key = await admin.provider("one", {"VCPU": 8})
    assert (await admin.take({str(uuid.uuid4()): {"VCPU": 1}})).status_code == 400
    assert (await admin.take({key: {"CUSTOM_NOTHING": 1}})).status_code == 400
    assert (await admin.take({key: {"DISK_GB": 1}})).status_code == 409
    assert (await admin.take({key: {"VCPU": 0}})).status_code == 400
    assert (await admin.take({key: {}})).status_code == 400
    # Nothing of a refused request stays.
    assert (await admin("GET", f"/resource_providers/{key}/allocations")).json()["allocations"] == {}
    assert await admin.cloud.db.read(lambda tx: tx.value("select count(*) from consumers")) == 0


async def test_a_full_provider_can_be_relieved(admin: Admin) -> None:
    key = await admin.provider("one", {"VCPU": 8})
    consumer = str(uuid.uuid4())
    await admin.take({key: {"VCPU": 8}}, consumer)
    await admin.lines(key, {"VCPU": 4})
    assert (await admin.take({key: {"VCPU": 9}}, consumer, generation=1)).status_code == 409
    assert (await admin.take({key: {"VCPU": 6}}, consumer, generation=1)).status_code == 204


async def test_many_at_once_all_or_nothing(admin: Admin) -> None:
    key = await admin.provider("one", {"VCPU": 8})
    one, other = str(uuid.uuid4()), str(uuid.uuid4())

    def body(amounts: dict[str, int], generation: int | None = None) -> dict[str, Any]:
        return {
            consumer: {
                "allocations": {key: {"resources": {"VCPU": amount}}} if amount else {},
                "project_id": "p", "user_id": "u", "consumer_generation": generation, "consumer_type": "MIGRATION",
            }
            for consumer, amount in amounts.items()
        }  # fmt: skip

    assert (await admin("POST", "/allocations", body({one: 5, other: 5}))).status_code == 409
    assert (await admin("GET", f"/allocations/{one}")).json() == {"allocations": {}}
    assert (await admin("POST", "/allocations", body({one: 5}))).status_code == 204
    # What one gives back, another can take in the same request.
    moved = {**body({one: 0}, 1), **body({other: 8})}
    assert (await admin("POST", "/allocations", moved)).status_code == 204
    assert (await admin("GET", f"/allocations/{one}")).json() == {"allocations": {}}
    assert (await admin("POST", "/allocations", {})).status_code == 400
    assert (await admin("POST", "/allocations", {"x": {}})).status_code == 400
    assert (await admin("POST", "/allocations", body({one: 1}), "1.12")).status_code == 404


async def test_traits(admin: Admin) -> None:
    assert (await admin("GET", "/traits", version="1.5")).status_code == 404
    assert (await admin("PUT", "/traits/CUSTOM_A")).status_code == 201
    assert (await admin("PUT", "/traits/CUSTOM_A")).status_code == 204
    assert (await admin("GET", "/traits/CUSTOM_A")).status_code == 204
    assert (await admin("GET", "/traits/CUSTOM_B")).status_code == 404
    for bad in ("A", "CUSTOM_", "CUSTOM_a", "CUSTOM_" + "A" * 249):
        assert (await admin("PUT", f"/traits/{bad}")).status_code == 400
    assert (await admin("GET", "/traits?name=startswith:CUSTOM_")).json() == {"traits": ["CUSTOM_A"]}
    assert (await admin("GET", "/traits?name=in:HW_CPU_X86_VMX,NOTHING")).json() == {
        "traits": ["HW_CPU_X86_VMX"]
    }
    assert (await admin("GET", "/traits?name=x")).status_code == 400
    key = await admin.provider("one")
    await admin.traits(key, "CUSTOM_A", "HW_CPU_X86_VMX")
    assert (await admin("GET", "/traits?associated=true")).json() == {
        "traits": ["CUSTOM_A", "HW_CPU_X86_VMX"]
    }
    assert (await admin("DELETE", "/traits/CUSTOM_A")).status_code == 409
    assert (await admin("DELETE", "/traits/HW_CPU_X86_AVX")).status_code == 400
    stale = {"traits": [], "resource_provider_generation": 0}
    assert (await admin("PUT", f"/resource_providers/{key}/traits", stale)).status_code == 409
    unknown = {"traits": ["CUSTOM_B"], "resource_provider_generation": 1}
    assert (await admin("PUT", f"/resource_providers/{key}/traits", unknown)).status_code == 400
    assert (await admin("DELETE", f"/resource_providers/{key}/traits")).status_code == 204
    assert (await admin("GET", f"/resource_providers/{key}/traits")).json() == {
        "traits": [], "resource_provider_generation": 2,
    }  # fmt: skip
    assert (await admin("DELETE", "/traits/CUSTOM_A")).status_code == 204


async def test_resource_classes(admin: Admin) -> None:
    listed = (await admin("GET", "/resource_classes")).json()["resource_classes"]
    assert [one["name"] for one in listed[:3]] == ["VCPU", "MEMORY_MB", "DISK_GB"]
    assert (await admin("GET", "/resource_classes", version="1.1")).status_code == 404
    assert (await admin("POST", "/resource_classes", {"name": "CUSTOM_A"})).status_code == 201
    assert (await admin("POST", "/resource_classes", {"name": "CUSTOM_A"})).status_code == 409
    assert (await admin("POST", "/resource_classes", {"name": "A"})).status_code == 400
    assert (await admin("PUT", "/resource_classes/CUSTOM_A", {"name": "CUSTOM_B"}, "1.6")).status_code == 200
    assert (await admin("GET", "/resource_classes/CUSTOM_A")).status_code == 404
    assert (await admin("PUT", "/resource_classes/CUSTOM_B")).status_code == 204
    assert (await admin("PUT", "/resource_classes/CUSTOM_C")).status_code == 201
    assert (await admin("PUT", "/resource_classes/VCPU")).status_code == 400
    await admin.provider("one", {"CUSTOM_B": 1})
    assert (await admin("DELETE", "/resource_classes/CUSTOM_B")).status_code == 409
    assert (await admin("DELETE", "/resource_classes/VCPU")).status_code == 400
    assert (await admin("DELETE", "/resource_classes/CUSTOM_C")).status_code == 204


async def test_aggregates_of_providers(admin: Admin) -> None:
    key, one = await admin.provider("one"), str(uuid.uuid4())
    path = f"/resource_providers/{key}/aggregates"
    assert (await admin("PUT", path, [one], "1.18")).json() == {"aggregates": [one]}
    assert await admin.generation(key) == 0
    body = {"aggregates": [one], "resource_provider_generation": 0}
    assert (await admin("PUT", path, body)).json() == {"aggregates": [one], "resource_provider_generation": 1}
    assert (await admin("PUT", path, body)).status_code == 409
    assert (await admin("PUT", path, [one, one], "1.18")).status_code == 400
    listed = (await admin("GET", f"/resource_providers?member_of=in:{uuid.uuid4()},{one}")).json()
    assert len(listed["resource_providers"]) == 1
    assert (await admin("GET", f"/resource_providers?member_of=!{one}")).json()["resource_providers"] == []
    assert (await admin("GET", f"/resource_providers?member_of=!{one}", version="1.31")).status_code == 400


async def test_which_providers_are_listed(admin: Admin) -> None:
    big = await admin.provider("big", {"VCPU": 8, "DISK_GB": 100})
    await admin.provider("small", {"VCPU": 2})
    await admin.traits(big, "HW_CPU_X86_VMX")

    async def names(query: str) -> list[str]:
        listed = (await admin("GET", f"/resource_providers?{query}")).json()["resource_providers"]
        return [one["name"] for one in listed]

    assert await names("resources=VCPU:2") == ["big", "small"]
    assert await names("resources=VCPU:3") == ["big"]
    assert await names("resources=VCPU:1,DISK_GB:1") == ["big"]
    assert await names("required=HW_CPU_X86_VMX") == ["big"]
    assert await names("required=!HW_CPU_X86_VMX") == ["small"]
    assert await names("required=in:HW_CPU_X86_VMX,HW_CPU_X86_AVX") == ["big"]
    assert await names(f"uuid={big}") == ["big"]
    for bad in (
        "resources=VCPU",
        "resources=NOTHING:1",
        "resources=VCPU:0",
        "required=NOTHING",
        "uuid=x",
        "x=1",
    ):
        assert (await admin("GET", f"/resource_providers?{bad}")).status_code == 400, bad


async def test_reshaping_moves_what_is_taken(cloud: TestCloud, admin: Admin) -> None:
    root = await admin.provider("root", {"VCPU": 8})
    child = await admin.provider("child", parent_provider_uuid=root)
    consumer = str(uuid.uuid4())
    await admin.take({root: {"VCPU": 8}}, consumer)
    body = {
        "inventories": {
            root: {"inventories": {}, "resource_provider_generation": 2},
            child: {"inventories": {"VCPU": {"total": 8}}, "resource_provider_generation": 0},
        },
        "allocations": {
            consumer: {
                "allocations": {child: {"resources": {"VCPU": 8}}}, "project_id": "p", "user_id": "u",
                "consumer_generation": 1, "consumer_type": "INSTANCE",
            }
        },
    }  # fmt: skip
    refused = {**body, "allocations": {}}
    path = f"{URL}/reshaper"
    answer = await cloud.post(path, as_="service", version=NEWEST, json=refused)
    assert answer.json()["errors"][0]["code"] == "placement.inventory.inuse"
    assert (await cloud.post(path, as_="service", version=NEWEST, json=body)).status_code == 204
    shown = (await admin("GET", f"/allocations/{consumer}")).json()["allocations"]
    assert {key: one["resources"] for key, one in shown.items()} == {child: {"VCPU": 8}}
    assert (await admin("GET", f"/resource_providers/{root}/inventories")).json()["inventories"] == {}
    assert (await cloud.post(path, as_="service", version=NEWEST, json=body)).status_code == 409
