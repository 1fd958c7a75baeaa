"""Which images there are for whom: one by its id, and lists.

An image is seen by its owner's project and by administrators, and by others if it is public, a community
image, or shared with them. See the image API reference, "Image visibility" and "List images".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from cumulet.db.engine import Row, Tx, chunks
from cumulet.db.query import Query, Where, page
from cumulet.errors import NotFound
from cumulet.values import Caller

#: What one can sort a list by, and an expression for it that is never null.
SORTABLE: Mapping[str, str] = {
    "name": "coalesce(name, '')",
    "status": "status",
    "container_format": "coalesce(container_format, '')",
    "disk_format": "coalesce(disk_format, '')",
    "size": "coalesce(size, 0)",
    "id": "id",
    "created_at": "created_at",
    "updated_at": "updated_at",
}


class Image(msgspec.Struct, frozen=True):
    """An image with all that is written about it."""

    id: str
    owner: str | None
    name: str | None
    desired: str
    status: str
    visibility: str
    protected: bool
    os_hidden: bool
    container_format: str | None
    disk_format: str | None
    min_disk: int
    min_ram: int
    size: int | None
    virtual_size: int | None
    checksum: str | None
    os_hash_algo: str | None
    os_hash_value: str | None
    inspected: str | None
    error: str | None
    cause: str | None
    origin: Mapping[str, Any] | None
    import_task: str | None
    import_left: str | None
    import_failed: str | None
    created_at: float
    updated_at: float
    properties: Mapping[str, str] = {}
    tags: tuple[str, ...] = ()
    #: True for a member of the image: a project that it is shared with.
    member: bool = False


#: Raises Forbidden, or NotFound, unless the caller may do what is asked to the image.
Check = Callable[[Image], None]

_COLUMNS = tuple(
    name for name in Image.__struct_fields__ if name not in ("properties", "tags", "member")
)  # fmt: skip
COLUMNS = ", ".join(_COLUMNS)
_MEMBER = "exists (select 1 from image_members m where m.image_id = images.id and m.member = :project)"


class Filters(msgspec.Struct, frozen=True):
    """What a list is narrowed by."""

    #: column → any of these values
    among: Mapping[str, Sequence[Any]] = {}
    #: (column, ">=" or "<=", number)
    ranges: Sequence[tuple[str, str, int]] = ()
    #: (column, gt|gte|lt|lte|eq|neq, whole seconds since the epoch)
    moments: Sequence[tuple[str, str, float]] = ()
    properties: Mapping[str, str] = {}
    tags: Sequence[str] = ()
    visibility: str | None = None
    #: Images that are shared with the caller count if the caller answered this; "all" for any answer.
    member_status: str = "accepted"
    os_hidden: bool = False
    protected: bool | None = None


def find(tx: Tx, caller: Caller, id: str, *, gone: bool = False) -> Image:
    """The image, if it exists for the caller. Raises NotFound, also for one that is being removed.

    ``gone``: one that is being removed is found as well.
    """
    row = tx.one(
        f"select {COLUMNS}, {_MEMBER} as member from images where id = :id",
        id=id, project=caller.project_id,
    )  # fmt: skip
    if row is None or not (_sees(caller, row) and (gone or row["desired"] != "gone")):
        raise NotFound(f"No image found with ID {id}")
    return complete(tx, [row])[0]


def known(tx: Tx, id: str) -> Image | None:
    """The image, whoever asks; None if there is none, or it is being removed."""
    row = tx.one(f"select {COLUMNS} from images where id = :id and desired <> 'gone'", id=id)
    return None if row is None else complete(tx, [row])[0]


def _sees(caller: Caller, row: Row) -> bool:
    return (
        row["owner"] is None
        or caller.sees(row["owner"])
        or row["visibility"] in ("public", "community")
        or (row["visibility"] == "shared" and bool(row["member"]))
    )


def locked(tx: Tx, caller: Caller, id: str, check: Check, *, gone: bool = False) -> Image:
    """``find`` for who is going to change it: others have to wait, and ``check`` was asked. Raises NotFound.

    What is locked is the holder's row, which the reconciler locks before it writes the image's.
    """
    tx.lock("holders", id)
    image = find(tx, caller, id, gone=gone)
    check(image)
    return image


def complete(tx: Tx, rows: Sequence[Row]) -> list[Image]:
    """Rows of images with their properties and tags; two statements, however many there are."""
    properties: dict[str, dict[str, str]] = {}
    tags: dict[str, list[str]] = {}
    for ids in chunks(row["id"] for row in rows):
        for one in tx.all(
            "select image_id, name, value from image_properties where image_id in :ids", ids=ids
        ):
            properties.setdefault(one["image_id"], {})[one["name"]] = one["value"]
        for one in tx.all(
            "select image_id, tag from image_tags where image_id in :ids order by tag", ids=ids
        ):
            tags.setdefault(one["image_id"], []).append(one["tag"])
    return [
        Image(
            **{name: row[name] for name in _COLUMNS},
            properties=properties.get(row["id"], {}),
            tags=tuple(tags.get(row["id"], ())),
            member=bool(row.get("member")),
        )
        for row in rows
    ]


def listing(tx: Tx, caller: Caller, query: Query, filters: Filters) -> list[Image]:
    """A page of the images that exist for the caller. Raises MarkerNotFound."""
    where = Where()
    where.add("desired <> 'gone' and status <> 'killed'")
    _visible(where, caller, filters)
    _narrow(where, filters)
    rows = page(tx, "images", where, query, SORTABLE, columns=f"{COLUMNS}, {_MEMBER} as member")
    return complete(tx, rows)


def _visible(where: Where, caller: Caller, filters: Filters) -> None:
    where.params["project"] = caller.project_id
    if not caller.is_admin:
        answered = "" if filters.member_status == "all" else " and m.status = :answer"
        shared = _MEMBER.replace(":project", f":project{answered}")
        where.add(
            f"visibility in ('public', 'community') or owner = :project or (visibility = 'shared' and {shared})"
        )
        if answered:
            where.params["answer"] = filters.member_status
    if filters.visibility is None:
        # Other projects' community images are there for who asks for them.
        where.add("visibility <> 'community' or owner = :project")
    elif filters.visibility != "all":
        where.equal("visibility", filters.visibility)


def _narrow(where: Where, filters: Filters) -> None:
    where.equal("os_hidden", filters.os_hidden)
    if filters.protected is not None:
        where.equal("protected", filters.protected)
    for column, values in filters.among.items():
        where.among(column, values)
    for i, (column, sign, number) in enumerate(filters.ranges):
        where.add(f"{column} {sign} :range{i}", **{f"range{i}": number})
    for i, (column, operator, seconds) in enumerate(filters.moments):
        where.add(_MOMENTS[operator].format(column, i), **{f"from{i}": seconds, f"till{i}": seconds + 1})
    # Counts, for a condition per property or tag is more than a planner can weigh.
    if filters.properties:
        pairs = list(enumerate(filters.properties.items()))
        one_of = " or ".join(f"p.name = :name{i} and p.value = :value{i}" for i, _ in pairs)
        where.add(
            f"(select count(*) from image_properties p where p.image_id = images.id and ({one_of})) = {len(pairs)}",
            **{f"name{i}": name for i, (name, _) in pairs}, **{f"value{i}": value for i, (_, value) in pairs},
        )  # fmt: skip
    if filters.tags:
        tags = tuple(dict.fromkeys(filters.tags))
        where.add(
            f"(select count(*) from image_tags t where t.image_id = images.id and t.tag in :tags) = {len(tags)}",
            tags=tags,
        )


#: What is shown of a moment is its whole second, so a second is a span. "from" is its beginning, "till" its end.
_MOMENTS: Mapping[str, str] = {
    "eq": "{0} >= :from{1} and {0} < :till{1}",
    "neq": "{0} < :from{1} or {0} >= :till{1}",
    "gt": "{0} >= :till{1}",
    "gte": "{0} >= :from{1}",
    "lt": "{0} < :from{1}",
    "lte": "{0} < :till{1}",
}
