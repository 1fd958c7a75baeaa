"""Servers on their way to another host: resized, migrated, evacuated.

Each is a row of ``migrations`` and a desired phase; the plan moves the claims. In which states a move is possible
follows the upstream decorators (nova/compute/api.py).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from cumulet.core import flavors, images, migrations
from cumulet.core.servers import actions, boot, create, find
from cumulet.db.engine import Row, Tx
from cumulet.errors import Conflict, Invalid, NotFound
from cumulet.reconcile import agents, holders
from cumulet.values import Caller


def resize(tx: Tx, caller: Caller, id: str, flavorid: str, *, disk_config: str | None = None) -> None:
    """Give a server another flavor, on another host. Raises NotFound, Conflict, Invalid, OverQuota.

    See the compute API reference, "Resize server". A disk does not become smaller.
    """
    row = actions.ready(tx, caller, id, "resize", ("active", "stopped"))
    find.require_host(row)
    _require_its_host(tx, row)
    flavor = _flavor(tx, caller, row, flavorid)
    _check_more(tx, caller, row, flavor)
    values: dict[str, Any] = {"disk_config": disk_config} if disk_config else {}
    # Until it is known how it ends, what it may become counts.
    values |= {name: max(flavor[name], row["flavor"][name]) for name in ("vcpus", "ram")}
    _begin(tx, caller, row, "resize", "resize", "resize_prep", flavor=flavor, **values)


def _flavor(tx: Tx, caller: Caller, row: Row, flavorid: str) -> dict[str, Any]:
    try:
        found = flavors.find(tx, caller, flavorid)
    except NotFound as error:
        raise Invalid(error.message) from None
    if found.disabled:
        raise Invalid(f"Flavor {flavorid} could not be found.")
    if found.flavorid == row["flavorid"]:
        raise Invalid("When resizing, instances must change flavor!")
    new, old = create.snapshot_of(found), row["flavor"]
    volume_backed = boot.boots_from_volume(tx, row["id"])
    _check_image(tx, row, new, volume_backed=volume_backed)
    if not volume_backed:
        if new["disk"] == 0 and old["disk"] != 0:
            raise Invalid("Resize to zero disk flavor is not allowed.")
        if new["disk"] < old["disk"]:
            raise Invalid(
                f"Resize error: Unable to resize disk down: the server's disk has {old['disk']} GiB, "
                f"the flavor's {new['disk']} GiB."
            )
    return new


def _check_image(tx: Tx, row: Row, flavor: dict[str, Any], *, volume_backed: bool) -> None:
    """Raise Invalid if the flavor has less than the server's image asks for; one that is gone asks for nothing."""
    if volume_backed:
        known = tx.value(
            "select v.image_metadata from block_devices b join volumes v on v.id = b.volume_id "
            "where b.server_id = :id and b.boot_index = 0",
            id=row["id"],
        )
        boot.fits_memory(flavor, int((known or {}).get("min_ram") or 0))
        return
    image = images.known(tx, row["image_id"] or "")
    if image is not None:
        boot.fits_memory(flavor, image.min_ram)
        boot.fits_disk(flavor, image, zero_disk=True)


def _check_more(tx: Tx, caller: Caller, row: Row, flavor: dict[str, Any]) -> None:
    """Raise OverQuota for what the new flavor has more than the old one."""
    more = {name: max(flavor[name] - row["flavor"][name], 0) for name in ("vcpus", "ram")}
    create.check_growth(tx, row["project_id"], row["user_id"], more)


def migrate(tx: Tx, caller: Caller, id: str, host: str | None = None) -> None:
    """Move a server to another host, powered off meanwhile. Raises NotFound, Conflict, Invalid (the host)."""
    row = actions.ready(tx, caller, id, "migrate", ("active", "stopped"))
    find.require_host(row)
    _require_its_host(tx, row)
    _check_host(tx, row, host)
    _begin(tx, caller, row, "migrate", "migration", "resize_prep", host=host)


def live_migrate(tx: Tx, caller: Caller, id: str, host: str | None = None) -> str:
    """Move a server to another host while it runs; return the move's id. Raises NotFound, Conflict, Invalid (the host)."""
    row = actions.ready(tx, caller, id, "live-migration", ("active", "paused"))
    find.require_host(row)
    _check_host(tx, row, host)
    if _away(tx, row):
        raise Invalid(f"Compute service of {find.host_name(tx, row)} is unavailable at this time.")
    return _begin(
        tx, caller, row, "live-migration", "live-migration", "migrating", host=host, status="preparing"
    )


def evacuate(
    tx: Tx,
    caller: Caller,
    id: str,
    host: str | None = None,
    *,
    password: str | None = None,
    stop: bool = False,
    shared: bool = False,
) -> None:
    """Make a server anew on another host, because its own is down. Raises NotFound, Conflict, Invalid.

    ``stop``: it is not started there (since 2.95). ``shared``: the caller thinks that its disks are on storage that
    both hosts have. What is left on the old host is that host's debt.
    """
    row = actions.ready(tx, caller, id, "evacuate", ("active", "stopped", "error"))
    find.require_host(row)
    try:
        _check_host(tx, row, host)
    except _Unknown as error:
        raise NotFound(error.message) from None
    if shared and _on_host(tx, id):
        raise Invalid("The disks of this server are its host's own: there is no storage that hosts share.")
    if not _away(tx, row):
        raise Invalid(
            f"Compute service of {find.host_name(tx, row)} is still in use. A server is evacuated from a host that is down."
        )
    desired = "stopped" if stop or row["desired"] == "stopped" else "active"
    # Nothing changes before there is a host to go to.
    values: dict[str, Any] = {"pending": {"name": "evacuate", "desired": desired}}
    if password is not None and row["config_drive"]:
        values["request"] = {**row["request"], "admin_password": password}
    _begin(tx, caller, row, "evacuate", "evacuation", "rebuilding", host=host, status="accepted", **values)


def _on_host(tx: Tx, id: str) -> bool:
    found = tx.one(
        "select 1 from block_devices where server_id = :id and destination_type = 'local' limit 1", id=id
    )
    return found is not None


def _require_its_host(tx: Tx, row: Row) -> None:
    """Raise Conflict if nobody answers for the host that the server is on."""
    if _away(tx, row):
        raise Conflict("Service is unavailable at this time.")


def _away(tx: Tx, row: Row) -> bool:
    found = agents.views(tx, {row["host"]}).get(row["host"])
    return found is None or found.away


class _Unknown(Invalid):
    """There is no such host."""


def _check_host(tx: Tx, row: Row, host: str | None) -> None:
    """Raise Invalid unless the host, if one is named, is there and another one than the server's."""
    if host is None:
        return
    found = tx.one("select id from agents where kind = 'host' and name = :name and not destroyed", name=host)
    if found is None:
        raise _Unknown(f"Compute host {host} could not be found.")
    if found["id"] == row["host"]:
        raise Invalid(f"Cannot migrate server {row['id']} to the host where it is: {host}.")


def _begin(
    tx: Tx, caller: Caller, row: Row, action: str, type: str, task: str, *, host: str | None = None,
    flavor: dict[str, Any] | None = None, status: str = "pre-migrating", **values: Any,
) -> str:  # fmt: skip
    refuse_two(tx, row)
    move = migrations.begin(tx, row, type, host=host, flavor=flavor, status=status)
    actions.begin(tx, caller, row, action, task, migration_id=move, **values)
    # A host is chosen in a transaction of its own.
    tx.unsettled.pop(row["id"], None)
    holders.later(tx, row["id"])
    return move


def refuse_two(tx: Tx, row: Row) -> None:
    """Raise Conflict for a server that is on its way already, whatever state an administrator has it show."""
    move = migrations.of(tx, row)
    if move is not None:
        raise Conflict(
            f"Instance {row['id']} has a {move['type']} that is not over: its status is {move['status']}. "
            "Confirm or revert it first."
        )


def confirm(tx: Tx, caller: Caller, id: str) -> None:
    """Keep a resized server as it is; what its old host has of it goes. Raises NotFound, Conflict, Invalid."""
    row, move = _finished(tx, caller, id, "confirmResize")
    actions.begin(tx, caller, row, "confirmResize", None)
    migrations.move_on(tx, row, move, "confirming")


def revert(tx: Tx, caller: Caller, id: str) -> None:
    """Take a resized server back to where it was, as it was. Raises NotFound, Conflict, Invalid, OverQuota."""
    row, move = _finished(tx, caller, id, "revertResize")
    old, new = move["old_flavor"], move["new_flavor"]
    create.check_growth(
        tx,
        row["project_id"],
        row["user_id"],
        {name: max(old[name] - new[name], 0) for name in ("vcpus", "ram")},
    )
    actions.begin(tx, caller, row, "revertResize", "resize_reverting")
    migrations.move_on(tx, row, move, "reverting")


def _finished(tx: Tx, caller: Caller, id: str, action: str) -> tuple[Row, Row]:
    row = actions.ready(tx, caller, id, action, ("resized",))
    move = migrations.of(tx, row)
    if move is None or move["phase"] != "finished":
        raise Invalid("Instance has not been resized.")
    return row, move


class NotUnderWay(NotFound):
    """The server has no such live migration."""


def abort(tx: Tx, caller: Caller, id: str, number: int, *, queued: bool = True) -> None:
    """End a live migration that is under way; the server stays where it is. Raises NotFound, Conflict, Invalid.

    ``queued``: also before it has begun (since 2.65).
    """
    row, move = _under_way(tx, caller, id, number)
    if move["status"] not in ("running", *(("queued", "preparing") if queued else ())):
        raise Invalid(f"Migration {number} state of instance {id} is {move['status']}. Cannot abort it.")
    actions.begin(tx, caller, row, "live_migration_cancel", row["task_state"])
    phase = "aborting" if move["phase"] == "moving" else "failing"
    migrations.move_on(tx, row, move, phase, migrations.ABORTED)


def force_complete(tx: Tx, caller: Caller, id: str, number: int) -> None:
    """Pause a server's guest so that its live migration ends. Raises NotFound, NotUnderWay, Conflict, Invalid."""
    row, move = _under_way(tx, caller, id, number, states=("active",))
    if move["status"] != "running":
        raise Invalid(f"Migration {number} state of instance {id} is {move['status']}. It must be running.")
    actions.begin(
        tx,
        caller,
        row,
        "live_migration_force_complete",
        row["task_state"],
        counters=actions.more(row, "hurries"),
    )


def _under_way(
    tx: Tx, caller: Caller, id: str, number: int, states: Collection[str] | None = None
) -> tuple[Row, Row]:
    row = find.locked(tx, caller, id)
    find.refuse_locked(caller, row)
    find.require_state(row, "live_migration_abort", states, ("migrating",))
    move = migrations.of(tx, row)
    if move is None or move["number"] != number or move["type"] != "live-migration":
        raise NotUnderWay(f"In-progress live migration {number} is not found for server {id}.")
    return row, move
