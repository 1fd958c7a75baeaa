"""QoS specs. See the Block Storage API reference, "Quality of service (QoS) specifications (qos-specs)"."""

from __future__ import annotations

from typing import Any

from cumulet.api.asgi import Route
from cumulet.api.request import Request, Response, accepted, ok
from cumulet.api.volume import page
from cumulet.core import qos_specs
from cumulet.core.policy import ADMIN
from cumulet.core.qos_specs import Qos
from cumulet.errors import Invalid
from cumulet.wire import qos_specs as wire


def _id(request: Request) -> str:
    return request.params["qos_id"]


def _shown(qos: Qos) -> dict[str, Any]:
    return {"id": qos.id, "name": qos.name, "consumer": qos.consumer, "specs": dict(qos.specs)}


def _one(request: Request, qos: Qos) -> Response:
    return ok({"qos_specs": _shown(qos), "links": page.links(request, "qos-specs", qos.id)})


async def index(request: Request) -> Response:
    """GET /qos-specs"""
    query = page.page_of(request, qos_specs.SORTABLE)
    found = {name: value for name, value in request.query if name in ("id", "name", "consumer")}
    rows = await request.cloud.db.read(qos_specs.listing, query, found)
    body = {"qos_specs": [_shown(qos) for qos in rows]}
    return ok(page.with_more(body, "qos_specs_links", request, query, [qos.id for qos in rows]))


async def create(request: Request) -> Response:
    """POST /qos-specs"""
    specs = (await request.struct(wire.Create)).qos_specs
    name, consumer = specs.pop("name").strip(), specs.pop("consumer", "back-end")
    return _one(request, await request.cloud.db.write(qos_specs.create, name, consumer, specs))


async def show(request: Request) -> Response:
    """GET /qos-specs/{qos_id}"""
    return _one(request, await request.cloud.db.read(qos_specs.find, _id(request)))


async def update(request: Request) -> Response:
    """PUT /qos-specs/{qos_id}"""
    asked = (await request.struct(wire.Update)).qos_specs
    specs = {name: value for name, value in asked.items() if name != "consumer"}
    await request.cloud.db.write(qos_specs.update, _id(request), asked.get("consumer"), specs)
    return ok({"qos_specs": asked})


async def delete(request: Request) -> Response:
    """DELETE /qos-specs/{qos_id}"""
    await request.cloud.db.write(qos_specs.delete, _id(request), force=request.flag("force"))
    return accepted()


async def delete_keys(request: Request) -> Response:
    """PUT /qos-specs/{qos_id}/delete_keys"""
    asked = await request.struct(wire.Keys)
    await request.cloud.db.write(qos_specs.delete_keys, _id(request), asked.keys)
    return accepted()


async def associations(request: Request) -> Response:
    """GET /qos-specs/{qos_id}/associations"""
    rows = await request.cloud.db.read(qos_specs.associations, _id(request))
    return ok({"qos_associations": [{"association_type": "volume_type", **row} for row in rows]})


def _type(request: Request) -> str:
    found = request.arg("vol_type_id")
    if not found:
        raise Invalid("Volume Type id must not be None.")
    return found


async def associate(request: Request) -> Response:
    """GET /qos-specs/{qos_id}/associate?vol_type_id="""
    await request.cloud.db.write(qos_specs.associate, request.caller, _id(request), _type(request))
    return accepted()


async def disassociate(request: Request) -> Response:
    """GET /qos-specs/{qos_id}/disassociate?vol_type_id="""
    await request.cloud.db.write(qos_specs.disassociate, request.caller, _id(request), _type(request))
    return accepted()


async def disassociate_all(request: Request) -> Response:
    """GET /qos-specs/{qos_id}/disassociate_all"""
    await request.cloud.db.write(qos_specs.disassociate, request.caller, _id(request), None)
    return accepted()


_ALL = "/v3/qos-specs"
_ONE = f"{_ALL}/{{qos_id}}"
_RULE = "volume_extension:qos_specs_manage"

ROUTES = (
    Route("GET", _ALL, index, f"{_RULE}:get_all", ADMIN),
    Route("POST", _ALL, create, f"{_RULE}:create", ADMIN),
    Route("GET", _ONE, show, f"{_RULE}:get", ADMIN),
    Route("PUT", _ONE, update, f"{_RULE}:update", ADMIN),
    Route("DELETE", _ONE, delete, f"{_RULE}:delete", ADMIN),
    Route("PUT", f"{_ONE}/delete_keys", delete_keys, f"{_RULE}:delete", ADMIN),
    Route("GET", f"{_ONE}/associations", associations, f"{_RULE}:get_all", ADMIN),
    Route("GET", f"{_ONE}/associate", associate, f"{_RULE}:update", ADMIN),
    Route("GET", f"{_ONE}/disassociate", disassociate, f"{_RULE}:update", ADMIN),
    Route("GET", f"{_ONE}/disassociate_all", disassociate_all, f"{_RULE}:update", ADMIN),
)
