"""Which extra specs are taken since 2.86."""

from __future__ import annotations

import pytest

from cumulet.core import extra_specs
from cumulet.errors import Invalid


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hw:cpu_policy", "dedicated"), ("hw:numa_nodes", "2"), ("hw:numa_cpus.0", "0-3,^2"), ("hw:mem_page_size", "2MB"),
        ("hw:mem_page_size", "large"), ("hw:boot_menu", "True"), ("hw_rng:allowed", "true"), ("quota:vif_inbound_average", "5"),
        ("quota:cpu_quota", "-1"), ("resources:VCPU", "1"), ("resources1:CUSTOM_GPU", "1"), ("resources_A:VGPU", "1"),
        ("trait:HW_CPU_X86_VMX", "required"), ("trait2:CUSTOM_X", "forbidden"), ("capabilities:cpu_info:features", "<in> x"),
        ("capabilities:hypervisor_type", "s== QEMU"), ("aggregate_instance_extra_specs:ssd", "true"),
        ("pci_passthrough:alias", "gpu:1, nic:2"), ("os:secure_boot", "required"), ("hide_hypervisor_id", "yes"),
        ("anything", "x"), ("mine:anything", "x"), ("group_policy", "none"), ("hw:cpu_realtime_mask", "^0-1"),
        ("hw:cpu_realtime_mask", "2-3"),
    ],
)  # fmt: skip
def test_good(name: str, value: str) -> None:
    extra_specs.check({name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hw:cpu_policy", "x"), ("hw:cpu_polcy", "dedicated"), ("hw:numa_nodes", "0"), ("hw:numa_nodes", "x"),
        ("hw:numa_cpus.x", "0"), ("hw:redirected_usb_ports", "16"), ("hw:boot_menu", "perhaps"), ("resources:NOTHING", "1"),
        ("resources:VCPU", "x"), ("trait:HW_NOTHING", "required"), ("trait:HW_CPU_X86_VMX", "x"), ("capabilities:x", "y"),
        ("pci_passthrough:alias", "gpu"), ("quota:x", "1"), ("quota:cpu_shares", "-1"), ("group_policy", "x"),
        ("hw:", ""),
    ],
)  # fmt: skip
def test_bad(name: str, value: str) -> None:
    with pytest.raises(Invalid, match="Validation failed"):
        extra_specs.check({name: value})
