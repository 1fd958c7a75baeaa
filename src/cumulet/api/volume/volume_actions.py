"""Actions of volumes. See the Block Storage API reference, "Volume actions (volumes, action)"."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cumulet.api.asgi import Handler, Route
from cumulet.api.request import Request, Response, accepted, boolean, ok
from cumulet.api.volume import permit
from cumulet.api.volume.exports import ended, exported
from cumulet.core.policy import ADMIN, MEMBER, READER
from cumulet.core.volume_types import MULTIATTACH
from cumulet.core.volumes import change, clients, content, listing
from cumulet.db.engine import Row
from cumulet.errors import Forbidden, Invalid
from cumulet.wire import volumes as wire
from cumulet.wire.forms import precise

_UPLOAD_PUBLIC = "volume_extension:volume_actions:upload_public"
_EXTEND_ATTACHED = "volume:extend_attached_volume"


def _id(request: Request) -> str:
    return request.params["volume_id"]


def _plain(function: Callable[..., Any]) -> Handler:
    """An action without arguments."""

    async def handler(request: Request) -> Response:
        await request.cloud.db.write(function, request.caller, _id(request))
        return accepted()

    handler.__doc__ = function.__doc__
    return handler


# --- attaching, by the actions of the time before the attachments API ---


async def attach(request: Request) -> Response:
    """POST /volumes/{volume_id}/action {"os-attach": …}"""
    asked = request.action_as(wire.Attach)
    await request.cloud.db.write(
        clients.attach,
        request.caller,
        _id(request),
        server_id=asked.instance_uuid,
        host=asked.host_name,
        mountpoint=asked.mountpoint,
        mode=asked.mode,
    )
    return accepted()


async def detach(request: Request) -> Response:
    """POST /volumes/{volume_id}/action {"os-detach": …}"""
    asked = request.action_as(wire.Detach) if request.action is not None else wire.Detach()
    await request.cloud.db.write(clients.detach, request.caller, _id(request), asked.attachment_id)
    return accepted()


async def initialize_connection(request: Request) -> Response:
    """POST /volumes/{volume_id}/action {"os-initialize_connection": …}"""
    asked = request.action_as(wire.Connector)
    if not isinstance(asked.connector, dict):
        raise Invalid("Invalid input for field/attribute connector: an object was expected.")
    attachment = await request.cloud.db.write(
        clients.initialize_connection, request.caller, _id(request), asked.connector
    )
    found = await exported(request, _id(request), attachment)
    info = dict(found["connection_info"])
    return ok(
        {
            "connection_info": {
                "driver_volume_type": info.pop("driver", None),
                "data": {
                    **info,
                    "volume_id": _id(request),
                    "access_mode": found["mode"],
                    "encrypted": False,
                    "qos_specs": found["qos"],
                },
                "enforce_multipath": bool(asked.connector.get("enforce_multipath", False)),
            }
        }
    )


async def terminate_connection(request: Request) -> Response:
    """POST /volumes/{volume_id}/action {"os-terminate_connection": …}"""
    asked = request.action_as(wire.Connector)
    connector = asked.connector if isinstance(asked.connector, dict) else None
    gone = await request.cloud.db.write(clients.terminate_connection, request.caller, _id(request), connector)
    await ended(request, _id(request), gone)
    return accepted()


async def force_detach(request: Request) -> Response:
    """POST /volumes/{volume_id}/action {"os-force_detach": …}"""
    asked = request.action_as(wire.ForceDetach)
    await request.cloud.db.write(clients.force_detach, request.caller, _id(request), asked.attachment_id)
    return accepted()


# --- changes ---


async def extend(request: Request) -> Response:
    """POST /volumes/{volume_id}/action {"os-extend": …}; one that is in use since 3.42"""
    asked = request.action_as(wire.Extend)
    attached = request.version >= (3, 42)
    if attached:
        row = await request.cloud.db.read(listing.find, request.caller, _id(request))
        if row["shown"] == "in-use":
            permit.require(request, _EXTEND_ATTACHED)
    await request.cloud.db.write(
        change.extend, request.caller, _id(request), asked.new_size, attached=attached
    )
    return accepted()


async def retype(request: Request) -> Response:
    """POST /volumes/{volume_id}/action {"os-retype": …}"""
    asked = request.action_as(wire.Retype)
    await request.cloud.db.write(
        change.retype,
        request.caller,
        _id(request),
        asked.new_type,
        migrate=asked.migration_policy == "on-demand",
        may_multiattach=permit.allows(request, MULTIATTACH),
    )
    return accepted()


async def set_bootable(request: Request) -> Response:
    """POST /volumes/{volume_id}/action {"os-set_bootable": …}"""
    asked = request.action_as(wire.Bootable)
    await request.cloud.db.write(
        change.set_bootable, request.caller, _id(request), boolean(asked.bootable, "bootable")
    )
    return Response(200)


async def set_readonly(request: Request) -> Response:
    """POST /volumes/{volume_id}/action {"os-update_readonly_flag": …}"""
    asked = request.action_as(wire.ReadOnly)
    await request.cloud.db.write(
        change.set_readonly, request.caller, _id(request), boolean(asked.readonly, "readonly")
    )
    return accepted()


# --- what is in it ---


async def upload(request: Request) -> Response:
    """POST /volumes/{volume_id}/action {"os-volume_upload_image": …}"""
    asked = request.action_as(wire.Upload)
    visibility = asked.visibility if request.version >= (3, 1) else None
    if visibility == "public":
        permit.require(request, _UPLOAD_PUBLIC)
    volume, image = await request.cloud.db.write(
        content.upload,
        request.caller,
        _id(request),
        name=asked.image_name,
        disk_format=asked.disk_format,
        container_format=asked.container_format or "bare",
        visibility=visibility or "shared",
        protected=boolean(asked.protected, "protected"),
        force=boolean(asked.force, "force"),
    )
    return accepted({"os-volume_upload_image": _uploading(request, volume, image)})


def _uploading(request: Request, volume: Row, image: Row) -> dict[str, Any]:
    body = {
        "id": volume["id"],
        "updated_at": precise(volume["updated_at"]),
        "status": volume["shown"],
        "display_description": volume["description"],
        "size": volume["size"],
        "volume_type": _type(volume["type"]) if volume["type"] else None,
        "image_id": image["id"],
        "container_format": image["container_format"],
        "disk_format": image["disk_format"],
        "image_name": image["name"],
    }
    if request.version >= (3, 1):
        body["visibility"] = image["visibility"]
        body["protected"] = image["protected"]
    return body


def _type(row: Row) -> dict[str, Any]:
    return {
        "id": row["id"],
        "name": row["name"],
        "description": row["description"],
        "is_public": row["is_public"],
        "qos_specs_id": row["qos_specs_id"],
        "extra_specs": {},
        "created_at": precise(row["created_at"]),
        "updated_at": precise(row["updated_at"]) if row["updated_at"] is not None else None,
        "deleted": False,
        "deleted_at": None,
    }


async def reimage(request: Request) -> Response:
    """POST /volumes/{volume_id}/action {"os-reimage": …}, since 3.68"""
    asked = request.action_as(wire.Reimage)
    await request.cloud.db.write(
        content.reimage,
        request.caller,
        _id(request),
        asked.image_id,
        reserved=boolean(asked.reimage_reserved, "reimage_reserved"),
    )
    return accepted()


async def revert(request: Request) -> Response:
    """POST /volumes/{volume_id}/action {"revert": …}, since 3.40"""
    asked = request.action_as(wire.Revert)
    await request.cloud.db.write(content.revert, request.caller, _id(request), asked.snapshot_id)
    return accepted()


async def show_image_metadata(request: Request) -> Response:
    """POST /volumes/{volume_id}/action {"os-show_image_metadata": null}"""
    row = await request.cloud.db.read(listing.find, request.caller, _id(request))
    return ok({"metadata": row["image_metadata"]})


async def set_image_metadata(request: Request) -> Response:
    """POST /volumes/{volume_id}/action {"os-set_image_metadata": …}"""
    asked = request.action_as(wire.ImageMetadata)
    found = await request.cloud.db.write(
        change.set_metadata, request.caller, _id(request), asked.metadata, column="image_metadata"
    )
    return ok({"metadata": found})


async def unset_image_metadata(request: Request) -> Response:
    """POST /volumes/{volume_id}/action {"os-unset_image_metadata": …}"""
    asked = request.action_as(wire.ImageKey)
    await request.cloud.db.write(
        change.delete_metadata, request.caller, _id(request), asked.key, column="image_metadata"
    )
    return Response(200)


# --- by administrators ---


async def reset_status(request: Request) -> Response:
    """POST /volumes/{volume_id}/action {"os-reset_status": …}"""
    asked = request.action_as(wire.ResetStatus)
    status = asked.status.lower() if asked.status else None
    if status is not None and status not in change.STATUSES:
        raise Invalid(
            f"Volume status: {status} is invalid, valid statuses are: {', '.join(sorted(change.STATUSES))}."
        )
    attach = asked.attach_status.lower() if asked.attach_status else None
    if attach not in (None, "attached", "detached"):
        raise Invalid(f"Volume attach status: {attach} is invalid, valid statuses are: attached, detached.")
    migration = asked.migration_status.lower() if asked.migration_status else None
    if migration is not None and migration not in change.MIGRATION_STATUSES:
        valid = ", ".join(sorted(change.MIGRATION_STATUSES))
        raise Invalid(f"Volume migration status: {migration} is invalid, valid statuses are: {valid}.")
    if not request.caller.is_admin:
        raise Forbidden("Only administrators set the status of a volume.")
    await request.cloud.db.write(
        change.reset_status,
        request.caller,
        _id(request),
        status=status,
        attach_status=attach,
        migration_status=migration,
    )
    return accepted()


async def force_delete(request: Request) -> Response:
    """POST /volumes/{volume_id}/action {"os-force_delete": {}}"""
    await request.cloud.db.write(change.delete, request.caller, _id(request), force=True)
    return accepted()


#: Checks of rules that no route has.
RULES = {_UPLOAD_PUBLIC: ADMIN, _EXTEND_ATTACHED: MEMBER}

_PATH = "/v3/volumes/{volume_id}/action"
_BY_USER = "volume_extension:volume_actions"
_BY_ADMIN = "volume_extension:volume_admin_actions"
_IMAGE = "volume_extension:volume_image_metadata"


def _action(name: str, handler: Handler, rule: str, check: str, since: tuple[int, int] = (0, 0)) -> Route:
    return Route("POST", _PATH, handler, rule, check, since=since, action=name)


ROUTES = (
    _action("os-attach", attach, f"{_BY_USER}:attach", MEMBER),
    _action("os-detach", detach, f"{_BY_USER}:detach", MEMBER),
    _action("os-reserve", _plain(clients.reserve_by_action), f"{_BY_USER}:reserve", MEMBER),
    _action("os-unreserve", _plain(clients.unreserve_by_action), f"{_BY_USER}:unreserve", MEMBER),
    _action("os-begin_detaching", _plain(clients.begin_detaching), f"{_BY_USER}:begin_detaching", MEMBER),
    _action("os-roll_detaching", _plain(clients.roll_detaching), f"{_BY_USER}:roll_detaching", MEMBER),
    _action("os-initialize_connection", initialize_connection, f"{_BY_USER}:initialize_connection", MEMBER),
    _action("os-terminate_connection", terminate_connection, f"{_BY_USER}:terminate_connection", MEMBER),
    _action("os-volume_upload_image", upload, f"{_BY_USER}:upload_image", MEMBER),
    _action("os-extend", extend, "volume:extend", MEMBER),
    _action("os-update_readonly_flag", set_readonly, "volume:update_readonly_flag", MEMBER),
    _action("os-retype", retype, "volume:retype", MEMBER),
    _action("os-set_bootable", set_bootable, "volume:update", MEMBER),
    _action("os-reimage", reimage, "volume:reimage", MEMBER, (3, 68)),
    _action("revert", revert, "volume:revert_to_snapshot", MEMBER, (3, 40)),
    _action("os-show_image_metadata", show_image_metadata, "volume:get_volume_metadata", READER),
    _action("os-set_image_metadata", set_image_metadata, f"{_IMAGE}:set", MEMBER),
    _action("os-unset_image_metadata", unset_image_metadata, f"{_IMAGE}:remove", MEMBER),
    _action("os-reset_status", reset_status, f"{_BY_ADMIN}:reset_status", ADMIN),
    _action("os-force_detach", force_detach, f"{_BY_ADMIN}:force_detach", ADMIN),
    _action("os-force_delete", force_delete, f"{_BY_ADMIN}:force_delete", ADMIN),
)
