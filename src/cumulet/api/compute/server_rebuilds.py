"""Servers whose disks are made anew, or that run from another disk.

See the compute API reference, "Rebuild server", "Rescue server", "Unrescue server", "Change administrative password".
"""

from __future__ import annotations

from msgspec import UNSET

from cumulet.api.asgi import Handler, Route
from cumulet.api.compute import permit, server_body
from cumulet.api.compute.links import links
from cumulet.api.compute.servers import check_hostname
from cumulet.api.request import Request, Response, accepted, boolean, ok
from cumulet.core.policy import MEMBER
from cumulet.core.servers import create, passwords, rebuilding
from cumulet.wire import server_actions as wire

_CERTIFICATES = "os_compute_api:servers:rebuild:trusted_certs"
#: Fields of a request that are columns of the server.
_COLUMNS = (
    "name", "description", "user_data", "hostname", "access_ip_v4", "access_ip_v6", "disk_config",
    "trusted_image_certificates",
)  # fmt: skip


async def rebuild(request: Request) -> Response:
    """{"rebuild": {"imageRef": …}}; the answer shows the server, and the password of its new disk"""
    asked = request.action_as(wire.Rebuild)
    if isinstance(asked.hostname, str):
        check_hostname(request, asked.hostname)
    if asked.trusted_image_certificates is not UNSET:
        permit.require(request, _CERTIFICATES)
    password = _password(request, asked.password)
    new = rebuilding.Rebuild(
        image=asked.image,
        password=password,
        preserve_ephemeral=boolean(asked.preserve_ephemeral, "preserve_ephemeral"),
        metadata=asked.metadata if isinstance(asked.metadata, dict) else None,
        files=tuple((file.path, file.contents) for file in asked.personality),
        key_name=None if asked.key_name is UNSET else asked.key_name or "",
        values={name: getattr(asked, name) for name in _COLUMNS if getattr(asked, name) is not UNSET},
        reimage=request.version >= (2, 93),
    )
    id = request.params["server_id"]
    shown = await request.cloud.db.write(rebuilding.rebuild, request.caller, id, new)
    location = links(request, "servers", id)[0]["href"]
    return accepted({"server": server_body.rebuilt(request, shown, password)}, ("Location", location))


async def rescue(request: Request) -> Response:
    """{"rescue": {"rescue_image_ref": …}}; since 2.87 also of servers that boot from a volume"""
    asked = request.action_as(wire.Rescue) if request.action is not None else wire.Rescue()
    password = _password(request, asked.adminPass)
    image = asked.rescue_image_ref
    await request.cloud.db.write(
        rebuilding.rescue,
        request.caller,
        request.params["server_id"],
        image if isinstance(image, str) else None,
        password=password,
        volume_backed=request.version >= (2, 87),
    )
    return ok({"adminPass": password})


async def unrescue(request: Request) -> Response:
    """{"unrescue": null}"""
    await request.cloud.db.write(rebuilding.unrescue, request.caller, request.params["server_id"])
    return accepted()


async def change_password(request: Request) -> Response:
    """{"changePassword": {"adminPass": …}}"""
    asked = request.action_as(wire.ChangePassword)
    await request.cloud.db.write(
        passwords.change, request.caller, request.params["server_id"], asked.adminPass
    )
    return accepted()


def _password(request: Request, given: object) -> str:
    return given if isinstance(given, str) else create.make_password(request.cloud.chance)


def _route(action: str, handler: Handler, rule: str) -> Route:
    path = "/v2.1/servers/{server_id}/action"
    return Route("POST", path, handler, f"os_compute_api:{rule}", MEMBER, action=action)


RULES = {_CERTIFICATES: MEMBER}

ROUTES = (
    _route("rebuild", rebuild, "servers:rebuild"),
    _route("rescue", rescue, "os-rescue"),
    _route("unrescue", unrescue, "os-unrescue"),
    _route("changePassword", change_password, "os-admin-password"),
)
