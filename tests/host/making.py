"""Makes and removes a guest with its disks for ever, as a program that is killed: see test_qemu_kills.py."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import msgspec
from tests.guest import Host, claim, guest, need, root_disk

DISK, BLANK = "d1d1d1d1-0000-4000-8000-000000000000", "b1b1b1b1-0000-4000-8000-000000000000"
GUEST, COPY = "60606060-0000-4000-8000-000000000000", "c0c0c0c0-0000-4000-8000-000000000000"
disk, blank = root_disk(DISK), claim("disk", BLANK, {"size_mb": 64, "format": "ext4"}, part="ephemeral0")
wanted = guest(GUEST, [disk, blank])
again = msgspec.structs.replace(wanted, spec={**wanted.spec, "counters": {"hard_reboots": 1}})
copy = claim("source", COPY, {"format": "qcow2"}, [need("disk", DISK, "root")])
CLAIMS = (copy, wanted, blank, disk)


async def main(directory: Path) -> None:
    here = Host(directory)
    print("begins", flush=True)
    while True:
        for one in (disk, blank, wanted, again, copy):
            await here.ensure(one)
        print("made", flush=True)
        for one in CLAIMS:
            await here.remove(one)
        print("removed", flush=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
