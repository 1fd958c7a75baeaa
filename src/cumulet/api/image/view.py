"""An image and a member as they are shown."""

from __future__ import annotations

from typing import Any

from cumulet.core.images.finding import Image
from cumulet.core.images.members import Member
from cumulet.wire.forms import instant

#: The one store that there is.
STORE = "file"
_SHOWN = (
    "name", "disk_format", "container_format", "visibility", "size", "virtual_size", "status", "checksum",
    "protected", "min_ram", "min_disk", "owner", "os_hidden", "os_hash_algo", "os_hash_value", "id",
)  # fmt: skip


def image(found: Image) -> dict[str, Any]:
    """The body of one image: its properties stand among its own fields."""
    path = f"/v2/images/{found.id}"
    body: dict[str, Any] = {**found.properties, **{name: getattr(found, name) for name in _SHOWN}}
    if found.desired == "gone":
        body["status"] = "pending_delete"
    if found.status in ("active", "deactivated"):
        body["stores"] = STORE
    for name, value in (
        ("os_glance_import_task", found.import_task),
        ("os_glance_importing_to_stores", found.import_left),
        ("os_glance_failed_import", found.import_failed),
    ):
        if value is not None:
            body[name] = value
    body["created_at"] = instant(found.created_at)
    body["updated_at"] = instant(found.updated_at)
    body["tags"] = list(found.tags)
    body["self"] = path
    body["file"] = f"{path}/file"
    body["schema"] = "/v2/schemas/image"
    return body


def member(found: Member) -> dict[str, Any]:
    return {
        "member_id": found.member,
        "image_id": found.image_id,
        "status": found.status,
        "created_at": instant(found.created_at),
        "updated_at": instant(found.updated_at),
        "schema": "/v2/schemas/member",
    }
