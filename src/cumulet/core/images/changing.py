"""Making, changing and deleting images. See the image API reference, "Images" and "Deactivate image"."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from cumulet.core.images import finding, lifecycle, usage
from cumulet.core.images.finding import Check, Image
from cumulet.db.engine import Duplicate, Tx
from cumulet.errors import Conflict, Forbidden, NotFound, TooLarge
from cumulet.reconcile import holders
from cumulet.values import Caller

#: The largest numbers of properties, tags and members of an image: the service's defaults.
PROPERTIES = 128
TAGS = 128

#: Raises Forbidden unless the caller may give an image that visibility.
Show = Callable[[Image, str], None]


class New(msgspec.Struct, frozen=True):
    """An image as it is asked for."""

    owner: str | None
    id: str | None = None
    name: str | None = None
    columns: Mapping[str, Any] = {}
    properties: Mapping[str, str] = {}
    tags: Sequence[str] = ()


class Change(msgspec.Struct, frozen=True):
    """One operation of a JSON patch. ``once``: an add of what is there is refused, as in drafts of old."""

    op: str
    name: str
    value: Any = None
    once: bool = False


#: Fields of an image that can be replaced.
FIELDS = frozenset(
    ("name", "visibility", "protected", "os_hidden", "container_format", "disk_format", "min_disk", "min_ram",
     "owner", "tags")
)  # fmt: skip


def create(tx: Tx, caller: Caller, new: New) -> Image:
    """Make an image without bytes, ``queued``. Raises OverQuota, Conflict for an id that is taken, TooLarge."""
    _limit("properties", len(new.properties), PROPERTIES)
    _limit("tags", len(set(new.tags)), TAGS)
    usage.check_count(tx, new.owner)
    if new.id is not None and tx.one("select 1 from holders where id = :id", id=new.id) is not None:
        raise Conflict(f"Image ID {new.id} already exists!")
    try:
        id = lifecycle.create_inner(
            tx, id=new.id, owner=new.owner, name=new.name, properties=new.properties, tags=new.tags,
            **new.columns,
        )  # fmt: skip
    except Duplicate:
        raise Conflict(f"Image ID {new.id} already exists!") from None
    return _written(tx, id)


def _limit(what: str, number: int, most: int) -> None:
    if number > most:
        raise TooLarge(
            f"The limit has been exceeded on the number of allowed image {what}: {number} of {most}."
        )


def patch(tx: Tx, caller: Caller, id: str, changes: Sequence[Change], check: Check, show: Show) -> Image:
    """Carry out the operations in their order, all or none, and return the image as it is then.

    Raises NotFound, Forbidden, Conflict for properties that are not there, TooLarge above the limits.
    """
    image = finding.locked(tx, caller, id, lambda _: None)
    fields: dict[str, Any] = {}
    properties = dict(image.properties)
    for change in changes:
        if change.name == "visibility" and change.op != "remove":
            show(image, change.value)
        check(image)
        if change.name == "locations":
            raise Forbidden(f"It's not allowed to {change.op} locations if locations are invisible.")
        if change.name in FIELDS:
            _change_field(caller, image, change, fields)
        else:
            _change_property(change, properties)
    if len(properties) > len(image.properties):
        _limit("properties", len(properties), PROPERTIES)
    if changes:
        write(tx, image, fields, properties)
    return _written(tx, id)


def _written(tx: Tx, id: str) -> Image:
    row = tx.one(f"select {finding.COLUMNS} from images where id = :id", id=id)
    assert row is not None
    return finding.complete(tx, [row])[0]


def _change_field(caller: Caller, image: Image, change: Change, fields: dict[str, Any]) -> None:
    name = change.name
    if change.op == "remove":
        raise Forbidden(f"Property {name} may not be removed.")
    if change.op == "add" and change.once:
        raise Conflict(f"Property {name} already present.")
    if name == "owner" and not caller.is_admin:
        raise Forbidden("Owner can't be updated by non admin.")
    if name in ("container_format", "disk_format") and image.status not in ("queued", "importing"):
        raise Forbidden(f"Attribute {name} can be only replaced for a queued image.")
    if name == "tags":
        _limit("tags", len(set(change.value)), TAGS)
    fields[name] = change.value


def _change_property(change: Change, properties: dict[str, str]) -> None:
    if change.op == "add":
        if change.once and change.name in properties:
            raise Conflict(f"Property {change.name} already present.")
        properties[change.name] = change.value
        return
    if change.name not in properties:
        raise Conflict(f"Property {change.name} does not exist.")
    if change.op == "remove":
        del properties[change.name]
    else:
        properties[change.name] = change.value


def write(tx: Tx, image: Image, fields: dict[str, Any], properties: Mapping[str, str]) -> None:
    """Write an image's changed fields, and its properties as they are from now on."""
    tags = fields.pop("tags", None)
    tx.update("images", image.id, **fields, updated_at=tx.now)
    if "owner" in fields:
        tx.update("holders", image.id, project_id=fields["owner"])
    for name in image.properties.keys() - properties.keys():
        tx.run("delete from image_properties where image_id = :id and name = :name", id=image.id, name=name)
    for name, value in properties.items():
        if image.properties.get(name) != value:
            tx.run(
                "insert into image_properties (image_id, name, value) values (:id, :name, :value) "
                "on conflict (image_id, name) do update set value = excluded.value",
                id=image.id, name=name, value=value,
            )  # fmt: skip
    if tags is not None:
        tx.run("delete from image_tags where image_id = :id", id=image.id)
        for tag in sorted(set(tags)):
            tx.insert("image_tags", image_id=image.id, tag=tag)


def delete(tx: Tx, caller: Caller, id: str, check: Check) -> None:
    """Want the image no more. Its bytes stay until nobody copies from them. Raises NotFound, Forbidden."""
    image = finding.locked(tx, caller, id, check, gone=True)
    if image.protected:
        raise Forbidden(f"Image {id} is protected and cannot be deleted.")
    lifecycle.delete_inner(tx, id)


def there(tx: Tx, id: str) -> bool:
    """True until the last of a deleted image is gone."""
    return tx.one("select 1 from images where id = :id", id=id) is not None


def deactivate(tx: Tx, caller: Caller, id: str, check: Check) -> None:
    """Keep others than administrators from the image's bytes. Raises NotFound, Forbidden."""
    _switch(tx, caller, id, check, "active", "deactivated")


def reactivate(tx: Tx, caller: Caller, id: str, check: Check) -> None:
    """Let everybody have the image's bytes again. Raises NotFound, Forbidden."""
    _switch(tx, caller, id, check, "deactivated", "active")


def _switch(tx: Tx, caller: Caller, id: str, check: Check, before: str, after: str) -> None:
    image = finding.locked(tx, caller, id, check)
    if image.status not in (before, after):
        verb = "deactivate" if after == "deactivated" else "reactivate"
        raise Forbidden(f"Not allowed to {verb} image in status '{image.status}'")
    if image.status == before:
        tx.update("images", id, status=after, updated_at=tx.now)
        holders.touch(tx, id)


def add_tag(tx: Tx, caller: Caller, id: str, tag: str, check: Check) -> None:
    """Add a tag; one that is there is no error. Raises NotFound, Forbidden, TooLarge."""
    image = finding.locked(tx, caller, id, check)
    if tag not in image.tags:
        _limit("tags", len(image.tags) + 1, TAGS)
        tx.insert("image_tags", image_id=id, tag=tag)
        tx.update("images", id, updated_at=tx.now)


def remove_tag(tx: Tx, caller: Caller, id: str, tag: str, check: Check) -> None:
    """Remove a tag. Raises NotFound, also if there is no such tag, Forbidden."""
    finding.locked(tx, caller, id, check)
    if not tx.run("delete from image_tags where image_id = :id and tag = :tag", id=id, tag=tag):
        raise NotFound(f"Image {id} has no tag {tag}.")
    tx.update("images", id, updated_at=tx.now)


def mismatch(disk_format: str | None, inspected: str | None) -> str | None:
    """Why an image must not be opened as its declared format; None if it may be.

    An upload may say what it likes of its bytes, but what opens them is told the declared format, so that must
    be what an inspection found.
    """
    if inspected is None or disk_format in (None, "ami", "ari", "aki"):
        return None
    found = "raw" if inspected in ("gpt", "raw") else inspected
    if found == disk_format:
        return None
    return f"the image is declared as {disk_format}, but its bytes are {inspected}"
