"""Subnets: prefixes on a network, their gateway, pools and what DHCP tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cumulet.core import addresses, ipam, network_quotas, network_removal, networks, subnetpools
from cumulet.core.network_resources import (
    STANDARD,
    Column,
    Item,
    Listing,
    Noun,
    bump,
    flag,
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
from cumulet.errors import Conflict, Invalid
from cumulet.reconcile import holders

#: Neutron's max_dns_nameservers and max_subnet_host_routes.
MAX_DNS_SERVERS = 5
MAX_HOST_ROUTES = 20


def _shared(where: Where, values: Sequence[str]) -> None:
    where.add(_SHARED if flag(values[-1]) else f"not {_SHARED}")


_SHARED = (
    "(w.shared or w.id in (select r.object_id from rbac_policies r where r.object_type = 'network' "
    "and r.action = 'access_as_shared' and r.target_project = :caller_project))"
)

NOUN = Noun(
    one="subnet",
    many="subnets",
    title="Subnet",
    source="subnets n join networks w on w.id = n.network_id",
    columns={
        **STANDARD,
        "network_id": Column("n.network_id"),
        "ip_version": Column("n.ip_version", "number"),
        "cidr": Column("n.cidr"),
        "gateway_ip": Column("coalesce(n.gateway_ip, '')"),
        "enable_dhcp": Column("n.enable_dhcp", "flag"),
        "ipv6_ra_mode": Column("coalesce(n.ipv6_ra_mode, '')"),
        "ipv6_address_mode": Column("coalesce(n.ipv6_address_mode, '')"),
        "subnetpool_id": Column("coalesce(n.subnetpool_id, '')"),
        "router:external": Column("w.external", "flag", sort=False),
    },
    specials={"shared": _shared},
    select="n.*, w.project_id as network_project, w.external as network_external, w.shared as network_shared",
)

_POLICED = frozenset({"tags"})


def _invalid(message: str) -> Invalid:
    return Invalid(f"Invalid input for operation: {message}.", code="InvalidInput")


def _bad(message: str) -> Invalid:
    return Invalid(f"Bad subnets request: {message}.", code="BadRequest")


# --- reading ---


def _visible(where: Where, rights: Rights) -> None:
    """Let through the subnets of networks that the caller sees, and its own; for some, all."""
    where.params["caller_project"] = rights.project
    reach = rights.reach("get_subnet")
    if reach == "all":
        return
    open_to_caller = (
        "w.id in (select r.object_id from rbac_policies r where r.object_type = 'network' "
        "and r.target_project in ('*', :caller_project))"
    )
    own = "n.project_id = :caller_project or w.project_id = :caller_project or "
    where.add(f"{own}{open_to_caller}" if reach == "own" else open_to_caller)


def page(tx: Tx, rights: Rights, listing: Listing) -> list[Row]:
    """A page of the subnets that the caller sees, complete."""
    where = Where()
    _visible(where, rights)
    return _complete(tx, page_of(tx, NOUN, where, listing))


def find(tx: Tx, rights: Rights, id: str) -> Row:
    """The subnet's row. Raises NotFound."""
    where = Where()
    _visible(where, rights)
    return row_of(tx, NOUN, where, id)


def check_seen(
    tx: Tx, rights: Rights, network_id: str, fixed_ips: Sequence[Mapping[str, Any]] | None
) -> None:
    """Raise NotFound if fixed IPs for a port of the network name a subnet elsewhere that the caller does not see."""
    named = {fixed["subnet_id"] for fixed in fixed_ips or () if fixed.get("subnet_id")}
    here = tx.values("select id from subnets where network_id = :id", id=network_id) if named else []
    for id in sorted(named.difference(here)):
        find(tx, rights, id)


def show(tx: Tx, rights: Rights, id: str) -> Row:
    """The subnet, complete. Raises NotFound."""
    return _complete(tx, [find(tx, rights, id)])[0]


def _complete(tx: Tx, rows: list[Row]) -> list[Row]:
    """Add ``allocation_pools`` and ``tags``."""
    pools: dict[str, list[dict[str, str]]] = {}
    for ids in chunks((row["id"] for row in rows), 1000):
        for pool in tx.all(
            "select subnet_id, first, last from allocation_pools where subnet_id in :ids", ids=ids
        ):
            pools.setdefault(pool["subnet_id"], []).append({"start": pool["first"], "end": pool["last"]})
    for row in rows:
        row["allocation_pools"] = sorted(pools.get(row["id"], []), key=lambda pool: ipam.rank(pool["start"]))
    with_tags(tx, NOUN.many, rows)
    return rows


def target(row: Row) -> dict[str, Any]:
    """What rules may ask of a subnet."""
    return {
        "project_id": row["project_id"],
        "network:project_id": row["network_project"],
        "shared": row["network_shared"],
        "router:external": row["network_external"],
    }


# --- making ---


def create(tx: Tx, rights: Rights, item: Item) -> Row:
    """Make a subnet. Raises NotFound, Forbidden, OverQuota, Invalid, Conflict."""
    project_id = owner_of(rights, item)
    network = networks.find(tx, rights, item["network_id"])
    asked_of = {
        "project_id": project_id,
        "network:project_id": network["project_id"],
        "shared": network["shared"],
    }
    rights.demand("create_subnet", asked_of)
    rights.demand_each("create_subnet", item.given & _POLICED, asked_of)
    pool = _pool(tx, rights, item)
    id = insert(tx, network, project_id, item, pool)
    if item.get("tags"):
        set_tags(tx, NOUN.many, id, item["tags"])
    return show(tx, rights, id)


def _pool(tx: Tx, rights: Rights, item: Item) -> Row | None:
    """The pool that the subnet's prefix comes from, if it comes from one. Raises Invalid, NotFound."""
    named = item.get("subnetpool_id")
    if item.get("use_default_subnetpool"):
        if named:
            raise _bad("subnetpool_id and use_default_subnetpool cannot both be specified")
        version = item.get("ip_version") or (ipam.version(item["cidr"]) if item.get("cidr") else None)
        if version is None:
            raise _bad("ip_version must be specified in the absence of cidr and subnetpool_id")
        pool = subnetpools.default_of(tx, version)
        if pool is None:
            raise _bad(f"No default subnetpool found for IPv{version}")
        return pool
    return subnetpools.find(tx, rights, named) if named else None


def insert(tx: Tx, network: Row, project_id: str, item: Item, pool: Row | None = None) -> str:
    """Make a subnet, without asking who may; returns its id. Raises OverQuota, Invalid, Conflict."""
    cidr, length = item.get("cidr"), item.get("prefixlen")
    if cidr is not None and length is not None:
        raise _bad("cidr and prefixlen must not be supplied together")
    if cidr is None and pool is None:
        raise _bad("a subnetpool must be specified in the absence of a cidr")
    if cidr is None and item.get("allocation_pools"):
        raise _bad("allocation_pools allowed only for specific subnet requests.")
    if pool is not None and item.get("ip_version", pool["ip_version"]) != pool["ip_version"]:
        raise _bad(f"Cannot allocate IPv{item['ip_version']} subnet from IPv{pool['ip_version']} subnet pool")
    network_quotas.check(tx, project_id, "subnet")
    # The prefix must not overlap with that of a subnet that is made at the same moment.
    tx.lock("networks", network["id"])
    if pool is not None:
        cidr = subnetpools.allocate(tx, pool, project_id, _without_host_bits(cidr), length)
    assert cidr is not None
    cidr = _without_host_bits(cidr)
    assert cidr is not None
    version = item.get("ip_version") or ipam.version(cidr)
    values = dict(item.values)
    values.setdefault("enable_dhcp", True)
    _check_prefix(cidr, version, values["enable_dhcp"])
    _check_modes(cidr, version, values)
    _check_options("new subnet", version, values)
    gateway = values["gateway_ip"] if "gateway_ip" in values else ipam.default_gateway(cidr)
    _check_gateway(cidr, version, gateway)
    pools = _pools(values.get("allocation_pools"), cidr, gateway)
    _check_network(tx, network, cidr, version, pool)
    id = tx.uuid()
    tx.insert(
        "subnets", id=id, project_id=project_id, network_id=network["id"], cidr=cidr, ip_version=version,
        gateway_ip=gateway, subnetpool_id=pool["id"] if pool else None,
        **item.columns(
            "name", "description", "enable_dhcp", "ipv6_ra_mode", "ipv6_address_mode", "dns_nameservers",
            "host_routes", "service_types"
        ),
        **stamps(tx),
    )  # fmt: skip
    _store_pools(tx, id, pools)
    row = tx.one("select * from subnets where id = :id", id=id)
    assert row is not None
    if addresses.is_automatic(row):
        holders.touch_all(tx, addresses.add_automatic(tx, row))
    bump(tx, "networks", network["id"])
    holders.touch(tx, network["id"])
    return id


def _without_host_bits(cidr: str | None) -> str | None:
    return None if cidr is None else str(ipam.interface(cidr).network)


def _store_pools(tx: Tx, id: str, pools: Sequence[tuple[str, str]]) -> None:
    tx.run("delete from allocation_pools where subnet_id = :id", id=id)
    for first, last in pools:
        tx.insert("allocation_pools", id=tx.uuid(), subnet_id=id, first=first, last=last)


def _pools(asked: Sequence[dict[str, str]] | None, cidr: str, gateway: str | None) -> list[tuple[str, str]]:
    """The pools asked for, or everything but the gateway. Raises Invalid, Conflict."""
    if asked is None:
        return ipam.default_pools(cidr, gateway)
    pools = [(pool["start"], pool["end"]) for pool in asked]
    ipam.check_pools(pools, cidr)
    if gateway is not None:
        ipam.check_gateway(gateway, pools)
    return pools


def _check_version(version: int, text: str, name: str) -> None:
    if ipam.version(text) != version:
        raise _invalid(f"{name} '{text}' does not match the ip_version '{version}'")


def _check_prefix(cidr: str, version: int, dhcp: bool) -> None:
    """Raise Invalid for a prefix that cannot be a subnet's. Neutron's _validate_subnet."""
    _check_version(version, cidr, "cidr")
    net = ipam.network(cidr)
    if net.prefixlen == 0:
        raise _invalid("0 is not allowed as CIDR prefix length")
    if version == 6 and int(net.network_address) == 0:
        raise _invalid("IPv6 subnet '::' is not supported")
    if not dhcp:
        return
    if net.prefixlen > (30 if version == 4 else 126):
        raise _invalid("Subnet has a prefix length that is incompatible with DHCP service enabled")
    if net.is_multicast:
        raise _invalid("Multicast IP subnet is not supported if enable_dhcp is True")
    if net.is_loopback:
        raise _invalid("Loopback IP subnet is not supported if enable_dhcp is True")
    if version == 4 and int(net.network_address) == 0:
        raise _invalid("First IP '0.0.0.0' of network is not supported if enable_dhcp is True")


def _check_modes(cidr: str, version: int, values: dict[str, Any]) -> None:
    """Raise Invalid for IPv6 modes that do not go together. Neutron's _validate_ipv6_attributes."""
    ra, mode = values.get("ipv6_ra_mode"), values.get("ipv6_address_mode")
    if version == 4:
        for name, value in (("ipv6_ra_mode", ra), ("ipv6_address_mode", mode)):
            if value is not None:
                raise _invalid(f"{name} is not valid when ip_version is 4")
        return
    if (ra or mode) and not values["enable_dhcp"]:
        raise _invalid("ipv6_ra_mode or ipv6_address_mode cannot be set when enable_dhcp is set to False")
    if ra and mode and ra != mode:
        raise _invalid(
            f"ipv6_ra_mode set to '{ra}' with ipv6_address_mode set to '{mode}' is not valid. "
            "If both attributes are set, they must be the same value"
        )
    if ipam.is_automatic(version, mode, ra) and ipam.network(cidr).prefixlen != 64:
        raise _invalid(
            f"Invalid CIDR {cidr} for IPv6 address mode. OpenStack uses the EUI-64 address format, which requires "
            "the prefix to be /64"
        )


def _check_options(id: str, version: int, values: dict[str, Any]) -> None:
    """Raise Invalid for DNS servers and host routes of the wrong version, or too many."""
    servers, routes = values.get("dns_nameservers") or [], values.get("host_routes") or []
    if len(servers) > MAX_DNS_SERVERS:
        raise Invalid(
            f"Unable to complete operation for {id}. The number of DNS nameservers exceeds the limit "
            f"{MAX_DNS_SERVERS}.",
            code="DNSNameServersExhausted",
        )
    if len(routes) > MAX_HOST_ROUTES:
        raise Invalid(
            f"Unable to complete operation for {id}. The number of host routes exceeds the limit {MAX_HOST_ROUTES}.",
            code="HostRoutesExhausted",
        )
    for server in servers:
        _check_version(version, server, "dns_nameserver")
    for route in routes:
        _check_version(version, route["nexthop"], "nexthop")
        _check_version(version, route["destination"], "destination")


def _check_gateway(cidr: str, version: int, gateway: str | None) -> None:
    """Raise Invalid for a gateway that the subnet cannot have; it may be outside of it."""
    if gateway is None:
        return
    _check_version(version, gateway, "gateway_ip")
    net = ipam.network(cidr)
    edges = (str(net.network_address), str(net.broadcast_address))
    if version == 4 and net.prefixlen < 31 and gateway in edges:
        raise _invalid("Gateway is not valid on subnet")


def _check_network(tx: Tx, network: Row, cidr: str, version: int, pool: Row | None) -> None:
    """Raise Invalid or Conflict for what does not fit to the network and its other subnets."""
    if network["mtu"] < networks.MIN_MTU[version]:
        raise Conflict(
            f"MTU of {network['id']} is not valid, subnet requires a minimum of {networks.MIN_MTU[version]}",
            code="NetworkMTUSubnetConflict",
        )
    for other in tx.all(
        "select cidr, ip_version, subnetpool_id from subnets where network_id = :id", id=network["id"]
    ):
        if ipam.overlap(cidr, other["cidr"]):
            raise _invalid(
                f"Requested subnet with cidr: {cidr} for network: {network['id']} overlaps with another subnet"
            )
        if other["ip_version"] == version and other["subnetpool_id"] != (pool["id"] if pool else None):
            raise Invalid(
                "Subnets hosted on the same network must be allocated from the same subnet pool.",
                code="NetworkSubnetPoolAffinityError",
            )


# --- changing ---


def update(tx: Tx, rights: Rights, id: str, item: Item) -> Row:
    """Change a subnet. Raises NotFound, Forbidden, Invalid, Conflict."""
    tx.lock("subnets", id)
    row = show(tx, rights, id)
    rights.demand("update_subnet", target(row))
    rights.demand_each("update_subnet", item.given & _POLICED, target(row))
    version, values = row["ip_version"], dict(item.values)
    if values.get("enable_dhcp") and not row["enable_dhcp"]:
        _check_prefix(row["cidr"], version, True)
    if values.get("enable_dhcp") is False and (row["ipv6_ra_mode"] or row["ipv6_address_mode"]):
        raise _invalid("Cannot disable enable_dhcp with ipv6 attributes set")
    _check_options(id, version, values)
    gateway = values.get("gateway_ip", row["gateway_ip"])
    if gateway != row["gateway_ip"]:
        _check_gateway(row["cidr"], version, gateway)
        _may_change_gateway(tx, row)
    changes = item.columns(
        "name", "description", "enable_dhcp", "gateway_ip", "dns_nameservers", "host_routes", "service_types"
    )  # fmt: skip
    current = row["allocation_pools"]
    if "allocation_pools" in values or gateway != row["gateway_ip"]:
        pools = _pools(values.get("allocation_pools", current), row["cidr"], gateway)
        _store_pools(tx, id, pools)
    if not values:
        return row
    bump(tx, "subnets", id, **changes)
    bump(tx, "networks", row["network_id"])
    holders.touch(tx, row["network_id"])
    return show(tx, rights, id)


def _may_change_gateway(tx: Tx, row: Row) -> None:
    """Raise Conflict while a router has the gateway's address."""
    port = tx.value(
        "select p.id from fixed_ips f join ports p on p.id = f.port_id where f.subnet_id = :id "
        "and f.address = :gateway and p.device_owner = :owner",
        id=row["id"], gateway=row["gateway_ip"] or "", owner=ipam.ROUTER_INTERFACE,
    )  # fmt: skip
    if port is not None:
        raise Conflict(
            f"Current gateway ip {row['gateway_ip']} already in use by port {port}. Unable to update.",
            code="GatewayIpInUse",
        )


# --- removing ---


def delete(tx: Tx, rights: Rights, id: str) -> None:
    """Remove a subnet. Ports lose the addresses that they gave themselves on it. Raises NotFound, Forbidden, Conflict."""
    row = find(tx, rights, id)
    rights.demand("delete_subnet", target(row))
    tx.lock("subnets", id)
    used = tx.all(
        "select f.address, p.id, p.device_owner from fixed_ips f join ports p on p.id = f.port_id "
        "where f.subnet_id = :id order by f.rank",
        id=id,
    )
    owners = network_removal.OF_THE_NETWORK
    automatic = addresses.is_automatic(row)
    in_the_way = [
        port
        for port in used
        if port["device_owner"] == ipam.ROUTER_INTERFACE
        or (not automatic and port["device_owner"] not in owners)
    ]
    if in_the_way:
        some = ", ".join(
            f"{port['address']} ({port['id']}, {port['device_owner'] or 'no device'})"
            for port in in_the_way[:10]
        )
        raise Conflict(
            f"Unable to complete operation on subnet {id}: One or more ports have an IP allocation from this "
            f"subnet. These have: {some}.",
            code="SubnetInUse",
        )
    network_removal.subnet(tx, id)
    holders.touch_all(tx, sorted({port["id"] for port in used}))
    bump(tx, "networks", row["network_id"])
    holders.touch(tx, row["network_id"])


def by_id(tx: Tx, ids: Sequence[str]) -> dict[str, Row]:
    """Subnets by id, whoever asks."""
    found: dict[str, Row] = {}
    for some in chunks(ids):
        found.update((row["id"], row) for row in tx.all("select * from subnets where id in :ids", ids=some))
    return found


def of_network(tx: Tx, network_id: str) -> list[Row]:
    """The subnets of a network, the oldest first, whoever asks."""
    return tx.all("select * from subnets where network_id = :id order by created_at, id", id=network_id)
