"""C11: the create request is refused. cluster-api-provider-openstack 723, 1404."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from cumulet.db.engine import Database
from tests.case import COMPUTE, IMAGE, Case, stage

pytestmark = pytest.mark.anyio

#: Makes what is wrong possible, before the ledger is looked at; returns what the request says, its status, and
#: a word of the refusal.
Wrong = Callable[[Case], Awaitable[tuple[dict[str, Any], int, str]]]


async def unknown_key(case: Case) -> tuple[dict[str, Any], int, str]:
    return {"key_name": "nobody's"}, 400, "nobody's"


async def disk_too_small(case: Case) -> tuple[dict[str, Any], int, str]:
    large = await case.make_image("large", min_disk=500)
    return {"image": large, **data_volume(case)}, 400, "disk"


async def inactive_image(case: Case) -> tuple[dict[str, Any], int, str]:
    body = {"name": "empty", "disk_format": "qcow2", "container_format": "bare", "visibility": "public"}
    made = await case.call("POST", f"{IMAGE}/images", as_="admin", json=body)
    return {"image": made.json()["id"], **data_volume(case)}, 400, "not active"


async def unknown_group(case: Case) -> tuple[dict[str, Any], int, str]:
    return {"security_groups": [{"name": "no such group"}]}, 400, "no such group"


async def quota_used_up(case: Case) -> tuple[dict[str, Any], int, str]:
    await case.boot(name="first")
    await case.limit("instances", 1)
    return {}, 403, "instances"


async def port_in_use(case: Case) -> tuple[dict[str, Any], int, str]:
    taken = await case.make_port()
    other = await case.boot(name="first", networks=[{"port": taken["id"]}])
    return {"networks": [{"port": case.own_port}, {"port": taken["id"]}]}, 409, other  # type: ignore[attr-defined]


async def group_full(case: Case) -> tuple[dict[str, Any], int, str]:
    body = {"server_group": {"name": "g", "policy": "anti-affinity"}}
    group = (await case.call("POST", f"{COMPUTE}/os-server-groups", json=body)).json()["server_group"]["id"]
    await case.boot(name="first", hints={"group": group})
    await case.limit("server_group_members", 1)
    return {"hints": {"group": group}}, 403, group


def data_volume(case: Case) -> dict[str, Any]:
    """The volume as a second disk, beside one that is made from an image."""
    volume = case.own_volume  # type: ignore[attr-defined]
    return {"devices": [{"uuid": volume, "source_type": "volume", "destination_type": "volume"}]}


WRONG: tuple[Wrong, ...] = (
    unknown_key, disk_too_small, inactive_image, unknown_group, quota_used_up, port_in_use, group_full,
)  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.__name__)
async def test_nothing_is_taken_however_often(db: Database, directory: Path, wrong: Wrong) -> None:
    async with stage(db, directory, hosts=2) as case:
        port, volume = (await case.make_port())["id"], await case.make_volume(imageRef=case.image)
        case.own_port, case.own_volume = port, volume  # type: ignore[attr-defined]
        asked, status, word = await wrong(case)
        image = asked.pop("image", None)
        devices = asked.pop("devices", [])
        if image is None:
            devices = [
                {"boot_index": 0, "uuid": volume, "source_type": "volume", "destination_type": "volume"}
            ]
        else:
            root = {"boot_index": 0, "uuid": image, "source_type": "image", "destination_type": "local"}
            devices = [root, *devices]
        body = {"image": image, "block_device_mapping_v2": devices, "networks": [{"port": port}], **asked}
        await case.settle()
        case.remember()
        servers, usage = await case.servers(), await case.usages()
        for turn in range(20):
            refused = await case.refused(status, **body)
            assert word in refused, refused
            if turn in (0, 19):
                case.clean_now()
        assert await case.servers() == servers
        assert await case.usages() == usage
        assert (await case.volume(volume))["status"] == "available"
        free = await case.port(port)
        assert (free["device_id"], free["binding:host_id"]) == ("", "")
        await case.clean()
        # It was refused for what is wrong with it, and for nothing else.
        if status == 403:
            await case.limit("instances", 20)
            await case.limit("server_group_members", 20)
            await case.boot(**body)
