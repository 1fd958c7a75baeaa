"""Images and their metadata, as compute showed them until 2.35 and 2.38.

See the compute API reference, "Images (DEPRECATED)" and "Image metadata (DEPRECATED)".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from cumulet.api.asgi import Route
from cumulet.api.compute.links import links, page_of, unknown_marker, with_more
from cumulet.api.image import permit
from cumulet.api.image.images import remove
from cumulet.api.query import whole
from cumulet.api.request import Request, Response, no_content, ok
from cumulet.core import quota
from cumulet.core.images import changing, finding
from cumulet.core.images.changing import Change
from cumulet.core.images.finding import Filters, Image
from cumulet.core.policy import ANYONE
from cumulet.db.engine import Tx
from cumulet.db.query import MarkerNotFound
from cumulet.errors import Forbidden, Invalid, NotFound
from cumulet.values import Caller
from cumulet.wire import forms
from cumulet.wire import image as image_wire
from cumulet.wire.forms import Short

_KEY = re.compile(r"[a-zA-Z0-9\-_:. ]{1,255}\Z")
#: What the image service calls a status, and what compute did.
_STATUS = {
    "active": "ACTIVE",
    "queued": "SAVING",
    "saving": "SAVING",
    "uploading": "SAVING",
    "importing": "SAVING",
    "killed": "ERROR",
    "pending_delete": "DELETED",
    "deleted": "DELETED",
}
_PROGRESS = {"queued": 25, "saving": 50, "active": 100}


class Metadata(Struct, forbid_unknown_fields=True):
    metadata: dict[str, Short]

    def __post_init__(self) -> None:
        for key in self.metadata:
            if not _KEY.match(key):
                raise ValueError(f"{key[:300]!r} is not a key of metadata")


class Meta(Struct, forbid_unknown_fields=True):
    meta: dict[str, Short]

    def __post_init__(self) -> None:
        if len(self.meta) != 1 or not _KEY.match(next(iter(self.meta))):
            raise ValueError(
                "meta must hold one item, whose key has letters, digits, '-', '_', ':', '.' and ' '"
            )


def _links(request: Request, id: str) -> list[dict[str, str]]:
    alternate = {
        "rel": "alternate",
        "type": "application/vnd.openstack.image",
        "href": request.url(f"/image/images/{id}"),
    }
    return [*links(request, "images", id), alternate]


def _basic(request: Request, image: Image) -> dict[str, Any]:
    return {"id": image.id, "name": image.name, "links": _links(request, image.id)}


def _full(request: Request, image: Image) -> dict[str, Any]:
    status = "deleted" if image.desired == "gone" else image.status
    body = {
        **_basic(request, image),
        "minRam": image.min_ram,
        "minDisk": image.min_disk,
        "metadata": dict(image.properties),
        "created": forms.instant(image.created_at),
        "updated": forms.instant(image.updated_at),
        "status": _STATUS.get(status, "UNKNOWN"),
        "progress": _PROGRESS.get(status, 0),
        "OS-EXT-IMG-SIZE:size": image.size,
    }
    server = image.properties.get("instance_uuid")
    if server is not None:
        body["server"] = {"id": server, "links": links(request, "servers", server)}
    automatic = image.properties.get("auto_disk_config")
    if automatic is not None:
        body["OS-DCF:diskConfig"] = "AUTO" if automatic.strip().lower() in ("1", "true", "yes") else "MANUAL"
    return body


async def index(request: Request) -> Response:
    """GET /images"""
    return await _list(request, detailed=False)


async def detail(request: Request) -> Response:
    """GET /images/detail"""
    return await _list(request, detailed=True)


async def _list(request: Request, *, detailed: bool) -> Response:
    query = page_of(request)
    try:
        found = await request.cloud.db.read(finding.listing, request.caller, query, _filters(request))
    except MarkerNotFound as error:
        raise unknown_marker(error) from None
    form = _full if detailed else _basic
    body = {"images": [form(request, image) for image in found]}
    return ok(with_more(body, "images", request, query, [image.id for image in found]))


def _filters(request: Request) -> Filters:
    among: dict[str, list[Any]] = {}
    for name in ("name", "status"):
        value = request.arg(name)
        if value is not None:
            among[name] = [value.lower() if name == "status" else value]
    for name, column in (("minRam", "min_ram"), ("minDisk", "min_disk")):
        number = whole(request, name)
        if number is not None:
            among[column] = [number]
    properties = {
        name.removeprefix("property-"): value for name, value in request.query if name.startswith("property-")
    }
    for name, of in (("server", "instance_uuid"), ("type", "image_type")):
        value = request.arg(name)
        if value is not None:
            # A server may be named by its link.
            properties[of] = value.rsplit("/", 1)[-1] if name == "server" else value
    since = request.arg("changes-since")
    moments = [("updated_at", "gte", _moment(since))] if since is not None else []
    return Filters(among=among, properties=properties, moments=moments)


def _moment(text: str) -> float:
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise Invalid(
            f"Invalid input for query parameters changes-since: {text[:50]!r} is no time."
        ) from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


async def show(request: Request) -> Response:
    """GET /images/{image_id}"""
    found = await request.cloud.db.read(finding.find, request.caller, request.params["image_id"], gone=True)
    return ok({"image": _full(request, found)})


async def delete(request: Request) -> Response:
    """DELETE /images/{image_id}"""
    await remove(request, request.params["image_id"])
    return no_content()


async def _properties(request: Request) -> Mapping[str, str]:
    found = await request.cloud.db.read(finding.find, request.caller, request.params["image_id"])
    return found.properties


async def list_metadata(request: Request) -> Response:
    """GET /images/{image_id}/metadata"""
    return ok({"metadata": dict(await _properties(request))})


async def show_metadata(request: Request) -> Response:
    """GET /images/{image_id}/metadata/{key}"""
    key, found = request.params["key"], await _properties(request)
    if key not in found:
        raise NotFound(f"The image has no metadata with the key {key}.")
    return ok({"meta": {key: found[key]}})


async def add_metadata(request: Request) -> Response:
    """POST /images/{image_id}/metadata: add these, or replace those of the same keys"""
    asked = (await request.struct(Metadata)).metadata
    return ok({"metadata": await _change(request, asked, keep=True)})


async def replace_metadata(request: Request) -> Response:
    """PUT /images/{image_id}/metadata: these and no others"""
    asked = (await request.struct(Metadata)).metadata
    return ok({"metadata": await _change(request, asked, keep=False)})


async def set_metadata(request: Request) -> Response:
    """PUT /images/{image_id}/metadata/{key}"""
    asked = (await request.struct(Meta)).meta
    if request.params["key"] not in asked:
        raise Invalid("Request body and URI mismatch: the body must hold the item that the path names.")
    await _change(request, asked, keep=True)
    return ok({"meta": asked})


async def delete_metadata(request: Request) -> Response:
    """DELETE /images/{image_id}/metadata/{key}"""
    await _change(request, {}, keep=True, remove=request.params["key"])
    return no_content()


async def _change(
    request: Request, asked: Mapping[str, str], *, keep: bool, remove: str | None = None
) -> dict[str, str]:
    for key in asked:
        _check_key(key)
    check = permit.may(request, "modify_image")
    image: Image = await request.cloud.db.write(
        _write, request.caller, request.params["image_id"], asked, keep, remove, check
    )
    return dict(image.properties)


def _check_key(key: str) -> None:
    """Metadata must not reach an image's own fields. Raises Forbidden."""
    if key in image_wire.FIELDS or key == "locations":
        raise Forbidden(f"{key} is a field of images, not metadata; use the Image API to change it.")
    image_wire.property_name(key)


def _write(
    tx: Tx,
    caller: Caller,
    id: str,
    asked: Mapping[str, str],
    keep: bool,
    remove: str | None,
    check: finding.Check,
) -> Image:
    had = finding.locked(tx, caller, id, check).properties
    if remove is not None and remove not in had:
        raise NotFound(f"Invalid metadata key: the image has none with the key {remove}.")
    gone = [key for key in had if key == remove or not (keep or key in asked)]
    limit = quota.limits(tx, "compute", caller.project_id or "")["metadata_items"]
    if limit != quota.UNLIMITED and len({*had, *asked} - {*gone}) > limit:
        raise Forbidden(f"Image metadata limit exceeded: at most {limit} items are allowed.")
    changes = [Change("remove", key) for key in gone]
    changes += [Change("add", key, value) for key, value in asked.items()]
    return changing.patch(tx, caller, id, changes, check, lambda image, visibility: None)


# Compute has no rules of its own here: those of the image service are asked.
_RULE = "os_compute_api:images"
_ONE = "/v2.1/images/{image_id}"
_META = f"{_ONE}/metadata"
_LAST, _LAST_META = (2, 35), (2, 38)

ROUTES = (
    Route("GET", "/v2.1/images", index, _RULE, ANYONE, until=_LAST),
    Route("GET", "/v2.1/images/detail", detail, _RULE, ANYONE, until=_LAST),
    Route("GET", _ONE, show, _RULE, ANYONE, until=_LAST),
    Route("DELETE", _ONE, delete, _RULE, ANYONE, until=_LAST),
    Route("GET", _META, list_metadata, _RULE, ANYONE, until=_LAST_META),
    Route("POST", _META, add_metadata, _RULE, ANYONE, until=_LAST_META),
    Route("PUT", _META, replace_metadata, _RULE, ANYONE, until=_LAST_META),
    Route("GET", f"{_META}/{{key}}", show_metadata, _RULE, ANYONE, until=_LAST_META),
    Route("PUT", f"{_META}/{{key}}", set_metadata, _RULE, ANYONE, until=_LAST_META),
    Route("DELETE", f"{_META}/{{key}}", delete_metadata, _RULE, ANYONE, until=_LAST_META),
)
