"""Volume types. See the Block Storage API reference, "Volume types (types)", "Volume type access", "Default volume types"."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType

from cumulet.api.asgi import Route
from cumulet.api.request import Request, Response, accepted, boolean, no_content, ok
from cumulet.api.volume import page, permit
from cumulet.core import volume_types
from cumulet.core.policy import ADMIN, MEMBER, READER
from cumulet.core.volume_types import Filters, Type
from cumulet.db.query import MarkerNotFound
from cumulet.errors import Invalid, NotFound
from cumulet.wire import volume_types as wire
from cumulet.wire.body import decode, encode
from cumulet.wire.forms import precise, precise_or_none

_SEE_SPECS = "volume_extension:access_types_extra_specs"
_SEE_SENSITIVE = "volume_extension:types_extra_specs:read_sensitive"
_SEE_QOS = "volume_extension:access_types_qos_specs_id"
_SEE_ACCESS = "volume_extension:volume_type_access"


def _id(request: Request) -> str:
    return request.params["type_id"]


def _specs(request: Request, type_: Type) -> dict[str, str | None]:
    return volume_types.visible(type_.extra_specs, all_of_them=permit.allows(request, _SEE_SENSITIVE))


def _shown(request: Request, type_: Type, *, qos: bool = True, access: bool = True) -> dict[str, Any]:
    body = wire.Type(
        id=type_.id,
        name=type_.name,
        is_public=type_.is_public,
        description=type_.description,
        extra_specs=_specs(request, type_) if permit.allows(request, _SEE_SPECS) else UNSET,
        qos_specs_id=type_.qos_specs_id if qos and permit.allows(request, _SEE_QOS) else UNSET,
        access_is_public=type_.is_public if access and permit.allows(request, _SEE_ACCESS) else UNSET,
    )
    return encode(body, request.version)


async def index(request: Request) -> Response:
    """GET /types"""
    query = page.page_of(request, volume_types.SORTABLE)
    filters = _filters(request)
    if filters is None:
        return ok({"volume_types": []})
    try:
        found = await request.cloud.db.read(volume_types.listing, request.caller, query, filters)
    except MarkerNotFound as error:
        raise NotFound(f"Volume type {error} could not be found.") from None
    body = {"volume_types": [_shown(request, type_) for type_ in found]}
    return ok(page.with_more(body, "volume_type_links", request, query, [type_.id for type_ in found]))


def _filters(request: Request) -> Filters | None:
    """What the list is narrowed by; None where that selects nothing that the caller may know of."""
    modern = request.version >= (3, 52)
    found = page.parameters(request, "volume_type", allowed=("is_public",)) if modern else {}
    specs: dict[str, str] = {}
    if "extra_specs" in found:
        parsed = page.literal(found["extra_specs"])
        if not isinstance(parsed, dict):
            return None
        specs = {str(name): str(value) for name, value in parsed.items()}
        sensitive = set(specs) - volume_types.VISIBLE_SPECS
        if sensitive and not permit.allows(request, _SEE_SENSITIVE):
            return None
    return Filters(is_public=_is_public(request), extra_specs=specs)


def _is_public(request: Request) -> bool | None:
    text = request.arg("is_public")
    if text is None:
        return True
    return None if text.lower() == "none" else boolean(text, "is_public")


async def show_own_default(request: Request) -> Response:
    """GET /types/default: the type that the caller's volumes get"""
    found = await request.cloud.db.read(volume_types.default, request.caller)
    return ok({"volume_type": _shown(request, found)})


async def show(request: Request) -> Response:
    """GET /types/{type_id}"""
    found = await request.cloud.db.read(volume_types.find, request.caller, _id(request))
    return ok({"volume_type": _shown(request, found)})


async def create(request: Request) -> Response:
    """POST /types"""
    asked = (await request.struct(wire.Create)).volume_type
    made = await request.cloud.db.write(
        volume_types.create,
        name=asked.name.strip(),
        description=asked.description,
        is_public=boolean(asked.is_public, "os-volume-type-access:is_public"),
        extra_specs=asked.extra_specs,
    )
    return ok({"volume_type": _shown(request, made, qos=False)})


async def update(request: Request) -> Response:
    """PUT /types/{type_id}"""
    asked = (await request.struct(wire.Update)).volume_type
    changes: dict[str, Any] = {}
    if asked.name is not None:
        changes["name"] = asked.name.strip()
    if asked.description is not None:
        changes["description"] = asked.description
    if asked.is_public is not None:
        changes["is_public"] = boolean(asked.is_public, "is_public")
    found = await request.cloud.db.write(volume_types.update, request.caller, _id(request), changes)
    return ok({"volume_type": _shown(request, found, qos=False, access=False)})


async def delete(request: Request) -> Response:
    """DELETE /types/{type_id}"""
    await request.cloud.db.write(volume_types.delete, request.caller, _id(request))
    return accepted()


# --- extra specs ---


async def list_specs(request: Request) -> Response:
    """GET /types/{type_id}/extra_specs"""
    found = await request.cloud.db.read(volume_types.find, request.caller, _id(request))
    return ok({"extra_specs": _specs(request, found)})


async def create_specs(request: Request) -> Response:
    """POST /types/{type_id}/extra_specs"""
    asked = await request.struct(wire.ExtraSpecs)
    await request.cloud.db.write(
        volume_types.set_extra_specs, request.caller, _id(request), asked.extra_specs
    )
    return ok({"extra_specs": asked.extra_specs})


async def show_spec(request: Request) -> Response:
    """GET /types/{type_id}/extra_specs/{key}"""
    found = await request.cloud.db.read(volume_types.find, request.caller, _id(request))
    specs, key = _specs(request, found), request.params["key"]
    if key not in specs:
        raise NotFound(f"Volume Type {found.id} has no extra specs with key {key}.")
    return ok({key: specs[key]})


async def update_spec(request: Request) -> Response:
    """PUT /types/{type_id}/extra_specs/{key}"""
    body = await request.document()
    decode({"extra_specs": body}, wire.ExtraSpecs, request.version)
    if list(body) != [request.params["key"]]:
        raise Invalid(
            "Request body and URI mismatch: the body must hold the one extra spec that the path names."
        )
    await request.cloud.db.write(volume_types.set_extra_specs, request.caller, _id(request), body)
    return ok(body)


async def delete_spec(request: Request) -> Response:
    """DELETE /types/{type_id}/extra_specs/{key}"""
    await request.cloud.db.write(
        volume_types.delete_extra_spec, request.caller, _id(request), request.params["key"]
    )
    return accepted()


# --- access ---


async def list_access(request: Request) -> Response:
    """GET /types/{type_id}/os-volume-type-access"""
    projects = await request.cloud.db.read(volume_types.access, request.caller, _id(request))
    return ok(
        {"volume_type_access": [{"volume_type_id": _id(request), "project_id": one} for one in projects]}
    )


async def add_access(request: Request) -> Response:
    """POST /types/{type_id}/action {"addProjectAccess": …}"""
    asked = request.action_as(wire.Project)
    await request.cloud.db.write(volume_types.add_access, request.caller, _id(request), asked.project)
    return accepted()


async def remove_access(request: Request) -> Response:
    """POST /types/{type_id}/action {"removeProjectAccess": …}"""
    asked = request.action_as(wire.Project)
    await request.cloud.db.write(volume_types.remove_access, request.caller, _id(request), asked.project)
    return accepted()


# --- encryption ---

_SPECS = ("provider", "control_location", "cipher", "key_size")


async def _encryption(request: Request) -> dict[str, Any]:
    row = await request.cloud.db.read(volume_types.encryption, request.caller, _id(request))
    if row is None:
        return {}
    return {
        "volume_type_id": row["volume_type_id"],
        "encryption_id": row["id"],
        **{name: row[name] for name in _SPECS},
        "created_at": precise(row["created_at"]),
        "updated_at": precise_or_none(row["updated_at"]),
        "deleted": False,
        "deleted_at": None,
    }


async def show_encryption(request: Request) -> Response:
    """GET /types/{type_id}/encryption"""
    return ok(await _encryption(request))


async def show_encryption_item(request: Request) -> Response:
    """GET /types/{type_id}/encryption/{key}"""
    found, key = await _encryption(request), request.params["key"]
    if key not in found:
        raise NotFound(f"Volume type encryption for type {_id(request)} does not exist.")
    return ok({key: found[key]})


def _numbered(specs: wire.NewEncryption | wire.ChangedEncryption) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for name in _SPECS:
        value: Any | UnsetType = getattr(specs, name)
        if value is not UNSET:
            given[name] = int(value) if name == "key_size" and value is not None else value
    return given


async def create_encryption(request: Request) -> Response:
    """POST /types/{type_id}/encryption"""
    specs = _numbered((await request.struct(wire.CreateEncryption)).encryption)
    id = await request.cloud.db.write(
        volume_types.set_encryption, request.caller, _id(request), specs, new=True
    )
    return ok({"encryption": {**specs, "volume_type_id": _id(request), "encryption_id": id}})


async def update_encryption(request: Request) -> Response:
    """PUT /types/{type_id}/encryption/{key}"""
    specs = _numbered((await request.struct(wire.UpdateEncryption)).encryption)
    await request.cloud.db.write(volume_types.set_encryption, request.caller, _id(request), specs, new=False)
    return ok({"encryption": specs})


async def delete_encryption(request: Request) -> Response:
    """DELETE /types/{type_id}/encryption/{key}"""
    await request.cloud.db.write(volume_types.delete_encryption, request.caller, _id(request))
    return accepted()


# --- default types of projects ---


async def list_defaults(request: Request) -> Response:
    """GET /default-types, since 3.62"""
    rows = await request.cloud.db.read(volume_types.project_defaults)
    return ok(
        {
            "default_types": [
                {"project_id": r["project_id"], "volume_type_id": r["volume_type_id"]} for r in rows
            ]
        }
    )


async def show_default(request: Request) -> Response:
    """GET /default-types/{target_id}"""
    row = await request.cloud.db.read(volume_types.project_default, request.params["target_id"])
    return ok({"default_type": {"project_id": row["project_id"], "volume_type_id": row["volume_type_id"]}})


async def set_default(request: Request) -> Response:
    """PUT /default-types/{target_id}"""
    asked = (await request.struct(wire.SetDefaultType)).default_type
    row = await request.cloud.db.write(
        volume_types.set_project_default, request.caller, request.params["target_id"], asked.volume_type
    )
    return ok({"default_type": {"project_id": row["project_id"], "volume_type_id": row["volume_type_id"]}})


async def forget_default(request: Request) -> Response:
    """DELETE /default-types/{target_id}"""
    await request.cloud.db.write(volume_types.forget_project_default, request.params["target_id"])
    return no_content()


RULES = {_SEE_SPECS: READER, _SEE_SENSITIVE: ADMIN, _SEE_QOS: ADMIN, _SEE_ACCESS: MEMBER}

_ALL = "/v3/types"
_ONE = f"{_ALL}/{{type_id}}"
_EXTRA = f"{_ONE}/extra_specs"
_ENCRYPTION = f"{_ONE}/encryption"
_TYPE = "volume_extension"
_TYPE_SPECS = "volume_extension:types_extra_specs"
_DEFAULTS = "/v3/default-types"
_DEFAULT = f"{_DEFAULTS}/{{target_id}}"

ROUTES = (
    Route("GET", _ALL, index, f"{_TYPE}:type_get_all", READER),
    Route("POST", _ALL, create, f"{_TYPE}:type_create", ADMIN),
    Route("GET", f"{_ALL}/default", show_own_default, f"{_TYPE}:type_get", READER),
    Route("GET", _ONE, show, f"{_TYPE}:type_get", READER),
    Route("PUT", _ONE, update, f"{_TYPE}:type_update", ADMIN),
    Route("DELETE", _ONE, delete, f"{_TYPE}:type_delete", ADMIN),
    Route("GET", _EXTRA, list_specs, f"{_TYPE_SPECS}:index", READER),
    Route("POST", _EXTRA, create_specs, f"{_TYPE_SPECS}:create", ADMIN),
    Route("GET", f"{_EXTRA}/{{key}}", show_spec, f"{_TYPE_SPECS}:show", READER),
    Route("PUT", f"{_EXTRA}/{{key}}", update_spec, f"{_TYPE_SPECS}:update", ADMIN),
    Route("DELETE", f"{_EXTRA}/{{key}}", delete_spec, f"{_TYPE_SPECS}:delete", ADMIN),
    Route("GET", f"{_ONE}/os-volume-type-access", list_access, f"{_TYPE}:volume_type_access:get_all_for_type", ADMIN),
    Route("POST", f"{_ONE}/action", add_access, f"{_TYPE}:volume_type_access:addProjectAccess", ADMIN, action="addProjectAccess"),
    Route("POST", f"{_ONE}/action", remove_access, f"{_TYPE}:volume_type_access:removeProjectAccess", ADMIN, action="removeProjectAccess"),
    Route("GET", _ENCRYPTION, show_encryption, f"{_TYPE}:volume_type_encryption:get", ADMIN),
    Route("POST", _ENCRYPTION, create_encryption, f"{_TYPE}:volume_type_encryption:create", ADMIN),
    Route("GET", f"{_ENCRYPTION}/{{key}}", show_encryption_item, f"{_TYPE}:volume_type_encryption:get", ADMIN),
    Route("PUT", f"{_ENCRYPTION}/{{key}}", update_encryption, f"{_TYPE}:volume_type_encryption:update", ADMIN),
    Route("DELETE", f"{_ENCRYPTION}/{{key}}", delete_encryption, f"{_TYPE}:volume_type_encryption:delete", ADMIN),
    Route("GET", _DEFAULTS, list_defaults, f"{_TYPE}:default_get_all", ADMIN, since=(3, 62)),
    Route("GET", _DEFAULT, show_default, f"{_TYPE}:default_get", ADMIN, since=(3, 62)),
    Route("PUT", _DEFAULT, set_default, f"{_TYPE}:default_set_or_update", ADMIN, since=(3, 62)),
    Route("DELETE", _DEFAULT, forget_default, f"{_TYPE}:default_unset", ADMIN, since=(3, 62)),
)  # fmt: skip
