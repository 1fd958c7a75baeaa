"""Servers whose disks are made anew: what changes, what stays, and when it is refused."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from tests.cloud import TestCloud
from tests.servers import (
    NEWEST,
    URL,
    act,
    boot,
    console,
    events,
    make_image,
    make_volume,
    private,
    remove,
    settled,
    show,
    wait_for,
    wait_for_everything,
)

from cumulet.core import faults
from cumulet.db.engine import Tx

pytestmark = pytest.mark.anyio


async def claims(cloud: TestCloud, id: str) -> dict[str, str]:
    """kind/part → id of what a server has on its host."""

    def read(tx: Tx) -> dict[str, str]:
        rows = tx.all("select id, kind, part from claims where holder = :id", id=id)
        return {f"{row['kind']}/{row['part']}".removesuffix("/"): row["id"] for row in rows}

    return await cloud.db.read(read)


async def test_everything_can_change(cloud: TestCloud, image: str) -> None:
    other = await make_image(cloud)
    key = {"keypair": {"name": "k", "public_key": "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQDk k"}}
    made = await cloud.post("/compute/v2.1/os-keypairs", json={"keypair": {"name": "k"}})
    assert made.status_code == 200, key
    before = await settled(cloud)
    id = await boot(
        cloud,
        imageRef=image,
        networks=[{"uuid": await private(cloud)}],
        config_drive=True,
        metadata={"a": "1"},
    )
    shown = await show(cloud, id)
    had = await claims(cloud, id)
    data = base64.b64encode(b"#!/bin/sh").decode()
    body = {
        "imageRef": other, "name": "new", "adminPass": "geheim", "metadata": {"b": "2"}, "description": "text",
        "accessIPv4": "192.0.2.1", "accessIPv6": "2001:db8::1", "OS-DCF:diskConfig": "AUTO", "key_name": "k",
        "user_data": data, "hostname": "host-x", "trusted_image_certificates": ["c1"], "preserve_ephemeral": True,
    }  # fmt: skip
    await cloud.db.write(faults.add, faults.Rule(step="disk.ensure", effect="hold"))
    answer = await act(cloud, id, "rebuild", body)
    assert answer.status_code == 202, answer.text
    assert answer.headers["location"] == f"http://cloud{URL}/{id}"
    told = answer.json()["server"]
    assert (told["adminPass"], told["status"], told["image"]["id"]) == ("geheim", "REBUILD", other)
    assert (told["key_name"], told["user_data"], told["description"]) == ("k", data, "text")
    assert told["OS-EXT-STS:task_state"] == "rebuilding"
    assert "OS-EXT-SRV-ATTR:user_data" not in told
    assert (await show(cloud, id))["status"] == "REBUILD"
    assert [one["id"] for one in (await cloud.get(f"{URL}?status=rebuild")).json()["servers"]] == [id]
    await cloud.db.write(faults.clear)
    now = await wait_for(cloud, id, "ACTIVE")
    assert (now["name"], now["metadata"], now["accessIPv4"], now["accessIPv6"]) == (
        "new", {"b": "2"}, "192.0.2.1", "2001:db8::1",
    )  # fmt: skip
    assert (now["OS-DCF:diskConfig"], now["OS-EXT-SRV-ATTR:hostname"]) == ("AUTO", "host-x")
    assert now["trusted_image_certificates"] == ["c1"]
    assert now["addresses"] == shown["addresses"]
    has = await claims(cloud, id)
    assert set(has) == set(had)
    # The guest and its disks are others; its port's interface is the same.
    assert {name for name in has if has[name] == had[name]} == {
        name for name in had if name.startswith("tap")
    }
    assert (await events(cloud, id))[0] == ("rebuild", "compute_rebuild_instance", "Success", None)
    # What is not named stays, and null takes away what can go.
    more = {"imageRef": image, "key_name": None, "user_data": None, "trusted_image_certificates": None}
    told = (await act(cloud, id, "rebuild", more)).json()["server"]
    assert (told["key_name"], told["user_data"], told["trusted_image_certificates"]) == (None, None, None)
    assert (told["name"], told["metadata"], told["description"]) == ("new", {"b": "2"}, "text")
    assert len(told["adminPass"]) == 12
    await wait_for(cloud, id, "ACTIVE")
    await remove(cloud, id)
    await wait_for_everything(cloud, before)


async def test_a_stopped_server_stays_stopped_and_one_in_error_runs(cloud: TestCloud, image: str) -> None:
    id = await boot(cloud, imageRef=image)
    await act(cloud, id, "os-stop")
    await wait_for(cloud, id, "SHUTOFF")
    assert (await act(cloud, id, "rebuild", {"imageRef": image})).status_code == 202
    shown = await wait_for(cloud, id, "SHUTOFF")
    assert shown["OS-EXT-STS:power_state"] == 4
    await act(cloud, id, "os-start")
    await wait_for(cloud, id, "ACTIVE")
    await act(cloud, id, "os-resetState", {"state": "error"}, as_="admin")
    assert (await act(cloud, id, "rebuild", {"imageRef": image})).status_code == 202
    await wait_for(cloud, id, "ACTIVE")
    assert (await console(cloud, id))[0].startswith("Booting")


async def test_ephemeral_disks_are_kept_if_asked(cloud: TestCloud, image: str) -> None:
    flavor = {
        "id": "e",
        "name": "e",
        "ram": 64,
        "vcpus": 1,
        "disk": 1,
        "OS-FLV-EXT-DATA:ephemeral": 1,
        "swap": 64,
    }
    assert (
        await cloud.post("/compute/v2.1/flavors", as_="admin", json={"flavor": flavor})
    ).status_code == 200
    id = await boot(cloud, imageRef=image, flavorRef="e")
    had = await claims(cloud, id)
    await act(cloud, id, "rebuild", {"imageRef": image, "preserve_ephemeral": "true"})
    await wait_for(cloud, id, "ACTIVE")
    has = await claims(cloud, id)
    assert {name for name in has if has[name] == had[name]} == {"disk/ephemeral0"}
    await act(cloud, id, "rebuild", {"imageRef": image})
    await wait_for(cloud, id, "ACTIVE")
    assert not set((await claims(cloud, id)).values()) & set(has.values())


async def test_what_is_refused(cloud: TestCloud, image: str) -> None:
    id = await boot(cloud, imageRef=image)
    unknown = "11111111-2222-3333-4444-555555555555"
    large = await make_image(cloud, min_disk=50)
    hungry = await make_image(cloud, min_ram=1 << 20)
    hidden = await make_image(cloud, visibility="private")
    bad: list[Any] = [
        None, {}, {"imageRef": "x"}, {"imageRef": unknown}, {"imageRef": hidden}, {"imageRef": large},
        {"imageRef": hungry}, {"imageRef": image, "name": ""}, {"imageRef": image, "name": "x" * 256},
        {"imageRef": image, "nothing": 1}, {"imageRef": image, "key_name": "moon"},
        {"imageRef": image, "user_data": "%"}, {"imageRef": image, "metadata": {"a": 1}},
        {"imageRef": image, "metadata": {"x" * 256: "a"}}, {"imageRef": image, "accessIPv4": "x"},
        {"imageRef": image, "trusted_image_certificates": []}, {"imageRef": image, "hostname": "a b"},
        {"imageRef": image, "personality": []}, {"imageRef": image, "preserve_ephemeral": "perhaps"},
        {"imageRef": image, "OS-DCF:diskConfig": "x"}, {"imageRef": image, "adminPass": 1},
    ]  # fmt: skip
    for value in bad:
        answer = await act(cloud, id, "rebuild", value)
        assert answer.status_code == 400, (value, answer.text)
    many = {f"k{n}": "v" for n in range(129)}
    assert (await act(cloud, id, "rebuild", {"imageRef": image, "metadata": many})).status_code == 403
    files = [{"path": f"/{n}", "contents": ""} for n in range(6)]
    over = await act(cloud, id, "rebuild", {"imageRef": image, "personality": files}, version="compute 2.56")
    assert over.status_code == 403
    assert (await act(cloud, id, "rebuild", {"imageRef": image}, as_="other")).status_code == 404
    assert (await act(cloud, id, "rebuild", {"imageRef": image}, as_="reader")).status_code == 403
    await act(cloud, id, "lock")
    assert (await act(cloud, id, "rebuild", {"imageRef": image})).status_code == 409
    assert (await show(cloud, id))["status"] == "ACTIVE"


async def test_injected_files_are_those_of_the_request(cloud: TestCloud, image: str) -> None:
    """They go into the disk that it makes, and are kept for no other."""

    async def contents() -> set[str]:
        sql = "select spec from claims where holder = :id and part = 'config' and wanted"
        (spec,) = await cloud.db.read(lambda tx: [row["spec"] for row in tx.all(sql, id=id)])
        return {base64.b64decode(data).decode() for path, data in spec["files"].items() if "content/" in path}

    def injected(text: str) -> list[dict[str, str]]:
        return [{"path": "/f", "contents": base64.b64encode(text.encode()).decode()}]

    before = await settled(cloud)
    old = "compute 2.56"
    id = await boot(cloud, version=old, imageRef=image, config_drive=True, personality=injected("first"))
    assert await contents() == {"first"}
    for body, there in (({"personality": injected("second")}, {"second"}), ({}, set())):
        answer = await act(cloud, id, "rebuild", {"imageRef": image, **body}, version=old)
        assert answer.status_code == 202, answer.text
        await wait_for(cloud, id, "ACTIVE")
        assert await contents() == there
    await remove(cloud, id)
    await wait_for_everything(cloud, before)


async def test_versions_of_fields(cloud: TestCloud, image: str) -> None:
    id = await boot(cloud, imageRef=image)
    fields: list[tuple[str, Any, int, int]] = [
        ("description", "d", 19, 18), ("key_name", None, 54, 53), ("user_data", None, 57, 56), ("personality", [], 56, 57),
        ("trusted_image_certificates", None, 63, 62), ("hostname", "ab", 90, 89),
    ]  # fmt: skip
    for field, value, known, unknown in fields:
        body = {"imageRef": image, field: value}
        refused = await act(cloud, id, "rebuild", body, version=f"compute 2.{unknown}")
        assert (refused.status_code, field in refused.text) == (400, True)
        assert (await act(cloud, id, "rebuild", body, version=f"compute 2.{known}")).status_code == 202
        await wait_for(cloud, id, "ACTIVE")


async def test_the_answer_of_each_version(cloud: TestCloud, image: str) -> None:
    id = await boot(cloud, imageRef=image)
    seen: dict[str, set[str]] = {}
    for version in ("2.1", "2.9", "2.19", "2.26", "2.47", "2.54", "2.57", "2.63", "2.71", "2.73", "2.75"):
        answer = await act(cloud, id, "rebuild", {"imageRef": image}, version=f"compute {version}")
        assert answer.status_code == 202
        seen[version] = set(answer.json()["server"])
        await wait_for(cloud, id, "ACTIVE")
    assert seen["2.1"] == {
        "id", "name", "status", "tenant_id", "user_id", "metadata", "hostId", "image", "flavor", "created", "updated",
        "addresses", "accessIPv4", "accessIPv6", "links", "OS-DCF:diskConfig", "adminPass", "progress",
    }  # fmt: skip
    added = [
        {"locked"}, {"description"}, {"tags"}, set(), {"key_name"}, {"user_data"}, {"trusted_image_certificates"},
        {"server_groups"}, {"locked_reason"},
    ]  # fmt: skip
    versions = list(seen)
    for before, after, new in zip(versions, versions[1:], added, strict=False):
        assert seen[after] - seen[before] == new, after
    assert {"OS-EXT-AZ:availability_zone", "config_drive", "OS-EXT-STS:vm_state"} <= seen["2.75"]


async def test_a_server_that_boots_from_a_volume(cloud: TestCloud, image: str) -> None:
    other = await make_image(cloud)
    before = await settled(cloud)
    device = {
        "boot_index": 0, "uuid": image, "source_type": "image", "destination_type": "volume", "volume_size": 1,
        "delete_on_termination": True,
    }  # fmt: skip
    id = await boot(cloud, block_device_mapping_v2=[device])
    (volume,) = [one["id"] for one in (await show(cloud, id))["os-extended-volumes:volumes_attached"]]
    refused = await act(cloud, id, "rebuild", {"imageRef": other}, version="compute 2.92")
    assert refused.status_code == 400
    certificates = {"imageRef": image, "trusted_image_certificates": ["c"]}
    assert (await act(cloud, id, "rebuild", certificates)).status_code == 400
    # Of the same image it keeps its volume as it is.
    had = await claims(cloud, id)
    assert (await act(cloud, id, "rebuild", {"imageRef": image}, version="compute 2.92")).status_code == 202
    await wait_for(cloud, id, "ACTIVE")
    has = await claims(cloud, id)
    assert {name.split("/")[0] for name in has if has[name] == had[name]} == {"connection", "export"}
    assert (await act(cloud, id, "rebuild", {"imageRef": other})).status_code == 202
    shown = await wait_for(cloud, id, "ACTIVE")
    assert shown["image"] == ""
    assert [one["id"] for one in shown["os-extended-volumes:volumes_attached"]] == [volume]
    metadata = (await cloud.get(f"/volume/v3/volumes/{volume}")).json()["volume"]
    assert metadata["volume_image_metadata"]["image_id"] == other
    assert (metadata["status"], metadata["attachments"][0]["server_id"]) == ("in-use", id)
    await remove(cloud, id)
    await wait_for_everything(cloud, before)


async def test_volumes_stay_attached(cloud: TestCloud, image: str) -> None:
    volume = await make_volume(cloud)
    before = await settled(cloud)
    id = await boot(cloud, imageRef=image)
    path = f"{URL}/{id}/os-volume_attachments"
    body = {"volumeAttachment": {"volumeId": volume}}
    await cloud.db.write(faults.add, faults.Rule(step="export.ensure", effect="hold"))
    assert (await cloud.post(path, json=body, version=NEWEST)).status_code == 200
    refused = await act(cloud, id, "rebuild", {"imageRef": image})
    assert (refused.status_code, volume in refused.text) == (400, True)
    assert (await act(cloud, id, "rescue")).status_code == 409
    await cloud.db.write(faults.clear)
    await settled(cloud)
    assert (await act(cloud, id, "rebuild", {"imageRef": image})).status_code == 202
    await wait_for(cloud, id, "ACTIVE")
    assert (await cloud.get(f"/volume/v3/volumes/{volume}")).json()["volume"]["status"] == "in-use"
    assert f"disk {volume} attached" in await console(cloud, id)
    await remove(cloud, id)
    await wait_for_everything(cloud, before)


async def test_the_image_is_gone_before_the_disk_is_made(cloud: TestCloud, image: str) -> None:
    other = await make_image(cloud, owner="demo", visibility="private")
    before = await settled(cloud)
    id = await boot(cloud, imageRef=image)
    await cloud.db.write(faults.add, faults.Rule(step="guest.remove", effect="hold"))
    await act(cloud, id, "rebuild", {"imageRef": other})
    assert (await cloud.delete(f"/image/v2/images/{other}")).status_code == 204
    await cloud.db.write(faults.clear)
    shown = await wait_for(cloud, id, "ERROR")
    assert other in shown["fault"]["message"]
    assert (await events(cloud, id))[0][2] == "Error"
    # Another rebuild helps.
    assert (await act(cloud, id, "rebuild", {"imageRef": image})).status_code == 202
    await wait_for(cloud, id, "ACTIVE")
    await remove(cloud, id)
    for name in ("images", "claims", "holders"):
        before[name] -= 1
    await settled(cloud)
    after = await settled(cloud)
    assert {name: after[name] for name in ("images", "claims", "holders", "consumers")} == {
        name: before[name] for name in ("images", "claims", "holders", "consumers")
    }
