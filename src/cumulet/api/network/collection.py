"""The five calls that nearly every resource of the Network API has: list, show, create, update, delete.

ROUTES = routes(Calls(noun=ports.NOUN, attributes=…, view=…, page=…, show=…, create=…, …), Checks(…))
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import urlencode

import msgspec

from cumulet.api.asgi import Handler, Route
from cumulet.api.request import Request, Response, created, no_content, ok
from cumulet.core.network_resources import Item, Listing, Noun, each, if_match
from cumulet.core.rights import Rights
from cumulet.db.engine import Duplicate, Row, StillHeld, Tx
from cumulet.errors import Conflict, Invalid, NotFound
from cumulet.wire.network.attributes import Table, decode_create, decode_update

T = TypeVar("T")

#: What the query string has apart from filters.
_NO_FILTER = frozenset({"fields", "sort_key", "sort_dir", "limit", "marker", "page_reverse"})


class Calls(msgspec.Struct, frozen=True):
    """One kind of resource: how it looks on the wire, and the core functions that answer."""

    noun: Noun
    attributes: Table
    view: Callable[[Row], dict[str, Any]]
    page: Callable[[Tx, Rights, Listing], list[Row]]
    show: Callable[[Tx, Rights, str], Row]
    create: Callable[[Tx, Rights, Item], Row] | None = None
    update: Callable[[Tx, Rights, str, Item], Row] | None = None
    delete: Callable[[Tx, Rights, str], None] | None = None
    #: Creates all of a list; None: one after the other.
    create_all: Callable[[Tx, Rights, Sequence[Item]], list[Row]] | None = None
    #: Attributes with a rule for reading.
    private: tuple[str, ...] = ()
    #: The path's name of the collection, where it is not the noun's.
    path: str = ""
    #: True where reading may make something that is missing (a default security group).
    reads_write: bool = False


class Checks(msgspec.Struct, frozen=True):
    """Neutron's defaults of the rules of one kind of resource."""

    get: str
    create: str = ""
    update: str = ""
    delete: str = ""


def rights(request: Request) -> Rights:
    """The request's caller and the rules."""
    return Rights(request.caller, request.cloud.policy)


def identifier(request: Request, name: str = "id") -> str:
    """An id from the path. Raises NotFound for what can be none."""
    value = request.params[name]
    if "\x00" in value or len(value) > 255:
        raise NotFound("The resource could not be found.")
    return value


async def settled(work: Awaitable[T]) -> T:
    """The result of a transaction; what only a race can bring about becomes a Conflict."""
    try:
        return await work
    except StillHeld as error:
        raise Conflict(
            "The resource is in use, or what it refers to was removed at the same moment. Nothing was changed."
        ) from error
    except Duplicate as error:
        raise Conflict(
            "The same was made by another request at the same moment. Nothing was changed."
        ) from error


# --- queries ---


def listing(request: Request) -> Listing:
    """What the query string asks for. Raises Invalid."""
    filters: dict[str, list[str]] = {}
    for name, value in request.query:
        if name not in _NO_FILTER:
            if "\x00" in value:
                raise Invalid(f"['{name[:100]}'] is invalid attribute for filtering")
            filters.setdefault(name, []).append(value)
    return Listing(
        filters=tuple((name, tuple(values)) for name, values in filters.items()),
        sort=_sort(request),
        limit=_limit(request),
        marker=request.arg("marker") or None,
        reverse=(request.arg("page_reverse") or "").lower() == "true",
    )


def _sort(request: Request) -> tuple[tuple[str, str], ...]:
    keys = [key for key in request.args("sort_key") if key]
    directions = [direction for direction in request.args("sort_dir") if direction]
    if len(keys) != len(directions):
        raise Invalid("The number of sort_keys and sort_dirs must be same")
    for direction in directions:
        if direction not in ("asc", "desc"):
            raise Invalid(
                f"['{direction[:50]}'] is invalid value for sort_dirs, valid value is 'asc' and 'desc'"
            )
    return tuple(zip(keys, directions, strict=True))[:8]


def _limit(request: Request) -> int | None:
    text = request.arg("limit")
    if text is None or text == "":
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise Invalid(
            f"Bad limit request: Limit must be an integer 0 or greater and not '{text[:50]}'.",
            code="BadRequest",
        )
    return int(text) or None


def links(
    request: Request, asked: Listing, rows: Sequence[Mapping[str, Any]], full: bool
) -> list[dict[str, str]]:
    """Links to the pages before and after. ``full``: the page has as many as were asked for."""
    if asked.limit is None and not full:
        return []
    found = []
    if full or asked.reverse:
        found.append({"rel": "next", "href": _link(request, rows[-1]["id"] if rows else None, reverse=False)})
    if asked.limit is not None and (full or not asked.reverse):
        found.append(
            {"rel": "previous", "href": _link(request, rows[0]["id"] if rows else None, reverse=True)}
        )
    return found


def _link(request: Request, marker: str | None, *, reverse: bool) -> str:
    pairs = [(name, value) for name, value in request.query if name not in ("marker", "page_reverse")]
    if marker is not None:
        pairs.append(("marker", marker))
    if reverse:
        pairs.append(("page_reverse", "True"))
    return f"{request.base}{request.path}?{urlencode(pairs)}"


class _Shape(msgspec.Struct, frozen=True):
    """What of a resource the caller gets to see: what it may, and asked for."""

    view: Callable[[Row], dict[str, Any]]
    hidden: tuple[str, ...]
    fields: frozenset[str] | None

    def __call__(self, row: Row) -> dict[str, Any]:
        body = self.view(row)
        for name in self.hidden:
            body.pop(name, None)
        if self.fields is not None:
            return {name: value for name, value in body.items() if name in self.fields}
        return body


def shape(request: Request, calls: Calls, *, fields: bool = False) -> Callable[[Row], dict[str, Any]]:
    """How the caller gets to see rows; with ``fields`` only what the query asks for."""
    may = rights(request)
    target = {"project_id": may.project}
    hidden = tuple(name for name in calls.private if not may.may(f"get_{calls.noun.one}:{name}", target))
    wanted = frozenset(name for name in request.args("fields") if name) if fields else frozenset()
    return _Shape(calls.view, hidden, wanted or None)


# --- the five calls ---


def routes(calls: Calls, checks: Checks) -> tuple[Route, ...]:
    """The lines of an area's table for one kind of resource."""
    path = f"/v2.0/{calls.path or calls.noun.many}"
    one = calls.noun.one
    found = [
        Route("GET", path, _list(calls), rule=f"get_{one}", check=checks.get, late=True),
        Route("GET", path + "/{id}", _show(calls), rule=f"get_{one}", check=checks.get, late=True),
    ]
    if calls.create is not None:
        found.append(
            Route("POST", path, _create(calls), rule=f"create_{one}", check=checks.create, late=True)
        )
    if calls.update is not None:
        found.append(
            Route("PUT", path + "/{id}", _update(calls), rule=f"update_{one}", check=checks.update, late=True)
        )
    if calls.delete is not None:
        found.append(
            Route(
                "DELETE", path + "/{id}", _delete(calls), rule=f"delete_{one}", check=checks.delete, late=True
            )
        )
    return tuple(found)


def _list(calls: Calls) -> Handler:
    async def index(request: Request) -> Response:
        asked = listing(request)
        db = request.cloud.db
        run = db.write if calls.reads_write else db.read
        rows = await settled(run(calls.page, rights(request), asked))
        body: dict[str, Any] = {calls.noun.many: list(map(shape(request, calls, fields=True), rows))}
        found = links(request, asked, rows, full=len(rows) == asked.most)
        if found:
            body[f"{calls.noun.many}_links"] = found
        return ok(body)

    return index


def _show(calls: Calls) -> Handler:
    async def show(request: Request) -> Response:
        row = await request.cloud.db.read(calls.show, rights(request), identifier(request))
        return ok({calls.noun.one: shape(request, calls, fields=True)(row)})

    return show


def _create(calls: Calls) -> Handler:
    assert calls.create is not None
    one = calls.create

    def all_of(tx: Tx, may: Rights, items: Sequence[Item]) -> list[Row]:
        return each(tx, one, may, items)

    many = calls.create_all or all_of

    async def create(request: Request) -> Response:
        found, bulk = decode_create(
            await _document(request), calls.noun.one, calls.noun.many, calls.attributes
        )
        items = [Item(values, given) for values, given in found]
        rows = await settled(request.cloud.db.write(many, rights(request), items))
        views = list(map(shape(request, calls), rows))
        return created({calls.noun.many: views} if bulk else {calls.noun.one: views[0]})

    return create


def _update(calls: Calls) -> Handler:
    assert calls.update is not None
    change = calls.update

    async def update(request: Request) -> Response:
        values, given = decode_update(await _document(request), calls.noun.one, calls.attributes)
        may, id, item = rights(request), identifier(request), Item(values, given)
        revision = _revision(request)
        db = request.cloud.db
        if revision is None:
            row = await settled(db.write(change, may, id, item))
        else:
            row = await settled(db.write(if_match, calls.noun.many, revision, change, may, id, item))
        return ok({calls.noun.one: shape(request, calls)(row)})

    return update


def _delete(calls: Calls) -> Handler:
    assert calls.delete is not None
    remove = calls.delete

    async def delete(request: Request) -> Response:
        if await request.body():
            raise Invalid("Request body is not supported in DELETE.")
        may, id = rights(request), identifier(request)
        revision = _revision(request)
        db = request.cloud.db
        if revision is None:
            await settled(db.write(remove, may, id))
        else:
            await settled(db.write(if_match, calls.noun.many, revision, remove, may, id))
        return no_content()

    return delete


async def _document(request: Request) -> Any:
    if not await request.body():
        raise Invalid("Resource body required")
    return await request.raw()


def _revision(request: Request) -> int | None:
    """The revision that the client saw, from ``If-Match: revision_number=7``. Raises Invalid."""
    found = None
    for part in request.headers.get("if-match", "").split(","):
        tag = part.strip().strip('"')
        if not tag.startswith("revision_number="):
            continue
        number = tag.partition("=")[2]
        if found is not None:
            raise Invalid(
                "Bad if-match request: Multiple revision_number etags are not supported.", code="BadRequest"
            )
        if not (number.isascii() and number.isdigit() and len(number) < 19):
            raise Invalid(
                "Bad if-match request: Revision number etag must be in the format of revision_number=<int>.",
                code="BadRequest",
            )
        found = int(number)
    return found
