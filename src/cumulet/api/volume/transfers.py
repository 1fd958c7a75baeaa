"""Volume transfers. See the Block Storage API reference, "Volume transfers", by their new and their old address."""

from __future__ import annotations

from typing import Any

from cumulet.api.asgi import Route
from cumulet.api.request import Request, Response, accepted, boolean, ok
from cumulet.api.volume import page
from cumulet.core import volume_transfers
from cumulet.core.policy import MEMBER, READER
from cumulet.db.engine import Row
from cumulet.db.query import Query
from cumulet.wire import volume_forms
from cumulet.wire import volume_transfers as wire
from cumulet.wire.forms import precise


def _basic(request: Request, row: Row) -> dict[str, Any]:
    return {
        "id": row["id"],
        "volume_id": row["volume_id"],
        "name": row["name"],
        "links": page.links(request, "os-volume-transfer", row["id"]),
    }


def _full(request: Request, row: Row) -> dict[str, Any]:
    body = {**_basic(request, row), "created_at": precise(row["created_at"])}
    if request.version >= (3, 55):
        body["no_snapshots"] = row["no_snapshots"]
    if request.version >= (3, 57):
        body["source_project_id"] = row["source_project_id"]
        # One that was accepted is not there any more.
        body["destination_project_id"] = None
        body["accepted"] = False
    return body


async def index(request: Request) -> Response:
    """GET /volume-transfers"""
    return await _list(request, detailed=False)


async def detail(request: Request) -> Response:
    """GET /volume-transfers/detail"""
    return await _list(request, detailed=True)


async def _list(request: Request, *, detailed: bool) -> Response:
    query = page.page_of(request, volume_transfers.SORTABLE)
    if request.version < (3, 59):
        query = Query(limit=query.limit, offset=query.offset, sort=(("created_at", "asc"),))
    found = {name: value for name, value in request.query if name not in {*page.PAGING, "all_tenants"}}
    rows = await request.cloud.db.read(
        volume_transfers.transfers, request.caller, query, found, everybody=page.everybody(request)
    )
    shown = [_full(request, row) if detailed else _basic(request, row) for row in rows]
    body = {"transfers": shown}
    return ok(page.with_more(body, "transfers_links", request, query, [row["id"] for row in rows]))


async def show(request: Request) -> Response:
    """GET /volume-transfers/{transfer_id}"""
    row = await request.cloud.db.read(volume_transfers.find, request.caller, request.params["transfer_id"])
    return ok({"transfer": _full(request, row)})


async def create(request: Request) -> Response:
    """POST /volume-transfers; only this answer has the key"""
    asked = (await request.struct(wire.Create)).transfer
    row, key = await request.cloud.db.write(
        volume_transfers.create,
        request.caller,
        asked.volume_id,
        volume_forms.clean(asked.name),
        no_snapshots=boolean(asked.no_snapshots, "no_snapshots"),
    )
    return accepted({"transfer": {**_full(request, row), "auth_key": key}})


async def accept(request: Request) -> Response:
    """POST /volume-transfers/{transfer_id}/accept"""
    asked = (await request.struct(wire.Accept)).accept
    row = await request.cloud.db.write(
        volume_transfers.accept, request.caller, request.params["transfer_id"], str(asked.auth_key)
    )
    return accepted({"transfer": _basic(request, row)})


async def delete(request: Request) -> Response:
    """DELETE /volume-transfers/{transfer_id}"""
    await request.cloud.db.write(volume_transfers.delete, request.caller, request.params["transfer_id"])
    return accepted()


def _routes(root: str) -> tuple[Route, ...]:
    one = f"{root}/{{transfer_id}}"
    return (
        Route("GET", root, index, "volume:get_all_transfers", READER),
        Route("POST", root, create, "volume:create_transfer", MEMBER),
        Route("GET", f"{root}/detail", detail, "volume:get_all_transfers", READER),
        Route("GET", one, show, "volume:get_transfer", READER),
        Route("DELETE", one, delete, "volume:delete_transfer", MEMBER),
        Route("POST", f"{one}/accept", accept, "volume:accept_transfer", MEMBER),
    )


ROUTES = (*_routes("/v3/volume-transfers"), *_routes("/v3/os-volume-transfer"))
