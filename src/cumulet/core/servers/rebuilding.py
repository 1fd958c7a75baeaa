"""Servers whose disks are made anew, or that run from another disk for a while.

See the compute API reference, "Rebuild server", "Rescue server", "Unrescue server".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from cumulet.core import images, keypairs
from cumulet.core.servers import actions, boot, create, find, moving, show
from cumulet.core.servers.show import Shown
from cumulet.db.engine import Row, Tx
from cumulet.errors import Conflict, Invalid, NotFound
from cumulet.values import Caller


class Rebuild(msgspec.Struct, frozen=True, kw_only=True):
    """What a request to rebuild asks for. ``values``: columns that change: name, description, user_data, …"""

    image: str
    password: str | None = None
    preserve_ephemeral: bool = False
    metadata: Mapping[str, str] | None = None
    files: tuple[tuple[str, str], ...] = ()
    #: The key pair's name; "" for none, None for the one that it has.
    key_name: str | None = None
    values: Mapping[str, Any] = {}
    #: A volume that the server boots from is written anew (since 2.93).
    reimage: bool = False


def rebuild(tx: Tx, caller: Caller, id: str, asked: Rebuild) -> Shown:
    """Make a server's disks anew from an image; ports and volumes stay. Returns the server as it is now shown.

    Raises NotFound, Conflict, Invalid, OverQuota.
    """
    row = actions.ready(tx, caller, id, "rebuild", ("active", "stopped", "error"))
    find.require_host(row)
    moving.refuse_two(tx, row)
    image = boot.image(tx, caller, asked.image)
    boot.fits_memory(row["flavor"], image.min_ram)
    volume_backed = boot.boots_from_volume(tx, id)
    again: dict[str, Any] = {"keep": _kept(tx, id) if asked.preserve_ephemeral else []}
    if volume_backed:
        again |= _of_volume(tx, row, asked, image)
    else:
        boot.fits_disk(row["flavor"], image, zero_disk=True)
        tx.run(
            "update block_devices set image_id = :image where server_id = :id and source_type = 'image' "
            "and destination_type = 'local'",
            image=image.id, id=id,
        )  # fmt: skip
    if asked.metadata is not None:
        create.check_metadata(tx, caller, asked.metadata)
    create.check_files(tx, caller, asked.files)
    waits = _not_attached(tx, id)
    if waits is not None:
        raise Invalid(waits)
    request = dict(row["request"])
    if asked.password is not None and row["config_drive"]:
        request["admin_password"] = asked.password
    # Files are injected into the disk that a request makes, and kept for no other.
    request.pop("files", None)
    if asked.files:
        request["files"] = [list(file) for file in asked.files]
    values: dict[str, Any] = {**asked.values, **_key(tx, caller, asked.key_name)}
    if asked.metadata is not None:
        values["metadata"] = dict(asked.metadata)
    if not volume_backed:
        values |= {"image_id": image.id, "image_properties": dict(image.properties)}
    desired = "active" if row["desired"] == "active" else "stopped"
    actions.begin(
        tx, caller, row, "rebuild", "rebuilding", rebuild=again, request=request, desired=desired, fault=None,
        rescue=None, progress=0, counters=actions.more(row, "starts"), **values,
    )  # fmt: skip
    return show.show(tx, caller, id)


def _kept(tx: Tx, id: str) -> list[str]:
    count = tx.value(
        "select count(*) from block_devices where server_id = :id and source_type = 'blank' "
        "and destination_type = 'local' and coalesce(guest_format, '') <> 'swap'",
        id=id,
    )
    return [f"ephemeral{i}" for i in range(int(count))]


def _not_attached(tx: Tx, id: str) -> str | None:
    """Why the volumes of a server are not there for a new guest; None if they are."""
    row = tx.one(
        "select v.id, v.status from block_devices b join volumes v on v.id = b.volume_id left join attachments t "
        "on t.volume_id = b.volume_id and t.server_id = b.server_id and not t.by_client "
        "where b.server_id = :id and (b.detaching or coalesce(t.status, '') <> 'attached') order by v.id limit 1",
        id=id,
    )
    if row is None:
        return None
    return (
        f"Invalid volume: volume {row['id']} must be attached, and neither be attached nor detached just now."
    )


def _of_volume(tx: Tx, row: Row, asked: Rebuild, image: images.Image) -> dict[str, Any]:
    """A volume-backed server keeps its volume as it is, unless the request knows of what would be lost.

    Raises Invalid; Conflict for a volume that others write to as well.
    """
    if asked.values.get("trusted_image_certificates"):
        raise Invalid("Image certificate validation is not supported for volume-backed servers.")
    volume = tx.one(
        "select v.* from block_devices b join volumes v on v.id = b.volume_id "
        "where b.server_id = :id and b.boot_index = 0",
        id=row["id"],
    )
    assert volume is not None
    if asked.reimage:
        boot.fits_volume(volume["size"], boot.size_of(image), image.min_disk)
        attachments = tx.value("select count(*) from attachments where volume_id = :id", id=volume["id"])
        if attachments > 1:
            raise Conflict("Cannot re-image a volume which is attached to more than one server.")
        return {"image": image.id}
    if volume["image_metadata"].get("image_id") != image.id:
        raise Invalid(
            "Unable to rebuild with a different image for a volume-backed server before compute API version 2.93."
        )
    return {}


def _key(tx: Tx, caller: Caller, name: str | None) -> dict[str, Any]:
    """Key pairs are users': it is the one of who asks, whoever made the server."""
    if name is None:
        return {}
    if name == "":
        return {"key_name": None, "key_data": None}
    try:
        return {"key_name": name, "key_data": keypairs.find(tx, caller.user_id, name).public_key}
    except NotFound:
        raise Invalid(f"Invalid key_name provided: there is no key pair {name}.") from None


def rescue(
    tx: Tx, caller: Caller, id: str, image: str | None = None, *, password: str | None = None,
    volume_backed: bool = False,
) -> None:  # fmt: skip
    """Run a server from another disk, with its own ones beside it. Raises NotFound, Conflict, Invalid.

    ``image`` is what that disk is made from, the server's own image if none is named. ``volume_backed``: the
    request may rescue a server that boots from a volume (since 2.87): with an image that says how its disk is
    put beside the others.
    """
    row = actions.ready(tx, caller, id, "rescue", ("active", "stopped", "error"))
    find.require_host(row)
    moving.refuse_two(tx, row)
    source = image or row["image_id"]
    if source is None:
        raise Invalid(f"Instance {id} cannot be rescued: it has no image, and rescue_image_ref names none.")
    properties = boot.image(tx, caller, source).properties
    if properties.get("img_block_device_mapping") or properties.get("block_device_mapping"):
        raise Invalid(
            f"Image {source} is not suitable to rescue with: it is of a server that boots from a volume."
        )
    waits = _not_attached(tx, id)
    if waits is not None:
        raise Conflict(waits)
    stable = "hw_rescue_bus" in properties and "hw_rescue_device" in properties
    if boot.boots_from_volume(tx, id) and not (volume_backed and stable):
        raise Invalid(f"Instance {id} cannot be rescued: Cannot rescue a volume-backed instance")
    values: dict[str, Any] = {"rescue": {"image": source}, "desired": "rescued"}
    if password is not None and row["config_drive"]:
        values["request"] = {**row["request"], "admin_password": password}
    actions.begin(
        tx, caller, row, "rescue", "rescuing", counters=actions.more(row, "hard_reboots", "starts"), **values
    )


def unrescue(tx: Tx, caller: Caller, id: str) -> None:
    """Run a server from its own disk again. Raises NotFound, Conflict."""
    row = actions.ready(tx, caller, id, "unrescue", ("rescued",))
    actions.begin(
        tx, caller, row, "unrescue", "unrescuing", desired="active", rescue=None,
        counters=actions.more(row, "hard_reboots", "starts"),
    )  # fmt: skip
