"""Lists of servers: filters, pages, and those that were deleted.

What SQL can decide it decides. Regular expressions are matched here, page by page, with core.patterns, for
the two databases do not share a way to do it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from cumulet.core import patterns, scheduling
from cumulet.core.servers import show
from cumulet.core.servers.show import Shown
from cumulet.db.engine import Row, Tx
from cumulet.db.query import Query, Where, page

#: What one can sort by, and the expression for it, which is never null.
SORTABLE: Mapping[str, str] = {
    "access_ip_v4": "coalesce(s.access_ip_v4, '')",
    "access_ip_v6": "coalesce(s.access_ip_v6, '')",
    "auto_disk_config": "s.disk_config",
    "availability_zone": "coalesce(s.zone, '')",
    "config_drive": "s.config_drive",
    "created_at": "s.created_at",
    "display_description": "coalesce(s.description, '')",
    "display_name": "s.name",
    "host": "coalesce(s.host, '')",
    "hostname": "s.hostname",
    "image_ref": "coalesce(s.image_id, '')",
    "instance_type_id": "s.flavorid",
    "kernel_id": "s.number",
    "key_name": "coalesce(s.key_name, '')",
    "launch_index": "s.launch_index",
    "launched_at": "coalesce(s.launched_at, 0)",
    "locked": "s.locked",
    "locked_by": "coalesce(s.locked_by, '')",
    "node": "coalesce(s.host, '')",
    "power_state": "s.power_state",
    "progress": "s.progress",
    "project_id": "s.project_id",
    "ramdisk_id": "s.number",
    "root_device_name": "coalesce(s.root_device_name, '')",
    "task_state": "coalesce(s.task_state, '')",
    "terminated_at": "s.number",
    "updated_at": "s.updated_at",
    "user_id": "s.user_id",
    "uuid": "s.id",
    "vm_state": "s.vm_state",
}
#: The same for a list that has deleted servers too; by anything else it is not sorted.
SORTABLE_WITH_GONE = {
    name: SORTABLE[name] for name in ("created_at", "display_name", "project_id", "updated_at", "uuid")
}
_EVERYTHING = (
    "(select id, project_id, name, created_at, updated_at, vm_state, 0 as gone from servers union all "
    "select id, project_id, name, created_at, deleted_at, '', 1 from deleted_servers) s"
)
#: Columns that no list shows, or that are long.
_HIDDEN = frozenset(
    {
        "user_data", "key_data", "request", "attempts", "counters", "pending",
        "image_properties", "desired", "placed", "giving_up", "state_is_reset", "devices_pending", "vcpus", "ram",
        "flavorid", "locked_by", "shelved_image_id", "shelved_at", "build_until",
    }
)  # fmt: skip
#: Columns that are times, which expressions see as text.
_MOMENTS = frozenset({"created_at", "launched_at"})
#: Rows that are read at once while expressions are matched.
_BATCH = 1000

Test = Callable[[Row], bool]


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """What a list is narrowed by."""

    query: Query
    #: Whose; None for everybody's.
    project_id: str | None = None
    user_id: str | None = None
    #: Column → the values one of which it has to have; None among them stands for null.
    among: Mapping[str, Sequence[Any]] = {}
    #: Column → an expression that is found in it.
    expressions: Mapping[str, str] = {}
    #: Names of hosts.
    hosts: Sequence[str] | None = None
    #: Name of an availability zone.
    zone: str | None = None
    #: Expressions that are found in an address of the server, by IP version.
    addresses: Mapping[int, str] = {}
    tags: Sequence[str] = ()
    tags_any: Sequence[str] = ()
    not_tags: Sequence[str] = ()
    not_tags_any: Sequence[str] = ()
    changed_since: float | None = None
    changed_before: float | None = None
    #: Those that are there, those that are not, or (None) both.
    deleted: bool | None = False
    #: Those that can be restored count as deleted with ``deleted``, and are there otherwise; None for as usual: the
    #: first, but not the second.
    soft_deleted: bool | None = None
    #: Columns that are shown although no list shows them otherwise, for they may be long.
    extra: frozenset[str] = frozenset()


def ids(tx: Tx, listing: Listing) -> list[Row]:
    """A page with nothing but ``id`` and ``name``. Raises MarkerNotFound, Invalid for a bad expression."""
    if listing.deleted is not False:
        return [{"id": one.row["id"], "name": one.row["name"]} for one in _with_gone(tx, listing)]
    return _page(tx, listing, "s.id, s.name")


def detailed(tx: Tx, listing: Listing) -> list[Shown]:
    """A page with everything. Raises MarkerNotFound, Invalid for a bad expression."""
    if listing.deleted is not False:
        return _with_gone(tx, listing)
    return show.complete(tx, _page(tx, listing, _columns(listing)))


def _columns(listing: Listing) -> str:
    from cumulet.db.schema.compute import servers

    hidden = _HIDDEN - listing.extra
    return ", ".join(f"s.{column.name}" for column in servers.columns if column.name not in hidden)


# --- servers that are there ---


def _page(tx: Tx, listing: Listing, columns: str) -> list[Row]:
    where = _where(tx, listing)
    tests = [*_expressions(listing), *_address_tests(listing)]
    if not tests:
        return page(tx, "servers s", where, listing.query, SORTABLE, columns=columns, key="s.id")
    found = _matching(tx, listing, where)
    if not found:
        return []
    rows = {
        row["id"]: row
        for row in tx.all(f"select {columns} from servers s where s.id in :ids", ids=tuple(found))
    }
    return [rows[id] for id in found]


def _matching(tx: Tx, listing: Listing, where: Where) -> list[str]:
    """The ids of one page of servers that expressions match, read in batches."""
    tests = _expressions(listing)
    columns = ", ".join(dict.fromkeys(["s.id", *(f"s.{column}" for column in listing.expressions)]))
    found: list[str] = []
    query = listing.query
    limit = query.limit if query.limit is not None else 1 << 62
    while len(found) < limit:
        batch = msgspec.structs.replace(query, limit=_BATCH)
        rows = page(tx, "servers s", where, batch, SORTABLE, columns=columns, key="s.id")
        passed = [row for row in rows if all(test(row) for test in tests)]
        found += [row["id"] for row in _with_addresses(tx, listing, passed)]
        if len(rows) < _BATCH:
            break
        query = msgspec.structs.replace(query, marker=rows[-1]["id"], offset=0)
    return found[: query.limit] if query.limit is not None else found


def _where(tx: Tx, listing: Listing) -> Where:
    where = Where()
    if not listing.soft_deleted:
        where.add("s.vm_state <> 'soft-delete'")
    if listing.project_id is not None:
        where.equal("s.project_id", listing.project_id)
    if listing.user_id is not None:
        where.equal("s.user_id", listing.user_id)
    for column, values in listing.among.items():
        _among(where, f"s.{column}", values)
    if listing.hosts is not None:
        where.among("s.host", _agents(tx, listing.hosts))
    if listing.zone is not None:
        where.add(
            "s.host in :in_zone or (s.host is null and s.zone = :zone)", zone=listing.zone,
            in_zone=tuple(_in_zone(tx, listing.zone)),
        )  # fmt: skip
    if listing.changed_since is not None:
        where.add("s.updated_at >= :since", since=listing.changed_since)
    if listing.changed_before is not None:
        where.add("s.updated_at <= :before", before=listing.changed_before)
    _tags(where, listing)
    for column, expression in listing.expressions.items():
        literal = _literal(column, expression)
        if literal:
            # Found by SQL, without LIKE, so that nothing in the text is a pattern.
            where.add(f"replace(s.{column}, :{column}_, '') <> s.{column}", **{f"{column}_": literal})
    return where


def _among(where: Where, column: str, values: Sequence[Any]) -> None:
    known = [value for value in values if value is not None]
    if len(known) == len(values):
        where.among(column, known)
    else:
        name = f"among{len(where.params)}"
        where.add(f"{column} in :{name} or {column} is null", **{name: tuple(known)})


def _in_zone(tx: Tx, zone: str) -> list[str]:
    """The ids of the hosts in a zone."""
    zones = scheduling.zones_of_hosts(tx)
    rows = tx.all("select id, name, zone from agents where kind = 'host'")
    return [row["id"] for row in rows if (zones.get(row["name"]) or row["zone"]) == zone]


def _agents(tx: Tx, names: Sequence[str]) -> list[str]:
    return tx.values("select id from agents where kind = 'host' and name in :names", names=tuple(names))


def _tags(where: Where, listing: Listing) -> None:
    has = "(select count(*) from server_tags t where t.server_id = s.id and t.tag in :{})"
    if listing.tags:
        wanted = tuple(set(listing.tags))
        where.add(f"{has.format('tags')} = :tags_count", tags=wanted, tags_count=len(wanted))
    if listing.tags_any:
        where.add(f"{has.format('tags_any')} > 0", tags_any=tuple(listing.tags_any))
    if listing.not_tags:
        wanted = tuple(set(listing.not_tags))
        where.add(f"{has.format('not_tags')} < :not_tags_count", not_tags=wanted, not_tags_count=len(wanted))
    if listing.not_tags_any:
        where.add(f"{has.format('not_tags_any')} = 0", not_tags_any=tuple(listing.not_tags_any))


def _expressions(listing: Listing) -> list[Test]:
    """Tests of a row's columns, without those that SQL has done."""

    def test(column: str, pattern: patterns.Pattern) -> Test:
        return lambda row: pattern.found_in(_text(row.get(column)))

    return [
        test(column, patterns.filter_of(column, expression))
        for column, expression in listing.expressions.items()
        if _literal(column, expression) is None
    ]


def _literal(column: str, expression: str) -> str | None:
    """The text that SQL can look for; None where that is not possible."""
    return None if column in _MOMENTS else patterns.filter_of(column, expression).literal


def _text(value: Any) -> str:
    if isinstance(value, float):
        return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return "" if value is None else str(value)


def _address_tests(listing: Listing) -> list[tuple[int, patterns.Pattern]]:
    return [
        (version, patterns.filter_of(f"ip{version}", text)) for version, text in listing.addresses.items()
    ]


def _with_addresses(tx: Tx, listing: Listing, rows: Sequence[Row]) -> list[Row]:
    """Those of the rows that have an address as the filters want it."""
    tests = _address_tests(listing)
    if not tests or not rows:
        return list(rows)
    have: dict[str, list[Row]] = {}
    for fixed in tx.all(
        "select p.device_id, f.address, n.ip_version from ports p join fixed_ips f on f.port_id = p.id "
        "join subnets n on n.id = f.subnet_id where p.device_id in :ids",
        ids=tuple(row["id"] for row in rows),
    ):
        have.setdefault(fixed["device_id"], []).append(fixed)

    def passes(id: str, version: int, pattern: patterns.Pattern) -> bool:
        return any(
            one["ip_version"] == version and pattern.found_in(one["address"]) for one in have.get(id, ())
        )

    return [row for row in rows if all(passes(row["id"], *test) for test in tests)]


# --- with those that are not ---


def _with_gone(tx: Tx, listing: Listing) -> list[Shown]:
    """A page of servers that are gone, or of all. Filters but whose they are and when are matched here."""
    where = Where()
    if listing.deleted:
        soft = " or s.vm_state = 'soft-delete'" if listing.soft_deleted is not False else ""
        where.add(f"s.gone = 1{soft}")
    if listing.project_id is not None:
        where.equal("s.project_id", listing.project_id)
    if listing.changed_since is not None:
        where.add("s.updated_at >= :since", since=listing.changed_since)
    if listing.changed_before is not None:
        where.add("s.updated_at <= :before", before=listing.changed_before)
    found: list[Shown] = []
    query = listing.query
    query = msgspec.structs.replace(
        query, sort=tuple(pair for pair in query.sort if pair[0] in SORTABLE_WITH_GONE)
    )
    limit = query.limit if query.limit is not None else 1 << 62
    while len(found) < limit:
        batch = msgspec.structs.replace(query, limit=_BATCH)
        rows = page(tx, _EVERYTHING, where, batch, SORTABLE_WITH_GONE, columns="s.id, s.gone", key="s.id")
        found += _chosen(tx, listing, rows)
        if len(rows) < _BATCH:
            break
        query = msgspec.structs.replace(query, marker=rows[-1]["id"], offset=0)
    return found[: query.limit] if query.limit is not None else found


def _chosen(tx: Tx, listing: Listing, rows: Sequence[Row]) -> Iterator[Shown]:
    there = tuple(row["id"] for row in rows if not row["gone"])
    not_there = tuple(row["id"] for row in rows if row["gone"])
    live = tx.all("select * from servers where id in :ids", ids=there) if there else []
    known = {one.row["id"]: one for one in show.complete(tx, live)}
    if not_there:
        for row in tx.all("select * from deleted_servers where id in :ids", ids=not_there):
            known[row["id"]] = show.gone(row)
    agents = set(_agents(tx, listing.hosts)) if listing.hosts is not None else None
    for row in rows:
        shown = known[row["id"]]
        if _passes(listing, shown, agents):
            yield shown


def _passes(listing: Listing, shown: Shown, agents: set[str] | None) -> bool:
    row = shown.row
    if listing.user_id is not None and row.get("user_id") != listing.user_id:
        return False
    if any(row.get(column) not in values for column, values in listing.among.items()):
        return False
    if agents is not None and row.get("host") not in agents:
        return False
    for column, expression in listing.expressions.items():
        if not patterns.filter_of(column, expression).found_in(_text(row.get(column))):
            return False
    if listing.zone is not None and shown.zone != listing.zone:
        return False
    addresses = [ip for port in shown.ports for ip in port["fixed_ips"]]
    for version, pattern in _address_tests(listing):
        if not any(ip["version"] == version and pattern.found_in(ip["ip_address"]) for ip in addresses):
            return False
    return _passes_tags(listing, set(shown.tags))


def _passes_tags(listing: Listing, has: set[str]) -> bool:
    if listing.tags and not set(listing.tags) <= has:
        return False
    if listing.tags_any and not set(listing.tags_any) & has:
        return False
    if listing.not_tags and set(listing.not_tags) <= has:
        return False
    return not (listing.not_tags_any and set(listing.not_tags_any) & has)
