"""What only a guest's host can tell: console output and diagnostics; and what a guest is seen as from here.

See the compute API reference, "Show console output", "Servers diagnostics", "Servers password", "Server topology".
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from cumulet.api.asgi import Route
from cumulet.api.request import Request, Response, no_content, ok
from cumulet.core.policy import ADMIN, MEMBER, READER
from cumulet.core.servers import find, guests
from cumulet.errors import Unavailable
from cumulet.wire import server_actions, server_parts

#: Seconds that a host has to begin an answer, and its longest answer.
_TIME = 10.0
_LONGEST = 4 << 20
#: What old clients choke on: control characters, but for tabs and line ends.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f]")


async def _ask(request: Request, guest: guests.Guest, name: str, args: dict[str, Any]) -> bytes:
    """A host's whole answer. Raises Unavailable if it does not come, or is too long."""
    parts: list[bytes] = []
    size = 0
    async for piece in request.cloud.questions.ask(guest.agent, name, guest.claim, args, _TIME):
        size += len(piece)
        if size > _LONGEST:
            raise Unavailable(f"The host's answer is longer than {_LONGEST} bytes; ask for less.")
        parts.append(piece)
    return b"".join(parts)


async def console_output(request: Request) -> Response:
    """POST /servers/{server_id}/action {"os-getConsoleOutput": {"length": 50}}"""
    asked = request.action_as(server_actions.ConsoleOutput)
    guest = await request.cloud.db.read(guests.of, request.caller, request.params["server_id"])
    length = None if asked.length is None or asked.length < 0 else asked.length
    # The empty text behind the last line end counts as a line, as upstream counts.
    told = await _ask(request, guest, "console", {"length": length})
    text = told.decode("utf-8", "replace")
    if length is not None:
        text = "\n".join(text.split("\n")[-length:]) if length else ""
    return ok({"output": _CONTROLS.sub("", text)})


async def diagnostics(request: Request) -> Response:
    """GET /servers/{server_id}/diagnostics; in a form that all hosts share since 2.48"""
    guest = await request.cloud.db.read(guests.of, request.caller, request.params["server_id"])
    told = msgspec.json.decode(await _ask(request, guest, "diagnostics", {}), type=server_parts.Diagnostics)
    return ok(_common(guest, told) if request.version >= (2, 48) else _old(told))


_NIC = (
    "rx_octets", "rx_errors", "rx_drop", "rx_packets", "rx_rate", "tx_octets", "tx_errors", "tx_drop", "tx_packets",
    "tx_rate",
)  # fmt: skip
_DISK = ("read_bytes", "read_requests", "write_bytes", "write_requests", "errors_count")


def _common(guest: guests.Guest, told: server_parts.Diagnostics) -> dict[str, Any]:
    return {
        "state": told.state,
        # The closed list of names has none for what runs here; QEMU is behind this one, too.
        "driver": "libvirt",
        "hypervisor": told.hypervisor,
        "hypervisor_os": "linux",
        "uptime": told.uptime,
        "config_drive": guest.config_drive,
        "num_cpus": len(told.cpus),
        "num_nics": len(told.nics),
        "num_disks": len(told.disks),
        "memory_details": {"maximum": told.memory_maximum, "used": told.memory_used},
        "cpu_details": [{"id": i, "time": time, "utilisation": None} for i, time in enumerate(told.cpus)],
        "nic_details": [
            {"mac_address": nic.get("mac"), **{name: nic.get(name) for name in _NIC}} for nic in told.nics
        ],
        "disk_details": [{name: disk.get(name) for name in _DISK} for disk in told.disks],
    }


def _old(told: server_parts.Diagnostics) -> dict[str, Any]:
    """The names of the old form; what the host does not know is left out."""
    found: dict[str, Any] = {"memory": (told.memory_maximum or 0) * 1024}
    found |= {f"cpu{i}_time": time for i, time in enumerate(told.cpus)}
    for i, nic in enumerate(told.nics):
        found |= {f"vnet{i}_{name}": nic.get(name) for name in _NIC if not name.endswith("_rate")}
    for disk in told.disks:
        device = str(disk.get("device", "vda"))
        for new, old in zip(_DISK, ("read", "read_req", "write", "write_req", "errors"), strict=True):
            found[f"{device}_{old}"] = disk.get(new)
    return {name: value for name, value in found.items() if value is not None}


async def show_password(request: Request) -> Response:
    """GET /servers/{server_id}/os-server-password: what the guest has encrypted for its user; none does here"""
    await request.cloud.db.read(find.find, request.caller, request.params["server_id"])
    return ok({"password": ""})


async def clear_password(request: Request) -> Response:
    """DELETE /servers/{server_id}/os-server-password"""
    await request.cloud.db.read(find.find, request.caller, request.params["server_id"])
    return no_content()


async def topology(request: Request) -> Response:
    """GET /servers/{server_id}/topology, since 2.78: guests are not bound to NUMA nodes here"""
    await request.cloud.db.read(find.find, request.caller, request.params["server_id"])
    return ok({"nodes": [], "pagesize_kb": None})


_ONE = "/v2.1/servers/{server_id}"
_PASSWORD = "os_compute_api:os-server-password"  # noqa: S105

ROUTES = (
    Route(
        "POST", f"{_ONE}/action", console_output, "os_compute_api:os-console-output", MEMBER,
        action="os-getConsoleOutput",
    ),
    Route("GET", f"{_ONE}/diagnostics", diagnostics, "os_compute_api:os-server-diagnostics", ADMIN),
    Route("GET", f"{_ONE}/os-server-password", show_password, f"{_PASSWORD}:show", READER),
    Route("DELETE", f"{_ONE}/os-server-password", clear_password, f"{_PASSWORD}:clear", MEMBER),
    Route("GET", f"{_ONE}/topology", topology, "compute:server:topology:index", READER, since=(2, 78)),
)  # fmt: skip
