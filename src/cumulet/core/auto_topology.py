"""A network for a project that wants one without naming it: with subnets, a router and a way out.

It needs a default external network and a default subnet pool, which an administrator marks.
"""

from __future__ import annotations

from cumulet.core import network_quotas, networks, routers, subnetpools, subnets
from cumulet.core.network_resources import Item
from cumulet.core.rights import Rights
from cumulet.db.engine import Row, Tx
from cumulet.errors import Conflict, Forbidden


def show(tx: Tx, rights: Rights, project_id: str) -> str:
    """The id of the project's network, which is made if there is none. Raises Forbidden, Conflict, OverQuota."""
    return ensure(tx, _project(rights, project_id))


def _project(rights: Rights, project_id: str) -> str:
    # Clients say "None" where they mean the project of their token.
    named = rights.project if project_id == "None" else project_id
    if named != rights.project and not rights.caller.is_admin:
        raise Forbidden("Not authorized.", code="NotAuthorized")
    return named


def dry_run(tx: Tx, rights: Rights, project_id: str) -> None:
    """Raise Conflict if a network could not be made for want of a default network or pool."""
    _project(rights, project_id)
    check(tx)


def check(tx: Tx) -> tuple[Row, list[Row]]:
    """The default external network and the default pools. Raises Conflict that names what is missing."""
    external = tx.one("select * from networks where is_default and external")
    if external is None:
        raise _failure("No default router:external network")
    pools = [
        pool for pool in (subnetpools.default_of(tx, 4), subnetpools.default_of(tx, 6)) if pool is not None
    ]
    if not pools:
        raise _failure("No default subnetpools defined")
    return external, pools


def _failure(reason: str) -> Conflict:
    return Conflict(f"Deployment error: {reason}.", code="AutoAllocationFailure")


def ensure(tx: Tx, project_id: str) -> str:
    """The id of the project's network, which is made if there is none. Raises Conflict, OverQuota."""
    query = "select network_id from auto_topologies where project_id = :project"
    found = tx.value(query, project=project_id)
    if found is None:
        network_quotas.lock(tx, project_id)
        found = tx.value(query, project=project_id)
    return str(found) if found is not None else _build(tx, project_id)


def _build(tx: Tx, project_id: str) -> str:
    external, pools = check(tx)
    id = networks.insert(tx, project_id, Item({"name": "auto_allocated_network", "admin_state_up": True}))
    network = tx.one("select * from networks where id = :id", id=id)
    assert network is not None
    for pool in pools:
        version = pool["ip_version"]
        item = Item({"name": f"auto_allocated_subnet_v{version}", "ip_version": version})
        subnets.insert(tx, network, project_id, item, pool)
    router = routers.insert(tx, project_id, Item({"name": "auto_allocated_router", "admin_state_up": True}))
    routers.set_gateway(tx, router, external)
    for subnet in subnets.of_network(tx, id):
        routers.plug(tx, router, project_id, subnet)
    tx.insert("auto_topologies", project_id=project_id, network_id=id, router_id=router)
    return id


def delete(tx: Tx, rights: Rights, project_id: str) -> None:
    """Remove the project's network, its subnets and its router. Raises Forbidden, Conflict while it is used."""
    named = _project(rights, project_id)
    rights.demand("delete_auto_allocated_topology", {"project_id": named})
    row = tx.one(
        "select network_id, router_id from auto_topologies where project_id = :project", project=named
    )
    if row is None:
        return
    if row["router_id"] is not None:
        for port in tx.values(
            "select port_id from router_interfaces where router_id = :id", id=row["router_id"]
        ):
            routers.remove_interface(tx, rights, row["router_id"], port_id=port)
        routers.delete(tx, rights, row["router_id"])
    networks.delete(tx, rights, row["network_id"])
