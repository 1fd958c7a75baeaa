"""Importing images: what is staged, what is on the web, what other stores have.

There is one store, named ``file``. See the image API reference, "Interoperable image import" and "Tasks".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from cumulet.core.catalog import BASE
from cumulet.core.images import changing, data, finding, lifecycle, tasks, usage
from cumulet.core.images.changing import New
from cumulet.core.images.finding import Check, Image
from cumulet.core.images.lifecycle import STORE
from cumulet.core.images.tasks import Task
from cumulet.db.engine import Tx
from cumulet.errors import Conflict, CumuletError, Forbidden, Invalid, NotFound, OverQuota
from cumulet.reconcile import holders
from cumulet.values import Caller

#: What is taken over from an image that is downloaded, beside its formats: properties that begin so.
TAKEN_OVER = ("hw_", "trait:", "os_distro", "os_secure_boot", "os_type")


class Remote(msgspec.Struct, frozen=True):
    """An image of the image service of a region."""

    region: str
    interface: str
    image_id: str
    #: Asked whether the caller may download it.
    check: Check


def begin(
    tx: Tx, caller: Caller, id: str, method: str, asked: Mapping[str, Any], check: Check, *,
    url: str | None = None, remote: Remote | None = None,
) -> None:  # fmt: skip
    """Begin an import of an image by a method; ``asked`` is the request, for the task.

    ``url``: for web-download, an address that may be read. ``remote``: for glance-download, another image.
    Raises NotFound, Forbidden, Conflict for an image that is in no state for it, Invalid, OverQuota.
    """
    data.lock_owner(tx, finding.find(tx, caller, id).owner)
    image = finding.locked(tx, caller, id, lambda _: None)
    _ready(image, method)
    check(image)
    if image.import_task is not None:
        raise Conflict("Image has active task")
    stores = _stores(asked)
    if method == "copy-image":
        if not asked.get("all_stores"):
            raise Invalid(f"Image is already present at store '{STORE}'")
        # It is everywhere already: there is nothing that is left, or that failed.
        tx.update("images", id, import_left="", import_failed="")
        return
    limit = usage.check_size(tx, image.owner, image.size, known=image.status != "queued")
    task = tasks.begin(
        tx, caller, "api_image_import", id, {"image_id": id, "import_req": dict(asked), "backend": stores}
    )
    if remote is not None:
        try:
            _fill_from(tx, caller, image, remote, limit)
        except CumuletError as error:
            # The request is accepted, and its task tells what came of it, as it does where regions are far.
            tasks.end(tx, task, error.message)
            tx.update("images", id, import_left="", import_failed=STORE)
            return
    elif method == "web-download":
        lifecycle.fill(tx, id, {"url": url, "limit": limit}, "importing")
    else:
        tx.update("images", id, status="importing", updated_at=tx.now)
        holders.touch(tx, id)
    tx.update("images", id, import_task=task, import_left=",".join(stores), import_failed="")


def _fill_from(tx: Tx, caller: Caller, image: Image, remote: Remote, limit: int | None) -> None:
    """Fill an image with the bytes, formats and some properties of another one. Raises what is wrong with that one."""
    urls = tx.values(
        "select e.url from endpoints e join services s on s.id = e.service_id where s.type = 'image' and s.enabled "
        "and e.enabled and e.region_id = :region and e.interface = :interface",
        region=remote.region, interface=remote.interface,
    )  # fmt: skip
    if not urls:
        raise NotFound(f"Region {remote.region} has no image service with the interface {remote.interface}")
    if not any(url.startswith(BASE) for url in urls):
        # Its tokens are not ours to give away, and what is stored for the store to read holds no secrets.
        raise Invalid(
            f"The image service of region {remote.region} is not of this cloud, which reads its own alone"
        )
    original = finding.find(tx, caller, remote.image_id)
    found = data.readable(tx, caller, original.id, remote.check)
    if found.claim is None:
        raise Conflict(f"Image {original.id} is {original.status}: it has no bytes")
    if limit is not None and found.size > limit:
        raise OverQuota(f"Image {original.id} has {found.size} bytes; the project may have {limit} more")
    properties = {name: value for name, value in original.properties.items() if name.startswith(TAKEN_OVER)}
    fields = {"disk_format": original.disk_format, "container_format": original.container_format}
    changing.write(tx, image, fields, {**image.properties, **properties})
    lifecycle.fill(tx, image.id, {"copy": found.claim}, "importing")


def _ready(image: Image, method: str) -> None:
    if image.status == "active" and method != "copy-image":
        raise Conflict("Image with status active cannot be target for import")
    if image.status != "active" and method == "copy-image":
        raise Conflict("Only images with status active can be targeted for copying")
    if image.status != "queued" and method in ("web-download", "glance-download"):
        raise Conflict(f"Image needs to be in 'queued' state to use '{method}' method")
    if image.status != "uploading" and method == "glance-direct":
        raise Conflict("Image needs to be staged before 'glance-direct' method can be used")
    if method == "glance-direct" and image.size is None:
        raise Conflict("Image is still being staged")
    for name in ("container_format", "disk_format"):
        if not getattr(image, name):
            raise Conflict(f"'{name}' needs to be set before import")


def _stores(asked: Mapping[str, Any]) -> Sequence[str]:
    """The stores that a request names. Raises Conflict for one that there is not."""
    stores = asked.get("stores")
    if not stores or asked.get("all_stores"):
        return [STORE]
    for store in stores:
        if store != STORE:
            raise Conflict(f"The selected store {store} is not available on this node.")
    return [STORE]


def task(tx: Tx, caller: Caller, url: str, new: New, asked: Mapping[str, Any]) -> Task:
    """Make an image from an address on the web; it goes again if that fails. Raises OverQuota, TooLarge."""
    image = changing.create(tx, caller, new)
    data.require_formats(image)
    limit = usage.check_size(tx, image.owner, None)
    lifecycle.fill(tx, image.id, {"url": url, "limit": limit, "temporary": True}, "importing")
    id = tasks.begin(tx, caller, "import", image.id, asked)
    tx.update("images", image.id, import_task=id, import_left=STORE, import_failed="")
    return tasks.find(tx, caller, id)


def leave_store(tx: Tx, caller: Caller, id: str, store: str, see: Check, check: Check) -> None:
    """Remove an image from one store. As there is one, this is always refused, for one reason or another."""
    if store != STORE:
        raise Conflict(f"The selected store {store} is not available on this node.")
    image = finding.find(tx, caller, id)
    see(image)
    check(image)
    if image.status != "active":
        raise Conflict("It's not allowed to remove image data from store if image status is not 'active'")
    raise Forbidden(
        "Cannot delete image data from the only store containing it. Consider deleting the image instead."
    )
