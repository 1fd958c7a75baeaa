"""Network interfaces of a server: plugged in, unplugged, and the addresses they have.

See the compute API reference, "Port interfaces", and the server actions addFixedIp and removeFixedIp.
"""

from __future__ import annotations

from typing import Any

import msgspec

from cumulet.core import addresses, history, networks, ports
from cumulet.core.network_resources import bump
from cumulet.core.servers import actions, find, networking
from cumulet.core.servers.networking import Nic
from cumulet.db.engine import Row, Tx
from cumulet.errors import Conflict, Invalid, NotFound
from cumulet.reconcile import holders
from cumulet.values import Caller

_STATES = ("active", "paused", "stopped")


class Interface(msgspec.Struct, frozen=True):
    """An interface: its port, and the tag that the guest sees."""

    port_id: str
    network_id: str
    mac_address: str
    status: str
    #: {"subnet_id", "ip_address"}
    fixed_ips: tuple[dict[str, str], ...]
    tag: str | None


def listing(tx: Tx, caller: Caller, server_id: str) -> list[Interface]:
    """The interfaces of a server, in their order. Raises NotFound."""
    find.find(tx, caller, server_id)
    tags = {
        row["port_id"]: row["tag"]
        for row in tx.all("select port_id, tag from interfaces where server_id = :id", id=server_id)
    }
    return [_interface(port, tags.get(port["id"])) for port in ports.of_server(tx, [server_id])[server_id]]


def show(tx: Tx, caller: Caller, server_id: str, port_id: str) -> Interface:
    """One of them. Raises NotFound."""
    for interface in listing(tx, caller, server_id):
        if interface.port_id == port_id:
            return interface
    raise NotFound(f"Instance {server_id} does not have a port with id {port_id}")


def _interface(port: Row, tag: str | None) -> Interface:
    fixed = tuple({"subnet_id": ip["subnet_id"], "ip_address": ip["ip_address"]} for ip in port["fixed_ips"])
    return Interface(port["id"], port["network_id"], port["mac_address"], port["status"], fixed, tag)


def attach(tx: Tx, caller: Caller, server_id: str, asked: Nic, *, external: bool = False) -> Interface:
    """Plug in a port of the user's, or a new one on a network; on the project's only one if none is named.

    ``external``: the caller may use networks to the outside that are not shared.

    Raises Forbidden, NotFound (server, port, network), Conflict (state, port or address in use), Invalid, OverQuota.
    """
    server = actions.ready(tx, caller, server_id, "attach_interface", _STATES)
    nic = asked if asked.port is not None else _chosen(tx, caller, asked, external)
    if nic.port is not None and not _is_there(tx, caller, server, nic.port):
        raise NotFound(f"Port {nic.port} could not be found.")
    position = networking.next_position(tx, server_id)
    if position >= networking.MOST:
        raise Invalid(f"A server has at most {networking.MOST} interfaces.")
    port = networking.plug(tx, caller, server, nic, position=position, in_use=Conflict)
    _begin(tx, caller, server, "attach_interface")
    return _interface(ports.read(tx, port), nic.tag)


def _is_there(tx: Tx, caller: Caller, server: Row, port: str) -> bool:
    """True if the port is there for this caller: what is another project's is not."""
    row = tx.one("select project_id from ports where id = :id", id=port)
    return row is not None and (caller.is_admin or row["project_id"] == server["project_id"])


def _chosen(tx: Tx, caller: Caller, asked: Nic, external: bool) -> Nic:
    if asked.network is not None:
        if not networks.usable(tx, str(caller.project_id), [asked.network], is_admin=caller.is_admin):
            raise NotFound(f"Network {asked.network} could not be found.")
        networking.choose(tx, caller, [asked], external=external)
        return asked
    try:
        found = networking.choose(tx, caller, None, external=external)
    except Conflict as error:
        raise Invalid(error.message) from None
    if not found:
        raise Invalid(
            f"No specific network was requested and none are available for project {caller.project_id}."
        )
    return msgspec.structs.replace(found[0], tag=asked.tag)


def _begin(tx: Tx, caller: Caller, server: Row, action: str) -> None:
    tx.update("servers", server["id"], devices_pending=True, updated_at=tx.now)
    history.begin(tx, server["id"], action, caller, host=find.host_name(tx, server))
    holders.touch(tx, server["id"])


def detach(tx: Tx, caller: Caller, server_id: str, port_id: str) -> None:
    """Unplug a port: one of ours is deleted, one of the user's is given back. Raises NotFound, Conflict."""
    find.find(tx, caller, server_id)
    row = tx.one(
        "select id, detaching from interfaces where server_id = :server and port_id = :port",
        server=server_id, port=port_id,
    )  # fmt: skip
    if row is None:
        raise NotFound(f"Port id {port_id} could not be found.")
    server = actions.ready(tx, caller, server_id, "detach_interface", _STATES)
    if row["detaching"]:
        return
    tx.update("interfaces", row["id"], detaching=True)
    _begin(tx, caller, server, "detach_interface")


# --- addresses, until 2.43 ---


def add_fixed_ip(tx: Tx, caller: Caller, server_id: str, network_id: str) -> None:
    """Give the server one more address on a network. Raises NotFound, Conflict, Invalid if there is none."""
    server = _unlocked(tx, caller, server_id)
    for port in ports.of_server(tx, [server_id])[server_id]:
        if port["network_id"] != network_id:
            continue
        subnets = tx.values(
            "select id from subnets where network_id = :id order by created_at, id", id=network_id
        )
        if subnets:
            asked = [*_addresses(port), {"subnet_id": subnets[0]}]
            _readdress(tx, server, port, asked)
            return
    raise Invalid(f"Network {network_id[:255]} could not be found for instance {server_id}.")


def remove_fixed_ip(tx: Tx, caller: Caller, server_id: str, address: str) -> None:
    """Take an address away from the server. Raises NotFound, Conflict, Invalid if it does not have it."""
    server = _unlocked(tx, caller, server_id)
    for port in ports.of_server(tx, [server_id])[server_id]:
        have = _addresses(port)
        rest = [ip for ip in have if ip["ip_address"] != address]
        if len(rest) < len(have):
            _readdress(tx, server, port, rest)
            return
    raise Invalid(f"Instance {server_id} doesn't have fixed IP '{address}'.")


def _unlocked(tx: Tx, caller: Caller, server_id: str) -> Row:
    server = find.locked(tx, caller, server_id)
    find.refuse_locked(caller, server)
    find.require_state(server, "change addresses", task_states=None)
    return server


def _addresses(port: Row) -> list[dict[str, Any]]:
    return [{"subnet_id": ip["subnet_id"], "ip_address": ip["ip_address"]} for ip in port["fixed_ips"]]


def _readdress(tx: Tx, server: Row, port: Row, asked: list[dict[str, Any]]) -> None:
    tx.lock("ports", port["id"])
    try:
        addresses.change(tx, port, port["mac_address"], port["device_owner"], asked)
    except Conflict as error:
        raise Invalid(error.message) from None
    bump(tx, "ports", port["id"])
    holders.touch(tx, port["id"])
    holders.touch(tx, server["id"])
