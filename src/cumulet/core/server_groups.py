"""Server groups: servers that are to run on the same host, or on different ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from cumulet.core import quota
from cumulet.db.engine import Row, Tx, chunks
from cumulet.errors import NotFound
from cumulet.values import Caller

Policy = Literal["affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity"]


class Group(msgspec.Struct, frozen=True):
    """A server group with the ids of its servers."""

    id: str
    project_id: str
    user_id: str
    name: str
    policy: Policy
    rules: Mapping[str, int]
    members: tuple[str, ...] = ()


def create(tx: Tx, caller: Caller, name: str, policy: Policy, rules: Mapping[str, int]) -> Group:
    """Make a group in the caller's project. Raises OverQuota."""
    assert caller.project_id is not None
    quota.lock_project(tx, caller.project_id)
    limits = quota.limits(tx, "compute", caller.project_id)
    quota.check(limits, {"server_groups": count(tx, caller.project_id)}, {"server_groups": 1})
    own = quota.overrides(tx, "compute", quota.user_owner(caller.project_id, caller.user_id))
    if "server_groups" in own:
        used = count(tx, caller.project_id, caller.user_id)
        quota.check(own, {"server_groups": used}, {"server_groups": 1})
    group = Group(
        id=tx.uuid(),
        project_id=caller.project_id,
        user_id=caller.user_id,
        name=name,
        policy=policy,
        rules=rules,
    )
    row = {**msgspec.structs.asdict(group), "rules": dict(rules)}
    del row["members"]
    tx.insert("server_groups", **row, created_at=tx.now)
    return group


def count(tx: Tx, project_id: str, user_id: str | None = None) -> int:
    """How many groups a project has, or one user in it."""
    of_user = "" if user_id is None else " and user_id = :user"
    params = {"project": project_id} if user_id is None else {"project": project_id, "user": user_id}
    found: int = tx.value(
        f"select count(*) from server_groups where project_id = :project{of_user}", **params
    )
    return found


def find(tx: Tx, caller: Caller, group_id: str) -> Group:
    """One group. Raises NotFound, also for what the caller does not see."""
    row = tx.one("select * from server_groups where id = :id", id=group_id)
    if row is None or not caller.sees(row["project_id"]):
        raise NotFound(f"Instance group {group_id} could not be found.")
    return _groups(tx, [row])[0]


def listing(
    tx: Tx, caller: Caller, *, everybody: bool, limit: int | None = None, offset: int = 0
) -> list[Group]:
    """A page of the caller's project's groups, or of all, in the order in which they were made."""
    where = "1 = 1" if everybody else "project_id = :project"
    params = {} if everybody else {"project": caller.project_id}
    rows = tx.all(
        f"select * from server_groups where {where} order by created_at, id limit :limit offset :offset",
        limit=limit if limit is not None else 1 << 62,
        offset=offset,
        **params,
    )
    return _groups(tx, rows)


def delete(tx: Tx, caller: Caller, group_id: str) -> None:
    """Remove a group; its servers stay, in none. Raises NotFound."""
    group = find(tx, caller, group_id)
    tx.run("update servers set group_id = null where group_id = :id", id=group.id)
    tx.delete("server_groups", group.id)


def _groups(tx: Tx, rows: list[Row]) -> list[Group]:
    members: dict[str, list[str]] = {}
    for some in chunks(row["id"] for row in rows):
        found = tx.all(
            "select id, group_id from servers where group_id in :ids and desired not in ('gone', 'soft_deleted') order by created_at, id",
            ids=some,
        )
        for server in found:
            members.setdefault(server["group_id"], []).append(server["id"])
    return [
        Group(
            **{name: row[name] for name in Group.__struct_fields__ if name != "members"},
            members=tuple(members.get(row["id"], ())),
        )
        for row in rows
    ]
