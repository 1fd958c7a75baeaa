"""What a running guest has: devices, the nodes that these use, and the files that are open for them."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Sequence
from typing import Any

from cumulet.drivers.base import Failed
from cumulet.drivers.qemu import files as disk_files
from cumulet.drivers.qemu.machine import File, pluggable
from cumulet.drivers.qemu.qmp import Monitor, Refused

#: Why a device is not as it should be: the guest itself is well.
CAUSE = "device"
_DEVICES = "/machine/peripheral/"


def plug(part: str) -> str:
    """The cause of a failure to plug in a device."""
    return f"plug {part}"


async def present(monitor: Monitor) -> dict[str, str]:
    """The volumes and network cards that the guest has: the device, and the node that it uses.

    A volume that took another one's place uses the other's device.
    """
    found = await monitor.execute("qom-list", {"path": "/machine/peripheral"})
    used = {
        block["qdev"].removeprefix(_DEVICES).split("/")[0]: block["inserted"]["node-name"]
        for block in await monitor.execute("query-block")
        if str(block.get("qdev", "")).startswith(_DEVICES) and "inserted" in block
    }
    return {one["name"]: used.get(one["name"], one["name"]) for one in found if pluggable(one["name"])}


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
