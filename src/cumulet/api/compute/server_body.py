"""A server as an answer shows it, at the request's version and for the caller's rights."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha224
from typing import Any

import msgspec
from msgspec import UNSET

from cumulet.api.compute import permit
from cumulet.api.compute.links import PREFIX, links
from cumulet.api.request import Request
from cumulet.core.policy import ADMIN, READER
from cumulet.core.servers.show import Shown
from cumulet.db.engine import Row
from cumulet.wire import image_properties
from cumulet.wire import servers as wire
from cumulet.wire.body import unset
from cumulet.wire.forms import instant, precise_or_none

_ATTRIBUTES = "os_compute_api:os-extended-server-attributes"
_SPECS = "os_compute_api:servers:show:flavor-extra-specs"
_HOST_STATUS = "os_compute_api:servers:show:host_status"
_UNKNOWN_ONLY = "os_compute_api:servers:show:host_status:unknown-only"
#: Rules that no route has.
RULES = {_ATTRIBUTES: ADMIN, _SPECS: READER, _HOST_STATUS: ADMIN, _UNKNOWN_ONLY: ADMIN}

_WITH_FAULT = frozenset({"ERROR", "DELETED"})
_WITH_PROGRESS = frozenset({"ACTIVE", "BUILD", "REBUILD", "RESIZE", "VERIFY_RESIZE", "MIGRATING"})


class View(msgspec.Struct, frozen=True):
    """What the caller may see, asked once for each request."""

    attributes: bool
    specs: bool
    host_status: bool
    unknown_only: bool
    #: Show the server's group: in every answer but the detailed list.
    groups: bool


def view_of(request: Request, *, groups: bool = True) -> View:
    return View(
        attributes=permit.allows(request, _ATTRIBUTES),
        specs=request.version >= (2, 47) and permit.allows(request, _SPECS),
        host_status=permit.allows(request, _HOST_STATUS),
        unknown_only=permit.allows(request, _UNKNOWN_ONLY),
        groups=groups,
    )


@lru_cache(maxsize=4096)
def host_id(project_id: str, host: str | None) -> str:
    """Tells hosts apart without naming them; another project sees another one for the same host."""
    return sha224((project_id + host).encode()).hexdigest() if host else ""


def brief(request: Request, row: Row) -> dict[str, Any]:
    """A server in a list without details."""
    return {"id": row["id"], "name": row["name"], "links": links(request, "servers", row["id"])}


def full(request: Request, shown: Shown, view: View) -> wire.Server:
    """A server with everything that the version and the caller's rights let through."""
    row = shown.row
    version = request.version
    server = wire.Server(
        id=row["id"],
        name=row["name"],
        status=shown.status,
        tenant_id=row["project_id"],
        user_id=row["user_id"],
        metadata=row["metadata"],
        host_id=host_id(row["project_id"], shown.host),
        image=_image(request, row) if row["image_id"] else "",
        flavor=_flavor(request, row["flavor"], view),
        created=instant(row["created_at"]),
        updated=instant(row["updated_at"]),
        addresses={} if row["vm_state"] == "building" else addresses(shown.ports),
        access_ip_v4=row["access_ip_v4"] or "",
        access_ip_v6=row["access_ip_v6"] or "",
        links=links(request, "servers", row["id"]),
        disk_config=row["disk_config"],
        zone=shown.zone,
        config_drive="True" if row["config_drive"] else "",
        key_name=row["key_name"],
        launched_at=precise_or_none(row["launched_at"]),
        terminated_at=precise_or_none(shown.deleted_at),
        task_state=row["task_state"],
        vm_state=row["vm_state"],
        power_state=row["power_state"],
        volumes=[{"id": id, "delete_on_termination": ends} for id, ends in shown.volumes]
        if version >= (2, 3)
        else [{"id": id} for id, _ in shown.volumes],
        locked=row["locked"],
        description=row["description"],
        tags=list(shown.tags),
        trusted_image_certificates=row["trusted_image_certificates"],
        locked_reason=row["locked_reason"],
        pinned_availability_zone=row["zone"],
        scheduler_hints=row["request"].get("hints") or {} if version >= (2, 100) else UNSET,
    )
    if shown.status in _WITH_FAULT and row["fault"]:
        server.fault = _fault(request, row["fault"])
    if shown.status in _WITH_PROGRESS:
        server.progress = row["progress"]
    groups = security_groups(shown.ports)
    if groups:
        server.security_groups = groups
    if view.attributes:
        _attributes(server, shown)
    elif version >= (2, 90):
        server.hostname = row["hostname"]
    if view.host_status or (view.unknown_only and shown.host_status == "UNKNOWN"):
        server.host_status = shown.host_status
    if view.groups:
        server.server_groups = [row["group_id"]] if row["group_id"] else []
    unset(server, version)
    return server


#: What an answer to a change does not show until 2.74.
_NOT_CHANGED = (
    "zone", "config_drive", "key_name", "launched_at", "terminated_at", "task_state", "vm_state", "power_state",
    "volumes", "security_groups", "host", "instance_name", "node", "hostname", "kernel_id", "launch_index",
    "ramdisk_id", "reservation_id", "root_device_name", "user_data", "host_status",
)  # fmt: skip


def changed(request: Request, shown: Shown) -> wire.Server:
    """A server as the answer to an update shows it."""
    server = full(request, shown, view_of(request))
    if request.version < (2, 75):
        for name in _NOT_CHANGED:
            setattr(server, name, UNSET)
        server.addresses = {
            name: [{"version": ip["version"], "addr": ip["addr"]} for ip in ips]
            for name, ips in server.addresses.items()
        }
    return server


def rebuilt(request: Request, shown: Shown, password: str) -> dict[str, Any]:
    """A server as the answer to a rebuild shows it: as to an update, with what the request can set besides."""
    server = changed(request, shown)
    server.user_data = UNSET
    if request.version >= (2, 54):
        server.key_name = shown.row["key_name"]
    body: dict[str, Any] = msgspec.to_builtins(server)
    if request.version >= (2, 57):
        body["user_data"] = shown.row["user_data"]
    return {**body, "adminPass": password}


def _attributes(server: wire.Server, shown: Shown) -> None:
    row = shown.row
    properties = row.get("image_properties") or {}
    server.host = server.node = shown.host
    server.instance_name = f"instance-{row['number']:08x}"
    server.hostname = row["hostname"]
    server.kernel_id = str(properties.get("kernel_id") or "")
    server.ramdisk_id = str(properties.get("ramdisk_id") or "")
    server.launch_index = row["launch_index"]
    server.reservation_id = row["reservation_id"]
    server.root_device_name = row["root_device_name"]
    server.user_data = row.get("user_data")


def _image(request: Request, row: Row) -> dict[str, Any]:
    """A link to the image; since 2.98 what the image said of servers when the server was made."""
    id = row["image_id"]
    found = {"id": id, "links": [{"rel": "bookmark", "href": request.url(f"{PREFIX}/images/{id}")}]}
    if request.version >= (2, 98):
        found["properties"] = {
            name: str(value)[:255]
            for name, value in row["image_properties"].items()
            if name in image_properties.NAMES and value is not None
        }
    return found


def _flavor(request: Request, flavor: Row, view: View) -> dict[str, Any]:
    """A link to the flavor; since 2.47 what it was when it was chosen."""
    if request.version < (2, 47):
        id = flavor["flavorid"]
        return {"id": id, "links": [{"rel": "bookmark", "href": request.url(f"{PREFIX}/flavors/{id}")}]}
    found = {
        "vcpus": flavor["vcpus"],
        "ram": flavor["ram"],
        "disk": flavor["disk"],
        "ephemeral": flavor["ephemeral"],
        "swap": flavor["swap"],
        "original_name": flavor["name"],
    }
    if view.specs:
        found["extra_specs"] = flavor["extra_specs"]
    return found


def _fault(request: Request, fault: Row) -> dict[str, Any]:
    shown = {"code": fault["code"], "message": fault["message"], "created": instant(fault["created"])}
    if fault.get("details") and (request.caller.is_admin or fault["code"] != 500):
        shown["details"] = fault["details"]
    return shown


def addresses(ports: Sequence[Row]) -> dict[str, list[dict[str, Any]]]:
    """The addresses of a server by the name of the network, floating ones behind the fixed ones."""
    found: dict[str, list[dict[str, Any]]] = {}
    floating: dict[str, list[dict[str, Any]]] = {}
    for port in ports:
        name, mac = port["network_name"], port["mac_address"]
        fixed = found.setdefault(name, [])
        for ip in port["fixed_ips"]:
            fixed.append(_address(ip["ip_address"], ip["version"], "fixed", mac))
            for address in ip["floating_ips"]:
                floating.setdefault(name, []).append(_address(address, 4, "floating", mac))
    for name, more in floating.items():
        found[name] += more
    return found


def _address(address: str, version: int, kind: str, mac: str) -> dict[str, Any]:
    return {"version": version, "addr": address, "OS-EXT-IPS:type": kind, "OS-EXT-IPS-MAC:mac_addr": mac}


def security_groups(ports: Sequence[Row]) -> list[dict[str, str]]:
    """The names of the groups of a server's ports, each group once."""
    found: dict[str, str] = {}
    for port in ports:
        for group in port["security_groups"]:
            found.setdefault(group["id"], group["name"])
    return [{"name": name} for name in found.values()]
