"""Floating IPs and their pools, as compute showed them until 2.35, and given to servers until 2.43.

See the compute API reference, "Floating IPs (DEPRECATED)", "Floating IP pools (DEPRECATED)" and "Add
(Associate) Floating Ip".
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from cumulet.api.asgi import Route
from cumulet.api.network.collection import rights, settled
from cumulet.api.request import Request, Response, accepted, ok
from cumulet.core import floatingips, networks, ports
from cumulet.core.network_resources import Item, Listing
from cumulet.core.policy import ANYONE, MEMBER, READER
from cumulet.core.rights import Rights
from cumulet.core.servers import find as servers
from cumulet.db.engine import Row, Tx
from cumulet.db.query import Where
from cumulet.errors import Conflict, Invalid, NotFound
from cumulet.wire.forms import Word
from cumulet.wire.network import floatingips as wire
from cumulet.wire.network.attributes import decode_create


class Add(Struct, forbid_unknown_fields=True):
    address: Word
    fixed_address: Word | None = None


class Remove(Struct, forbid_unknown_fields=True):
    address: Word


def _external(tx: Tx, may: Rights) -> list[Row]:
    """The external networks that the caller sees: the pools."""
    where = Where()
    networks.visible(where, may)
    where.add("n.external")
    return tx.all(f"select n.* from networks n where {where.sql} order by n.created_at, n.id", **where.params)


def _named(tx: Tx, rows: list[Row]) -> list[Row]:
    names = {row["id"]: row["name"] for row in tx.all("select id, name from networks where external")}
    for row in rows:
        row["pool"] = names.get(row["floating_network_id"]) or row["floating_network_id"]
    return rows


def _list(tx: Tx, may: Rights) -> list[Row]:
    own = Listing(filters=(("project_id", (may.project,)),))
    return _named(tx, floatingips.page(tx, may, own))


def _show(tx: Tx, may: Rights, id: str) -> Row:
    return _named(tx, [floatingips.show(tx, may, id)])[0]


def _create(tx: Tx, may: Rights, pool: str | None) -> Row:
    found = [row for row in _external(tx, may) if pool in (None, row["name"], row["id"])]
    if not found:
        raise NotFound(f"Floating IP pool {pool} not found." if pool else "There is no floating IP pool.")
    document = {"floatingip": {"floating_network_id": found[0]["id"]}}
    decoded, _ = decode_create(document, "floatingip", "floatingips", wire.ATTRIBUTES)
    return _named(tx, [floatingips.create(tx, may, Item(*decoded[0]))])[0]


def _body(row: Row) -> dict[str, Any]:
    details = row["port_details"]
    return {
        "id": row["id"],
        "ip": row["floating_ip_address"],
        "fixed_ip": row["fixed_ip_address"],
        "pool": row["pool"],
        "instance_id": details["device_id"] or None if details else None,
    }


async def index(request: Request) -> Response:
    """GET /os-floating-ips"""
    rows = await request.cloud.db.read(_list, rights(request))
    return ok({"floating_ips": [_body(row) for row in rows]})


async def create(request: Request) -> Response:
    """POST /os-floating-ips"""
    pool = None
    if await request.body():
        body = await request.raw()
        pool = body.get("pool") if isinstance(body, dict) else None
        if not (body is None or isinstance(body, dict)) or not (pool is None or isinstance(pool, str)):
            raise Invalid("Invalid input for field/attribute pool: the name of a pool, or null, was expected")
    row = await settled(request.cloud.db.write(_create, rights(request), pool))
    return ok({"floating_ip": _body(row)})


async def show(request: Request) -> Response:
    """GET /os-floating-ips/{id}"""
    return ok(
        {"floating_ip": _body(await request.cloud.db.read(_show, rights(request), request.params["id"]))}
    )


async def delete(request: Request) -> Response:
    """DELETE /os-floating-ips/{id}"""
    await settled(request.cloud.db.write(floatingips.delete, rights(request), request.params["id"]))
    return accepted()


async def pools(request: Request) -> Response:
    """GET /os-floating-ip-pools"""
    rows = await request.cloud.db.read(_external, rights(request))
    return ok({"floating_ip_pools": [{"name": row["name"] or row["id"]} for row in rows]})


def _addressed(tx: Tx, may: Rights, address: str) -> Row:
    """The floating IP with that address. Raises NotFound."""
    found = floatingips.page(tx, may, Listing(filters=(("floating_ip_address", (address,)),)))
    if not found:
        raise NotFound(f"floating IP {address} not found")
    return found[0]


def _add(tx: Tx, may: Rights, server_id: str, asked: Add) -> None:
    server = servers.locked(tx, may.caller, server_id)
    servers.refuse_locked(may.caller, server)
    inside = [
        (port["id"], fixed["ip_address"])
        for port in ports.of_server(tx, [server_id])[server_id]
        for fixed in port["fixed_ips"]
        if fixed["version"] == 4 and asked.fixed_address in (None, fixed["ip_address"])
    ]
    if not inside:
        what = f"{asked.fixed_address} is not one of them" if asked.fixed_address else "it has none of IPv4"
        raise Invalid(f"No fixed IPs associated to instance {server_id} can take a floating IP: {what}.")
    floating = _addressed(tx, may, asked.address)
    port_id, address = inside[0]
    try:
        floatingips.update(tx, may, floating["id"], Item({"port_id": port_id, "fixed_ip_address": address}))
    except Conflict as error:
        # The address has another floating IP of that pool: to compute a bad request.
        raise Invalid(error.message) from None


def _remove(tx: Tx, may: Rights, server_id: str, address: str) -> None:
    servers.refuse_locked(may.caller, servers.locked(tx, may.caller, server_id))
    floating = _addressed(tx, may, address)
    details = floating["port_details"]
    if not details or details["device_id"] != server_id:
        raise Conflict(f"Floating IP {address} is not associated with instance {server_id}.")
    floatingips.update(tx, may, floating["id"], Item({"port_id": None}))


async def add(request: Request) -> Response:
    """POST /servers/{server_id}/action {"addFloatingIp": …}, until 2.43"""
    asked = request.action_as(Add)
    await settled(request.cloud.db.write(_add, rights(request), request.params["server_id"], asked))
    return accepted()


async def remove(request: Request) -> Response:
    """POST /servers/{server_id}/action {"removeFloatingIp": …}, until 2.43"""
    asked = request.action_as(Remove)
    await settled(
        request.cloud.db.write(_remove, rights(request), request.params["server_id"], asked.address)
    )
    return accepted()


_RULE = "os_compute_api:os-floating-ips"
_ACTION = "/v2.1/servers/{server_id}/action"
_ALL, _LAST = "/v2.1/os-floating-ips", (2, 35)

ROUTES = (
    Route("GET", _ALL, index, f"{_RULE}:list", READER, until=_LAST),
    Route("POST", _ALL, create, f"{_RULE}:create", MEMBER, until=_LAST),
    Route("GET", f"{_ALL}/{{id}}", show, f"{_RULE}:show", READER, until=_LAST),
    Route("DELETE", f"{_ALL}/{{id}}", delete, f"{_RULE}:delete", MEMBER, until=_LAST),
    Route("GET", "/v2.1/os-floating-ip-pools", pools, "os_compute_api:os-floating-ip-pools", ANYONE, until=_LAST),
    Route("POST", _ACTION, add, f"{_RULE}:add", MEMBER, until=(2, 43), action="addFloatingIp"),
    Route("POST", _ACTION, remove, f"{_RULE}:remove", MEMBER, until=(2, 43), action="removeFloatingIp"),
)  # fmt: skip
