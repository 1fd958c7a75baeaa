"""Makes and removes a guest with its disks for ever, as a program that is killed: see test_qemu_kills.py."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import NamedTuple

import msgspec
from tests.guest import Host, claim, guest, need, root_disk

from cumulet.wire.agent import Claim

DISK, BLANK = "d1d1d1d1-0000-4000-8000-000000000000", "b1b1b1b1-0000-4000-8000-000000000000"
GUEST, COPY = "60606060-0000-4000-8000-000000000000", "c0c0c0c0-0000-4000-8000-000000000000"


class Claims(NamedTuple):
    """In the order in which they can be removed; ``again`` is the guest, to be restarted."""

    copy: Claim
    guest: Claim
    blank: Claim
    disk: Claim
    again: Claim

    @property
    def to_remove(self) -> tuple[Claim, ...]:
        return self[:4]

    @property
    def to_make(self) -> tuple[Claim, ...]:
        return self.disk, self.blank, self.guest, self.again


def claims() -> Claims:
    """Not a constant: they name the guest's image, which is built when it is asked for."""
    disk, blank = root_disk(DISK), claim("disk", BLANK, {"size_mb": 64, "format": "ext4"}, part="ephemeral0")
    wanted = guest(GUEST, [disk, blank])
    again = msgspec.structs.replace(wanted, spec={**wanted.spec, "counters": {"hard_reboots": 1}})
    copy = claim("source", COPY, {"format": "qcow2"}, [need("disk", DISK, "root")])
    return Claims(copy, wanted, blank, disk, again)


async def main(directory: Path) -> None:
    here, all_ = Host(directory), claims()
    print("begins", flush=True)
    while True:
        for one in (*all_.to_make, all_.copy):
            await here.ensure(one)
        print("made", flush=True)
        for one in all_.to_remove:
            await here.remove(one)
        print("removed", flush=True)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
