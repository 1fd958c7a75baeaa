"""Servers over HTTP, with agents that make what is asked for: made, shown, deleted, and refused without a trace."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from tests.cloud import TestCloud
from tests.servers import (
    NEWEST,
    URL,
    attachments,
    boot,
    everything,
    make_image,
    make_volume,
    post,
    private,
    remove,
    settled,
    show,
    wait_for,
    wait_for_everything,
    wait_until_gone,
)

from cumulet.core import faults

pytestmark = pytest.mark.anyio


async def test_a_server_comes_and_goes(cloud: TestCloud, image: str) -> None:
    before = await settled(cloud)
    answer = await post(cloud, imageRef=image, networks=[{"uuid": await private(cloud)}], tags=["a", "b"])
    assert answer.status_code == 202
    made = answer.json()["server"]
    assert set(made) == {"id", "links", "OS-DCF:diskConfig", "security_groups", "adminPass"}
    assert answer.headers["location"] == made["links"][0]["href"]
    server = await wait_for(cloud, made["id"], "ACTIVE")
    assert server["tags"] == ["a", "b"]
    assert server["OS-EXT-STS:power_state"] == 1
    assert [ip["OS-EXT-IPS:type"] for ip in server["addresses"]["private"]] == ["fixed"]
    assert server["security_groups"] == [{"name": "default"}]
    assert len(server["hostId"]) == 56
    await remove(cloud, made["id"])
    await wait_for_everything(cloud, before)


async def test_a_server_with_volumes_and_a_port_comes_and_goes(cloud: TestCloud, image: str) -> None:
    network = await private(cloud)
    made = await cloud.post("/network/v2.0/ports", json={"port": {"network_id": network, "name": "mine"}})
    port = made.json()["port"]
    kept, ends = await make_volume(cloud), await make_volume(cloud)
    before = await settled(cloud)
    id = await boot(
        cloud,
        networks=[{"port": port["id"]}, {"uuid": network}],
        block_device_mapping_v2=[
            {
                "source_type": "image", "uuid": image, "destination_type": "volume", "volume_size": 2,
                "boot_index": 0, "delete_on_termination": True,
            },
            {"source_type": "volume", "uuid": kept, "destination_type": "volume"},
            {"source_type": "volume", "uuid": ends, "destination_type": "volume", "delete_on_termination": True},
            {"source_type": "blank", "destination_type": "volume", "volume_size": 1, "delete_on_termination": True},
        ],
    )  # fmt: skip
    server = await show(cloud, id)
    assert server["image"] == ""
    assert [one["delete_on_termination"] for one in server["os-extended-volumes:volumes_attached"]] == [
        True, False, True, True,
    ]  # fmt: skip
    assert [one["status"] for one in await attachments(cloud, kept)] == ["attached"]
    assert len(server["addresses"]["private"]) == 2
    await remove(cloud, id)
    # The second volume went with the server: its row, its holder, its bytes.
    gone = {name: before[name] - 1 for name in ("volumes", "holders", "claims")}
    await wait_for_everything(cloud, {**before, **gone})
    assert await attachments(cloud, kept) == []
    shown = (await cloud.get(f"/network/v2.0/ports/{port['id']}")).json()["port"]
    assert (shown["device_id"], shown["device_owner"], shown["status"]) == ("", "", "DOWN")
    assert shown["fixed_ips"] == port["fixed_ips"]


async def test_deleted_before_a_host_is_chosen_it_is_gone_at_once(cloud: TestCloud, image: str) -> None:
    await cloud.db.write(faults.add, faults.Rule(step="schedule", effect="hold"))
    before = await settled(cloud)
    volume = await make_volume(cloud)
    made = await post(
        cloud, imageRef=image, networks=[{"uuid": await private(cloud)}],
        block_device_mapping_v2=[
            {"source_type": "image", "uuid": image, "destination_type": "local", "boot_index": 0},
            {"source_type": "volume", "uuid": volume, "destination_type": "volume", "delete_on_termination": True},
        ],
    )  # fmt: skip
    id = made.json()["server"]["id"]
    assert (await show(cloud, id))["status"] == "BUILD"
    assert (await cloud.delete(f"{URL}/{id}")).status_code == 204
    assert (await cloud.get(f"{URL}/{id}")).status_code == 404
    assert (await cloud.delete(f"{URL}/{id}")).status_code == 404
    await wait_for_everything(cloud, before)


async def test_a_second_delete_is_harmless_and_not_recorded(cloud: TestCloud, image: str) -> None:
    id = await boot(cloud, imageRef=image)
    await cloud.db.write(faults.add, faults.Rule(step="guest.remove", effect="hold"))
    for _ in range(3):
        assert (await cloud.delete(f"{URL}/{id}")).status_code == 204
    assert (await show(cloud, id))["OS-EXT-STS:task_state"] == "deleting"
    await cloud.db.write(faults.clear)
    await wait_until_gone(cloud, id)
    recorded = await cloud.db.read(
        lambda tx: tx.values("select action from actions where server_id = :id order by started_at", id=id)
    )
    assert recorded == ["create", "delete"]


async def test_what_others_see_of_a_server(cloud: TestCloud, image: str) -> None:
    id = await boot(cloud, imageRef=image)
    assert (await cloud.get(f"{URL}/{id}", as_="other")).status_code == 404
    assert (await cloud.delete(f"{URL}/{id}", as_="other")).status_code == 404
    assert (await cloud.get(f"{URL}/{id}", as_="reader")).status_code == 200
    assert (await cloud.delete(f"{URL}/{id}", as_="reader")).status_code == 403
    assert (await cloud.get(URL, as_="other")).json() == {"servers": []}
    assert (await post(cloud, as_="reader", imageRef=image)).status_code == 403
    seen = await show(cloud, id, as_="admin")
    assert seen["OS-EXT-SRV-ATTR:host"] == seen["OS-EXT-SRV-ATTR:hypervisor_hostname"] != ""
    assert seen["host_status"] == "UP"
    assert not {"OS-EXT-SRV-ATTR:host", "host_status"} & set(await show(cloud, id))


# --- refused, and nothing is left of it ---


async def _refused(cloud: TestCloud, status: int, **fields: Any) -> None:
    before = await everything(cloud)
    for _ in range(2):
        answer = await post(cloud, **fields)
        assert answer.status_code == status, answer.text
        assert await everything(cloud) == before
    assert (await cloud.get(URL)).json() == {"servers": []}


async def test_every_refusal_leaves_nothing(cloud: TestCloud, image: str) -> None:
    network = await private(cloud)
    ports = [
        (await cloud.post("/network/v2.0/ports", json={"port": {"network_id": network}})).json()["port"]["id"]
        for _ in range(2)
    ]
    volume = await make_volume(cloud, bootable=True)
    await cloud.db.write(
        lambda tx: tx.update("ports", ports[1], device_id="another", device_owner="compute:nova")
    )
    fields: dict[str, Any] = {
        "networks": [{"port": ports[0]}],
        "block_device_mapping_v2": [
            {"source_type": "volume", "uuid": volume, "destination_type": "volume", "boot_index": 0}
        ],
    }
    await _refused(cloud, 400, **fields, key_name="nobodys")
    await _refused(cloud, 400, **fields, security_groups=[{"name": "nobodys"}])
    await _refused(cloud, 409, **{**fields, "networks": [{"port": ports[0]}, {"port": ports[1]}]})
    await _refused(cloud, 400, **fields, availability_zone="nowhere")
    await _refused(cloud, 400, **{**fields, "flavorRef": "none"})
    group = await _full_group(cloud)
    await _refused(cloud, 403, **fields, hints={"group": group})
    queued = await make_image(cloud)
    await cloud.db.write(lambda tx: tx.update("images", queued, status="queued"))
    await _refused(cloud, 400, imageRef=queued, networks=[{"port": ports[0]}])
    large = await make_image(cloud, min_disk=2)
    await _refused(cloud, 400, imageRef=large, networks=[{"port": ports[0]}])
    await cloud.db.write(_limit, cloud.project("demo"), "instances", 0)
    await _refused(cloud, 403, **fields)
    assert await attachments(cloud, volume) == []
    shown = (await cloud.get(f"/network/v2.0/ports/{ports[0]}")).json()["port"]
    assert shown["device_id"] == ""


def _limit(tx: Any, project: str, resource: str, limit: int) -> None:
    from cumulet.core import quota

    quota.set_limits(tx, "compute", project, {resource: limit})


async def _full_group(cloud: TestCloud) -> str:
    def make(tx: Any) -> str:
        id = tx.uuid()
        tx.insert(
            "server_groups", id=id, project_id=cloud.project("demo"), user_id=cloud.user("demo"), name="g",
            policy="affinity", rules={}, created_at=tx.now,
        )  # fmt: skip
        _limit(tx, cloud.project("demo"), "server_group_members", 0)
        return str(id)

    return await cloud.db.write(make)


async def test_a_repeated_request_is_refused_and_names_the_holder(cloud: TestCloud, image: str) -> None:
    network = await private(cloud)
    made = await cloud.post("/network/v2.0/ports", json={"port": {"network_id": network}})
    port = made.json()["port"]["id"]
    volume = await make_volume(cloud, bootable=True)
    first = await boot(cloud, imageRef=image, networks=[{"port": port}])
    again = await post(cloud, imageRef=image, networks=[{"port": port}])
    assert again.status_code == 409
    assert first in again.text
    devices = [{"source_type": "volume", "uuid": volume, "destination_type": "volume", "boot_index": 0}]
    second = await boot(cloud, block_device_mapping_v2=devices)
    again = await post(cloud, block_device_mapping_v2=devices)
    assert again.status_code == 400
    assert second in again.text
    assert {one["id"] for one in (await cloud.get(URL)).json()["servers"]} == {first, second}


BAD: tuple[dict[str, Any], ...] = (
    {"name": ""}, {"name": "n" * 256}, {"name": " a"}, {"flavorRef": ""}, {"imageRef": "x"}, {"unknown": 1},
    {"metadata": {"k" * 256: "v"}}, {"metadata": {"k": "v" * 256}}, {"metadata": {"k": 1}}, {"metadata": {"": "v"}},
    {"accessIPv4": "1.2.3"}, {"accessIPv6": "1.2.3.4"}, {"min_count": 0}, {"min_count": 3, "max_count": 2},
    {"min_count": "x"}, {"user_data": "!"}, {"user_data": "A" * 65536}, {"config_drive": "perhaps"},
    {"networks": "all"}, {"networks": [{}]}, {"networks": [{"uuid": "x"}]}, {"networks": [{"port": "x"}]},
    {"networks": [{"uuid": "00000000-0000-0000-0000-000000000000"}]}, {"tags": ["a,b"]}, {"tags": ["t" * 61]},
    {"tags": [str(i) for i in range(51)]}, {"OS-DCF:diskConfig": "SOMETIMES"}, {"key_name": ""},
    {"description": "d" * 256}, {"hostname": "a b"}, {"security_groups": "default"}, {"imageRef": ""},
    {"block_device_mapping_v2": [{"source_type": "blank", "destination_type": "local", "volume_size": 1}]},
    {"block_device_mapping_v2": [{"source_type": "moon"}]}, {"trusted_image_certificates": []},
    {"host": "nowhere"}, {"hints": {"group": "x"}}, {"block_device_mapping_v2": [{"device_name": "a b"}]},
)  # fmt: skip


async def test_bad_fields_are_refused(cloud: TestCloud, image: str) -> None:
    before = await settled(cloud)
    for fields in BAD:
        answer = await post(cloud, as_="admin", **{"imageRef": image, **fields})
        assert answer.status_code == 400, (fields, answer.text)
        assert list(answer.json()) == ["badRequest"]
    assert await everything(cloud) == before


UNKNOWN_YET: tuple[tuple[str, dict[str, Any]], ...] = (
    ("2.18", {"description": "d"}), ("2.51", {"tags": ["a"]}), ("2.57", {"personality": []}),
    ("2.62", {"trusted_image_certificates": ["a"]}), ("2.73", {"host": "h1"}), ("2.89", {"hostname": "h1"}),
    ("2.93", {"hostname": "h1.example.org"}), ("2.36", {"networks": "none"}),
    ("2.37", {"networks": [{"uuid": "n", "tag": "t"}]}), ("2.1", {"networks": [{"uuid": "n", "tag": "t"}]}),
)  # fmt: skip


async def test_what_a_version_does_not_know(cloud: TestCloud, image: str) -> None:
    for version, fields in UNKNOWN_YET:
        answer = await post(cloud, version=f"compute {version}", imageRef=image, **{"networks": [], **fields})
        assert answer.status_code == 400, (version, answer.text)
    body = {"server": {"name": "s", "flavorRef": "42", "imageRef": image}}
    assert (await cloud.post(URL, json=body, version="compute 2.37")).status_code == 400


async def test_several_at_once(cloud: TestCloud, image: str) -> None:
    answer = await post(cloud, imageRef=image, min_count=2, max_count=3, return_reservation_id=True)
    reservation = answer.json()["reservation_id"]
    listed = (
        await cloud.get(f"{URL}?reservation_id={reservation}&sort_key=display_name&sort_dir=asc")
    ).json()
    assert [one["name"] for one in listed["servers"]] == ["s-1", "s-2", "s-3"]
    await cloud.db.write(_limit, cloud.project("demo"), "instances", 5)
    answer = await post(cloud, imageRef=image, min_count=1, max_count=5, name="few")
    assert answer.status_code == 202
    assert len((await cloud.get(URL)).json()["servers"]) == 5
    assert (await post(cloud, imageRef=image)).status_code == 403


async def test_what_the_guest_is_told_and_nobody_else(cloud: TestCloud, image: str) -> None:
    answer = await post(
        cloud, version="compute 2.56", imageRef=image, config_drive="true", user_data="aGVsbG8=",
        personality=[{"path": "/etc/motd", "contents": "d2VsY29tZQ=="}], adminPass="topsecret", key_name=None,
    )  # fmt: skip
    assert answer.status_code == 400
    answer = await post(
        cloud, version="compute 2.56", imageRef=image, config_drive="true", user_data="aGVsbG8=",
        personality=[{"path": "/etc/motd", "contents": "d2VsY29tZQ=="}], adminPass="topsecret",
    )  # fmt: skip
    assert answer.status_code == 202, answer.text
    assert answer.json()["server"]["adminPass"] == "topsecret"
    id = answer.json()["server"]["id"]
    await wait_for(cloud, id, "ACTIVE")
    assert (await show(cloud, id, version="compute 2.1"))["config_drive"] == "True"
    files = await cloud.db.read(
        lambda tx: tx.value("select spec from claims where holder = :id and part = 'config'", id=id)
    )
    told = {path: base64.b64decode(text).decode() for path, text in files["files"].items()}
    assert told["openstack/latest/user_data"] == "hello"
    assert told["openstack/content/0000"] == "welcome"
    assert "topsecret" in told["openstack/latest/meta_data.json"]
    await remove(cloud, id)
    kept = await cloud.db.read(
        lambda tx: tx.value("select server from deleted_servers where id = :id", id=id)
    )
    assert "topsecret" not in str(kept)
    assert "d2VsY29tZQ" not in str(kept)
    many = [{"path": f"/{i}", "contents": ""} for i in range(6)]
    assert (await post(cloud, version="compute 2.56", imageRef=image, personality=many)).status_code == 403


async def test_a_network_on_demand(cloud: TestCloud, image: str) -> None:
    # The project has one network: that one is meant, with "auto" as without any word before 2.37.
    first = await boot(cloud, imageRef=image, networks="auto")
    assert list((await show(cloud, first))["addresses"]) == ["private"]
    body = {"server": {"name": "s", "flavorRef": "42", "imageRef": image}}
    second = (await cloud.post(URL, json=body)).json()["server"]["id"]
    await wait_for(cloud, second, "ACTIVE")
    assert list((await show(cloud, second))["addresses"]) == ["private"]
    made = await cloud.post("/network/v2.0/networks", json={"network": {"name": "more"}})
    assert (await post(cloud, imageRef=image, networks="auto")).status_code == 409
    id = made.json()["network"]["id"]
    assert (await post(cloud, imageRef=image, networks=[{"uuid": id}])).status_code == 400
    public = await cloud.db.read(lambda tx: tx.value("select id from networks where name = 'public'"))
    assert (await post(cloud, imageRef=image, networks=[{"uuid": public}])).status_code == 403


# --- shapes ---

BASE = {
    "id", "name", "status", "tenant_id", "user_id", "metadata", "hostId", "image", "flavor", "created", "updated",
    "addresses", "accessIPv4", "accessIPv6", "links", "OS-DCF:diskConfig", "OS-EXT-AZ:availability_zone",
    "config_drive", "key_name", "OS-SRV-USG:launched_at", "OS-SRV-USG:terminated_at", "OS-EXT-STS:task_state",
    "OS-EXT-STS:vm_state", "OS-EXT-STS:power_state", "os-extended-volumes:volumes_attached", "progress",
}  # fmt: skip
ADDED = (
    ("2.9", {"locked"}), ("2.19", {"description"}), ("2.26", {"tags"}), ("2.63", {"trusted_image_certificates"}),
    ("2.71", {"server_groups"}), ("2.73", {"locked_reason"}), ("2.90", {"OS-EXT-SRV-ATTR:hostname"}),
    ("2.96", {"pinned_availability_zone"}), ("2.100", {"scheduler_hints"}), ("2.104", set()),
)  # fmt: skip


async def test_shape_of_each_version(cloud: TestCloud, image: str) -> None:
    id = await boot(cloud, imageRef=image, description="d")
    keys = set(BASE)
    assert set(await show(cloud, id, version="compute 2.1")) == keys
    for version, more in ADDED:
        keys |= more
        assert set(await show(cloud, id, version=f"compute {version}")) == keys
        listed = (await cloud.get(f"{URL}/detail", version=f"compute {version}")).json()["servers"]
        assert set(listed[0]) == keys - {"server_groups"}
    old, new = [(await show(cloud, id, version=f"compute {v}"))["flavor"] for v in ("2.46", "2.47")]
    assert (set(old), set(new)) == (
        {"id", "links"},
        {"vcpus", "ram", "disk", "ephemeral", "swap", "original_name", "extra_specs"},
    )


async def test_what_the_image_said_is_shown_since_2_98(cloud: TestCloud) -> None:
    said = {"os_distro": "fedora", "hw_disk_bus": "scsi", "architecture": "x86_64", "mine": "x"}
    image = await make_image(cloud, properties=said)
    id = await boot(cloud, imageRef=image)
    assert "properties" not in (await show(cloud, id, version="compute 2.97"))["image"]
    known = {name: value for name, value in said.items() if name != "mine"}
    for version in ("2.98", "2.104"):
        assert (await show(cloud, id, version=f"compute {version}"))["image"]["properties"] == known
        listed = (await cloud.get(f"{URL}/detail", version=f"compute {version}")).json()["servers"]
        assert listed[0]["image"]["properties"] == known


async def test_hints_are_shown_since_2_100(cloud: TestCloud, image: str) -> None:
    first = await boot(cloud, imageRef=image)
    hints = {"different_host": [first], "mine": "x"}
    id = await boot(cloud, imageRef=image, hints=hints)
    at = "compute 2.100"
    assert (await show(cloud, first, version=at))["scheduler_hints"] == {}
    assert (await show(cloud, id, version=at))["scheduler_hints"] == hints
    listed = (await cloud.get(f"{URL}/detail?uuid={id}", version=at)).json()["servers"]
    assert {one["id"]: one["scheduler_hints"] for one in listed} == {first: {}, id: hints}
    changed = await cloud.put(f"{URL}/{id}", json={"server": {"name": "n"}}, version=at)
    assert changed.json()["server"]["scheduler_hints"] == hints


async def test_a_server_is_pinned_and_unpinned_since_2_104(cloud: TestCloud, image: str) -> None:
    at = "compute 2.104"

    async def pin(id: str, zone: Any, status: int, version: str = at) -> Any:
        body = {"server": {"pinned_availability_zone": zone}}
        answer = await cloud.put(f"{URL}/{id}", json=body, version=version)
        assert answer.status_code == status, answer.text
        return answer.json().get("server", {}).get("pinned_availability_zone")

    id = await boot(cloud, imageRef=image, availability_zone="nova")
    assert (await show(cloud, id, version=at))["pinned_availability_zone"] == "nova"
    assert await pin(id, "nova", 200) == "nova"
    await pin(id, "moon", 409)
    await pin(id, None, 400, "compute 2.103")
    for _ in range(2):
        assert await pin(id, None, 200) is None
    request = await cloud.db.read(lambda tx: tx.value("select request from servers where id = :id", id=id))
    assert request["zone"] is None, "the next host is chosen in any zone"
    await pin(id, "moon", 409)
    await pin(id, " x", 400)
    assert await pin(id, "nova", 200) == "nova"
    request = await cloud.db.read(lambda tx: tx.value("select request from servers where id = :id", id=id))
    assert request["zone"] == "nova"


# --- lists ---


async def test_filters(cloud: TestCloud, image: str) -> None:
    await cloud.db.write(_limit, cloud.project("demo"), "instances", -1)
    network = await private(cloud)
    ids = {
        "web-1": await boot(cloud, imageRef=image, name="web-1", tags=["a", "b"]),
        "web-2": await boot(cloud, imageRef=image, name="web-2", tags=["a"], networks=[{"uuid": network}]),
        "db.x": await boot(cloud, imageRef=image, name="db.x", flavorRef="84"),
    }
    others = await boot(cloud, as_="other", imageRef=image, name="web-3")

    async def names(query: str, *, as_: str = "demo", version: str = NEWEST, kind: str = "") -> set[str]:
        answer = await cloud.get(f"{URL}{kind}?{query}", as_=as_, version=version)
        assert answer.status_code == 200, answer.text
        return {one["name"] for one in answer.json()["servers"]}

    address = (await show(cloud, ids["web-2"]))["addresses"]["private"][0]["addr"]
    host = (await show(cloud, ids["web-1"], as_="admin"))["OS-EXT-SRV-ATTR:host"]
    for kind in ("", "/detail"):
        assert await names("name=web", kind=kind) == {"web-1", "web-2"}
        assert await names("name=^web-[13]$", kind=kind) == {"web-1"}
        assert await names("name=db.x", kind=kind) == {"db.x"}
        assert await names("status=active", kind=kind) == set(ids)
        assert await names("status=SHUTOFF", kind=kind) == set()
        assert await names("status=SHUTOFF&status=ACTIVE", kind=kind) == set(ids)
        assert await names("flavor=84", kind=kind) == {"db.x"}
        assert await names("flavor=none", kind=kind) == set()
        assert await names(f"image={image}", kind=kind) == set(ids)
        assert await names(f"ip=^{address}$", kind=kind) == {"web-2"}
        assert await names("ip=10.0.0", kind=kind) == {"web-2"}
        assert await names("ip6=fd", kind=kind) == set()
        assert await names("tags=a,b", kind=kind) == {"web-1"}
        assert await names("tags-any=a,b", kind=kind) == {"web-1", "web-2"}
        assert await names("not-tags=a,b", kind=kind) == {"web-2", "db.x"}
        assert await names("not-tags-any=a", kind=kind) == {"db.x"}
        assert await names("locked=false", kind=kind) == set(ids)
        assert await names("power_state=1", kind=kind) == set(ids)
        assert await names("availability_zone=nova", kind=kind) == set(ids)
        assert await names("deleted=True", kind=kind) == set(ids)
        assert await names("host=nowhere", kind=kind) == set(ids)
        assert await names(f"all_tenants=1&host={host}", as_="admin", kind=kind) >= {"web-1"}
        assert await names("all_tenants=1&host=nowhere", as_="admin", kind=kind) == set()
        assert await names("all_tenants=1", as_="admin", kind=kind) == {*ids, "web-3"}
        project = cloud.project("other")
        assert await names(f"all_tenants=1&project_id={project}", as_="admin", kind=kind) == {"web-3"}
        assert await names(f"project_id={project}", as_="admin", kind=kind) == set()
        assert await names(f"uuid={others}&all_tenants=1", as_="admin", kind=kind) == {"web-3"}
        assert await names("changes-since=2020-01-01T00:00:00Z", kind=kind) == set(ids)
        assert await names("changes-since=2999-01-01T00:00:00Z", kind=kind) == set()
    await remove(cloud, ids["db.x"])
    for kind in ("", "/detail"):
        assert await names("", kind=kind) == {"web-1", "web-2"}
        assert await names("changes-since=2020-01-01T00:00:00Z", kind=kind) == set(ids)
        assert await names("deleted=True", as_="admin", kind=kind) == set()
        assert await names("deleted=True&all_tenants=1", as_="admin", kind=kind) == {"db.x"}
        assert await names("status=deleted&all_tenants=1", as_="admin", kind=kind) == {"db.x"}
    for query, status in (
        ("status=deleted", 403), ("all_tenants=1", 403), ("changes-since=x", 400), ("limit=-1", 400),
        ("limit=x", 400), ("marker=none", 400), ("sort_key=x", 400), ("status=moon", 400), ("name=(", 400),
        ("unknown=1", 400), ("locked=perhaps", 400),
        ("changes-since=2021-01-01T00:00:00Z&changes-before=2020-01-01T00:00:00Z", 400),
    ):  # fmt: skip
        assert (await cloud.get(f"{URL}?{query}", version=NEWEST)).status_code == status, query
    assert (await cloud.get(f"{URL}?unknown=1&status=moon")).json() == {"servers": []}


async def test_pages(cloud: TestCloud, image: str) -> None:
    answer = await post(cloud, imageRef=image, max_count=5)
    assert answer.status_code == 202
    for kind in ("", "/detail"):
        url, found = f"{URL}{kind}?limit=2&sort_key=display_name&sort_dir=asc", []
        while url:
            body = (await cloud.get(url)).json()
            assert len(body["servers"]) <= 2
            found += [one["name"] for one in body["servers"]]
            url = body["servers_links"][0]["href"] if "servers_links" in body else ""
        assert found == [f"s-{i}" for i in range(1, 6)]
        matched = (
            await cloud.get(f"{URL}{kind}?name=s-[135]&limit=2&sort_key=display_name&sort_dir=desc")
        ).json()
        assert [one["name"] for one in matched["servers"]] == ["s-5", "s-3"]
        behind = (await cloud.get(matched["servers_links"][0]["href"])).json()
        assert [one["name"] for one in behind["servers"]] == ["s-1"]
        assert (await cloud.get(f"{URL}{kind}?limit=0")).json() == {"servers": []}
