"""Networks, ports, routers and floating IPs as holders: their claims at the network's agent.

Their specs follow from the rows. Removing one never waits: what the agent still has of it is left to the
agent, so the row goes in the request's own transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cumulet.db.engine import Row, Tx
from cumulet.reconcile import agents, holders, ledger
from cumulet.reconcile.plan import base
from cumulet.reconcile.plan import network as plan
from cumulet.values import Limits

#: Holder kind → (table, claim kind, the status that it shows once its claim is as wanted).
KINDS: Mapping[str, tuple[str, str]] = {
    "network": ("networks", "switch"),
    "port": ("ports", "lport"),
    "router": ("routers", "lrouter"),
    "floatingip": ("floatingips", "nat"),
}

create = holders.create
touch = holders.touch


def remove(tx: Tx, id: str) -> None:
    """The row of the kind is gone: leave the claims to their agent, and remove the holder."""
    for claim in reversed(ledger.of_holder(tx, id)):
        ledger.leave(tx, claim, "removed by its user")
    holders.remove(tx, id)


def view(tx: Tx, id: str, limits: Limits, *, kind: str) -> plan.Thing | None:
    """The network, port, router or floating IP as its plan sees it; None if there is none."""
    table, claim_kind = KINDS[kind]
    row = tx.row(table, id)
    if row is None:
        return None
    claims = ledger.of_holder(tx, id)
    spec = _SPECS[kind](tx, row)
    agent = agents.of_kind(tx, "network") if not claims else None
    status = _arrived(kind, row)
    return plan.Thing(
        id=id,
        kind=claim_kind,
        status=row.get("status", status),
        arrived=status,
        now=tx.now,
        patience=limits.patience,
        agent=agent,
        claims=claims,
        spec=spec,
        needs=_needs(tx, kind, row) if not claims else (),
        agents=agents.views(tx, {claim.agent for claim in claims}),
    )


def _arrived(kind: str, row: Row) -> str:
    if kind == "port":
        return (
            "ACTIVE"
            if row["admin_state_up"] and (row["binding_host"] or row["device_owner"].startswith("network:"))
            else "DOWN"
        )
    if kind == "floatingip":
        return "ACTIVE" if row["port_id"] else "DOWN"
    return "ACTIVE"


def _network(tx: Tx, row: Row) -> dict[str, Any]:
    return {"name": row["name"], "mtu": row["mtu"], "up": row["admin_state_up"]}


def _port(tx: Tx, row: Row) -> dict[str, Any]:
    tables = ("fixed_ips", "port_security_groups", "trunks", "trunk_subports")
    return {
        "network": row["network_id"],
        "mac": row["mac_address"],
        "host": row["binding_host"],
        "up": row["admin_state_up"],
        "port_security": row["port_security_enabled"],
        "pairs": row["allowed_address_pairs"],
        **tx.memo(("spec", row["id"]), tables, lambda: _around_port(tx, row["id"])),
    }


def _around_port(tx: Tx, id: str) -> dict[str, Any]:
    """What a port's spec says that is not in its own row."""
    addresses = tx.values(
        "select address from fixed_ips where port_id = :id order by position, address", id=id
    )
    groups = tx.values(
        "select security_group_id from port_security_groups where port_id = :id order by security_group_id",
        id=id,
    )
    carried = tx.one(
        "select t.port_id as parent, s.segmentation_id as vlan from trunk_subports s "
        "join trunks t on t.id = s.trunk_id where s.port_id = :id",
        id=id,
    )
    return {"addresses": addresses, "groups": groups, **(carried or {})}


def _router(tx: Tx, row: Row) -> dict[str, Any]:
    ports = tx.values(
        "select port_id from router_interfaces where router_id = :id order by port_id", id=row["id"]
    )
    return {
        "name": row["name"],
        "up": row["admin_state_up"],
        "ports": ports,
        "gateway": row["gateway_port_id"],
        "snat": row["enable_snat"],
        "routes": row["routes"],
        "distributed": row["distributed"],
        "ha": row["ha"],
    }


def _floatingip(tx: Tx, row: Row) -> dict[str, Any]:
    return {
        "address": row["floating_ip_address"],
        "port": row["port_id"],
        "fixed_address": row["fixed_ip_address"],
        "router": row["router_id"],
    }


_SPECS = {"network": _network, "port": _port, "router": _router, "floatingip": _floatingip}


def _needs(tx: Tx, kind: str, row: Row) -> tuple[str, ...]:
    """A port's claim needs its network's."""
    if kind != "port":
        return ()
    return tuple(
        tx.values("select id from claims where holder = :holder and wanted limit 1", holder=row["network_id"])
    )


def apply(tx: Tx, view: plan.Thing, change: base.Change) -> None:
    """Write one change of such a plan."""
    if not isinstance(change, base.Set):
        raise TypeError(f"{view.kind} has no {type(change).__name__}")
    table = next(table for table, kind in KINDS.values() if kind == view.kind)
    if table != "networks":
        tx.update(table, view.id, **change.values)
    if view.kind == "lport" and change.values.get("status") == "ACTIVE":
        # A server that comes up waits for its ports, or will: what it waits for is not asked, for on PostgreSQL
        # that may be in a transaction that is still open.
        for server in tx.values(
            "select s.id from ports p join servers s on s.id = p.device_id "
            "where p.id = :id and (s.vm_state in ('building', 'shelved_offloaded') or s.migration_id is not null)",
            id=view.id,
        ):
            holders.touch(tx, server)
