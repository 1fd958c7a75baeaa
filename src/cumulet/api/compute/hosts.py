"""Hosts, as the API of the time before hypervisors shows them; until 2.42.

See the compute API reference, "Hosts (os-hosts) (DEPRECATED)".
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct, UnsetType

from cumulet.api.asgi import Route
from cumulet.api.compute.services import CONTROL, CONTROL_HOST, INTERNAL_ZONE
from cumulet.api.request import Request, Response, ok
from cumulet.core import hosts
from cumulet.core.hosts import Host, Load
from cumulet.core.policy import ADMIN
from cumulet.db.engine import Row, Tx
from cumulet.errors import CumuletError, Invalid


class Change(Struct, forbid_unknown_fields=True):
    status: str | UnsetType = UNSET
    maintenance_mode: str | UnsetType = UNSET


async def index(request: Request) -> Response:
    """GET /os-hosts: the services that are not disabled, by host"""
    found = [
        {"host_name": CONTROL_HOST, "service": binary.removeprefix("nova-"), "zone": INTERNAL_ZONE}
        for binary, _ in CONTROL
    ]
    found += [
        {"host_name": host.name, "service": "compute", "zone": host.zone}
        for host in await request.cloud.db.read(hosts.listing)
        if not host.disabled
    ]
    zone = request.arg("zone")
    return ok({"hosts": [one for one in found if not zone or one["zone"] == zone]})


def _look(tx: Tx, name: str) -> tuple[Host, Load, list[Row]]:
    host = hosts.named(tx, name)
    return host, hosts.loads(tx, [host])[host.id], hosts.servers_on(tx, [host])[host.id]


async def show(request: Request) -> Response:
    """GET /os-hosts/{host_name}: totals, use, and use by project"""
    host, load, servers = await request.cloud.db.read(_look, request.params["host_name"])
    (vcpus, vcpus_used), (memory, memory_used), (disk, disk_used) = load.vcpus, load.memory_mb, load.disk_gb
    lines = [
        _line(host, "(total)", vcpus, memory, disk),
        _line(host, "(used_now)", vcpus_used, memory_used, disk_used),
        _line(host, "(used_max)", *_sum(servers)),
    ]
    for project in sorted({row["project_id"] for row in servers}):
        lines.append(_line(host, project, *_sum([row for row in servers if row["project_id"] == project])))
    return ok({"host": lines})


def _sum(servers: list[Row]) -> tuple[int, int, int]:
    flavors = [row["flavor"] for row in servers]
    return (
        sum(flavor["vcpus"] for flavor in flavors),
        sum(flavor["ram"] for flavor in flavors),
        sum(flavor["disk"] + flavor["ephemeral"] for flavor in flavors),
    )


def _line(host: Host, project: str, vcpus: int, memory: int, disk: int) -> dict[str, Any]:
    return {
        "resource": {
            "host": host.name, "project": project, "cpu": vcpus, "memory_mb": memory, "disk_gb": disk,
        }
    }  # fmt: skip


async def update(request: Request) -> Response:
    """PUT /os-hosts/{host_name}: enable or disable"""
    asked = await request.struct(Change)
    name = request.params["host_name"]
    if asked.status is UNSET and asked.maintenance_mode is UNSET:
        raise Invalid("The body must hold status or maintenance_mode.")
    enabled = _enabled(asked.status, "status")
    if asked.maintenance_mode is not UNSET:
        _enabled(asked.maintenance_mode, "maintenance_mode")
        await request.cloud.db.read(hosts.named, name)
        raise _unsupported("A maintenance window")
    await request.cloud.db.write(_change, name, enabled)
    return ok({"host": name, "status": "enabled" if enabled else "disabled"})


def _enabled(word: str | UnsetType, field: str) -> bool:
    if isinstance(word, str) and word.strip().lower() in ("enable", "disable"):
        return word.strip().lower() == "enable"
    if word is UNSET:
        return False
    raise Invalid(f"Invalid input for field/attribute {field}: {word!r} is neither enable nor disable.")


def _change(tx: Tx, name: str, enabled: bool) -> None:
    hosts.change(tx, hosts.named(tx, name), disabled=not enabled)


async def power(request: Request) -> Response:
    """GET /os-hosts/{host_name}/{startup, shutdown, reboot}: no hypervisor that is supported can do it"""
    await request.cloud.db.read(hosts.named, request.params["host_name"])
    raise _unsupported("Power control of hosts")


def _unsupported(what: str) -> CumuletError:
    return CumuletError(f"{what} is not supported by the hypervisors of this cloud.", status=501)


_RULE = "os_compute_api:os-hosts"
_ONE = "/v2.1/os-hosts/{host_name}"

ROUTES = (
    Route("GET", "/v2.1/os-hosts", index, f"{_RULE}:list", ADMIN, until=(2, 42)),
    Route("GET", _ONE, show, f"{_RULE}:show", ADMIN, until=(2, 42)),
    Route("PUT", _ONE, update, f"{_RULE}:update", ADMIN, until=(2, 42)),
    Route("GET", f"{_ONE}/startup", power, f"{_RULE}:start", ADMIN, until=(2, 42)),
    Route("GET", f"{_ONE}/shutdown", power, f"{_RULE}:shutdown", ADMIN, until=(2, 42)),
    Route("GET", f"{_ONE}/reboot", power, f"{_RULE}:reboot", ADMIN, until=(2, 42)),
)
