"""Moves of servers from host to host: all that there were, and a server's live migration that is under way.

See the compute API reference, "Migrations (os-migrations)", "Server migrations (servers, migrations)".
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from cumulet.api.asgi import Route
from cumulet.api.compute import permit
from cumulet.api.compute.links import links, page_of, unknown_marker, with_more
from cumulet.api.compute.server_filters import moment
from cumulet.api.query import only
from cumulet.api.request import Request, Response, accepted, boolean, ok
from cumulet.core import migrations
from cumulet.core.policy import ADMIN, MANAGER
from cumulet.core.servers import moving
from cumulet.db.engine import Row
from cumulet.db.query import MarkerNotFound, Query
from cumulet.errors import Invalid, NotFound
from cumulet.wire import migrations as wire
from cumulet.wire.body import encode
from cumulet.wire.forms import precise

_ALL = "os_compute_api:os-migrations:index"
_RULE = "os_compute_api:servers:migrations"

#: Filter → column.
_EQUAL = {
    "instance_uuid": "server_id", "source_compute": "source_name", "status": "status", "migration_type": "type",
    "user_id": "user_id", "project_id": "project_id",
}  # fmt: skip
_FILTERS = ("hidden", "host", "instance_uuid", "source_compute", "status", "migration_type")
_ONCE = ("limit", "marker", "changes-since", "changes-before", "user_id", "project_id")


async def index(request: Request) -> Response:
    """GET /os-migrations; in pages since 2.59"""
    paged = request.version >= (2, 59)
    if paged:
        _check(request)
    project = request.arg("project_id")
    if project is None or project != request.caller.project_id:
        permit.require(request, f"{_ALL}:all_projects")
    query = page_of(request) if paged else Query()
    asked = migrations.Listing(
        query=query,
        newest=paged,
        equal={column: value for name, column in _EQUAL.items() if (value := request.arg(name)) is not None},
        host=request.arg("host"),
        changed_since=_moment(request, "changes-since", (2, 59)),
        changed_before=_moment(request, "changes-before", (2, 66)),
    )
    since, before = asked.changed_since, asked.changed_before
    if since is not None and before is not None and before < since:
        raise Invalid("The value of changes-since must be less than or equal to changes-before.")
    try:
        rows = [] if _hidden(request) else await request.cloud.db.read(migrations.listing, asked)
    except MarkerNotFound as error:
        raise unknown_marker(error) from None
    hosts = permit.allows(request, f"{_ALL}:host")
    body = {"migrations": [encode(_migration(request, row, hosts), request.version) for row in rows]}
    return ok(with_more(body, "migrations", request, query, [row["id"] for row in rows]) if paged else body)


def _hidden(request: Request) -> bool:
    """No move is hidden: who asks for those that are gets none."""
    text = request.arg("hidden")
    try:
        return text is not None and boolean(text, "hidden")
    except Invalid:
        return False


def _moment(request: Request, name: str, since: tuple[int, int]) -> float | None:
    text = request.arg(name)
    return moment(text, name) if text is not None and request.version >= since else None


def _check(request: Request) -> None:
    known = [*_FILTERS, "limit", "marker", "changes-since"]
    if request.version >= (2, 66):
        known.append("changes-before")
    if request.version >= (2, 80):
        known += ["user_id", "project_id"]
    only(request, *known)
    for name in _ONCE:
        if len(request.args(name)) > 1:
            raise Invalid(f"Invalid input for query parameters {name}: it can be given once.")


def _migration(request: Request, row: Row, hosts: bool) -> wire.Migration:
    live = row["type"] == "live-migration" and row["status"] in migrations.IN_PROGRESS
    at = f"servers/{row['server_id']}/migrations"
    return wire.Migration(
        id=row["number"],
        uuid=row["id"],
        instance_uuid=row["server_id"],
        status=row["status"],
        migration_type=row["type"],
        source_compute=row["source_name"] if hosts else None,
        source_node=row["source_name"] if hosts else None,
        dest_compute=row["target_name"] if hosts else None,
        dest_node=row["target_name"] if hosts else None,
        created_at=precise(row["created_at"]),
        updated_at=precise(row["updated_at"]),
        links=links(request, at, str(row["number"])) if live and request.version >= (2, 23) else UNSET,
        user_id=row["user_id"],
        project_id=row["project_id"],
    )


# --- of one server ---


async def of_server(request: Request) -> Response:
    """GET /servers/{server_id}/migrations, since 2.23: those under way"""
    rows = await request.cloud.db.read(migrations.in_progress, request.caller, request.params["server_id"])
    hosts = permit.allows(request, f"{_RULE}:index:host")
    return ok({"migrations": [_under_way(request, row, hosts) for row in rows]})


async def show(request: Request) -> Response:
    """GET /servers/{server_id}/migrations/{migration_id}, since 2.23"""
    row = await request.cloud.db.read(migrations.show, request.caller, *_named(request))
    return ok({"migration": _under_way(request, row, True)})


async def abort(request: Request) -> Response:
    """DELETE /servers/{server_id}/migrations/{migration_id}, since 2.24"""
    await request.cloud.db.write(
        moving.abort, request.caller, *_named(request), queued=request.version >= (2, 65)
    )
    return accepted()


async def force_complete(request: Request) -> Response:
    """POST /servers/{server_id}/migrations/{migration_id}/action {"force_complete": null}, since 2.22"""
    if request.action is not None:
        raise Invalid("Invalid input for field/attribute force_complete: it must be null")
    try:
        await request.cloud.db.write(moving.force_complete, request.caller, *_named(request))
    except moving.NotUnderWay as error:
        raise Invalid(error.message) from None
    return accepted()


def _named(request: Request) -> tuple[str, int]:
    """The server and the move that a path names. Raises NotFound."""
    server, text = request.params["server_id"], request.params["migration_id"]
    if not text.isascii() or not text.isdecimal() or len(text) > 18:
        raise NotFound(f"In-progress live migration {text[:100]} is not found for server {server}.")
    return server, int(text)


def _under_way(request: Request, row: Row, hosts: bool) -> dict[str, Any]:
    source = row["source_name"] if hosts else None
    target = row["target_name"] if hosts else None
    body = wire.ServerMigration(
        id=row["number"],
        uuid=row["id"],
        server_uuid=row["server_id"],
        status=row["status"],
        source_compute=source,
        source_node=source,
        dest_compute=target,
        dest_node=target,
        created_at=precise(row["created_at"]),
        updated_at=precise(row["updated_at"]),
        user_id=row["user_id"],
        project_id=row["project_id"],
    )
    return encode(body, request.version)


RULES = {
    f"{_ALL}:all_projects": ADMIN,
    f"{_ALL}:host": ADMIN,
    f"{_RULE}:index:host": ADMIN,
}

_OF_SERVER = "/v2.1/servers/{server_id}/migrations"
_ONE = f"{_OF_SERVER}/{{migration_id}}"

ROUTES = (
    Route("GET", "/v2.1/os-migrations", index, _ALL, MANAGER),
    Route("GET", _OF_SERVER, of_server, f"{_RULE}:index", MANAGER, since=(2, 23)),
    Route("GET", _ONE, show, f"{_RULE}:show", ADMIN, since=(2, 23)),
    Route("DELETE", _ONE, abort, f"{_RULE}:delete", MANAGER, since=(2, 24)),
    Route(
        "POST", f"{_ONE}/action", force_complete, f"{_RULE}:force_complete", MANAGER, since=(2, 22),
        action="force_complete",
    ),
)  # fmt: skip
