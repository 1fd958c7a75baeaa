"""How many addresses networks have, and how many of them are in use."""

from __future__ import annotations

from typing import Any

from cumulet.core import ipam, networks
from cumulet.core.network_resources import STANDARD, Column, Listing, Noun
from cumulet.core.network_resources import page as page_of
from cumulet.core.rights import Rights
from cumulet.db.engine import Row, Tx, chunks
from cumulet.db.query import Where

NOUN = Noun(
    one="network_ip_availability",
    many="network_ip_availabilities",
    title="Network",
    source="networks n",
    columns={
        "network_id": Column("n.id"),
        "network_name": Column("n.name"),
        "project_id": STANDARD["project_id"],
        "tenant_id": STANDARD["tenant_id"],
    },
    specials={"ip_version": lambda where, values: None},
    select="n.id, n.name, n.project_id",
    tagged=False,
)


def page(tx: Tx, rights: Rights, listing: Listing) -> list[Row]:
    """A page of networks, each with ``subnets`` and what is in use of them; none for who may not see that."""
    where = Where()
    if rights.reach("get_network_ip_availability") != "all":
        where.add("1 = 0")
    versions = {value for name, values in listing.filters if name == "ip_version" for value in values}
    return _complete(tx, page_of(tx, NOUN, where, listing), versions)


def show(tx: Tx, rights: Rights, id: str) -> Row:
    """One network. Raises NotFound."""
    if rights.reach("get_network_ip_availability") != "all":
        raise NOUN.missing(id)
    return _complete(tx, [networks.find(tx, rights, id)], set())[0]


def _complete(tx: Tx, rows: list[Row], versions: set[str]) -> list[Row]:
    found: dict[str, list[dict[str, Any]]] = {}
    for ids in chunks((row["id"] for row in rows), 1000):
        total: dict[str, int] = {}
        for pool in tx.all(
            "select p.subnet_id, p.first, p.last from allocation_pools p join subnets s on s.id = p.subnet_id "
            "where s.network_id in :ids",
            ids=ids,
        ):
            size = int(ipam.rank(pool["last"]), 16) - int(ipam.rank(pool["first"]), 16) + 1
            total[pool["subnet_id"]] = total.get(pool["subnet_id"], 0) + size
        for subnet in tx.all(
            "select s.id, s.name, s.cidr, s.ip_version, s.network_id, "
            "(select count(*) from fixed_ips f where f.subnet_id = s.id) as used "
            "from subnets s where s.network_id in :ids order by s.created_at, s.id",
            ids=ids,
        ):
            if not versions or str(subnet["ip_version"]) in versions:
                found.setdefault(subnet["network_id"], []).append(
                    {**subnet, "total": total.get(subnet["id"], 0)}
                )
    for row in rows:
        row["subnets"] = found.get(row["id"], [])
    return rows
