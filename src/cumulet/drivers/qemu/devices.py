"""Devices of a running guest: plugged in and out until they are what is wanted.

What is there is asked of QEMU and not remembered, so it makes no difference who was killed when.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Sequence
from functools import partial
from typing import Any

from cumulet.drivers.base import Failed
from cumulet.drivers.qemu import files as disk_files
from cumulet.drivers.qemu.machine import (
    Drive,
    File,
    Machine,
    Nic,
    drive_device,
    files,
    nic_device,
    nodes,
    pluggable,
)
from cumulet.drivers.qemu.qmp import Gone, Monitor, Refused

#: Why a device was not unplugged: the guest itself is well.
CAUSE = "device"


async def present(monitor: Monitor) -> set[str]:
    """The volumes and network cards that the guest has."""
    found = await monitor.execute("qom-list", {"path": "/machine/peripheral"})
    return {one["name"] for one in found if pluggable(one["name"])}


async def change(monitor: Monitor, machine: Machine, patience: float) -> None:
    """Give the guest the volumes and network cards of ``machine``, and take all others away.

    One that fails keeps no other from its turn. Raises Failed with a cause: CAUSE for a device that the guest does
    not let go within ``patience``, and ``plug(part)`` for one that cannot be plugged in.
    """
    wanted = {drive.id for drive in machine.drives if drive.pluggable} | {nic.id for nic in machine.nics}
    there = await present(monitor)
    await _clear(monitor)
    steps = [
        partial(_plug_drive, monitor, one) for one in machine.drives if one.pluggable and one.id not in there
    ]
    steps += [partial(_plug_nic, monitor, one) for one in machine.nics if one.id not in there]
    steps.append(partial(enlarge, monitor, machine))
    steps += [partial(_unplug, monitor, id, patience) for id in sorted(there - wanted)]
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


def plug(part: str) -> str:
    """The cause of a failure to plug in a device."""
    return f"plug {part}"


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
    devices = await present(monitor)
    names = {one["node-name"] for one in await monitor.execute("query-named-block-nodes", {"flat": True})}
    ids = {name.split("-")[0] for name in names}
    for id in ids:
        if pluggable(id) and id not in devices:
            await drop(monitor, [name for name in (id, f"{id}-b", f"{id}-f", f"{id}-bf") if name in names])


async def drop(monitor: Monitor, names: Sequence[str]) -> None:
    """Remove nodes, the upper ones first, and close their files."""
    for name in names:
        await _drop_node(monitor, name)
    for found in await monitor.execute("query-fdsets"):
        if any(fd.get("opaque") in names for fd in found["fds"]):
            with contextlib.suppress(Refused):
                await monitor.execute("remove-fd", {"fdset-id": found["fdset-id"]})


async def _drop_node(monitor: Monitor, name: str) -> None:
    """A device lets go of its node a little later than it says that it is gone."""
    for attempt in range(20):
        try:
            await monitor.execute("blockdev-del", {"node-name": name})
        except Refused as error:
            if "find" in error.message:
                return
            if attempt == 19:
                raise Failed(
                    f"the file of a device cannot be closed: {error.message}", cause=CAUSE
                ) from error
            await asyncio.sleep(0.02)
        else:
            return


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


async def hand_over(monitor: Monitor, file: File) -> int:
    """Open a file and hand it to QEMU; the set of descriptors that it is in."""
    fd = open_image(file)
    try:
        found: dict[str, Any] = await monitor.execute("add-fd", {"opaque": file.node}, fds=[fd])
    finally:
        os.close(fd)
    return int(found["fdset-id"])


def open_image(file: File) -> int:
    """Open a file for QEMU. Raises Failed if it is not there, or must not be opened."""
    flags = (os.O_RDWR if file.writable else os.O_RDONLY) | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        fd = os.open(file.image.path, flags)
    except OSError as error:
        raise Failed(f"the file of a disk cannot be opened: {error.strerror}") from error
    if not file.layered:
        try:
            disk_files.check(fd, file.image.format)
        except Failed:
            os.close(fd)
            raise
    return fd


async def _plug_nic(monitor: Monitor, nic: Nic) -> None:
    try:
        with contextlib.suppress(Refused):  # of a card that went away when nobody was there
            await monitor.execute("netdev_del", {"id": nic.id})
        await monitor.execute("netdev_add", {"type": "user", "id": nic.id, **nic.network})
        await monitor.execute("device_add", nic_device(nic))
    except Refused as error:
        raise Failed(f"a network card cannot be plugged in: {error.message}", cause=plug(nic.part)) from error
