"""What all resources of the Network API share: lists, tags, revisions, and what a request sends for one.

A list is asked for in Neutron's way: any attribute is a filter, a repeated one means "one of", the order is
by id unless another is asked for, and a page may also be the one before its marker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

import msgspec

from cumulet.core.rights import Rights
from cumulet.db.engine import Row, Tx, chunks
from cumulet.db.query import MarkerNotFound, Query, Where
from cumulet.db.query import page as page_of
from cumulet.errors import Conflict, Invalid, NotFound

P = ParamSpec("P")
R = TypeVar("R")

#: Rows of one list at most; a longer one goes on behind its "next" link.
MAX_ROWS = 10_000
_INT64 = 1 << 63


class Item(msgspec.Struct, frozen=True):
    """One resource of a request's body, checked, with defaults where it creates one."""

    values: Mapping[str, Any]
    #: What was sent, other than the default.
    given: frozenset[str] = frozenset()

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def get(self, name: str, otherwise: Any = None) -> Any:
        return self.values.get(name, otherwise)

    def columns(self, *names: str, **renamed: str) -> dict[str, Any]:
        """Those of the names that are there, as columns: ``columns("name", external="router:external")``."""
        pairs = {**{name: name for name in names}, **renamed}
        return {column: self.values[name] for column, name in pairs.items() if name in self.values}


class Column(msgspec.Struct, frozen=True):
    """An attribute that a list can be filtered or sorted by."""

    #: An expression that is never null.
    sql: str
    kind: Literal["text", "flag", "number"] = "text"
    sort: bool = True
    #: Puts the filter's values into the form that is stored.
    normal: Callable[[str], str] | None = None


Special = Callable[[Where, Sequence[str]], None]


class Noun(msgspec.Struct, frozen=True):
    """How one kind of resource is listed."""

    #: "port": what rules and errors call it.
    one: str
    #: "ports": the collection, and its name in the table of tags.
    many: str
    #: "Port": what a message calls it.
    title: str
    #: What stands behind FROM; its alias is "n".
    source: str
    columns: Mapping[str, Column]
    #: Filters that are no column: name → what it adds to the conditions.
    specials: Mapping[str, Special] = {}
    select: str = "n.*"
    tagged: bool = True

    def missing(self, id: str) -> NotFound:
        """The error for one that is not there, or not there for the caller."""
        name = "".join(part.capitalize() for part in self.one.split("_"))
        return NotFound(f"{self.title} {id} could not be found.", code=f"{name}NotFound")


class Listing(msgspec.Struct, frozen=True):
    """What a list request asks for."""

    filters: tuple[tuple[str, tuple[str, ...]], ...] = ()
    sort: tuple[tuple[str, str], ...] = ()
    limit: int | None = None
    marker: str | None = None
    reverse: bool = False

    @property
    def most(self) -> int:
        """Rows of the page, at most."""
        return min(self.limit or MAX_ROWS, MAX_ROWS)


#: Columns that nearly every resource has; "n" is its table.
STANDARD: Mapping[str, Column] = {
    "id": Column("n.id"),
    "project_id": Column("n.project_id"),
    "tenant_id": Column("n.project_id"),
    "name": Column("n.name"),
    "description": Column("n.description"),
    "revision_number": Column("n.revision_number", "number"),
}


def own(where: Where, rights: Rights, rule: str) -> None:
    """Let through what the rule lets the caller see: all, its project's own, or nothing."""
    reach = rights.reach(rule)
    if reach == "own":
        where.add("n.project_id = :caller_project", caller_project=rights.project)
    elif reach == "none":
        where.add("1 = 0")


def row_of(tx: Tx, noun: Noun, where: Where, id: str) -> Row:
    """The row of one of those that ``where`` lets through. Raises NotFound."""
    where.add("n.id = :id", id=id)
    row = tx.one(f"select {noun.select} from {noun.source} where {where.sql}", **where.params)
    if row is None:
        raise noun.missing(id)
    return row


def page(tx: Tx, noun: Noun, where: Where, listing: Listing) -> list[Row]:
    """One page of what ``where`` lets through.

    Raises Invalid for filters and sort keys that there are not, NotFound for a marker that is not there.
    """
    for name, values in listing.filters:
        _filter(noun, where, name, values)
    sort = []
    for name, direction in listing.sort:
        column = noun.columns.get(name)
        if column is None or not column.sort:
            raise Invalid(f"['{name}'] is invalid attribute for sort_keys")
        sort.append((column.sql, direction))
    if not any(expression == "n.id" for expression, _ in sort):
        sort.append(("n.id", "asc"))
    if listing.reverse:
        sort = [(expression, "desc" if direction == "asc" else "asc") for expression, direction in sort]
    query = Query(listing.most, listing.marker, tuple(sort))
    try:
        rows = page_of(tx, noun.source, where, query, {}, columns=noun.select, key="n.id")
    except MarkerNotFound as error:
        raise noun.missing(str(listing.marker)) from error
    return rows[::-1] if listing.reverse else rows


def _filter(noun: Noun, where: Where, name: str, values: Sequence[str]) -> None:
    special = noun.specials.get(name)
    if special is not None:
        special(where, values)
        return
    if noun.tagged and name in _TAG_FILTERS:
        _TAG_FILTERS[name](where, noun.many, _split(values))
        return
    if name == "changed_since":
        where.add("n.updated_at >= :changed_since", changed_since=_moment(values[-1]))
        return
    column = noun.columns.get(name)
    if column is None:
        raise Invalid(f"['{name[:100]}'] is invalid attribute for filtering")
    wanted: list[Any] = []
    for value in values:
        if column.kind == "flag":
            wanted.append(flag(value))
        elif column.kind == "number":
            wanted.append(_number(value))
        else:
            wanted.append(column.normal(value) if column.normal else value)
    wanted = [value for value in wanted if value is not None]
    if wanted:
        where.among(column.sql, wanted)
    else:
        where.add("1 = 0")


_TRUE = frozenset({"1", "t", "true", "on", "y", "yes"})
_FALSE = frozenset({"0", "f", "false", "off", "n", "no"})


def flag(value: str) -> bool:
    """A filter's value as true or false. Raises Invalid."""
    word = value.strip().lower()
    if word not in _TRUE and word not in _FALSE:
        raise Invalid(
            f"Invalid input for operation: '{value[:100]}' cannot be converted to boolean.",
            code="InvalidInput",
        )
    return word in _TRUE


def _number(value: str) -> int | None:
    """A filter's value as a whole number; None for what no number equals."""
    try:
        number = int(value)
    except ValueError:
        raise Invalid(
            f"Invalid input for operation: '{value[:100]}' is not an integer.", code="InvalidInput"
        ) from None
    return number if -_INT64 <= number < _INT64 else None


def _moment(value: str) -> float:
    try:
        parsed = datetime.fromisoformat(value)
    except ValueError:
        raise Invalid(
            "Invalid input for operation: The input changed_since must be in the following format: "
            "YYYY-MM-DDTHH:MM:SS[Z].",
            code="InvalidInput",
        ) from None
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()


# --- conditions ---


def any_of(where: Where, condition: str, values: Iterable[Any]) -> None:
    """Add a condition in which ``:values`` stands for a list of values."""
    name = f"v{len(where.params)}"
    where.add(condition.replace(":values", f":{name}"), **{name: tuple(values)})


def _split(values: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(tag for value in values for tag in value.split(",") if tag))[:100]


def _has_one(many: str) -> str:
    return (
        f"exists (select 1 from network_tags t where t.resource = '{many}' and t.resource_id = n.id "
        "and t.tag in :values)"
    )


def _has_all(many: str, tags: Sequence[str]) -> str:
    # A count, for a condition per tag is more than a planner can weigh.
    return (
        f"(select count(*) from network_tags t where t.resource = '{many}' and t.resource_id = n.id "
        f"and t.tag in :values) = {len(tags)}"
    )


def _tags(where: Where, many: str, tags: Sequence[str]) -> None:
    any_of(where, _has_all(many, tags), tags)


def _tags_any(where: Where, many: str, tags: Sequence[str]) -> None:
    any_of(where, _has_one(many), tags)


def _not_tags(where: Where, many: str, tags: Sequence[str]) -> None:
    any_of(where, f"not {_has_all(many, tags)}", tags)


def _not_tags_any(where: Where, many: str, tags: Sequence[str]) -> None:
    any_of(where, f"not {_has_one(many)}", tags)


#: See "Filtering and tags" in Neutron's API reference.
_TAG_FILTERS: Mapping[str, Callable[[Where, str, Sequence[str]], None]] = {
    "tags": _tags,
    "tags-any": _tags_any,
    "not-tags": _not_tags,
    "not-tags-any": _not_tags_any,
}


# --- tags ---


def with_tags(tx: Tx, many: str, rows: Sequence[Row]) -> None:
    """Give each row its ``tags``, sorted."""
    found: dict[str, list[str]] = {}
    for ids in chunks((row["id"] for row in rows), 1000):
        for row in tx.all(
            "select resource_id, tag from network_tags where resource = :many and resource_id in :ids order by tag",
            many=many,
            ids=ids,
        ):
            found.setdefault(row["resource_id"], []).append(row["tag"])
    for row in rows:
        row["tags"] = found.get(row["id"], [])


def set_tags(tx: Tx, many: str, id: str, tags: Iterable[str]) -> None:
    """Replace the resource's tags."""
    drop_tags(tx, many, id)
    for tag in sorted(set(tags)):
        tx.insert("network_tags", resource=many, resource_id=id, tag=tag)


def drop_tags(tx: Tx, many: str, id: str) -> None:
    """Forget the resource's tags. Where it goes itself, its row goes first: whoever tags it holds that row."""
    tx.run("delete from network_tags where resource = :many and resource_id = :id", many=many, id=id)


# --- rows ---


def stamps(tx: Tx) -> dict[str, Any]:
    """Columns of a new row that say when it was made."""
    return {"created_at": tx.now, "updated_at": tx.now, "revision_number": 1}


def bump(tx: Tx, table: str, id: str, /, **changes: Any) -> None:
    """Change a row, and with it its revision."""
    sets = "".join(f"{name} = :{name}, " for name in changes)
    tx.run(
        f"update {table} set {sets}updated_at = :now_, revision_number = revision_number + 1 where id = :id_",
        now_=tx.now,
        id_=id,
        **changes,
    )


def if_match(
    tx: Tx,
    table: str,
    revision: int,
    function: Callable[Concatenate[Tx, Rights, str, P], R],
    rights: Rights,
    id: str,
    *args: P.args,
    **kwargs: P.kwargs,
) -> R:
    """Run ``function`` if the row still has the revision that the client saw. Raises Conflict (412).

    See "Revision-number-based updates" (If-Match) in Neutron's API reference.
    """
    tx.lock(table, id)
    found = tx.value(f"select revision_number from {table} where id = :id", id=id)
    if found is not None and found != revision:
        raise Conflict(
            f"Constrained to {revision}, but current revision is {found}", code="RevisionNumberConstraintFailed",
            status=412,
        )  # fmt: skip
    return function(tx, rights, id, *args, **kwargs)


def each(
    tx: Tx, create: Callable[[Tx, Rights, Item], Row], rights: Rights, items: Sequence[Item]
) -> list[Row]:
    """Create every one of a request's resources, or none."""
    return [create(tx, rights, item) for item in items]


def owner_of(rights: Rights, item: Item) -> str:
    """The project that a new resource belongs to. Raises Invalid if the caller may not choose it."""
    project: str = item.get("project_id") or rights.project
    if project != rights.project and not rights.caller.is_admin:
        raise Invalid(
            "Specifying 'project_id' or 'tenant_id' other than the authenticated project in request "
            "requires admin privileges"
        )
    if not project:
        raise Invalid(
            "The token has no project, so the request must say which one the resource is for: project_id."
        )
    return project
