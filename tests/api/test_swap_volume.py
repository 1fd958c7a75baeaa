"""A volume takes another one's place in a server that runs. See the compute API reference, "Update a volume attachment"."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests import servers
from tests.cloud import TestCloud, fixed, running_cloud, until
from tests.volumes import NEWEST, VOLUMES, act, ask, gone, left, shows, things

from cumulet.core import faults
from cumulet.db.engine import Database, Tx

pytestmark = pytest.mark.anyio


@pytest.fixture
async def cloud(db: Database, directory: Path) -> AsyncIterator[TestCloud]:
    async with running_cloud(db, directory) as made:
        # Upstream lets the volume service alone swap volumes; it sees every project.
        await db.write(_serve)
        yield made


def _serve(tx: Tx) -> None:
    tx.insert(
        "role_assignments", actor_id=fixed("user", "admin"), actor_type="user", target_type="project",
        target_id=fixed("project", "admin"), role_id=fixed("role", "service"), inherited=False,
    )  # fmt: skip


class Swap:
    """A server with a volume, and another volume that is to take its place."""

    def __init__(self, cloud: TestCloud, server: str, old: str, new: str) -> None:
        self.cloud, self.server, self.old, self.new = cloud, server, old, new
        self.path = f"{servers.URL}/{server}/os-volume_attachments"

    async def ask(
        self, status: int = 202, *, version: str = servers.NEWEST, as_: str = "admin", **more: Any
    ) -> Any:
        path, to = f"{self.path}/{more.pop('of', self.old)}", more.pop("to", self.new)
        body = {"volumeAttachment": {"volumeId": to, **more}}
        return await ask(self.cloud, "PUT", path, status, json=body, version=version, as_=as_)

    async def listed(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await ask(self.cloud, "GET", self.path, 200, version=servers.NEWEST))[
            "volumeAttachments"
        ]
        return found

    async def swapped(self) -> None:
        await until(self._done)

    async def _done(self) -> bool:
        return [one["volumeId"] for one in await self.listed()] == [self.new]

    async def action(self) -> dict[str, Any]:
        """The end of the swap, as the server's actions tell it."""

        async def look() -> dict[str, Any] | None:
            root = f"{servers.URL}/{self.server}/os-instance-actions"
            for action in (await ask(self.cloud, "GET", root, 200))["instanceActions"]:
                if action["action"] == "swap_volume":
                    one = await ask(self.cloud, "GET", f"{root}/{action['request_id']}", 200, as_="admin")
                    (event,) = one["instanceAction"]["events"]
                    return dict(event) if event["result"] else None
            return None

        found: dict[str, Any] = await until(look)
        return found


async def migrating(cloud: TestCloud, volume: str, status: str = "migrating") -> None:
    await act(cloud, volume, 202, {"os-reset_status": {"migration_status": status}}, as_="admin")


async def prepare(cloud: TestCloud, *, size: int = 1, root: bool = False) -> Swap:
    image = await servers.make_image(cloud)
    old = await servers.make_volume(cloud, bootable=root)
    new = await servers.make_volume(cloud, size=size)
    device = {
        "uuid": old,
        "source_type": "volume",
        "destination_type": "volume",
        "tag": "data",
        "delete_on_termination": True,
    }
    local = {"boot_index": 0, "uuid": image, "source_type": "image", "destination_type": "local"}
    devices = [{**device, "boot_index": 0}] if root else [local, device]
    more = {} if root else {"imageRef": image}
    server = await servers.boot(cloud, block_device_mapping_v2=devices, **more)
    await migrating(cloud, old)
    return Swap(cloud, server, old, new)


@pytest.mark.parametrize("root", [False, True])
async def test_the_guest_goes_over_to_the_new_volume(cloud: TestCloud, directory: Path, root: bool) -> None:
    swap = await prepare(cloud, size=2, root=root)
    before = (await swap.listed())[0]
    await swap.ask()
    await swap.swapped()
    (after,) = await swap.listed()
    for name in ("device", "tag", "delete_on_termination", "serverId"):
        assert after[name] == before[name]
    new = await shows(cloud, f"{VOLUMES}/{swap.new}", "in-use")
    assert [one["server_id"] for one in new["attachments"]] == [swap.server]
    old = await shows(cloud, f"{VOLUMES}/{swap.old}", "available")
    assert (old["attachments"], old["migration_status"]) == ([], None)
    assert (await swap.action())["result"] == "Success"
    shown = await servers.show(cloud, swap.server)
    assert shown["status"] == "ACTIVE"
    assert [one["id"] for one in shown["os-extended-volumes:volumes_attached"]] == [swap.new]
    await until(lambda: exported(directory, 1))
    # It is the new one that goes with the server, for it has all that the old one had.
    await servers.remove(cloud, swap.server)
    await gone(cloud, f"{VOLUMES}/{swap.new}")
    await ask(cloud, "DELETE", f"{VOLUMES}/{swap.old}", 202)
    await gone(cloud, f"{VOLUMES}/{swap.old}")
    assert await left(cloud) == {}


async def exported(directory: Path, count: int) -> bool:
    return len(things(directory)["export"]) == count


async def test_meanwhile_one_is_detaching_and_the_other_attaching(cloud: TestCloud, directory: Path) -> None:
    swap = await prepare(cloud)
    rule = await cloud.db.write(faults.add, faults.Rule(step="connection.ensure", effect="hold", count=None))
    await swap.ask()
    await shows(cloud, f"{VOLUMES}/{swap.old}", "detaching")
    await shows(cloud, f"{VOLUMES}/{swap.new}", "attaching")
    assert [one["volumeId"] for one in await swap.listed()] == [swap.old]
    await ask(cloud, "DELETE", f"{swap.path}/{swap.new}", 404)
    await ask(cloud, "DELETE", f"{swap.path}/{swap.old}", 400)
    await ask(cloud, "DELETE", f"{VOLUMES}/{swap.new}", 400)
    await swap.ask(400)
    await cloud.db.write(faults.remove, rule)
    await swap.swapped()
    await servers.remove(cloud, swap.server)


async def test_who_may_swap_and_what(cloud: TestCloud) -> None:
    swap = await prepare(cloud)
    await swap.ask(403, as_="demo")
    await migrating(cloud, swap.old, "none")
    refused = await swap.ask(409)
    assert "is not migrating" in refused["conflictingRequest"]["message"]
    await migrating(cloud, swap.old)
    await swap.ask(404, of=cloud.chance.uuid())
    await swap.ask(400, to=cloud.chance.uuid())
    await migrating(cloud, swap.new)
    larger = await servers.make_volume(cloud, size=3)
    # It is not attached; before 2.85 the request is a swap and nothing else.
    await swap.ask(400, of=swap.new, to=larger, version="compute 2.84")
    await swap.ask(404, of=swap.new, to=larger)
    other = await servers.boot(cloud, imageRef=await servers.make_image(cloud))
    await ask(
        cloud, "POST", f"{servers.URL}/{other}/os-volume_attachments", 200, version="compute 2.90",
        json={"volumeAttachment": {"volumeId": larger}},
    )  # fmt: skip
    await shows(cloud, f"{VOLUMES}/{larger}", "in-use")
    await swap.ask(400, to=larger)  # somebody else has it
    await migrating(cloud, larger)
    attached = Swap(cloud, other, larger, swap.new)
    await attached.ask(400)  # it is too small
    await servers.act(cloud, swap.server, "os-stop")
    await servers.wait_for(cloud, swap.server, "SHUTOFF")
    await swap.ask(409)
    shown = await shows(cloud, f"{VOLUMES}/{swap.new}", "available")
    assert shown["migration_status"] == "migrating"
    found = await ask(cloud, "GET", f"{VOLUMES}?migration_status=migrating&all_tenants=1", 200, as_="admin")
    assert {one["id"] for one in found["volumes"]} == {swap.old, swap.new, larger}
    await act(cloud, larger, 400, {"os-reset_status": {"migration_status": "flying"}}, as_="admin")


async def test_a_swap_and_a_change_in_one_request(cloud: TestCloud) -> None:
    swap = await prepare(cloud)
    await swap.ask(delete_on_termination=False)
    await swap.swapped()
    assert (await swap.listed())[0]["delete_on_termination"] is False
    await servers.remove(cloud, swap.server)
    await shows(cloud, f"{VOLUMES}/{swap.new}", "available")


@pytest.mark.parametrize("step", ["export.ensure", "connection.ensure"])
async def test_a_new_volume_that_cannot_be_reached_changes_nothing(
    cloud: TestCloud, directory: Path, step: str
) -> None:
    swap = await prepare(cloud)
    rule = await cloud.db.write(faults.add, faults.Rule(step=step, effect="fail", count=None))
    await swap.ask()
    if step == "export.ensure":
        # A back end is given its patience; the server is stopped before that, which ends the swap.
        await shows(cloud, f"{VOLUMES}/{swap.new}", "attaching")
        await servers.act(cloud, swap.server, "os-stop")
    await shows(cloud, f"{VOLUMES}/{swap.new}", "available")
    await shows(cloud, f"{VOLUMES}/{swap.old}", "in-use")
    assert (await swap.action())["result"] == "Error"
    await cloud.db.write(faults.remove, rule)
    if step == "export.ensure":
        await servers.wait_for(cloud, swap.server, "SHUTOFF")
        await servers.act(cloud, swap.server, "os-start")
        await servers.wait_for(cloud, swap.server, "ACTIVE")
    await until(lambda: exported(directory, 1))
    assert (await ask(cloud, "GET", f"{VOLUMES}/{swap.old}", 200, as_="admin", version=NEWEST))["volume"][
        "migration_status"
    ] == "migrating"
    # And it can be tried again.
    await swap.ask()
    await swap.swapped()
    await servers.remove(cloud, swap.server)


#: Where a delete comes in between: what is held, and whether the new volume counts already.
MOMENTS = {
    "the new volume is exported": "export.ensure",
    "it is connected": "connection.ensure",
    "it is filled": "guest.ensure",
    "the old one is let go": "connection.remove",
    "its export goes": "export.remove",
}


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_delete_in_between_leaves_nothing(cloud: TestCloud, directory: Path, when: str) -> None:
    for step in MOMENTS.values():
        swap = await prepare(cloud)
        await servers.settled(cloud)
        rule = await cloud.db.write(
            faults.add, faults.Rule(step=step, effect="hold", moment=when, count=None)
        )
        await swap.ask()
        await until(partial(held, cloud, step))
        answer = await cloud.delete(f"{servers.URL}/{swap.server}")
        assert answer.status_code == 204, answer.text
        await cloud.db.write(faults.remove, rule)
        await servers.wait_until_gone(cloud, swap.server)
        # One of the two goes with the server, the other is free.
        await until(partial(one_is_free, swap))
        await until(partial(exported, directory, 0))
        assert (await left(cloud)).get("attachments", 0) == 0


async def one_is_free(swap: Swap) -> bool:
    found = (await ask(swap.cloud, "GET", f"{VOLUMES}/detail", 200))["volumes"]
    return [one["status"] for one in found if one["id"] in (swap.old, swap.new)] == ["available"]


async def held(cloud: TestCloud, step: str) -> bool:
    """True once a step is held by the fault rule."""
    return bool(
        await cloud.db.read(lambda tx: tx.value("select sum(hits) from faults where step = :step", step=step))
    )
