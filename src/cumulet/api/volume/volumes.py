"""Volumes. See the Block Storage API reference, "Volumes (volumes)", and "Volume metadata"."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
from msgspec import UNSET

from cumulet.api.asgi import Route
from cumulet.api.request import Request, Response, accepted, boolean, ok
from cumulet.api.volume import page, permit
from cumulet.core.policy import ADMIN, MEMBER, READER
from cumulet.core.volume_types import MULTIATTACH
from cumulet.core.volumes import change, listing
from cumulet.core.volumes import create as making
from cumulet.core.volumes.create import New
from cumulet.db.engine import Row
from cumulet.errors import Invalid, NotFound
from cumulet.wire import volume_forms
from cumulet.wire import volumes as wire
from cumulet.wire.body import decode, encode
from cumulet.wire.forms import precise, precise_or_none

_SEE_TENANT = "volume_extension:volume_tenant_attribute"
_SEE_HOST = "volume_extension:volume_host_attribute"
_SEE_MIGRATION = "volume_extension:volume_mig_status_attribute"
_SEE_IMAGE = "volume_extension:volume_image_metadata:show"
_FORCE = "volume:force_delete"
_OF_IMAGE = "volume:create_from_image"


def basic(request: Request, row: Row) -> dict[str, Any]:
    """A volume in a list."""
    return encode(
        wire.Basic(row["id"], row["name"], page.links(request, "volumes", row["id"])), request.version
    )


def full(request: Request, row: Row, *, extended: bool = False) -> dict[str, Any]:
    """A volume with all that it says; ``extended``: with what answers to GET add."""
    admin = request.caller.is_admin
    sees_host = admin or "service" in request.caller.roles
    metadata = dict(row["metadata"])
    if "readonly" in row["admin_metadata"]:
        metadata["readonly"] = row["admin_metadata"]["readonly"]
    image = row["image_metadata"]
    body = wire.Full(
        id=row["id"],
        status=row["shown"],
        size=row["size"],
        availability_zone=row["zone"],
        created_at=precise(row["created_at"]),
        updated_at=precise_or_none(row["updated_at"] if row["updated_at"] != row["created_at"] else None),
        name=row["name"],
        description=row["description"],
        volume_type=row["type_name"],
        volume_type_id=row["volume_type_id"],
        snapshot_id=row["source_snapshot_id"],
        source_volid=row["source_volume_id"],
        metadata=metadata,
        links=page.links(request, "volumes", row["id"]),
        user_id=row["user_id"],
        bootable=str(row["bootable"]).lower(),
        encrypted=row["encrypted"],
        multiattach=row["multiattach"],
        attachments=[
            _attachment(one, sees_host) for one in row["attachments"] if one["attached_at"] is not None
        ],
        group_id=row["group_id"],
        service_uuid=row["agent"],
        volume_image_metadata=image if extended and image and permit.allows(request, _SEE_IMAGE) else UNSET,
        migration_status=row["migration_status"] if admin else UNSET,
        provider_id=None if admin else UNSET,
        cluster_name=None if admin else UNSET,
        tenant_id=row["project_id"] if extended and permit.allows(request, _SEE_TENANT) else UNSET,
        host=row["host"] if extended and permit.allows(request, _SEE_HOST) else UNSET,
        migstat=row["migration_status"] if extended and permit.allows(request, _SEE_MIGRATION) else UNSET,
        name_id=None if extended and permit.allows(request, _SEE_MIGRATION) else UNSET,
    )
    return encode(body, request.version)


def _attachment(row: Row, sees_host: bool) -> dict[str, Any]:
    return {
        "id": row["volume_id"],
        "attachment_id": row["id"],
        "volume_id": row["volume_id"],
        "server_id": row["server_id"],
        "host_name": row["host"] if sees_host else None,
        "device": row["device"],
        "attached_at": precise(row["attached_at"]),
    }


# --- lists ---


def _narrowed(request: Request) -> listing.Filters:
    """The filters of a list. Some names are filters only from a version on."""
    drop = {"with_count"} if request.version >= (3, 45) else set()
    if request.version < (3, 31):
        for since, name in (
            ((3, 4), "glance_metadata"),
            ((3, 10), "group_id"),
            ((3, 60), "created_at"),
            ((3, 60), "updated_at"),
            ((3, 65), "consumes_quota"),
        ):
            if request.version < since:
                drop.add(name)
    return page.filters(request, page.parameters(request, "volume", drop=drop))


async def index(request: Request) -> Response:
    """GET /volumes"""
    return await _list(request, detailed=False)


async def detail(request: Request) -> Response:
    """GET /volumes/detail"""
    return await _list(request, detailed=True)


async def _list(request: Request, *, detailed: bool) -> Response:
    query = page.page_of(request, listing.SORTABLE)
    filters = _narrowed(request)
    db = request.cloud.db
    rows = await db.read(listing.listing, request.caller, query, filters)
    shown = [full(request, row, extended=True) if detailed else basic(request, row) for row in rows]
    body = page.with_more({"volumes": shown}, "volumes_links", request, query, [row["id"] for row in rows])
    if request.version >= (3, 45) and request.flag("with_count"):
        body["count"] = await db.read(listing.count, request.caller, filters)
    return ok(body)


async def summary(request: Request) -> Response:
    """GET /volumes/summary, since 3.12"""
    count, size, metadata = await request.cloud.db.read(
        listing.summary, request.caller, everybody=page.everybody(request)
    )
    body: dict[str, Any] = {"total_count": count, "total_size": size}
    if request.version >= (3, 36):
        body["metadata"] = metadata
    return ok({"volume-summary": body})


async def show(request: Request) -> Response:
    """GET /volumes/{volume_id}"""
    row = await request.cloud.db.read(listing.find, request.caller, request.params["volume_id"])
    return ok({"volume": full(request, row, extended=True)})


# --- one volume ---


async def create(request: Request) -> Response:
    """POST /volumes"""
    raw = await request.document()
    if request.version >= (3, 53):
        volume_forms.only_known(raw.get("volume"), wire.NewVolume, "volume")
    asked = decode(raw, wire.Create, request.version).volume
    if asked.multiattach is not None and boolean(asked.multiattach, "multiattach"):
        raise Invalid(
            "The multiattach parameter has been removed: create the volume with a volume type whose extra specs say "
            "multiattach='<is> True'."
        )
    image = asked.image_id or asked.imageRef
    if image:
        permit.require(request, _OF_IMAGE)
    new = New(
        size=asked.size,
        name=volume_forms.clean(asked.name if asked.name is not None else asked.display_name),
        description=volume_forms.clean(
            asked.description if asked.description is not None else asked.display_description
        ),
        volume_type=asked.volume_type,
        metadata=asked.metadata or {},
        zone=asked.availability_zone,
        image=image,
        snapshot_id=asked.snapshot_id,
        source_volume_id=asked.source_volid,
        backup_id=asked.backup_id if request.version >= (3, 47) else None,
        may_multiattach=permit.allows(request, MULTIATTACH),
        of_snapshots=request.version >= (3, 46),
        group_id=(asked.group_id if request.version >= (3, 13) else None) or asked.consistencygroup_id,
    )
    row = await request.cloud.db.write(making.create, request.caller, new)
    return accepted({"volume": full(request, row)})


async def update(request: Request) -> Response:
    """PUT /volumes/{volume_id}"""
    asked = (await request.struct(wire.Update)).volume
    changes: dict[str, Any] = {}
    for column in ("name", "description"):
        for name in (f"display_{column}", column):
            value = getattr(asked, name)
            if value is not UNSET:
                changes[column] = volume_forms.clean(value)
    if asked.metadata is not UNSET:
        changes["metadata"] = asked.metadata
    if not changes and request.version >= (3, 53):
        raise Invalid(
            "Invalid input for field/attribute volume: name, description or metadata must be given."
        )
    row = await request.cloud.db.write(change.update, request.caller, request.params["volume_id"], changes)
    return ok({"volume": full(request, row)})


async def delete(request: Request) -> Response:
    """DELETE /volumes/{volume_id}"""
    cascade = request.flag("cascade")
    force = request.version >= (3, 23) and request.flag("force")
    if force:
        await request.cloud.db.read(listing.find, request.caller, request.params["volume_id"])
        permit.require(request, _FORCE)
    await request.cloud.db.write(
        change.delete, request.caller, request.params["volume_id"], cascade=cascade, force=force
    )
    return accepted()


# --- metadata ---


async def list_metadata(request: Request) -> Response:
    """GET /volumes/{volume_id}/metadata"""
    body = {"metadata": await _metadata(request)}
    if request.version < (3, 15):
        return ok(body)
    return Response(200, body, [("ETag", f'"{_tag(body)}"')])


async def _metadata(request: Request) -> dict[str, str]:
    row = await request.cloud.db.read(listing.find, request.caller, request.params["volume_id"])
    return dict(row["metadata"])


def _tag(body: Any) -> str:
    return hashlib.md5(msgspec.json.encode(body, order="sorted"), usedforsecurity=False).hexdigest()


async def _unchanged(request: Request) -> bool:
    """False if the request is for metadata that has changed since it was read (since 3.15)."""
    tags = request.headers.get("if-match", "")
    if request.version < (3, 15) or tags.strip() in ("", "*"):
        return True
    wanted = {tag.strip().removeprefix("W/").strip('"') for tag in tags.split(",")}
    return _tag({"metadata": await _metadata(request)}) in wanted


async def create_metadata(request: Request) -> Response:
    """POST /volumes/{volume_id}/metadata"""
    return await _set_metadata(request, replace=False)


async def replace_metadata(request: Request) -> Response:
    """PUT /volumes/{volume_id}/metadata"""
    if not await _unchanged(request):
        return Response(412)
    return await _set_metadata(request, replace=True)


async def _set_metadata(request: Request, *, replace: bool) -> Response:
    asked = await request.struct(wire.Metadata)
    found = await request.cloud.db.write(
        change.set_metadata, request.caller, request.params["volume_id"], asked.metadata, replace=replace
    )
    return ok({"metadata": found})


async def show_metadata(request: Request) -> Response:
    """GET /volumes/{volume_id}/metadata/{key}"""
    found, key = await _metadata(request), request.params["key"]
    if key not in found:
        raise NotFound(f"Volume {request.params['volume_id']} has no metadata with key {key}.")
    return ok({"meta": {key: found[key]}})


async def update_metadata(request: Request) -> Response:
    """PUT /volumes/{volume_id}/metadata/{key}"""
    if not await _unchanged(request):
        return Response(412)
    asked = await request.struct(wire.Meta)
    if request.params["key"] not in asked.meta:
        raise Invalid("Request body and URI mismatch: the body must hold the pair that the path names.")
    await request.cloud.db.write(change.set_metadata, request.caller, request.params["volume_id"], asked.meta)
    return ok({"meta": asked.meta})


async def delete_metadata(request: Request) -> Response:
    """DELETE /volumes/{volume_id}/metadata/{key}"""
    await request.cloud.db.write(
        change.delete_metadata, request.caller, request.params["volume_id"], request.params["key"]
    )
    return Response(200)


async def encryption(request: Request) -> Response:
    """GET /volumes/{volume_id}/encryption"""
    row = await request.cloud.db.read(listing.find, request.caller, request.params["volume_id"])
    return ok({"encryption_key_id": None} if not row["encrypted"] else {})


_ONE = "/v3/volumes/{volume_id}"
_META = f"{_ONE}/metadata"

#: Checks of rules that no route has: what of a volume is shown to whom.
RULES = {
    _SEE_TENANT: READER,
    _SEE_HOST: ADMIN,
    _SEE_MIGRATION: ADMIN,
    _SEE_IMAGE: READER,
    _FORCE: ADMIN,
    _OF_IMAGE: MEMBER,
    MULTIATTACH: MEMBER,
}

ROUTES = (
    Route("GET", "/v3/volumes", index, "volume:get_all", READER),
    Route("POST", "/v3/volumes", create, "volume:create", MEMBER),
    Route("GET", "/v3/volumes/detail", detail, "volume:get_all", READER),
    Route("GET", "/v3/volumes/summary", summary, "volume:get_all", READER, since=(3, 12)),
    Route("GET", _ONE, show, "volume:get", READER),
    Route("PUT", _ONE, update, "volume:update", MEMBER),
    Route("DELETE", _ONE, delete, "volume:delete", MEMBER),
    Route("GET", _META, list_metadata, "volume:get_volume_metadata", READER),
    Route("POST", _META, create_metadata, "volume:create_volume_metadata", MEMBER),
    Route("PUT", _META, replace_metadata, "volume:update_volume_metadata", MEMBER),
    Route("GET", f"{_META}/{{key}}", show_metadata, "volume:get_volume_metadata", READER),
    Route("PUT", f"{_META}/{{key}}", update_metadata, "volume:update_volume_metadata", MEMBER),
    Route("DELETE", f"{_META}/{{key}}", delete_metadata, "volume:delete_volume_metadata", MEMBER),
    Route("GET", f"{_ONE}/encryption", encryption, "volume_extension:volume_encryption_metadata", READER),
)
