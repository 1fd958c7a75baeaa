"""Groups of volumes, their snapshots, group types."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cloud import TestCloud
from tests.volumes import NEWEST, ROOT, SNAPSHOTS, VOLUMES, ask, gone, left, shows, snapshot, volume

pytestmark = pytest.mark.anyio
GROUPS, TAKEN, KINDS = f"{ROOT}/groups", f"{ROOT}/group_snapshots", f"{ROOT}/group_types"
MODERN = {"version": NEWEST}
ADMIN = {"as_": "admin", **MODERN}


async def kind(cloud: TestCloud, name: str = "kind", **body: Any) -> dict[str, Any]:
    body = {"group_type": {"name": name, **body}}
    found: dict[str, Any] = (await ask(cloud, "POST", KINDS, 202, json=body, **ADMIN))["group_type"]
    return found


async def group(cloud: TestCloud, **body: Any) -> dict[str, Any]:
    body = {"group": {"group_type": "kind", "volume_types": ["standard"], "name": "g", **body}}
    made = (await ask(cloud, "POST", GROUPS, 202, json=body, **MODERN))["group"]
    return await shows(cloud, f"{GROUPS}/{made['id']}", "available")


async def test_a_group_is_made_changed_and_deleted(cloud: TestCloud) -> None:
    type_ = await kind(cloud)
    made = await group(cloud)
    path = f"{GROUPS}/{made['id']}"
    assert (made["group_type"], made["availability_zone"], made["name"]) == (type_["id"], "nova", "g")
    assert made["project_id"] == cloud.project("demo")
    inside = await volume(cloud, group_id=made["id"], volume_type="standard")
    assert inside["group_id"] == made["id"]
    for body in ({"group_id": made["id"]}, {"group_id": made["id"], "volume_type": "__DEFAULT__"}):
        await ask(cloud, "POST", VOLUMES, 400, json={"volume": {"size": 1, **body}}, **MODERN)
    outside = await volume(cloud, volume_type="standard")
    wrong = await volume(cloud)
    for change in (
        {},
        {"name": "g"},
        {"add_volumes": wrong["id"]},
        {"add_volumes": "x"},
        {"remove_volumes": outside["id"]},
        {"add_volumes": outside["id"], "remove_volumes": outside["id"]},
    ):
        await ask(cloud, "PUT", path, 400, json={"group": change}, **MODERN)
    change = {"group": {"name": "h", "add_volumes": outside["id"], "remove_volumes": inside["id"]}}
    await ask(cloud, "PUT", path, 202, json=change, **MODERN)
    shown = (await ask(cloud, "GET", f"{path}?list_volume=True", 200, **MODERN))["group"]
    assert (shown["name"], shown["volumes"]) == ("h", [outside["id"]])
    assert "volumes" not in (await ask(cloud, "GET", path, 200, **MODERN))["group"]
    await ask(cloud, "DELETE", f"{VOLUMES}/{outside['id']}", 400)
    await ask(cloud, "POST", f"{path}/action", 400, json={"delete": {}}, **MODERN)
    await ask(cloud, "POST", f"{path}/action", 202, json={"delete": {"delete-volumes": True}}, **MODERN)
    await gone(cloud, f"{VOLUMES}/{outside['id']}")
    await gone(cloud, path)
    await ask(cloud, "GET", f"{VOLUMES}/{inside['id']}", 200)
    empty = await group(cloud)
    await ask(cloud, "POST", f"{GROUPS}/{empty['id']}/action", 202, json={"delete": {}}, **MODERN)
    await ask(cloud, "GET", f"{GROUPS}/{empty['id']}", 404, **MODERN)


async def test_who_sees_a_group(cloud: TestCloud) -> None:
    await kind(cloud)
    made = await group(cloud)
    path = f"{GROUPS}/{made['id']}"
    await ask(cloud, "GET", path, 404, as_="other", **MODERN)
    await ask(cloud, "GET", path, 404, version="volume 3.12")
    assert (await ask(cloud, "GET", GROUPS, 200, as_="other", **MODERN))["groups"] == []
    assert (await ask(cloud, "GET", GROUPS, 200, **MODERN))["groups"] == [{"id": made["id"], "name": "g"}]
    (detail,) = (await ask(cloud, "GET", f"{GROUPS}/detail?name=g", 200, **MODERN))["groups"]
    assert detail["status"] == "available"
    assert (await ask(cloud, "GET", f"{GROUPS}?name=x", 200, **MODERN))["groups"] == []
    await ask(cloud, "POST", f"{path}/action", 403, json={"reset_status": {"status": "error"}}, **MODERN)
    await ask(cloud, "POST", f"{path}/action", 400, json={"reset_status": {"status": "x"}}, **ADMIN)
    await ask(cloud, "POST", f"{path}/action", 202, json={"reset_status": {"status": "error"}}, **ADMIN)
    await shows(cloud, path, "error")
    for body in (
        {},
        {"group_type": "kind"},
        {"group_type": "kind", "volume_types": []},
        {"group_type": "", "volume_types": ["standard"]},
        {"group_type": "kind", "volume_types": ["standard"], "availability_zone": "nowhere"},
    ):
        await ask(cloud, "POST", GROUPS, 400, json={"group": body}, **MODERN)
    for body in (
        {"group_type": "x", "volume_types": ["standard"]},
        {"group_type": "kind", "volume_types": ["x"]},
    ):
        await ask(cloud, "POST", GROUPS, 404, json={"group": body}, **MODERN)
    quotas = f"{ROOT}/os-quota-sets/{cloud.project('demo')}"
    await ask(cloud, "PUT", quotas, 200, json={"quota_set": {"groups": 1}}, **ADMIN)
    more = {"group": {"group_type": "kind", "volume_types": ["standard"]}}
    await ask(cloud, "POST", GROUPS, 413, json=more, **MODERN)


async def test_a_snapshot_of_a_group_is_one_of_each_volume(cloud: TestCloud) -> None:
    type_ = await kind(cloud)
    made = await group(cloud)
    for name in ("a", "b"):
        await volume(cloud, group_id=made["id"], volume_type="standard", name=name)
    body = {"group_snapshot": {"group_id": made["id"], "name": "s"}}
    answer = (await ask(cloud, "POST", TAKEN, 202, json=body, **MODERN))["group_snapshot"]
    assert answer == {"id": answer["id"], "name": "s", "group_type_id": type_["id"]}
    path = f"{TAKEN}/{answer['id']}"
    await shows(cloud, path, "available")
    taken = (await ask(cloud, "GET", f"{SNAPSHOTS}/detail", 200, **MODERN))["snapshots"]
    assert [one["group_snapshot_id"] for one in taken] == [answer["id"]] * 2
    await ask(cloud, "DELETE", f"{SNAPSHOTS}/{taken[0]['id']}", 400)
    await ask(
        cloud,
        "POST",
        f"{GROUPS}/{made['id']}/action",
        400,
        json={"delete": {"delete-volumes": True}},
        **MODERN,
    )
    assert (await ask(cloud, "GET", TAKEN, 200, **MODERN))["group_snapshots"] == [
        {"id": answer["id"], "name": "s"}
    ]
    assert (await ask(cloud, "GET", f"{TAKEN}/detail?status=error", 200, **MODERN))["group_snapshots"] == []
    await ask(cloud, "GET", path, 404, as_="other", **MODERN)
    for source in ({"group_snapshot_id": answer["id"]}, {"source_group_id": made["id"]}):
        copy = {"create-from-src": {"name": "c", **source}}
        made_from = (await ask(cloud, "POST", f"{GROUPS}/action", 202, json=copy, **MODERN))["group"]
        shown = await shows(cloud, f"{GROUPS}/{made_from['id']}?list_volume=True", "available")
        assert len(shown["volumes"]) == 2
        assert {name: shown[name] for name in source} == source
        delete = {"delete": {"delete-volumes": True}}
        await ask(cloud, "POST", f"{GROUPS}/{made_from['id']}/action", 202, json=delete, **MODERN)
        await gone(cloud, f"{GROUPS}/{made_from['id']}")
    for wrong in ({}, {"group_snapshot_id": answer["id"], "source_group_id": made["id"]}):
        await ask(cloud, "POST", f"{GROUPS}/action", 400, json={"create-from-src": wrong}, **MODERN)
    await ask(cloud, "POST", f"{path}/action", 202, json={"reset_status": {"status": "creating"}}, **ADMIN)
    await ask(cloud, "DELETE", path, 400, **MODERN)
    await ask(cloud, "POST", f"{path}/action", 202, json={"reset_status": {"status": "available"}}, **ADMIN)
    await ask(cloud, "DELETE", path, 202, **MODERN)
    await gone(cloud, path)
    assert (await ask(cloud, "GET", SNAPSHOTS, 200))["snapshots"] == []
    await ask(
        cloud,
        "POST",
        f"{GROUPS}/{made['id']}/action",
        202,
        json={"delete": {"delete-volumes": True}},
        **MODERN,
    )
    await gone(cloud, f"{GROUPS}/{made['id']}")
    assert await left(cloud) == {}


async def test_what_keeps_a_group(cloud: TestCloud) -> None:
    await kind(cloud)
    made = await group(cloud)
    inside = (await volume(cloud, group_id=made["id"], volume_type="standard"))["id"]
    delete = {"delete": {"delete-volumes": True}}
    path = f"{GROUPS}/{made['id']}/action"
    taken = await snapshot(cloud, inside)
    await ask(cloud, "POST", path, 400, json=delete, **MODERN)
    await ask(cloud, "DELETE", f"{SNAPSHOTS}/{taken['id']}", 202)
    await gone(cloud, f"{SNAPSHOTS}/{taken['id']}")
    await ask(
        cloud, "POST", f"{ROOT}/attachments", 200, json={"attachment": {"volume_uuid": inside}}, **MODERN
    )
    await ask(cloud, "POST", path, 400, json=delete, **MODERN)
    empty = await group(cloud)
    await ask(cloud, "POST", TAKEN, 400, json={"group_snapshot": {"group_id": empty["id"]}}, **MODERN)
    copy = {"create-from-src": {"source_group_id": empty["id"]}}
    await ask(cloud, "POST", f"{GROUPS}/action", 400, json=copy, **MODERN)


async def test_group_types(cloud: TestCloud) -> None:
    made = await kind(cloud, " kind ", description="d", group_specs={"a": "1"})
    assert (made["name"], made["description"], made["is_public"], made["group_specs"]) == (
        "kind",
        "d",
        True,
        {"a": "1"},
    )
    hidden = await kind(cloud, "hidden", is_public=False)
    path = f"{KINDS}/{made['id']}"
    assert "group_specs" not in (await ask(cloud, "GET", path, 200, **MODERN))["group_type"]
    await ask(cloud, "GET", f"{KINDS}/{hidden['id']}", 404, **MODERN)
    await ask(cloud, "GET", f"{KINDS}/default", 404, **MODERN)
    await kind(cloud, "default")
    assert (await ask(cloud, "GET", f"{KINDS}/default", 200, **MODERN))["group_type"]["name"] == "default"
    names = {one["name"] for one in (await ask(cloud, "GET", KINDS, 200, **MODERN))["group_types"]}
    assert names == {"kind", "default"}
    body = await ask(cloud, "GET", f"{KINDS}?is_public=None", 200, **ADMIN)
    assert {one["name"] for one in body["group_types"]} == {"kind", "default", "hidden"}
    await ask(cloud, "POST", KINDS, 409, json={"group_type": {"name": "kind"}}, **ADMIN)
    await ask(cloud, "POST", KINDS, 403, json={"group_type": {"name": "x"}}, **MODERN)
    await ask(cloud, "POST", KINDS, 400, json={"group_type": {"name": " "}}, **ADMIN)
    change = {"group_type": {"name": "other", "description": "e"}}
    assert (await ask(cloud, "PUT", path, 200, json=change, **ADMIN))["group_type"]["name"] == "other"
    await ask(cloud, "PUT", path, 400, json={"group_type": {}}, **ADMIN)
    await ask(cloud, "PUT", path, 409, json={"group_type": {"name": "hidden"}}, **ADMIN)
    specs = f"{path}/group_specs"
    assert await ask(cloud, "POST", specs, 202, json={"group_specs": {"b": "2"}}, **ADMIN) == {
        "group_specs": {"b": "2"}
    }
    assert await ask(cloud, "GET", specs, 200, **ADMIN) == {"group_specs": {"a": "1", "b": "2"}}
    assert await ask(cloud, "PUT", f"{specs}/a", 200, json={"a": "3"}, **ADMIN) == {"a": "3"}
    await ask(cloud, "PUT", f"{specs}/a", 400, json={"b": "3"}, **ADMIN)
    assert await ask(cloud, "GET", f"{specs}/a", 200, **ADMIN) == {"a": "3"}
    await ask(cloud, "DELETE", f"{specs}/a", 202, **ADMIN)
    await ask(cloud, "DELETE", f"{specs}/a", 404, **ADMIN)
    await ask(cloud, "GET", specs, 403, **MODERN)
    await group(cloud, group_type="other")
    await ask(cloud, "DELETE", path, 400, **ADMIN)
    await ask(cloud, "DELETE", f"{KINDS}/{hidden['id']}", 202, **ADMIN)
    await ask(cloud, "GET", KINDS, 404)


async def test_qos_specs(cloud: TestCloud) -> None:
    path = f"{ROOT}/qos-specs"
    body = {"qos_specs": {"name": " fast ", "consumer": "front-end", "read_iops_sec": "2000"}}
    made = await ask(cloud, "POST", path, 200, json=body, **ADMIN)
    shown = made["qos_specs"]
    assert (shown["name"], shown["consumer"], shown["specs"]) == (
        "fast",
        "front-end",
        {"read_iops_sec": "2000"},
    )
    one = f"{path}/{shown['id']}"
    await ask(cloud, "POST", path, 409, json=body, **ADMIN)
    await ask(cloud, "POST", path, 403, json=body)
    for wrong in ({}, {"name": ""}, {"name": "x", "consumer": "x"}, {"name": "x", "a b": "x"}):
        await ask(cloud, "POST", path, 400, json={"qos_specs": wrong}, **ADMIN)
    change = {"qos_specs": {"total_iops_sec": "1", "consumer": "both"}}
    assert await ask(cloud, "PUT", one, 200, json=change, **ADMIN) == change
    found = (await ask(cloud, "GET", one, 200, **ADMIN))["qos_specs"]
    assert (found["consumer"], found["specs"]) == ("both", {"read_iops_sec": "2000", "total_iops_sec": "1"})
    await ask(cloud, "PUT", f"{one}/delete_keys", 404, json={"keys": ["x"]}, **ADMIN)
    await ask(cloud, "PUT", f"{one}/delete_keys", 202, json={"keys": ["total_iops_sec"]}, **ADMIN)
    assert [qos["id"] for qos in (await ask(cloud, "GET", path, 200, **ADMIN))["qos_specs"]] == [shown["id"]]
    types = (await ask(cloud, "GET", f"{ROOT}/types", 200))["volume_types"]
    standard = next(type_["id"] for type_ in types if type_["name"] == "standard")
    await ask(cloud, "GET", f"{one}/associate", 400, **ADMIN)
    await ask(cloud, "GET", f"{one}/associate?vol_type_id={cloud.chance.uuid()}", 404, **ADMIN)
    await ask(cloud, "GET", f"{one}/associate?vol_type_id={standard}", 202, **ADMIN)
    listed = await ask(cloud, "GET", f"{one}/associations", 200, **ADMIN)
    assert listed == {
        "qos_associations": [{"association_type": "volume_type", "id": standard, "name": "standard"}]
    }
    other = (await ask(cloud, "POST", path, 200, json={"qos_specs": {"name": "slow"}}, **ADMIN))["qos_specs"]
    assert other["consumer"] == "back-end"
    await ask(cloud, "GET", f"{path}/{other['id']}/associate?vol_type_id={standard}", 400, **ADMIN)
    # Who connects a volume of the type is told.
    attach = {
        "attachment": {
            "volume_uuid": (await volume(cloud, volume_type="standard"))["id"],
            "connector": {"host": "x"},
        }
    }
    told = (await ask(cloud, "POST", f"{ROOT}/attachments", 200, json=attach, **MODERN))["attachment"]
    assert told["connection_info"]["qos_specs"] == {"read_iops_sec": "2000"}
    await ask(cloud, "DELETE", one, 400, **ADMIN)
    await ask(cloud, "GET", f"{one}/disassociate?vol_type_id={standard}", 202, **ADMIN)
    assert (await ask(cloud, "GET", f"{one}/associations", 200, **ADMIN))["qos_associations"] == []
    await ask(cloud, "GET", f"{one}/associate?vol_type_id={standard}", 202, **ADMIN)
    await ask(cloud, "GET", f"{one}/disassociate_all", 202, **ADMIN)
    await ask(cloud, "DELETE", one, 202, **ADMIN)
    await ask(cloud, "GET", one, 404, **ADMIN)
    await ask(cloud, "GET", f"{path}/{other['id']}/associate?vol_type_id={standard}", 202, **ADMIN)
    await ask(cloud, "DELETE", f"{path}/{other['id']}?force=True", 202, **ADMIN)
