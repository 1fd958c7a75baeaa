"""Routers: their gateway to an external network, and their interfaces on subnets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cumulet.core import (
    addresses,
    holding,
    ipam,
    network_agents,
    network_quotas,
    network_removal,
    networks,
    ports,
    subnets,
)
from cumulet.core.network_resources import (
    STANDARD,
    Column,
    Item,
    Listing,
    Noun,
    bump,
    own,
    owner_of,
    row_of,
    set_tags,
    stamps,
    with_tags,
)
from cumulet.core.network_resources import page as page_of
from cumulet.core.rights import Rights
from cumulet.db.engine import Row, Tx, chunks
from cumulet.db.query import Where
from cumulet.errors import Conflict, Invalid, NotFound

#: Neutron's max_routes.
MAX_ROUTES = 30

NOUN = Noun(
    one="router",
    many="routers",
    title="Router",
    source="routers n",
    columns={
        **STANDARD,
        "admin_state_up": Column("n.admin_state_up", "flag"),
        "status": Column("n.status"),
        "distributed": Column("n.distributed", "flag", sort=False),
        "ha": Column("n.ha", "flag", sort=False),
    },
)

_POLICED = frozenset({"distributed", "ha", "external_gateway_info", "tags"})


def _bad(message: str) -> Invalid:
    return Invalid(f"Bad router request: {message}.", code="BadRequest")


# --- reading ---


def page(tx: Tx, rights: Rights, listing: Listing) -> list[Row]:
    """A page of the routers that the caller sees, complete."""
    where = Where()
    own(where, rights, "get_router")
    return _complete(tx, page_of(tx, NOUN, where, listing))


def find(tx: Tx, rights: Rights, id: str) -> Row:
    """The router's row. Raises NotFound."""
    where = Where()
    own(where, rights, "get_router")
    return row_of(tx, NOUN, where, id)


def show(tx: Tx, rights: Rights, id: str) -> Row:
    """The router, complete. Raises NotFound."""
    return _complete(tx, [find(tx, rights, id)])[0]


def _complete(tx: Tx, rows: list[Row]) -> list[Row]:
    """Add ``external_fixed_ips``, ``zones`` and ``tags``."""
    zones = network_agents.zones(tx) if rows else []
    fixed: dict[str, list[dict[str, str]]] = {}
    gateways = [row["gateway_port_id"] for row in rows if row["gateway_port_id"]]
    for ids in chunks(gateways, 1000):
        for ip in tx.all(
            "select port_id, subnet_id, address from fixed_ips where port_id in :ids order by position",
            ids=ids,
        ):
            fixed.setdefault(ip["port_id"], []).append(
                {"subnet_id": ip["subnet_id"], "ip_address": ip["address"]}
            )
    for row in rows:
        row["external_fixed_ips"] = fixed.get(row["gateway_port_id"], [])
        row["zones"] = zones
    with_tags(tx, NOUN.many, rows)
    return rows


def at_agent(tx: Tx, rights: Rights, agent: str) -> list[Row]:
    """The routers that an agent has, complete. Raises NotFound, Forbidden."""
    ids = network_agents.held_by(tx, rights, agent, "lrouter")
    rows = [tx.all("select * from routers where id in :ids order by id", ids=some) for some in chunks(ids)]
    return _complete(tx, [row for some in rows for row in some])


# --- the router itself ---


def create(tx: Tx, rights: Rights, item: Item) -> Row:
    """Make a router. Raises Forbidden, OverQuota, NotFound, Invalid, Conflict."""
    project_id = owner_of(rights, item)
    target = {"project_id": project_id}
    rights.demand("create_router", target)
    _demand_attributes(rights, "create_router", item, target)
    id = insert(tx, project_id, item)
    if item.get("external_gateway_info"):
        _set_gateway(tx, rights, _locked(tx, id), item["external_gateway_info"])
    if item.get("tags"):
        set_tags(tx, NOUN.many, id, item["tags"])
    return show(tx, rights, id)


def insert(tx: Tx, project_id: str, item: Item) -> str:
    """Make a router without a gateway, without asking who may; returns its id. Raises OverQuota."""
    network_agents.check_zones(tx, item.get("availability_zone_hints") or ())
    network_quotas.check(tx, project_id, "router")
    id = tx.uuid()
    holding.create(tx, id, "router", project_id)
    tx.insert(
        "routers", id=id, project_id=project_id, distributed=bool(item.get("distributed")), ha=bool(item.get("ha")),
        **item.columns("name", "description", "admin_state_up", zone_hints="availability_zone_hints"), **stamps(tx),
    )  # fmt: skip
    return id


def _demand_attributes(rights: Rights, rule: str, item: Item, target: Mapping[str, Any]) -> None:
    names = set(item.given & _POLICED)
    if item.get("external_gateway_info"):
        names |= {f"external_gateway_info:{key}" for key in item["external_gateway_info"]}
    rights.demand_each(rule, names, target)


def _locked(tx: Tx, id: str) -> Row:
    """The router, kept from others until the end of the transaction: what is plugged into it must not clash."""
    tx.lock("routers", id)
    row = tx.one("select * from routers where id = :id", id=id)
    if row is None:
        # It went while the lock was waited for.
        raise NOUN.missing(id)
    return row


def update(tx: Tx, rights: Rights, id: str, item: Item) -> Row:
    """Change a router. Raises NotFound, Forbidden, Invalid, Conflict."""
    row = find(tx, rights, id)
    target = {"project_id": row["project_id"]}
    rights.demand("update_router", target)
    _demand_attributes(rights, "update_router", item, target)
    row = _locked(tx, id)
    changes = item.columns("name", "description", "admin_state_up")
    up = changes.get("admin_state_up", row["admin_state_up"])
    for name, words in (
        ("distributed", "upgrade active router to distributed"),
        ("ha", "change HA attribute of active routers"),
    ):
        wanted = item.get(name)
        if wanted is None or wanted == row[name]:
            continue
        if up:
            raise _bad(f"Cannot {words}. Please set router admin_state_up to False prior to upgrade")
        changes[name] = wanted
    if "external_gateway_info" in item:
        _set_gateway(tx, rights, row, item["external_gateway_info"])
        row = _locked(tx, id)
    if "routes" in item:
        changes["routes"] = _checked_routes(tx, row, item["routes"])
    if item.values:
        bump(tx, "routers", id, **changes)
        holding.touch(tx, id)
    return show(tx, rights, id)


def delete(tx: Tx, rights: Rights, id: str) -> None:
    """Remove a router and its gateway. Raises NotFound, Forbidden, Conflict while it has interfaces."""
    row = find(tx, rights, id)
    rights.demand("delete_router", {"project_id": row["project_id"]})
    row = _locked(tx, id)
    attached = tx.values(
        "select port_id from router_interfaces where router_id = :id order by port_id", id=id
    )
    if attached:
        raise Conflict(
            f"Router {id} has ports still attached: {', '.join(attached[:50])}", code="RouterInUse"
        )
    _drop_gateway(tx, row)
    network_removal.held(tx, "routers", id)


# --- the gateway ---


def _set_gateway(tx: Tx, rights: Rights, row: Row, info: Mapping[str, Any] | None) -> None:
    """Give the router the gateway that ``info`` describes, or none. Raises NotFound, Invalid, Conflict."""
    if not info:
        _drop_gateway(tx, row)
        tx.update("routers", row["id"], enable_snat=True)
        return
    network = networks.find(tx, rights, info["network_id"])
    if not network["external"]:
        raise _bad(f"Network {network['id']} is not an external network")
    asked = info.get("external_fixed_ips") or []
    _not_the_gateways(tx, network, asked)
    subnets.check_seen(tx, rights, network["id"], asked)
    if row["gateway_network_id"] == network["id"]:
        if asked:
            _move_gateway(tx, row, asked)
    else:
        _drop_gateway(tx, row)
        set_gateway(tx, row["id"], network, asked)
    tx.update("routers", row["id"], enable_snat=info.get("enable_snat", True))
    if row["routes"]:
        _checked_routes(tx, _locked(tx, row["id"]), row["routes"])


def set_gateway(tx: Tx, id: str, network: Row, asked: Sequence[Mapping[str, str]] = ()) -> None:
    """Give a router that has none a gateway on an external network, without asking who may.

    Raises Invalid, Conflict.
    """
    _check_overlap(tx, id, subnets.of_network(tx, network["id"]))
    item = Item(
        {
            "name": "", "admin_state_up": True, "device_id": id, "device_owner": ipam.ROUTER_GATEWAY,
            **({"fixed_ips": list(asked)} if asked else {}),
        }
    )  # fmt: skip
    port = ports.insert(tx, network, "", item)
    tx.update("routers", id, gateway_network_id=network["id"], gateway_port_id=port)


def _not_the_gateways(tx: Tx, network: Row, asked: Sequence[Mapping[str, str]]) -> None:
    wanted = {fixed["ip_address"] for fixed in asked if "ip_address" in fixed}
    for subnet in subnets.of_network(tx, network["id"]):
        if subnet["gateway_ip"] in wanted:
            raise _bad(f"External IP {subnet['gateway_ip']} is the same as the gateway IP")


def _move_gateway(tx: Tx, row: Row, asked: Sequence[dict[str, Any]]) -> None:
    port = tx.one("select * from ports where id = :id", id=row["gateway_port_id"])
    assert port is not None
    addresses.change(tx, port, port["mac_address"], ipam.ROUTER_GATEWAY, asked)
    bump(tx, "ports", port["id"])
    holding.touch(tx, port["id"])


def _drop_gateway(tx: Tx, row: Row) -> None:
    """Raises Conflict while floating IPs go through it."""
    if row["gateway_port_id"] is None:
        return
    used = tx.one("select 1 from floatingips where router_id = :id", id=row["id"])
    if used is not None:
        raise Conflict(
            f"Gateway cannot be updated for router {row['id']}, since a gateway to external network "
            f"{row['gateway_network_id']} is required by one or more floating IPs.",
            code="RouterExternalGatewayInUseByFloatingIp",
        )
    tx.update("routers", row["id"], gateway_network_id=None, gateway_port_id=None)
    network_removal.port(tx, row["gateway_port_id"])


# --- interfaces ---


def _interfaces(tx: Tx, router_id: str) -> list[Row]:
    """Addresses of the router's interfaces, with their ports, networks and prefixes."""
    return tx.all(
        "select f.port_id, f.address, f.subnet_id, s.cidr, s.ip_version, s.network_id from router_interfaces r "
        "join fixed_ips f on f.port_id = r.port_id join subnets s on s.id = f.subnet_id "
        "where r.router_id = :id order by f.port_id, f.position",
        id=router_id,
    )


def _check_overlap(tx: Tx, router_id: str, added: Sequence[Row]) -> None:
    """Raise Invalid if a prefix is on the router already, or overlaps with one that is."""
    present = [(row["subnet_id"], row["cidr"]) for row in _interfaces(tx, router_id)]
    gateway = tx.value("select gateway_network_id from routers where id = :id", id=router_id)
    if gateway is not None:
        present += [(subnet["id"], subnet["cidr"]) for subnet in subnets.of_network(tx, gateway)]
    for subnet in added:
        for other_id, other in present:
            if other_id == subnet["id"]:
                raise _bad(f"Router already has a port on subnet {other_id}")
            if ipam.overlap(subnet["cidr"], other):
                raise _bad(
                    f"Cidr {subnet['cidr']} of subnet {subnet['id']} overlaps with cidr {other} of subnet {other_id}"
                )


def _check_mode(subnet: Row) -> None:
    if subnet["ipv6_ra_mode"] is None and subnet["ipv6_address_mode"] is not None:
        raise _bad(
            f"IPv6 subnet {subnet['id']} configured to receive RAs from an external router cannot be added to "
            "Neutron Router"
        )


def add_interface(
    tx: Tx, rights: Rights, id: str, *, port_id: str | None = None, subnet_id: str | None = None
) -> Row:
    """Plug a subnet, or a port, into a router; returns what the API shows of it.

    Raises NotFound, Forbidden, OverQuota, Invalid, Conflict.
    """
    row = find(tx, rights, id)
    rights.demand("add_router_interface", {"project_id": row["project_id"]})
    row = _locked(tx, id)
    if port_id is not None:
        port, found = _add_port(tx, rights, row, port_id)
    else:
        port, found = _add_subnet(tx, rights, row, str(subnet_id))
    bump(tx, "routers", id)
    holding.touch(tx, id)
    return _info(row, port, found)


def _info(router: Row, port: Row, found: Sequence[Row]) -> Row:
    return {
        "id": router["id"],
        "project_id": port["project_id"],
        "port_id": port["id"],
        "network_id": port["network_id"],
        "subnet_id": found[-1]["id"],
        "subnet_ids": [subnet["id"] for subnet in found],
    }


def _add_port(tx: Tx, rights: Rights, router: Row, port_id: str) -> tuple[Row, list[Row]]:
    tx.lock("ports", port_id)
    port = ports.show(tx, rights, port_id)
    if port["device_id"]:
        raise Conflict(
            f"Unable to complete operation on port {port_id} for network {port['network_id']}. Port already has an "
            f"attached device {port['device_id']}.",
            code="PortInUse",
        )
    if not port["fixed_ips"]:
        raise _bad("Router port must have at least one fixed IP")
    by_id = subnets.by_id(tx, [fixed["subnet_id"] for fixed in port["fixed_ips"]])
    found = [by_id[fixed["subnet_id"]] for fixed in port["fixed_ips"]]
    for subnet in found:
        _check_mode(subnet)
    if len([subnet for subnet in found if subnet["ip_version"] == 4]) > 1:
        raise _bad("Cannot have multiple IPv4 subnets on router port")
    _check_overlap(tx, router["id"], found)
    if not rights.caller.is_admin:
        _in_pools(tx, rights, port, by_id)
    bump(tx, "ports", port_id, device_id=router["id"], device_owner=ipam.ROUTER_INTERFACE)
    tx.insert("router_interfaces", port_id=port_id, router_id=router["id"], subnet_id=found[0]["id"])
    holding.touch(tx, port_id)
    return port, found


def _in_pools(tx: Tx, rights: Rights, port: Row, by_id: Mapping[str, Row]) -> None:
    """Raise Invalid for an address beside the pools of a subnet that is not the caller's."""
    for fixed in port["fixed_ips"]:
        subnet = by_id[fixed["subnet_id"]]
        if subnet["project_id"] == rights.project:
            continue
        pools = tx.all("select first, last from allocation_pools where subnet_id = :id", id=subnet["id"])
        at = ipam.rank(fixed["ip_address"])
        if not any(ipam.rank(pool["first"]) <= at <= ipam.rank(pool["last"]) for pool in pools):
            raise _bad(
                f"Cannot add interface to router because specified port {port['id']} has an IP address out of the "
                f"allocation pool of subnet {subnet['id']}, which is not owned by the project making the request"
            )


def _add_subnet(tx: Tx, rights: Rights, router: Row, subnet_id: str) -> tuple[Row, list[Row]]:
    subnet = subnets.find(tx, rights, subnet_id)
    if not subnet["gateway_ip"]:
        raise _bad("Subnet for router interface must have a gateway IP")
    if subnet["project_id"] != rights.project and not rights.caller.is_admin:
        # A share with this very project is enough, one with everybody is not: Launchpad bugs 1757482, 1975603.
        shared = tx.one(
            "select 1 from rbac_policies where object_type = 'network' and object_id = :network "
            "and action = 'access_as_shared' and target_project = :project",
            network=subnet["network_id"],
            project=rights.project,
        )
        if shared is None:
            raise _bad(
                f"Cannot add interface to router because subnet {subnet_id} is not owned by project making the request"
            )
    _check_mode(subnet)
    _check_overlap(tx, router["id"], [subnet])
    return plug(tx, router["id"], router["project_id"], subnet), [subnet]


def plug(tx: Tx, router_id: str, project_id: str, subnet: Row) -> Row:
    """Give the router the subnet's gateway address, without asking who may; returns the port.

    IPv6 prefixes of one network share a port. Raises OverQuota, Conflict.
    """
    fixed = {"subnet_id": subnet["id"], "ip_address": subnet["gateway_ip"]}
    if subnet["ip_version"] == 6:
        for address in _interfaces(tx, router_id):
            if address["network_id"] == subnet["network_id"] and address["ip_version"] == 6:
                return _add_prefix(tx, address["port_id"], fixed)
    network = tx.one("select * from networks where id = :id", id=subnet["network_id"])
    assert network is not None
    item = Item(
        {
            "name": "", "admin_state_up": True, "device_id": router_id, "device_owner": ipam.ROUTER_INTERFACE,
            "fixed_ips": [fixed],
        }
    )  # fmt: skip
    id = ports.insert(tx, network, project_id, item)
    tx.insert("router_interfaces", port_id=id, router_id=router_id, subnet_id=subnet["id"])
    return _port(tx, id)


def _port(tx: Tx, id: str) -> Row:
    row = tx.one("select * from ports where id = :id", id=id)
    assert row is not None
    return row


def _add_prefix(tx: Tx, port_id: str, fixed: dict[str, Any]) -> Row:
    port = _port(tx, port_id)
    addresses.change(tx, port, port["mac_address"], ipam.ROUTER_INTERFACE, [*_fixed(tx, port_id), fixed])
    bump(tx, "ports", port_id)
    holding.touch(tx, port_id)
    return port


def _fixed(tx: Tx, port_id: str) -> list[dict[str, Any]]:
    return tx.all(
        "select subnet_id, address as ip_address from fixed_ips where port_id = :id order by position",
        id=port_id,
    )


def remove_interface(
    tx: Tx, rights: Rights, id: str, *, port_id: str | None = None, subnet_id: str | None = None
) -> Row:
    """Unplug a subnet or a port from a router; the port is gone. Returns what the API shows of it.

    Raises NotFound, Forbidden, Invalid, Conflict while floating IPs or routes need it.
    """
    row = find(tx, rights, id)
    rights.demand("remove_router_interface", {"project_id": row["project_id"]})
    row = _locked(tx, id)
    present = _interfaces(tx, id)
    if port_id is not None:
        mine = [address for address in present if address["port_id"] == port_id]
        if not mine:
            raise NotFound(
                f"Router {id} does not have an interface with id {port_id}", code="RouterInterfaceNotFound"
            )
        if subnet_id is not None and all(address["subnet_id"] != subnet_id for address in mine):
            raise Invalid(
                f"Subnet on port {port_id} does not match the requested subnet {subnet_id}.",
                code="SubnetMismatchForPort",
            )
        gone = mine
    else:
        subnets.find(tx, rights, str(subnet_id))
        gone = [address for address in present if address["subnet_id"] == subnet_id]
        if not gone:
            raise NotFound(
                f"Router {id} has no interface on subnet {subnet_id}", code="RouterInterfaceNotFoundForSubnet"
            )
    port = _port(tx, gone[0]["port_id"])
    for address in gone:
        _not_needed(tx, row, address)
    rest = [
        fixed for fixed in _fixed(tx, port["id"]) if all(fixed["subnet_id"] != a["subnet_id"] for a in gone)
    ]
    if rest:
        addresses.change(tx, port, port["mac_address"], ipam.ROUTER_INTERFACE, rest)
        bump(tx, "ports", port["id"])
        holding.touch(tx, port["id"])
    else:
        network_removal.port(tx, port["id"])
    bump(tx, "routers", id)
    holding.touch(tx, id)
    return _info(row, port, [{"id": address["subnet_id"]} for address in gone])


def _not_needed(tx: Tx, router: Row, address: Row) -> None:
    """Raise Conflict while a floating IP or a route goes through the interface."""
    floating = tx.values(
        "select f.floating_ip_address from floatingips f join fixed_ips i on i.port_id = f.port_id "
        "and i.address = f.fixed_ip_address where f.router_id = :id and i.subnet_id = :subnet",
        id=router["id"],
        subnet=address["subnet_id"],
    )
    if floating:
        raise Conflict(
            f"Router interface for subnet {address['subnet_id']} on router {router['id']} cannot be deleted, as it "
            f"is required by one or more floating IPs. They are: {', '.join(floating[:20])}.",
            code="RouterInterfaceInUseByFloatingIP",
        )
    if any(ipam.within(route["nexthop"], address["cidr"]) for route in router["routes"]):
        raise Conflict(
            f"Router interface for subnet {address['subnet_id']} on router {router['id']} cannot be deleted, as it "
            "is required by one or more routes.",
            code="RouterInterfaceInUseByRoute",
        )


# --- routes ---


def _checked_routes(tx: Tx, row: Row, routes: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """The routes, if each leads to a neighbour of the router. Raises Invalid."""
    if len(routes) > MAX_ROUTES:
        raise Invalid(
            f"Unable to complete operation for {row['id']}. The number of routes exceeds the maximum {MAX_ROUTES}.",
            code="RoutesExhausted",
        )
    if not routes:
        return []
    present = _interfaces(tx, row["id"])
    prefixes = [address["cidr"] for address in present]
    own = {address["address"] for address in present}
    if row["gateway_network_id"] is not None:
        prefixes += [subnet["cidr"] for subnet in subnets.of_network(tx, row["gateway_network_id"])]
        own |= {fixed["ip_address"] for fixed in _fixed(tx, row["gateway_port_id"] or "")}
    for route in routes:
        if not any(ipam.within(route["nexthop"], prefix) for prefix in prefixes):
            reason = "the nexthop is not connected with router"
        elif route["nexthop"] in own:
            reason = "the nexthop is used by router"
        else:
            continue
        raise Invalid(f"Invalid format for routes: {list(map(dict, routes))}, {reason}", code="InvalidRoutes")
    return [dict(route) for route in routes]


def add_routes(tx: Tx, rights: Rights, id: str, routes: Sequence[Mapping[str, str]]) -> Row:
    """Add routes to those that the router has; returns the router. Raises NotFound, Forbidden, Invalid."""
    row = find(tx, rights, id)
    rights.demand("add_extraroutes", {"project_id": row["project_id"]})
    row = _locked(tx, id)
    added = [dict(route) for route in routes if route not in row["routes"]]
    bump(tx, "routers", id, routes=_checked_routes(tx, row, [*row["routes"], *added]))
    holding.touch(tx, id)
    return show(tx, rights, id)


def remove_routes(tx: Tx, rights: Rights, id: str, routes: Sequence[Mapping[str, str]]) -> Row:
    """Remove routes; those that are not there are fine. Returns the router. Raises NotFound, Forbidden."""
    row = find(tx, rights, id)
    rights.demand("remove_extraroutes", {"project_id": row["project_id"]})
    row = _locked(tx, id)
    bump(tx, "routers", id, routes=[route for route in row["routes"] if route not in routes])
    holding.touch(tx, id)
    return show(tx, rights, id)
