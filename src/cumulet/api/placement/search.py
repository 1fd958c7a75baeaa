"""What query strings ask for: resources, traits, aggregates, trees."""

from __future__ import annotations

import re

from cumulet.api.request import Request
from cumulet.errors import Invalid

#: Codes of the Placement API, which clients match on.
BAD_VALUE = "placement.query.bad_value"
MISSING_VALUE = "placement.query.missing_value"
DUPLICATE_KEY = "placement.query.duplicate_key"

_UUID = re.compile(r"[0-9a-f]{32}\Z")


def uuid(text: str, name: str) -> str:
    """An id in its usual form, from any that is one. Raises Invalid."""
    plain = text.strip().lower().replace("urn:", "").replace("uuid:", "").strip("{}").replace("-", "")
    if not _UUID.match(plain):
        raise Invalid(
            f"Invalid query string parameters: Expected '{name}' parameter to contain valid UUID(s). Got: {text}"
        )
    return f"{plain[:8]}-{plain[8:12]}-{plain[12:16]}-{plain[16:20]}-{plain[20:]}"


def resources(text: str) -> dict[str, int]:
    """``VCPU:2,MEMORY_MB:1024``. Raises Invalid."""
    if not text.strip():
        raise Invalid(
            "Badly formed resources parameter: it is an empty string; expected VCPU:2,MEMORY_MB:1024."
        )
    found: dict[str, int] = {}
    for part in text.split(","):
        name, colon, amount = part.partition(":")
        if not colon or ":" in amount:
            raise Invalid(f"Badly formed resources parameter: {part!r}; expected VCPU:2,MEMORY_MB:1024.")
        try:
            found[name] = int(amount)
        except ValueError:
            raise Invalid(
                f"Requested resource {name} expected positive integer amount. Got: {amount}."
            ) from None
        if not 1 <= found[name] < 1 << 62:
            raise Invalid(f"Requested resource {name} requires amount >= 1. Got: {amount}.")
    return found


def traits(request: Request, name: str = "required") -> tuple[list[frozenset[str]], frozenset[str]]:
    """What a ``required`` parameter asks for and forbids.

    Forbidden ones ("!") since 1.22; alternatives ("in:") and repetition since 1.39, before that the last counts.
    """
    values = request.args(name)
    if request.version < (1, 39):
        values = values[-1:]
    required: list[frozenset[str]] = []
    forbidden: list[str] = []
    for value in values:
        if value.startswith("in:"):
            required.append(_alternatives(request, value))
        else:
            good, bad = flat_traits(value, forbid=request.version >= (1, 22))
            required += [frozenset({one}) for one in good]
            forbidden += bad
    return required, frozenset(forbidden)


def _alternatives(request: Request, value: str) -> frozenset[str]:
    if request.version < (1, 39):
        raise Invalid(
            "Invalid query string parameters: The format 'in:HW_CPU_X86_VMX,CUSTOM_MAGIC' only supported since "
            f"microversion 1.39. Got: {value}"
        )
    found = frozenset(part.strip() for part in value[3:].split(","))
    if "" in found or any(part.startswith("!") for part in found):
        raise Invalid(
            "Invalid query string parameters: alternatives are names of traits, neither empty nor forbidden. "
            f"Got: {value}"
        )
    return found


def flat_traits(value: str, *, forbid: bool) -> tuple[list[str], list[str]]:
    """``HW_CPU_X86_VMX,!CUSTOM_MAGIC`` as the required and the forbidden ones. Raises Invalid."""
    parts = [part.strip() for part in value.split(",")]
    required = [part for part in parts if not part.startswith("!")]
    forbidden = [part.lstrip("!") for part in parts if part.startswith("!")]
    if "" in required or "" in forbidden:
        raise Invalid(
            "Invalid query string parameters: Expected 'required' parameter value of the form: "
            f"HW_CPU_X86_VMX,!CUSTOM_MAGIC. Got an empty trait in: {value}"
        )
    if forbidden and not forbid:
        raise Invalid(
            "Invalid query string parameters: Expected 'required' parameter value of the form: "
            f"HW_CPU_X86_VMX,CUSTOM_MAGIC. Got: {value}"
        )
    return required, forbidden


def member_of(request: Request, suffix: str = "") -> tuple[list[frozenset[str]], frozenset[str]]:
    """The aggregates that are asked for and forbidden: repeated since 1.24, forbidden since 1.32."""
    name = f"member_of{suffix}"
    values = request.args(name)
    if len(values) > 1 and request.version < (1, 24):
        raise Invalid(f"Multiple {name} parameters are not supported before version 1.24.")
    required: list[frozenset[str]] = []
    forbidden: frozenset[str] = frozenset()
    for value in values:
        unwanted = value.startswith("!")
        some = _aggregates(value[1:] if unwanted else value, name)
        if unwanted and request.version < (1, 32):
            raise Invalid(f"Forbidden {name} parameters are not supported before version 1.32.")
        if unwanted:
            forbidden |= some
        else:
            required.append(some)
    return required, forbidden


def _aggregates(value: str, name: str) -> frozenset[str]:
    if value.startswith("in:"):
        return frozenset(uuid(part, name) for part in value[3:].split(","))
    if "," in value:
        raise Invalid(f"Multiple values for '{name}' must be prefixed with 'in:' or '!in:'. Got: {value}")
    return frozenset({uuid(value, name)})
