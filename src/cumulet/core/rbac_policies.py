"""Shares: letting single projects, or all ("*"), use a network or a security group.

A share with everybody is also a flag of the network, so that lists need not look here for it.
"""

from __future__ import annotations

from typing import Any

from cumulet.core import network_quotas, networks, securitygroups
from cumulet.core.network_resources import Column, Item, Listing, Noun, bump, own, owner_of, row_of
from cumulet.core.network_resources import page as page_of
from cumulet.core.rights import Rights
from cumulet.db.engine import Duplicate, Row, Tx
from cumulet.db.query import Where
from cumulet.errors import Conflict, Invalid

#: What can be shared, and how.
ACTIONS = {"network": ("access_as_shared", "access_as_external"), "security_group": ("access_as_shared",)}

NOUN = Noun(
    one="rbac_policy",
    many="rbac_policies",
    title="RBAC policy",
    source="rbac_policies n",
    columns={
        "id": Column("n.id"),
        "project_id": Column("n.project_id"),
        "tenant_id": Column("n.project_id"),
        "object_type": Column("n.object_type"),
        "object_id": Column("n.object_id"),
        "action": Column("n.action"),
        "target_project": Column("n.target_project"),
        "target_tenant": Column("n.target_project"),
    },
    tagged=False,
)


def page(tx: Tx, rights: Rights, listing: Listing) -> list[Row]:
    """A page of the shares that the caller made; for an administrator of all."""
    where = Where()
    own(where, rights, "get_rbac_policy")
    return page_of(tx, NOUN, where, listing)


def show(tx: Tx, rights: Rights, id: str) -> Row:
    """A share. Raises NotFound."""
    where = Where()
    own(where, rights, "get_rbac_policy")
    return row_of(tx, NOUN, where, id)


def create(tx: Tx, rights: Rights, item: Item) -> Row:
    """Share something. Raises Forbidden, OverQuota, NotFound, Invalid, Conflict."""
    project_id = owner_of(rights, item)
    target_project = _target_project(item)
    target = {"project_id": project_id, "target_project": target_project}
    rights.demand("create_rbac_policy", target)
    rights.demand("create_rbac_policy:target_project", target)
    kind, action = item["object_type"], item["action"]
    if action not in ACTIONS[kind]:
        raise _invalid(f"action {action} of object_type {kind} is not in {list(ACTIONS[kind])}")
    _owned(tx, rights, kind, item["object_id"])
    network_quotas.check(tx, project_id, "rbac_policy")
    id = tx.uuid()
    try:
        tx.insert(
            "rbac_policies", id=id, project_id=project_id, object_type=kind, object_id=item["object_id"],
            action=action, target_project=target_project,
        )  # fmt: skip
    except Duplicate as error:
        raise Conflict(
            "An RBAC policy already exists with those values.", code="DuplicateRbacPolicy"
        ) from error
    row = show(tx, rights, id)
    _show_flag(tx, row)
    return row


def _target_project(item: Item) -> str:
    """The project shared with; ``target_tenant`` is its old name. Raises Invalid."""
    found = item.get("target_project") or item.get("target_tenant")
    if not found:
        raise Invalid("Failed to parse request. Required attribute 'target_project' not specified")
    return str(found)


def _invalid(message: str) -> Invalid:
    return Invalid(f"Invalid input for operation: {message}.", code="InvalidInput")


def _owned(tx: Tx, rights: Rights, kind: str, id: str) -> None:
    """Raise NotFound or Invalid unless the thing is the caller's to share; it stays until that is done."""
    tx.lock("networks" if kind == "network" else "security_groups", id)
    row = networks.find(tx, rights, id) if kind == "network" else securitygroups.find(tx, rights, id)
    if row["project_id"] != rights.project and not rights.caller.is_admin:
        raise _invalid("Only admins can manipulate policies on objects they do not own")


def _show_flag(tx: Tx, row: Row) -> None:
    """Keep the network's flags equal to its shares: external by any, shared by one with everybody."""
    if row["object_type"] != "network":
        return
    external = row["action"] == "access_as_external"
    found = tx.one(
        "select 1 from rbac_policies where object_type = 'network' and object_id = :id and action = :action "
        "and (target_project = '*' or :external)",
        id=row["object_id"],
        action=row["action"],
        external=external,
    )
    bump(tx, "networks", row["object_id"], **{"external" if external else "shared": found is not None})


def update(tx: Tx, rights: Rights, id: str, item: Item) -> Row:
    """Share with another project instead. Raises NotFound, Forbidden, Invalid, Conflict."""
    row = show(tx, rights, id)
    target_project = _target_project(item)
    target = {"project_id": row["project_id"], "target_project": target_project}
    rights.demand("update_rbac_policy", target)
    rights.demand("update_rbac_policy:target_project", target)
    if target_project == row["target_project"]:
        return row
    _not_in_use(tx, row, but=target_project)
    try:
        tx.update("rbac_policies", id, target_project=target_project)
    except Duplicate as error:
        raise Conflict(
            "An RBAC policy already exists with those values.", code="DuplicateRbacPolicy"
        ) from error
    _show_flag(tx, row)
    return show(tx, rights, id)


def delete(tx: Tx, rights: Rights, id: str) -> None:
    """Take a share back. Raises NotFound, Forbidden, Conflict while somebody makes use of it."""
    row = show(tx, rights, id)
    rights.demand("delete_rbac_policy", {"project_id": row["project_id"]})
    _not_in_use(tx, row, but="")
    tx.delete("rbac_policies", id)
    _show_flag(tx, row)


#: Per kind and action: the projects that make use of a thing.
_USERS: dict[tuple[str, str], str] = {
    ("network", "access_as_shared"): (
        "select project_id from ports where network_id = :id and device_owner not like 'network:%' "
        "union select project_id from subnets where network_id = :id"
    ),
    ("network", "access_as_external"): (
        "select project_id from routers where gateway_network_id = :id "
        "union select project_id from floatingips where floating_network_id = :id"
    ),
    ("security_group", "access_as_shared"): (
        "select p.project_id from port_security_groups s join ports p on p.id = s.port_id "
        "where s.security_group_id = :id"
    ),
}


def _not_in_use(tx: Tx, row: Row, *, but: str) -> None:
    """Raise Conflict if a project would lose what it uses; ``but`` is one that gets a share instead."""
    if but == "*":
        return
    id, kind, action = row["object_id"], row["object_type"], row["action"]
    table = "networks" if kind == "network" else "security_groups"
    owner = tx.value(f"select project_id from {table} where id = :id", id=id)
    others: list[Any] = tx.values(
        "select target_project from rbac_policies where object_id = :id and object_type = :kind "
        "and action = :action and id <> :policy",
        id=id, kind=kind, action=action, policy=row["id"],
    )  # fmt: skip
    if "*" in others:
        return
    users = set(tx.values(_USERS[kind, action], id=id)) - {owner, "", but, *others}
    if row["target_project"] != "*":
        users &= {row["target_project"]}
    if users:
        raise Conflict(
            f"RBAC policy on object {id} cannot be removed because other objects depend on it. Details: projects "
            f"{', '.join(sorted(users)[:10])} use it.",
            code="RbacPolicyInUse",
        )
