"""Importing images, tasks, and what a client can learn about stores and limits.

See the image API reference, "Interoperable image import", "Import info", "Stores info", "Quota usage", "Tasks".
"""

from __future__ import annotations

import uuid
from typing import Any

from cumulet.api.asgi import MethodNotAllowed, Route
from cumulet.api.image import data, filters, permit, view
from cumulet.api.image.links import link
from cumulet.api.request import Request, Response, accepted, ok
from cumulet.core.images import finding, importing, tasks, usage
from cumulet.core.images.changing import New
from cumulet.core.images.importing import Remote
from cumulet.core.images.tasks import Task
from cumulet.db.query import MarkerNotFound, Query
from cumulet.errors import Invalid
from cumulet.wire import image as wire
from cumulet.wire import imageimport, weburl
from cumulet.wire.body import decode
from cumulet.wire.forms import instant


def methods(request: Request) -> list[str]:
    """How images can be imported here."""
    names = ["glance-direct", "web-download", "glance-download", "copy-image"]
    return [name for name in names if name != "web-download" or request.cloud.config.images.web_download]


async def import_image(request: Request) -> Response:
    """POST /v2/images/{image_id}/import"""
    body = await request.document()
    asked = decode(body, imageimport.Import, request.version)
    method = asked.method.name
    if method not in methods(request):
        raise Invalid(f"Unknown import method name '{method}'.")
    url = remote = None
    if method == "web-download":
        url = _address(request, asked.method.uri, "URI for web-download")
    if method == "glance-download":
        remote = _remote(request, asked.method)
    await request.cloud.db.write(
        importing.begin,
        request.caller,
        request.params["image_id"],
        method,
        body,
        permit.may(request, "copy_image" if method == "copy-image" else "modify_image"),
        url=url,
        remote=remote,
    )
    return accepted()


def _remote(request: Request, method: imageimport.Method) -> Remote:
    """Which image is meant. Raises Invalid."""
    region, id = method.glance_region, method.glance_image_id
    for name, value in (("glance_region", region), ("glance_image_id", id)):
        if value is None:
            raise Invalid(f"'{name}' needs to be set for glance-download import method")
    try:
        uuid.UUID(id)
    except ValueError:
        raise Invalid(f"Remote image id does not look like a UUID: {id}") from None
    check = permit.may(request, "download_image")
    return Remote(str(region), method.glance_service_interface, str(id), check)


def _address(request: Request, text: str | None, what: str) -> str:
    try:
        weburl.parse(text or "", private=request.cloud.config.images.import_private)
    except ValueError as error:
        raise Invalid(f"{what} does not pass filtering: {text}: {error}") from None
    return str(text)


async def image_tasks(request: Request) -> Response:
    """GET /v2/images/{image_id}/tasks"""
    id = request.params["image_id"]
    found = await request.cloud.db.read(finding.find, request.caller, id)
    permit.may(request, "get_image")(found)
    listed = await request.cloud.db.read(tasks.of_image, id)
    return ok({"tasks": [_task(task) for task in listed]})


async def create_task(request: Request) -> Response:
    """POST /v2/tasks: an import that makes its image"""
    body = await request.document()
    asked = decode(body, imageimport.NewTask, request.version).input
    url = _address(request, asked.import_from, "URI for legacy import task")
    properties = asked.image_properties or {"disk_format": "qcow2", "container_format": "bare"}
    if "disk_format" not in properties:
        properties = {**properties, "disk_format": asked.import_from_format}
    id, own, rest = wire.new({"container_format": "bare", **properties})
    owner = own.pop("owner", request.caller.project_id)
    permit.create(request, owner, own.get("visibility", "shared"))
    new = New(
        id=id, owner=owner, name=own.pop("name", None), tags=own.pop("tags", ()), properties=rest, columns=own
    )
    made = await request.cloud.db.write(importing.task, request.caller, url, new, body["input"])
    return Response(201, _task(made), [("Location", request.url(f"/image/v2/tasks/{made.id}"))])


async def list_tasks(request: Request) -> Response:
    """GET /v2/tasks"""
    status, type = request.arg("status"), request.arg("type")
    if status is not None and status not in ("pending", "processing", "success", "failure"):
        raise Invalid(f"Invalid status value: {status}")
    if type is not None and type != "import":
        raise Invalid(f"Invalid type value: {type}")
    key, direction = request.arg("sort_key") or "created_at", request.arg("sort_dir") or "desc"
    if direction not in ("asc", "desc"):
        raise Invalid(f"Invalid sort direction: {direction}")
    if key not in tasks.SORTABLE:
        raise Invalid(f"Invalid sort key: {key}")
    query = Query(limit=filters.limit(request), marker=request.arg("marker"), sort=((key, direction),))
    try:
        found = await request.cloud.db.read(tasks.listing, request.caller, query, type=type, status=status)
    except MarkerNotFound as error:
        raise Invalid(f"No task found with ID {error}, which is the marker") from None
    body: dict[str, Any] = {
        "tasks": [_stub(task) for task in found],
        "first": link(request, "tasks"),
        "schema": "/v2/schemas/tasks",
    }
    if found and len(found) == query.limit:
        body["next"] = link(request, "tasks", found[-1].id)
    return ok(body)


async def show_task(request: Request) -> Response:
    """GET /v2/tasks/{task_id}"""
    return ok(_task(await request.cloud.db.read(tasks.find, request.caller, request.params["task_id"])))


async def delete_task(request: Request) -> Response:
    """DELETE /v2/tasks/{task_id}: tasks go by themselves"""
    raise MethodNotAllowed(["GET"])


def _stub(task: Task) -> dict[str, Any]:
    body = {
        "id": task.id,
        "type": task.type,
        "status": task.status,
        "owner": task.owner,
        "created_at": instant(task.created_at),
        "updated_at": instant(task.updated_at),
        "self": f"/v2/tasks/{task.id}",
        "schema": "/v2/schemas/task",
    }
    if task.expires_at is not None:
        body["expires_at"] = instant(task.expires_at)
    return body


def _task(task: Task) -> dict[str, Any]:
    return {
        **_stub(task),
        "input": task.input,
        "result": task.result,
        "message": task.message,
        "image_id": task.image_id,
        "request_id": task.request_id,
        "user_id": task.user_id,
    }


async def import_info(request: Request) -> Response:
    """GET /v2/info/import"""
    value = {"description": "Import methods available.", "type": "array", "value": methods(request)}
    return ok({"import-methods": value})


_STORE = {"id": view.STORE, "description": "Files of the image store", "default": "true"}


async def stores(request: Request) -> Response:
    """GET /v2/info/stores"""
    return ok({"stores": [_STORE]})


async def stores_detail(request: Request) -> Response:
    """GET /v2/info/stores/detail"""
    return ok({"stores": [{**_STORE, "type": "file", "weight": 0, "properties": {}}]})


async def quota_usage(request: Request) -> Response:
    """GET /v2/info/usage"""
    return ok({"usage": await request.cloud.db.read(usage.report, request.caller.project_id)})


async def leave_store(request: Request) -> Response:
    """DELETE /v2/stores/{store}/{image_id}"""
    await request.cloud.db.read(
        importing.leave_store,
        request.caller,
        request.params["image_id"],
        request.params["store"],
        permit.may(request, "get_image_location"),
        permit.may(request, "delete_image_location"),
    )
    return Response(204)


_ONE = "/v2/images/{image_id}"
_TASK = "/v2/tasks/{task_id}"
_INFO = "cumulet:image_info"
ROUTES = (
    Route("PUT", f"{_ONE}/stage", data.stage, "modify_image", permit.ADMIN_OR_MEMBER, streams=True),
    Route("POST", f"{_ONE}/import", import_image, "modify_image", permit.ADMIN_OR_MEMBER),
    Route("GET", f"{_ONE}/tasks", image_tasks, "get_image", permit.GET),
    Route("POST", "/v2/tasks", create_task, "tasks_api_access", permit.ADMIN),
    Route("GET", "/v2/tasks", list_tasks, "tasks_api_access", permit.ADMIN),
    Route("GET", _TASK, show_task, "tasks_api_access", permit.ADMIN),
    Route("DELETE", _TASK, delete_task, "tasks_api_access", permit.ADMIN),
    # What follows is no secret: upstream has no rule for it either.
    Route("GET", "/v2/info/import", import_info, _INFO, "@"),
    Route("GET", "/v2/info/stores", stores, _INFO, "@"),
    Route("GET", "/v2/info/usage", quota_usage, _INFO, "@"),
    Route(
        "GET", "/v2/info/stores/detail", stores_detail, "stores_info_detail", f"{permit.ADMIN} or rule:service_api"
    ),
    Route("DELETE", "/v2/stores/{store}/{image_id}", leave_store, "delete_image_location", permit.ADMIN),
)  # fmt: skip
