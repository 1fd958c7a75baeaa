"""Everything that is shown of servers, read in a constant number of statements for a whole page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from cumulet.core import ports, scheduling
from cumulet.core.servers import find as finding
from cumulet.db.engine import Row, Tx
from cumulet.values import Caller

#: vm_state → status, "" being the default, other keys the task states that show something else.
STATUS: Mapping[str, Mapping[str, str]] = {
    "active": {
        "": "ACTIVE",
        "rebooting": "REBOOT",
        "reboot_pending": "REBOOT",
        "reboot_started": "REBOOT",
        "rebooting_hard": "HARD_REBOOT",
        "reboot_pending_hard": "HARD_REBOOT",
        "reboot_started_hard": "HARD_REBOOT",
        "updating_password": "PASSWORD",
        "rebuilding": "REBUILD",
        "rebuild_block_device_mapping": "REBUILD",
        "rebuild_spawning": "REBUILD",
        "migrating": "MIGRATING",
        "resize_prep": "RESIZE",
        "resize_migrating": "RESIZE",
        "resize_migrated": "RESIZE",
        "resize_finish": "RESIZE",
    },
    "building": {"": "BUILD"},
    "stopped": {
        "": "SHUTOFF",
        "resize_prep": "RESIZE",
        "resize_migrating": "RESIZE",
        "resize_migrated": "RESIZE",
        "resize_finish": "RESIZE",
        "rebuilding": "REBUILD",
        "rebuild_block_device_mapping": "REBUILD",
        "rebuild_spawning": "REBUILD",
    },
    "resized": {"": "VERIFY_RESIZE", "resize_reverting": "REVERT_RESIZE"},
    "paused": {"": "PAUSED", "migrating": "MIGRATING"},
    "suspended": {"": "SUSPENDED"},
    "rescued": {"": "RESCUE"},
    "error": {
        "": "ERROR",
        "rebuilding": "REBUILD",
        "rebuild_block_device_mapping": "REBUILD",
        "rebuild_spawning": "REBUILD",
    },
    "deleted": {"": "DELETED"},
    "soft-delete": {"": "SOFT_DELETED"},
    "shelved": {"": "SHELVED"},
    "shelved_offloaded": {"": "SHELVED_OFFLOADED"},
}


class Shown(msgspec.Struct, frozen=True):
    """A server with what is shown of it but is not in its row."""

    row: Row
    status: str
    #: Name of the host; None where there is none.
    host: str | None = None
    #: UP, DOWN, MAINTENANCE, UNKNOWN; "" without a host.
    host_status: str = ""
    zone: str = ""
    ports: Sequence[Row] = ()
    #: (id, deleted with the server) of each volume.
    volumes: Sequence[tuple[str, bool]] = ()
    tags: Sequence[str] = ()
    #: When it was deleted; None for a server that is there.
    deleted_at: float | None = None


def status_of(vm_state: str, task_state: str | None) -> str:
    """What a client sees of the two states. See nova/api/openstack/common.py."""
    words = STATUS.get(vm_state)
    if words is None:
        return "UNKNOWN"
    return words.get(task_state or "", words[""])


def states_of(statuses: Sequence[str]) -> tuple[set[str], set[str]]:
    """The vm states and task states ("" for any other) that show one of the statuses; upper or lower case."""
    wanted = {status.upper() for status in statuses}
    vm_states, task_states = set(), set()
    for vm_state, words in STATUS.items():
        for task_state, status in words.items():
            if status in wanted:
                vm_states.add(vm_state)
                task_states.add(task_state)
    return vm_states, task_states


def show(tx: Tx, caller: Caller, id: str) -> Shown:
    """One server. Raises NotFound."""
    return complete(tx, [finding.find(tx, caller, id)])[0]


def complete(tx: Tx, rows: Sequence[Row]) -> list[Shown]:
    """What is shown of each server."""
    if not rows:
        return []
    ids = tuple(row["id"] for row in rows)
    plugged = ports.of_server(tx, ids)
    volumes: dict[str, list[tuple[str, bool]]] = {}
    for device in tx.all(
        "select server_id, volume_id, delete_on_termination from block_devices where server_id in :ids "
        "and volume_id is not null and replaces is null order by position, created_at, id",
        ids=ids,
    ):
        volumes.setdefault(device["server_id"], []).append(
            (device["volume_id"], device["delete_on_termination"])
        )
    tags: dict[str, list[str]] = {}
    for tag in tx.all("select server_id, tag from server_tags where server_id in :ids order by tag", ids=ids):
        tags.setdefault(tag["server_id"], []).append(tag["tag"])
    hosts = _hosts(tx, {row["host"] for row in rows if row["host"] is not None})
    zones = scheduling.zones_of_hosts(tx) if hosts else {}
    return [
        _shown(row, hosts.get(row["host"]), zones, plugged.get(row["id"], ()), volumes.get(row["id"], ()),
               tags.get(row["id"], ()))
        for row in rows
    ]  # fmt: skip


def _shown(
    row: Row, host: Row | None, zones: Mapping[str, str], plugged: Sequence[Row],
    volumes: Sequence[tuple[str, bool]], tags: Sequence[str],
) -> Shown:  # fmt: skip
    status = status_of(row["vm_state"], row["task_state"])
    zone = row["zone"] or ""
    if host is not None:
        zone = zones.get(host["name"]) or host["zone"]
    return Shown(
        row, status, host["name"] if host else None, _host_status(host), zone, plugged, volumes, tags
    )


def _hosts(tx: Tx, ids: set[str]) -> dict[str, Row]:
    if not ids:
        return {}
    rows = tx.all(
        "select id, name, zone, silent, forced_down, disabled, destroyed from agents where id in :ids",
        ids=ids,
    )
    return {row["id"]: row for row in rows}


def _host_status(host: Row | None) -> str:
    """See "host_status" in the compute API reference, "Show server details"."""
    if host is None:
        return ""
    if host["forced_down"] or host["destroyed"]:
        return "DOWN"
    if host["silent"]:
        return "UNKNOWN"
    return "MAINTENANCE" if host["disabled"] else "UP"


def gone(row: Row) -> Shown:
    """A server that was deleted, from the history."""
    kept: dict[str, Any] = row["server"]
    kept = {
        **kept,
        "vm_state": "deleted",
        "task_state": None,
        "power_state": 0,
        "updated_at": row["deleted_at"],
    }
    return Shown(
        kept, "DELETED", kept.get("host_name"), deleted_at=row["deleted_at"], zone=kept.get("zone") or ""
    )
