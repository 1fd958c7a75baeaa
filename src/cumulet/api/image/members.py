"""Members of images. See the image API reference, "Sharing"."""

from __future__ import annotations

from cumulet.api.asgi import Route
from cumulet.api.image import permit, view
from cumulet.api.request import Request, Response, no_content, ok
from cumulet.core.images import members
from cumulet.wire import image as wire


async def index(request: Request) -> Response:
    """GET /v2/images/{image_id}/members"""
    found = await request.cloud.db.read(
        members.listing, request.caller, request.params["image_id"], permit.may(request, "get_members")
    )
    return ok({"members": [view.member(one) for one in found], "schema": "/v2/schemas/members"})


async def show(request: Request) -> Response:
    """GET /v2/images/{image_id}/members/{member_id}"""
    found = await request.cloud.db.read(
        members.find,
        request.caller,
        request.params["image_id"],
        request.params["member_id"],
        permit.may(request, "get_member"),
    )
    return ok(view.member(found))


async def create(request: Request) -> Response:
    """POST /v2/images/{image_id}/members"""
    asked = await request.struct(wire.NewMember)
    made = await request.cloud.db.write(
        members.add,
        request.caller,
        request.params["image_id"],
        asked.member,
        permit.may(request, "add_member"),
    )
    return ok(view.member(made))


async def update(request: Request) -> Response:
    """PUT /v2/images/{image_id}/members/{member_id}"""
    asked = await request.struct(wire.Answer)
    changed = await request.cloud.db.write(
        members.answer,
        request.caller,
        request.params["image_id"],
        request.params["member_id"],
        asked.status,
        permit.may(request, "modify_member"),
    )
    return ok(view.member(changed))


async def delete(request: Request) -> Response:
    """DELETE /v2/images/{image_id}/members/{member_id}"""
    await request.cloud.db.write(
        members.remove,
        request.caller,
        request.params["image_id"],
        request.params["member_id"],
        permit.may(request, "delete_member"),
    )
    return no_content()


_ALL = "/v2/images/{image_id}/members"
_ONE = f"{_ALL}/{{member_id}}"
ROUTES = (
    Route("GET", _ALL, index, "get_members", permit.ADMIN_OR_READER_OR_SHARED_MEMBER),
    Route("POST", _ALL, create, "add_member", permit.ADMIN_OR_MEMBER),
    Route("GET", _ONE, show, "get_member", permit.ADMIN_OR_READER_OR_SHARED_MEMBER),
    Route("PUT", _ONE, update, "modify_member", permit.ADMIN_OR_SHARED_MEMBER),
    Route("DELETE", _ONE, delete, "delete_member", permit.ADMIN_OR_MEMBER),
)
