"""Floating IPs: addresses on an external network that lead to a port behind a router.

A floating IP's address is kept by a port of its own on the external network, as in Neutron, so that nobody
else gets it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cumulet.core import holding, ipam, network_quotas, network_removal, networks, ports, subnets
from cumulet.core.network_resources import (
    STANDARD,
    Column,
    Item,
    Listing,
    Noun,
    bump,
    own,
    owner_of,
    set_tags,
    stamps,
    with_tags,
)
from cumulet.core.network_resources import page as page_of
from cumulet.core.rights import Rights
from cumulet.db.engine import Row, Tx, chunks
from cumulet.db.query import Where
from cumulet.errors import Conflict, Invalid, NotFound

NOUN = Noun(
    one="floatingip",
    many="floatingips",
    title="Floating IP",
    source="floatingips n",
    columns={
        **{name: column for name, column in STANDARD.items() if name != "name"},
        "floating_ip_address": Column("n.floating_ip_address", normal=ports.normal_ip),
        "floating_network_id": Column("n.floating_network_id"),
        "fixed_ip_address": Column("coalesce(n.fixed_ip_address, '')", normal=ports.normal_ip),
        "port_id": Column("coalesce(n.port_id, '')", sort=False),
        "router_id": Column("coalesce(n.router_id, '')"),
        "status": Column("n.status"),
    },
)

_POLICED = frozenset({"floating_ip_address", "tags"})


def _bad(message: str) -> Invalid:
    return Invalid(f"Bad floatingip request: {message}.", code="BadRequest")


# --- reading ---


def page(tx: Tx, rights: Rights, listing: Listing) -> list[Row]:
    """A page of the floating IPs that the caller sees, complete."""
    where = Where()
    own(where, rights, "get_floatingip")
    return _complete(tx, page_of(tx, NOUN, where, listing))


def find(tx: Tx, rights: Rights, id: str) -> Row:
    """The floating IP's row. Raises NotFound."""
    where = Where()
    own(where, rights, "get_floatingip")
    where.add("n.id = :id", id=id)
    row = tx.one(f"select n.* from floatingips n where {where.sql}", **where.params)
    if row is None:
        raise missing(id)
    return row


def missing(id: str) -> NotFound:
    """The error for a floating IP that is not there."""
    return NotFound(f"Floating IP {id} could not be found", code="FloatingIPNotFound")


def show(tx: Tx, rights: Rights, id: str) -> Row:
    """The floating IP, complete. Raises NotFound."""
    return _complete(tx, [find(tx, rights, id)])[0]


def _complete(tx: Tx, rows: list[Row]) -> list[Row]:
    """Add ``port_details`` and ``tags``."""
    details: dict[str, Row] = {}
    for ids in chunks({row["port_id"] for row in rows if row["port_id"]}, 1000):
        for port in tx.all(
            "select id, name, network_id, mac_address, admin_state_up, status, device_id, device_owner "
            "from ports where id in :ids",
            ids=ids,
        ):
            details[port.pop("id")] = port
    for row in rows:
        row["port_details"] = details.get(row["port_id"])
    with_tags(tx, NOUN.many, rows)
    return rows


# --- writing ---


def create(tx: Tx, rights: Rights, item: Item) -> Row:
    """Make a floating IP. Raises Forbidden, OverQuota, NotFound, Invalid, Conflict."""
    project_id = owner_of(rights, item)
    rights.demand("create_floatingip", {"project_id": project_id})
    rights.demand_each("create_floatingip", item.given & _POLICED, {"project_id": project_id})
    network = networks.find(tx, rights, item["floating_network_id"])
    network_quotas.check(tx, project_id, "floatingip")
    id = tx.uuid()
    subnets.check_seen(tx, rights, network["id"], [item.values])
    keeper, address = _keep_address(tx, network, id, item)
    holding.create(tx, id, "floatingip", project_id)
    tx.insert(
        "floatingips", id=id, project_id=project_id, floating_network_id=network["id"], floating_port_id=keeper,
        floating_ip_address=address, **item.columns("description", "dns_name", "dns_domain"), **stamps(tx),
    )  # fmt: skip
    _associate(tx, rights, find(tx, rights, id), item.get("port_id"), item.get("fixed_ip_address"))
    if item.get("tags"):
        set_tags(tx, NOUN.many, id, item["tags"])
    return show(tx, rights, id)


def _keep_address(tx: Tx, network: Row, id: str, item: Item) -> tuple[str, str]:
    """A port on the external network that keeps the address; returns both. Raises Invalid, Conflict."""
    if not network["external"]:
        raise _bad(f"Network {network['id']} is not a valid external network")
    if tx.one("select 1 from subnets where network_id = :id and ip_version = 4", id=network["id"]) is None:
        raise _bad(f"Network {network['id']} does not contain any IPv4 subnet")
    asked = {
        key: item[name]
        for key, name in (("subnet_id", "subnet_id"), ("ip_address", "floating_ip_address"))
        if item.get(name)
    }
    values = {
        "name": "", "admin_state_up": True, "device_id": id, "device_owner": ipam.FLOATING_IP, "status": "N/A",
        **({"fixed_ips": [asked]} if asked else {}),
    }  # fmt: skip
    port = ports.insert(tx, network, "", Item(values))
    for address in tx.values("select address from fixed_ips where port_id = :id order by position", id=port):
        if ipam.version(address) == 4:
            return port, address
    raise Invalid(
        f"Unable to find any IP address on external network {network['id']}.",
        code="ExternalIpAddressExhausted",
    )


def update(tx: Tx, rights: Rights, id: str, item: Item) -> Row:
    """Change a floating IP: what it leads to, its description. Raises NotFound, Forbidden, Invalid, Conflict."""
    tx.lock("floatingips", id)
    row = find(tx, rights, id)
    rights.demand("update_floatingip", {"project_id": row["project_id"]})
    if not item.values:
        # Neutron lets go of the port where nothing is said.
        _associate(tx, rights, row, None, None)
        bump(tx, "floatingips", id)
    elif "port_id" in item or "fixed_ip_address" in item:
        port_id = item.get("port_id") if "port_id" in item else row["port_id"]
        _associate(tx, rights, row, port_id, item.get("fixed_ip_address"))
    if item.values:
        bump(tx, "floatingips", id, **item.columns("description"))
    return show(tx, rights, id)


def _associate(tx: Tx, rights: Rights, row: Row, port_id: str | None, fixed: str | None) -> None:
    """Let the floating IP lead to a port's address; no port: nowhere. Raises NotFound, Invalid, Conflict."""
    if port_id is None:
        if fixed:
            raise _bad("fixed_ip_address cannot be specified without a port_id")
        tx.update(
            "floatingips", row["id"], port_id=None, fixed_ip_address=None, router_id=None, status="DOWN"
        )
        holding.touch(tx, row["id"])
        return
    tx.lock("ports", port_id)
    port = ports.show(tx, rights, port_id)
    if port["project_id"] != row["project_id"] and not rights.caller.is_admin:
        raise _bad(
            f"Cannot process floating IP association with Port {port_id}, since that port is owned by a different "
            "project"
        )
    inside = _inside(port, fixed)
    router_id = _router(tx, port, inside["subnet_id"], row["floating_network_id"])
    taken = tx.one(
        "select floating_ip_address from floatingips where port_id = :port and fixed_ip_address = :address "
        "and floating_network_id = :network and id <> :id",
        port=port_id, address=inside["ip_address"], network=row["floating_network_id"], id=row["id"],
    )  # fmt: skip
    if taken is not None:
        raise Conflict(
            f"Cannot associate floating IP {row['floating_ip_address']} ({row['id']}) with port {port_id} using fixed "
            f"IP {inside['ip_address']}, as that fixed IP already has a floating IP on external network "
            f"{row['floating_network_id']}: {taken['floating_ip_address']}.",
            code="FloatingIPPortAlreadyAssociated",
        )
    same = (row["port_id"], row["fixed_ip_address"]) == (port_id, inside["ip_address"])
    tx.update(
        "floatingips", row["id"], port_id=port_id, fixed_ip_address=inside["ip_address"], router_id=router_id,
        **({} if same else {"status": "DOWN"}),
    )  # fmt: skip
    holding.touch(tx, row["id"])


def _inside(port: Row, asked: str | None) -> Mapping[str, Any]:
    """The address of the port that is meant. Raises Invalid."""
    if port["device_owner"] in (*ipam.ROUTER_OWNERS, ipam.FLOATING_IP):
        raise _bad(f"Port {port['id']} is unable to be assigned a floating IP")
    if asked:
        if ipam.version(asked) != 4:
            raise _bad(
                f"Cannot process floating IP association with {asked}, since that is not an IPv4 address"
            )
        for fixed in port["fixed_ips"]:
            if fixed["ip_address"] == asked:
                found: Mapping[str, Any] = fixed
                return found
        raise _bad(f"Port {port['id']} does not have fixed ip {asked}")
    choices = [fixed for fixed in port["fixed_ips"] if ipam.version(fixed["ip_address"]) == 4]
    if not choices:
        raise _bad(f"Cannot add floating IP to port {port['id']} that has no fixed IPv4 addresses")
    if len(choices) > 1:
        raise _bad(
            f"Port {port['id']} has multiple fixed IPv4 addresses.  Must provide a specific IPv4 address when "
            "assigning a floating IP"
        )
    return choices[0]  # type: ignore[no-any-return]


def _router(tx: Tx, port: Row, subnet_id: str, external_id: str) -> str:
    """The router between the subnet and the external network. Raises NotFound.

    Of several the one that has the subnet's gateway address.
    """
    found = tx.all(
        "select r.id, f.address, s.gateway_ip from router_interfaces i join routers r on r.id = i.router_id "
        "join fixed_ips f on f.port_id = i.port_id join subnets s on s.id = f.subnet_id "
        "where f.subnet_id = :subnet and r.gateway_network_id = :external order by r.created_at, r.id",
        subnet=subnet_id,
        external=external_id,
    )
    if not found:
        raise NotFound(
            f"External network {external_id} is not reachable from subnet {subnet_id}.  Therefore, cannot associate "
            f"Port {port['id']} with a Floating IP.",
            code="ExternalGatewayForFloatingIPNotFound",
        )
    at_gateway = [row for row in found if row["address"] == row["gateway_ip"]]
    return str((at_gateway or found)[0]["id"])


def delete(tx: Tx, rights: Rights, id: str) -> None:
    """Remove a floating IP; its address is free. Raises NotFound, Forbidden."""
    row = find(tx, rights, id)
    rights.demand("delete_floatingip", {"project_id": row["project_id"]})
    network_removal.floating_ip(tx, id)


def pools(tx: Tx, rights: Rights) -> list[Row]:
    """Where floating IPs can come from: the IPv4 subnets of external networks that the caller sees."""
    where = Where()
    networks.visible(where, rights)
    where.add("n.external and s.ip_version = 4")
    return tx.all(
        "select s.id as subnet_id, s.name as subnet_name, s.project_id, s.network_id, s.cidr from networks n "
        f"join subnets s on s.network_id = n.id where {where.sql} order by s.created_at, s.id",
        **where.params,
    )
