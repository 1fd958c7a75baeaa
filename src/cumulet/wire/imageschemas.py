"""Schemas of the image service's bodies, as it serves them to its clients below /v2/schemas.

Clients build their models from these, so names and types are part of the API. See the image API reference,
"Image Schemas" and "Metadata Definition Schemas".
"""

from __future__ import annotations

from typing import Any

from cumulet.wire.image import CONTAINER_FORMATS, DISK_FORMATS, STATUSES, VISIBILITIES

Schema = dict[str, Any]
_UUID = "^([0-9a-fA-F]){8}-([0-9a-fA-F]){4}-([0-9a-fA-F]){4}-([0-9a-fA-F]){4}-([0-9a-fA-F]){12}$"


def _string(description: str = "", *, null: bool = False, read_only: bool = False, **more: Any) -> Schema:
    found: Schema = {"type": ["null", "string"] if null else "string"}
    if description:
        found["description"] = description
    if read_only:
        found["readOnly"] = True
    return {**found, **more}


def _integer(description: str, *, null: bool = False, read_only: bool = False) -> Schema:
    found = _string(description, null=null, read_only=read_only)
    return {**found, "type": ["null", "integer"] if null else "integer"}


def _boolean(description: str) -> Schema:
    return {"type": "boolean", "description": description}


def _moment(what: str) -> Schema:
    return _string(f"When {what}", read_only=True)


IMAGE: Schema = {
    "id": _string("Identifier of the image", pattern=_UUID),
    "name": _string("Name of the image", null=True, maxLength=255),
    "status": _string("Status of the image", read_only=True, enum=list(STATUSES)),
    "visibility": _string("Who can see the image", enum=list(VISIBILITIES)),
    "protected": _boolean("If true, the image cannot be deleted"),
    "os_hidden": _boolean("If true, the image is on no list that does not ask for hidden ones"),
    "checksum": _string("MD5 sum of the bytes", null=True, read_only=True, maxLength=32),
    "os_hash_algo": _string("Algorithm of os_hash_value", null=True, read_only=True, maxLength=64),
    "os_hash_value": _string("Hash of the bytes, hexadecimal", null=True, read_only=True, maxLength=128),
    "owner": _string("Project that owns the image", null=True, maxLength=255),
    "size": _integer("Number of bytes", null=True, read_only=True),
    "virtual_size": _integer("Bytes of the disk that the image holds", null=True, read_only=True),
    "container_format": _string("Format of the container", null=True, enum=[None, *CONTAINER_FORMATS]),
    "disk_format": _string("Format of the disk", null=True, enum=[None, *DISK_FORMATS]),
    "created_at": _moment("the image was made"),
    "updated_at": _moment("the image was last changed"),
    "tags": {
        "type": "array",
        "description": "Words that the image is found by",
        "items": {"type": "string", "maxLength": 255},
    },
    "direct_url": _string("Where a store has the bytes", read_only=True),
    "min_ram": _integer("Memory that a server needs to boot it, in MB"),
    "min_disk": _integer("Disk that a server needs to boot it, in GB"),
    "self": _string("Address of the image", read_only=True),
    "file": _string("Address of the image's bytes", read_only=True),
    "stores": _string("Stores that have the bytes, separated by commas", read_only=True),
    "schema": _string("Address of this schema", read_only=True),
    "locations": {
        "type": "array",
        "description": "Where stores have the bytes",
        "items": {
            "type": "object",
            "properties": {"url": {"type": "string", "maxLength": 255}, "metadata": {"type": "object"}},
            "required": ["url", "metadata"],
        },
    },
}

MEMBER: Schema = {
    "member_id": _string("Project that the image is shared with"),
    "image_id": _string("Identifier of the image", pattern=_UUID),
    "created_at": _string("When the image was shared"),
    "updated_at": _string("When the member last answered"),
    "status": _string("What the member answered", enum=["pending", "accepted", "rejected"]),
    "schema": _string(read_only=True),
}

TASK: Schema = {
    "id": _string("Identifier of the task", pattern=_UUID),
    "type": _string("What the task does", enum=["import", "api_image_import", "location_import"]),
    "status": _string("How far the task is", enum=["pending", "processing", "success", "failure"]),
    "input": {"type": ["null", "object"], "description": "What was asked for"},
    "result": {"type": ["null", "object"], "description": "What came of it"},
    "owner": _string("Project that asked for it"),
    "message": _string("Why it failed"),
    "image_id": _string("Image that it is about"),
    "request_id": _string("Request that asked for it"),
    "user_id": _string("User who asked for it"),
    "expires_at": _string("When the task is forgotten", null=True),
    "created_at": _string("When it began"),
    "updated_at": _string("When it last changed"),
    "self": _string(read_only=True),
    "schema": _string(read_only=True),
}
_IN_FULL_ONLY = ("input", "result", "message")

# --- metadata definitions ---

_TYPES = ["array", "boolean", "integer", "number", "object", "string", None]
_STRINGS: Schema = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
_NATURAL: Schema = {"$ref": "#/definitions/positiveInteger"}
_NATURAL_OR_0: Schema = {"$ref": "#/definitions/positiveIntegerDefault0"}

PROPERTY: Schema = {
    "name": {"type": "string", "maxLength": 80},
    "title": {"type": "string"},
    "description": {"type": "string"},
    "operators": {"type": "array", "items": {"type": "string"}},
    "type": {"type": "string", "enum": _TYPES},
    "required": {"$ref": "#/definitions/stringArray"},
    "minimum": {"type": "number"},
    "maximum": {"type": "number"},
    "maxLength": _NATURAL,
    "minLength": _NATURAL_OR_0,
    "pattern": {"type": "string", "format": "regex"},
    "enum": {"type": "array"},
    "readonly": {"type": "boolean"},
    "default": {},
    "items": {
        "type": "object",
        "properties": {"type": {"type": "string", "enum": _TYPES}, "enum": {"type": "array"}},
    },
    "maxItems": _NATURAL,
    "minItems": _NATURAL_OR_0,
    "uniqueItems": {"type": "boolean", "default": False},
    "additionalItems": {"type": "boolean"},
}
_NUMBERS: Schema = {
    "positiveInteger": {"type": "integer", "minimum": 0},
    "positiveIntegerDefault0": {"allOf": [{"$ref": "#/definitions/positiveInteger"}, {"default": 0}]},
    "stringArray": _STRINGS,
}
_DEFINITIONS: Schema = {
    **_NUMBERS,
    "property": {
        "type": "object",
        "additionalProperties": {"type": "object", "required": ["title", "type"], "properties": PROPERTY},
    },
}
_PROPERTIES: Schema = {"$ref": "#/definitions/property"}


def _dates(what: str) -> Schema:
    return {
        "created_at": _string(f"When the {what} was made", read_only=True, format="date-time"),
        "updated_at": _string(f"When the {what} was last changed", read_only=True, format="date-time"),
    }


OBJECT: Schema = {
    "name": {"type": "string", "maxLength": 80},
    "description": {"type": "string"},
    "required": {"$ref": "#/definitions/stringArray"},
    "properties": _PROPERTIES,
    "schema": _string(read_only=True),
    "self": _string(read_only=True),
    **_dates("object"),
}
TAG: Schema = {"name": {"type": "string", "maxLength": 80}, **_dates("tag")}
ASSOCIATION: Schema = {
    "name": _string("Type of resource that the definitions are for", maxLength=80),
    "prefix": _string("What the names of the properties begin with on such resources", maxLength=80),
    "properties_target": _string(
        "Which of the resource's sets of properties is meant, if there are several", maxLength=80
    ),
    **_dates("association"),
}
NAMESPACE: Schema = {
    "namespace": _string("Unique name of the namespace", maxLength=80),
    "display_name": _string("Name of the namespace, for people", maxLength=80),
    "description": _string("What the namespace is for", maxLength=500),
    "visibility": _string("Who can see the namespace", enum=["public", "private"]),
    "protected": _boolean("If true, the namespace cannot be deleted"),
    "owner": _string("Project that owns the namespace", maxLength=255),
    "schema": _string(read_only=True),
    "self": _string(read_only=True),
    "resource_type_associations": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {name: {"type": "string"} for name in ("name", "prefix", "properties_target")},
        },
    },
    "properties": _PROPERTIES,
    "objects": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {name: OBJECT[name] for name in ("name", "description", "required", "properties")},
        },
    },
    "tags": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
    **_dates("namespace"),
}


def _closed(name: str, properties: Schema, required: list[str], definitions: Schema | None = None) -> Schema:
    found: Schema = {
        "name": name,
        "properties": properties,
        "additionalProperties": False,
        "required": required,
    }
    return found if definitions is None else {**found, "definitions": definitions}


def _collection(name: str, item: Schema, *, paged: bool = True, by_name: bool = False) -> Schema:
    item = {key: value for key, value in item.items() if key != "definitions"}
    held: Schema = (
        {"type": "object", "additionalProperties": item} if by_name else {"type": "array", "items": item}
    )
    links = ("first", "next") if paged else ()
    return {
        "name": name,
        "properties": {name: held, **{link: {"type": "string"} for link in (*links, "schema")}},
        "links": [
            *({"rel": link, "href": f"{{{link}}}"} for link in links),
            {"rel": "describedby", "href": "{schema}"},
        ],
    }


_LINKS = [
    {"rel": "self", "href": "{self}"},
    {"rel": "enclosure", "href": "{file}"},
    {"rel": "describedby", "href": "{schema}"},
]
_IMAGE: Schema = {
    "name": "image",
    "properties": IMAGE,
    "additionalProperties": {"type": "string"},
    "links": _LINKS,
}
_MEMBER: Schema = {"name": "member", "properties": MEMBER}
_TASK: Schema = {"name": "task", "properties": TASK}
_STUB: Schema = {
    "name": "task",
    "properties": {name: value for name, value in TASK.items() if name not in _IN_FULL_ONLY},
}
_NAMESPACE = _closed("namespace", NAMESPACE, ["namespace"], _DEFINITIONS)
_OBJECT = _closed("object", OBJECT, ["name"], _DEFINITIONS)
_PROPERTY = _closed("property", PROPERTY, ["type", "title", "name"], _NUMBERS)
_TAG = _closed("tag", TAG, ["name"])
_ASSOCIATION = _closed("resource_type_association", ASSOCIATION, ["name"])

#: Path below /v2/schemas → the schema that is served there.
SCHEMAS: dict[str, Schema] = {
    "image": _IMAGE,
    "images": _collection("images", _IMAGE),
    "member": _MEMBER,
    "members": _collection("members", _MEMBER, paged=False),
    "task": _TASK,
    "tasks": _collection("tasks", _STUB, paged=False),
    "metadefs/namespace": _NAMESPACE,
    "metadefs/namespaces": {**_collection("namespaces", _NAMESPACE), "definitions": _DEFINITIONS},
    "metadefs/object": _OBJECT,
    "metadefs/objects": {**_collection("objects", _OBJECT), "definitions": _DEFINITIONS},
    "metadefs/property": _PROPERTY,
    "metadefs/properties": {
        **_collection("properties", {**_PROPERTY, "required": ["type", "title"]}, by_name=True),
        "definitions": _NUMBERS,
    },
    "metadefs/tag": _TAG,
    "metadefs/tags": _collection("tags", _TAG),
    "metadefs/resource_type": _ASSOCIATION,
    "metadefs/resource_types": _collection("resource_type_associations", _ASSOCIATION),
}
