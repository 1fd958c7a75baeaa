"""Copies of disks that running guests use: made by QEMU itself, as they were at one moment."""

from __future__ import annotations

import asyncio
import contextlib

from cumulet.drivers.base import Failed
from cumulet.drivers.qemu import plugs
from cumulet.drivers.qemu.machine import Drive, Image, files, nodes, short
from cumulet.drivers.qemu.qmp import Gone, Monitor, Refused

#: Seconds in which a job must end once it is cancelled.
_PATIENCE = 30.0


def _name(source: str) -> str:
    return short("c", source)


async def copy(monitor: Monitor, node: str, source: str, target: Image) -> None:
    """Copy what the node has now into the file, which is empty and large enough. Raises Failed."""
    name = _name(source)
    drive = Drive(name, target)
    try:
        with monitor.events() as events:
            try:
                sets = {file.node: await plugs.hand_over(monitor, file) for file in files(drive)}
                for one in nodes(drive, sets):
                    await monitor.execute("blockdev-add", one)
                await monitor.execute(
                    "blockdev-backup", {"job-id": name, "device": node, "target": name, "sync": "full"}
                )
            except Refused as error:
                raise Failed(f"the disk cannot be copied: {error.message}") from error
            await _finished(events, name)
    finally:
        await _settle(monitor, source)


async def _finished(events: asyncio.Queue[dict[str, object] | None], name: str) -> None:
    while True:
        event = await events.get()
        if event is None:
            raise Gone("the guest ended while its disk was copied")
        data = event.get("data")
        if not isinstance(data, dict) or data.get("device") != name:
            continue
        if event["event"] == "BLOCK_JOB_COMPLETED":
            if data.get("error"):
                full = "No space" in str(data["error"])
                raise Failed(f"the disk cannot be copied: {data['error']}", cause="full" if full else "")
            return
        if event["event"] == "BLOCK_JOB_CANCELLED":
            raise Failed("the copy of the disk was cancelled")


async def _settle(monitor: Monitor, source: str) -> None:
    """Leave nothing of a copy behind, even for one who is cancelled."""
    dropping = asyncio.ensure_future(drop(monitor, source))
    with contextlib.suppress(Failed):
        try:
            await asyncio.shield(dropping)
        except asyncio.CancelledError:
            with contextlib.suppress(Failed):
                await dropping
            raise


async def drop(monitor: Monitor, source: str) -> None:
    """End a copy, finished or not, and close its file. Raises Failed."""
    name = _name(source)
    async with asyncio.timeout(_PATIENCE):
        while name in {job["id"] for job in await monitor.execute("query-jobs")}:
            with contextlib.suppress(Refused):
                await monitor.execute("block-job-cancel", {"device": name, "force": True})
            await asyncio.sleep(0.02)
    there = {one["node-name"] for one in await monitor.execute("query-named-block-nodes", {"flat": True})}
    mine = [node for node in (name, f"{name}-f") if node in there]
    if mine:
        await plugs.drop(monitor, mine)
