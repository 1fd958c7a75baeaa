"""What a project has of images, and how much more it may have. Counted when asked, never stored.

The limits are the image service's unified limits: sizes are in MiB. See its documentation, "Per-Tenant Quotas".
"""

from __future__ import annotations

from cumulet.core import quota
from cumulet.db.engine import Tx
from cumulet.reconcile.plan.image import FILLING

MIB = 1 << 20


def usage(tx: Tx, project_id: str | None) -> dict[str, int]:
    """What the project has of each limited thing."""
    rows = tx.all(
        "select status, count(*) as n, coalesce(sum(size), 0) as bytes from images "
        "where owner = :owner and desired <> 'gone' group by status",
        owner=project_id,
    )
    count = {row["status"]: int(row["n"]) for row in rows}
    size = {row["status"]: int(row["bytes"]) for row in rows}
    coming = _announced(tx, project_id)
    staged = size.get("uploading", 0) + coming.get("uploading", 0)
    whole = sum(size.values()) + sum(coming.values())
    return {
        "image_size_total": (whole - staged) // MIB,
        "image_stage_total": staged // MIB,
        "image_count_total": sum(count.values()),
        "image_count_uploading": sum(count.get(status, 0) for status in FILLING),
    }


def _announced(tx: Tx, project_id: str | None) -> dict[str, int]:
    """Bytes that clients who are sending have announced, by the images' status."""
    found: dict[str, int] = {}
    for row in tx.all(
        "select status, origin from images where owner = :owner and size is null and status in :filling",
        owner=project_id, filling=FILLING,
    ):  # fmt: skip
        found[row["status"]] = found.get(row["status"], 0) + int((row["origin"] or {}).get("size") or 0)
    return found


def check_count(tx: Tx, project_id: str | None) -> None:
    """Raise OverQuota if the project may not have another image."""
    _check(tx, project_id, {"image_count_total": 1})


def check_size(
    tx: Tx, project_id: str | None, size: int | None, *, stage: bool = False, known: bool = False
) -> int | None:
    """Raise OverQuota if the project may not have ``size`` more bytes, or take in one more image now.

    ``known``: the image's bytes are here already. Returns how many more bytes the project may have; None for
    any number.
    """
    name = "image_stage_total" if stage else "image_size_total"
    limits, used = _check(
        tx, project_id, {name: max(1, -(-(size or 0) // MIB)), "image_count_uploading": 0 if known else 1}
    )
    limit = limits.get(name, quota.UNLIMITED)
    return None if limit == quota.UNLIMITED else max(0, limit - used[name]) * MIB


def _check(tx: Tx, project_id: str | None, asked: dict[str, int]) -> tuple[dict[str, int], dict[str, int]]:
    if project_id is None:
        return {}, {}
    quota.lock_project(tx, project_id)
    limits = quota.limits(tx, "image", project_id)
    if all(limits.get(name, quota.UNLIMITED) == quota.UNLIMITED for name in asked):
        return limits, {}
    used = usage(tx, project_id)
    quota.check(limits, used, asked)
    return limits, used


def report(tx: Tx, project_id: str | None) -> dict[str, dict[str, int]]:
    """Per limited thing what the project has and may have."""
    limits = quota.limits(tx, "image", project_id or "")
    used = usage(tx, project_id)
    return {name: {"usage": used[name], "limit": limits[name]} for name in used}
