"""Ports: what a server, a router or a floating IP is plugged into a network with.

The first half is the API's; the second half is for compute, which writes in the same transaction and has
asked its own rules already.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cumulet.core import addresses, ipam, network_quotas, network_removal, networks, securitygroups, subnets
from cumulet.core.network_resources import (
    STANDARD,
    Column,
    Item,
    Listing,
    Noun,
    any_of,
    bump,
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

#: The first half of every MAC address that is chosen here, as Neutron's default.
MAC_PREFIX = "fa:16:3e"
#: Owners of ports that only the router's or the floating IP's own calls may delete.
_OF_L3 = (*ipam.ROUTER_OWNERS, ipam.FLOATING_IP)
#: Keys of a binding profile that compute writes, and that go when the port is given back. See the reset of a
#: port in Nova (network/neutron.py).
_PROFILE_OF_COMPUTE = frozenset(
    {
        "pci_vendor_info", "pci_slot", "allocation", "arq_uuid", "physical_network", "card_serial_number",
        "vf_num", "pf_mac_address", "device_mac_address",
    }
)  # fmt: skip


def _fixed_ips(where: Where, values: Sequence[str]) -> None:
    """``fixed_ips=ip_address=…&fixed_ips=subnet_id=…``: one of the values for each of the keys."""
    wanted: dict[str, list[str]] = {}
    for value in values:
        key, sign, text = value.partition("=")
        if not sign or not key.strip():
            raise _invalid(f"'{value[:100]}' is not of the form <key>=[value]")
        wanted.setdefault(key.strip(), []).append(text.strip())
    has = "exists (select 1 from fixed_ips f where f.port_id = n.id and {})"
    if "ip_address" in wanted:
        any_of(where, has.format("f.address in :values"), map(normal_ip, wanted["ip_address"]))
    if "subnet_id" in wanted:
        any_of(where, has.format("f.subnet_id in :values"), wanted["subnet_id"])
    texts = [text for text in wanted.get("ip_address_substr", [])[:10] if text]
    if texts:
        # Without LIKE, so that nothing in the text is a pattern.
        names = {f"substr{i}": text for i, text in enumerate(texts)}
        contains = " or ".join(f"replace(f.address, :{name}, '') <> f.address" for name in names)
        where.add(has.format(f"({contains})"), **names)


def _security_groups(where: Where, values: Sequence[str]) -> None:
    any_of(
        where,
        "exists (select 1 from port_security_groups s where s.port_id = n.id and s.security_group_id in :values)",
        values,
    )


def normal_ip(text: str) -> str:
    """A filter's address in its normal form; what is none, as it is."""
    try:
        return ipam.normal(text)
    except ValueError:
        return text


def _normal_mac(text: str) -> str:
    return text.lower().replace("-", ":")


NOUN = Noun(
    one="port",
    many="ports",
    title="Port",
    source="ports n join networks w on w.id = n.network_id",
    columns={
        **STANDARD,
        "network_id": Column("n.network_id"),
        "admin_state_up": Column("n.admin_state_up", "flag"),
        "mac_address": Column("n.mac_address", normal=_normal_mac),
        "device_id": Column("n.device_id"),
        "device_owner": Column("n.device_owner"),
        "status": Column("n.status"),
        "binding:host_id": Column("n.binding_host", sort=False),
        "binding:vnic_type": Column("n.vnic_type", sort=False),
        "port_security_enabled": Column("n.port_security_enabled", "flag", sort=False),
        "dns_name": Column("n.dns_name", sort=False),
    },
    specials={"fixed_ips": _fixed_ips, "security_groups": _security_groups},
    select="n.*, w.project_id as network_project, w.shared as network_shared, w.dns_domain as network_dns_domain",
)

#: Attributes that have a rule of their own.
_POLICED = frozenset(
    {
        "device_id", "device_owner", "mac_address", "fixed_ips", "port_security_enabled", "binding:host_id",
        "binding:profile", "binding:vnic_type", "allowed_address_pairs", "tags",
    }
)  # fmt: skip


def _invalid(message: str) -> Invalid:
    return Invalid(f"Invalid input for operation: {message}.", code="InvalidInput")


# --- reading ---


def _visible(where: Where, rights: Rights) -> None:
    """Let through the ports that the caller sees: its own, and all on its own networks; for some, all."""
    reach = rights.reach("get_port")
    if reach == "own":
        where.add(
            "n.project_id = :caller_project or "
            "n.network_id in (select id from networks where project_id = :caller_project)",
            caller_project=rights.project,
        )
    elif reach == "none":
        where.add("1 = 0")


def page(tx: Tx, rights: Rights, listing: Listing) -> list[Row]:
    """A page of the ports that the caller sees, complete."""
    where = Where()
    _visible(where, rights)
    return _complete(tx, page_of(tx, NOUN, where, listing))


def find(tx: Tx, rights: Rights, id: str) -> Row:
    """The port's row. Raises NotFound."""
    where = Where()
    _visible(where, rights)
    return row_of(tx, NOUN, where, id)


def show(tx: Tx, rights: Rights, id: str) -> Row:
    """The port, complete. Raises NotFound."""
    return _complete(tx, [find(tx, rights, id)])[0]


def read(tx: Tx, id: str) -> Row:
    """The port, complete, whoever asks."""
    rows = tx.all(f"select {NOUN.select} from {NOUN.source} where n.id = :id", id=id)
    if not rows:
        raise NOUN.missing(id)
    return _complete(tx, rows)[0]


def _complete(tx: Tx, rows: list[Row]) -> list[Row]:
    """Add ``fixed_ips``, ``security_groups`` and ``tags``."""
    fixed: dict[str, list[dict[str, str]]] = {}
    groups: dict[str, list[str]] = {}
    for ids in chunks((row["id"] for row in rows), 1000):
        for ip in tx.all(
            "select port_id, subnet_id, address from fixed_ips where port_id in :ids order by position",
            ids=ids,
        ):
            fixed.setdefault(ip["port_id"], []).append(
                {"subnet_id": ip["subnet_id"], "ip_address": ip["address"]}
            )
        for group in tx.all(
            "select port_id, security_group_id from port_security_groups where port_id in :ids "
            "order by security_group_id",
            ids=ids,
        ):
            groups.setdefault(group["port_id"], []).append(group["security_group_id"])
    for row in rows:
        row["fixed_ips"] = fixed.get(row["id"], [])
        row["security_groups"] = groups.get(row["id"], [])
    _with_trunks(tx, rows)
    with_tags(tx, NOUN.many, rows)
    return rows


def _with_trunks(tx: Tx, rows: list[Row]) -> None:
    """Give the ports that carry a trunk its ``trunk``: its id and its subports."""
    found: dict[str, Row] = {}
    for ids in chunks((row["id"] for row in rows), 1000):
        for trunk in tx.all("select id, port_id from trunks where port_id in :ids", ids=ids):
            subports = tx.all(
                "select s.port_id, s.segmentation_type, s.segmentation_id, p.mac_address from trunk_subports s "
                "join ports p on p.id = s.port_id where s.trunk_id = :id order by s.segmentation_id",
                id=trunk["id"],
            )
            found[trunk["port_id"]] = {"trunk_id": trunk["id"], "sub_ports": subports}
    for row in rows:
        row["trunk"] = found.get(row["id"])


def target(row: Row, item: Item | None = None) -> dict[str, Any]:
    """What rules may ask of a port, as it would be after ``item``."""
    owner = item.get("device_owner", row["device_owner"]) if item else row["device_owner"]
    return {
        "project_id": row["project_id"],
        "network:project_id": row["network_project"],
        "shared": row["network_shared"],
        "device_owner": owner,
    }


def _demand_attributes(rights: Rights, rule: str, item: Item, target: Mapping[str, Any]) -> None:
    names = set(item.given & _POLICED)
    for fixed in item.get("fixed_ips") or [] if "fixed_ips" in names else []:
        names |= {f"fixed_ips:{key}" for key in fixed if key in ("ip_address", "subnet_id")}
    for pair in item.get("allowed_address_pairs") or [] if "allowed_address_pairs" in names else []:
        names |= {f"allowed_address_pairs:{key}" for key in pair}
    rights.demand_each(rule, names, target)


# --- writing ---


def create(tx: Tx, rights: Rights, item: Item) -> Row:
    """Make a port. Raises NotFound, Forbidden, OverQuota, Invalid, Conflict."""
    project_id = owner_of(rights, item)
    network = networks.find(tx, rights, item["network_id"])
    asked_of = {
        "project_id": project_id,
        "network:project_id": network["project_id"],
        "shared": network["shared"],
        "device_owner": item.get("device_owner", ""),
    }
    rights.demand("create_port", asked_of)
    _demand_attributes(rights, "create_port", item, asked_of)
    _not_anothers_router(tx, rights, project_id, item.get("device_owner", ""), item.get("device_id", ""))
    subnets.check_seen(tx, rights, network["id"], item.get("fixed_ips"))
    id = insert(tx, network, project_id, item, rights)
    return show(tx, rights, id)


def insert(tx: Tx, network: Row, project_id: str, item: Item, rights: Rights | None = None) -> str:
    """Make a port, without asking who may; returns its id. Raises OverQuota, NotFound, Invalid, Conflict.

    ``rights`` only widen whose security groups may be named.
    """
    network_quotas.check(tx, project_id, "port")
    owner = item.get("device_owner", "")
    trusted = owner.startswith("network:")
    secured = not trusted and item.get("port_security_enabled", network["port_security_enabled"])
    groups = item.get("security_groups")
    if groups and not secured and not trusted:
        raise _needs_security()
    if item.get("allowed_address_pairs") and not secured:
        raise _pairs_need_security()
    if trusted or not secured:
        group_ids = []
    elif groups is None:
        group_ids = [securitygroups.default_of(tx, project_id)]
    else:
        group_ids = securitygroups.of_port(tx, rights, project_id, groups)
    mac = _mac(tx, network["id"], item.get("mac_address"))
    found = addresses.pick(tx, network["id"], mac, owner, item.get("fixed_ips"))
    id = tx.uuid()
    holders.create(tx, id, "port", project_id or None)
    tx.insert(
        "ports", id=id, project_id=project_id, network_id=network["id"], mac_address=mac,
        port_security_enabled=secured, allowed_address_pairs=_pairs(item.get("allowed_address_pairs"), mac),
        extra_dhcp_opts=_options([], item.get("extra_dhcp_opts")), binding_profile=item.get("binding:profile") or {},
        binding_host=item.get("binding:host_id") or "", vnic_type=item.get("binding:vnic_type", "normal"),
        status=item.get("status", "DOWN"),
        **item.columns("name", "description", "admin_state_up", "device_id", "device_owner", "dns_name"),
        **stamps(tx),
    )  # fmt: skip
    addresses.store(tx, id, found)
    securitygroups.add_to_port(tx, id, group_ids)
    if item.get("tags"):
        set_tags(tx, NOUN.many, id, item["tags"])
    return id


def _mac(tx: Tx, network_id: str, wanted: str | None) -> str:
    """The MAC address asked for, or a free one of our own. Raises Conflict."""
    query = "select 1 from ports where network_id = :network and mac_address = :mac"
    if wanted is not None:
        if tx.one(query, network=network_id, mac=wanted) is not None:
            raise Conflict(
                f"Unable to complete operation for network {network_id}. The mac address {wanted} is in use.",
                code="MacAddressInUse",
            )
        return wanted
    while True:
        tail = tx.chance.below(1 << 24)
        mac = f"{MAC_PREFIX}:{tail >> 16:02x}:{tail >> 8 & 255:02x}:{tail & 255:02x}"
        if tx.one(query, network=network_id, mac=mac) is None:
            return mac


def _pairs(pairs: Sequence[Mapping[str, str]] | None, mac: str) -> list[dict[str, str]]:
    """Allowed address pairs; one without a MAC address means the port's own."""
    return [
        {"ip_address": pair["ip_address"], "mac_address": pair.get("mac_address") or mac}
        for pair in pairs or []
    ]


def _options(
    current: Iterable[Mapping[str, Any]], changes: Iterable[Mapping[str, Any]] | None
) -> list[dict[str, Any]]:
    """DHCP options after an update: each replaces the one of its name and IP version, null removes it."""
    merged = {(option["opt_name"], option["ip_version"]): dict(option) for option in current}
    for option in changes or ():
        key = (option["opt_name"], option.get("ip_version", 4))
        if option["opt_value"] is None:
            merged.pop(key, None)
        else:
            merged[key] = {"opt_name": key[0], "opt_value": option["opt_value"], "ip_version": key[1]}
    return list(merged.values())


def _needs_security() -> Invalid:
    return Invalid(
        "Port security must be enabled and port must have an IP address in order to use security groups.",
        code="PortSecurityAndIPRequiredForSecurityGroups",
    )


def _pairs_need_security() -> Conflict:
    return Conflict(
        "Port Security must be enabled in order to have allowed address pairs on a port.",
        code="AddressPairAndPortSecurityRequired",
    )


def _not_anothers_router(tx: Tx, rights: Rights, project_id: str, owner: str, device_id: str) -> None:
    """Raise Conflict for a port that claims to be an interface of another project's router."""
    if owner != ipam.ROUTER_INTERFACE or not device_id or rights.caller.is_admin:
        return
    router_project = tx.value("select project_id from routers where id = :id", id=device_id)
    if router_project not in (None, project_id):
        raise Conflict(
            f"The following device_id {device_id} is not owned by your project or matches another project router.",
            code="DeviceIDNotOwnedByTenant",
        )


def update(tx: Tx, rights: Rights, id: str, item: Item) -> Row:
    """Change a port. Raises NotFound, Forbidden, Invalid, Conflict."""
    tx.lock("ports", id)
    row = find(tx, rights, id)
    rights.demand("update_port", target(row))
    _demand_attributes(rights, "update_port", item, target(row, item))
    owner = item.get("device_owner", row["device_owner"])
    if "device_owner" in item or "device_id" in item:
        device_id = item.get("device_id", row["device_id"])
        _not_anothers_router(tx, rights, row["project_id"], owner, device_id)
    if not item.values:
        return _complete(tx, [row])[0]
    mac = item.get("mac_address") or row["mac_address"]
    if mac != row["mac_address"]:
        _may_change_mac(row)
        _mac(tx, row["network_id"], mac)
    changes = item.columns(
        "name", "description", "admin_state_up", "device_id", "device_owner", "dns_name", "port_security_enabled",
        vnic_type="binding:vnic_type",
    )  # fmt: skip
    changes |= _rebound(row, item)
    if "allowed_address_pairs" in item:
        changes["allowed_address_pairs"] = _pairs(item["allowed_address_pairs"], mac)
    if "extra_dhcp_opts" in item:
        changes["extra_dhcp_opts"] = _options(row["extra_dhcp_opts"], item["extra_dhcp_opts"])
    _update_groups(tx, rights, row, item, changes)
    subnets.check_seen(tx, rights, row["network_id"], item.get("fixed_ips"))
    if "fixed_ips" in item or mac != row["mac_address"]:
        _readdress(tx, row, mac, owner, item.get("fixed_ips"))
    bump(tx, "ports", id, mac_address=mac, **changes)
    holders.touch(tx, id)
    if changes.get("binding_host", row["binding_host"]) != row["binding_host"]:
        for carried in _carried(tx, id):
            bind(tx, carried, changes["binding_host"])
    return show(tx, rights, id)


def _may_change_mac(row: Row) -> None:
    if row["device_owner"].startswith("network:"):
        raise Conflict(
            f"Operation mac address update is not supported for device_owner {row['device_owner']} on port "
            f"{row['id']}.",
            code="UnsupportedPortDeviceOwner",
        )
    if row["binding_host"]:
        raise Conflict(
            f"Unable to complete operation on port {row['id']}, port is already bound, port type: ovs, "
            f"old_mac {row['mac_address']}.",
            code="PortBound",
        )


def _rebound(row: Row, item: Item) -> dict[str, Any]:
    """Columns of the binding after an update; a port that moves is down until it is seen up again."""
    changes: dict[str, Any] = {}
    if "binding:host_id" in item:
        changes["binding_host"] = item["binding:host_id"] or ""
        if changes["binding_host"] != row["binding_host"]:
            changes["status"] = "DOWN"
    if "binding:profile" in item:
        changes["binding_profile"] = item["binding:profile"] or {}
    return changes


def _update_groups(tx: Tx, rights: Rights, row: Row, item: Item, changes: Mapping[str, Any]) -> None:
    """Security groups and port security after an update. Raises Invalid, Conflict, NotFound."""
    secured = item.get("port_security_enabled", row["port_security_enabled"])
    pairs = changes.get("allowed_address_pairs", row["allowed_address_pairs"])
    if pairs and not secured:
        raise _pairs_need_security()
    if "security_groups" in item:
        if item["security_groups"] and not secured:
            raise _needs_security()
        securitygroups.set_of_port(
            tx, row["id"], securitygroups.of_port(tx, rights, row["project_id"], item["security_groups"])
        )
    elif not secured and row["port_security_enabled"]:
        has = tx.one("select 1 from port_security_groups where port_id = :id", id=row["id"])
        if has is not None:
            raise Conflict(
                "Port has security group associated. Cannot disable port security or IP address until security "
                "group is removed.",
                code="PortSecurityPortHasSecurityGroup",
            )


def _readdress(tx: Tx, row: Row, mac: str, owner: str, asked: Sequence[dict[str, Any]] | None) -> None:
    """The addresses that an update asks for; None keeps them, but for those that follow from the MAC address."""
    query = "select subnet_id, address from fixed_ips where port_id = :id order by position"
    before = tx.all(query, id=row["id"])
    if asked is None:
        asked = [{"subnet_id": ip["subnet_id"], "ip_address": ip["address"]} for ip in before]
    addresses.change(tx, row, mac, owner, asked)
    after = {ip["address"] for ip in tx.all(query, id=row["id"])}
    lost = {ip["address"] for ip in before} - after
    if owner == ipam.ROUTER_INTERFACE and any(ipam.version(address) == 4 for address in lost):
        raise Invalid(
            f"Bad ports request: IP updates for port {row['id']} are not allowed.", code="BadRequest"
        )
    floating = tx.values("select fixed_ip_address from floatingips where port_id = :id", id=row["id"])
    if lost & set(floating):
        raise Invalid(
            f"Bad port request: Cannot update the fixed_ips of the port {row['id']}, because its original fixed_ip "
            "has been associated to a floating ip.",
            code="BadRequest",
        )


def delete_as(tx: Tx, rights: Rights, id: str) -> None:
    """Remove a port as its user. Raises NotFound, Forbidden, Conflict for ports of routers and floating IPs."""
    row = find(tx, rights, id)
    rights.demand("delete_port", target(row))
    if row["device_owner"] in _OF_L3 and _has_device(tx, row):
        raise Conflict(
            f"Port {id} cannot be deleted directly via the port API: has device owner {row['device_owner']}.",
            code="ServicePortInUse",
        )
    _not_in_trunk(tx, id)
    delete(tx, id)
    if row["device_owner"].startswith("compute:") and tx.lock("holders", row["device_id"]):
        # The server had it.
        holders.touch(tx, row["device_id"])


def _not_in_trunk(tx: Tx, id: str) -> None:
    trunk = tx.value("select id from trunks where port_id = :id", id=id)
    if trunk is not None:
        raise Conflict(
            f"Port {id} is currently a parent port for trunk {trunk}.", code="PortInUseAsTrunkParent"
        )
    trunk = tx.value("select trunk_id from trunk_subports where port_id = :id", id=id)
    if trunk is not None:
        raise Conflict(f"Port {id} is currently a subport for trunk {trunk}.", code="PortInUseAsSubPort")


def _has_device(tx: Tx, row: Row) -> bool:
    table = "floatingips" if row["device_owner"] == ipam.FLOATING_IP else "routers"
    return tx.one(f"select 1 from {table} where id = :id", id=row["device_id"]) is not None


# --- for compute ---


def create_for_server(
    tx: Tx, *, project_id: str, network_id: str, server_id: str, zone: str, security_group_ids: Sequence[str],
    fixed_ip: str | None = None, dns_name: str = "", is_admin: bool = False,
) -> str:  # fmt: skip
    """A port for a server that named only the network; returns its id. Its quota is checked, its address chosen.

    No ``security_group_ids``: the project's default group. Raises NotFound for a network that the project
    cannot use, OverQuota, Invalid, Conflict.
    """
    network = networks.usable(tx, project_id, [network_id], is_admin=is_admin)
    if not network:
        raise networks.NOUN.missing(network_id)
    values: dict[str, Any] = {
        "name": "", "admin_state_up": True, "device_id": server_id, "device_owner": f"compute:{zone}",
        "dns_name": dns_name,
    }  # fmt: skip
    if fixed_ip is not None:
        values["fixed_ips"] = [{"ip_address": ipam.normal(fixed_ip)}]
    if security_group_ids and network[0]["port_security_enabled"]:
        values["security_groups"] = list(security_group_ids)
    id = insert(tx, network[0], project_id, Item(values))
    # Nobody can reach it before the server has a host, and then it is told with its host at once.
    tx.unsettled.pop(id, None)
    return id


def take(tx: Tx, port_id: str, *, server_id: str, zone: str, project_id: str, is_admin: bool) -> Row:
    """A port that the user made becomes the server's; complete.

    Raises NotFound if the project has no such port, Conflict that names who has it.
    """
    tx.lock("ports", port_id)
    row = tx.one("select project_id, device_id, device_owner from ports where id = :id", id=port_id)
    if row is None or (row["project_id"] != project_id and not is_admin):
        raise NOUN.missing(port_id)
    if row["device_id"]:
        raise Conflict(
            f"Port {port_id} is still in use: it belongs to {row['device_owner'] or 'the device'} "
            f"{row['device_id']}. Detach it there first, or choose another port.",
            code="PortInUse",
        )
    trunk = tx.value("select trunk_id from trunk_subports where port_id = :id", id=port_id)
    if trunk is not None:
        raise Conflict(
            f"Port {port_id} is still in use: trunk {trunk} carries it. Take it out of the trunk, or choose "
            "another port.",
            code="PortInUse",
        )
    bump(tx, "ports", port_id, device_id=server_id, device_owner=f"compute:{zone}")
    holders.touch(tx, port_id)
    return read(tx, port_id)


def name(tx: Tx, port_id: str, server_id: str, hostname: str) -> str:
    """Name a user's port as the server that it is taken for; return what was written, "" if it had that name.

    Raises Invalid for a port with another name: it would lead elsewhere than it says. See Nova's use of the
    DNS integration extension (network/neutron.py).
    """
    before = tx.value("select dns_name from ports where id = :id", id=port_id)
    if before and before != hostname:
        raise Invalid(
            f"Port {port_id} not usable for instance {server_id}. Value {before} assigned to dns_name attribute does "
            f"not match instance's hostname {hostname}"
        )
    if before:
        return ""
    tx.update("ports", port_id, dns_name=hostname)
    return hostname


def bind(tx: Tx, port_id: str, host_name: str) -> None:
    """The port, and those that its trunk carries, are to be on a host. Missing is fine.

    It is up once its agent has seen it there: see core.holding.
    """
    for id in (port_id, *_carried(tx, port_id)):
        tx.run(
            "update ports set binding_host = :host, "
            "status = case when binding_host = :host then status else 'DOWN' end, "
            "updated_at = :now, revision_number = revision_number + 1 where id = :id",
            host=host_name,
            now=tx.now,
            id=id,
        )
        holders.touch(tx, id)


def _carried(tx: Tx, port_id: str) -> list[str]:
    """The ports that a port's trunk carries."""
    return tx.values(
        "select s.port_id from trunks t join trunk_subports s on s.trunk_id = t.id where t.port_id = :id "
        "order by s.port_id",
        id=port_id,
    )


def unbind(tx: Tx, port_id: str) -> None:
    """The port, and those that its trunk carries, are on no host; the server keeps it. Missing is fine.

    What compute wrote into its profile goes.
    """
    for id in (port_id, *_carried(tx, port_id)):
        _release(tx, id)


def _release(tx: Tx, id: str, **changes: Any) -> None:
    row = tx.one("select binding_profile from ports where id = :id", id=id)
    if row is not None:
        bump(tx, "ports", id, **changes, **_unbound(row))
        holders.touch(tx, id)


def _unbound(row: Row) -> dict[str, Any]:
    kept = {key: value for key, value in row["binding_profile"].items() if key not in _PROFILE_OF_COMPUTE}
    return {"binding_host": "", "binding_profile": kept, "status": "DOWN"}


def give_back(tx: Tx, port_id: str, named: str = "") -> None:
    """A port that the user made is nobody's again; all that the user set stays. Missing is fine.

    ``named``: what compute wrote as its name.
    """
    dns_name = tx.value("select dns_name from ports where id = :id", id=port_id)
    _release(tx, port_id, device_id="", device_owner="", dns_name="" if dns_name == named else dns_name)
    for id in _carried(tx, port_id):
        _release(tx, id)


def delete(tx: Tx, port_id: str) -> None:
    """Remove a port, without asking who may: addresses are free, floating IPs point nowhere. Missing is fine."""
    network_removal.port(tx, port_id)


def of_server(tx: Tx, server_ids: Iterable[str]) -> dict[str, list[Row]]:
    """The ports of servers, in the order of their interfaces; four statements for any number of servers.

    Each has ``network_name``; ``fixed_ips`` with ``subnet_id``, ``ip_address``, ``version`` and
    ``floating_ips`` (addresses); and ``security_groups`` with ``id`` and ``name``.
    """
    ids = tuple(server_ids)
    found: dict[str, list[Row]] = {id: [] for id in ids}
    if not ids:
        return found
    rows = tx.all(
        "select p.id, p.project_id, p.network_id, p.device_id, p.device_owner, p.mac_address, p.status, "
        "p.port_security_enabled, p.created_at, coalesce(i.position, 0) as position, w.name as network_name "
        "from ports p join networks w on w.id = p.network_id left join interfaces i on i.port_id = p.id "
        "where p.device_id in :ids",
        ids=ids,
    )
    if not rows:
        return found
    # Few servers have many ports: sorting each one's here costs less than sorting all of them there.
    rows.sort(key=lambda row: (row["position"], row["created_at"], row["id"]))
    ports: dict[str, Row] = {}
    for row in rows:
        row["fixed_ips"], row["security_groups"] = [], []
        ports[row["id"]] = row
        found[row["device_id"]].append(row)
    at: dict[tuple[str, str], Row] = {}
    for ip in tx.all(
        "select f.port_id, f.subnet_id, f.address as ip_address, s.ip_version as version from fixed_ips f "
        "join subnets s on s.id = f.subnet_id where f.port_id in :ids order by f.position",
        ids=tuple(ports),
    ):
        ip["floating_ips"] = []
        at[ip["port_id"], ip["ip_address"]] = ip
        ports[ip.pop("port_id")]["fixed_ips"].append(ip)
    for floating in tx.all(
        "select f.port_id, f.fixed_ip_address, f.floating_ip_address from floatingips f "
        "where f.port_id in :ids order by f.floating_ip_address",
        ids=tuple(ports),
    ):
        inside = at.get((floating["port_id"], floating["fixed_ip_address"]))
        if inside is not None:
            inside["floating_ips"].append(floating["floating_ip_address"])
    for group in tx.all(
        "select s.port_id, g.id, g.name from port_security_groups s join security_groups g "
        "on g.id = s.security_group_id where s.port_id in :ids order by g.name, g.id",
        ids=tuple(ports),
    ):
        ports[group.pop("port_id")]["security_groups"].append(group)
    return found
