"""What users and operators may ask: what ``core.servers`` writes for each, if it does not refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from tests.sim.model.world import Control, Image, Move, Row

#: The state of the control plane after what was asked, before anything is reconciled; None: it is refused.
Ask = Callable[[Control, Row], Control | None]

#: How long a server that was shelved may take to come back.
BUILD_TIME = 5.0


def _do(c: Control, row: Row, task: str | None, **changes: Any) -> Control:
    """What ``core.servers.actions.begin`` writes."""
    return replace(c, server=replace(row, task_state=task, state_is_reset=False, **changes))


def delete(c: Control, row: Row) -> Control | None:
    if row.desired == "gone":
        return None
    return replace(c, server=replace(row, desired="gone", task_state="deleting"))


def delete_volume(c: Control) -> Control | None:
    if c.volume != "available" or c.attachment not in ("", "passed"):
        return None
    return replace(c, volume="gone")


def unwant_image(c: Control) -> Control:
    return c if c.image is None else replace(c, image=replace(c.image, desired="gone"))


def _delete_image(c: Control, row: Row) -> Control | None:
    return None if c.image is None or c.image.desired == "gone" else unwant_image(c)


def _idle(row: Row, *states: str) -> bool:
    return row.desired != "gone" and row.task_state is None and row.vm_state in states


# --- moves ---


def enter(row: Row, phase: str, error: str | None = None) -> Row:
    """A move's phase, and what it means for the server: what ``core.migrations.move_on`` does."""
    move = row.move
    assert move is not None
    row = replace(row, move=replace(move, phase=phase, error=error or move.error))
    back = phase in ("failing", "reverting")
    if not back and phase != "finishing":
        return row
    starts = row.starts + 1 if move.type in ("resize", "migration") else row.starts
    return replace(row, host=move.source if back else move.target, starts=starts)


def _begin(c: Control, row: Row, type: str, task: str) -> Control | None:
    if row.host is None or row.move is not None:
        return None
    return _do(c, row, task, move=Move(type, row.host))


def _migrate(c: Control, row: Row) -> Control | None:
    if not _idle(row, "active", "stopped") or row.host in c.away:
        return None
    return _begin(c, row, "migration", "resize_prep")


def _live_migrate(c: Control, row: Row) -> Control | None:
    if not _idle(row, "active", "paused") or row.host in c.away:
        return None
    return _begin(c, row, "live-migration", "migrating")


def _evacuate(c: Control, row: Row) -> Control | None:
    if not _idle(row, "active", "stopped", "error") or row.host not in c.away:
        return None
    return _begin(c, row, "evacuation", "rebuilding")


def _abort(c: Control, row: Row) -> Control | None:
    move = row.move
    if move is None or move.type != "live-migration" or row.task_state != "migrating":
        return None
    if move.phase not in ("preparing", "moving", "aborting"):
        return None
    row = enter(row, "failing" if move.phase == "preparing" else "aborting", "it was aborted")
    return _do(c, row, row.task_state)


def _confirm(c: Control, row: Row) -> Control | None:
    if not _idle(row, "resized") or row.move is None or row.move.phase != "finished":
        return None
    return _do(c, enter(row, "confirming"), None)


def _revert(c: Control, row: Row) -> Control | None:
    if not _idle(row, "resized") or row.move is None or row.move.phase != "finished":
        return None
    return _do(c, enter(row, "reverting"), "resize_reverting")


# --- images ---


def _shelve(c: Control, row: Row) -> Control | None:
    if not _idle(row, "active", "stopped") or c.image is not None:
        return None
    c = _do(c, row, "shelving", desired="shelved", shelved=True, shelved_at=None)
    return replace(c, image=Image())


def _unshelve(c: Control, row: Row) -> Control | None:
    if not _idle(row, "shelved", "shelved_offloaded"):
        return None
    if row.vm_state == "shelved_offloaded":
        row = replace(row, attempts=0, build_until=c.now + BUILD_TIME)
    return _do(c, row, "unshelving", desired="active", starts=row.starts + 1)


def _snapshot(c: Control, row: Row) -> Control | None:
    if not _idle(row, "active", "stopped") or c.image is not None:
        return None
    return replace(_do(c, row, "image_snapshot", snapshot=True), image=Image())


ASKS: dict[str, Ask] = {
    "migrates": _migrate,
    "confirms": _confirm,
    "reverts": _revert,
    "live-migrates": _live_migrate,
    "aborts": _abort,
    "evacuates": _evacuate,
    "shelves": _shelve,
    "unshelves": _unshelve,
    "takes an image": _snapshot,
    "deletes the image": _delete_image,
}
#: What is asked is written; a worker reconciles it, in a transaction of its own.
LATER = frozenset({"live-migrates"})
