"""Images, their tags, and taking them out of use. See the image API reference, "Images"."""

from __future__ import annotations

import asyncio

from cumulet.api.asgi import Route
from cumulet.api.image import filters, imports, permit, view
from cumulet.api.image.links import link
from cumulet.api.request import Request, Response, no_content, ok
from cumulet.core.images import changing, finding
from cumulet.core.images.changing import Change, New
from cumulet.db.query import MarkerNotFound
from cumulet.errors import Invalid
from cumulet.wire import image as wire
from cumulet.wire import imagepatch

#: Seconds that a DELETE waits for the bytes to be gone, so that who asks next finds nothing.
DELETE_WAIT = 2.0


async def index(request: Request) -> Response:
    """GET /v2/images"""
    query = filters.page(request)
    if query.limit == 0:
        return ok({"images": [], "first": link(request, "images"), "schema": "/v2/schemas/images"})
    try:
        found = await request.cloud.db.read(finding.listing, request.caller, query, filters.filters(request))
    except MarkerNotFound as error:
        raise Invalid(f"No image found with ID {error}, which is the marker") from None
    body = {
        "images": [view.image(image) for image in found],
        "first": link(request, "images"),
        "schema": "/v2/schemas/images",
    }
    if len(found) == query.limit:
        body["next"] = link(request, "images", found[-1].id)
    return ok(body)


async def create(request: Request) -> Response:
    """POST /v2/images"""
    id, own, properties = wire.new(await request.document())
    owner = own.pop("owner", request.caller.project_id)
    permit.create(request, owner, own.get("visibility", "shared"))
    asked = New(
        id=id,
        owner=owner,
        name=own.pop("name", None),
        tags=own.pop("tags", ()),
        properties=properties,
        columns=own,
    )
    made = await request.cloud.db.write(changing.create, request.caller, asked)
    headers = [
        ("Location", request.url(f"/image/v2/images/{made.id}")),
        ("OpenStack-image-import-methods", ",".join(imports.methods(request))),
        ("OpenStack-image-store-ids", view.STORE),
    ]
    return Response(201, view.image(made), headers)


async def show(request: Request) -> Response:
    """GET /v2/images/{image_id}"""
    found = await request.cloud.db.read(finding.find, request.caller, request.params["image_id"], gone=True)
    permit.may(request, "get_image")(found)
    return ok(view.image(found))


async def update(request: Request) -> Response:
    """PATCH /v2/images/{image_id}"""
    asked = imagepatch.changes(await request.raw(), request.headers.get("content-type", ""))
    changes = [Change(one.op, one.name, one.value, one.once) for one in asked]
    changed = await request.cloud.db.write(
        changing.patch,
        request.caller,
        request.params["image_id"],
        changes,
        permit.may(request, "modify_image"),
        lambda image, visibility: permit.show(request, image, visibility),
    )
    return ok(view.image(changed))


async def delete(request: Request) -> Response:
    """DELETE /v2/images/{image_id}: the image is shown as ``pending_delete`` until the last of it is gone."""
    await remove(request, request.params["image_id"])
    return no_content()


async def remove(request: Request, id: str) -> None:
    """Want the image no more, and wait a little for it to be gone; compute's images go in the same way."""
    db = request.cloud.db
    with db.wake.listen(id) as waiter:
        await db.write(changing.delete, request.caller, id, permit.may(request, "delete_image"))
        until = asyncio.get_running_loop().time() + DELETE_WAIT
        while await db.read(changing.there, id):
            left = until - asyncio.get_running_loop().time()
            if left <= 0 or not await waiter.wait(left):
                break


async def deactivate(request: Request) -> Response:
    """POST /v2/images/{image_id}/actions/deactivate"""
    check = permit.may(request, "deactivate")
    await request.cloud.db.write(changing.deactivate, request.caller, request.params["image_id"], check)
    return no_content()


async def reactivate(request: Request) -> Response:
    """POST /v2/images/{image_id}/actions/reactivate"""
    check = permit.may(request, "reactivate")
    await request.cloud.db.write(changing.reactivate, request.caller, request.params["image_id"], check)
    return no_content()


async def add_tag(request: Request) -> Response:
    """PUT /v2/images/{image_id}/tags/{tag}"""
    tag = request.params["tag"]
    wire.fields({"tags": [tag]})
    check = permit.may(request, "modify_image")
    await request.cloud.db.write(changing.add_tag, request.caller, request.params["image_id"], tag, check)
    return no_content()


async def remove_tag(request: Request) -> Response:
    """DELETE /v2/images/{image_id}/tags/{tag}"""
    check = permit.may(request, "modify_image")
    await request.cloud.db.write(
        changing.remove_tag, request.caller, request.params["image_id"], request.params["tag"], check
    )
    return no_content()


_ONE = "/v2/images/{image_id}"
_ACTIONS = f"{_ONE}/actions"
ROUTES = (
    Route("GET", "/v2/images", index, "get_images", permit.ADMIN_OR_READER),
    Route("POST", "/v2/images", create, "add_image", permit.CREATE),
    Route("GET", _ONE, show, "get_image", permit.GET),
    Route("PATCH", _ONE, update, "modify_image", permit.ADMIN_OR_MEMBER),
    Route("DELETE", _ONE, delete, "delete_image", permit.ADMIN_OR_MEMBER),
    Route("POST", f"{_ACTIONS}/deactivate", deactivate, "deactivate", permit.ADMIN_OR_MEMBER),
    Route("POST", f"{_ACTIONS}/reactivate", reactivate, "reactivate", permit.ADMIN_OR_MEMBER),
    Route("PUT", f"{_ONE}/tags/{{tag}}", add_tag, "modify_image", permit.ADMIN_OR_MEMBER),
    Route("DELETE", f"{_ONE}/tags/{{tag}}", remove_tag, "modify_image", permit.ADMIN_OR_MEMBER),
)
