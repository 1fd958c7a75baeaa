"""Devices of a running guest: plugged in and out until they are what is wanted.

What is there is asked of QEMU and not remembered, so it makes no difference who was killed when.
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial

from cumulet.drivers.base import Failed
from cumulet.drivers.qemu import swapping
from cumulet.drivers.qemu.machine import (
    Drive,
    Machine,
    Nic,
    drive_device,
    files,
    nic_device,
    nodes,
    pluggable,
    volume_id,
)
from cumulet.drivers.qemu.plugs import CAUSE, drop, hand_over, plug, present
from cumulet.drivers.qemu.qmp import Gone, Monitor, Refused


async def change(monitor: Monitor, machine: Machine, patience: float) -> None:
    """Give the guest the volumes and network cards of ``machine``, and take all others away.

    One that fails keeps no other from its turn. Raises Failed with a cause: CAUSE for a device that the guest does
    not let go within ``patience``, and ``plug(part)`` for one that cannot be plugged in.
    """
    volumes = [drive for drive in machine.drives if drive.pluggable]
    there = await present(monitor)
    have = set(there.values())
    taken_over = {drive.was for drive in volumes if drive.was in have and drive.id not in have}
    wanted = {drive.id for drive in volumes} | {nic.id for nic in machine.nics} | taken_over
    copies = {drive.into.part for drive in volumes if drive.into} | {one.part for one in volumes if one.was}
    await swapping.stop(monitor, copies)
    await _clear(monitor)
    steps = [
        partial(swapping.take_over if one.was in taken_over else _plug_drive, monitor, one)
        for one in volumes
        if one.id not in have
    ]
    steps += [partial(_plug_nic, monitor, one) for one in machine.nics if one.id not in there]
    steps.append(partial(enlarge, monitor, machine))
    going = sorted(id for id, used in there.items() if used not in wanted)
    steps += [partial(_unplug, monitor, id, patience) for id in going]
    failures = []
    for step in steps:
        try:
            await step()
        except Gone:
            raise
        except Failed as failed:
            failures.append(failed)
    await _clear(monitor)
    if failures:
        raise failures[0]


async def enlarge(monitor: Monitor, machine: Machine) -> None:
    """Give volumes the size that they should have: while a guest has one open, nobody else can. Raises Failed."""
    drives = [drive for drive in machine.drives if drive.size is not None and not drive.readonly]
    if not drives:
        return
    found = await monitor.execute("query-named-block-nodes", {"flat": True})
    sizes = {one["node-name"]: int(one["image"]["virtual-size"]) for one in found}
    for drive in drives:
        if drive.size is not None and sizes.get(drive.id, drive.size) < drive.size:
            try:
                await monitor.execute("block_resize", {"node-name": drive.id, "size": drive.size})
            except Refused as error:
                raise Failed(f"a volume cannot be made larger: {error.message}", cause=CAUSE) from error


async def _unplug(monitor: Monitor, id: str, patience: float) -> None:
    with monitor.events() as events:
        try:
            await monitor.execute("device_del", {"id": id})
        except Refused as error:
            if "not found" in error.message:
                return
            if "process of unplug" not in error.message:
                raise Failed(f"the device cannot be unplugged: {error.message}", cause=CAUSE) from error
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                while True:
                    event = await events.get()
                    if event is None:
                        return  # the guest has ended, and with it the device
                    told = event.get("data", {}).get("device") == id
                    if told and event["event"] == "DEVICE_DELETED":
                        return
                    if told and event["event"] == "DEVICE_UNPLUG_GUEST_ERROR":
                        raise Failed("the guest refuses to let go of the device", cause=CAUSE)
    if id in await present(monitor):
        raise Failed(
            f"the guest did not let go of the device within {patience:g} seconds; it may be booting, or use it",
            cause=CAUSE,
        )


async def _clear(monitor: Monitor) -> None:
    """Remove what is left of drives whose devices are gone: nodes, and open files."""
    used = {*(await present(monitor)).values(), *map(volume_id, await swapping.states(monitor))}
    names = {one["node-name"] for one in await monitor.execute("query-named-block-nodes", {"flat": True})}
    ids = {name.split("-")[0] for name in names}
    for id in ids:
        if pluggable(id) and id not in used:
            mine = (id, f"{id}-q", f"{id}-b", f"{id}-f", f"{id}-bf")
            await drop(monitor, [name for name in mine if name in names])


async def _plug_drive(monitor: Monitor, drive: Drive) -> None:
    try:
        sets = {file.node: await hand_over(monitor, file) for file in files(drive)}
        for node in nodes(drive, sets):
            await monitor.execute("blockdev-add", node)
        # What it boots from was settled when it was started.
        await monitor.execute(
            "device_add", {k: v for k, v in drive_device(drive).items() if k != "bootindex"}
        )
    except Gone:
        raise
    except Failed as error:
        raise Failed(f"a volume cannot be plugged in: {error.message}", cause=plug(drive.part)) from error


async def _plug_nic(monitor: Monitor, nic: Nic) -> None:
    try:
        with contextlib.suppress(Refused):  # of a card that went away when nobody was there
            await monitor.execute("netdev_del", {"id": nic.id})
        await monitor.execute("netdev_add", {"type": "user", "id": nic.id, **nic.network})
        await monitor.execute("device_add", nic_device(nic))
    except Refused as error:
        raise Failed(f"a network card cannot be plugged in: {error.message}", cause=plug(nic.part)) from error
