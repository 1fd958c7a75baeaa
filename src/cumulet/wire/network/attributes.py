"""Bodies of the Network API: per resource a table of attributes, which says what may be sent.

    NAME = Attribute(post=True, put=True, default="", check=checks.name(255))

``decode`` checks a body against the table and gives back what was sent, with defaults. The order of the
checks, their wording and the names of the errors are Neutron's (api/v2/base.py, prepare_request_body), for
clients show them and match on them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from cumulet.errors import Invalid

#: The attribute must be sent.
REQUIRED: Final = object()
#: The attribute is left out where it was not sent; there is no default, and null is something else.
ABSENT: Final = object()

#: Resources in one request.
BULK_LIMIT = 1000


class Attribute(msgspec.Struct, frozen=True):
    """What may be sent for one attribute."""

    post: bool = False
    put: bool = False
    default: Any = REQUIRED
    #: Applied first. Raises Invalid.
    convert: Callable[[Any], Any] | None = None
    #: Returns what is wrong, or None.
    check: Callable[[Any], str | None] | None = None


Table = Mapping[str, Attribute]

#: Attributes that nobody can send.
READ_ONLY = Attribute()


#: Values with defaults, and the names of what was sent, other than the default.
Decoded = tuple[dict[str, Any], frozenset[str]]


def decode_create(document: Any, one: str, many: str, table: Table) -> tuple[list[Decoded], bool]:
    """The resources of a POST body, and whether it was a list of them. Raises Invalid."""
    if not isinstance(document, dict) or not document:
        raise Invalid("Resource body required")
    if many in document and many != one:
        found = document[many]
        if not isinstance(found, list) or not found:
            raise Invalid("Resources required")
        if len(found) > BULK_LIMIT:
            raise Invalid(f"{len(found)} resources in one request; at most {BULK_LIMIT} are taken.")
        inner = [item[one] if isinstance(item, dict) and one in item else item for item in found]
        return [_create(item, one, table) for item in inner], True
    return [_create(_inner(document, one), one, table)], False


def decode_update(document: Any, one: str, table: Table) -> Decoded:
    """The changes of a PUT body. Raises Invalid."""
    if not isinstance(document, dict) or not document:
        raise Invalid("Resource body required")
    sent = _project(_inner(document, one))
    _known(sent, table)
    for name in sent:
        if not table[name].put:
            raise Invalid(f"Cannot update read-only attribute {name}")
    return _checked(sent, table), frozenset(sent)


def _inner(document: dict[str, Any], one: str) -> dict[str, Any]:
    if document.get(one) is None:
        raise Invalid(f"Unable to find '{one}' in request body")
    inner = document[one]
    if not isinstance(inner, dict):
        raise Invalid(f"Object '{one}' contains invalid data")
    return inner


def _create(sent: Any, one: str, table: Table) -> Decoded:
    if not isinstance(sent, dict):
        raise Invalid(f"Object '{one}' contains invalid data")
    sent = _project(sent)
    _known(sent, table)
    values: dict[str, Any] = {}
    given = set()
    for name, attribute in table.items():
        if not attribute.post:
            if name in sent:
                raise Invalid(f"Attribute '{name}' not allowed in POST")
        elif name in sent:
            values[name] = sent[name]
            if sent[name] != attribute.default:
                given.add(name)
        elif attribute.default is REQUIRED:
            raise Invalid(f"Failed to parse request. Required attribute '{name}' not specified")
        elif attribute.default is not ABSENT:
            values[name] = attribute.default
    return _checked(values, table), frozenset(given)


def _project(sent: dict[str, Any]) -> dict[str, Any]:
    """``tenant_id`` is the old name of ``project_id``; both may be sent if they agree."""
    if "tenant_id" not in sent:
        return sent
    if sent.get("project_id", sent["tenant_id"]) != sent["tenant_id"]:
        raise Invalid("'project_id' and 'tenant_id' do not match")
    rest = {name: value for name, value in sent.items() if name != "tenant_id"}
    return {**rest, "project_id": sent["tenant_id"]}


def _known(sent: dict[str, Any], table: Table) -> None:
    unknown = [str(name) for name in sent if name not in table]
    if unknown:
        raise Invalid(f"Unrecognized attribute(s) '{', '.join(sorted(unknown))[:500]}'")


def _checked(values: dict[str, Any], table: Table) -> dict[str, Any]:
    for name, value in values.items():
        attribute = table[name]
        if value is attribute.default and not isinstance(value, list | dict):
            continue
        if attribute.convert is not None:
            value = values[name] = _converted(name, attribute.convert, value)
        wrong = attribute.check(value) if attribute.check is not None else None
        if wrong:
            raise Invalid(f"Invalid input for {name}. Reason: {wrong}.")
    return dict(values)


def _converted(name: str, convert: Callable[[Any], Any], value: Any) -> Any:
    try:
        return convert(value)
    except Invalid as error:
        # Neutron's words do not say which attribute it is.
        start, operation, rest = error.message.partition("Invalid input for operation: ")
        raise Invalid(
            f"{start}{operation}{name}: {rest}" if operation else error.message, code=error.code
        ) from None
