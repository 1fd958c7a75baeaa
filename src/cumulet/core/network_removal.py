"""Removing what is in Network's tables, with all that goes with it. Nobody is asked who may.

Deleting a network, port, router or floating IP does not wait for the network's agent: what the agent still
has of it is left to it as a debt, in the same transaction.
"""

from __future__ import annotations

from cumulet.core import holding
from cumulet.core.network_resources import drop_tags
from cumulet.db.engine import Tx

#: Owners of ports that belong to their network and go with it.
OF_THE_NETWORK = ("network:dhcp", "network:distributed")


def held(tx: Tx, table: str, id: str) -> None:
    """The row and its holder; its claims are left to their agents. Raises StillHeld."""
    tx.delete(table, id)
    drop_tags(tx, table, id)
    holding.remove(tx, id)


def port(tx: Tx, id: str) -> None:
    """A port: its addresses are free at once, its floating IPs point nowhere. Missing is fine."""
    # Whoever leads a floating IP to it at this moment is waited for, so that it is found below.
    tx.lock("ports", id)
    release_floating_ips(tx, id)
    _trunk(tx, id)
    tx.run("update routers set gateway_port_id = null where gateway_port_id = :id", id=id)
    held(tx, "ports", id)


def _trunk(tx: Tx, port_id: str) -> None:
    """The trunk of a port: what it carries is free, and nowhere."""
    trunk = tx.value("select id from trunks where port_id = :port", port=port_id)
    if trunk is None:
        return
    for id in tx.values("select port_id from trunk_subports where trunk_id = :trunk", trunk=trunk):
        tx.run(
            "update ports set device_owner = '', binding_host = '', status = 'DOWN', updated_at = :now, "
            "revision_number = revision_number + 1 where id = :id",
            now=tx.now,
            id=id,
        )
        holding.touch(tx, id)
    tx.delete("trunks", trunk)
    drop_tags(tx, "trunks", trunk)


def release_floating_ips(tx: Tx, port_id: str, address: str | None = None) -> None:
    """The floating IPs of a port, or of one of its addresses, point nowhere from now on."""
    found = tx.values(
        "select id from floatingips where port_id = :port and (fixed_ip_address = :address or :any)",
        port=port_id,
        address=address or "",
        any=address is None,
    )
    for id in found:
        tx.run(
            "update floatingips set port_id = null, fixed_ip_address = null, router_id = null, status = 'DOWN', "
            "updated_at = :now, revision_number = revision_number + 1 where id = :id",
            now=tx.now,
            id=id,
        )
        holding.touch(tx, id)


def floating_ip(tx: Tx, id: str) -> None:
    """A floating IP, and the port that keeps its address."""
    keeper = tx.value("select floating_port_id from floatingips where id = :id", id=id)
    held(tx, "floatingips", id)
    if keeper is not None:
        port(tx, keeper)


def subnet(tx: Tx, id: str) -> None:
    """A subnet, with the addresses that ports have on it."""
    tx.run("delete from fixed_ips where subnet_id = :id", id=id)
    tx.delete("subnets", id)
    drop_tags(tx, "subnets", id)
