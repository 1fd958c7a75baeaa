"""Compute services: one for each host, and one line each for the scheduler and the conductor.

See the compute API reference, "Compute services".
"""

from __future__ import annotations

import re
import uuid

from msgspec import UNSET

from cumulet.api.asgi import Route
from cumulet.api.query import only
from cumulet.api.request import Request, Response, boolean, no_content, ok
from cumulet.core import hosts
from cumulet.core.hosts import Host
from cumulet.core.policy import ADMIN
from cumulet.db.engine import Tx
from cumulet.errors import Invalid, NotFound
from cumulet.wire import forms
from cumulet.wire import services as wire
from cumulet.wire.body import encode

COMPUTE = "nova-compute"
#: The parts of the control plane that clients look for: binary and old number. They are this process.
CONTROL = (("nova-scheduler", 0x7FFFFFFE), ("nova-conductor", 0x7FFFFFFF))
CONTROL_HOST = "control"
INTERNAL_ZONE = "internal"

_UUID = re.compile(r"[0-9a-fA-F]{8}-?([0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}\Z")


def control_id(binary: str) -> str:
    """The id of a line of the control plane, always the same."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"cumulet:{binary}"))


def _service(request: Request, host: Host) -> wire.Service:
    return wire.Service(
        id=host.id if request.version >= (2, 53) else host.number,
        binary=COMPUTE,
        host=host.name,
        zone=host.zone,
        status="disabled" if host.disabled else "enabled",
        state="up" if host.up else "down",
        updated_at=forms.precise_or_none(host.seen_at),
        disabled_reason=host.disabled_reason,
        forced_down=host.forced_down,
    )


def _control(request: Request, binary: str, number: int) -> wire.Service:
    return wire.Service(
        id=control_id(binary) if request.version >= (2, 53) else number,
        binary=binary,
        host=CONTROL_HOST,
        zone=INTERNAL_ZONE,
        status="enabled",
        state="up",
        updated_at=forms.precise(request.cloud.chance.now()),
        disabled_reason=None,
        forced_down=False,
    )


async def index(request: Request) -> Response:
    """GET /os-services"""
    if request.version >= (2, 75):
        only(request, "host", "binary")
    found = [_control(request, binary, number) for binary, number in CONTROL]
    found += [_service(request, host) for host in await request.cloud.db.read(hosts.listing)]
    host, binary = request.arg("host"), request.arg("binary")
    found = [one for one in found if (not host or one.host == host) and (not binary or one.binary == binary)]
    return ok({"services": [encode(one, request.version) for one in found]})


def _change(
    tx: Tx,
    host_id: str,
    *,
    name: bool,
    disabled: bool | None = None,
    reason: str | None = None,
    forced_down: bool | None = None,
) -> Host:
    host = hosts.named(tx, host_id) if name else hosts.find(tx, host_id)
    return hosts.change(tx, host, disabled=disabled, reason=reason, forced_down=forced_down)


def _only_compute(binary: str) -> None:
    if binary != COMPUTE:
        raise Invalid(
            f"Updating a {binary} service is not supported. Only {COMPUTE} services can be updated."
        )


async def act(request: Request) -> Response:
    """PUT /os-services/{enable, disable, disable-log-reason, force-down}, until 2.52"""
    asked = await request.struct(wire.Named)
    action = request.params["service_id"]
    _only_compute(asked.binary)
    answer: dict[str, object] = {"host": asked.host, "binary": asked.binary}
    reason = asked.disabled_reason if isinstance(asked.disabled_reason, str) else None
    write = request.cloud.db.write
    if action == "enable":
        await write(_change, asked.host, name=True, disabled=False)
        answer["status"] = "enabled"
    elif action == "disable":
        await write(_change, asked.host, name=True, disabled=True)
        answer["status"] = "disabled"
    elif action == "disable-log-reason":
        if reason is None:
            raise Invalid("Missing disabled reason field: disabled_reason says why.")
        await write(_change, asked.host, name=True, disabled=True, reason=reason)
        answer |= {"status": "disabled", "disabled_reason": reason}
    elif action == "force-down" and request.version >= (2, 11):
        if asked.forced_down is UNSET:
            raise Invalid("Missing forced_down field: it is true or false.")
        forced = boolean(asked.forced_down, "forced_down")
        await write(_change, asked.host, name=True, forced_down=forced)
        answer["forced_down"] = forced
    else:
        raise NotFound(
            f"Unknown action {action}: enable, disable, disable-log-reason or force-down (since 2.11)."
        )
    return ok({"service": answer})


async def update(request: Request) -> Response:
    """PUT /os-services/{service_id}, since 2.53"""
    key = _key(request)
    asked = await request.struct(wire.Change)
    for binary, _ in CONTROL:
        if key == control_id(binary):
            _only_compute(binary)
    reason = asked.disabled_reason if isinstance(asked.disabled_reason, str) else None
    if asked.status is UNSET and asked.forced_down is UNSET:
        raise Invalid("No updates were requested. Fields 'status' or 'forced_down' should be specified.")
    if reason is not None and asked.status != "disabled":
        raise Invalid("Specifying 'disabled_reason' is only possible with status 'disabled'.")
    host = await request.cloud.db.write(
        _change,
        key,
        name=False,
        disabled=None if asked.status is UNSET else asked.status == "disabled",
        reason=reason,
        forced_down=None if asked.forced_down is UNSET else boolean(asked.forced_down, "forced_down"),
    )
    return ok({"service": encode(_service(request, host), request.version)})


def _key(request: Request) -> str:
    key = request.params["service_id"]
    if not _UUID.match(key):
        raise Invalid(f"Invalid uuid {key}")
    return key


async def delete(request: Request) -> Response:
    """DELETE /os-services/{service_id}: take the host out of service"""
    key: str | int
    if request.version >= (2, 53):
        key = _key(request)
    else:
        text = request.params["service_id"]
        if not re.fullmatch(r"[0-9]{1,18}", text):
            raise Invalid(f"id must be an integer, not {text!r}")
        key = int(text)
    if key in {value for binary, number in CONTROL for value in (number, control_id(binary))}:
        raise Invalid(
            "The scheduler and the conductor are parts of the control plane; they cannot be deleted."
        )
    await request.cloud.db.write(hosts.retire, key)
    return no_content()


_RULE = "os_compute_api:os-services"
_ONE = "/v2.1/os-services/{service_id}"

ROUTES = (
    Route("GET", "/v2.1/os-services", index, f"{_RULE}:list", ADMIN),
    Route("PUT", _ONE, act, f"{_RULE}:update", ADMIN, until=(2, 52)),
    Route("PUT", _ONE, update, f"{_RULE}:update", ADMIN, since=(2, 53)),
    Route("DELETE", _ONE, delete, f"{_RULE}:delete", ADMIN),
)
