"""Volume types: extra specs, who may use them, encryption, defaults of projects."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.cloud import TestCloud, test_cloud
from tests.volumes import NEWEST, TYPES, VOLUMES, ask

from cumulet.core import volumes
from cumulet.db.engine import Database, Tx

pytestmark = pytest.mark.anyio
ADMIN = {"as_": "admin"}


@pytest.fixture
async def cloud(db: Database) -> AsyncIterator[TestCloud]:
    async with test_cloud(db) as made:
        yield made


async def make(cloud: TestCloud, name: str = "t", **body: Any) -> dict[str, Any]:
    body = {"volume_type": {"name": name, **body}}
    found: dict[str, Any] = (await ask(cloud, "POST", TYPES, 200, json=body, **ADMIN))["volume_type"]
    return found


async def use(cloud: TestCloud, type_id: str) -> None:
    """Have a volume of the type."""
    await cloud.db.write(_volume, cloud.project("demo"), type_id)


def _volume(tx: Tx, project: str, type_id: str) -> None:
    volumes.create_inner(tx, project_id=project, user_id="u", size=1, volume_type_id=type_id)


async def test_a_new_cloud_has_a_default_type(cloud: TestCloud) -> None:
    listed = (await ask(cloud, "GET", TYPES, 200))["volume_types"]
    assert {one["name"] for one in listed} == {"__DEFAULT__", "standard"}
    default = (await ask(cloud, "GET", f"{TYPES}/default", 200))["volume_type"]
    assert default["name"] == "__DEFAULT__"
    assert default["is_public"] is default["os-volume-type-access:is_public"] is True
    await ask(cloud, "DELETE", f"{TYPES}/{default['id']}", 400, **ADMIN)


async def test_types_are_made_changed_and_deleted(cloud: TestCloud) -> None:
    made = await make(cloud, " t ", description="d", extra_specs={"a": "b"})
    assert (made["name"], made["description"], made["extra_specs"]) == ("t", "d", {"a": "b"})
    path = f"{TYPES}/{made['id']}"
    await ask(cloud, "POST", TYPES, 409, json={"volume_type": {"name": "t"}}, **ADMIN)
    await ask(cloud, "POST", TYPES, 403, json={"volume_type": {"name": "u"}})
    for body in (
        {},
        {"name": ""},
        {"name": " "},
        {"name": "x" * 256},
        {"name": "x", "surprise": 1},
        {"name": 1},
    ):
        await ask(cloud, "POST", TYPES, 400, json={"volume_type": body}, **ADMIN)
    changed = await ask(
        cloud, "PUT", path, 200, json={"volume_type": {"name": "u", "is_public": "false"}}, **ADMIN
    )
    assert changed["volume_type"] == {
        "id": made["id"], "name": "u", "is_public": False, "description": "d", "extra_specs": {"a": "b"},
    }  # fmt: skip
    await ask(cloud, "PUT", path, 400, json={"volume_type": {}}, **ADMIN)
    await ask(cloud, "PUT", path, 400, json={"volume_type": {"name": " "}}, **ADMIN)
    await ask(cloud, "PUT", path, 409, json={"volume_type": {"name": "standard"}}, **ADMIN)
    await ask(cloud, "GET", path, 404)
    await use(cloud, made["id"])
    refused = await ask(cloud, "DELETE", path, 400, **ADMIN)
    assert "in use" in refused["badRequest"]["message"]
    unused = await make(cloud, "unused")
    await ask(cloud, "DELETE", f"{TYPES}/{unused['id']}", 202, **ADMIN)
    await ask(cloud, "GET", f"{TYPES}/{unused['id']}", 404, **ADMIN)


async def test_extra_specs(cloud: TestCloud) -> None:
    made = await make(cloud, extra_specs={"a": "1", "multiattach": "<is> True"})
    path = f"{TYPES}/{made['id']}/extra_specs"
    assert await ask(cloud, "POST", path, 200, json={"extra_specs": {"b": "2"}}, **ADMIN) == {
        "extra_specs": {"b": "2"}
    }
    assert await ask(cloud, "GET", path, 200) == {"extra_specs": {"multiattach": "<is> True"}}
    found = await ask(cloud, "GET", path, 200, **ADMIN)
    assert found == {"extra_specs": {"a": "1", "b": "2", "multiattach": "<is> True"}}
    assert await ask(cloud, "PUT", f"{path}/a", 200, json={"a": "3"}, **ADMIN) == {"a": "3"}
    assert await ask(cloud, "GET", f"{path}/a", 200, **ADMIN) == {"a": "3"}
    await ask(cloud, "GET", f"{path}/a", 404)
    for body in ({"b": "3"}, {"a": "3", "b": "3"}, {}, {"a": 1}):
        await ask(cloud, "PUT", f"{path}/a", 400, json=body, **ADMIN)
    for specs in ({"": "x"}, {"a b": "x"}, {"cacheable": "<is> True"}, "x"):
        await ask(cloud, "POST", path, 400, json={"extra_specs": specs}, **ADMIN)
    await ask(cloud, "DELETE", f"{path}/a", 202, **ADMIN)
    await ask(cloud, "DELETE", f"{path}/a", 404, **ADMIN)
    await use(cloud, made["id"])
    await ask(cloud, "POST", path, 400, json={"extra_specs": {"c": "x"}}, **ADMIN)
    await ask(cloud, "DELETE", f"{path}/b", 400, **ADMIN)


async def test_who_may_use_a_type(cloud: TestCloud) -> None:
    made = await make(cloud, **{"os-volume-type-access:is_public": False})
    path, access = f"{TYPES}/{made['id']}", f"{TYPES}/{made['id']}/os-volume-type-access"
    await ask(cloud, "GET", path, 404)
    assert await ask(cloud, "GET", access, 200, **ADMIN) == {"volume_type_access": []}
    give = {"addProjectAccess": {"project": cloud.project("demo")}}
    await ask(cloud, "POST", f"{path}/action", 202, json=give, **ADMIN)
    await ask(cloud, "POST", f"{path}/action", 409, json=give, **ADMIN)
    await ask(cloud, "POST", f"{path}/action", 400, json={"addProjectAccess": {"project": "x"}}, **ADMIN)
    await ask(cloud, "GET", path, 200)
    await ask(cloud, "GET", path, 404, as_="other")
    assert made["id"] in [one["id"] for one in (await ask(cloud, "GET", TYPES, 200))["volume_types"]]
    assert (await ask(cloud, "GET", access, 200, **ADMIN))["volume_type_access"] == [
        {"volume_type_id": made["id"], "project_id": cloud.project("demo")}
    ]
    take = {"removeProjectAccess": {"project": cloud.project("demo")}}
    await ask(cloud, "POST", f"{path}/action", 202, json=take, **ADMIN)
    await ask(cloud, "POST", f"{path}/action", 404, json=take, **ADMIN)
    public = f"{TYPES}/{(await make(cloud, 'public'))['id']}"
    await ask(cloud, "GET", f"{public}/os-volume-type-access", 404, **ADMIN)
    await ask(cloud, "POST", f"{public}/action", 400, json=give, **ADMIN)


async def test_lists(cloud: TestCloud) -> None:
    hidden = await make(cloud, "hidden", **{"os-volume-type-access:is_public": False})
    special = await make(cloud, "special", extra_specs={"multiattach": "<is> True", "k": "v"})

    async def names(query: str, as_: str = "admin", version: str = "") -> set[str]:
        body = await ask(cloud, "GET", f"{TYPES}{query}", 200, as_=as_, version=version)
        return {one["name"] for one in body["volume_types"]}

    assert await names("") == {"__DEFAULT__", "standard", "special"}
    assert await names("?is_public=None") == {"__DEFAULT__", "standard", "special", "hidden"}
    assert await names("?is_public=False") == {"hidden"}
    assert await names("?is_public=False", "demo") == {"__DEFAULT__", "standard", "special"}
    assert await names("?extra_specs={'k': 'v'}", version=NEWEST) == {"special"}
    assert await names("?extra_specs={'k': 'v'}", "demo", NEWEST) == set()
    assert await names("?extra_specs={'multiattach': '<is> True'}", "demo", NEWEST) == {"special"}
    assert await names("?limit=1&sort=name:asc") == {"__DEFAULT__"}
    assert await names(f"?marker={special['id']}&sort=name:asc") == {"standard"}
    await ask(cloud, "GET", f"{TYPES}?is_public=maybe", 400, **ADMIN)
    await ask(cloud, "GET", f"{TYPES}?surprise=1", 400, version="volume 3.52")
    assert hidden["is_public"] is False


async def test_encryption_is_kept_and_no_volume_pretends_to_have_it(cloud: TestCloud) -> None:
    made = await make(cloud)
    path = f"{TYPES}/{made['id']}/encryption"
    assert await ask(cloud, "GET", path, 200, **ADMIN) == {}
    specs = {
        "provider": "luks",
        "control_location": "front-end",
        "cipher": "aes-xts-plain64",
        "key_size": 256,
    }
    told = (await ask(cloud, "POST", path, 200, json={"encryption": specs}, **ADMIN))["encryption"]
    await ask(cloud, "POST", path, 400, json={"encryption": specs}, **ADMIN)
    found = await ask(cloud, "GET", path, 200, **ADMIN)
    assert told == {
        **specs,
        "volume_type_id": made["id"],
        "encryption_id": found["encryption_id"],
    }
    assert {name: found[name] for name in specs} == specs
    assert await ask(cloud, "GET", f"{path}/cipher", 200, **ADMIN) == {"cipher": "aes-xts-plain64"}
    change = {"encryption": {"key_size": "128", "provider": "plain"}}
    await ask(cloud, "PUT", f"{path}/{found['encryption_id']}", 200, json=change, **ADMIN)
    assert (await ask(cloud, "GET", path, 200, **ADMIN))["key_size"] == 128
    for body in ({}, {"provider": "x"}, {**specs, "control_location": "x"}, {**specs, "key_size": "x"}):
        await ask(cloud, "POST", path, 400, json={"encryption": body}, **ADMIN)
    await ask(cloud, "GET", path, 403)
    refused = await ask(cloud, "POST", VOLUMES, 400, json={"volume": {"size": 1, "volume_type": "t"}})
    assert "encryption" in refused["badRequest"]["message"]
    await ask(cloud, "DELETE", f"{path}/provider", 202, **ADMIN)
    await ask(cloud, "DELETE", f"{path}/provider", 404, **ADMIN)
    assert await ask(cloud, "GET", path, 200, **ADMIN) == {}


async def test_a_project_has_a_default_type_of_its_own(cloud: TestCloud) -> None:
    path = f"/volume/v3/default-types/{cloud.project('demo')}"
    modern = {"version": "volume 3.62", **ADMIN}
    await ask(cloud, "GET", path, 404, **modern)
    set_ = {"default_type": {"volume_type": "standard"}}
    answer = await ask(cloud, "PUT", path, 200, json=set_, **modern)
    standard = next(
        one for one in (await ask(cloud, "GET", TYPES, 200))["volume_types"] if one["name"] == "standard"
    )
    assert answer["default_type"] == {"project_id": cloud.project("demo"), "volume_type_id": standard["id"]}
    assert await ask(cloud, "GET", path, 200, **modern) == answer
    listed = await ask(cloud, "GET", "/volume/v3/default-types", 200, **modern)
    assert listed["default_types"] == [answer["default_type"]]
    assert (await ask(cloud, "GET", f"{TYPES}/default", 200))["volume_type"]["name"] == "standard"
    made = (await ask(cloud, "POST", VOLUMES, 202, json={"volume": {"size": 1}}))["volume"]
    assert made["volume_type"] == "standard"
    await ask(cloud, "DELETE", f"{TYPES}/{standard['id']}", 400, **ADMIN)
    await ask(cloud, "PUT", path, 400, json={"default_type": {"volume_type": "none"}}, **modern)
    unknown = f"/volume/v3/default-types/{cloud.chance.uuid()}"
    await ask(cloud, "PUT", unknown, 404, json=set_, **modern)
    await ask(cloud, "PUT", path, 403, json=set_, version="volume 3.62")
    await ask(cloud, "DELETE", path, 204, **modern)
    await ask(cloud, "GET", path, 404, **modern)
    await ask(cloud, "GET", "/volume/v3/default-types", 404, **ADMIN)
