"""Volumes and their snapshots, as compute showed them until 2.35.

See the compute API reference, "Volume extension (os-volumes, os-snapshots) (DEPRECATED)".
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from cumulet.api.asgi import Route
from cumulet.api.compute.links import PAGE
from cumulet.api.query import whole
from cumulet.api.request import Request, Response, accepted, boolean, ok
from cumulet.core import snapshots
from cumulet.core.policy import MEMBER, READER
from cumulet.core.volumes import change, listing
from cumulet.core.volumes import create as making
from cumulet.core.volumes.create import New
from cumulet.db.engine import Row
from cumulet.db.query import Query
from cumulet.wire import forms, volume_forms
from cumulet.wire.volume_forms import Truth


class NewVolume(Struct, forbid_unknown_fields=True):
    size: int | str
    volume_type: str | None = None
    metadata: dict[str, str] | None = None
    snapshot_id: str | None = None
    availability_zone: str | None = None
    display_name: str | None = None
    display_description: str | None = None

    def __post_init__(self) -> None:
        text = str(self.size)
        if not (text.isascii() and text.isdigit() and 1 <= int(text[:12]) <= forms.MAX_INT):
            raise ValueError(f"size {text[:50]!r} is not a whole number of GiB above 0")
        for name in ("volume_type", "availability_zone", "display_name", "display_description"):
            volume_forms.short(getattr(self, name), name)
        volume_forms.pairs(self.metadata, "metadata")


class CreateVolume(Struct, forbid_unknown_fields=True):
    volume: NewVolume


class NewSnapshot(Struct, forbid_unknown_fields=True):
    volume_id: str
    force: Truth | None = None
    display_name: str | None = None
    display_description: str | None = None

    def __post_init__(self) -> None:
        for name in ("display_name", "display_description"):
            volume_forms.short(getattr(self, name), name)


class CreateSnapshot(Struct, forbid_unknown_fields=True):
    snapshot: NewSnapshot


def _page(request: Request) -> Query:
    return Query(
        limit=min(whole(request, "limit") or PAGE, PAGE),
        offset=whole(request, "offset") or 0,
        sort=(("created_at", "desc"),),
    )


# --- volumes ---


def _volume(row: Row) -> dict[str, Any]:
    return {
        "id": row["id"],
        "status": row["shown"],
        "size": row["size"],
        "availabilityZone": row["zone"],
        "createdAt": forms.precise(row["created_at"]),
        "displayName": row["name"],
        "displayDescription": row["description"],
        "volumeType": row["type_name"],
        "snapshotId": row["source_snapshot_id"],
        "metadata": row["metadata"],
        "attachments": [_attachment(row)],
    }


def _attachment(row: Row) -> dict[str, str]:
    """What has the volume; nothing if nothing has."""
    for one in row["attachments"]:
        if one["attached_at"] is not None and one["server_id"] is not None:
            device = {"device": one["device"]} if one["device"] else {}
            return {"id": row["id"], "volumeId": row["id"], "serverId": one["server_id"], **device}
    return {}


async def list_volumes(request: Request) -> Response:
    """GET /os-volumes, /os-volumes/detail: both show all there is to show"""
    rows = await request.cloud.db.read(listing.listing, request.caller, _page(request))
    return ok({"volumes": [_volume(row) for row in rows]})


async def show_volume(request: Request) -> Response:
    """GET /os-volumes/{id}"""
    row = await request.cloud.db.read(listing.find, request.caller, request.params["id"])
    return ok({"volume": _volume(row)})


async def create_volume(request: Request) -> Response:
    """POST /os-volumes"""
    asked = (await request.struct(CreateVolume)).volume
    new = New(
        size=int(asked.size),
        name=volume_forms.clean(asked.display_name),
        description=volume_forms.clean(asked.display_description),
        volume_type=asked.volume_type,
        metadata=asked.metadata or {},
        zone=asked.availability_zone,
        snapshot_id=asked.snapshot_id,
    )
    row = await request.cloud.db.write(making.create, request.caller, new)
    answer = ok({"volume": _volume(row)})
    answer.headers.append(("Location", request.url(f"/compute/v2.1/os-volumes/{row['id']}")))
    return answer


async def delete_volume(request: Request) -> Response:
    """DELETE /os-volumes/{id}"""
    await request.cloud.db.write(change.delete, request.caller, request.params["id"])
    return accepted()


# --- snapshots ---


def _snapshot(row: Row) -> dict[str, Any]:
    return {
        "id": row["id"],
        "volumeId": row["volume_id"],
        "status": row["status"],
        "size": row["size"],
        "createdAt": forms.precise(row["created_at"]),
        "displayName": row["name"],
        "displayDescription": row["description"],
    }


async def list_snapshots(request: Request) -> Response:
    """GET /os-snapshots, /os-snapshots/detail: both show all there is to show"""
    rows = await request.cloud.db.read(
        snapshots.snapshots, request.caller, _page(request), listing.NO_FILTERS
    )
    return ok({"snapshots": [_snapshot(row) for row in rows]})


async def show_snapshot(request: Request) -> Response:
    """GET /os-snapshots/{id}"""
    row = await request.cloud.db.read(snapshots.find, request.caller, request.params["id"])
    return ok({"snapshot": _snapshot(row)})


async def create_snapshot(request: Request) -> Response:
    """POST /os-snapshots; of a volume in use with force"""
    asked = (await request.struct(CreateSnapshot)).snapshot
    row = await request.cloud.db.write(
        snapshots.create,
        request.caller,
        asked.volume_id,
        name=volume_forms.clean(asked.display_name),
        description=volume_forms.clean(asked.display_description),
        metadata={},
        in_use=asked.force is not None and boolean(asked.force, "force"),
    )
    return ok({"snapshot": _snapshot(row)})


async def delete_snapshot(request: Request) -> Response:
    """DELETE /os-snapshots/{id}"""
    await request.cloud.db.write(snapshots.delete, request.caller, request.params["id"])
    return accepted()


_RULE = "os_compute_api:os-volumes"
_VOLUMES, _SNAPSHOTS, _LAST = "/v2.1/os-volumes", "/v2.1/os-snapshots", (2, 35)

ROUTES = (
    Route("GET", _VOLUMES, list_volumes, f"{_RULE}:list", READER, until=_LAST),
    Route("POST", _VOLUMES, create_volume, f"{_RULE}:create", MEMBER, until=_LAST),
    Route("GET", f"{_VOLUMES}/detail", list_volumes, f"{_RULE}:detail", READER, until=_LAST),
    Route("GET", f"{_VOLUMES}/{{id}}", show_volume, f"{_RULE}:show", READER, until=_LAST),
    Route("DELETE", f"{_VOLUMES}/{{id}}", delete_volume, f"{_RULE}:delete", MEMBER, until=_LAST),
    Route("GET", _SNAPSHOTS, list_snapshots, f"{_RULE}:snapshots:list", READER, until=_LAST),
    Route("POST", _SNAPSHOTS, create_snapshot, f"{_RULE}:snapshots:create", MEMBER, until=_LAST),
    Route("GET", f"{_SNAPSHOTS}/detail", list_snapshots, f"{_RULE}:snapshots:detail", READER, until=_LAST),
    Route("GET", f"{_SNAPSHOTS}/{{id}}", show_snapshot, f"{_RULE}:snapshots:show", READER, until=_LAST),
    Route(
        "DELETE", f"{_SNAPSHOTS}/{{id}}", delete_snapshot, f"{_RULE}:snapshots:delete", MEMBER, until=_LAST
    ),
)
