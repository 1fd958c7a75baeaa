"""The bytes of images: taking them in, staging them, and where they can be read.

An upload is a row and a claim like everything else: the request writes that an image is to be filled from an
upload, the image store's agent comes and fetches the bytes, and its report makes the image active, or sends it
back to ``queued`` with the reason.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from cumulet.core import quota
from cumulet.core.images import finding, lifecycle, usage
from cumulet.core.images.finding import Check, Image
from cumulet.db.engine import Tx
from cumulet.errors import Conflict, Forbidden, Invalid
from cumulet.values import Caller


class Progress(msgspec.Struct, frozen=True):
    """How far an upload is: ``waits`` for its bytes, ``done``, ``failed`` for a reason, or the image is ``gone``."""

    state: Literal["waits", "done", "failed", "gone"]
    reason: str = ""
    cause: str = ""


class Bytes(msgspec.Struct, frozen=True):
    """Where the bytes of an image can be read; ``claim`` None: it has none."""

    size: int
    checksum: str | None = None
    agent: str = ""
    claim: str | None = None


def begin(
    tx: Tx, caller: Caller, id: str, upload: str, size: int | None, check: Check, *, stage: bool = False
) -> None:
    """Fill a queued image from an upload, or stage the bytes of one; ``size`` as the client announced it.

    Raises NotFound, Forbidden, Conflict unless the image is queued, Invalid if its formats are not set,
    OverQuota.
    """
    owner = finding.find(tx, caller, id).owner
    lock_owner(tx, owner)
    image = finding.locked(tx, caller, id, check)
    if image.status != "queued":
        raise Conflict(
            f"Image {id} is {image.status}: bytes can be uploaded to an image that is queued, and only once."
        )
    if not stage:
        require_formats(image)
    limit = usage.check_size(tx, image.owner, size, stage=stage)
    origin = {"upload": upload, "size": size, "limit": limit}
    lifecycle.fill(tx, id, origin, "uploading" if stage else "saving")


def lock_owner(tx: Tx, owner: str | None) -> None:
    """Lock the project that the image counts for, which goes before the image."""
    if owner is not None:
        quota.lock_project(tx, owner)


def require_formats(image: Image) -> None:
    """Raise Invalid unless it is known what the image's bytes are going to be."""
    missing = [name for name in ("disk_format", "container_format") if not getattr(image, name)]
    if missing:
        raise Invalid(
            f"{'Property' if len(missing) == 1 else 'Properties'} {', '.join(missing)} must be set prior to saving data."
        )


def progress(tx: Tx, id: str, upload: str) -> Progress:
    """How far an upload to an image is."""
    row = tx.one("select desired, status, size, error, cause, origin from images where id = :id", id=id)
    if row is None or row["desired"] == "gone":
        return Progress("gone")
    if (row["origin"] or {}).get("upload") == upload:
        staged = row["status"] == "uploading" and row["size"] is not None
        return Progress("done" if staged or row["status"] == "importing" else "waits")
    if row["status"] in ("active", "deactivated"):
        return Progress("done")
    return Progress("failed", row["error"] or "the upload was given up", row["cause"] or "")


def readable(tx: Tx, caller: Caller, id: str, check: Check) -> Bytes:
    """Where the image's bytes are. Raises NotFound, Forbidden also for one that is deactivated."""
    image = finding.find(tx, caller, id)
    if image.status == "deactivated" and not caller.is_admin:
        raise Forbidden("The requested image has been deactivated. Image data download is forbidden.")
    check(image)
    if image.status not in ("active", "deactivated"):
        return Bytes(0)
    row = tx.one(
        "select id, agent from claims where holder = :id and kind = 'file' and wanted and made and seen = 'present'",
        id=id,
    )
    if row is None:
        return Bytes(0)
    return Bytes(image.size or 0, image.checksum, row["agent"], row["id"])
