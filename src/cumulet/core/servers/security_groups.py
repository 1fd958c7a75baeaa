"""Security groups of a server: those of all its ports."""

from __future__ import annotations

from cumulet.core import ports, securitygroups
from cumulet.core.network_resources import bump
from cumulet.core.servers import find, networking
from cumulet.db.engine import Row, Tx
from cumulet.errors import Invalid, NotFound
from cumulet.reconcile import holders
from cumulet.values import Caller


def of_server(tx: Tx, caller: Caller, server_id: str) -> list[str]:
    """The ids of the groups, each once. Raises NotFound."""
    find.find(tx, caller, server_id)
    plugged = ports.of_server(tx, [server_id])[server_id]
    return list(dict.fromkeys(group["id"] for port in plugged for group in port["security_groups"]))


def add(tx: Tx, caller: Caller, server_id: str, name: str) -> None:
    """Put all ports of a server into a group too. Raises NotFound, Conflict, Invalid for ports without security."""
    group, plugged = _asked(tx, caller, server_id, name)
    if not plugged:
        raise NotFound(f"instance_id {server_id} could not be found as device id on any ports")
    for port in plugged:
        if not port["port_security_enabled"] or not port["fixed_ips"]:
            raise Invalid(
                f"Security group cannot be applied: port {port['id']} has no address, or its port security is off."
            )
    for port in plugged:
        ids = [one["id"] for one in port["security_groups"]]
        if group not in ids:
            _set(tx, port, securitygroups.of_port(tx, None, port["project_id"], [*ids, group]))


def remove(tx: Tx, caller: Caller, server_id: str, name: str) -> None:
    """Take all ports of a server out of a group. Raises NotFound, also if none is in it; Conflict."""
    group, plugged = _asked(tx, caller, server_id, name)
    found = False
    for port in plugged:
        ids = [one["id"] for one in port["security_groups"]]
        if group in ids:
            found = True
            _set(tx, port, [id for id in ids if id != group])
    if not found:
        raise NotFound(f"Security group {name} not associated with the instance {server_id}")


def _asked(tx: Tx, caller: Caller, server_id: str, name: str) -> tuple[str, list[Row]]:
    server = find.locked(tx, caller, server_id)
    find.require_state(server, "change security groups", task_states=None)
    try:
        group = networking.groups(tx, str(server["project_id"]), [name])[0]
    except Invalid as error:
        raise NotFound(error.message) from None
    return group, ports.of_server(tx, [server_id])[server_id]


def _set(tx: Tx, port: Row, ids: list[str]) -> None:
    securitygroups.set_of_port(tx, port["id"], ids)
    bump(tx, "ports", port["id"])
    holders.touch(tx, port["id"])
