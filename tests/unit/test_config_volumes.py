"""The volume back end that goes with the hosts."""

from __future__ import annotations

from typing import Any

import pytest

from cumulet import config


@pytest.mark.parametrize(
    ("flags", "environment", "backend"),
    [
        ({}, {}, "sim"),
        ({"hosts": {"hypervisor": "qemu"}}, {}, "files"),
        ({"hosts": {"hypervisor": "qemu"}, "volumes": {"backend": "none"}}, {}, "none"),
        ({}, {"CUMULET_HOSTS_HYPERVISOR": "qemu", "CUMULET_VOLUMES_BACKEND": "sim"}, "sim"),
    ],
)
def test_real_guests_get_volumes_that_they_can_open(
    flags: dict[str, Any], environment: dict[str, str], backend: str
) -> None:
    assert config.load(flags=flags, environment=environment).volumes.backend == backend
