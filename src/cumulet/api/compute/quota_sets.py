"""Quota sets and quota class sets. See the compute API reference, "Quota sets" and "Quota class sets"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from cumulet.api.asgi import Route
from cumulet.api.compute import permit
from cumulet.api.query import only
from cumulet.api.request import Request, Response, accepted, boolean, ok
from cumulet.core import limits, quota
from cumulet.core.policy import ADMIN, ANYONE, READER
from cumulet.db.engine import Tx
from cumulet.errors import Invalid
from cumulet.wire.forms import Limit

_ALL = tuple(quota.DEFAULTS["compute"])
#: Of the time when compute had networks of its own.
_NETWORK = ("fixed_ips", "floating_ips", "security_groups", "security_group_rules")
_FILES = ("injected_files", "injected_file_content_bytes", "injected_file_path_bytes")
_GROUPS = ("server_groups", "server_group_members")


def _names(request: Request) -> tuple[str, ...]:
    """The resources that a quota set has at the request's version."""
    gone: tuple[str, ...] = ()
    if request.version >= (2, 36):
        gone += _NETWORK
    if request.version >= (2, 57):
        gone += _FILES
    return tuple(name for name in _ALL if name not in gone)


def _class_names(request: Request) -> tuple[str, ...]:
    """The same for a quota class set. The groups were forgotten in it until 2.50."""
    gone: tuple[str, ...] = _GROUPS if request.version < (2, 50) else _NETWORK
    if request.version >= (2, 57):
        gone += _FILES
    return tuple(name for name in _ALL if name not in gone)


def _body(names: tuple[str, ...], values: Mapping[str, Any], project_id: str | None = None) -> dict[str, Any]:
    body = {name: values[name] for name in names}
    return {"id": project_id, **body} if project_id is not None else body


async def _asked(request: Request, key: str, allowed: tuple[str, ...]) -> dict[str, Any]:
    body = await request.document()
    inner = body.get(key)
    if list(body) != [key] or not isinstance(inner, dict):
        raise Invalid(
            f"Invalid input for field/attribute {key}: the body must hold this object, and it alone"
        )
    for name in inner:
        if name not in allowed:
            raise Invalid(
                f"Invalid input for field/attribute {key}. Additional properties are not allowed "
                f"({name!r} was unexpected)"
            )
    return inner


def _limits(asked: Mapping[str, Any]) -> dict[str, int]:
    found = {}
    for name, value in asked.items():
        try:
            if isinstance(value, bool | float):
                raise msgspec.ValidationError(f"Expected `int`, got `{type(value).__name__}`")
            found[name] = msgspec.convert(value, Limit, strict=False)
        except msgspec.ValidationError as error:
            raise Invalid(f"Invalid input for field/attribute {name}: {error}") from None
    return found


def _user(request: Request) -> str | None:
    if request.version >= (2, 75):
        only(request, "user_id")
    users = request.args("user_id")
    return users[0] if users and users[0] else None


_RULE = "os_compute_api:os-quota-sets"


def _project(request: Request, what: str) -> str:
    """The project in the path, if the caller may. Raises Forbidden."""
    project_id = request.params["project"]
    permit.require(request, f"{_RULE}:{what}", project_id=project_id)
    return project_id


def _look(tx: Tx, project_id: str, user_id: str | None) -> dict[str, limits.Line]:
    quota.check_project(tx, project_id)
    return limits.report(tx, project_id, user_id)


async def show(request: Request) -> Response:
    """GET /os-quota-sets/{project}"""
    project_id = _project(request, "show")
    lines = await request.cloud.db.read(_look, project_id, _user(request))
    values = {name: line.limit for name, line in lines.items()}
    return ok({"quota_set": _body(_names(request), values, project_id)})


async def detail(request: Request) -> Response:
    """GET /os-quota-sets/{project}/detail: limits and what is used"""
    project_id = _project(request, "detail")
    lines = await request.cloud.db.read(_look, project_id, _user(request))
    values = {name: {"limit": line.limit, "in_use": line.used, "reserved": 0} for name, line in lines.items()}
    return ok({"quota_set": _body(_names(request), values, project_id)})


def _defaults(tx: Tx, project_id: str | None) -> dict[str, int]:
    if project_id is not None:
        quota.check_project(tx, project_id)
    return quota.defaults(tx, "compute")


async def defaults(request: Request) -> Response:
    """GET /os-quota-sets/{project}/defaults"""
    project_id = request.params["project"]
    # They are the same for all. Only who knows all projects learns whether this is one.
    check = request.caller.is_admin
    values = await request.cloud.db.read(_defaults, project_id if check else None)
    return ok({"quota_set": _body(_names(request), values, project_id)})


async def update(request: Request) -> Response:
    """PUT /os-quota-sets/{project}"""
    project_id, names = _project(request, "update"), _names(request)
    asked = await _asked(request, "quota_set", (*names, "force"))
    force = boolean(asked.pop("force", False), "force")
    values = await request.cloud.db.write(
        limits.change, project_id, _user(request), _limits(asked), force=force
    )
    return ok({"quota_set": _body(names, values)})


async def delete(request: Request) -> Response:
    """DELETE /os-quota-sets/{project}: back to the defaults"""
    project_id, user_id = _project(request, "delete"), _user(request)
    owner = project_id if user_id is None else quota.user_owner(project_id, user_id)
    await request.cloud.db.write(quota.forget_limits, "compute", owner)
    return accepted()


async def show_class(request: Request) -> Response:
    """GET /os-quota-class-sets/{id}"""
    name = request.params["id"]
    values = await request.cloud.db.read(limits.of_class, name)
    return ok({"quota_class_set": _body(_class_names(request), values, name)})


async def update_class(request: Request) -> Response:
    """PUT /os-quota-class-sets/{id}"""
    name, names = request.params["id"], _class_names(request)
    if len(name) > 255:
        raise Invalid("quota_class_name has more than 255 characters.")
    allowed = names if request.version >= (2, 50) else _ALL
    asked = await _asked(request, "quota_class_set", allowed)
    values = await request.cloud.db.write(limits.change_class, name, _limits(asked))
    return ok({"quota_class_set": _body(names, values)})


_CLASS_RULE = "os_compute_api:os-quota-class-sets"
_ONE = "/v2.1/os-quota-sets/{project}"
_CLASS = "/v2.1/os-quota-class-sets/{id}"

ROUTES = (
    Route("GET", _ONE, show, f"{_RULE}:show", READER),
    Route("GET", f"{_ONE}/detail", detail, f"{_RULE}:detail", READER),
    Route("GET", f"{_ONE}/defaults", defaults, f"{_RULE}:defaults", ANYONE),
    Route("PUT", _ONE, update, f"{_RULE}:update", ADMIN),
    Route("DELETE", _ONE, delete, f"{_RULE}:delete", ADMIN),
    Route("GET", _CLASS, show_class, f"{_CLASS_RULE}:show", ADMIN),
    Route("PUT", _CLASS, update_class, f"{_CLASS_RULE}:update", ADMIN),
)
