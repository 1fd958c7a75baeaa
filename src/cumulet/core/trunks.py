"""Trunks: a server's port that carries other ports' networks too, each in a VLAN that the guest sees.

Where the parent is, its subports are: they are bound with it (core.ports.bind).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cumulet.core import ports
from cumulet.core.network_resources import (
    STANDARD,
    Column,
    Item,
    Listing,
    Noun,
    bump,
    drop_tags,
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

#: Owner of a port that a trunk carries, as Neutron's.
SUBPORT = "trunk:subport"
_STATUS = "case when n.admin_state_up and p.status = 'ACTIVE' then 'ACTIVE' else 'DOWN' end"

NOUN = Noun(
    one="trunk",
    many="trunks",
    title="Trunk",
    source="trunks n join ports p on p.id = n.port_id",
    columns={
        **STANDARD,
        "admin_state_up": Column("n.admin_state_up", "flag"),
        "port_id": Column("n.port_id"),
        "status": Column(_STATUS),
    },
    select=f"n.*, {_STATUS} as status",
)


# --- reading ---


def page(tx: Tx, rights: Rights, listing: Listing) -> list[Row]:
    """A page of the trunks that the caller sees, complete."""
    where = Where()
    own(where, rights, "get_trunk")
    return _complete(tx, page_of(tx, NOUN, where, listing))


def find(tx: Tx, rights: Rights, id: str) -> Row:
    """The trunk's row. Raises NotFound."""
    where = Where()
    own(where, rights, "get_trunk")
    return row_of(tx, NOUN, where, id)


def show(tx: Tx, rights: Rights, id: str) -> Row:
    """The trunk with its subports. Raises NotFound."""
    return _complete(tx, [find(tx, rights, id)])[0]


def _complete(tx: Tx, rows: list[Row]) -> list[Row]:
    """Add ``sub_ports`` and ``tags``."""
    found: dict[str, list[Row]] = {}
    for ids in chunks((row["id"] for row in rows), 1000):
        for subport in tx.all(
            "select trunk_id, port_id, segmentation_type, segmentation_id from trunk_subports "
            "where trunk_id in :ids order by segmentation_id",
            ids=ids,
        ):
            found.setdefault(subport.pop("trunk_id"), []).append(subport)
    for row in rows:
        row["sub_ports"] = found.get(row["id"], [])
    with_tags(tx, NOUN.many, rows)
    return rows


# --- writing ---


def create(tx: Tx, rights: Rights, item: Item) -> Row:
    """Make a trunk. Raises Forbidden, NotFound, Invalid, Conflict."""
    project_id = owner_of(rights, item)
    rights.demand("create_trunk", {"project_id": project_id})
    port = _free_port(tx, rights, item["port_id"])
    if port["binding_host"]:
        raise Conflict(
            f"Port {port['id']} is currently in use and is not eligible for use as a parent port.",
            code="ParentPortInUse",
        )
    id = tx.uuid()
    tx.insert(
        "trunks", id=id, project_id=project_id, port_id=port["id"],
        **item.columns("name", "description", "admin_state_up"), **stamps(tx),
    )  # fmt: skip
    _add(tx, rights, id, port, item.get("sub_ports") or [])
    if item.get("tags"):
        set_tags(tx, NOUN.many, id, item["tags"])
    return show(tx, rights, id)


def _free_port(tx: Tx, rights: Rights, id: str) -> Row:
    """A port of the caller's that no trunk has. Raises NotFound, Forbidden, Conflict."""
    tx.lock("ports", id)
    port = ports.find(tx, rights, id)
    # The owner of a network sees the ports of others on it.
    rights.demand("update_port", ports.target(port))
    if tx.one("select 1 from trunk_subports where port_id = :id", id=id) is not None:
        raise Conflict(f"Port {id} is in use by another trunk.", code="TrunkPortInUse")
    if tx.one("select 1 from trunks where port_id = :id", id=id) is not None:
        raise Conflict(
            f"Port {id} is currently in use and is not eligible for use as a parent port.",
            code="ParentPortInUse",
        )
    return port


def update(tx: Tx, rights: Rights, id: str, item: Item) -> Row:
    """Change a trunk. Raises NotFound, Forbidden."""
    row = find(tx, rights, id)
    rights.demand("update_trunk", {"project_id": row["project_id"]})
    if item.values:
        bump(tx, "trunks", id, **item.columns("name", "description", "admin_state_up"))
    return show(tx, rights, id)


def delete(tx: Tx, rights: Rights, id: str) -> None:
    """Remove a trunk; its ports stay. Raises NotFound, Forbidden, Conflict while a server uses it."""
    row = _managed(tx, rights, id, "delete_trunk")
    if tx.value("select binding_host from ports where id = :id", id=row["port_id"]):
        raise Conflict(f"Trunk {id} is currently in use.", code="TrunkInUse")
    for port in tx.values("select port_id from trunk_subports where trunk_id = :id", id=id):
        _leave(tx, port)
    tx.delete("trunks", id)
    drop_tags(tx, NOUN.many, id)


def _managed(tx: Tx, rights: Rights, id: str, rule: str) -> Row:
    """The trunk, locked, if its ports may be changed. Raises NotFound, Forbidden, Conflict."""
    row = find(tx, rights, id)
    rights.demand(rule, {"project_id": row["project_id"]})
    tx.lock("trunks", id)
    if not row["admin_state_up"]:
        raise Conflict(f"Trunk {id} is currently disabled.", code="TrunkDisabled")
    return row


def add_subports(tx: Tx, rights: Rights, id: str, asked: Sequence[Mapping[str, Any]]) -> Row:
    """Let the trunk carry more ports; returns it. Raises NotFound, Forbidden, Invalid, Conflict."""
    row = _managed(tx, rights, id, "add_subports")
    parent = tx.one("select * from ports where id = :id", id=row["port_id"])
    assert parent is not None
    _add(tx, rights, id, parent, asked)
    bump(tx, "trunks", id)
    return show(tx, rights, id)


def _add(tx: Tx, rights: Rights, id: str, parent: Row, asked: Sequence[Mapping[str, Any]]) -> None:
    for subport in asked:
        if subport["port_id"] == parent["id"]:
            raise Conflict(f"Port {parent['id']} is the trunk's own.", code="ParentPortInUse")
        port = _free_port(tx, rights, subport["port_id"])
        if port["device_id"] or port["binding_host"]:
            raise Conflict(
                f"Unable to complete operation on port {port['id']} for network {port['network_id']}. Port already "
                f"has an attached device {port['device_id']}.",
                code="PortInUse",
            )
        _fits(tx, id, parent, port)
        number = _number(tx, port, subport)
        taken = tx.one(
            "select 1 from trunk_subports where trunk_id = :id and segmentation_id = :number",
            id=id,
            number=number,
        )
        if taken is not None:
            raise Conflict(
                f"segmentation_type vlan and segmentation_id {number} already in use on trunk {id}.",
                code="DuplicateSubPort",
            )
        tx.insert(
            "trunk_subports",
            port_id=port["id"],
            trunk_id=id,
            segmentation_type="vlan",
            segmentation_id=number,
        )
        bump(tx, "ports", port["id"], device_owner=SUBPORT)
        if parent["binding_host"]:
            ports.bind(tx, port["id"], parent["binding_host"])
        else:
            ports.unbind(tx, port["id"])


def _fits(tx: Tx, id: str, parent: Row, port: Row) -> None:
    """Raise Conflict if the subport's network takes larger packets than the trunk carries."""
    query = "select mtu from networks where id = :id"
    most, mtu = tx.value(query, id=parent["network_id"]), tx.value(query, id=port["network_id"])
    if mtu > most:
        raise Conflict(
            f"MTU {mtu} of subport {port['id']} cannot be greater than MTU {most} of trunk {id}.",
            code="SubPortMtuGreaterThanTrunkPortMtu",
        )


def _number(tx: Tx, port: Row, subport: Mapping[str, Any]) -> int:
    """The subport's VLAN: as asked, or that of its network."""
    if subport["segmentation_type"] == "vlan":
        return int(subport["segmentation_id"])
    row = tx.one("select network_type, segmentation_id from networks where id = :id", id=port["network_id"])
    assert row is not None
    if row["network_type"] != "vlan":
        raise Invalid(
            "Invalid input for operation: segmentation_type inherit needs a network with VLANs; the network of "
            f"port {port['id']} is of type {row['network_type']}.",
            code="InvalidInput",
        )
    return int(row["segmentation_id"])


def remove_subports(tx: Tx, rights: Rights, id: str, asked: Sequence[str]) -> Row:
    """Let the trunk carry fewer ports; returns it. Raises NotFound, Forbidden, Conflict."""
    _managed(tx, rights, id, "remove_subports")
    for port_id in asked:
        if not tx.run(
            "delete from trunk_subports where trunk_id = :id and port_id = :port", id=id, port=port_id
        ):
            raise NotFound(f"SubPort {port_id} on trunk {id} could not be found.", code="SubPortNotFound")
        _leave(tx, port_id)
    bump(tx, "trunks", id)
    return show(tx, rights, id)


def _leave(tx: Tx, port_id: str) -> None:
    tx.run("delete from trunk_subports where port_id = :port", port=port_id)
    tx.run("update ports set device_owner = '' where id = :port", port=port_id)
    ports.unbind(tx, port_id)
