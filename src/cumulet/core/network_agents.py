"""The agents as the Network API shows them: the one that has all switches and routers, and those of hosts."""

from __future__ import annotations

from collections.abc import Sequence

from cumulet.core import hosts
from cumulet.core.network_resources import MAX_ROWS, Column, Listing, Noun, row_of
from cumulet.core.network_resources import page as page_of
from cumulet.core.rights import Rights
from cumulet.db.engine import Row, Tx
from cumulet.db.query import Where
from cumulet.errors import NotFound

_TYPE = "case n.kind when 'network' then 'Network agent' else 'Host agent' end"


NOUN = Noun(
    one="agent",
    many="agents",
    title="Agent",
    source="agents n",
    columns={
        "id": Column("n.id"),
        "host": Column("n.name"),
        "agent_type": Column(_TYPE),
        "availability_zone": Column("n.zone", sort=False),
        "binary": Column("'cumulet'", sort=False),
        "admin_state_up": Column("not n.disabled", "flag", sort=False),
    },
    select=f"n.*, {_TYPE} as type",
    tagged=False,
)


def _visible(where: Where, rights: Rights) -> None:
    where.add("n.kind in ('network', 'host')")
    if rights.reach("get_agent") != "all":
        where.add("1 = 0")


def page(tx: Tx, rights: Rights, listing: Listing) -> list[Row]:
    """A page of the agents; of none for who is no administrator."""
    where = Where()
    _visible(where, rights)
    return _complete(page_of(tx, NOUN, where, listing))


def _complete(rows: list[Row]) -> list[Row]:
    for row in rows:
        row["alive"] = hosts.up(row)
    return rows


def show(tx: Tx, rights: Rights, id: str) -> Row:
    """An agent. Raises NotFound."""
    where = Where()
    _visible(where, rights)
    return _complete([row_of(tx, NOUN, where, id)])[0]


def of_holder(tx: Tx, rights: Rights, table: str, id: str) -> list[Row]:
    """The agents that have a part of a network or router. Raises NotFound, Forbidden."""
    rights.demand("get_agent", {"project_id": ""})
    if tx.one(f"select 1 from {table} where id = :id", id=id) is None:
        raise NotFound(f"{'Network' if table == 'networks' else 'Router'} {id} could not be found.")
    return _complete(
        tx.all(
            f"select {NOUN.select} from agents n where n.id in (select agent from claims where holder = :id) "
            "order by n.id",
            id=id,
        )
    )


def held_by(tx: Tx, rights: Rights, id: str, kind: str) -> list[str]:
    """The ids of the networks or routers that an agent has: those with a claim of a kind. Raises NotFound, Forbidden."""
    rights.demand("get_agent", {"project_id": ""})
    show(tx, rights, id)
    return tx.values(
        "select holder from claims where agent = :id and kind = :kind and wanted and holder is not null "
        "order by holder limit :most",
        id=id,
        kind=kind,
        most=MAX_ROWS,
    )


def zones(tx: Tx) -> list[str]:
    """The availability zones that networks and routers can be in: those of the network's agents."""
    return tx.values(
        "select distinct zone from agents where kind = 'network' and not destroyed order by zone"
    )


def check_zones(tx: Tx, wanted: Sequence[str]) -> None:
    """Raise NotFound for a zone that there is not."""
    lost = [zone for zone in wanted if zone not in zones(tx)] if wanted else []
    if lost:
        raise NotFound(
            f"AvailabilityZone {', '.join(lost)} could not be found.", code="AvailabilityZoneNotFound"
        )
