"""Bodies of hypervisors. See the compute API reference, "Hypervisors"."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Struct, UnsetType

from cumulet.wire.body import since, until

Servers = list[dict[str, str]]


class Basic(Struct, frozen=True):
    id: int | str
    hypervisor_hostname: str
    state: str
    status: str
    #: Where they were asked for; until 2.74 only if there are any.
    servers: Servers | UnsetType = UNSET


class Service(Struct, frozen=True):
    id: int | str
    host: str
    disabled_reason: str | None


class Full(Struct, frozen=True):
    id: int | str
    hypervisor_hostname: str
    state: str
    status: str
    hypervisor_type: str
    hypervisor_version: int
    host_ip: str
    service: Service
    vcpus: Annotated[int, until(2, 87)]
    vcpus_used: Annotated[int, until(2, 87)]
    memory_mb: Annotated[int, until(2, 87)]
    memory_mb_used: Annotated[int, until(2, 87)]
    local_gb: Annotated[int, until(2, 87)]
    local_gb_used: Annotated[int, until(2, 87)]
    free_ram_mb: Annotated[int, until(2, 87)]
    free_disk_gb: Annotated[int, until(2, 87)]
    current_workload: Annotated[int, until(2, 87)]
    running_vms: Annotated[int, until(2, 87)]
    disk_available_least: Annotated[int, until(2, 87)]
    #: A JSON document until 2.27 as text, then as an object.
    cpu_info: Annotated[str | dict[str, Any], until(2, 87)]
    uptime: Annotated[str | None, since(2, 88)]
    servers: Servers | UnsetType = UNSET
