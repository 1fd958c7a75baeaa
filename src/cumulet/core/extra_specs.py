"""Which extra specs flavors can have, checked since version 2.86 of compute's API.

A name whose namespace nobody knows is taken as it is; one of a known namespace must be known, and its value
must be of its form. See the compute configuration guide, "Extra Specs".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from cumulet.core import resource_classes
from cumulet.core.trait_names import STANDARD as TRAITS
from cumulet.errors import Invalid

#: Says what is wrong with a value; None for a good one.
Check = Callable[[str], str | None]

_TRUTHS = frozenset(["1", "t", "true", "on", "y", "yes", "0", "f", "false", "off", "n", "no"])
_GROUP = r"([a-zA-Z0-9_-]{1,64})?"
_CPUS = r"\^?\d+((-\d+)?(,\^?\d+(-\d+)?)?)*"


def _anything(value: str) -> str | None:
    return None


def _truth(value: str) -> str | None:
    return None if value.strip().lower() in _TRUTHS else "is not a valid boolean-like value"


def _whole(least: int | None = None, most: int | None = None) -> Check:
    def check(value: str) -> str | None:
        if not re.fullmatch(r"\s*[+-]?\d{1,30}\s*", value):
            return "is not a valid integer value"
        if least is not None and int(value) < least:
            return f"is less than the min value of {least}"
        if most is not None and int(value) > most:
            return f"is greater than the max value of {most}"
        return None

    return check


def _one_of(words: str) -> Check:
    choices = words.split()
    return lambda value: None if value in choices else f"is not one of: {', '.join(choices)}"


def _form(pattern: str) -> Check:
    compiled = re.compile(pattern)
    return lambda value: None if compiled.fullmatch(value) else f"is not of the format {pattern!r}"


_HW: Mapping[str, Check] = {
    **dict.fromkeys(
        [
            "cpu_realtime",
            "hide_hypervisor_id",
            "locked_memory",
            "boot_menu",
            "vif_multiqueue_enabled",
            "mem_encryption",
            "pmu",
            "virtio_packed_ring",
            "ephemeral_encryption",
        ],
        _truth,
    ),
    **dict.fromkeys(
        [
            "numa_nodes",
            "cpu_sockets",
            "cpu_cores",
            "cpu_threads",
            "cpu_max_sockets",
            "cpu_max_cores",
            "cpu_max_threads",
            "numa_mem\\.\\d+",
        ],
        _whole(1),
    ),
    "cpu_realtime_mask": _form(_CPUS),
    "cpu_policy": _one_of("dedicated shared mixed"),
    "cpu_thread_policy": _one_of("prefer isolate require"),
    "emulator_threads_policy": _one_of("isolate share"),
    "cpu_dedicated_mask": _form(_CPUS),
    "mem_page_size": _form(r"(large|small|any|\d+([kKMGT]i?)?(b|bit|B)?)"),
    r"numa_cpus\.\d+": _form(_CPUS),
    "pci_numa_affinity_policy": _one_of("required preferred legacy socket"),
    "mem_encryption_model": _one_of("amd-sev amd-sev-es amd-sev-snp"),
    "pmem": _form(r"[a-zA-Z0-9_]+(,[a-zA-Z0-9_]+)*,?"),
    "serial_port_count": _whole(0),
    "tpm_model": _one_of("tpm-tis tpm-crb"),
    "tpm_version": _one_of("1.2 2.0"),
    "tpm_secret_security": _one_of("user host deployment"),
    "watchdog_action": _one_of("none pause poweroff reset disabled"),
    "viommu_model": _one_of("intel smmuv3 virtio auto"),
    "sound_model": _one_of("sb16 es1370 pcspk ac97 ich6 ich9 usb virtio"),
    "usb_model": _one_of("none nec-xhci qemu-xhci"),
    "redirected_usb_ports": _whole(0, 15),
    "ephemeral_encryption_format": _one_of("plain luks luksv2"),
}

_SHARED = "(cpu|memory|disk_io|vif)"
_QUOTA: Mapping[str, Check] = {
    f"{_SHARED}_limit": _whole(0),
    f"{_SHARED}_reservation": _whole(),
    f"{_SHARED}_shares_level": _one_of("custom high normal low"),
    f"{_SHARED}_shares_share": _whole(0),
    "cpu_shares": _whole(0),
    "cpu_period": _whole(0),
    "cpu_quota": _whole(),
    "disk_(read|write|total)_(bytes|iops)_sec": _whole(0),
    "vif_(inbound|outbound)_(average|peak|burst)": _whole(0),
}

_PLAIN = (
    "id uuid service_id host vcpus memory_mb local_gb vcpus_used memory_mb_used local_gb_used hypervisor_type "
    "hypervisor_version hypervisor_hostname free_ram_mb free_disk_gb current_workload running_vms "
    "disk_available_least host_ip mapped cpu_allocation_ratio ram_allocation_ratio disk_allocation_ratio "
    "total_usable_ram_mb total_usable_disk_gb disk_mb_used free_disk_mb vcpus_total num_instances num_io_ops "
    "failed_builds aggregates cell_uuid updated"
)
_NESTED = (
    "cpu_info metrics stats numa_topology supported_hv_specs pci_device_pools nodename pci_stats "
    "supported_instances limits instances"
)

_CLASSES = "|".join((*resource_classes.STANDARD, "CUSTOM_[A-Z0-9_]+"))

#: Namespace → name within it → the check of its values. Namespaces and names are patterns.
NAMESPACES: Mapping[str, Mapping[str, Check]] = {
    "accel": {"device_profile": _anything},
    "aggregate_instance_extra_specs": {".+": _anything},
    "capabilities": {
        f"({_PLAIN.replace(' ', '|')})": _anything,
        rf"({_NESTED.replace(' ', '|')})(:\w+)*": _anything,
    },
    "hw": _HW,
    "hw_rng": {"allowed": _truth, "rate_bytes": _whole(0), "rate_period": _whole(0)},
    "hw_video": {"ram_max_mb": _whole(0)},
    "os": {"secure_boot": _one_of("disabled required")},
    "pci_passthrough": {"alias": _form(r"[^:,]+:\d+(\s*,\s*[^:,]+:\d+)*")},
    "quota": _QUOTA,
    f"resources{_GROUP}": {f"({_CLASSES})": _whole()},
    f"trait{_GROUP}": {
        f"({'|'.join(TRAITS)}|CUSTOM_[A-Z0-9_]+)": _one_of("required forbidden"),
    },
    "vmware": {"hw_version": _anything, "storage_policy": _anything},
}

#: Names without a namespace.
BARE: Mapping[str, Check] = {"hide_hypervisor_id": _truth, "group_policy": _one_of("isolate none")}


def check(specs: Mapping[str, str]) -> None:
    """Raise Invalid for a spec of a known namespace that is not known, or whose value is not of its form."""
    for name, value in specs.items():
        found = _find(name)
        if found is None:
            continue
        wrong = found(value)
        if wrong is not None:
            raise Invalid(f"Validation failed; {value!r} {wrong}, for extra spec {name!r}.")


def _find(name: str) -> Check | None:
    """The check of a name; None for one that nobody knows about. Raises Invalid."""
    namespace, colon, rest = name.partition(":")
    if not colon:
        return BARE.get(name)
    for pattern, names in NAMESPACES.items():
        if not re.fullmatch(pattern, namespace):
            continue
        for inner, found in names.items():
            if re.fullmatch(inner, rest):
                return found
        raise Invalid(
            f"Validation failed; extra spec {name!r} does not appear to be a valid extra spec of {namespace!r}."
        )
    return None
