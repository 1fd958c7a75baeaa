"""Sharing images: the projects that an image is shared with, and what they answered.

See the image API reference, "Sharing".
"""

from __future__ import annotations

import msgspec

from cumulet.core.images import finding
from cumulet.core.images.finding import Check, Image
from cumulet.db.engine import Row, Tx
from cumulet.errors import Conflict, Forbidden, NotFound, TooLarge
from cumulet.values import Caller

#: The largest number of members of an image: the service's default.
MEMBERS = 128


class Member(msgspec.Struct, frozen=True):
    """A project that an image is shared with."""

    image_id: str
    member: str
    #: pending, accepted or rejected
    status: str
    created_at: float
    updated_at: float


def _member(row: Row) -> Member:
    return Member(**{name: row[name] for name in Member.__struct_fields__})


def _shared(image: Image) -> None:
    if image.visibility != "shared":
        raise Forbidden("Only shared images have members.")


def _find(tx: Tx, caller: Caller, image: Image, member: str) -> Member:
    """One member; for who is neither the image's owner nor an administrator only itself is there."""
    row = None
    if caller.sees(image.owner) or caller.project_id == member:
        row = tx.one(
            "select * from image_members where image_id = :id and member = :member",
            id=image.id,
            member=member,
        )
    if row is None:
        raise NotFound(f"{member} not found in the member list of the image {image.id}.")
    return _member(row)


def listing(tx: Tx, caller: Caller, id: str, check: Check) -> list[Member]:
    """The members that the caller may see. Raises NotFound, Forbidden also if the image is not shared."""
    image = finding.find(tx, caller, id)
    _shared(image)
    check(image)
    rows = tx.all("select * from image_members where image_id = :id order by created_at, member", id=id)
    return [_member(row) for row in rows if caller.sees(image.owner) or row["member"] == caller.project_id]


def find(tx: Tx, caller: Caller, id: str, member: str, check: Check) -> Member:
    """One member. Raises NotFound, also if the caller may not see it."""
    image = finding.find(tx, caller, id)
    try:
        _shared(image)
        check(image)
    except Forbidden as error:
        raise NotFound(error.message) from None
    return _find(tx, caller, image, member)


def add(tx: Tx, caller: Caller, id: str, member: str, check: Check) -> Member:
    """Share an image with a project. Raises NotFound, Forbidden, Conflict, TooLarge."""
    image = finding.locked(tx, caller, id, _shared)
    check(image)
    number = int(tx.value("select count(*) from image_members where image_id = :id", id=id))
    if (
        tx.one("select 1 from image_members where image_id = :id and member = :m", id=id, m=member)
        is not None
    ):
        raise Conflict(f"Member {member} is duplicated for image {id}")
    if number >= MEMBERS:
        raise TooLarge(f"Image member limit exceeded for image {id}: {number + 1} of {MEMBERS}.")
    tx.insert(
        "image_members", image_id=id, member=member, status="pending", created_at=tx.now, updated_at=tx.now
    )
    return _find(tx, caller, image, member)


def answer(tx: Tx, caller: Caller, id: str, member: str, status: str, check: Check) -> Member:
    """A member accepts or rejects an image, or has yet to decide. Raises NotFound, Forbidden."""
    image = finding.locked(tx, caller, id, _shared)
    before = _find(tx, caller, image, member)
    check(image)
    tx.run(
        "update image_members set status = :status, updated_at = :now where image_id = :id and member = :member",
        status=status, now=tx.now, id=id, member=member,
    )  # fmt: skip
    return msgspec.structs.replace(before, status=status, updated_at=tx.now)


def remove(tx: Tx, caller: Caller, id: str, member: str, check: Check) -> None:
    """Share an image with a project no more. Raises NotFound, Forbidden."""
    image = finding.locked(tx, caller, id, _shared)
    _find(tx, caller, image, member)
    check(image)
    tx.run("delete from image_members where image_id = :id and member = :member", id=id, member=member)
