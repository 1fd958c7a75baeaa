"""A volume that takes another one's place while the guest runs.

QEMU copies the old one into the new one, and from then on writes to both before the guest hears that a write is done.
So the new one has all that the old one has until it is said which of them counts, whatever becomes of the guest
meanwhile. Then the guest's device goes over to it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Mapping
from typing import Any

from cumulet.drivers.base import Failed
from cumulet.drivers.qemu import plugs
from cumulet.drivers.qemu.machine import Drive, files, view
from cumulet.drivers.qemu.qmp import Event, Gone, Monitor, Refused

#: Pause between two looks at a job, and seconds in which one that is ready must end, or one that is cancelled.
_PAUSE = 0.05
_PATIENCE = 30.0
_PREFIX = "m-"


def _job(part: str) -> str:
    return f"{_PREFIX}{part}"


async def states(monitor: Monitor) -> dict[str, str]:
    """How far each copy is, by the part that is filled: ``copying`` or ``ready``."""
    return {
        job["device"].removeprefix(_PREFIX): "ready" if job["ready"] else "copying"
        for job in await monitor.execute("query-block-jobs")
        if job["device"].startswith(_PREFIX)
    }


def told(event: Event) -> tuple[str, str] | None:
    """(part, state) of the copy that an event tells of; "" for one that has ended."""
    data: Mapping[str, Any] = event.get("data", {})
    name = str(data.get("device", ""))
    if not name.startswith(_PREFIX):
        return None
    state = {"BLOCK_JOB_READY": "ready", "BLOCK_JOB_COMPLETED": "", "BLOCK_JOB_CANCELLED": ""}.get(
        event["event"]
    )
    if state is None:
        return None
    return name.removeprefix(_PREFIX), f"failed: {data['error']}" if data.get("error") else state


async def fill(monitor: Monitor, source: str, target: Drive) -> None:
    """Begin to copy a node into a drive, unless that is under way. Raises Failed."""
    if target.part in await states(monitor):
        return
    try:
        size = await _size(monitor, source)
        sets = {file.node: await plugs.hand_over(monitor, file) for file in files(target)}
        for node in view(target, sets, size):
            await monitor.execute("blockdev-add", node)
        await monitor.execute(
            "blockdev-mirror",
            {
                "job-id": _job(target.part),
                "device": source,
                "target": target.id,
                "sync": "full",
                "copy-mode": "write-blocking",
            },
        )
    except Gone:
        raise
    except Failed as error:
        raise Failed(f"a volume cannot be copied: {error.message}", cause=plugs.plug(target.part)) from error


async def _size(monitor: Monitor, node: str) -> int:
    for one in await monitor.execute("query-named-block-nodes", {"flat": True}):
        if one["node-name"] == node:
            return int(one["image"]["virtual-size"])
    raise Failed("the guest does not have it")


async def take_over(monitor: Monitor, drive: Drive) -> None:
    """Have the device of the old volume use the new one, which is copied again if that was lost. Raises Failed."""
    await fill(monitor, drive.was, drive)
    while (state := (await states(monitor)).get(drive.part)) != "ready":
        if state is None:
            raise Failed("a volume could not be copied into the one that takes its place", cause=plugs.CAUSE)
        await asyncio.sleep(_PAUSE)
    await monitor.execute("block-job-complete", {"device": _job(drive.part)})
    await _ended(monitor, {drive.part})
    if drive.id not in (await plugs.present(monitor)).values():
        raise Failed("the guest did not go over to the new volume", cause=plugs.CAUSE)
    # It was seen with the size of the old one; the guest is told of its own.
    whole = {k: v for k, v in view(drive, {f"{drive.id}-f": 0}, 0)[-1].items() if k != "size"}
    await monitor.execute("blockdev-reopen", {"options": [whole]})
    size = await _size(monitor, f"{drive.id}-q")
    await monitor.execute("block_resize", {"node-name": drive.id, "size": size})


async def stop(monitor: Monitor, but: Collection[str]) -> None:
    """End all copies but those into the parts."""
    going = (await states(monitor)).keys() - set(but)
    for part in going:
        with contextlib.suppress(Refused):
            await monitor.execute("block-job-cancel", {"device": _job(part), "force": True})
    await _ended(monitor, going)


async def _ended(monitor: Monitor, parts: Collection[str]) -> None:
    try:
        async with asyncio.timeout(_PATIENCE):
            while (await states(monitor)).keys() & set(parts):  # noqa: ASYNC110
                await asyncio.sleep(_PAUSE)
    except TimeoutError:
        raise Failed("the copy of a volume does not end", cause=plugs.CAUSE) from None
