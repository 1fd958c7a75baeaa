"""Availability zones. See the compute API reference, "Availability zones"."""

from __future__ import annotations

from typing import Any

from cumulet.api.asgi import Route
from cumulet.api.compute.services import COMPUTE, CONTROL, CONTROL_HOST, INTERNAL_ZONE
from cumulet.api.request import Request, Response, ok
from cumulet.core import aggregates
from cumulet.core.policy import ADMIN, ANYONE
from cumulet.wire import forms


def _zone(name: str, hosts: dict[str, Any] | None, *, available: bool) -> dict[str, Any]:
    return {"zoneName": name, "zoneState": {"available": available}, "hosts": hosts}


async def index(request: Request) -> Response:
    """GET /os-availability-zone: a zone is available while a host in it is enabled"""
    found = await request.cloud.db.read(aggregates.zones)
    zones = [_zone(name, None, available=bool(hosts)) for name, hosts in found.items()]
    return ok({"availabilityZoneInfo": sorted(zones, key=lambda zone: not zone["zoneState"]["available"])})


async def detail(request: Request) -> Response:
    """GET /os-availability-zone/detail: with the hosts, and the zone of the control plane"""
    now = forms.precise(request.cloud.chance.now())
    control = {binary: {"available": True, "active": True, "updated_at": now} for binary, _ in CONTROL}
    zones = [_zone(INTERNAL_ZONE, {CONTROL_HOST: control}, available=True)]
    for name, hosts in (await request.cloud.db.read(aggregates.zones)).items():
        services = {
            host.name: {
                COMPUTE: {
                    "available": host.up,
                    "active": True,
                    "updated_at": forms.precise_or_none(host.seen_at),
                }
            }
            for host in hosts
        }
        zones.append(_zone(name, services or None, available=bool(hosts)))
    return ok({"availabilityZoneInfo": zones})


_RULE = "os_compute_api:os-availability-zone"

ROUTES = (
    Route("GET", "/v2.1/os-availability-zone", index, f"{_RULE}:list", ANYONE),
    Route("GET", "/v2.1/os-availability-zone/detail", detail, f"{_RULE}:detail", ADMIN),
)
