"""The ports of a server: which networks a request means, and plugging them in.

See "Create server" in the compute API reference, ``networks``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from cumulet.core import auto_topology, networks, ports, securitygroups
from cumulet.db.engine import Row, Tx
from cumulet.errors import Conflict, CumuletError, Forbidden, Invalid, NotFound
from cumulet.values import Caller

#: Network interfaces of one server at the most.
MOST = 64
#: What the network says of an address that something else has.
_IN_USE = frozenset({"IpAddressInUse", "IpAddressAlreadyAllocated"})


class Nic(msgspec.Struct, frozen=True):
    """One interface: on a network, with a port of ours; or with a port that the user made."""

    network: str | None = None
    port: str | None = None
    fixed_ip: str | None = None
    tag: str | None = None


def choose(tx: Tx, caller: Caller, asked: Sequence[Nic] | str | None, *, external: bool = False) -> list[Nic]:
    """The interfaces that a request means: as listed, "none", or "auto" and None for the project's only network.

    ``external``: the caller may use networks to the outside that are not shared (network:attach_external_network).

    Raises Invalid, Forbidden for networks that cannot be used, Conflict if it is not clear which one is meant.
    """
    if asked == "none":
        return []
    if asked is None or isinstance(asked, str) or not asked:
        return _the_only_one(tx, caller, must=asked == "auto", external=external)
    if len(asked) > MOST:
        raise Invalid(f"{len(asked)} networks were asked for; at most {MOST} are possible.")
    _check_listed(tx, caller, [nic.network for nic in asked if nic.network is not None], external=external)
    return list(asked)


def _the_only_one(tx: Tx, caller: Caller, *, must: bool, external: bool) -> list[Nic]:
    """The only network of the project; ``must``: one is made if there is none."""
    found = networks.usable(tx, str(caller.project_id))
    if len(found) > 1:
        names = ", ".join(f"{row['id']} ({row['name']})" for row in found[:10])
        raise Conflict(f"Multiple possible networks found, use a Network ID to be more specific: {names}.")
    if not found:
        if not must:
            return []
        try:
            return [Nic(network=auto_topology.ensure(tx, str(caller.project_id)))]
        except Conflict as error:
            raise Invalid(
                f"Unable to automatically allocate a network for project {caller.project_id}: {error.message}"
            ) from None
    _check_usable(tx, found[0], external=external)
    return [Nic(network=found[0]["id"])]


def _check_listed(tx: Tx, caller: Caller, ids: Sequence[str], *, external: bool) -> None:
    if not ids:
        return
    rows = networks.usable(tx, str(caller.project_id), ids, is_admin=caller.is_admin)
    found = {row["id"]: row for row in rows}
    missing = [id for id in ids if id not in found]
    if missing:
        raise Invalid(f"Network {', '.join(missing)} could not be found.")
    for row in found.values():
        _check_usable(tx, row, external=external)


def _check_usable(tx: Tx, row: Row, *, external: bool) -> None:
    if row["external"] and not row["shared"] and not external:
        raise Forbidden(f"It is not allowed to create an interface on external network {row['id']}.")
    if tx.one("select 1 from subnets where network_id = :id limit 1", id=row["id"]) is None:
        raise Invalid(f"Network {row['id']} requires a subnet in order to boot instances on.")


def groups(tx: Tx, project_id: str, names: Sequence[str]) -> list[str]:
    """Ids of security groups that are given by id or name. Raises Invalid, Conflict for a name that two have."""
    found = []
    rows = (
        tx.all(
            "select id, name from security_groups where project_id = :project and (id in :names or name in :names)",
            project=project_id, names=tuple(names),
        )
        if names
        else []
    )  # fmt: skip
    for name in dict.fromkeys(names):
        matches = [row["id"] for row in rows if row["id"] == name] or [
            row["id"] for row in rows if row["name"] == name
        ]
        if len(matches) > 1:
            raise Conflict(
                f"Multiple security groups found matching '{name}'. Use an ID to be more specific: {', '.join(matches)}."
            )
        if not matches and name != "default":
            raise Invalid(f"Security group {name} not found for project {project_id}.")
        found.append(matches[0] if matches else securitygroups.default_of(tx, project_id))
    return found


def plug(
    tx: Tx,
    caller: Caller,
    server: Row,
    nic: Nic,
    *,
    position: int,
    group_ids: Sequence[str] = (),
    in_use: type[CumuletError] = Invalid,
) -> str:
    """Give the server an interface; return its port's id.

    Raises Invalid for a port or address that cannot be had, Conflict for a port that something else has, OverQuota;
    ``in_use``: what is raised for an address that something else has.
    """
    zone = server["zone"] or "nova"
    named = ""
    try:
        if nic.port is not None:
            port = ports.take(
                tx, nic.port, server_id=server["id"], zone=zone, project_id=server["project_id"],
                is_admin=caller.is_admin,
            )  # fmt: skip
            if not port["fixed_ips"]:
                raise Invalid(f"Port {nic.port} requires a FixedIP in order to be used.")
            port_id = nic.port
            named = ports.name(tx, nic.port, server["id"], server["hostname"])
        else:
            port_id = ports.create_for_server(
                tx, project_id=server["project_id"], network_id=str(nic.network), server_id=server["id"], zone=zone,
                security_group_ids=list(group_ids), fixed_ip=nic.fixed_ip, dns_name=server["hostname"],
                is_admin=caller.is_admin,
            )  # fmt: skip
    except NotFound as error:
        raise Invalid(error.message) from None
    except Conflict as error:
        if error.code in _IN_USE:
            raise in_use(error.message) from None
        raise
    tx.insert(
        "interfaces", id=tx.uuid(), server_id=server["id"], position=position, port_id=port_id,
        made_by_us=nic.port is None, named=named, tag=nic.tag, created_at=tx.now,
    )  # fmt: skip
    return port_id


def next_position(tx: Tx, server_id: str) -> int:
    """The place of an interface that comes after all others."""
    found: Any = tx.value(
        "select coalesce(max(position), -1) + 1 from interfaces where server_id = :id", id=server_id
    )
    return int(found)
