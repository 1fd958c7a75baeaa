"""What is told of a guest to those who ask: its console, and what it uses."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Any

import msgspec

from cumulet.drivers.qemu.qmp import Monitor

#: Bytes of a console that are told at the most.
LONGEST = 100 << 10
_TICK = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def console(home: Path, length: int | None) -> bytes:
    """The last ``length`` lines of the console, or as much as is told of it."""
    try:
        with (home / "console.log").open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - LONGEST))
            data = file.read(LONGEST)
    except FileNotFoundError:
        return b""
    if length is None:
        return data
    return b"".join(data.splitlines(keepends=True)[-length:]) if length > 0 else b""


def trim(path: Path, limit: int, kept: int) -> None:
    """Keep the end of a log that has grown beyond the limit; who writes it appends, so it goes on behind that."""
    with contextlib.suppress(FileNotFoundError):
        if path.stat().st_size <= limit:
            return
        with path.open("r+b") as file:
            file.seek(-kept, os.SEEK_END)
            end = file.read()
            file.truncate(0)
            file.seek(0)
            file.write(end)


def at_rest() -> bytes:
    """The diagnostics of a guest that does not run."""
    return msgspec.json.encode({"state": "shutdown", "hypervisor": "qemu"})


async def diagnostics(monitor: Monitor, pid: int, *, paused: bool) -> bytes:
    """The diagnostics of a guest that runs: its state, times of its processors, what was read and written."""
    memory = await monitor.execute("query-memory-size-summary")
    processors = await monitor.execute("query-cpus-fast")
    blocks = await monitor.execute("query-blockstats")
    cards = await monitor.execute("query-rx-filter")
    found: dict[str, Any] = {
        "state": "paused" if paused else "running",
        "hypervisor": "qemu",
        "uptime": _age(pid),
        "memory_maximum": memory["base-memory"] >> 20,
        "cpus": [_time(pid, one["thread-id"]) for one in processors],
        "nics": [{"mac": card["main-mac"]} for card in cards],
        "disks": [_disk(one) for one in blocks if one.get("qdev")],
    }
    return msgspec.json.encode(found)


def _disk(block: dict[str, Any]) -> dict[str, Any]:
    stats = block["stats"]
    return {
        "device": block["qdev"].split("/")[3] if block["qdev"].count("/") > 2 else block["qdev"],
        "read_bytes": stats["rd_bytes"],
        "read_requests": stats["rd_operations"],
        "write_bytes": stats["wr_bytes"],
        "write_requests": stats["wr_operations"],
        "errors_count": stats["failed_rd_operations"] + stats["failed_wr_operations"],
    }


def _stat(path: str) -> list[bytes]:
    try:
        raw = Path(path).read_bytes()
    except OSError:
        return []
    return raw[raw.rindex(b")") + 2 :].split()


def _time(pid: int, thread: int) -> int | None:
    """Nanoseconds that a thread has run."""
    found = _stat(f"/proc/{pid}/task/{thread}/stat")
    return (int(found[11]) + int(found[12])) * _TICK if found else None


def _age(pid: int) -> int | None:
    """Seconds since the process was started."""
    found = _stat(f"/proc/{pid}/stat")
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) - int(found[19]) * _TICK / 1e9) if found else None
