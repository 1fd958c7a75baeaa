"""What was done to a server: one action for each request, with the events that it led to.

Rows stay when the server is gone; see the compute API reference, "Servers actions logs".
"""

from __future__ import annotations

from cumulet.db.engine import Tx
from cumulet.values import Caller

#: The event that each action leads to, by upstream's names.
EVENTS = {
    "create": "compute__do_build_and_run_instance",
    "delete": "compute_terminate_instance",
    "soft_delete": "compute_soft_delete_instance",
    "stop": "compute_stop_instance",
    "start": "compute_start_instance",
    "reboot": "compute_reboot_instance",
    "shelve": "compute_shelve_instance",
    "shelveOffload": "compute_shelve_offload_instance",
    "unshelve": "compute_unshelve_instance",
    "pause": "compute_pause_instance",
    "unpause": "compute_unpause_instance",
    "suspend": "compute_suspend_instance",
    "resume": "compute_resume_instance",
    "rescue": "compute_rescue_instance",
    "unrescue": "compute_unrescue_instance",
    "restore": "compute_restore_instance",
    "rebuild": "compute_rebuild_instance",
    "evacuate": "compute_rebuild_instance",
    "resize": "compute_finish_resize",
    "migrate": "compute_finish_resize",
    "confirmResize": "compute_confirm_resize",
    "revertResize": "compute_finish_revert_resize",
    "live-migration": "compute_live_migration",
    "live_migration_cancel": "compute_live_migration_abort",
    "live_migration_force_complete": "compute_live_migration_force_complete",
    "createImage": "compute_snapshot_instance",
    "createBackup": "compute_backup_instance",
    "changePassword": "compute_set_admin_password",
    "attach_volume": "compute_attach_volume",
    "detach_volume": "compute_detach_volume",
    "extend_volume": "compute_extend_volume",
    "swap_volume": "compute_swap_volume",
    "attach_interface": "compute_attach_interface",
    "detach_interface": "compute_detach_interface",
}


def begin(
    tx: Tx, server_id: str, action: str, caller: Caller, *, host: str | None = None, event: str | None = None
) -> str:
    """Write down that an action was asked for; return its id. ``event``: the key of EVENTS, if it is another one."""
    id = tx.uuid()
    tx.insert(
        "actions", id=id, server_id=server_id, action=action, request_id=caller.request_id, user_id=caller.user_id,
        project_id=caller.project_id, started_at=tx.now, updated_at=tx.now,
    )  # fmt: skip
    name = EVENTS.get(event or action)
    if name is not None:
        tx.insert("action_events", id=tx.uuid(), action_id=id, event=name, started_at=tx.now, host=host)
    return id


def finish(
    tx: Tx, server_id: str, *, error: str | None = None, host: str | None = None, action: str | None = None
) -> None:
    """The server is as was asked, or it failed: whatever of it is still open ends now. ``action``: only of these."""
    mine = "server_id = :server" + ("" if action is None else " and action = :action")
    tx.run(
        "update action_events set finished_at = :now, result = :result, details = :error, host = coalesce(:host, host) "
        f"where finished_at is null and action_id in (select id from actions where {mine})",
        now=tx.now, result="Success" if error is None else "Error", error=error, host=host, server=server_id,
        action=action,
    )  # fmt: skip
    message = "Error" if error is not None else None
    tx.run(
        f"update actions set updated_at = :now, message = coalesce(:message, message) where {mine} "
        "and updated_at = started_at",
        now=tx.now, message=message, server=server_id, action=action,
    )  # fmt: skip
