"""Networks: layer 2 segments, whose they are, and who else may use them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cumulet.core import network_agents, network_quotas, network_removal
from cumulet.core.network_resources import (
    MAX_ROWS,
    STANDARD,
    Column,
    Item,
    Listing,
    Noun,
    any_of,
    bump,
    flag,
    owner_of,
    row_of,
    set_tags,
    stamps,
    with_tags,
)
from cumulet.core.network_resources import (
    page as page_of,
)
from cumulet.core.rights import Rights
from cumulet.db.engine import Duplicate, Row, Tx, chunks
from cumulet.db.query import Where
from cumulet.errors import Conflict, Invalid
from cumulet.reconcile import holders

#: Types of segment, and the MTU that is left for guests on each.
MTU = {"geneve": 1442, "vlan": 1500, "flat": 1500}
#: The smallest MTU that IPv4 and IPv6 allow.
MIN_MTU = {4: 68, 6: 1280}
_GENEVE = (1 << 24) - 1
_VLAN = 4094


def _shared(where: Where, values: Any) -> None:
    """Shared with everybody, or with the caller's project (which ``visible`` has put among the parameters)."""
    either = "(n.shared or n.id in (select r.object_id from rbac_policies r where r.object_type = 'network' "
    either += "and r.action = 'access_as_shared' and r.target_project = :caller_project))"
    where.add(either if flag(values[-1]) else f"not {either}")


def _status(where: Where, values: Any) -> None:
    # A network has no other status: what is wrong with one shows at its ports.
    where.add("1 = 1" if "ACTIVE" in values else "1 = 0")


NOUN = Noun(
    one="network",
    many="networks",
    title="Network",
    source="networks n",
    columns={
        **STANDARD,
        "admin_state_up": Column("n.admin_state_up", "flag"),
        "mtu": Column("n.mtu", "number"),
        "router:external": Column("n.external", "flag", sort=False),
        "is_default": Column("n.is_default", "flag", sort=False),
        "provider:network_type": Column("n.network_type", sort=False),
        "provider:physical_network": Column("coalesce(n.physical_network, '')", sort=False),
        "provider:segmentation_id": Column("coalesce(n.segmentation_id, 0)", "number", sort=False),
    },
    specials={"shared": _shared, "status": _status},
    select=(
        "n.*, exists (select 1 from rbac_policies r where r.object_id = n.id and r.object_type = 'network' "
        "and r.action = 'access_as_shared' and r.target_project = :caller_project) as shared_with_caller"
    ),
)

#: Attributes that have a rule of their own.
_POLICED = frozenset(
    {
        "shared", "router:external", "is_default", "port_security_enabled", "provider:network_type",
        "provider:physical_network", "provider:segmentation_id", "tags",
    }
)  # fmt: skip


# --- reading ---


#: Shared with the caller, as external or altogether, or with everybody.
_OPEN = (
    "n.id in (select r.object_id from rbac_policies r where r.object_type = 'network' "
    "and r.target_project in ('*', :caller_project))"
)


def visible(where: Where, rights: Rights) -> None:
    """Let through the networks that the caller sees: its own, shared ones, external ones; for some, all."""
    where.params["caller_project"] = rights.project
    reach = rights.reach("get_network")
    if reach == "all":
        return
    where.add(f"n.project_id = :caller_project or {_OPEN}" if reach == "own" else _OPEN)


def page(tx: Tx, rights: Rights, listing: Listing) -> list[Row]:
    """A page of the networks that the caller sees, complete."""
    where = Where()
    visible(where, rights)
    return _complete(tx, page_of(tx, NOUN, where, listing))


def find(tx: Tx, rights: Rights, id: str) -> Row:
    """The network's row; ``shared`` says whether it is so for the caller. Raises NotFound."""
    where = Where()
    visible(where, rights)
    return _seen(row_of(tx, NOUN, where, id))


def show(tx: Tx, rights: Rights, id: str) -> Row:
    """The network, complete. Raises NotFound."""
    return _complete(tx, [find(tx, rights, id)])[0]


def _seen(row: Row) -> Row:
    row["shared"] = row["shared"] or bool(row["shared_with_caller"])
    return row


def _complete(tx: Tx, rows: list[Row]) -> list[Row]:
    """Add ``subnets``, ``zones`` and ``tags``."""
    zones = network_agents.zones(tx) if rows else []
    subnets: dict[str, list[str]] = {}
    for ids in chunks((row["id"] for row in rows), 1000):
        for subnet in tx.all(
            "select id, network_id from subnets where network_id in :ids order by created_at, id", ids=ids
        ):
            subnets.setdefault(subnet["network_id"], []).append(subnet["id"])
    for row in rows:
        _seen(row)["subnets"] = subnets.get(row["id"], [])
        row["zones"] = zones
    with_tags(tx, NOUN.many, rows)
    return rows


def target(row: Row) -> dict[str, Any]:
    """What rules may ask of a network."""
    return {"project_id": row["project_id"], "shared": row["shared"], "router:external": row["external"]}


def at_agent(tx: Tx, rights: Rights, agent: str) -> list[Row]:
    """The networks that an agent has, complete. Raises NotFound, Forbidden."""
    ids = network_agents.held_by(tx, rights, agent, "switch")
    where = Where()
    visible(where, rights)
    any_of(where, "n.id in :values", ids[:MAX_ROWS])
    return _complete(
        tx, tx.all(f"select {NOUN.select} from networks n where {where.sql} order by n.id", **where.params)
    )


def usable(tx: Tx, project_id: str, ids: Sequence[str] | None = None, *, is_admin: bool = False) -> list[Row]:
    """The networks that servers of a project can be plugged into: its own and shared ones, the oldest first.

    ``ids`` None: all of them. What is named can also be an external network, which takes a rule of its own, and for an
    administrator any network.
    """
    if is_admin and ids is not None:
        return tx.all("select * from networks where id in :ids order by created_at, id", ids=tuple(ids))
    chosen, actions = "", ["access_as_shared"]
    if ids is not None:
        chosen = "n.id in :ids and "
        actions.append("access_as_external")
    return tx.all(
        f"select n.* from networks n where {chosen}(n.project_id = :project or n.shared or n.id in "
        "(select r.object_id from rbac_policies r where r.object_type = 'network' "
        "and r.action in :actions and r.target_project in (:project, '*'))) order by n.created_at, n.id",
        project=project_id, actions=tuple(actions), **({} if ids is None else {"ids": tuple(ids)}),
    )  # fmt: skip


# --- writing ---


def create(tx: Tx, rights: Rights, item: Item) -> Row:
    """Make a network. Raises Forbidden, OverQuota, Invalid, Conflict."""
    project_id = owner_of(rights, item)
    rights.demand("create_network", {"project_id": project_id})
    rights.demand_each("create_network", item.given & _POLICED, {"project_id": project_id})
    id = insert(tx, project_id, item)
    if item.get("tags"):
        set_tags(tx, NOUN.many, id, item["tags"])
    return show(tx, rights, id)


def insert(tx: Tx, project_id: str, item: Item) -> str:
    """Make a network, without asking who may; returns its id. Raises OverQuota, Invalid, Conflict."""
    network_agents.check_zones(tx, item.get("availability_zone_hints") or ())
    network_quotas.check(tx, project_id, "network")
    segment = _segment(tx, item)
    if item.get("is_default"):
        _only_default(tx, None)
    id = tx.uuid()
    mtu = _mtu(item.get("mtu"), segment["network_type"])
    holders.create(tx, id, "network", project_id)
    try:
        tx.insert(
            "networks", id=id, project_id=project_id, mtu=mtu,
            **item.columns(
                "name", "description", "admin_state_up", "shared", "is_default", "port_security_enabled",
                "dns_domain", external="router:external", zone_hints="availability_zone_hints",
            ),
            **segment, **stamps(tx),
        )  # fmt: skip
    except Duplicate as error:
        raise _segment_in_use(segment) from error
    if item.get("shared"):
        _share(tx, id, project_id, "access_as_shared")
    if item.get("router:external"):
        _share(tx, id, project_id, "access_as_external")
    return id


def _segment(tx: Tx, item: Item) -> dict[str, Any]:
    """Columns of the segment: what was asked for, or a tunnel of our choice. Raises Invalid."""
    type_ = item.get("provider:network_type")
    physical = item.get("provider:physical_network")
    number = item.get("provider:segmentation_id")
    if type_ is None:
        if physical is not None or number is not None:
            raise _invalid("provider:network_type required")
        type_ = "geneve"
    if type_ not in MTU:
        raise _invalid(f"provider:network_type {type_} not supported. Known are {', '.join(sorted(MTU))}")
    if type_ == "geneve":
        if physical is not None:
            raise _invalid("provider:physical_network specified for geneve network")
        if number is None:
            number = _free_tunnel(tx)
        elif not 1 <= number <= _GENEVE:
            raise _invalid(f"provider:segmentation_id {number} is not from 1 to {_GENEVE}")
    else:
        if not physical:
            raise _invalid(f"physical_network required for {type_} provider network")
        if type_ == "flat" and number is not None:
            raise _invalid("segmentation_id prohibited for flat provider network")
        if type_ == "vlan" and number is None:
            number = _free_vlan(tx, physical)
        elif type_ == "vlan" and not 1 <= number <= _VLAN:
            raise _invalid(f"segmentation_id out of range (1 through {_VLAN})")
    return {"network_type": type_, "physical_network": physical, "segmentation_id": number}


def _invalid(message: str) -> Invalid:
    return Invalid(f"Invalid input for operation: {message}.", code="InvalidInput")


def _segment_in_use(segment: dict[str, Any]) -> Conflict:
    if segment["network_type"] == "flat":
        return Conflict(
            f"Unable to create the flat network. Physical network {segment['physical_network']} is in use.",
            code="FlatNetworkInUse",
        )
    if segment["network_type"] == "vlan":
        return Conflict(
            f"Unable to create the network. The VLAN {segment['segmentation_id']} on physical network "
            f"{segment['physical_network']} is in use.",
            code="VlanIdInUse",
        )
    return Conflict(
        f"Unable to create the network. The tunnel ID {segment['segmentation_id']} is in use.",
        code="TunnelIdInUse",
    )


def _free_tunnel(tx: Tx) -> int:
    """A tunnel's number that no network has: any of sixteen million, so that one is found at once."""
    while True:
        number = 1 + tx.chance.below(_GENEVE)
        taken = tx.one(
            "select 1 from networks where network_type = 'geneve' and coalesce(physical_network, '') = '' "
            "and coalesce(segmentation_id, 0) = :number",
            number=number,
        )
        if taken is None:
            return number


def _free_vlan(tx: Tx, physical: str) -> int:
    taken = set(
        tx.values(
            "select segmentation_id from networks where network_type = 'vlan' and physical_network = :physical",
            physical=physical,
        )
    )
    for number in range(1, _VLAN + 1):
        if number not in taken:
            return number
    raise Conflict(
        "Unable to create the network. No tenant network is available for allocation.",
        code="NoNetworkAvailable",
    )


def _only_default(tx: Tx, id: str | None) -> None:
    """Raise Conflict if another network is the default external one."""
    other = tx.value("select id from networks where is_default and id <> :id", id=id or "")
    if other is not None:
        raise Conflict(
            f"A default external network already exists: {other}.", code="DefaultExternalNetworkExists"
        )


def _share(tx: Tx, id: str, project_id: str, action: str) -> None:
    """The share with everybody that a flag of the network stands for."""
    tx.run(
        "insert into rbac_policies (id, project_id, object_type, object_id, action, target_project) "
        "values (:policy, :project, 'network', :id, :action, '*') on conflict do nothing",
        policy=tx.uuid(), project=project_id, id=id, action=action,
    )  # fmt: skip


def _unshare(tx: Tx, id: str, action: str) -> None:
    tx.run(
        "delete from rbac_policies where object_id = :id and object_type = 'network' and action = :action "
        "and (target_project = '*' or action = 'access_as_external')",
        id=id,
        action=action,
    )


def update(tx: Tx, rights: Rights, id: str, item: Item) -> Row:
    """Change a network. Raises NotFound, Forbidden, Invalid, Conflict."""
    row = find(tx, rights, id)
    rights.demand("update_network", target(row))
    rights.demand_each("update_network", item.given & _POLICED, target(row))
    changes = item.columns(
        "name", "description", "admin_state_up", "shared", "is_default", "port_security_enabled", "mtu",
        "dns_domain", external="router:external",
    )  # fmt: skip
    if any(name.startswith("provider:") for name in item.given):
        changes.update(_moved(row, item))
    if changes.get("shared") is False and row["shared"]:
        _may_unshare(tx, row)
    if changes.get("external") is False and row["external"]:
        _may_close(tx, row)
    if changes.get("is_default"):
        _only_default(tx, id)
    if "mtu" in changes:
        changes["mtu"] = _mtu(changes["mtu"], row["network_type"])
        _check_mtu(tx, id, changes["mtu"])
    if not changes:
        return show(tx, rights, id)
    try:
        bump(tx, "networks", id, **changes)
    except Duplicate as error:
        raise _segment_in_use({**row, **changes}) from error
    for column, action in (("shared", "access_as_shared"), ("external", "access_as_external")):
        if changes.get(column) is True:
            _share(tx, id, row["project_id"], action)
        elif changes.get(column) is False:
            _unshare(tx, id, action)
    holders.touch(tx, id)
    return show(tx, rights, id)


def _moved(row: Row, item: Item) -> dict[str, Any]:
    """Another segment number on the same kind of segment; the rest of a segment stays as it was made."""
    same = {
        "provider:network_type": row["network_type"],
        "provider:physical_network": row["physical_network"],
    }
    for name, value in same.items():
        if name in item and item[name] != value:
            raise _invalid(
                "Plugin does not support updating provider attributes: only the segmentation_id can change"
            )
    number = item.get("provider:segmentation_id", row["segmentation_id"])
    limit = {"geneve": _GENEVE, "vlan": _VLAN}.get(row["network_type"], 0)
    if number is None or not 1 <= number <= limit:
        raise _invalid(f"provider:segmentation_id {number} is not from 1 to {limit}")
    return {"segmentation_id": number}


def _may_unshare(tx: Tx, row: Row) -> None:
    """Raise Conflict if projects that would lose the network have something on it."""
    others = tx.values(
        "select project_id from ports where network_id = :id and device_owner not like 'network:%' "
        "union select project_id from subnets where network_id = :id",
        id=row["id"],
    )
    allowed = tx.values(
        "select target_project from rbac_policies where object_id = :id and object_type = 'network' "
        "and action = 'access_as_shared'",
        id=row["id"],
    )
    if set(others) - {row["project_id"], *(project for project in allowed if project != "*")}:
        raise Conflict(
            f"Unable to reconfigure sharing settings for network {row['name']}. Multiple projects are using it.",
            code="InvalidSharedSetting",
        )


def _may_close(tx: Tx, row: Row) -> None:
    """Raise Conflict while routers have their gateway on the network, or floating IPs are from it."""
    used = tx.one(
        "select 1 from ports where network_id = :id and device_owner in ('network:router_gateway', 'network:floatingip')",
        id=row["id"],
    )
    if used is not None:
        raise Conflict(
            f"External network {row['id']} cannot be updated to be made non-external, since it has existing "
            "gateway ports",
            code="ExternalNetworkInUse",
        )


def _mtu(asked: int | None, type_: str) -> int:
    """The MTU asked for, or all that the segment leaves. Raises Invalid if that is less."""
    if asked is not None and asked > MTU[type_]:
        raise _invalid(f"Requested MTU is too big, maximum is {MTU[type_]}")
    return asked or MTU[type_]


def _check_mtu(tx: Tx, id: str, mtu: int) -> None:
    """Raise Conflict for an MTU that is too small for one of the network's subnets."""
    for version in tx.values("select distinct ip_version from subnets where network_id = :id", id=id):
        if mtu < MIN_MTU[version]:
            raise Conflict(
                f"MTU of {id} is not valid, subnet requires a minimum of {MIN_MTU[version]}",
                code="NetworkMTUSubnetConflict",
            )


def delete(tx: Tx, rights: Rights, id: str) -> None:
    """Remove a network with its subnets, and with floating IPs that nobody uses. Raises NotFound, Forbidden, Conflict."""
    row = find(tx, rights, id)
    rights.demand("delete_network", target(row))
    unused = (
        "select id from floatingips where floating_network_id = :id and port_id is null and not exists "
        "(select 1 from floatingips f where f.floating_network_id = :id and f.port_id is not null)"
    )
    for floating_ip in tx.values(unused, id=id):
        network_removal.floating_ip(tx, floating_ip)
    owners = network_removal.OF_THE_NETWORK
    for port in tx.values(
        "select id from ports where network_id = :id and device_owner in :owners", id=id, owners=owners
    ):
        network_removal.port(tx, port)
    ports = tx.values("select id from ports where network_id = :id order by id limit 100", id=id)
    if ports:
        raise Conflict(
            f"Unable to complete operation on network {id}. There are one or more ports still in use on the "
            f"network, id for these ports is: {','.join(ports)}.",
            code="NetworkInUse",
        )
    for subnet in tx.values("select id from subnets where network_id = :id", id=id):
        network_removal.subnet(tx, subnet)
    network_removal.held(tx, "networks", id)
    # Nothing but the row itself, which is gone now, keeps others from sharing it at this moment.
    tx.run("delete from rbac_policies where object_id = :id and object_type = 'network'", id=id)
