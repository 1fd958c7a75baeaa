"""Security groups and their rules: which packets reach a port and leave it.

Every project has a group named "default", made when it is first needed, as in Neutron.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cumulet.core import network_quotas
from cumulet.core.network_resources import (
    STANDARD,
    Column,
    Item,
    Listing,
    Noun,
    bump,
    drop_tags,
    flag,
    owner_of,
    set_tags,
    stamps,
    with_tags,
)
from cumulet.core.network_resources import page as page_of
from cumulet.core.rights import Rights
from cumulet.db.engine import Row, Tx, chunks
from cumulet.db.query import Where
from cumulet.errors import Conflict, Invalid
from cumulet.values import IP_PROTOCOLS

DEFAULT_DESCRIPTION = "Default security group"

#: Protocols with ports.
_WITH_PORTS = ("tcp", "udp", "dccp", "sctp", "udplite")
_WITH_PORTS_NUMBERS = frozenset(IP_PROTOCOLS[name] for name in _WITH_PORTS)
_ICMP = frozenset({1, 58})
_IPV6_ONLY = frozenset({41, 43, 44, 58, 59, 60})


def _shared(where: Where, values: Any) -> None:
    where.add(_SHARED if flag(values[-1]) else f"not {_SHARED}")


_SHARED = (
    "(n.id in (select r.object_id from rbac_policies r where r.object_type = 'security_group' "
    "and r.target_project in ('*', :caller_project)))"
)

NOUN = Noun(
    one="security_group",
    many="security_groups",
    title="Security group",
    source="security_groups n",
    columns={**STANDARD, "stateful": Column("n.stateful", "flag")},
    specials={"shared": _shared},
    select=f"n.*, {_SHARED} as shared",
)

RULE = Noun(
    one="security_group_rule",
    many="security_group_rules",
    title="Security group rule",
    source="security_group_rules n join security_groups g on g.id = n.security_group_id",
    columns={
        **{name: column for name, column in STANDARD.items() if name != "name"},
        "security_group_id": Column("n.security_group_id"),
        "remote_group_id": Column("coalesce(n.remote_group_id, '')"),
        "direction": Column("n.direction"),
        "protocol": Column("coalesce(n.protocol, '')"),
        "port_range_min": Column("coalesce(n.port_range_min, -1)", "number"),
        "port_range_max": Column("coalesce(n.port_range_max, -1)", "number"),
        "ethertype": Column("n.ethertype"),
        "remote_ip_prefix": Column("coalesce(n.remote_ip_prefix, '')"),
        "belongs_to_default_sg": Column("g.is_default", "flag", sort=False),
    },
    select="n.*, g.is_default as belongs_to_default_sg, g.project_id as group_project",
    tagged=False,
)


# --- reading ---


def _visible(where: Where, rights: Rights) -> None:
    where.params["caller_project"] = rights.project
    reach = rights.reach("get_security_group")
    if reach != "all":
        where.add(f"n.project_id = :caller_project or {_SHARED}" if reach == "own" else _SHARED)


def page(tx: Tx, rights: Rights, listing: Listing) -> list[Row]:
    """A page of groups with their rules. The default group of the project is made if it is missing."""
    filters = dict(listing.filters)
    named = (filters.get("project_id") or filters.get("tenant_id") or (rights.project,))[0]
    if named and (named == rights.project or rights.caller.is_admin):
        _default_if_project(tx, named, rights)
    where = Where()
    _visible(where, rights)
    return _complete(tx, page_of(tx, NOUN, where, listing))


def _default_if_project(tx: Tx, project_id: str, rights: Rights) -> None:
    """A filter may name a project that there is not; that one gets no group."""
    known = project_id == rights.project or tx.one("select 1 from projects where id = :id", id=project_id)
    if known:
        default_of(tx, project_id)


def find(tx: Tx, rights: Rights, id: str) -> Row:
    """The group's row. Raises NotFound."""
    where = Where()
    _visible(where, rights)
    where.add("n.id = :id", id=id)
    row = tx.one(f"select {NOUN.select} from security_groups n where {where.sql}", **where.params)
    if row is None:
        raise missing(id)
    return row


def missing(id: str) -> Exception:
    error = NOUN.missing(id)
    error.message = f"Security group {id} does not exist"
    return error


def show(tx: Tx, rights: Rights, id: str) -> Row:
    """The group with its rules. Raises NotFound."""
    return _complete(tx, [find(tx, rights, id)])[0]


def _complete(tx: Tx, rows: list[Row]) -> list[Row]:
    rules: dict[str, list[Row]] = {}
    for ids in chunks((row["id"] for row in rows), 1000):
        for rule in tx.all(
            "select * from security_group_rules where security_group_id in :ids order by created_at, id",
            ids=ids,
        ):
            rules.setdefault(rule["security_group_id"], []).append(rule)
    for row in rows:
        row["shared"] = bool(row["shared"])
        row["rules"] = rules.get(row["id"], [])
        for rule in row["rules"]:
            rule["belongs_to_default_sg"] = row["is_default"]
    with_tags(tx, NOUN.many, rows)
    return rows


# --- groups ---


def default_of(tx: Tx, project_id: str) -> str:
    """The id of the project's default group, which is made if there is none.

    It lets everything out, and in only what comes from the group itself.
    """
    query = "select id from security_groups where project_id = :project and is_default"
    found = tx.value(query, project=project_id)
    if found is not None:
        return str(found)
    # Two requests may be the first ones.
    network_quotas.lock(tx, project_id)
    found = tx.value(query, project=project_id)
    if found is not None:
        return str(found)
    id = _insert(tx, project_id, name="default", description=DEFAULT_DESCRIPTION, is_default=True)
    for ethertype in ("IPv4", "IPv6"):
        _insert_rule(tx, project_id, id, direction="ingress", ethertype=ethertype, remote_group_id=id)
    return id


def _insert(tx: Tx, project_id: str, **columns: Any) -> str:
    """A group with the two rules that let everything out."""
    id = tx.uuid()
    tx.insert("security_groups", id=id, project_id=project_id, **columns, **stamps(tx))
    for ethertype in ("IPv4", "IPv6"):
        _insert_rule(tx, project_id, id, direction="egress", ethertype=ethertype)
    return id


def _insert_rule(tx: Tx, project_id: str, group_id: str, **columns: Any) -> str:
    id = tx.uuid()
    tx.insert(
        "security_group_rules",
        id=id,
        project_id=project_id,
        security_group_id=group_id,
        **columns,
        **stamps(tx),
    )
    return id


def create(tx: Tx, rights: Rights, item: Item) -> Row:
    """Make a group. Raises Forbidden, OverQuota, Conflict for the name "default"."""
    project_id = owner_of(rights, item)
    rights.demand("create_security_group", {"project_id": project_id})
    _not_default(item)
    default_of(tx, project_id)
    network_quotas.check(tx, project_id, "security_group")
    network_quotas.check(tx, project_id, "security_group_rule", 2)
    id = _insert(tx, project_id, **item.columns("name", "description", "stateful"))
    if item.get("tags"):
        set_tags(tx, NOUN.many, id, item["tags"])
    return show(tx, rights, id)


def _not_default(item: Item) -> None:
    if str(item.get("name", "")).lower() == "default":
        raise Conflict("Default security group already exists.", code="SecurityGroupDefaultAlreadyExists")


def update(tx: Tx, rights: Rights, id: str, item: Item) -> Row:
    """Change a group. Raises NotFound, Forbidden, Conflict."""
    row = find(tx, rights, id)
    rights.demand("update_security_group", {"project_id": row["project_id"]})
    _not_default(item)
    if row["is_default"] and "name" in item:
        raise Conflict(
            "Updating default security group not allowed.", code="SecurityGroupCannotUpdateDefault"
        )
    if item.get("stateful", row["stateful"]) != row["stateful"]:
        _not_in_use(tx, id)
    changes = item.columns("name", "description", "stateful")
    if changes:
        bump(tx, "security_groups", id, **changes)
    return show(tx, rights, id)


def _not_in_use(tx: Tx, id: str) -> None:
    used = tx.values("select port_id from port_security_groups where security_group_id = :id limit 20", id=id)
    if used:
        raise Conflict(
            f"Security Group {id} in use. Ports that have it: {', '.join(used)}.", code="SecurityGroupInUse"
        )


def delete(tx: Tx, rights: Rights, id: str) -> None:
    """Remove a group with its rules, and the rules of others that name it. Raises NotFound, Forbidden, Conflict."""
    row = find(tx, rights, id)
    rights.demand("delete_security_group", {"project_id": row["project_id"]})
    _not_in_use(tx, id)
    if row["is_default"] and not rights.caller.is_admin:
        raise Conflict(
            "Insufficient rights for removing default security group.",
            code="SecurityGroupCannotRemoveDefault",
        )
    others = tx.values(
        "select distinct security_group_id from security_group_rules where remote_group_id = :id "
        "and security_group_id <> :id",
        id=id,
    )
    tx.delete("security_groups", id)
    drop_tags(tx, NOUN.many, id)
    tx.run("delete from rbac_policies where object_id = :id and object_type = 'security_group'", id=id)
    for other in others:
        _changed(tx, other)


def _changed(tx: Tx, group_id: str) -> None:
    """The ports of a group have other rules now: each is looked at again."""
    tx.run(
        "update holders set due = :now where id in "
        "(select port_id from port_security_groups where security_group_id = :id)",
        now=tx.now,
        id=group_id,
    )
    tx.wakes.add("due")


# --- groups of a port ---


def of_port(tx: Tx, rights: Rights | None, project_id: str, ids: Iterable[str]) -> list[str]:
    """The groups that a port may have, each once, in the order asked for.

    ``rights`` None: asked by compute for a server of the project. Raises NotFound that names what is not
    there for the project, Conflict for groups that do not go together.
    """
    wanted = list(dict.fromkeys(ids))
    if not wanted:
        return []
    found = {
        row["id"]: row
        for some in chunks(wanted)
        for row in tx.all(
            "select n.id, n.project_id, n.stateful, exists (select 1 from rbac_policies r "
            "where r.object_id = n.id and r.object_type = 'security_group' and r.target_project in ('*', :project)) "
            "as shared from security_groups n where n.id in :ids",
            project=project_id, ids=some,
        )
    }  # fmt: skip
    everybodys = rights is not None and rights.caller.is_admin
    lost = [
        id
        for id in wanted
        if id not in found or not (everybodys or found[id]["project_id"] == project_id or found[id]["shared"])
    ]
    if lost:
        raise missing(", ".join(lost))
    if len({found[id]["stateful"] for id in wanted}) > 1:
        raise Conflict(
            "Error Cannot apply both stateful and stateless security groups on the same port at the same time "
            "while attempting the operation.",
            code="SecurityGroupConflict",
        )
    return wanted


def set_of_port(tx: Tx, port_id: str, ids: Sequence[str]) -> None:
    """Give a port these groups and no others."""
    tx.run("delete from port_security_groups where port_id = :id", id=port_id)
    add_to_port(tx, port_id, ids)


def add_to_port(tx: Tx, port_id: str, ids: Sequence[str]) -> None:
    """Give a port these groups, which it does not have."""
    for id in ids:
        tx.insert("port_security_groups", port_id=port_id, security_group_id=id)


# --- rules ---


def page_rules(tx: Tx, rights: Rights, listing: Listing) -> list[Row]:
    """A page of rules. The default group of the caller's project is made if it is missing."""
    if rights.project:
        default_of(tx, rights.project)
    where = Where()
    _visible_rules(where, rights)
    return page_of(tx, RULE, where, listing)


def _visible_rules(where: Where, rights: Rights) -> None:
    reach = rights.reach("get_security_group_rule")
    if reach == "own":
        where.add("g.project_id = :caller_project", caller_project=rights.project)
    elif reach == "none":
        where.add("1 = 0")


def find_rule(tx: Tx, rights: Rights, id: str) -> Row:
    """The rule. Raises NotFound."""
    where = Where()
    _visible_rules(where, rights)
    where.add("n.id = :id", id=id)
    row = tx.one(f"select {RULE.select} from {RULE.source} where {where.sql}", **where.params)
    if row is None:
        error = RULE.missing(id)
        error.message = f"Security group rule {id} does not exist"
        raise error
    return row


def create_rules(tx: Tx, rights: Rights, items: Sequence[Item]) -> list[Row]:
    """Make the rules of one request, all of one group, or none. Raises Forbidden, NotFound, OverQuota, Invalid, Conflict."""
    if len({item["security_group_id"] for item in items}) > 1:
        raise Invalid(
            "Only allowed to update rules for one security profile at a time",
            code="SecurityGroupNotSingleGroupRules",
        )
    return [create_rule(tx, rights, item) for item in items]


def create_rule(tx: Tx, rights: Rights, item: Item) -> Row:
    """Make a rule. Raises Forbidden, NotFound, OverQuota, Invalid, Conflict."""
    project_id = owner_of(rights, item)
    columns = _checked(item)
    group = find(tx, rights, item["security_group_id"])
    target = {"project_id": project_id, "security_group:project_id": group["project_id"]}
    rights.demand("create_security_group_rule", target)
    if columns["remote_group_id"]:
        find(tx, rights, columns["remote_group_id"])
    network_quotas.check(tx, project_id, "security_group_rule")
    key = _key(columns)
    for other in tx.all("select * from security_group_rules where security_group_id = :id", id=group["id"]):
        if _key(other) == key:
            raise Conflict(
                f"Security group rule already exists. Rule id is {other['id']}.",
                code="SecurityGroupRuleExists",
            )
    id = _insert_rule(tx, project_id, group["id"], description=item.get("description", ""), **columns)
    bump(tx, "security_groups", group["id"])
    _changed(tx, group["id"])
    return find_rule(tx, rights, id)


def delete_rule(tx: Tx, rights: Rights, id: str) -> None:
    """Remove a rule. Raises NotFound, Forbidden."""
    row = find_rule(tx, rights, id)
    target = {"project_id": row["project_id"], "security_group:project_id": row["group_project"]}
    rights.demand("delete_security_group_rule", target)
    tx.delete("security_group_rules", id)
    bump(tx, "security_groups", row["security_group_id"])
    _changed(tx, row["security_group_id"])


def _number(protocol: str | None) -> int | None:
    if protocol is None:
        return None
    return IP_PROTOCOLS[protocol] if protocol in IP_PROTOCOLS else int(protocol)


def _checked(item: Item) -> dict[str, Any]:
    """The rule's columns. Raises Invalid for what does not go together.

    The checks, their order and words follow Neutron's (securitygroups_db.py).
    """
    columns = {
        name: item.get(name)
        for name in (
            "direction", "ethertype", "protocol", "port_range_min", "port_range_max", "remote_ip_prefix",
            "remote_group_id",
        )
    }  # fmt: skip
    protocol = columns["protocol"]
    if columns["ethertype"] == "IPv6" and protocol in ("icmp", "icmpv6"):
        protocol = columns["protocol"] = "ipv6-icmp"
    if columns["ethertype"] == "IPv6" and protocol == "1":
        protocol = columns["protocol"] = "58"
    if columns["port_range_min"] == 1 and columns["port_range_max"] == 65535:
        columns["port_range_min"] = columns["port_range_max"] = None
    _check_ports(protocol, columns["port_range_min"], columns["port_range_max"])
    prefix = columns["remote_ip_prefix"]
    if prefix and columns["ethertype"] != f"IPv{ipaddress.ip_interface(prefix).version}":
        raise Invalid(
            f"Conflicting value ethertype {columns['ethertype']} for CIDR {prefix}",
            code="SecurityGroupRuleParameterConflict",
        )
    if columns["ethertype"] == "IPv4" and _number(protocol) in _IPV6_ONLY:
        raise Invalid(
            f"Invalid ethertype IPv4 for protocol {protocol}.",
            code="SecurityGroupEthertypeConflictWithProtocol",
        )
    if prefix and columns["remote_group_id"]:
        raise Invalid(
            "Only one of remote_ip_prefix or remote_group_id or remote_address_group_id may be provided.",
            code="SecurityGroupMultipleRemoteEntites",
        )
    return columns


def _check_ports(protocol: str | None, low: int | None, high: int | None) -> None:
    if low is None and high is None:
        return
    if protocol is None:
        raise Invalid(
            "Must also specify protocol if port range is given.",
            code="SecurityGroupProtocolRequiredWithPorts",
        )
    number = _number(protocol)
    if number in _WITH_PORTS_NUMBERS:
        if low == 0 or high == 0:
            raise Invalid("Invalid value for port 0", code="SecurityGroupInvalidPortValue")
        if low is None or high is None or low > high:
            raise Invalid(
                "For TCP/UDP protocols, port_range_min must be <= port_range_max",
                code="SecurityGroupInvalidPortRange",
            )
    elif number in _ICMP:
        for value, name, column in ((low, "type", "port_range_min"), (high, "code", "port_range_max")):
            if value is not None and not 0 <= value <= 255:
                raise Invalid(
                    f"Invalid value for ICMP {name} ({column}) {value}. It must be 0 to 255.",
                    code="SecurityGroupInvalidIcmpValue",
                )
        if low is None:
            raise Invalid(
                f"ICMP code (port-range-max) {high} is provided but ICMP type (port-range-min) is missing.",
                code="SecurityGroupMissingIcmpType",
            )
    else:
        names = ", ".join(name.upper() for name in _WITH_PORTS)
        raise Invalid(
            f"Ports cannot be specified for protocol {number}. Ports are only supported for {names}.",
            code="SecurityGroupInvalidProtocolForPort",
        )


def _key(rule: Mapping[str, Any]) -> tuple[Any, ...]:
    """What makes two rules the same one."""
    prefix = rule["remote_ip_prefix"]
    return (
        rule["direction"],
        rule["ethertype"],
        _number(rule["protocol"]),
        rule["port_range_min"],
        rule["port_range_max"],
        rule["remote_group_id"],
        None if prefix in (None, "0.0.0.0/0", "::/0") else prefix,
    )
