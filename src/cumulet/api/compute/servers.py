"""Servers: made, listed, shown, deleted. See the compute API reference, "Servers"."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from cumulet.api.asgi import Route
from cumulet.api.compute import permit, server_body, server_filters
from cumulet.api.compute.links import links, unknown_marker, with_more
from cumulet.api.request import Request, Response, accepted, boolean, no_content, ok
from cumulet.core.policy import ADMIN, MEMBER, READER
from cumulet.core.servers import create as making
from cumulet.core.servers import deleting, listing
from cumulet.core.servers import show as showing
from cumulet.core.servers import update as updating
from cumulet.core.servers.devices import Device
from cumulet.core.servers.networking import Nic
from cumulet.db.query import MarkerNotFound
from cumulet.errors import Invalid
from cumulet.wire import server_parts as parts
from cumulet.wire import servers as wire

_RULE = "os_compute_api:servers"
_DESTINATION = "compute:servers:create:requested_destination"


async def index(request: Request) -> Response:
    """GET /servers"""
    asked = server_filters.read(request, detail=False)
    if asked is None:
        return ok({"servers": []})
    try:
        rows = await request.cloud.db.read(listing.ids, asked)
    except MarkerNotFound as error:
        raise unknown_marker(error) from None
    body = {"servers": [server_body.brief(request, row) for row in rows]}
    return ok(with_more(body, "servers", request, asked.query, [row["id"] for row in rows]))


async def detail(request: Request) -> Response:
    """GET /servers/detail"""
    asked = server_filters.read(request, detail=True)
    if asked is None:
        return ok({"servers": []})
    try:
        found = await request.cloud.db.read(listing.detailed, asked)
    except MarkerNotFound as error:
        raise unknown_marker(error) from None
    view = server_body.view_of(request, groups=False)
    body = {"servers": [server_body.full(request, one, view) for one in found]}
    return ok(with_more(body, "servers", request, asked.query, [one.row["id"] for one in found]))


async def show(request: Request) -> Response:
    """GET /servers/{server_id}"""
    found = await request.cloud.db.read(showing.show, request.caller, request.params["server_id"])
    return ok({"server": server_body.full(request, found, server_body.view_of(request))})


async def update(request: Request) -> Response:
    """PUT /servers/{server_id}"""
    asked = (await request.struct(parts.Update)).server
    if isinstance(asked.hostname, str):
        check_hostname(request, asked.hostname)
    changes = {
        name: getattr(asked, name)
        for name in ("name", "description", "hostname", "access_ip_v4", "access_ip_v6", "disk_config")
        if getattr(asked, name) is not UNSET
    }
    if asked.pinned_availability_zone is not UNSET:
        changes["zone"] = asked.pinned_availability_zone
    found = await request.cloud.db.write(
        updating.update, request.caller, request.params["server_id"], changes
    )
    return ok({"server": server_body.changed(request, found)})


async def delete(request: Request) -> Response:
    """DELETE /servers/{server_id}"""
    await request.cloud.db.write(
        deleting.delete,
        request.caller,
        request.params["server_id"],
        reclaim_after=request.cloud.config.reconcile.reclaim_after,
    )
    return no_content()


async def create(request: Request) -> Response:
    """POST /servers"""
    body = await request.struct(wire.Create)
    new = _new(request, body)
    made = await request.cloud.db.write(making.create, request.caller, new)
    if boolean(body.server.return_reservation_id, "return_reservation_id"):
        return accepted({"reservation_id": made.reservation_id})
    id = made.ids[0]
    its_links = links(request, "servers", id)
    groups = body.server.security_groups
    server = {
        "id": id,
        "links": its_links,
        "OS-DCF:diskConfig": made.disk_config,
        "security_groups": [{"name": group.name} for group in groups if isinstance(group.name, str)]
        if isinstance(groups, list)
        else [{"name": "default"}],
        "adminPass": made.password,
    }
    return accepted({"server": server}, ("Location", its_links[0]["href"]))


# --- a request to make servers, read ---


def _new(request: Request, body: wire.Create) -> making.New:
    """What the core is asked for. Raises Invalid, Forbidden."""
    server = body.server
    hints = body.hints if isinstance(body.hints, dict) else body.more_hints
    zone, host = _destination(request, server)
    devices = _devices(request, server)
    if not server.image and not devices:
        raise Invalid(
            "Missing imageRef attribute: without it a boot device is needed in block_device_mapping_v2."
        )
    if devices:
        permit.require(request, f"{_RULE}:create:attach_volume")
    min_count = server.min_count if isinstance(server.min_count, int) else 1
    return making.New(
        name=server.name,
        flavor=str(server.flavor),
        image=server.image or None,
        devices=tuple(devices),
        networks=_networks(request, server),
        security_groups=tuple(group.name for group in server.security_groups if isinstance(group.name, str))
        if isinstance(server.security_groups, list)
        else (),
        description=_description(request, server),
        hostname=_hostname(request, server),
        key_name=_given(server.key_name),
        user_data=_given(server.user_data),
        config_drive=boolean(server.config_drive, "config_drive"),
        personality=tuple((file.path, file.contents) for file in server.personality),
        metadata=server.metadata,
        tags=tuple(server.tags),
        zone=zone,
        host=host,
        hints=hints if isinstance(hints, dict) else {},
        min_count=min_count,
        max_count=server.max_count if isinstance(server.max_count, int) else min_count,
        password=_given(server.password),
        access_ip_v4=_given(server.access_ip_v4),
        access_ip_v6=_given(server.access_ip_v6),
        disk_config=_given(server.disk_config) or "MANUAL",
        certificates=_certificates(request, server),
        multiattach=request.version >= (2, 60),
        external=permit.allows(request, permit.EXTERNAL),
        zero_disk=permit.allows(request, f"{_RULE}:create:zero_disk_flavor"),
        build_time=request.cloud.config.reconcile.build_time,
    )


def _given(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _description(request: Request, server: wire.NewServer) -> str | None:
    """Until 2.18 the name stands for it."""
    return _given(server.description) if request.version >= (2, 19) else server.name


def _hostname(request: Request, server: wire.NewServer) -> str | None:
    if isinstance(server.hostname, str):
        check_hostname(request, server.hostname)
    return _given(server.hostname)


def check_hostname(request: Request, hostname: str) -> None:
    """Raise Invalid for what is no host name; since 2.94 one may have a domain."""
    try:
        wire.check_hostname(hostname, whole=request.version >= (2, 94))
    except ValueError as error:
        raise Invalid(f"Invalid input for field/attribute {error}") from None


def _certificates(request: Request, server: wire.NewServer) -> tuple[str, ...] | None:
    if not server.trusted_image_certificates:
        return None
    permit.require(request, f"{_RULE}:create:trusted_certs")
    return tuple(server.trusted_image_certificates)


def _destination(request: Request, server: wire.NewServer) -> tuple[str | None, str | None]:
    """The zone and the host that are asked for: "zone:host:node" for administrators, host names since 2.74."""
    zone = _given(server.availability_zone)
    host = None
    if zone is not None and ":" in zone:
        parts = zone.split(":")
        if len(parts) > 3:
            raise Invalid(
                f"Unable to parse availability zone {zone[:100]!r}: at most zone:host:node is possible."
            )
        zone = parts[0] or None
        hosts = {part for part in parts[1:] if part}
        if hosts:
            permit.require(request, f"{_RULE}:create:forced_host")
            host = _one_host(hosts)
    asked = {name for name in (server.host, server.hypervisor_hostname) if isinstance(name, str)}
    if asked:
        permit.require(request, _DESTINATION)
        if host is not None:
            raise Invalid(
                "One mechanism with host and/or hypervisor_hostname and another mechanism with zone:host:node are "
                "mutually exclusive."
            )
        host = _one_host(asked)
    return zone, host


def _one_host(names: set[str]) -> str:
    """A host and its hypervisor have one name here. Raises Invalid for two."""
    if len(names) > 1:
        raise Invalid(f"Compute host {' with hypervisor '.join(sorted(names))} could not be found.")
    return names.pop()


def _networks(request: Request, server: wire.NewServer) -> tuple[Nic, ...] | str | None:
    """The interfaces. What may be said of them differs: see microversions 2.32, 2.37 and 2.42."""
    asked = server.networks
    if isinstance(asked, str):
        if request.version < (2, 37):
            raise Invalid(f"Invalid input for field/attribute networks: {asked!r} is not of type 'array'")
        if asked == "auto":
            permit.require(request, f"{_RULE}:create:attach_network")
        return asked
    if not isinstance(asked, list):
        if request.version >= (2, 37):
            raise Invalid("Invalid input for field/attribute server: 'networks' is a required property")
        return None
    tags = (2, 32) <= request.version <= (2, 36) or request.version >= (2, 42)
    found: list[Nic] = []
    for network in asked:
        if isinstance(network.tag, str) and not tags:
            raise Invalid("Invalid input for field/attribute networks: 'tag' was unexpected at this version")
        if network.port is None and not isinstance(network.uuid, str):
            raise Invalid("Bad network format: missing 'uuid'")
        if network.port is not None and isinstance(network.fixed_ip, str):
            raise Invalid(
                f"Specified Fixed IP '{network.fixed_ip}' cannot be used with port '{network.port}': the two cannot "
                "be specified together."
            )
        if network.port is not None and any(nic.port == network.port for nic in found):
            raise Invalid(
                f"Port ID '{network.port}' was specified twice: you cannot attach a port multiple times."
            )
        found.append(
            Nic(
                network=None if network.port is not None else _given(network.uuid),
                port=network.port,
                fixed_ip=_given(network.fixed_ip),
                tag=_given(network.tag),
            )
        )
    if found:
        permit.require(request, f"{_RULE}:create:attach_network")
    return tuple(found)


def _devices(request: Request, server: wire.NewServer) -> list[Device]:
    """The block devices, in either form. Raises Invalid."""
    if server.block_device_mapping and server.block_device_mapping_v2:
        raise Invalid("Using different block_device_mapping syntaxes is not allowed in the same request.")
    if server.block_device_mapping:
        return _old_devices(server)
    found = []
    for device in server.block_device_mapping_v2:
        if device.no_device:
            continue
        if isinstance(device.tag, str) and request.version != (2, 32) and request.version < (2, 42):
            raise Invalid(
                "Invalid input for field/attribute block_device_mapping_v2: 'tag' was unexpected at this version"
            )
        found.append(_device(device))
    return found


def _device(device: wire.Device) -> Device:
    ids = {
        "volume": _given(device.volume_id),
        "snapshot": _given(device.snapshot_id),
        "image": _given(device.image_id),
    }
    source = _given(device.source_type) or next((kind for kind, id in ids.items() if id), None)
    if source is None:
        raise Invalid("Block Device Mapping is Invalid: Some required fields are missing: source_type")
    return Device(
        source_type=source,
        # A volume and a snapshot can only be volumes.
        destination_type=_given(device.destination_type)
        or ("volume" if source in ("volume", "snapshot") else "local"),
        uuid=_given(device.uuid) or ids.get(source),
        boot_index=device.boot_index,
        size=device.volume_size if isinstance(device.volume_size, int) else None,
        device_name=_given(device.device_name),
        device_type=_given(device.device_type),
        disk_bus=_given(device.disk_bus),
        guest_format=_given(device.guest_format),
        delete_on_termination=boolean(device.delete_on_termination, "delete_on_termination"),
        tag=_given(device.tag),
        volume_type=_given(device.volume_type) or None,
    )


def _old_devices(server: wire.NewServer) -> list[Device]:
    """The form of the time before ``block_device_mapping_v2``: a device is what its ids say."""
    found: list[Device] = []
    for old in server.block_device_mapping:
        if old.no_device:
            continue
        virtual, snapshot, volume = _given(old.virtual_name), _given(old.snapshot_id), _given(old.volume_id)
        size = old.volume_size if isinstance(old.volume_size, int) else None
        ends = boolean(old.delete_on_termination, "delete_on_termination")
        name = _given(old.device_name)
        if virtual and (virtual == "swap" or virtual.startswith("ephemeral")):
            guest_format = "swap" if virtual == "swap" else None
            found.append(Device("blank", "local", size=size, guest_format=guest_format, device_name=name))
        elif snapshot or volume:
            kind = "snapshot" if snapshot else "volume"
            found.append(
                Device(
                    kind, "volume", uuid=snapshot or volume, size=size, device_name=name,
                    delete_on_termination=ends,
                )
            )  # fmt: skip
        else:
            raise Invalid("Block Device Mapping is Invalid: Unrecognized legacy format.")
    return _with_root(found, server.image)


def _with_root(found: list[Device], image: str) -> list[Device]:
    """The image is the root disk; without one the first device that has contents is."""
    from msgspec.structs import replace

    from cumulet.core.servers.devices import root_of

    if image:
        return [root_of(image), *found]
    for i, device in enumerate(found):
        if device.source_type != "blank":
            found[i] = replace(device, boot_index=0)
            break
    return found


#: Rules that no route has.
RULES = {
    **server_body.RULES,
    f"{_RULE}:create:attach_volume": MEMBER,
    f"{_RULE}:create:attach_network": MEMBER,
    f"{_RULE}:create:trusted_certs": MEMBER,
    f"{_RULE}:create:forced_host": ADMIN,
    f"{_RULE}:create:zero_disk_flavor": ADMIN,
    f"{_RULE}:index:get_all_tenants": ADMIN,
    f"{_RULE}:detail:get_all_tenants": ADMIN,
    f"{_RULE}:allow_all_filters": ADMIN,
    _DESTINATION: ADMIN,
    permit.EXTERNAL: ADMIN,
}

_ONE = "/v2.1/servers/{server_id}"

ROUTES = (
    Route("GET", "/v2.1/servers", index, f"{_RULE}:index", READER),
    Route("POST", "/v2.1/servers", create, f"{_RULE}:create", MEMBER),
    Route("GET", "/v2.1/servers/detail", detail, f"{_RULE}:detail", READER),
    Route("GET", _ONE, show, f"{_RULE}:show", READER),
    Route("PUT", _ONE, update, f"{_RULE}:update", MEMBER),
    Route("DELETE", _ONE, delete, f"{_RULE}:delete", MEMBER),
)
