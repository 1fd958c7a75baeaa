"""Policy checks on images: who may do what depends on whose the image is, and on who sees it.

A route's rule is asked twice: before anything is read, as if the image were the caller's own, and once it is
known whose it is.
"""

from __future__ import annotations

from typing import Any

from cumulet.api.request import Request
from cumulet.core.images.finding import Check, Image
from cumulet.errors import Forbidden, NotFound

PROJECT = "project_id:%(project_id)s"
MEMBER_OF = "project_id:%(member_id)s"
ADMIN = "rule:context_is_admin"
_SEEN = f"({PROJECT} or {MEMBER_OF} or 'community':%(visibility)s or 'public':%(visibility)s or 'shared':%(visibility)s)"

ADMIN_OR_MEMBER = f"{ADMIN} or (role:member and {PROJECT})"
ADMIN_OR_READER = f"{ADMIN} or (role:reader and {PROJECT})"
GET = f"{ADMIN} or (role:reader and {_SEEN})"
DOWNLOAD = f"{ADMIN} or (role:member and {_SEEN})"
CREATE = f"{ADMIN} or (role:member and {PROJECT} and project_id:%(owner)s)"
ADMIN_OR_SHARED_MEMBER = f"{ADMIN} or (role:member and {MEMBER_OF})"
ADMIN_OR_READER_OR_SHARED_MEMBER = f"{ADMIN} or role:reader and ({PROJECT} or {MEMBER_OF})"

#: Rules that no route names, for they are about what a request says.
RULES = {
    "publicize_image": ADMIN,
    "communitize_image": ADMIN_OR_MEMBER,
    "copy_image": ADMIN,
    "download_from_store": DOWNLOAD,
    "get_image_location": ADMIN_OR_READER,
}


async def target(request: Request) -> dict[str, Any]:
    """What rules are asked about before the image is known: something of the caller's own."""
    own = request.caller.project_id
    return {
        "project_id": own,
        "owner": own,
        "visibility": "private",
        "member_id": request.params.get("member_id", own),
        "user_id": request.caller.user_id,
    }


def may(request: Request, rule: str) -> Check:
    """A check of one rule, to be asked once the image is known."""

    def check(image: Image) -> None:
        if not _allows(request, rule, _target(request, image)):
            if not _allows(request, "get_image", _target(request, image)):
                raise NotFound(f"No image found with ID {image.id}")
            raise Forbidden(f"You are not authorized to complete {rule} action.")

    return check


def show(request: Request, image: Image, visibility: str) -> None:
    """Raise Forbidden unless the caller may give the image that visibility."""
    _check_visibility(request, visibility, _target(request, image))


def create(request: Request, owner: str | None, visibility: str) -> None:
    """Raise Forbidden unless the caller may make an image for that project, with that visibility."""
    target = {"project_id": owner, "owner": owner, "visibility": visibility}
    if not _allows(request, "add_image", target):
        if owner != request.caller.project_id:
            raise Forbidden(f"You are not permitted to create images owned by '{owner}'.")
        raise Forbidden("You are not authorized to complete add_image action.")
    _check_visibility(request, visibility, target)


def _check_visibility(request: Request, visibility: str, target: dict[str, Any]) -> None:
    rule = {"public": "publicize_image", "community": "communitize_image"}.get(visibility)
    if rule is not None and not _allows(request, rule, target):
        raise Forbidden(f"You are not authorized to complete {rule} action.")


def _target(request: Request, image: Image) -> dict[str, Any]:
    return {
        "project_id": image.owner,
        "owner": image.owner,
        "visibility": image.visibility,
        "member_id": request.caller.project_id if image.member else "",
    }


def _allows(request: Request, rule: str, target: dict[str, Any]) -> bool:
    return request.cloud.policy.allows(rule, request.caller, target)
