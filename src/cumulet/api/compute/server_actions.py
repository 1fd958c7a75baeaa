"""What can be done to a server. See the compute API reference, "Servers - run an action"."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import UNSET

from cumulet.api.asgi import Handler, Route
from cumulet.api.compute import permit
from cumulet.api.microversion import Version
from cumulet.api.request import Request, Response, accepted
from cumulet.core.policy import ADMIN, MEMBER
from cumulet.core.servers import actions, deleting, interfaces, security_groups, shelving
from cumulet.errors import Invalid
from cumulet.wire import server_actions as wire

_OVERRIDE = "os_compute_api:os-lock-server:unlock:unlock_override"


def simple(function: Callable[..., None], **fixed: Any) -> Handler:
    """The handler of an action whose body says nothing, or nothing that counts."""

    async def handler(request: Request) -> Response:
        await request.cloud.db.write(function, request.caller, request.params["server_id"], **fixed)
        return accepted()

    return handler


async def reboot(request: Request) -> Response:
    """{"reboot": {"type": "SOFT"}}"""
    asked = request.action_as(wire.Reboot)
    await request.cloud.db.write(
        actions.reboot, request.caller, request.params["server_id"], hard=asked.type.upper() == "HARD"
    )
    return accepted()


async def lock(request: Request) -> Response:
    """{"lock": null}; with a reason since 2.73"""
    reason = None
    if request.version >= (2, 73) and request.action is not None:
        asked = request.action_as(wire.Lock)
        reason = asked.locked_reason if isinstance(asked.locked_reason, str) else None
    await request.cloud.db.write(actions.lock, request.caller, request.params["server_id"], reason)
    return accepted()


async def unlock(request: Request) -> Response:
    """{"unlock": null}"""
    await request.cloud.db.write(
        actions.unlock,
        request.caller,
        request.params["server_id"],
        override=permit.allows(request, _OVERRIDE),
    )
    return accepted()


async def reset_state(request: Request) -> Response:
    """{"os-resetState": {"state": "active"}}"""
    asked = request.action_as(wire.ResetState)
    await request.cloud.db.write(
        actions.reset_state, request.caller, request.params["server_id"], asked.state
    )
    return accepted()


async def unshelve(request: Request) -> Response:
    """{"unshelve": null}; to a zone since 2.77, out of its zone or to a host since 2.91"""
    to = shelving.Destination()
    if request.version >= (2, 91) and request.action is not None:
        asked = request.action_as(wire.Unshelve)
        if asked.host is not UNSET:
            permit.require(request, "os_compute_api:os-shelve:unshelve_to_host")
        to = shelving.Destination(
            zone=asked.availability_zone, host=asked.host if isinstance(asked.host, str) else None
        )
    elif request.version >= (2, 77) and request.action is not None:
        to = shelving.Destination(zone=request.action_as(wire.UnshelveInZone).availability_zone)
    await request.cloud.db.write(
        shelving.unshelve,
        request.caller,
        request.params["server_id"],
        to,
        build_time=request.cloud.config.reconcile.build_time,
    )
    return accepted()


async def add_security_group(request: Request) -> Response:
    """{"addSecurityGroup": {"name": "web"}}"""
    return await _security_group(request, security_groups.add)


async def remove_security_group(request: Request) -> Response:
    """{"removeSecurityGroup": {"name": "web"}}"""
    return await _security_group(request, security_groups.remove)


async def _security_group(request: Request, function: Callable[..., None]) -> Response:
    asked = request.action_as(wire.SecurityGroup)
    if not asked.name.strip():
        raise Invalid("Security group name cannot be empty")
    await request.cloud.db.write(function, request.caller, request.params["server_id"], asked.name)
    return accepted()


async def add_fixed_ip(request: Request) -> Response:
    """{"addFixedIp": {"networkId": …}}, until 2.43"""
    asked = request.action_as(wire.AddFixedIp)
    await request.cloud.db.write(
        interfaces.add_fixed_ip, request.caller, request.params["server_id"], str(asked.networkId)
    )
    return accepted()


async def remove_fixed_ip(request: Request) -> Response:
    """{"removeFixedIp": {"address": …}}, until 2.43"""
    asked = request.action_as(wire.RemoveFixedIp)
    await request.cloud.db.write(
        interfaces.remove_fixed_ip, request.caller, request.params["server_id"], asked.address
    )
    return accepted()


def _route(
    action: str,
    handler: Handler,
    rule: str,
    check: str = MEMBER,
    *,
    since: Version = (2, 1),
    until: Version = (9999, 0),
) -> Route:
    path = "/v2.1/servers/{server_id}/action"
    return Route("POST", path, handler, f"os_compute_api:{rule}", check, since, until, action)


RULES = {_OVERRIDE: ADMIN, "os_compute_api:os-shelve:unshelve_to_host": ADMIN}

ROUTES = (
    _route("os-start", simple(actions.start), "servers:start"),
    _route("os-stop", simple(actions.stop), "servers:stop"),
    _route("reboot", reboot, "servers:reboot"),
    _route("lock", lock, "os-lock-server:lock"),
    _route("unlock", unlock, "os-lock-server:unlock"),
    _route("os-resetState", reset_state, "os-admin-actions:reset_state", ADMIN),
    _route("injectNetworkInfo", simple(actions.look_again), "os-admin-actions:inject_network_info", ADMIN),
    _route("pause", simple(actions.pause), "os-pause-server:pause"),
    _route("unpause", simple(actions.unpause), "os-pause-server:unpause"),
    _route("suspend", simple(actions.suspend), "os-suspend-server:suspend"),
    _route("resume", simple(actions.resume), "os-suspend-server:resume"),
    _route("restore", simple(actions.restore), "os-deferred-delete:restore"),
    _route("forceDelete", simple(deleting.delete), "os-deferred-delete:force"),
    _route("shelve", simple(shelving.shelve), "os-shelve:shelve"),
    _route("shelveOffload", simple(shelving.offload), "os-shelve:shelve_offload", ADMIN),
    _route("unshelve", unshelve, "os-shelve:unshelve"),
    _route("addSecurityGroup", add_security_group, "os-security-groups:add"),
    _route("removeSecurityGroup", remove_security_group, "os-security-groups:remove"),
    _route("addFixedIp", add_fixed_ip, "os-multinic:add", until=(2, 43)),
    _route("removeFixedIp", remove_fixed_ip, "os-multinic:remove", until=(2, 43)),
)
