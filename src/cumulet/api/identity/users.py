"""/v3/users. See the API reference, "Users"."""

from __future__ import annotations

from typing import Any

from cumulet.api.asgi import Route
from cumulet.api.identity import groups, lists, projects
from cumulet.api.identity.body import changes, raw, read
from cumulet.api.identity.checks import ADMIN_OR_READER, manager_of, reader_of
from cumulet.api.request import Request, Response, created, no_content, ok
from cumulet.core import assignments, login, users
from cumulet.core import projects as core_projects
from cumulet.core.bootstrap import DOMAIN
from cumulet.core.token import iso
from cumulet.db.engine import Row, Tx
from cumulet.db.query import MarkerNotFound
from cumulet.errors import Invalid, Unauthorized
from cumulet.wire.body import decode
from cumulet.wire.identity import PasswordChange, UserChange, UserNew, moment


def view(request: Request, user: Row) -> dict[str, Any]:
    """A user as it is shown. No default project is no key."""
    shown = {
        **user["extra"],
        "id": user["id"],
        "name": user["name"],
        "domain_id": user["domain_id"],
        "enabled": user["enabled"],
        "password_expires_at": iso(user["password_expires_at"]),
        "options": user["options"],
        "links": lists.links(request, f"users/{user['id']}"),
    }
    if user["default_project_id"] is not None:
        shown["default_project_id"] = user["default_project_id"]
    return shown


async def index(request: Request) -> Response:
    """GET /v3/users"""
    query = lists.page(request, users.SORTABLE)
    matches = lists.matches(request, "domain_id", "enabled", "name")
    try:
        found = await request.cloud.db.read(
            users.find, matches, query, domain_id=request.caller.domain_id, expires=_expires(request)
        )
    except MarkerNotFound as error:
        raise lists.unknown_marker(error) from None
    return lists.collection(request, "users", [view(request, user) for user in found], query)


def _expires(request: Request) -> list[tuple[str, float]]:
    """``password_expires_at=lt:2016-12-08T22:02:00Z``"""
    found = []
    for text in request.args("password_expires_at"):
        operator, _, time = text.partition(":")
        if operator not in users.OPERATORS:
            raise Invalid(
                f"Invalid input for query parameter password_expires_at: {operator!r} is none of "
                f"{', '.join(sorted(users.OPERATORS))}."
            )
        found.append((operator, moment(time, "password_expires_at")))
    return found


async def show(request: Request) -> Response:
    """GET /v3/users/{user_id}"""
    user = await request.cloud.db.read(users.show, request.params["user_id"])
    return ok({"user": view(request, user)})


async def create(request: Request) -> Response:
    """POST /v3/users"""
    body, extra = await read(request, "user", UserNew)
    auth = request.cloud.config.auth
    digest = await _digest(request, body.password)
    user = await request.cloud.db.write(
        users.create,
        name=body.name,
        domain_id=body.domain_id or request.caller.domain_id or DOMAIN,
        enabled=body.enabled,
        default_project_id=body.default_project_id,
        digest=digest,
        settings=changes(body.options),
        extra=extra,
        auth=auth,
    )
    return created({"user": view(request, user)})


async def _digest(request: Request, password: str | None) -> str | None:
    if password is None:
        return None
    users.check_form(password, request.cloud.config.auth)
    return await request.cloud.passwords.hash(password)


async def update(request: Request) -> Response:
    """PATCH /v3/users/{user_id}"""
    body, extra = await read(request, "user", UserChange)
    fields = changes(body)
    if "options" in fields:
        fields["options"] = changes(fields["options"])
    digest = await _digest(request, fields.get("password"))
    user = await request.cloud.db.write(
        users.update, request.params["user_id"], fields, extra, digest, request.cloud.config.auth
    )
    return ok({"user": view(request, user)})


async def delete(request: Request) -> Response:
    """DELETE /v3/users/{user_id}"""
    await request.cloud.db.write(users.delete, request.params["user_id"])
    return no_content()


async def change_password(request: Request) -> Response:
    """POST /v3/users/{user_id}/password: the user's own change, proved by the old password and no token."""
    body = decode(await raw(request, "user"), PasswordChange, request.version)
    cloud = request.cloud
    auth, passwords, user_id = cloud.config.auth, cloud.passwords, request.params["user_id"]
    who = (user_id, request.peer)
    passwords.throttle.check(*who)
    digest = await cloud.db.read(_digest_of, user_id, auth)
    if not await passwords.matches(body.original_password, digest):
        passwords.throttle.failed(*who)
        if auth.lockout_failures:
            await cloud.db.write(login.failed, user_id)
        raise Unauthorized("Error when changing user password: Invalid user / password")
    passwords.throttle.succeeded(*who)
    user = await cloud.db.read(users.check_change, user_id, auth)
    users.check_form(body.password, auth)
    for old in users.remembered(user, auth):
        if await passwords.matches(body.password, old):
            raise Invalid(
                f"The new password cannot be identical to one of the last {auth.password_history} passwords."
            )
    await cloud.db.write(users.change_password, user, await passwords.hash(body.password), auth)
    return no_content()


def _digest_of(tx: Tx, user_id: str, auth: Any) -> str | None:
    user = tx.one("select * from users where id = :id", id=user_id)
    if user is None or login.locked(user, auth, tx.now):
        return None
    digest = user["password_digest"]
    return None if digest is None else str(digest)


async def list_groups(request: Request) -> Response:
    """GET /v3/users/{user_id}/groups"""
    found = await request.cloud.db.read(
        users.groups, request.params["user_id"], lists.matches(request, "name"), request.caller.domain_id
    )
    return lists.collection(request, "groups", [groups.view(request, group) for group in found])


async def list_projects(request: Request) -> Response:
    """GET /v3/users/{user_id}/projects"""
    return await projects_of(request, request.params["user_id"])


async def projects_of(request: Request, user_id: str) -> Response:
    """The projects on which a user has a role."""
    query = lists.page(request)
    matches = lists.matches(request, "domain_id", "enabled", "name")

    def read_all(tx: Tx) -> tuple[list[Row], dict[str, list[str]]]:
        users.show(tx, user_id)
        found = core_projects.find(tx, matches, query, among=assignments.projects_of(tx, user_id))
        return found, core_projects.tags_of(tx, [row["id"] for row in found])

    try:
        found, tags = await request.cloud.db.read(read_all)
    except MarkerNotFound as error:
        raise lists.unknown_marker(error) from None
    members = [projects.view(request, row, tags[row["id"]]) for row in found]
    return lists.collection(request, "projects", members, query)


_READ = f"{ADMIN_OR_READER} or (role:reader and token.domain.id:%(target.user.domain_id)s)"
_MANAGE = manager_of("target.user.domain_id")

ROUTES = (
    Route("GET", "/v3/users", index, "identity:list_users", reader_of("target.domain_id")),
    Route("POST", "/v3/users", create, "identity:create_user", _MANAGE),
    Route(
        "GET", "/v3/users/{user_id}", show, "identity:get_user",
        f"{_READ} or user_id:%(target.user.id)s",
    ),
    Route("PATCH", "/v3/users/{user_id}", update, "identity:update_user", _MANAGE),
    Route("DELETE", "/v3/users/{user_id}", delete, "identity:delete_user", _MANAGE),
    Route("POST", "/v3/users/{user_id}/password", change_password),
    Route(
        "GET", "/v3/users/{user_id}/groups", list_groups, "identity:list_groups_for_user",
        reader_of("target.user.domain_id", beside="user_id:%(user_id)s"),
    ),
    Route(
        "GET", "/v3/users/{user_id}/projects", list_projects, "identity:list_user_projects",
        reader_of("target.user.domain_id", beside="user_id:%(target.user.id)s"),
    ),
)  # fmt: skip
