"""JSON patches of images, in both of their media types.

    application/openstack-images-v2.1-json-patch    [{"op": "add", "path": "/name", "value": …}]
    application/openstack-images-v2.0-json-patch    [{"add": "/name", "value": …}]

See the image API reference, "Update image", and "HTTP PATCH media types".
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from cumulet.errors import Invalid, Unsupported
from cumulet.wire import image

#: Media type → whether it is the old form.
MEDIA_TYPES = {
    "application/openstack-images-v2.0-json-patch": True,
    "application/openstack-images-v2.1-json-patch": False,
}
OPERATIONS = ("add", "remove", "replace")
#: Operations of one patch at the most.
CHANGES = 1000


class Change(msgspec.Struct, frozen=True):
    """One operation, checked."""

    op: str
    name: str
    value: Any = None
    #: An add of what is there is refused, as the old form has it.
    once: bool = False


def changes(raw: Any, media_type: str) -> list[Change]:
    """The operations of a patch. Raises Unsupported, Invalid, Forbidden for what is read-only or reserved."""
    old = MEDIA_TYPES.get(media_type.split(";", 1)[0].strip().lower())
    if old is None:
        raise Unsupported(f"Image PATCH expects Content-Type one of: {', '.join(sorted(MEDIA_TYPES))}")
    if not isinstance(raw, list):
        raise Invalid("Request body must be a JSON array of operation objects.")
    if len(raw) > CHANGES:
        raise Invalid(f"There are {len(raw)} operations; at most {CHANGES} are taken.")
    return [_change(one, old) for one in raw]


def _change(raw: Any, old: bool) -> Change:
    if not isinstance(raw, dict):
        raise Invalid("Operations must be JSON objects.")
    op, pointer = _old_form(raw) if old else _new_form(raw)
    if not isinstance(pointer, str):
        raise Invalid("The path of an operation must be a JSON pointer.")
    path = _decode(pointer)
    # "/locations/0" is the only one that goes deeper.
    if len(path) != (2 if path[0] == "locations" and op != "replace" else 1):
        raise Invalid(f"Invalid JSON pointer for this resource: '/{'/'.join(path)}'")
    name = path[0]
    if op != "remove" and "value" not in raw:
        raise Invalid(f'Operation "{op}" requires a member named "value".')
    image.property_name(name)
    value = raw.get("value")
    if op != "remove":
        if name in image.FIELDS:
            value = image.fields({name: value})[name]
        elif name != "locations":
            image.property_value(name, value)
    return Change(op, name, value, old)


def _new_form(raw: dict[str, Any]) -> tuple[str, Any]:
    op = raw.get("op")
    if op not in OPERATIONS:
        raise Invalid(f"Invalid operation: {op!r}. It must be one of the following: {', '.join(OPERATIONS)}.")
    if "path" not in raw:
        raise Invalid("Unable to find 'path' in JSON Schema change")
    return str(op), raw["path"]


def _old_form(raw: dict[str, Any]) -> tuple[str, Any]:
    ops = [op for op in OPERATIONS if op in raw]
    if len(ops) != 1:
        raise Invalid(
            'Operation objects must contain exactly one member named "add", "remove", or "replace".'
        )
    return ops[0], raw[ops[0]]


def _decode(pointer: str) -> list[str]:
    """The parts of a JSON pointer. Raises Invalid."""
    if not pointer.startswith("/"):
        raise Invalid(f'Pointer `{pointer}` does not start with "/".')
    if re.search(r"/\s*?/", pointer[1:]) or (len(pointer) > 1 and pointer.endswith("/")):
        raise Invalid(f"Pointer `{pointer}` has a part that is empty.")
    if re.search(r"~(?![01])", pointer):
        raise Invalid(f'Pointer `{pointer}` contains "~" not part of a recognized escape sequence.')
    return [part.replace("~1", "/").replace("~0", "~").strip() for part in pointer[1:].split("/")]
