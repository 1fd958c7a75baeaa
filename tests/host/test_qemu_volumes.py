"""Volumes of real guests: a cloud as a real process, asked over HTTP, and the system in the guest that tells what it sees."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import httpx2
from tests.guest import SCRIPT
from tests.host.test_qemu import (
    COMPUTE,
    become,
    delete,
    flavor,
    host_of,
    left,
    make_network,
    qemu_cloud,
    see,
    upload,
    wait,
)
from tests.process.cumulet import Cloud

ROOT = "/volume/v3"
KINDS = ("volume", "snapshot", "export", "source", "cache", "working")


def send(up: Cloud, method: str, path: str, body: Any = None) -> httpx2.Response:
    headers = {"X-Auth-Token": up.login().headers["x-subject-token"], "OpenStack-API-Version": "volume 3.71"}
    return up.http.request(method, f"{ROOT}{path}", json=body, headers=headers)


def ask(up: Cloud, method: str, path: str, status: int, body: Any = None) -> Any:
    found = send(up, method, path, body)
    assert found.status_code == status, found.text
    return found.json() if found.content else None


def shows(up: Cloud, path: str, status: str) -> dict[str, Any]:
    """The thing at the path once it shows the status."""

    def there() -> dict[str, Any] | None:
        found: dict[str, Any] = next(iter(ask(up, "GET", path, 200).values()))
        return found if found["status"] == status else None

    found: dict[str, Any] = wait(there, 60)
    return found


def volume(up: Cloud, **body: Any) -> str:
    made = ask(up, "POST", "/volumes", 202, {"volume": {"size": 1, **body}})["volume"]["id"]
    shows(up, f"/volumes/{made}", "available")
    return str(made)


def files(data: Path) -> dict[str, list[str]]:
    """What the back end has, by kind."""
    home = data / "agents" / "volume-files"
    return {kind: found for kind in KINDS if (found := os.listdir(home / kind))}


def gone(up: Cloud, path: str) -> None:
    wait(lambda: send(up, "GET", path).status_code == 404, 60)


def swap(up: Cloud, attached: str, old: str, new: str) -> None:
    """Have a volume take another one's place, which who moves volumes may do."""
    token = up.login().json()["token"]
    (role,) = up.get("/identity/v3/roles?name=service")["roles"]
    path = f"/identity/v3/projects/{token['project']['id']}/users/{token['user']['id']}/roles/{role['id']}"
    assert up.request("PUT", path).status_code == 204
    ask(up, "POST", f"/volumes/{old}/action", 202, {"os-reset_status": {"migration_status": "migrating"}})
    headers = {"X-Auth-Token": up.login().headers["x-subject-token"]}
    body = {"volumeAttachment": {"volumeId": new}}
    found = up.http.request("PUT", f"{attached}/{old}", json=body, headers=headers)
    assert found.status_code == 202, found.text


def test_a_guest_lives_on_volumes(directory: Path) -> None:
    """It boots from one, is given and loses another, which grows meanwhile; then they are copied and go."""
    data = directory / "data"
    with qemu_cloud(data) as up:
        root = volume(up, imageRef=upload(up))
        assert shows(up, f"/volumes/{root}", "available")["bootable"] == "true"
        other = volume(up, size=1)
        device = {"boot_index": 0, "uuid": root, "source_type": "volume", "destination_type": "volume"}
        small, network = flavor(up), make_network(up)
        server = up.boot(
            "real", imageRef="", flavorRef=small, block_device_mapping_v2=[device], config_drive=True,
            user_data=base64.b64encode(SCRIPT).decode(), networks=[{"uuid": network}],
        )  # fmt: skip
        become(up, server, "ACTIVE")
        see(up, server, r"guest: ready host=real")
        attached = f"{COMPUTE}/servers/{server}/os-volume_attachments"
        up.post(attached, {"volumeAttachment": {"volumeId": other}})
        shows(up, f"/volumes/{other}", "in-use")
        sectors = (1 << 30) // 512
        see(up, server, rf":{other[:20]}:{sectors},", seconds=60)

        # While the guest runs it alone can make its disk larger, and nobody can copy it.
        ask(up, "POST", f"/volumes/{other}/action", 202, {"os-extend": {"new_size": 2}})
        see(up, server, rf":{other[:20]}:{2 * sectors},", seconds=60)
        wait(lambda: shows(up, f"/volumes/{other}", "in-use")["size"] == 2, 20)
        body = {"snapshot": {"volume_id": other, "force": True}}
        refused = ask(up, "POST", "/snapshots", 202, body)["snapshot"]["id"]
        shows(up, f"/snapshots/{refused}", "error")
        ask(up, "DELETE", f"/snapshots/{refused}", 202)
        gone(up, f"/snapshots/{refused}")

        third = volume(up, size=3)
        swap(up, attached, other, third)
        shows(up, f"/volumes/{third}", "in-use")
        shows(up, f"/volumes/{other}", "available")
        see(up, server, rf":{other[:20]}:{3 * sectors},", seconds=60)

        assert up.request("DELETE", f"{attached}/{third}").status_code == 202
        shows(up, f"/volumes/{third}", "available")
        see(up, server, r"^seen: disks=(?!.*" + other[:20] + ")", times=2, seconds=60)

        up.post(f"{COMPUTE}/servers/{server}/action", {"os-stop": None})
        become(up, server, "SHUTOFF")
        body = {"snapshot": {"volume_id": root, "force": True}}
        snapshot = ask(up, "POST", "/snapshots", 202, body)["snapshot"]["id"]
        shows(up, f"/snapshots/{snapshot}", "available")
        delete(up, server)
        shows(up, f"/volumes/{root}", "available")
        clone = volume(up, snapshot_id=snapshot, size=2)

        # The copy has a system that boots; what was uploaded has it too.
        device = {**device, "uuid": clone, "delete_on_termination": True}
        second = up.boot(
            "copy", imageRef="", flavorRef=small, block_device_mapping_v2=[device], config_drive=True,
            networks=[{"uuid": network}],
        )  # fmt: skip
        become(up, second, "ACTIVE")
        see(up, second, r"guest: ready host=\S+")
        delete(up, second)
        gone(up, f"/volumes/{clone}")

        body = {
            "os-volume_upload_image": {
                "image_name": "saved",
                "disk_format": "qcow2",
                "container_format": "bare",
            }
        }
        image = ask(up, "POST", f"/volumes/{root}/action", 202, body)["os-volume_upload_image"]["image_id"]
        shows(up, f"/volumes/{root}", "available")
        saved = up.get(f"/image/v2/images/{image}")
        assert (saved["status"], saved["virtual_size"]) == ("active", 1 << 30)

        ask(up, "DELETE", f"/volumes/{root}?cascade=true", 202)
        ask(up, "DELETE", f"/volumes/{other}", 202)
        ask(up, "DELETE", f"/volumes/{third}", 202)
        for id in (root, other, third):
            gone(up, f"/volumes/{id}")
        assert files(data) == {}
        wait(lambda: left(host_of(data)) == {}, 20)
        assert up.get("/cumulet/v1/orphans")["orphans"] == []
