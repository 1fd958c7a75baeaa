"""Security groups and their rules, as compute showed them until 2.35: what comes in, and nothing else.

See the compute API reference, "Security groups (DEPRECATED)" and "Rules for security group (DEPRECATED)".
"""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Sequence
from typing import Any, TypeVar

from msgspec import Struct

from cumulet.api.asgi import Route
from cumulet.api.compute.links import page_of
from cumulet.api.network.collection import rights, settled
from cumulet.api.request import Request, Response, accepted, ok
from cumulet.core import securitygroups
from cumulet.core.network_resources import Item, Listing
from cumulet.core.policy import MEMBER, READER
from cumulet.core.rights import Rights
from cumulet.core.servers import security_groups as server_groups
from cumulet.db.engine import Row, Tx
from cumulet.errors import Conflict, Invalid
from cumulet.wire.forms import Short
from cumulet.wire.network import securitygroups as wire
from cumulet.wire.network.attributes import decode_create, decode_update
from cumulet.wire.servers import check_uuid

T = TypeVar("T")
_EVERYWHERE = {"IPv4": "0.0.0.0/0", "IPv6": "::/0"}
_LAST = (2, 35)


class Named(Struct):
    name: Short
    description: Short


class Group(Struct):
    security_group: Named


class NewRule(Struct):
    parent_group_id: str
    group_id: str | None = None
    ip_protocol: Any = None
    from_port: Any = None
    to_port: Any = None
    cidr: Any = None

    def __post_init__(self) -> None:
        for name in ("parent_group_id", "group_id"):
            value = getattr(self, name)
            if value is not None:
                check_uuid(value, name)


class Rule(Struct):
    security_group_rule: NewRule


def group_bodies(tx: Tx, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Groups in compute's form, by project and name."""
    remote = {rule["remote_group_id"] for row in rows for rule in _incoming(row)} - {None}
    names = {
        row["id"]: row
        for row in tx.all("select id, name, project_id from security_groups where id in :ids", ids=remote)
    }
    bodies = [
        {
            "id": row["id"],
            "name": row["name"],
            "description": row["description"],
            "tenant_id": row["project_id"],
            "rules": [_rule_body(rule, names) for rule in _incoming(row)],
        }
        for row in rows
    ]
    return sorted(bodies, key=lambda body: (body["tenant_id"], body["name"]))


def _incoming(row: Row) -> list[Row]:
    return [rule for rule in row["rules"] if rule["direction"] == "ingress"]


def _rule_body(rule: Row, names: dict[str, Row]) -> dict[str, Any]:
    low, high = rule["port_range_min"], rule["port_range_max"]
    if rule["protocol"] and low is None and high is None:
        low, high = (1, 65535) if rule["protocol"].lower() in ("tcp", "udp") else (-1, -1)
    group = names.get(rule["remote_group_id"]) if rule["remote_group_id"] else None
    cidr = rule["remote_ip_prefix"] or _EVERYWHERE[rule["ethertype"]]
    return {
        "id": rule["id"],
        "parent_group_id": rule["security_group_id"],
        "ip_protocol": rule["protocol"],
        "from_port": low,
        "to_port": high,
        "group": {"name": group["name"], "tenant_id": group["project_id"]} if group else {},
        "ip_range": {} if rule["remote_group_id"] else {"cidr": cidr},
    }


def _list(tx: Tx, may: Rights, everybody: bool) -> list[dict[str, Any]]:
    own = () if everybody else (("project_id", (may.project,)),)
    return group_bodies(tx, securitygroups.page(tx, may, Listing(filters=own)))


def _show(tx: Tx, may: Rights, id: str) -> dict[str, Any]:
    return group_bodies(tx, [securitygroups.show(tx, may, id)])[0]


def _of_server(tx: Tx, may: Rights, server_id: str) -> list[dict[str, Any]]:
    ids = server_groups.of_server(tx, may.caller, server_id)
    found = securitygroups.page(tx, may, Listing(filters=(("id", tuple(ids)),))) if ids else []
    return group_bodies(tx, found)


def _create(tx: Tx, may: Rights, asked: Named) -> dict[str, Any]:
    document = {"security_group": {"name": asked.name, "description": asked.description}}
    decoded, _ = decode_create(document, "security_group", "security_groups", wire.ATTRIBUTES)
    return group_bodies(tx, [securitygroups.create(tx, may, Item(*decoded[0]))])[0]


def _update(tx: Tx, may: Rights, id: str, asked: Named) -> dict[str, Any]:
    document = {"security_group": {"name": asked.name, "description": asked.description}}
    values, given = decode_update(document, "security_group", wire.ATTRIBUTES)
    return group_bodies(tx, [securitygroups.update(tx, may, id, Item(values, given))])[0]


def _create_rule(tx: Tx, may: Rights, asked: dict[str, Any]) -> dict[str, Any]:
    document = {"security_group_rule": asked}
    decoded, _ = decode_create(document, "security_group_rule", "security_group_rules", wire.RULE_ATTRIBUTES)
    rule = securitygroups.create_rule(tx, may, Item(*decoded[0]))
    names = tx.all(
        "select id, name, project_id from security_groups where id = :id", id=rule["remote_group_id"]
    )
    return _rule_body(rule, {row["id"]: row for row in names})


async def _written(work: Awaitable[T]) -> T:
    """The result of a transaction. What the network calls a conflict was a bad request to compute."""
    try:
        return await settled(work)
    except Conflict as error:
        raise Invalid(error.message) from None


async def index(request: Request) -> Response:
    """GET /os-security-groups"""
    query = page_of(request)
    everybody = request.caller.is_admin and request.arg("all_tenants") is not None
    found = await request.cloud.db.write(_list, rights(request), everybody)
    end = None if query.limit is None else query.offset + query.limit
    return ok({"security_groups": found[query.offset : end]})


async def of_server(request: Request) -> Response:
    """GET /servers/{server_id}/os-security-groups: those of its ports"""
    found = await request.cloud.db.write(_of_server, rights(request), request.params["server_id"])
    return ok({"security_groups": found})


async def create(request: Request) -> Response:
    """POST /os-security-groups"""
    asked = (await request.struct(Group)).security_group
    return ok({"security_group": await _written(request.cloud.db.write(_create, rights(request), asked))})


async def show(request: Request) -> Response:
    """GET /os-security-groups/{id}"""
    return ok({"security_group": await request.cloud.db.read(_show, rights(request), request.params["id"])})


async def update(request: Request) -> Response:
    """PUT /os-security-groups/{id}"""
    asked = (await request.struct(Group)).security_group
    changed = await _written(request.cloud.db.write(_update, rights(request), request.params["id"], asked))
    return ok({"security_group": changed})


async def delete(request: Request) -> Response:
    """DELETE /os-security-groups/{id}"""
    await _written(request.cloud.db.write(securitygroups.delete, rights(request), request.params["id"]))
    return accepted()


async def create_rule(request: Request) -> Response:
    """POST /os-security-group-rules"""
    asked = _incoming_rule((await request.struct(Rule)).security_group_rule)
    made = await _written(request.cloud.db.write(_create_rule, rights(request), asked))
    return ok({"security_group_rule": made})


async def delete_rule(request: Request) -> Response:
    """DELETE /os-security-group-rules/{id}"""
    await _written(request.cloud.db.write(securitygroups.delete_rule, rights(request), request.params["id"]))
    return accepted()


def _incoming_rule(asked: NewRule) -> dict[str, Any]:
    """The rule in the network's form. Raises Invalid.

    Of addresses everything must be said; of a group what is not said is everything.
    """
    rule: dict[str, Any] = {
        "direction": "ingress",
        "security_group_id": asked.parent_group_id,
        "ethertype": "IPv4",
    }
    if asked.group_id is not None:
        rule["remote_group_id"] = asked.group_id
    else:
        rule |= _addresses(asked.cidr)
    if asked.ip_protocol and asked.from_port is not None and asked.to_port is not None:
        rule |= _ports(str(asked.ip_protocol).lower(), asked.from_port, asked.to_port)
    elif asked.group_id is None:
        raise Invalid(
            "Not enough parameters to build a valid rule: ip_protocol, from_port and to_port are needed."
        )
    elif asked.ip_protocol:
        rule["protocol"] = _protocol(str(asked.ip_protocol).lower())
    return rule


def _addresses(cidr: Any) -> dict[str, str]:
    if cidr is None:
        return {}
    try:
        network = ipaddress.ip_network(str(cidr), strict=False)
    except ValueError:
        raise Invalid(
            f"Invalid cidr {cidr!r}: an address with the length of its prefix was expected."
        ) from None
    if network.prefixlen == 0 and int(ipaddress.ip_interface(str(cidr)).ip) != 0:
        raise Invalid(f"Bad prefix for network in cidr {cidr}")
    return {"remote_ip_prefix": str(cidr), "ethertype": f"IPv{network.version}"}


def _protocol(name: str) -> str:
    if name not in ("tcp", "udp", "icmp"):
        raise Invalid(f"Invalid IP protocol {name}: tcp, udp or icmp was expected.")
    return name


def _ports(protocol: str, low: Any, high: Any) -> dict[str, Any]:
    _protocol(protocol)
    try:
        first, last = int(low), int(high)
    except (TypeError, ValueError):
        raise Invalid(f"from_port and to_port must be integers, not {low!r} and {high!r}.") from None
    if protocol == "icmp":
        if not (-1 <= first <= 255 and -1 <= last <= 255):
            raise Invalid(
                f"Invalid port range {first}:{last}. Type and code of ICMP are from -1 (any) to 255."
            )
        type_, code = (None if value == -1 else value for value in (first, last))
        return {"protocol": protocol, "port_range_min": type_, "port_range_max": code}
    if not 1 <= first <= last <= 65535:
        raise Invalid(f"Invalid port range {first}:{last}. Valid TCP and UDP ports are from 1 to 65535.")
    return {"protocol": protocol, "port_range_min": first, "port_range_max": last}


_RULE = "os_compute_api:os-security-groups"
_ALL, _RULES = "/v2.1/os-security-groups", "/v2.1/os-security-group-rules"

ROUTES = (
    Route("GET", "/v2.1/servers/{server_id}/os-security-groups", of_server, f"{_RULE}:list", READER),
    Route("GET", _ALL, index, f"{_RULE}:get", READER, until=_LAST),
    Route("POST", _ALL, create, f"{_RULE}:create", MEMBER, until=_LAST),
    Route("GET", f"{_ALL}/{{id}}", show, f"{_RULE}:show", READER, until=_LAST),
    Route("PUT", f"{_ALL}/{{id}}", update, f"{_RULE}:update", MEMBER, until=_LAST),
    Route("DELETE", f"{_ALL}/{{id}}", delete, f"{_RULE}:delete", MEMBER, until=_LAST),
    Route("POST", _RULES, create_rule, f"{_RULE}:rule:create", MEMBER, until=_LAST),
    Route("DELETE", f"{_RULES}/{{id}}", delete_rule, f"{_RULE}:rule:delete", MEMBER, until=_LAST),
)
