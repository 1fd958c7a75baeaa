"""Servers whose disks are made anew, or that run from another disk for a while.

See the compute API reference, "Rebuild server", "Rescue server", "Unrescue server".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from cumulet.core import keypairs
from cumulet.core.servers import actions, boot, create, find
from cumulet.db.engine import Row, Tx
from cumulet.errors import Invalid, NotFound
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


def rebuild(tx: Tx, caller: Caller, id: str, asked: Rebuild) -> None:
    """Make a server's disks anew from an image; ports and volumes stay. Raises NotFound, Conflict, Invalid, OverQuota."""
    row = actions.ready(tx, caller, id, "rebuild", ("active", "stopped", "error"))
    find.require_host(row)
    image = boot.image(tx, caller, asked.image)
    boot.fits_memory(row["flavor"], image.min_ram)
    volume_backed = boot.boots_from_volume(tx, id)
    again: dict[str, Any] = {"keep": _kept(tx, id) if asked.preserve_ephemeral else []}
    if volume_backed:
        again |= _of_volume(tx, row, asked, image.id)
    else:
        boot.fits_disk(row["flavor"], image, zero_disk=True)
        tx.run(
            "update block_devices set image_id = :image where server_id = :id and source_type = 'image' "
            "and destination_type = 'local'",
            image=image.id, id=id,
        )  # fmt: skip
    if asked.metadata is not None:
        create.check_metadata(tx, caller, asked.metadata)
    request = dict(row["request"])
    if asked.password is not None and row["config_drive"]:
        request["admin_password"] = asked.password
    if asked.files:
        request["files"] = [list(file) for file in asked.files]
    values: dict[str, Any] = {**asked.values, **_key(tx, row, asked.key_name)}
    if asked.metadata is not None:
        values["metadata"] = dict(asked.metadata)
    if not volume_backed:
        values |= {"image_id": image.id, "image_properties": dict(image.properties)}
    desired = "active" if row["desired"] == "active" else "stopped"
    actions.begin(
        tx, caller, row, "rebuild", "rebuilding", rebuild=again, request=request, desired=desired, fault=None,
        counters=actions.more(row, "starts"), **values,
    )  # fmt: skip


def _kept(tx: Tx, id: str) -> list[str]:
    count = tx.value(
        "select count(*) from block_devices where server_id = :id and source_type = 'blank' "
        "and destination_type = 'local' and coalesce(guest_format, '') <> 'swap'",
        id=id,
    )
    return [f"ephemeral{i}" for i in range(int(count))]


def _of_volume(tx: Tx, row: Row, asked: Rebuild, image: str) -> dict[str, Any]:
    """A volume-backed server keeps its volume as it is, unless the request knows of what would be lost."""
    if asked.reimage:
        return {"image": image}
    known = tx.value(
        "select v.image_metadata from block_devices b join volumes v on v.id = b.volume_id "
        "where b.server_id = :id and b.boot_index = 0",
        id=row["id"],
    )
    if (known or {}).get("image_id") != image:
        raise Invalid(
            "Unable to rebuild with a different image for a volume-backed server before compute API version 2.93."
        )
    return {}


def _key(tx: Tx, row: Row, name: str | None) -> dict[str, Any]:
    if name is None:
        return {}
    if name == "":
        return {"key_name": None, "key_data": None}
    try:
        return {"key_name": name, "key_data": keypairs.find(tx, row["user_id"], name).public_key}
    except NotFound:
        raise Invalid(f"Invalid key_name provided: there is no key pair {name}.") from None


def rescue(
    tx: Tx, caller: Caller, id: str, image: str | None = None, *, password: str | None = None,
    volume_backed: bool = False,
) -> None:  # fmt: skip
    """Run a server from another disk, with its own ones beside it. Raises NotFound, Conflict, Invalid.

    ``image`` is what that disk is made from, the server's own image if none is named. ``volume_backed``: the
    request may rescue a server that boots from a volume (since 2.87).
    """
    row = actions.ready(tx, caller, id, "rescue", ("active", "stopped", "error"))
    find.require_host(row)
    if boot.boots_from_volume(tx, id) and not volume_backed:
        raise Invalid(f"Instance {id} cannot be rescued: Cannot rescue a volume-backed instance")
    source = image or row["image_id"]
    if source is None:
        raise Invalid(f"Instance {id} cannot be rescued: it has no image, and rescue_image_ref names none.")
    boot.image(tx, caller, source)
    before = "active" if row["desired"] == "active" else "stopped"
    values: dict[str, Any] = {"rescue": {"image": source, "before": before}, "desired": "rescued"}
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
