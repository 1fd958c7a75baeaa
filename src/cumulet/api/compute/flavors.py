"""Flavors. See the compute API reference, "Flavors", "Flavors access", "Flavors extra-specs"."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from cumulet.api.asgi import Route
from cumulet.api.compute import permit
from cumulet.api.compute.links import links, page_of, unknown_marker, with_more
from cumulet.api.query import only
from cumulet.api.request import Request, Response, accepted, boolean, ok
from cumulet.core import extra_specs, flavors
from cumulet.core.flavors import Filters, Flavor
from cumulet.core.policy import ADMIN, ANYONE, READER
from cumulet.db.query import MarkerNotFound, Query
from cumulet.errors import Invalid
from cumulet.wire import flavors as wire
from cumulet.wire.body import decode, encode

_SEE_SPECS = "os_compute_api:os-flavor-extra-specs:index"
_QUERY = ("limit", "marker", "is_public", "minRam", "minDisk", "sort_key", "sort_dir")


def _basic(request: Request, flavor: Flavor) -> dict[str, Any]:
    body = wire.Basic(
        id=flavor.flavorid,
        name=flavor.name,
        links=links(request, "flavors", flavor.flavorid),
        description=flavor.description,
    )
    return encode(body, request.version)


def _full(request: Request, flavor: Flavor, *, specs: bool) -> dict[str, Any]:
    body = wire.Full(
        id=flavor.flavorid,
        name=flavor.name,
        ram=flavor.ram,
        disk=flavor.disk,
        # Until 2.75 no swap is "".
        swap=flavor.swap if flavor.swap or request.version >= (2, 75) else "",
        ephemeral=flavor.ephemeral,
        disabled=flavor.disabled,
        vcpus=flavor.vcpus,
        is_public=flavor.is_public,
        rxtx_factor=flavor.rxtx_factor,
        links=links(request, "flavors", flavor.flavorid),
        description=flavor.description,
        extra_specs=dict(flavor.extra_specs) if specs else UNSET,
    )
    return encode(body, request.version)


def _one(request: Request, flavor: Flavor) -> Response:
    return ok({"flavor": _full(request, flavor, specs=permit.allows(request, _SEE_SPECS))})


async def index(request: Request) -> Response:
    """GET /flavors"""
    found, query = await _list(request)
    body = {"flavors": [_basic(request, flavor) for flavor in found]}
    return ok(with_more(body, "flavors", request, query, [flavor.flavorid for flavor in found]))


async def detail(request: Request) -> Response:
    """GET /flavors/detail"""
    found, query = await _list(request)
    specs = permit.allows(request, _SEE_SPECS)
    body = {"flavors": [_full(request, flavor, specs=specs) for flavor in found]}
    return ok(with_more(body, "flavors", request, query, [flavor.flavorid for flavor in found]))


async def _list(request: Request) -> tuple[list[Flavor], Query]:
    named = request.version >= (2, 102)
    if request.version >= (2, 75):
        only(request, *_QUERY, *(("name",) if named else ()))
    sortable = flavors.SORTABLE.keys() - ({"rxtx_factor"} if named else set())
    query = _ascending(request, page_of(request, sortable))
    filters = Filters(
        name=request.arg("name") if named else None,
        is_public=_is_public(request),
        min_ram=_number(request, "minRam"),
        min_disk=_number(request, "minDisk"),
    )
    try:
        return await request.cloud.db.read(flavors.listing, request.caller, query, filters), query
    except MarkerNotFound as error:
        raise unknown_marker(error) from None


def _ascending(request: Request, query: Query) -> Query:
    """Flavors are sorted upwards where no direction is given, and by one key."""
    direction = request.arg("sort_dir") or "asc"
    if direction not in ("asc", "desc"):
        raise Invalid(f"Invalid input for query parameters sort_dir: {direction!r} is neither asc nor desc.")
    name = query.sort[0][0] if query.sort else "flavorid"
    return Query(limit=query.limit, marker=query.marker, sort=((name, direction),))


def _is_public(request: Request) -> bool | None:
    text = request.arg("is_public")
    if text is None:
        return True
    return None if text.lower() == "none" else boolean(text, "is_public")


def _number(request: Request, name: str) -> int | None:
    text = request.arg(name)
    if text is None:
        return None
    try:
        number = int(text)
    except ValueError:
        raise Invalid(f"Invalid {name} filter [{text}]") from None
    if abs(number) > 1 << 62:
        raise Invalid(f"Invalid {name} filter [{text}]")
    return number


async def show(request: Request) -> Response:
    """GET /flavors/{flavor_id}"""
    found = await request.cloud.db.read(flavors.find, request.caller, request.params["flavor_id"])
    return _one(request, found)


async def create(request: Request) -> Response:
    """POST /flavors"""
    asked = (await request.struct(wire.Create)).flavor
    made = await request.cloud.db.write(
        flavors.create,
        flavorid=None if asked.id is None else str(asked.id),
        name=asked.name,
        ram=asked.ram,
        vcpus=asked.vcpus,
        disk=asked.disk,
        ephemeral=asked.ephemeral,
        swap=asked.swap,
        rxtx_factor=asked.rxtx_factor,
        is_public=boolean(asked.is_public, "os-flavor-access:is_public"),
        description=asked.description,
    )
    return _one(request, made)


async def update(request: Request) -> Response:
    """PUT /flavors/{flavor_id}, since 2.55"""
    asked = (await request.struct(wire.Update)).flavor
    changed = await request.cloud.db.write(
        flavors.describe, request.caller, request.params["flavor_id"], asked.description
    )
    return _one(request, changed)


async def delete(request: Request) -> Response:
    """DELETE /flavors/{flavor_id}"""
    await request.cloud.db.write(flavors.delete, request.caller, request.params["flavor_id"])
    return accepted()


async def list_specs(request: Request) -> Response:
    """GET /flavors/{flavor_id}/os-extra_specs"""
    found = await request.cloud.db.read(flavors.find, request.caller, request.params["flavor_id"])
    return ok({"extra_specs": dict(found.extra_specs)})


async def create_specs(request: Request) -> Response:
    """POST /flavors/{flavor_id}/os-extra_specs"""
    asked = await request.struct(wire.ExtraSpecs)
    await _set_specs(request, asked.extra_specs)
    return ok({"extra_specs": asked.extra_specs})


async def update_spec(request: Request) -> Response:
    """PUT /flavors/{flavor_id}/os-extra_specs/{key}"""
    body = await request.document()
    decode({"extra_specs": body}, wire.ExtraSpecs, request.version)
    if list(body) != [request.params["key"]]:
        raise Invalid(
            "Request body and URI mismatch: the body must hold the one extra spec that the path names."
        )
    await _set_specs(request, body)
    return ok(body)


async def _set_specs(request: Request, specs: dict[str, Any]) -> None:
    texts = {name: str(value) for name, value in specs.items()}
    if request.version >= (2, 86):
        extra_specs.check(texts)
    await request.cloud.db.write(
        flavors.set_extra_specs, request.caller, request.params["flavor_id"], texts, wire.SPECS
    )


async def show_spec(request: Request) -> Response:
    """GET /flavors/{flavor_id}/os-extra_specs/{key}"""
    name = request.params["key"]
    value = await request.cloud.db.read(flavors.extra_spec, request.caller, request.params["flavor_id"], name)
    return ok({name: value})


async def delete_spec(request: Request) -> Response:
    """DELETE /flavors/{flavor_id}/os-extra_specs/{key}"""
    await request.cloud.db.write(
        flavors.delete_extra_spec, request.caller, request.params["flavor_id"], request.params["key"]
    )
    return Response(200)


async def list_access(request: Request) -> Response:
    """GET /flavors/{flavor_id}/os-flavor-access"""
    flavorid = request.params["flavor_id"]
    return _access(flavorid, await request.cloud.db.read(flavors.access, request.caller, flavorid))


async def add_access(request: Request) -> Response:
    """POST /flavors/{flavor_id}/action {"addTenantAccess": …}; a public flavor is refused since 2.7"""
    asked = request.action_as(wire.Tenant)
    flavorid = request.params["flavor_id"]
    projects = await request.cloud.db.write(
        flavors.add_access, request.caller, flavorid, asked.tenant, refuse_public=request.version >= (2, 7)
    )
    return _access(flavorid, projects)


async def remove_access(request: Request) -> Response:
    """POST /flavors/{flavor_id}/action {"removeTenantAccess": …}"""
    asked = request.action_as(wire.Tenant)
    flavorid = request.params["flavor_id"]
    projects = await request.cloud.db.write(flavors.remove_access, request.caller, flavorid, asked.tenant)
    return _access(flavorid, projects)


def _access(flavorid: str, projects: list[str]) -> Response:
    return ok(
        {"flavor_access": [{"flavor_id": flavorid, "tenant_id": project_id} for project_id in projects]}
    )


_MANAGE = "os_compute_api:os-flavor-manage"
_SPECS = "os_compute_api:os-flavor-extra-specs"
_ACCESS = "os_compute_api:os-flavor-access"
_ONE = "/v2.1/flavors/{flavor_id}"
# Reading flavors has no rule upstream: whoever has a token may.
_READ = "os_compute_api:flavors"

ROUTES = (
    Route("GET", "/v2.1/flavors", index, _READ, ANYONE),
    Route("POST", "/v2.1/flavors", create, f"{_MANAGE}:create", ADMIN),
    Route("GET", "/v2.1/flavors/detail", detail, _READ, ANYONE),
    Route("GET", _ONE, show, _READ, ANYONE),
    Route("PUT", _ONE, update, f"{_MANAGE}:update", ADMIN, since=(2, 55)),
    Route("DELETE", _ONE, delete, f"{_MANAGE}:delete", ADMIN),
    Route("GET", f"{_ONE}/os-extra_specs", list_specs, f"{_SPECS}:index", READER),
    Route("POST", f"{_ONE}/os-extra_specs", create_specs, f"{_SPECS}:create", ADMIN),
    Route("GET", f"{_ONE}/os-extra_specs/{{key}}", show_spec, f"{_SPECS}:show", READER),
    Route("PUT", f"{_ONE}/os-extra_specs/{{key}}", update_spec, f"{_SPECS}:update", ADMIN),
    Route("DELETE", f"{_ONE}/os-extra_specs/{{key}}", delete_spec, f"{_SPECS}:delete", ADMIN),
    Route("GET", f"{_ONE}/os-flavor-access", list_access, _ACCESS, ADMIN),
    Route("POST", f"{_ONE}/action", add_access, f"{_ACCESS}:add_tenant_access", ADMIN, action="addTenantAccess"),
    Route(
        "POST", f"{_ONE}/action", remove_access, f"{_ACCESS}:remove_tenant_access", ADMIN,
        action="removeTenantAccess",
    ),
)  # fmt: skip
