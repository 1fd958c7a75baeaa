"""What is done to a volume apart from attaching it: size, type, flags, content, status."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests import servers
from tests.cloud import TestCloud, until
from tests.servers import make_image
from tests.volumes import (
    NEWEST,
    NOTHING,
    SNAPSHOTS,
    TYPES,
    VOLUMES,
    act,
    ask,
    gone,
    shows,
    snapshot,
    things,
    volume,
)

pytestmark = pytest.mark.anyio


async def show(cloud: TestCloud, id: str) -> dict[str, Any]:
    found: dict[str, Any] = (await ask(cloud, "GET", f"{VOLUMES}/{id}", 200, version=NEWEST, as_="admin"))[
        "volume"
    ]
    return found


async def bytes_of(cloud: TestCloud, id: str) -> dict[str, Any]:
    """The claim of a volume's bytes."""
    row = await cloud.db.read(
        lambda tx: tx.one("select * from claims where holder = :id and kind = 'volume' and wanted", id=id)
    )
    assert row is not None
    return row


# --- size ---


async def test_a_volume_grows_and_shows_its_new_size_when_it_has_it(cloud: TestCloud) -> None:
    id = (await volume(cloud))["id"]
    for size in (1, 0, "x", -1):
        await act(cloud, id, 400, {"os-extend": {"new_size": size}})
    await act(cloud, id, 202, {"os-extend": {"new_size": "3"}})
    grown = await shows(cloud, f"{VOLUMES}/{id}", "available")
    assert grown["size"] == 3
    assert (await bytes_of(cloud, id))["facts"]["size_gb"] == 3


async def test_a_volume_in_use_grows_since_3_42(cloud: TestCloud) -> None:
    id = (await volume(cloud))["id"]
    await act(cloud, id, 200, {"os-set_bootable": {"bootable": True}})
    device = {"uuid": id, "source_type": "volume", "destination_type": "volume", "boot_index": 0}
    server = await servers.boot(cloud, block_device_mapping_v2=[device])
    await act(cloud, id, 400, {"os-extend": {"new_size": 2}}, version="volume 3.41")
    await act(cloud, id, 202, {"os-extend": {"new_size": 2}}, version="volume 3.42")
    assert (await shows(cloud, f"{VOLUMES}/{id}", "in-use"))["size"] == 2
    assert (await servers.show(cloud, server))["status"] == "ACTIVE"
    guest = await cloud.db.read(lambda tx: tx.value("select spec from claims where kind = 'guest'"))
    assert guest["volumes"][0]["size_gb"] == 2
    assert await extensions(cloud, server) == [("compute_extend_volume", "Success")]
    rule = await cloud.db.write(_fail, "volume.ensure")
    await act(cloud, id, 202, {"os-extend": {"new_size": 3}}, version="volume 3.42")
    assert (await shows(cloud, f"{VOLUMES}/{id}", "error_extending"))["size"] == 2
    assert await extensions(cloud, server) == [
        ("compute_extend_volume", "Error"),
        ("compute_extend_volume", "Success"),
    ]
    await cloud.db.write(_remove, rule)
    await servers.remove(cloud, server)


async def extensions(cloud: TestCloud, server: str) -> list[tuple[str, str]]:
    """What the server's actions say of its volumes' extensions, the last first, once all of that has ended."""
    root = f"{servers.URL}/{server}/os-instance-actions"

    async def look() -> list[tuple[str, str]] | None:
        found = []
        for action in (await ask(cloud, "GET", root, 200))["instanceActions"]:
            if action["action"] == "extend_volume":
                path = f"{root}/{action['request_id']}"
                one = await ask(cloud, "GET", path, 200, version=servers.NEWEST)
                (event,) = one["instanceAction"]["events"]
                found.append((event["event"], event["result"]))
        return found if all(result for _, result in found) else None

    told: list[tuple[str, str]] = await until(look)
    return told


async def test_an_extension_that_fails_keeps_the_old_size(cloud: TestCloud) -> None:
    id = (await volume(cloud))["id"]
    rule = await cloud.db.write(_fail, "volume.ensure")
    await act(cloud, id, 202, {"os-extend": {"new_size": 2}})
    failed = await shows(cloud, f"{VOLUMES}/{id}", "error_extending")
    assert failed["size"] == 1
    await cloud.db.write(_remove, rule)
    (message,) = (await ask(cloud, "GET", "/volume/v3/messages", 200, version=NEWEST))["messages"]
    assert message["event_id"] == "VOLUME_VOLUME_007_010"
    await ask(cloud, "DELETE", f"{VOLUMES}/{id}", 202)
    await gone(cloud, f"{VOLUMES}/{id}")


def _fail(tx: Any, step: str) -> str:
    from cumulet.core import faults

    return faults.add(tx, faults.Rule(step, "fail", message="no room left"))


def _remove(tx: Any, rule: str) -> None:
    from cumulet.core import faults

    faults.remove(tx, rule)


# --- flags ---


async def test_flags(cloud: TestCloud) -> None:
    id = (await volume(cloud))["id"]
    for word, shown in ((True, "true"), ("False", "false"), ("yes", "true")):
        await act(cloud, id, 200, {"os-set_bootable": {"bootable": word}})
        assert (await show(cloud, id))["bootable"] == shown
    await act(cloud, id, 400, {"os-set_bootable": {"bootable": "maybe"}})
    await act(cloud, id, 400, {"os-set_bootable": {}})
    assert "readonly" not in (await show(cloud, id))["metadata"]
    for flag in (True, False):
        await act(cloud, id, 202, {"os-update_readonly_flag": {"readonly": flag}})
        assert (await show(cloud, id))["metadata"]["readonly"] == str(flag)
    await act(cloud, id, 202, {"os-update_readonly_flag": {"readonly": True}})
    await act(cloud, id, 400, {"os-attach": {"mountpoint": "/dev/vdb", "host_name": "x"}})
    await act(cloud, id, 202, {"os-attach": {"mountpoint": "/dev/vdb", "host_name": "x", "mode": "ro"}})
    await act(cloud, id, 400, {"os-update_readonly_flag": {"readonly": False}})


async def test_image_metadata_is_kept_apart(cloud: TestCloud) -> None:
    image = await make_image(cloud)
    id = (await volume(cloud, imageRef=image))["id"]
    set_ = {"os-set_image_metadata": {"metadata": {"os_type": "linux", "x": "y" * 1000}}}
    assert (await act(cloud, id, 200, set_))["metadata"]["os_type"] == "linux"
    found = (await act(cloud, id, 200, {"os-show_image_metadata": None}))["metadata"]
    assert found["image_id"] == image
    assert found == (await show(cloud, id))["volume_image_metadata"]
    await act(cloud, id, 200, {"os-unset_image_metadata": {"key": "os_type"}})
    await act(cloud, id, 404, {"os-unset_image_metadata": {"key": "os_type"}})
    await act(cloud, id, 400, {"os-unset_image_metadata": {"key": ""}})
    assert (await show(cloud, id))["metadata"] == {}


# --- type ---


async def type_(cloud: TestCloud, name: str, **specs: str) -> str:
    body = {"volume_type": {"name": name, "extra_specs": specs}}
    return str((await ask(cloud, "POST", TYPES, 200, json=body, as_="admin"))["volume_type"]["id"])


async def test_a_volume_changes_its_type_within_its_back_end(cloud: TestCloud) -> None:
    await type_(cloud, "same", volume_backend_name="sim")
    await type_(cloud, "far", volume_backend_name="elsewhere")
    await type_(cloud, "multi", multiattach="<is> True")
    id = (await volume(cloud))["id"]
    await act(cloud, id, 202, {"os-retype": {"new_type": "same", "migration_policy": None}})
    assert (await show(cloud, id))["volume_type"] == "same"
    await act(cloud, id, 400, {"os-retype": {"new_type": "same"}})
    await act(cloud, id, 400, {"os-retype": {"new_type": "none"}})
    await act(cloud, id, 400, {"os-retype": {"new_type": "same", "migration_policy": "x"}})
    for policy in ("never", "on-demand"):
        await act(cloud, id, 400, {"os-retype": {"new_type": "far", "migration_policy": policy}})
    await act(cloud, id, 202, {"os-retype": {"new_type": "multi"}})
    assert (await show(cloud, id))["multiattach"] is True
    await act(cloud, id, 202, {"os-attach": {"mountpoint": "/dev/vdb", "host_name": "x"}})
    await act(cloud, id, 400, {"os-retype": {"new_type": "same"}})
    quotas = f"/volume/v3/os-quota-sets/{cloud.project('demo')}"
    await ask(cloud, "PUT", quotas, 200, json={"quota_set": {"volumes_standard": 0}}, as_="admin")
    other = (await volume(cloud))["id"]
    await act(cloud, other, 413, {"os-retype": {"new_type": "standard"}})


async def test_a_type_that_no_back_end_can_be_ends_in_error_with_a_message(cloud: TestCloud) -> None:
    await type_(cloud, "bogus", vendor_name="nobody")
    made = await volume(cloud, volume_type="bogus", status="error")
    (message,) = (await ask(cloud, "GET", "/volume/v3/messages", 200, version="volume 3.3"))["messages"]
    assert message["resource_uuid"] == made["id"]
    assert message["resource_type"] == "VOLUME"
    assert message["event_id"] == "VOLUME_VOLUME_001_003"
    assert "vendor_name nobody" in message["user_message"]
    assert message["request_id"].startswith("req-")
    path = f"/volume/v3/messages/{message['id']}"
    await ask(cloud, "GET", path, 404, as_="other", version=NEWEST)
    assert await ask(cloud, "GET", path, 200, version=NEWEST) == {"message": message}
    await ask(cloud, "DELETE", path, 204, version=NEWEST)
    await ask(cloud, "GET", path, 404, version=NEWEST)
    await ask(cloud, "GET", "/volume/v3/messages", 404)
    # It never was anywhere, so it goes in the request itself.
    await ask(cloud, "DELETE", f"{VOLUMES}/{made['id']}", 202)
    await ask(cloud, "GET", f"{VOLUMES}/{made['id']}", 404)


# --- content ---


async def test_a_volume_becomes_an_image(cloud: TestCloud, directory: Path) -> None:
    id = (await volume(cloud))["id"]
    await act(cloud, id, 200, {"os-set_image_metadata": {"metadata": {"os_type": "linux"}}})
    body = {
        "os-volume_upload_image": {"image_name": "made", "disk_format": "qcow2", "container_format": "bare"}
    }
    answer = (await act(cloud, id, 202, body))["os-volume_upload_image"]
    assert answer["status"] == "uploading"
    assert answer["id"] == id
    assert answer["volume_type"]["name"] == "__DEFAULT__"
    assert "visibility" not in answer
    path = f"/image/v2/images/{answer['image_id']}"

    async def active() -> Any:
        image = (await cloud.get(path)).json()
        return image if image["status"] == "active" else None

    image = await until(active)
    assert (image["name"], image["disk_format"], image["os_type"]) == ("made", "qcow2", "linux")
    assert image["owner"] == cloud.project("demo")
    await shows(cloud, f"{VOLUMES}/{id}", "available")

    async def copy_gone() -> bool:
        return things(directory)["source"] == []

    await until(copy_gone)
    modern = {"os-volume_upload_image": {"image_name": "x", "visibility": "private", "protected": False}}
    await act(cloud, id, 400, modern)
    answer = (await act(cloud, id, 202, modern, version=NEWEST))["os-volume_upload_image"]
    assert (answer["visibility"], answer["protected"]) == ("private", False)
    await shows(cloud, f"{VOLUMES}/{id}", "available")
    public = {"os-volume_upload_image": {"image_name": "x", "visibility": "public"}}
    await act(cloud, id, 403, public, version=NEWEST)


async def test_an_upload_that_fails_gives_the_volume_back(cloud: TestCloud) -> None:
    id = (await volume(cloud))["id"]
    await cloud.db.write(_fail, "source.ensure")
    answer = await act(cloud, id, 202, {"os-volume_upload_image": {"image_name": "x"}})
    await shows(cloud, f"{VOLUMES}/{id}", "available")
    await gone(cloud, f"/image/v2/images/{answer['os-volume_upload_image']['image_id']}")


async def test_a_volume_in_use_is_uploaded_by_force_only(cloud: TestCloud) -> None:
    id = (await volume(cloud))["id"]
    await act(cloud, id, 202, {"os-attach": {"mountpoint": "/dev/vdb", "host_name": "x"}})
    await act(cloud, id, 400, {"os-volume_upload_image": {"image_name": "x"}})
    await act(cloud, id, 202, {"os-volume_upload_image": {"image_name": "x", "force": True}})
    await shows(cloud, f"{VOLUMES}/{id}", "in-use")


async def test_a_volume_is_put_back_to_its_newest_snapshot(cloud: TestCloud, directory: Path) -> None:
    id = (await volume(cloud))["id"]
    modern = {"version": "volume 3.40"}
    await act(cloud, id, 400, {"revert": {"snapshot_id": cloud.chance.uuid()}}, **modern)
    older, newer = await snapshot(cloud, id), await snapshot(cloud, id)
    await act(cloud, id, 404, {"revert": {"snapshot_id": newer["id"]}})
    await act(cloud, id, 400, {"revert": {"snapshot_id": older["id"]}}, **modern)
    await act(cloud, id, 400, {"revert": {}}, **modern)
    before = await bytes_of(cloud, id)
    await act(cloud, id, 202, {"revert": {"snapshot_id": newer["id"]}}, **modern)
    back = await shows(cloud, f"{VOLUMES}/{id}", "available")
    after = await bytes_of(cloud, id)
    assert after["id"] != before["id"]
    assert after["spec"]["source"] == {"snapshot": newer["id"]}
    assert back["snapshot_id"] is None
    assert things(directory)["volume"] == [after["id"]]
    await act(cloud, id, 202, {"os-extend": {"new_size": 2}})
    await shows(cloud, f"{VOLUMES}/{id}", "available")
    await act(cloud, id, 400, {"revert": {"snapshot_id": newer["id"]}}, **modern)
    await ask(cloud, "DELETE", f"{VOLUMES}/{id}?cascade=1", 202)
    await gone(cloud, f"{VOLUMES}/{id}")
    assert things(directory) == NOTHING


async def test_a_volume_is_filled_anew_from_an_image(cloud: TestCloud, directory: Path) -> None:
    id = (await volume(cloud))["id"]
    image = await make_image(cloud)
    body = {"os-reimage": {"image_id": image}}
    modern = {"version": "volume 3.68"}
    await act(cloud, id, 404, body)
    await act(cloud, id, 400, {"os-reimage": {"image_id": cloud.chance.uuid()}}, **modern)
    await act(cloud, id, 202, body, **modern)
    done = await shows(cloud, f"{VOLUMES}/{id}", "available")
    assert done["volume_image_metadata"]["image_id"] == image
    assert done["bootable"] == "true"
    assert things(directory)["volume"] == [(await bytes_of(cloud, id))["id"]]
    await ask(
        cloud, "POST", "/volume/v3/attachments", 200, json={"attachment": {"volume_uuid": id}}, version=NEWEST
    )
    await act(cloud, id, 400, body, **modern)
    await act(cloud, id, 202, {"os-reimage": {"image_id": image, "reimage_reserved": True}}, **modern)
    await shows(cloud, f"{VOLUMES}/{id}", "reserved")


# --- status ---


async def test_an_administrator_sets_what_a_volume_shows(cloud: TestCloud) -> None:
    id = (await volume(cloud))["id"]
    for status in ("error", "maintenance", "creating", "attaching", "available"):
        await act(cloud, id, 202, {"os-reset_status": {"status": status}}, as_="admin")
        assert (await show(cloud, id))["status"] == status
    await act(cloud, id, 403, {"os-reset_status": {"status": "error"}})
    for body in (
        {},
        {"status": "nonsense"},
        {"status": "in-use"},
        {"attach_status": "x"},
        {"status": "deleting"},
    ):
        await act(cloud, id, 400, {"os-reset_status": body}, as_="admin")
    await act(cloud, id, 202, {"os-reset_status": {"status": "maintenance"}}, as_="admin")
    await ask(cloud, "PUT", f"{VOLUMES}/{id}", 400, json={"volume": {"name": "x"}})
    await act(cloud, id, 403, {"os-force_delete": {}})
    await act(cloud, id, 202, {"os-force_delete": {}}, as_="admin")
    await gone(cloud, f"{VOLUMES}/{id}")


async def test_a_volume_that_was_never_made_is_made_again(cloud: TestCloud) -> None:
    rule = await cloud.db.write(_fail, "volume.ensure")
    made = await volume(cloud, status="error")
    await cloud.db.write(_remove, rule)
    await act(cloud, made["id"], 202, {"os-reset_status": {"status": "available"}}, as_="admin")
    await shows(cloud, f"{VOLUMES}/{made['id']}", "available")
    assert (await bytes_of(cloud, made["id"]))["seen"] == "present"


async def test_snapshots_of_volumes_in_use(cloud: TestCloud) -> None:
    id = (await volume(cloud))["id"]
    await act(cloud, id, 202, {"os-attach": {"mountpoint": "/dev/vdb", "host_name": "x"}})
    body = {"snapshot": {"volume_id": id}}
    await ask(cloud, "POST", SNAPSHOTS, 400, json=body)
    forced = {"snapshot": {"volume_id": id, "force": True}}
    await ask(cloud, "POST", SNAPSHOTS, 202, json=forced)
    await ask(cloud, "POST", SNAPSHOTS, 202, json=body, version="volume 3.66")
    await ask(cloud, "POST", SNAPSHOTS, 202, json=forced, version="volume 3.66")
    forced["snapshot"]["force"] = False
    await ask(cloud, "POST", SNAPSHOTS, 400, json=forced, version="volume 3.66")
