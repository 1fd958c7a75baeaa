"""Bytes of a back end in and out of management. See the Block Storage API reference, "Volume manage extension"."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from cumulet.api.asgi import FIRST, Route
from cumulet.api.microversion import Version
from cumulet.api.query import paging
from cumulet.api.request import Request, Response, accepted, boolean, ok
from cumulet.api.volume import page, snapshots, volumes
from cumulet.core import unmanaged
from cumulet.core.policy import ADMIN
from cumulet.db.query import Query
from cumulet.errors import Invalid
from cumulet.wire import unmanaged as wire
from cumulet.wire import volume_forms

Handler = Callable[[Request], Awaitable[Response]]


async def manage_volume(request: Request) -> Response:
    """POST /manageable_volumes"""
    asked = (await request.struct(wire.Volume)).volume
    host = _one_of(asked.host, asked.cluster)
    new = unmanaged.New(
        ref=asked.ref,
        name=volume_forms.clean(asked.name),
        description=volume_forms.clean(asked.description),
        metadata=asked.metadata or {},
        volume_type=asked.volume_type or None,
        zone=asked.availability_zone or None,
        bootable=boolean(asked.bootable, "bootable"),
    )
    row = await request.cloud.db.write(unmanaged.manage_volume, request.caller, host, new)
    return accepted({"volume": volumes.full(request, row)})


def _one_of(host: str | None, cluster: str | None) -> str:
    """The back end. No back end is in a cluster, so a cluster's name is the name of none."""
    if (host is None) == (cluster is None):
        raise Invalid("Exactly one of host and cluster must be given.")
    return str(host if host is not None else cluster)


async def manage_snapshot(request: Request) -> Response:
    """POST /manageable_snapshots"""
    asked = (await request.struct(wire.Snapshot)).snapshot
    new = unmanaged.New(
        ref=asked.ref,
        name=volume_forms.clean(asked.name),
        description=volume_forms.clean(asked.description),
        metadata=asked.metadata or {},
    )
    row = await request.cloud.db.write(unmanaged.manage_snapshot, request.caller, asked.volume_id, new)
    return accepted({"snapshot": snapshots.shown(request, row)})


async def unmanage_volume(request: Request) -> Response:
    """POST /volumes/{volume_id}/action {"os-unmanage": {}}"""
    await request.cloud.db.write(unmanaged.unmanage_volume, request.caller, request.params["volume_id"])
    return accepted()


async def unmanage_snapshot(request: Request) -> Response:
    """POST /snapshots/{snapshot_id}/action {"os-unmanage": {}}"""
    await request.cloud.db.write(unmanaged.unmanage_snapshot, request.caller, request.params["snapshot_id"])
    return accepted()


# --- lists ---


def _lister(kind: str, *, detailed: bool) -> Handler:
    async def handler(request: Request) -> Response:
        host = _one_of(request.arg("host"), request.arg("cluster") if request.version >= (3, 17) else None)
        query = paging(request, unmanaged.SORTABLE, maximum=page.PAGE)
        found = await request.cloud.db.read(unmanaged.manageable, kind, host)
        shown = [_shown(kind, one, detailed=detailed) for one in _page(found, query)]
        return ok({f"manageable-{kind}s": shown})

    return handler


def _page(found: list[unmanaged.Manageable], query: Query) -> list[unmanaged.Manageable]:
    for name, direction in reversed(query.sort or (("reference", "desc"),)):
        found.sort(key=lambda one: getattr(one, name), reverse=direction == "desc")
    start = query.offset or 0
    if query.marker is not None:
        places = [i for i, one in enumerate(found) if one.reference == query.marker]
        if not places:
            raise Invalid(f"Marker {query.marker[:255]!r} is no reference.")
        start += places[0] + 1
    return found[start:][: query.limit]


def _shown(kind: str, one: unmanaged.Manageable, *, detailed: bool) -> dict[str, Any]:
    body: dict[str, Any] = {
        "reference": {"source-name": one.reference},
        "size": one.size,
        "safe_to_manage": one.id is None,
    }
    if kind == "snapshot":
        body["source_reference"] = {"source-name": one.source}
    if detailed:
        body["reason_not_safe"] = None if one.id is None else "already managed"
        body["cinder_id"] = one.id
        body["extra_info"] = None
    return body


def _listed(root: str, kind: str, rule: str, since: Version = FIRST) -> tuple[Route, ...]:
    return (
        Route("GET", root, _lister(kind, detailed=False), f"{rule}:list_manageable", ADMIN, since),
        Route("GET", f"{root}/detail", _lister(kind, detailed=True), f"{rule}:list_manageable", ADMIN, since),
    )


_VOLUME, _SNAPSHOT = "volume_extension", "snapshot_extension"
_NEW = (3, 8)

ROUTES = (
    Route("POST", "/v3/os-volume-manage", manage_volume, f"{_VOLUME}:volume_manage", ADMIN),
    Route("POST", "/v3/manageable_volumes", manage_volume, f"{_VOLUME}:volume_manage", ADMIN, since=_NEW),
    *_listed("/v3/os-volume-manage", "volume", _VOLUME),
    *_listed("/v3/manageable_volumes", "volume", _VOLUME, _NEW),
    Route("POST", "/v3/os-snapshot-manage", manage_snapshot, f"{_SNAPSHOT}:snapshot_manage", ADMIN),
    Route("POST", "/v3/manageable_snapshots", manage_snapshot, f"{_SNAPSHOT}:snapshot_manage", ADMIN, since=_NEW),
    *_listed("/v3/os-snapshot-manage", "snapshot", _SNAPSHOT),
    *_listed("/v3/manageable_snapshots", "snapshot", _SNAPSHOT, _NEW),
    Route("POST", "/v3/volumes/{volume_id}/action", unmanage_volume, f"{_VOLUME}:volume_unmanage", ADMIN, action="os-unmanage"),
    Route("POST", "/v3/snapshots/{snapshot_id}/action", unmanage_snapshot, f"{_SNAPSHOT}:snapshot_unmanage", ADMIN, action="os-unmanage"),
)  # fmt: skip
