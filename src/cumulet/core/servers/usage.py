"""What a project uses of compute's quota: counted from what exists, whatever its state."""

from __future__ import annotations

from cumulet.db.engine import Tx


def used(tx: Tx, project_id: str, user_id: str | None = None) -> dict[str, int]:
    """Instances, cores and MiB of memory of a project, or of one user within it.

    A server counts until its record is gone; one that was deleted softly counts no more.
    """
    whose = "" if user_id is None else " and user_id = :user"
    row = tx.one(
        "select count(*) as instances, coalesce(sum(vcpus), 0) as cores, coalesce(sum(ram), 0) as ram "
        f"from servers where project_id = :project and vm_state <> 'soft-delete'{whose}",
        project=project_id, **({} if user_id is None else {"user": user_id}),
    )  # fmt: skip
    assert row is not None
    return {name: int(value) for name, value in row.items()}
