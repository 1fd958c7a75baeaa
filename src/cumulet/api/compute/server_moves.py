"""Servers on their way to another host. See the compute API reference, "Resize server", "Confirm resized server",
"Revert resized server", "Migrate server", "Live-migrate server", "Evacuate server".
"""

from __future__ import annotations

from msgspec import UNSET

from cumulet.api.asgi import Handler, Route
from cumulet.api.compute import permit
from cumulet.api.request import Request, Response, accepted, boolean, no_content, ok
from cumulet.core import migrations
from cumulet.core.policy import ADMIN, MANAGER, MEMBER
from cumulet.core.servers import create, moving
from cumulet.errors import Invalid
from cumulet.wire import server_actions as wire

#: Seconds that a request waits for a host to be chosen.
_TIME = 10.0
_MIGRATE = "os_compute_api:os-migrate-server"


async def resize(request: Request) -> Response:
    """{"resize": {"flavorRef": …}}"""
    asked = request.action_as(wire.Resize)
    disk_config = asked.disk_config
    await request.cloud.db.write(
        moving.resize,
        request.caller,
        request.params["server_id"],
        str(asked.flavor),
        disk_config=disk_config if isinstance(disk_config, str) else None,
    )
    return accepted()


async def confirm(request: Request) -> Response:
    """{"confirmResize": null}"""
    await request.cloud.db.write(moving.confirm, request.caller, request.params["server_id"])
    return no_content()


async def revert(request: Request) -> Response:
    """{"revertResize": null}"""
    await request.cloud.db.write(moving.revert, request.caller, request.params["server_id"])
    return accepted()


async def migrate(request: Request) -> Response:
    """{"migrate": null}; to a host since 2.56"""
    host = None
    if request.version >= (2, 56) and request.action is not None:
        host = request.action_as(wire.Migrate).host
    if host is not None:
        permit.require(request, f"{_MIGRATE}:migrate:host")
    await request.cloud.db.write(moving.migrate, request.caller, request.params["server_id"], host)
    return accepted()


async def migrate_live(request: Request) -> Response:
    """{"os-migrateLive": {"host": null, "block_migration": "auto"}}

    What must be copied is copied, whatever ``block_migration`` says; a host that is named is never overfilled, even
    with ``force``.
    """
    asked = request.action_as(wire.MigrateLive)
    if request.version < (2, 25):
        if asked.disk_over_commit is UNSET:
            raise Invalid(
                "Invalid input for field/attribute os-migrateLive: 'disk_over_commit' is a required property"
            )
        boolean(asked.disk_over_commit, "disk_over_commit")
    if request.version < (2, 25) or asked.block_migration != "auto":
        boolean(asked.block_migration, "block_migration")
    _check_force(asked.force, asked.host)
    if asked.host:
        permit.require(request, f"{_MIGRATE}:migrate_live:host")
    id = request.params["server_id"]
    move = await request.cloud.db.write(moving.live_migrate, request.caller, id, asked.host or None)
    if request.version < (2, 34):
        await _chosen(request, id, move)
    return accepted()


async def _chosen(request: Request, id: str, move: str) -> None:
    """Wait until there is a host to go to: until 2.33 the answer says so. Raises Invalid if there is none."""
    db = request.cloud.db
    with db.wake.listen(id) as waiter:
        while (why := await db.read(migrations.refusal, move)) == "":
            if not await waiter.wait(_TIME):
                return
    if why is not None:
        raise Invalid(why)


async def evacuate(request: Request) -> Response:
    """{"evacuate": {"host": …}}; until 2.13 the answer has the password of the new disk"""
    asked = request.action_as(wire.Evacuate)
    host = asked.host if isinstance(asked.host, str) else None
    _check_force(asked.force, host)
    password = asked.adminPass if isinstance(asked.adminPass, str) else None
    shared = False
    if request.version < (2, 14):
        if asked.onSharedStorage is UNSET:
            raise Invalid(
                "Invalid input for field/attribute evacuate: 'onSharedStorage' is a required property"
            )
        shared = boolean(asked.onSharedStorage, "onSharedStorage")
    if shared and password is not None:
        raise Invalid("admin password can't be changed on existing disk")
    if password is None and not shared:
        password = create.make_password(request.cloud.chance)
    await request.cloud.db.write(
        moving.evacuate,
        request.caller,
        request.params["server_id"],
        host,
        password=password,
        stop=request.version >= (2, 95),
        shared=shared,
    )
    return ok({"adminPass": password}) if request.version < (2, 14) else Response(200)


def _check_force(force: object, host: str | None) -> None:
    if boolean(force, "force") and not host:
        raise Invalid("Can't force to a non-provided destination")


def _route(action: str, handler: Handler, rule: str, check: str = MEMBER) -> Route:
    path = "/v2.1/servers/{server_id}/action"
    return Route("POST", path, handler, rule, check, action=action)


RULES = {f"{_MIGRATE}:migrate:host": ADMIN, f"{_MIGRATE}:migrate_live:host": ADMIN}

ROUTES = (
    _route("resize", resize, "os_compute_api:servers:resize"),
    _route("confirmResize", confirm, "os_compute_api:servers:confirm_resize"),
    _route("revertResize", revert, "os_compute_api:servers:revert_resize"),
    _route("migrate", migrate, f"{_MIGRATE}:migrate", MANAGER),
    _route("os-migrateLive", migrate_live, f"{_MIGRATE}:migrate_live", MANAGER),
    _route("evacuate", evacuate, "os_compute_api:os-evacuate", ADMIN),
)
