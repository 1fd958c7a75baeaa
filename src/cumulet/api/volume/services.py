"""Services, hosts, pools and capabilities of back ends, availability zones, and what this API can do.

See the Block Storage API reference, "Services (os-services)", "Hosts extension (os-hosts)", "Back-end storage
pools", "Capabilities for storage back ends", "Availability zones", "API extensions", "Resource Filters".
"""

from __future__ import annotations

from typing import Any

from cumulet.api.asgi import Handler, Route
from cumulet.api.request import Request, Response, ok
from cumulet.api.volume import page
from cumulet.core import volume_services
from cumulet.core.policy import ADMIN, ANYONE
from cumulet.core.volume_services import Service
from cumulet.core.volumes import backends
from cumulet.errors import Invalid, NotFound
from cumulet.wire import volume_services as wire
from cumulet.wire.forms import precise

# --- services ---


def _service(request: Request, one: Service) -> dict[str, Any]:
    body: dict[str, Any] = {
        "binary": one.binary,
        "host": one.host,
        "zone": one.zone,
        "status": "disabled" if one.disabled else "enabled",
        "state": "up" if one.up else "down",
        "updated_at": precise(one.updated_at),
        "disabled_reason": one.disabled_reason,
    }
    if request.version >= (3, 7):
        body["cluster"] = None
    if one.backend is not None:
        body["replication_status"] = "disabled"
        body["active_backend_id"] = None
        body["frozen"] = one.frozen
        if request.version >= (3, 49):
            body["backend_state"] = "up" if one.up else "down"
    return body


async def list_services(request: Request) -> Response:
    """GET /os-services"""
    found = await request.cloud.db.read(
        volume_services.services, host=request.arg("host"), binary=request.arg("binary")
    )
    return ok({"services": [_service(request, one) for one in found]})


def _switch(*, disabled: bool, with_reason: bool) -> Handler:
    async def handler(request: Request) -> Response:
        asked = await request.struct(wire.Switch)
        if with_reason and not asked.disabled_reason:
            raise Invalid("Invalid input for field/attribute disabled_reason: it must be given.")
        if not with_reason and asked.disabled_reason is not None:
            raise Invalid(
                "Invalid input for field/attribute disabled_reason: Additional properties are not allowed."
            )
        one = await request.cloud.db.write(
            volume_services.switch,
            asked.host,
            asked.binary or asked.service or "",
            disabled=disabled,
            reason=asked.disabled_reason,
        )
        body: dict[str, Any] = {
            "host": one.host,
            "service": one.binary,
            "binary": one.binary,
            "disabled": one.disabled,
            "status": "disabled" if one.disabled else "enabled",
        }
        if with_reason or not disabled:
            body["disabled_reason"] = one.disabled_reason
        return ok(body)

    return handler


def _freeze(*, frozen: bool) -> Handler:
    async def handler(request: Request) -> Response:
        asked = await request.struct(wire.Host)
        await request.cloud.db.write(volume_services.freeze, asked.host, frozen=frozen)
        return Response(200)

    return handler


# --- hosts ---


async def list_hosts(request: Request) -> Response:
    """GET /os-hosts"""
    found = await request.cloud.db.read(volume_services.services)
    zone = request.arg("zone")
    hosts = [
        {
            "host_name": one.host,
            "service": one.binary,
            "zone": one.zone,
            "service-status": "available" if one.up else "unavailable",
            "service-state": "enabled",
            "last-update": precise(one.updated_at),
        }
        for one in found
        if not one.disabled and zone in (None, "", one.zone)
    ]
    return ok({"hosts": hosts})


async def show_host(request: Request) -> Response:
    """GET /os-hosts/{host}"""
    backend, projects = await request.cloud.db.read(volume_services.usage_of, request.params["host"])
    total = volume_services.Usage(
        "(total)",
        sum(one.volumes for one in projects),
        sum(one.volume_gb for one in projects),
        sum(one.snapshots for one in projects),
        sum(one.snapshot_gb for one in projects),
    )
    rows = [
        {
            "resource": {
                "host": backend.host,
                "project": one.project,
                "volume_count": str(one.volumes),
                "total_volume_gb": str(one.volume_gb),
                "snapshot_count": str(one.snapshots),
                "total_snapshot_gb": str(one.snapshot_gb),
            }
        }
        for one in (total, *projects)
    ]
    return ok({"host": rows})


# --- pools and capabilities ---


async def list_pools(request: Request) -> Response:
    """GET /scheduler-stats/get_pools"""
    found = await request.cloud.db.read(backends.listing)
    if request.version >= (3, 28) and request.arg("name") is not None:
        found = [backend for backend in found if backend.pool == request.arg("name")]
    pools: list[dict[str, Any]] = []
    for backend in found:
        pool: dict[str, Any] = {"name": backend.pool}
        if request.flag("detail"):
            seen = precise(backend.seen_at or backend.updated_at)
            pool["capabilities"] = {**backends.capabilities(backend), "updated": seen, "timestamp": seen}
        pools.append(pool)
    return ok({"pools": pools})


async def show_capabilities(request: Request) -> Response:
    """GET /capabilities/{host}"""
    backend = await request.cloud.db.read(volume_services.backend_of, request.params["host"])
    told = backends.capabilities(backend)
    return ok(
        {
            "namespace": f"OS::Storage::Capabilities::{backend.host}",
            "vendor_name": told["vendor_name"],
            "volume_backend_name": told["volume_backend_name"],
            "pool_name": backend.backend,
            "driver_version": told["driver_version"],
            "storage_protocol": told["storage_protocol"],
            "display_name": backend.backend,
            "description": None,
            "visibility": "public",
            "replication_targets": [],
            "properties": {
                "thin_provisioning": {
                    "title": "Thin Provisioning",
                    "description": "Volumes take the room of what was written to them.",
                    "type": "boolean",
                },
            },
        }
    )


# --- what there is ---


async def zones(request: Request) -> Response:
    """GET /os-availability-zone"""
    names = await request.cloud.db.read(backends.zones)
    return ok(
        {"availabilityZoneInfo": [{"zoneName": name, "zoneState": {"available": True}} for name in names]}
    )


async def resource_filters(request: Request) -> Response:
    """GET /resource_filters, since 3.33"""
    wanted = request.arg("resource")
    found = {name: filters for name, filters in page.RESOURCE_FILTERS.items() if wanted in (None, name)}
    return ok({"resource_filters": [{"resource": name, "filters": list(f)} for name, f in found.items()]})


#: Parts of the API that upstream calls extensions, and that are served here: alias → name, what it is about.
EXTENSIONS = {
    "OS-SCH-HNT": ("SchedulerHints", "Hints to the scheduler in requests for volumes."),
    "backups": ("Backups", "Backups of volumes."),
    "capabilities": ("Capabilities", "What back ends can do."),
    "encryption": ("VolumeTypeEncryption", "Encryption of a type's volumes."),
    "os-admin-actions": ("AdminActions", "Actions for administrators."),
    "os-availability-zone": ("AvailabilityZones", "The availability zones."),
    "os-extended-snapshot-attributes": ("ExtendedSnapshotAttributes", "Project and progress of snapshots."),
    "os-hosts": ("Hosts", "What projects have on each back end."),
    "os-quota-class-sets": ("QuotaClasses", "Quotas of classes."),
    "os-quota-sets": ("Quotas", "Quotas of projects."),
    "os-services": ("Services", "The services."),
    "os-snapshot-manage": ("SnapshotManage", "Snapshots that are at a back end already."),
    "os-snapshot-actions": ("SnapshotActions", "Actions of snapshots."),
    "os-types-extra-specs": ("TypesExtraSpecs", "What types ask of back ends."),
    "os-types-manage": ("TypesManage", "Making and removing types."),
    "os-used-limits": ("UsedLimits", "What is used of the limits."),
    "os-vol-host-attr": ("VolumeHostAttribute", "The back end of a volume."),
    "os-vol-image-meta": ("VolumeImageMetadata", "What a volume remembers of its image."),
    "os-vol-mig-status-attr": ("VolumeMigStatusAttribute", "Whether a volume migrates."),
    "os-vol-tenant-attr": ("VolumeTenantAttribute", "The project of a volume."),
    "os-volume-actions": ("VolumeActions", "Actions of volumes."),
    "os-volume-encryption-metadata": ("VolumeEncryptionMetadata", "How a volume is encrypted."),
    "os-volume-manage": ("VolumeManage", "Volumes that are at a back end already."),
    "os-volume-transfer": ("VolumeTransfer", "Volumes on offer to other projects."),
    "os-volume-type-access": ("VolumeTypeAccess", "Which projects may use a type."),
    "qos-specs": ("Qos_specs_manage", "Quality of service of volumes."),
    "scheduler-stats": ("Scheduler_stats", "Pools of the back ends."),
}


async def extensions(request: Request) -> Response:
    """GET /extensions"""
    return ok({"extensions": [_extension(alias) for alias in EXTENSIONS]})


async def show_extension(request: Request) -> Response:
    """GET /extensions/{alias}"""
    alias = request.params["alias"]
    if alias not in EXTENSIONS:
        raise NotFound(f"There is no extension {alias[:255]}.")
    return ok({"extension": _extension(alias)})


def _extension(alias: str) -> dict[str, Any]:
    name, description = EXTENSIONS[alias]
    return {
        "alias": alias,
        "name": name,
        "description": description,
        "updated": "2026-01-01T00:00:00+00:00",
        "links": [],
    }


_SERVICES = "/v3/os-services"
_UPDATE = "volume_extension:services:update"
_HOSTS = "volume_extension:hosts"

ROUTES = (
    Route("GET", _SERVICES, list_services, "volume_extension:services:index", ADMIN),
    Route("PUT", f"{_SERVICES}/enable", _switch(disabled=False, with_reason=False), _UPDATE, ADMIN),
    Route("PUT", f"{_SERVICES}/disable", _switch(disabled=True, with_reason=False), _UPDATE, ADMIN),
    Route("PUT", f"{_SERVICES}/disable-log-reason", _switch(disabled=True, with_reason=True), _UPDATE, ADMIN),
    Route("PUT", f"{_SERVICES}/freeze", _freeze(frozen=True), "volume:freeze_host", ADMIN),
    Route("PUT", f"{_SERVICES}/thaw", _freeze(frozen=False), "volume:thaw_host", ADMIN),
    Route("GET", "/v3/os-hosts", list_hosts, _HOSTS, ADMIN),
    Route("GET", "/v3/os-hosts/{host}", show_host, _HOSTS, ADMIN),
    Route(
        "GET",
        "/v3/scheduler-stats/get_pools",
        list_pools,
        "scheduler_extension:scheduler_stats:get_pools",
        ADMIN,
    ),
    Route("GET", "/v3/capabilities/{host}", show_capabilities, "volume_extension:capabilities", ADMIN),
    # These have no rule upstream: whoever has a token may.
    Route("GET", "/v3/os-availability-zone", zones, "volume_extension:availability_zone_list", ANYONE),
    Route("GET", "/v3/resource_filters", resource_filters, "volume:resource_filters", ANYONE, since=(3, 33)),
    Route("GET", "/v3/extensions", extensions, "volume:extensions", ANYONE),
    Route("GET", "/v3/extensions/{alias}", show_extension, "volume:extensions", ANYONE),
)
