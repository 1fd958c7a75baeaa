"""Hypervisors: the hosts, with what they have and what is used of it.

See the compute API reference, "Hypervisors".
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from cumulet.api.asgi import Route
from cumulet.api.compute.links import page_of, unknown_marker, with_more
from cumulet.api.query import only
from cumulet.api.request import Request, Response, ok
from cumulet.core import hosts
from cumulet.core.hosts import Host, Load
from cumulet.core.policy import ADMIN
from cumulet.db.engine import Row, Tx
from cumulet.db.query import MarkerNotFound, Query
from cumulet.errors import CumuletError, Invalid, NotFound
from cumulet.wire import hypervisors as wire
from cumulet.wire.body import encode
from cumulet.wire.services import HostName

#: What clients know the kinds of hypervisors as.
TYPES = {"qemu": "QEMU", "sim": "fake"}

_UUID = re.compile(r"[0-9a-fA-F]{8}-?([0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}\Z")


class Found(msgspec.Struct, frozen=True):
    """Hosts with what a body says of them."""

    hosts: list[Host]
    loads: dict[str, Load]
    servers: dict[str, list[Row]] | None


def _look(tx: Tx, found: list[Host], *, servers: bool) -> Found:
    return Found(found, hosts.loads(tx, found), hosts.servers_on(tx, found) if servers else None)


def _key(request: Request, host: Host) -> int | str:
    return host.provider or "" if request.version >= (2, 53) else host.number


def _servers(request: Request, found: Found, host: Host) -> list[dict[str, str]] | UnsetType:
    if found.servers is None:
        return UNSET
    listed = [{"name": row["name"], "uuid": row["id"]} for row in found.servers[host.id]]
    return listed if listed or request.version >= (2, 75) else UNSET


def _basic(request: Request, found: Found, host: Host) -> dict[str, Any]:
    body = wire.Basic(
        id=_key(request, host),
        hypervisor_hostname=host.name,
        state="up" if host.up else "down",
        status="disabled" if host.disabled else "enabled",
        servers=_servers(request, found, host),
    )
    return encode(body, request.version)


def _full(request: Request, found: Found, host: Host) -> dict[str, Any]:
    load, facts = found.loads[host.id], host.facts
    (vcpus, vcpus_used), (memory, memory_used), (disk, disk_used) = load.vcpus, load.memory_mb, load.disk_gb
    cpu_info = facts.get("cpu_info", {})
    body = wire.Full(
        id=_key(request, host),
        hypervisor_hostname=host.name,
        state="up" if host.up else "down",
        status="disabled" if host.disabled else "enabled",
        hypervisor_type=TYPES.get(str(facts.get("hypervisor")), str(facts.get("hypervisor", "unknown"))),
        hypervisor_version=int(facts.get("hypervisor_version", 1000)),
        host_ip=str(facts.get("host_ip", "127.0.0.1")),
        service=wire.Service(
            id=host.id if request.version >= (2, 53) else host.number,
            host=host.name,
            disabled_reason=host.disabled_reason,
        ),
        vcpus=vcpus,
        vcpus_used=vcpus_used,
        memory_mb=memory,
        memory_mb_used=memory_used,
        local_gb=disk,
        local_gb_used=disk_used,
        free_ram_mb=memory - memory_used,
        free_disk_gb=disk - disk_used,
        current_workload=load.busy,
        running_vms=load.servers,
        disk_available_least=disk - disk_used,
        cpu_info=cpu_info if request.version >= (2, 28) else msgspec.json.encode(cpu_info).decode(),
        uptime=_uptime(request, host),
        servers=_servers(request, found, host),
    )
    return encode(body, request.version)


def _uptime(request: Request, host: Host) -> str | None:
    """How long the host has been up, in the form of the program of that name; None if that is not known."""
    booted = host.facts.get("booted_at")
    if booted is None or not host.up:
        return None
    now = request.cloud.chance.now()
    minutes = max(int(now - float(booted)) // 60, 0)
    days, minutes = divmod(minutes, 24 * 60)
    clock = datetime.fromtimestamp(now, UTC).strftime("%H:%M:%S")
    return f" {clock} up {days} days, {minutes // 60:2}:{minutes % 60:02}"


async def index(request: Request) -> Response:
    """GET /os-hypervisors; in pages since 2.33, with servers and a pattern since 2.53"""
    return await _list(request, detailed=False)


async def detail(request: Request) -> Response:
    """GET /os-hypervisors/detail"""
    return await _list(request, detailed=True)


async def _list(request: Request, *, detailed: bool) -> Response:
    pattern, servers, query = None, False, Query()
    if request.version >= (2, 33):
        query = page_of(request)
    if request.version >= (2, 53):
        only(request, "limit", "marker", "hypervisor_hostname_pattern", "with_servers")
        pattern, servers = _pattern(request), request.flag("with_servers")
    if pattern is not None and (request.arg("limit") is not None or query.marker is not None):
        raise Invalid(
            "Paging over hypervisors with the hypervisor_hostname_pattern query parameter is not supported."
        )
    try:
        found = await request.cloud.db.read(_page, pattern, query, _marker(request, query), servers)
    except MarkerNotFound as error:
        raise unknown_marker(error) from None
    if pattern is not None and not found.hosts:
        raise NotFound(f"No hypervisor matching '{pattern}' could be found.")
    form = _full if detailed else _basic
    body = {"hypervisors": [form(request, found, host) for host in found.hosts]}
    if pattern is None and request.version >= (2, 33):
        keys = [str(_key(request, host)) for host in found.hosts]
        with_more(body, "hypervisors", request, query, keys)
    return ok(body)


def _page(tx: Tx, pattern: str | None, query: Query, marker: str | int | None, servers: bool) -> Found:
    found = hosts.hypervisors(tx, pattern=pattern, limit=query.limit, marker=marker)
    return _look(tx, found, servers=servers)


def _pattern(request: Request) -> str | None:
    text = request.arg("hypervisor_hostname_pattern")
    if text is None:
        return None
    try:
        return msgspec.convert(text, HostName)
    except msgspec.ValidationError:
        raise Invalid(
            f"Invalid input for query parameters hypervisor_hostname_pattern: {text!r} is not a part of a name."
        ) from None


def _marker(request: Request, query: Query) -> str | int | None:
    if query.marker is None or request.version >= (2, 53):
        return query.marker
    return int(query.marker) if re.fullmatch(r"[0-9]{1,18}", query.marker) else query.marker


def _asked(request: Request) -> str | int:
    """The id in the path. Raises Invalid, or NotFound for a number that is none."""
    text = request.params["hypervisor_id"]
    if request.version >= (2, 53):
        if not _UUID.match(text):
            raise Invalid(f"Invalid uuid {text}")
        return text
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise NotFound(f"Hypervisor with ID '{text}' could not be found.")
    return int(text)


def _find(tx: Tx, key: str | int, servers: bool) -> Found:
    return _look(tx, [hosts.hypervisor(tx, key)], servers=servers)


async def show(request: Request) -> Response:
    """GET /os-hypervisors/{hypervisor_id}"""
    servers = False
    if request.version >= (2, 53):
        only(request, "with_servers")
        servers = request.flag("with_servers")
    found = await request.cloud.db.read(_find, _asked(request), servers)
    return ok({"hypervisor": _full(request, found, found.hosts[0])})


async def uptime(request: Request) -> Response:
    """GET /os-hypervisors/{hypervisor_id}/uptime, until 2.87"""
    found = await request.cloud.db.read(_find, _asked(request), False)
    host = found.hosts[0]
    if not host.up:
        raise Invalid(f"The host {host.name} is down, so its uptime is not known.")
    since = _uptime(request, host)
    if since is None:
        raise CumuletError(f"The host {host.name} does not tell since when it is up.", status=501)
    return ok({"hypervisor": {**_basic(request, found, host), "uptime": since}})


async def search(request: Request) -> Response:
    """GET /os-hypervisors/{pattern}/search, until 2.52"""
    return await _matching(request, servers=False)


async def servers(request: Request) -> Response:
    """GET /os-hypervisors/{pattern}/servers, until 2.52"""
    return await _matching(request, servers=True)


async def _matching(request: Request, *, servers: bool) -> Response:
    pattern = request.params["hypervisor_id"]
    found = await request.cloud.db.read(_page, pattern, Query(), None, servers)
    if not found.hosts:
        raise NotFound(f"No hypervisor matching '{pattern}' could be found.")
    return ok({"hypervisors": [_basic(request, found, host) for host in found.hosts]})


async def statistics(request: Request) -> Response:
    """GET /os-hypervisors/statistics, until 2.87: sums over the hosts that are not disabled"""
    found = await request.cloud.db.read(_page, None, Query(), None, False)
    loads = [found.loads[host.id] for host in found.hosts if not host.disabled]
    sums = {
        name: (sum(getattr(load, name)[0] for load in loads), sum(getattr(load, name)[1] for load in loads))
        for name in ("vcpus", "memory_mb", "disk_gb")
    }
    disk, disk_used = sums["disk_gb"]
    memory, memory_used = sums["memory_mb"]
    body = {
        "count": len(loads),
        "vcpus": sums["vcpus"][0],
        "vcpus_used": sums["vcpus"][1],
        "memory_mb": memory,
        "memory_mb_used": memory_used,
        "local_gb": disk,
        "local_gb_used": disk_used,
        "free_ram_mb": memory - memory_used,
        "free_disk_gb": disk - disk_used,
        "current_workload": sum(load.busy for load in loads),
        "running_vms": sum(load.servers for load in loads),
        "disk_available_least": disk - disk_used,
    }
    return ok({"hypervisor_statistics": body})


_RULE = "os_compute_api:os-hypervisors"
_ALL = "/v2.1/os-hypervisors"
_ONE = f"{_ALL}/{{hypervisor_id}}"

ROUTES = (
    Route("GET", _ALL, index, f"{_RULE}:list", ADMIN),
    Route("GET", f"{_ALL}/detail", detail, f"{_RULE}:list-detail", ADMIN),
    Route("GET", f"{_ALL}/statistics", statistics, f"{_RULE}:statistics", ADMIN, until=(2, 87)),
    Route("GET", _ONE, show, f"{_RULE}:show", ADMIN),
    Route("GET", f"{_ONE}/uptime", uptime, f"{_RULE}:uptime", ADMIN, until=(2, 87)),
    Route("GET", f"{_ONE}/search", search, f"{_RULE}:search", ADMIN, until=(2, 52)),
    Route("GET", f"{_ONE}/servers", servers, f"{_RULE}:servers", ADMIN, until=(2, 52)),
)
