"""Bodies of the identity API: one object under the name of its noun, with attributes of the user's own."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec

from cumulet.api.request import Request
from cumulet.errors import Invalid
from cumulet.wire.body import decode, readable

T = TypeVar("T", bound=msgspec.Struct)
#: What is kept of a user's own attributes, as JSON.
OWN_LIMIT = 32 * 1024
#: Shown with every thing, and never set by a body.
_SHOWN = frozenset({"id", "links"})


async def raw(request: Request, noun: str) -> dict[str, Any]:
    """The object under ``noun``, which must be the body's only key. Raises Invalid."""
    document = await request.document()
    found = document.get(noun)
    if not isinstance(found, dict):
        raise Invalid(f"Invalid input for field/attribute {noun}: an object was expected.")
    others = sorted(set(document) - {noun})
    if others:
        raise Invalid(f"Additional properties are not allowed ({others[0]!r} was unexpected).")
    return found


async def read(
    request: Request, noun: str, shape: type[T], *, own: bool = True, strict: bool = False
) -> tuple[T, dict[str, Any]]:
    """The object as ``shape``, and the attributes that the shape does not know.

    ``strict`` where "true" is not taken for true: upstream takes it in some nouns and not in others.
    Raises Invalid, naming the field; also for an id other than the path's.
    """
    found = await raw(request, noun)
    if "id" in found and request.params.get(f"{noun}_id", found["id"]) != found["id"]:
        raise Invalid("Cannot change ID.")
    body = _strictly(found, shape) if strict else decode(found, shape, request.version)
    return body, own_attributes(found, shape) if own else {}


def _strictly(found: dict[str, Any], shape: type[T]) -> T:
    try:
        return msgspec.convert(found, shape)
    except msgspec.ValidationError as error:
        raise Invalid(readable(error)) from None


def own_attributes(found: dict[str, Any], shape: type[msgspec.Struct]) -> dict[str, Any]:
    """What a body has beyond the shape. Raises Invalid if it is too much to keep."""
    known = _SHOWN.union(shape.__struct_encode_fields__)
    own = {re.sub(r"[:-]", "_", key): value for key, value in found.items() if key not in known}
    if own and len(msgspec.json.encode(own)) > OWN_LIMIT:
        raise Invalid(f"The attributes beyond the API's own take more than {OWN_LIMIT} bytes.")
    return own


def changes(value: msgspec.Struct) -> dict[str, Any]:
    """The fields that a body set, by name."""
    return {
        name: field
        for name in value.__struct_fields__
        if (field := getattr(value, name)) is not msgspec.UNSET
    }
