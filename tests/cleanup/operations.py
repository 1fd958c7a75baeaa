"""Everything that a server can go through, and for each its way back.

An operation begins with a server as ``before`` leaves it, and is asked for by ``ask``. ``reverse`` is what a user
would ask who changes his mind; it may be refused while the operation is under way, but must harm nothing.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cumulet.config import Config, Hosts, Reconcile
from cumulet.core.servers import actions, deleting, moving, rebuilding, snapshots, volume_attachments
from cumulet.db.engine import Tx
from cumulet.errors import CumuletError
from cumulet.values import Caller
from tests.case import COMPUTE, H1, IMAGE, VOLUME, Case
from tests.cloud import CHEAP
from tests.virtual import Stage

Ask = Callable[["Stand", str], Awaitable[None]]


#: What comes when a fault was met.
THEN = ("goes on", "is deleted", "turns back")


@dataclass
class Stand:
    """What all runs of all operations share."""

    case: Case
    port: str = ""
    volume: str = ""
    other_port: str = ""
    other_volume: str = ""
    caller: Caller = field(default_factory=lambda: Caller(user_id=""))

    async def prepare(self) -> None:
        case = self.case
        self.port = (await case.make_port())["id"]
        self.other_port = (await case.make_port())["id"]
        self.volume = await case.make_volume()
        self.other_volume = await case.make_volume()
        self.caller = Caller(
            user_id=await case.db.read(lambda tx: tx.value("select id from users where name = 'demo'")),
            project_id=case.cloud.project("demo"), roles=frozenset({"admin", "member"}), request_id="req-test",
        )  # fmt: skip
        await case.settle()
        case.remember()

    async def boot(self) -> str:
        """A server on the first host with all that one can have there: two disks, a volume, two ports."""
        case = self.case
        body = {
            "config_drive": True,
            "networks": [{"port": self.port}, {"uuid": case.network2["id"]}],
            "block_device_mapping_v2": [
                {"uuid": case.image, "source_type": "image", "destination_type": "local", "boot_index": 0},
                {"uuid": self.volume, "source_type": "volume", "destination_type": "volume"},
            ],
        }
        server = await case.create(**body)
        await case.until(lambda: self.shows(server, "active"), "the server to run")
        return server

    async def boot_from_volume(self) -> str:
        """A server on a volume of its own, with another volume."""
        case = self.case
        devices = [
            {
                "uuid": case.image, "source_type": "image", "destination_type": "volume", "boot_index": 0,
                "volume_size": 1, "delete_on_termination": True,
            },
            {"uuid": self.volume, "source_type": "volume", "destination_type": "volume"},
        ]  # fmt: skip
        server = await case.create(image=None, block_device_mapping_v2=devices)
        await case.until(lambda: self.shows(server, "active"), "the server to run")
        return server

    async def do(self, function: Callable[..., Any], *args: Any, **more: Any) -> Any:
        return await self.case.db.write(function, self.caller, *args, **more)

    async def row(self, server: str) -> Mapping[str, Any] | None:
        return await self.case.db.read(lambda tx: tx.one("select * from servers where id = :id", id=server))

    async def shows(self, server: str, *states: str) -> bool:
        """True if the server is in one of the states, and nothing is under way."""
        row = await self.row(server)
        if row is None:
            return not states
        return row["vm_state"] in states and row["task_state"] is None

    async def reach(self, server: str, *states: str) -> None:
        await self.case.until(
            lambda: self.shows(server, *states), f"the server to become {' or '.join(states)}"
        )


@contextlib.contextmanager
def staged() -> Iterator[tuple[Stage, Stand]]:
    """A simulated cloud in this process, ready for operations."""
    with tempfile.TemporaryDirectory(prefix="c-") as directory:
        config = Config(auth=CHEAP, hosts=Hosts(count=3), reconcile=Reconcile(patience=60.0))
        stage = Stage(Path(directory), config)
        stand = Stand(Case(stage.cloud, Path(directory)))
        stage.run(stand.case.prepare())
        stage.run(stand.prepare())
        yield stage, stand
        stage.close()


@dataclass(frozen=True)
class Operation:
    ask: Ask
    reverse: Ask
    before: Ask | None = None
    #: What a user sees when it has come to its end; none of these is a server that is gone.
    ends: tuple[str, ...] = ("active",)
    boot: Callable[[Stand], Awaitable[str]] = Stand.boot


def acts(function: Callable[..., Any], *args: Any, **more: Any) -> Ask:
    async def ask(stand: Stand, server: str) -> None:
        await stand.do(function, server, *args, **more)

    return ask


def posts(action: str, body: Any = None) -> Ask:
    async def ask(stand: Stand, server: str) -> None:
        await stand.case.call(
            "POST", f"{COMPUTE}/servers/{server}/action", 202, as_="admin", json={action: body}
        )

    return ask


def after(*asks: tuple[Ask, str]) -> Ask:
    """Several, one after the other, each to its end."""

    async def ask(stand: Stand, server: str) -> None:
        for one, state in asks:
            await one(stand, server)
            await stand.reach(server, state)

    return ask


async def rebuild(stand: Stand, server: str) -> None:
    await stand.do(rebuilding.rebuild, server, rebuilding.Rebuild(image=stand.case.image))


async def rebuild_volume(stand: Stand, server: str) -> None:
    await stand.do(rebuilding.rebuild, server, rebuilding.Rebuild(image=stand.case.image, reimage=True))


async def swap_volume(stand: Stand, server: str) -> None:
    """The volume is replaced by the other one, or that by it."""

    def swap(tx: Tx) -> None:
        old = tx.value(
            "select volume_id from block_devices where server_id = :id and volume_id in :ids and not detaching "
            "and replaces is null",
            id=server, ids=(stand.volume, stand.other_volume),
        )  # fmt: skip
        new = next(id for id in (stand.volume, stand.other_volume) if id != old)
        tx.update("volumes", old, migration_status="migrating")
        volume_attachments.swap(tx, stand.caller, server, old, new)
        tx.update("volumes", old, migration_status=None)

    await stand.case.db.write(swap)


async def drop_copies(stand: Stand) -> None:
    """Delete every volume snapshot, and what volumes that kept."""
    case = stand.case
    for id in await case.db.read(lambda tx: tx.values("select id from snapshots where desired <> 'gone'")):
        await case.call("DELETE", f"{VOLUME}/snapshots/{id}", 202, 404)
    await case.until(lambda: _none(case, "snapshots", ()), "the snapshots to go")
    kept = (stand.volume, stand.other_volume)
    ids = await case.db.read(
        lambda tx: tx.values("select id from volumes where id not in :kept and desired <> 'gone'", kept=kept)
    )
    for id in ids:
        await case.call("DELETE", f"{VOLUME}/volumes/{id}", 202, 404)
    await case.until(lambda: _none(case, "volumes", kept), "the volumes to go")


async def _none(case: Case, table: str, but: tuple[str, ...]) -> bool:
    count = await case.db.read(
        lambda tx: tx.value(f"select count(*) from {table} where id not in :but", but=but or ("",))
    )
    return bool(count == 0)


async def resize(stand: Stand, server: str) -> None:
    await stand.do(moving.resize, server, stand.case.flavor2)


async def abort(stand: Stand, server: str) -> None:
    number = await stand.case.db.read(
        lambda tx: tx.value("select number from migrations where server_id = :id and phase <> ''", id=server)
    )
    if number is not None:
        await stand.do(moving.abort, server, number)


async def lose_the_host(stand: Stand, server: str) -> None:
    await stand.case.force_down(H1, True)


async def host_returns(stand: Stand, server: str) -> None:
    await stand.case.force_down(H1, False)


async def delete(stand: Stand, server: str) -> None:
    await stand.case.call("DELETE", f"{COMPUTE}/servers/{server}", 204, 404)


async def take_image(stand: Stand, server: str) -> None:
    await stand.do(snapshots.create_image, server, "image", {})


async def back_up(stand: Stand, server: str) -> None:
    await stand.do(snapshots.create_backup, server, "backup", "daily", 1, {})


async def drop_images(stand: Stand, server: str) -> None:
    """Delete every image that was made of the server."""
    ids = await stand.case.db.read(
        lambda tx: tx.values(
            "select i.id from images i join image_properties p on p.image_id = i.id and p.name = 'instance_uuid' "
            "where p.value = :id and i.desired <> 'gone' and not exists "
            "(select 1 from servers s where s.shelved_image_id = i.id)",
            id=server,
        )
    )
    for id in ids:
        await stand.case.call("DELETE", f"{IMAGE}/images/{id}", 204, 404, 409, as_="admin")


async def attach_volume(stand: Stand, server: str) -> None:
    body = {"volumeAttachment": {"volumeId": stand.other_volume}}
    await stand.case.call(
        "POST", f"{COMPUTE}/servers/{server}/os-volume_attachments", 200, 400, 409, json=body
    )


async def detach_volume(stand: Stand, server: str) -> None:
    path = f"{COMPUTE}/servers/{server}/os-volume_attachments/{stand.other_volume}"
    await stand.case.call("DELETE", path, 202, 400, 404, 409)


async def attach_port(stand: Stand, server: str) -> None:
    body = {"interfaceAttachment": {"port_id": stand.other_port}}
    await stand.case.call("POST", f"{COMPUTE}/servers/{server}/os-interface", 200, 400, 409, json=body)


async def detach_port(stand: Stand, server: str) -> None:
    await stand.case.call(
        "DELETE", f"{COMPUTE}/servers/{server}/os-interface/{stand.other_port}", 202, 404, 409
    )


async def settled(stand: Stand, server: str) -> None:
    await stand.case.until(stand.case._at_rest, "the devices")


async def _then(one: Ask, two: Ask, stand: Stand, server: str) -> None:
    await one(stand, server)
    await two(stand, server)


def then(one: Ask, two: Ask) -> Ask:
    async def ask(stand: Stand, server: str) -> None:
        await _then(one, two, stand, server)

    return ask


start, stop = acts(actions.start), acts(actions.stop)
pause, unpause = acts(actions.pause), acts(actions.unpause)
suspend, resume = acts(actions.suspend), acts(actions.resume)
rescue, unrescue = acts(rebuilding.rescue), acts(rebuilding.unrescue)
reboot, hard_reboot = acts(actions.reboot, hard=False), acts(actions.reboot, hard=True)
migrate, live_migrate, evacuate = acts(moving.migrate), acts(moving.live_migrate), acts(moving.evacuate)
confirm, revert = acts(moving.confirm), acts(moving.revert)
shelve, unshelve = posts("shelve"), posts("unshelve")
soft_delete, restore = acts(deleting.delete, reclaim_after=3600.0), acts(actions.restore)

OPERATIONS: dict[str, Operation] = {
    "delete": Operation(delete, delete, ends=()),
    "stop": Operation(stop, start, ends=("stopped",)),
    "start": Operation(start, stop, after((stop, "stopped"))),
    "reboot": Operation(reboot, stop),
    "hard reboot": Operation(hard_reboot, stop),
    "pause": Operation(pause, unpause, ends=("paused",)),
    "unpause": Operation(unpause, pause, after((pause, "paused"))),
    "suspend": Operation(suspend, resume, ends=("suspended",)),
    "resume": Operation(resume, suspend, after((suspend, "suspended"))),
    "rescue": Operation(rescue, unrescue, ends=("rescued",)),
    "unrescue": Operation(unrescue, rescue, after((rescue, "rescued"))),
    "rebuild": Operation(rebuild, stop),
    "resize": Operation(resize, revert, ends=("resized",)),
    "migrate": Operation(migrate, revert, ends=("resized",)),
    "confirm": Operation(confirm, revert, after((resize, "resized"))),
    "revert": Operation(revert, confirm, after((resize, "resized"))),
    "live migrate": Operation(live_migrate, abort),
    "evacuate": Operation(evacuate, host_returns, lose_the_host),
    "shelve": Operation(shelve, unshelve, ends=("shelved_offloaded",)),
    "unshelve": Operation(unshelve, shelve, after((shelve, "shelved_offloaded"))),
    "create image": Operation(take_image, drop_images),
    "create backup": Operation(back_up, drop_images),
    "soft delete": Operation(soft_delete, restore, ends=("soft-delete",)),
    "restore": Operation(restore, soft_delete, after((soft_delete, "soft-delete"))),
    "rebuild a volume": Operation(rebuild_volume, stop, boot=Stand.boot_from_volume),
    "create image of volumes": Operation(take_image, drop_images, boot=Stand.boot_from_volume),
    "swap volume": Operation(swap_volume, stop),
    "attach volume": Operation(attach_volume, detach_volume),
    "detach volume": Operation(detach_volume, attach_volume, then(attach_volume, settled)),
    "attach port": Operation(attach_port, detach_port),
    "detach port": Operation(detach_port, attach_port, then(attach_port, settled)),
}


async def changes_his_mind(operation: Operation, stand: Stand, server: str) -> None:
    """Ask for the reverse; that it is refused is an answer, too."""
    try:
        await operation.reverse(stand, server)
    except CumuletError:
        pass
    except AssertionError as error:
        if ": 409 " not in str(error):
            raise
