"""Guests on this machine by QEMU, driven over its own protocol: no daemon, and nothing global."""

from __future__ import annotations

import contextlib
from pathlib import Path

from cumulet.config import Hosts
from cumulet.drivers import program
from cumulet.drivers.base import BytesOf, Driver
from cumulet.drivers.qemu.accelerator import Accelerator
from cumulet.drivers.qemu.cache import Cache
from cumulet.drivers.qemu.disks import Disks, Working
from cumulet.drivers.qemu.guests import Guests
from cumulet.drivers.qemu.records import Records


def drivers(
    directory: Path, working: Working, bytes_of: BytesOf, settings: Hosts, closing: contextlib.ExitStack
) -> list[Driver]:
    """The drivers of a host whose guests are QEMU processes, over the agent's state directory.

    ``working`` locks a claim for a helper. What is called through ``closing`` lets go of the guests, which run on.
    """
    user = program.user(settings.guest_user)
    accelerator = Accelerator(directory, settings.accelerator, settings.qemu, user)
    disks = Disks(directory, working, bytes_of, Cache(directory, settings.image_cache_seconds), user)
    guests = Guests(directory, disks, settings, user, accelerator)
    closing.callback(accelerator.close)
    closing.callback(guests.close)
    return [disks, Records(directory), guests]
