"""What this machine is and has, for those who place guests on it."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from cumulet.config import Hosts
from cumulet.drivers import process, program
from cumulet.drivers.base import Failed
from cumulet.errors import Refused
from cumulet.exits import MISSING

GIB = 1 << 30
#: Programs that must be here, and the Debian packages that have them.
PROGRAMS = {
    "qemu-img": "qemu-utils", "mke2fs": "e2fsprogs", "setpriv": "util-linux", "prlimit": "util-linux",
}  # fmt: skip
TRAITS = (
    "COMPUTE_NODE", "COMPUTE_ARCH_X86_64", "COMPUTE_IMAGE_TYPE_QCOW2", "COMPUTE_IMAGE_TYPE_RAW",
    "COMPUTE_VOLUME_ATTACH", "COMPUTE_NET_ATTACH_INTERFACE", "COMPUTE_STORAGE_BUS_VIRTIO", "COMPUTE_FIRMWARE_BIOS",
    "COMPUTE_GRAPHICS_MODEL_VGA", "COMPUTE_NET_VIF_MODEL_VIRTIO", "COMPUTE_NET_VIF_MODEL_E1000",
    "COMPUTE_NET_VIF_MODEL_E1000E", "COMPUTE_NET_VIF_MODEL_RTL8139", "COMPUTE_NET_VIF_MODEL_NE2K_PCI",
    "COMPUTE_NET_VIF_MODEL_PCNET",
)  # fmt: skip


def check(settings: Hosts) -> None:
    """Raise Refused if guests cannot run on this machine, with what would help."""
    needed = {settings.qemu: "qemu-system-x86", **PROGRAMS}
    missing = {name: package for name, package in needed.items() if not _which(name)}
    if missing:
        packages = " ".join(sorted(set(missing.values())))
        raise Refused(
            f"Guests by QEMU need {', '.join(missing)}, which this machine does not have. Install them (on Debian: "
            f"apt-get install {packages}), or use simulated hosts.",
            MISSING,
        )
    if platform.machine() != "x86_64":
        raise Refused(
            f"Guests by QEMU need an x86_64 machine, and this one is {platform.machine()}.", MISSING
        )

    try:
        program.user(settings.guest_user)
    except Failed as error:
        raise Refused(
            f"{error.message[0].upper()}{error.message[1:]}; see hosts.guest_user.", MISSING
        ) from None


def _which(name: str) -> str | None:
    return shutil.which(name, path=process.ENVIRONMENT["PATH"])


def facts(settings: Hosts, directory: Path) -> dict[str, Any]:
    """What the host says of itself in its agent's hello."""
    return {
        "hypervisor": "qemu",
        "hypervisor_version": version(settings.qemu),
        "cpu_info": cpu_info(),
        "inventories": inventories(settings, directory),
        "traits": list(TRAITS),
    }


def inventories(settings: Hosts, directory: Path) -> dict[str, Any]:
    """Processors, memory and disk of this machine; of the disk what is free, and what our guests have of it."""
    return {
        "VCPU": {"total": len(os.sched_getaffinity(0)), "reserved": 0, "ratio": settings.cpu_ratio},
        "MEMORY_MB": {
            "total": memory_mb(),
            "reserved": settings.reserved_ram_mb,
            "ratio": settings.ram_ratio,
        },
        "DISK_GB": {"total": disk_gb(directory), "reserved": 0, "ratio": settings.disk_ratio},
    }


def memory_mb() -> int:
    """The machine's memory, MiB."""
    found = re.search(r"^MemTotal:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return int(found[1]) >> 10 if found else 0


def disk_gb(directory: Path) -> int:
    """What disks below the directory can have: what is free there, and what is used by them already, GiB."""
    ours = 0
    for folder, _, names in os.walk(directory / "disk"):
        for name in names:
            try:
                ours += os.lstat(os.path.join(folder, name)).st_blocks * 512
            except FileNotFoundError:
                continue
    return (shutil.disk_usage(directory).free + ours) // GIB


def version(qemu: str) -> int:
    """QEMU's version as a number, 7.2.22 as 7002022; 0 if it does not tell."""
    try:
        told = subprocess.run(
            [qemu, "--version"],
            capture_output=True,
            text=True,
            timeout=20,
            env=process.ENVIRONMENT,
            check=False,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r"version (\d+)\.(\d+)\.(\d+)", told)
    return int(found[1]) * 1_000_000 + int(found[2]) * 1000 + int(found[3]) if found else 0


def cpu_info() -> dict[str, Any]:
    """The machine's processors, as hypervisors show them."""
    first = Path("/proc/cpuinfo").read_text().split("\n\n")[0]
    lines = {
        key.strip(): value.strip() for key, _, value in (line.partition(":") for line in first.splitlines())
    }
    return {
        "arch": platform.machine(),
        "vendor": lines.get("vendor_id", ""),
        "model": lines.get("model name", ""),
        "features": lines.get("flags", "").split(),
        "topology": {"cells": 1, "sockets": 1, "cores": os.cpu_count() or 1, "threads": 1},
    }
