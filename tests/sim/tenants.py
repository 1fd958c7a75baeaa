"""What tenants, and an operator for them, do in a simulated cloud."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from cumulet.core.servers import volume_attachments
from cumulet.db.engine import Tx
from cumulet.errors import CumuletError
from cumulet.values import Caller
from tests.case import COMPUTE, IMAGE, NETWORK, VOLUME

if TYPE_CHECKING:
    from tests.sim.cloud import Run

#: What can be done to a server: (weight, who, body).
ACTIONS: tuple[tuple[int, str, dict[str, Any]], ...] = (
    (3, "demo", {"os-start": None}),
    (3, "demo", {"os-stop": None}),
    (2, "demo", {"reboot": {"type": "HARD"}}),
    (1, "demo", {"reboot": {"type": "SOFT"}}),
    (3, "demo", {"shelve": None}),
    (4, "demo", {"unshelve": None}),
    (1, "admin", {"shelveOffload": None}),
    (2, "demo", {"pause": None}),
    (3, "demo", {"unpause": None}),
    (2, "demo", {"suspend": None}),
    (3, "demo", {"resume": None}),
    (2, "demo", {"rescue": {}}),
    (3, "demo", {"unrescue": None}),
    (4, "demo", {"confirmResize": None}),
    (4, "demo", {"revertResize": None}),
    (4, "admin", {"migrate": None}),
    (6, "admin", {"os-migrateLive": {"host": None, "block_migration": "auto"}}),
    (6, "admin", {"evacuate": {}}),
    (2, "demo", {"createImage": {"name": "i"}}),
    (1, "demo", {"createBackup": {"name": "b", "backup_type": "daily", "rotation": 1}}),
    (1, "demo", {"restore": None}),
    (1, "demo", {"forceDelete": None}),
    (1, "admin", {"os-resetState": {"state": "error"}}),
    (1, "demo", {"lock": None}),
    (3, "demo", {"unlock": None}),
)


async def create_server(run: Run) -> None:
    networks: Any = "none"
    if run.chance(0.7):
        networks = [{"uuid": run.case.network["id"]}]
        if run.ports and run.chance(0.5):
            networks.append({"port": run.random.choice(run.ports)})
    root: dict[str, Any] = {
        "uuid": run.case.image,
        "source_type": "image",
        "destination_type": "local",
        "boot_index": 0,
    }
    if run.chance(0.15):
        root |= {"destination_type": "volume", "volume_size": 1, "delete_on_termination": run.chance(0.7)}
    devices = [root]
    if run.volumes and run.chance(0.4):
        devices.append(
            {"uuid": run.random.choice(run.volumes), "source_type": "volume", "destination_type": "volume"}
        )
    if run.chance(0.3):
        devices.append(
            {"source_type": "blank", "destination_type": "volume", "volume_size": 1,
             "delete_on_termination": run.chance(0.7)}
        )  # fmt: skip
    body = {
        "name": "s", "flavorRef": run.case.flavor, "networks": networks, "block_device_mapping_v2": devices,
        "config_drive": run.chance(0.3),
    }  # fmt: skip
    if root["destination_type"] == "local":
        body["imageRef"] = run.case.image
    answer = await run.call("POST", f"{COMPUTE}/servers", {"server": body})
    if answer.status_code == 202:
        run.servers.append(answer.json()["server"]["id"])


async def delete_server(run: Run) -> None:
    if server := run.server():
        await run.call("DELETE", f"{COMPUTE}/servers/{server}")
        if run.chance(0.7):
            run.servers.remove(server)


async def act(run: Run) -> None:
    if server := run.server():
        _, who, body = run.random.choices(ACTIONS, [weight for weight, *_ in ACTIONS])[0]
        await run.call("POST", f"{COMPUTE}/servers/{server}/action", body, who)


async def resize(run: Run) -> None:
    if server := run.server():
        flavor = run.random.choice([run.case.flavor, run.case.flavor2])
        await run.call("POST", f"{COMPUTE}/servers/{server}/action", {"resize": {"flavorRef": flavor}})


async def rebuild(run: Run) -> None:
    if server := run.server():
        await run.call(
            "POST", f"{COMPUTE}/servers/{server}/action", {"rebuild": {"imageRef": run.case.image}}
        )


async def abort_migration(run: Run) -> None:
    if server := run.server():
        listed = await run.case.cloud.get(
            f"{COMPUTE}/servers/{server}/migrations", as_="admin", version="compute 2.96"
        )
        for move in listed.json().get("migrations", []) if listed.status_code == 200 else []:
            await run.call("DELETE", f"{COMPUTE}/servers/{server}/migrations/{move['id']}", as_="admin")


async def create_volume(run: Run) -> None:
    body: dict[str, Any] = {"size": 1}
    if run.chance(0.2):
        body["imageRef"] = run.case.image
    elif run.volumes and run.chance(0.2):
        body["source_volid"] = run.random.choice(run.volumes)
    elif run.snapshots and run.chance(0.4):
        body["snapshot_id"] = run.random.choice(run.snapshots)
    answer = await run.call("POST", f"{VOLUME}/volumes", {"volume": body})
    if answer.status_code == 202:
        run.volumes.append(answer.json()["volume"]["id"])


async def delete_volume(run: Run) -> None:
    if run.volumes:
        volume = run.random.choice(run.volumes)
        answer = await run.call("DELETE", f"{VOLUME}/volumes/{volume}")
        if answer.status_code in (202, 404):
            run.volumes.remove(volume)


async def change_volume(run: Run) -> None:
    if run.volumes:
        volume = run.random.choice(run.volumes)
        body = run.random.choice(
            [{"os-extend": {"new_size": 2}}, {"os-reimage": {"image_id": run.case.image}}]
        )
        await run.call("POST", f"{VOLUME}/volumes/{volume}/action", body)


async def create_snapshot(run: Run) -> None:
    if run.volumes:
        body = {"snapshot": {"volume_id": run.random.choice(run.volumes), "force": True}}
        answer = await run.call("POST", f"{VOLUME}/snapshots", body)
        if answer.status_code == 202:
            run.snapshots.append(answer.json()["snapshot"]["id"])


async def delete_snapshot(run: Run) -> None:
    if run.snapshots:
        snapshot = run.random.choice(run.snapshots)
        answer = await run.call("DELETE", f"{VOLUME}/snapshots/{snapshot}")
        if answer.status_code in (202, 404):
            run.snapshots.remove(snapshot)


async def attach_volume(run: Run) -> None:
    server = run.server()
    if server and run.volumes:
        body = {"volumeAttachment": {"volumeId": run.random.choice(run.volumes)}}
        await run.call("POST", f"{COMPUTE}/servers/{server}/os-volume_attachments", body)


async def detach_volume(run: Run) -> None:
    server = run.server()
    if server and run.volumes:
        volume = run.random.choice(run.volumes)
        await run.call("DELETE", f"{COMPUTE}/servers/{server}/os-volume_attachments/{volume}")


async def swap_volume(run: Run) -> None:
    """Have one volume of a server take another one's place, as who moves volumes may."""
    server = run.server()
    if server is None or len(run.volumes) < 2:
        return
    old, new = run.random.sample(run.volumes, 2)
    caller = Caller(user_id="", project_id=None, roles=frozenset({"admin"}), request_id="req-swap")

    def swap(tx: Tx) -> None:
        tx.update("volumes", old, migration_status="migrating")
        volume_attachments.swap(tx, caller, server, old, new)

    run.operations += 1
    run.tell(f"swap {old} for {new} in {server}")
    with contextlib.suppress(CumuletError):
        await run.case.db.write(swap)


async def create_port(run: Run) -> None:
    answer = await run.call("POST", f"{NETWORK}/ports", {"port": {"network_id": run.case.network2["id"]}})
    if answer.status_code == 201:
        run.ports.append(answer.json()["port"]["id"])


async def delete_port(run: Run) -> None:
    if run.ports:
        port = run.random.choice(run.ports)
        answer = await run.call("DELETE", f"{NETWORK}/ports/{port}")
        if answer.status_code in (204, 404):
            run.ports.remove(port)


async def attach_interface(run: Run) -> None:
    if server := run.server():
        attachment: dict[str, Any] = {"net_id": run.case.network["id"]}
        if run.ports and run.chance(0.5):
            attachment = {"port_id": run.random.choice(run.ports)}
        await run.call(
            "POST", f"{COMPUTE}/servers/{server}/os-interface", {"interfaceAttachment": attachment}
        )


async def detach_interface(run: Run) -> None:
    if server := run.server():
        found = (await run.case.cloud.get(f"{COMPUTE}/servers/{server}/os-interface")).json()
        if ports := found.get("interfaceAttachments", []):
            port = run.random.choice(ports)["port_id"]
            await run.call("DELETE", f"{COMPUTE}/servers/{server}/os-interface/{port}")


async def delete_image(run: Run) -> None:
    """One that was made of a server, while or after it is made."""
    found = (await run.case.cloud.get(f"{IMAGE}/images?image_type=snapshot&visibility=private")).json()[
        "images"
    ]
    if found:
        await run.call("DELETE", f"{IMAGE}/images/{run.random.choice(found)['id']}")


STEPS: tuple[tuple[int, Callable[[Run], Awaitable[None]]], ...] = (
    (10, create_server),
    (7, delete_server),
    (18, act),
    (5, resize),
    (3, rebuild),
    (2, abort_migration),
    (4, create_volume),
    (3, delete_volume),
    (1, change_volume),
    (1, create_snapshot),
    (1, delete_snapshot),
    (4, attach_volume),
    (3, detach_volume),
    (3, swap_volume),
    (3, create_port),
    (2, delete_port),
    (3, attach_interface),
    (2, detach_interface),
    (1, delete_image),
)
