"""Metadata definitions. See the image API reference, "Metadata Definitions Service API v2"."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET

from cumulet.api.asgi import Handler, Route
from cumulet.api.image import filters, permit
from cumulet.api.image.links import link
from cumulet.api.request import Request, Response, boolean, created, no_content, ok
from cumulet.core import metadefs
from cumulet.core.metadefs import Check, Kind, Namespace, Part
from cumulet.db.query import MarkerNotFound, Query
from cumulet.errors import Forbidden, Invalid, NotFound
from cumulet.wire import metadefs as wire
from cumulet.wire.body import decode
from cumulet.wire.forms import instant

T = TypeVar("T")

SEE = f"{permit.ADMIN} or (role:reader and ({permit.PROJECT} or 'public':%(visibility)s))"
_MANAGE = "rule:metadef_admin"
#: Rules that others refer to.
RULES = {"metadef_default": "", "metadef_admin": permit.ADMIN, "get_metadef_resource_type": SEE}
_GENERATED = ("self", "schema", "created_at", "updated_at")


def _may(request: Request, rule: str) -> Check:
    def check(namespace: Namespace) -> None:
        target = {"project_id": namespace.owner, "visibility": namespace.visibility}
        allows = request.cloud.policy.allows
        if not allows(rule, request.caller, target):
            if not allows("get_metadef_namespace", request.caller, target):
                raise NotFound(f"Metadata definition namespace={namespace.namespace} was not found.")
            raise Forbidden(f"You are not authorized to complete {rule} action.")

    return check


async def _body(request: Request, shape: type[T]) -> T:
    """The body as ``shape``. Raises Invalid, and Forbidden for what only the service writes."""
    raw = await request.document()
    for name in _GENERATED:
        if name in raw:
            raise Forbidden(f"Attribute '{name}' is read-only.")
    return decode(raw, shape, request.version)


def _query(request: Request, sortable: Collection[str], *, limited: bool) -> Query:
    """The page that is asked for; without ``limited`` all of it where nothing is said. Raises Invalid."""
    key, direction = request.arg("sort_key") or "created_at", request.arg("sort_dir") or "desc"
    if direction not in ("asc", "desc"):
        raise Invalid(f"Invalid sort direction: {direction}")
    if key not in sortable:
        raise Invalid(f"Invalid sort key: {key}. It must be one of the following: {', '.join(sortable)}.")
    limit = filters.limit(request) if limited or request.arg("limit") is not None else None
    return Query(limit=limit, marker=request.arg("marker"), sort=((key, direction),))


# --- what is shown ---


def _dates(created_at: float, updated_at: float) -> dict[str, str]:
    return {"created_at": instant(created_at), "updated_at": instant(updated_at)}


def _shown(found: Namespace) -> dict[str, Any]:
    body: dict[str, Any] = {
        "namespace": found.namespace,
        "visibility": found.visibility,
        "protected": found.protected,
        "self": f"/v2/metadefs/namespaces/{found.namespace}",
        "schema": "/v2/schemas/metadefs/namespace",
        **_dates(found.created_at, found.updated_at),
    }
    for name in ("display_name", "description", "owner"):
        value = getattr(found, name)
        if value is not None:
            body[name] = value
    return body


def _object(namespace: str, part: Part) -> dict[str, Any]:
    return {
        "name": part.name,
        **part.content,
        "self": f"/v2/metadefs/namespaces/{namespace}/objects/{part.name}",
        "schema": "/v2/schemas/metadefs/object",
        **_dates(part.created_at, part.updated_at),
    }


def _property(part: Part) -> dict[str, Any]:
    return {"name": part.name, **part.content}


def _tag(part: Part) -> dict[str, Any]:
    return {"name": part.name, **_dates(part.created_at, part.updated_at)}


def _association(part: Part) -> dict[str, Any]:
    return {"name": part.name, **part.content, **_dates(part.created_at, part.updated_at)}


def _with_parts(found: Namespace, parts: Sequence[Part]) -> dict[str, Any]:
    body = _shown(found)
    named = found.namespace
    held = {
        "resource_type_associations": [_association(part) for part in parts if part.kind == "resource_type"],
        "properties": {part.name: dict(part.content) for part in parts if part.kind == "property"},
        "objects": [_object(named, part) for part in parts if part.kind == "object"],
        "tags": [{"name": part.name} for part in parts if part.kind == "tag"],
    }
    return {**body, **{name: value for name, value in held.items() if value}}


def _prefixed(body: dict[str, Any], resource_type: str) -> dict[str, Any]:
    """With the names that the properties have on resources of a type."""
    associations = body.get("resource_type_associations", ())
    prefix = next((one.get("prefix") for one in associations if one["name"] == resource_type), None)
    if not prefix:
        return body
    if "properties" in body:
        body["properties"] = {prefix + name: value for name, value in body["properties"].items()}
    for one in body.get("objects", ()):
        if "properties" in one:
            one["properties"] = {prefix + name: value for name, value in one["properties"].items()}
        if "required" in one:
            one["required"] = [prefix + name for name in one["required"]]
    return body


# --- namespaces ---


async def list_namespaces(request: Request) -> Response:
    """GET /v2/metadefs/namespaces"""
    visibility = request.arg("visibility")
    if visibility and visibility not in ("public", "private"):
        raise Invalid(f"Invalid visibility value: {visibility}")
    query = _query(request, metadefs.SORTABLE, limited=True)
    db = request.cloud.db
    try:
        found = await db.read(
            metadefs.listing,
            request.caller,
            query,
            visibility=visibility or None,
            owner=request.arg("owner"),
            resource_types=[name for name in (request.arg("resource_types") or "").split(",") if name],
        )
    except MarkerNotFound as error:
        raise NotFound(f"Metadata definition namespace={error} was not found.") from None
    parts = await db.read(metadefs.parts, [one.id for one in found], "resource_type")
    body: dict[str, Any] = {
        "namespaces": [_with_parts(one, parts.get(one.id, ())) for one in found],
        "first": link(request, "metadefs/namespaces"),
        "schema": "/v2/schemas/metadefs/namespaces",
    }
    if found and len(found) == query.limit:
        body["next"] = link(request, "metadefs/namespaces", found[-1].namespace)
    return ok(body)


async def create_namespace(request: Request) -> Response:
    """POST /v2/metadefs/namespaces"""
    asked = await _body(request, wire.Namespace)
    made = await request.cloud.db.write(
        metadefs.create,
        asked.namespace,
        {
            "resource_type": _named(asked.resource_type_associations),
            "property": {name: msgspec.to_builtins(one) for name, one in asked.properties.items()},
            "object": _named(asked.objects),
            "tag": _named(asked.tags),
        },
        **_columns(request, asked),
    )
    _, parts = await request.cloud.db.read(
        metadefs.whole, request.caller, made.namespace, _may(request, "get_metadef_namespace")
    )
    return created(_with_parts(made, parts), ("Location", request.url(f"/image{_shown(made)['self']}")))


def _named(parts: Sequence[wire.Association | wire.Object | wire.Tag]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for part in parts:
        if part.name in found:
            raise Invalid(f"There are two definitions of the name {part.name}.")
        content: dict[str, Any] = msgspec.to_builtins(part)
        del content["name"]
        found[part.name] = content
    return found


def _columns(request: Request, asked: wire.Namespace) -> dict[str, Any]:
    return {
        "display_name": asked.display_name,
        "description": asked.description,
        "visibility": asked.visibility,
        "protected": asked.protected,
        "owner": request.caller.project_id if asked.owner is UNSET else asked.owner,
    }


async def show_namespace(request: Request) -> Response:
    """GET /v2/metadefs/namespaces/{namespace}"""
    found, parts = await request.cloud.db.read(
        metadefs.whole, request.caller, request.params["namespace"], _may(request, "get_metadef_namespace")
    )
    return ok(_prefixed(_with_parts(found, parts), request.arg("resource_type") or ""))


async def update_namespace(request: Request) -> Response:
    """PUT /v2/metadefs/namespaces/{namespace}"""
    asked = await _body(request, wire.Namespace)
    changed = await request.cloud.db.write(
        metadefs.update,
        request.caller,
        request.params["namespace"],
        _may(request, "modify_metadef_namespace"),
        {"namespace": asked.namespace, **_columns(request, asked)},
    )
    return ok(_shown(changed))


async def delete_namespace(request: Request) -> Response:
    """DELETE /v2/metadefs/namespaces/{namespace}"""
    check = _may(request, "delete_metadef_namespace")
    await request.cloud.db.write(metadefs.delete, request.caller, request.params["namespace"], check)
    return no_content()


def _delete_all(kind: Kind) -> Handler:
    async def delete(request: Request) -> Response:
        check = _may(request, "delete_metadef_namespace")
        await request.cloud.db.write(
            metadefs.remove_parts, request.caller, request.params["namespace"], kind, check
        )
        return no_content()

    return delete


# --- definitions ---


async def _parts(request: Request, kind: Kind, rule: str, query: Query | None = None) -> list[Part]:
    try:
        return await request.cloud.db.read(
            metadefs.list_parts, request.caller, request.params["namespace"], kind, _may(request, rule), query
        )
    except MarkerNotFound as error:
        raise NotFound(f"The metadata definition {kind} with name={error} was not found.") from None


async def _one(request: Request, kind: Kind, rule: str, name: str) -> Part:
    return await request.cloud.db.read(
        metadefs.part, request.caller, request.params["namespace"], kind, name, _may(request, rule)
    )


async def _add(request: Request, kind: Kind, rule: str, name: str, content: dict[str, Any]) -> Part:
    return await request.cloud.db.write(
        metadefs.add_part,
        request.caller,
        request.params["namespace"],
        kind,
        name,
        content,
        _may(request, rule),
    )


async def _change(request: Request, kind: Kind, rule: str, new_name: str, content: dict[str, Any]) -> Part:
    return await request.cloud.db.write(
        metadefs.change_part,
        request.caller,
        request.params["namespace"],
        kind,
        request.params["name"],
        new_name,
        content,
        _may(request, rule),
    )


def _delete(kind: Kind, rule: str) -> Handler:
    async def delete(request: Request) -> Response:
        await request.cloud.db.write(
            metadefs.remove_part,
            request.caller,
            request.params["namespace"],
            kind,
            request.params["name"],
            _may(request, rule),
        )
        return no_content()

    return delete


def _content(asked: msgspec.Struct) -> dict[str, Any]:
    content: dict[str, Any] = msgspec.to_builtins(asked)
    del content["name"]
    return content


async def list_objects(request: Request) -> Response:
    """GET /v2/metadefs/namespaces/{namespace}/objects"""
    query = _query(request, metadefs.SORTABLE_PARTS, limited=False)
    found = await _parts(request, "object", "get_metadef_objects", query)
    shown = [_object(request.params["namespace"], part) for part in found]
    return ok({"objects": shown, "schema": "/v2/schemas/metadefs/objects"})


async def create_object(request: Request) -> Response:
    """POST /v2/metadefs/namespaces/{namespace}/objects"""
    asked = await _body(request, wire.Object)
    made = await _add(request, "object", "add_metadef_object", asked.name, _content(asked))
    return created(_object(request.params["namespace"], made))


async def show_object(request: Request) -> Response:
    """GET /v2/metadefs/namespaces/{namespace}/objects/{name}"""
    found = await _one(request, "object", "get_metadef_object", request.params["name"])
    return ok(_object(request.params["namespace"], found))


async def update_object(request: Request) -> Response:
    """PUT /v2/metadefs/namespaces/{namespace}/objects/{name}"""
    asked = await _body(request, wire.Object)
    changed = await _change(request, "object", "modify_metadef_object", asked.name, _content(asked))
    return ok(_object(request.params["namespace"], changed))


async def list_properties(request: Request) -> Response:
    """GET /v2/metadefs/namespaces/{namespace}/properties"""
    found = await _parts(request, "property", "get_metadef_properties")
    return ok({"properties": {part.name: part.content for part in found}})


async def create_property(request: Request) -> Response:
    """POST /v2/metadefs/namespaces/{namespace}/properties"""
    asked = await _body(request, wire.NamedProperty)
    return created(
        _property(await _add(request, "property", "add_metadef_property", asked.name, _content(asked)))
    )


async def show_property(request: Request) -> Response:
    """GET /v2/metadefs/namespaces/{namespace}/properties/{name}, with the name it has on a type of resource"""
    name, resource_type = request.params["name"], request.arg("resource_type")
    if resource_type:
        association = await _one(request, "resource_type", "get_metadef_resource_type", resource_type)
        prefix = association.content.get("prefix")
        if not prefix or not name.startswith(prefix):
            raise NotFound(
                f"Property {name} does not start with the expected resource type association prefix of '{prefix}'."
            )
        name = name[len(prefix) :]
    return ok(_property(await _one(request, "property", "get_metadef_property", name)))


async def update_property(request: Request) -> Response:
    """PUT /v2/metadefs/namespaces/{namespace}/properties/{name}"""
    asked = await _body(request, wire.NamedProperty)
    changed = await _change(request, "property", "modify_metadef_property", asked.name, _content(asked))
    return ok(_property(changed))


async def list_tags(request: Request) -> Response:
    """GET /v2/metadefs/namespaces/{namespace}/tags"""
    query = _query(request, metadefs.SORTABLE_PARTS, limited=False)
    found = await _parts(request, "tag", "get_metadef_tags", query)
    return ok({"tags": [{"name": part.name} for part in found]})


async def create_tags(request: Request) -> Response:
    """POST /v2/metadefs/namespaces/{namespace}/tags: instead of those that there are, or beside them"""
    asked = await _body(request, wire.Tags)
    append = boolean(request.headers.get("x-openstack-append", "false"), "X-Openstack-Append")
    names = list(_named(asked.tags))
    await request.cloud.db.write(
        metadefs.add_tags,
        request.caller,
        request.params["namespace"],
        names,
        _may(request, "add_metadef_tags"),
        append=append,
    )
    return created({"tags": [{"name": name} for name in names]})


async def create_tag(request: Request) -> Response:
    """POST /v2/metadefs/namespaces/{namespace}/tags/{name}"""
    asked = decode({"name": request.params["name"]}, wire.Tag, request.version)
    return created(_tag(await _add(request, "tag", "add_metadef_tag", asked.name, {})))


async def show_tag(request: Request) -> Response:
    """GET /v2/metadefs/namespaces/{namespace}/tags/{name}"""
    return ok(_tag(await _one(request, "tag", "get_metadef_tag", request.params["name"])))


async def update_tag(request: Request) -> Response:
    """PUT /v2/metadefs/namespaces/{namespace}/tags/{name}"""
    asked = await _body(request, wire.Tag)
    return ok(_tag(await _change(request, "tag", "modify_metadef_tag", asked.name, {})))


# --- types of resources ---


async def list_resource_types(request: Request) -> Response:
    """GET /v2/metadefs/resource_types"""
    found = await request.cloud.db.read(metadefs.resource_types)
    shown = [{"name": one.name, **_dates(one.created_at, one.created_at)} for one in found]
    return ok({"resource_types": shown})


async def list_associations(request: Request) -> Response:
    """GET /v2/metadefs/namespaces/{namespace}/resource_types"""
    found = await _parts(request, "resource_type", "list_metadef_resource_types")
    return ok({"resource_type_associations": [_association(part) for part in found]})


async def create_association(request: Request) -> Response:
    """POST /v2/metadefs/namespaces/{namespace}/resource_types"""
    asked = await _body(request, wire.Association)
    rule = "add_metadef_resource_type_association"
    return created(_association(await _add(request, "resource_type", rule, asked.name, _content(asked))))


_ALL = "/v2/metadefs/namespaces"
_NS = f"{_ALL}/{{namespace}}"
_UNLINK = "remove_metadef_resource_type_association"
ROUTES = (
    Route("GET", "/v2/metadefs/resource_types", list_resource_types, "list_metadef_resource_types", SEE),
    Route("GET", _ALL, list_namespaces, "get_metadef_namespaces", permit.ADMIN_OR_READER),
    Route("POST", _ALL, create_namespace, "add_metadef_namespace", _MANAGE),
    Route("GET", _NS, show_namespace, "get_metadef_namespace", SEE),
    Route("PUT", _NS, update_namespace, "modify_metadef_namespace", _MANAGE),
    Route("DELETE", _NS, delete_namespace, "delete_metadef_namespace", _MANAGE),
    Route("GET", f"{_NS}/objects", list_objects, "get_metadef_objects", SEE),
    Route("POST", f"{_NS}/objects", create_object, "add_metadef_object", _MANAGE),
    Route("DELETE", f"{_NS}/objects", _delete_all("object"), "delete_metadef_namespace", _MANAGE),
    Route("GET", f"{_NS}/objects/{{name}}", show_object, "get_metadef_object", SEE),
    Route("PUT", f"{_NS}/objects/{{name}}", update_object, "modify_metadef_object", _MANAGE),
    Route(
        "DELETE", f"{_NS}/objects/{{name}}", _delete("object", "delete_metadef_object"), "delete_metadef_object", _MANAGE
    ),
    Route("GET", f"{_NS}/properties", list_properties, "get_metadef_properties", SEE),
    Route("POST", f"{_NS}/properties", create_property, "add_metadef_property", _MANAGE),
    Route("DELETE", f"{_NS}/properties", _delete_all("property"), "delete_metadef_namespace", _MANAGE),
    Route("GET", f"{_NS}/properties/{{name}}", show_property, "get_metadef_property", SEE),
    Route("PUT", f"{_NS}/properties/{{name}}", update_property, "modify_metadef_property", _MANAGE),
    Route(
        "DELETE", f"{_NS}/properties/{{name}}", _delete("property", "remove_metadef_property"), "remove_metadef_property",
        _MANAGE,
    ),
    Route("GET", f"{_NS}/tags", list_tags, "get_metadef_tags", SEE),
    Route("POST", f"{_NS}/tags", create_tags, "add_metadef_tags", _MANAGE),
    Route("DELETE", f"{_NS}/tags", _delete_all("tag"), "delete_metadef_tags", _MANAGE),
    Route("GET", f"{_NS}/tags/{{name}}", show_tag, "get_metadef_tag", SEE),
    Route("POST", f"{_NS}/tags/{{name}}", create_tag, "add_metadef_tag", _MANAGE),
    Route("PUT", f"{_NS}/tags/{{name}}", update_tag, "modify_metadef_tag", _MANAGE),
    Route("DELETE", f"{_NS}/tags/{{name}}", _delete("tag", "delete_metadef_tag"), "delete_metadef_tag", _MANAGE),
    Route("GET", f"{_NS}/resource_types", list_associations, "list_metadef_resource_types", SEE),
    Route("POST", f"{_NS}/resource_types", create_association, "add_metadef_resource_type_association", _MANAGE),
    Route("DELETE", f"{_NS}/resource_types/{{name}}", _delete("resource_type", _UNLINK), _UNLINK, _MANAGE),
)  # fmt: skip
