"""Bodies at a version.

A struct describes the newest shape. A field that is not in every version is annotated::

    locked: Annotated[bool, since(2, 9)]
    tenant_usages: Annotated[int, until(2, 39)]

``decode`` refuses what the request's version does not know, ``encode`` drops it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from cumulet.errors import Invalid

T = TypeVar("T")
Version = tuple[int, int]
FIRST: Version = (0, 0)
LAST: Version = (9999, 0)


class Span(msgspec.Struct, frozen=True):
    """The versions in which a field exists, both ends included."""

    first: Version = FIRST
    last: Version = LAST


def since(major: int, minor: int) -> Span:
    return Span(first=(major, minor))


def until(major: int, minor: int) -> Span:
    return Span(last=(major, minor))


def between(first: Version, last: Version) -> Span:
    return Span(first=first, last=last)


class _Field(msgspec.Struct, frozen=True):
    name: str
    span: Span
    shape: Any


@lru_cache(maxsize=512)
def _fields(shape: type[msgspec.Struct]) -> tuple[_Field, ...]:
    hints = get_type_hints(shape, include_extras=True)
    found = []
    for field in msgspec.structs.fields(shape):
        hint = hints[field.name]
        span = next((item for item in getattr(hint, "__metadata__", ()) if isinstance(item, Span)), Span())
        found.append(_Field(field.encode_name, span, hint))
    return tuple(found)


@lru_cache(maxsize=1024)
def _structs(shape: Any) -> tuple[str, Any]:
    """How structs are found inside a field's type: ("one"|"many"|"named"|"", struct)."""
    while get_origin(shape) is Annotated:
        shape = get_args(shape)[0]
    if isinstance(shape, type) and issubclass(shape, msgspec.Struct):
        return "one", shape
    origin, args = get_origin(shape), get_args(shape)
    if origin in (list, tuple) and args:
        how, inner = _structs(args[0])
        return ("many", inner) if how == "one" else ("", None)
    if origin is dict:
        how, inner = _structs(args[1])
        return ("named", inner) if how == "one" else ("", None)
    for arg in args:
        how, inner = _structs(arg)
        if how:
            return how, inner
    return "", None


@lru_cache(maxsize=512)
def _versioned(shape: type[msgspec.Struct]) -> bool:
    """True if anything in the struct depends on the version."""
    return any(
        field.span != Span() or (inner[1] is not None and _versioned(inner[1]))
        for field in _fields(shape)
        for inner in (_structs(field.shape),)
    )


def decode(raw: Any, shape: type[T], version: Version, *, whole: str = "body") -> T:
    """``raw`` (decoded JSON) as ``shape``.

    Raises Invalid that names the field: unknown at this version, missing, or of the wrong form; ``whole`` is the
    name of all of it.
    """
    if isinstance(shape, type) and issubclass(shape, msgspec.Struct) and _versioned(shape):
        _refuse_unknown(raw, shape, version, "")
    try:
        return msgspec.convert(raw, shape, strict=False)
    except msgspec.ValidationError as error:
        raise Invalid(readable(error, whole, _key_of(raw, shape, str(error)))) from None


def _key_of(raw: Any, shape: Any, message: str) -> str:
    """The name in an object of any names whose value is wrong, for the error does not say it; "..." if not found."""
    match = _AT.search(message)
    before, any_name, _ = match[1].partition("[...]") if match else ("", "", "")
    steps = [step for step in re.split(r"[.\[\]]", before) if step]
    if not any_name or any(step == "..." for step in steps):
        return "..."
    at = raw
    try:
        for step in steps:
            at = at[int(step) if isinstance(at, list) else step]
    except (KeyError, IndexError, ValueError, TypeError):
        return "..."
    for key in list(at)[:200] if isinstance(at, dict) else []:
        try:
            msgspec.convert(_put(raw, steps, {key: at[key]}), shape, strict=False)
        except msgspec.ValidationError as error:
            if str(error) == message:
                return str(key)
    return "..."


def _put(raw: Any, steps: list[str], value: Any) -> Any:
    """The same with another value at the end of the steps."""
    if not steps:
        return value
    if isinstance(raw, list):
        return [_put(item, steps[1:], value) if str(i) == steps[0] else item for i, item in enumerate(raw)]
    return {**raw, steps[0]: _put(raw[steps[0]], steps[1:], value)}


def _refuse_unknown(raw: Any, shape: type[msgspec.Struct], version: Version, path: str) -> None:
    if not isinstance(raw, dict):
        return
    for field in _fields(shape):
        if field.name not in raw:
            continue
        here = f"{path}.{field.name}" if path else field.name
        if not field.span.first <= version <= field.span.last:
            raise Invalid(
                f"Invalid input for field/attribute {here}: Additional properties are not allowed "
                f"({field.name!r} was unexpected at version {version[0]}.{version[1]})"
            )
        how, inner = _structs(field.shape)
        value = raw[field.name]
        if how == "one":
            _refuse_unknown(value, inner, version, here)
        elif how == "many" and isinstance(value, list):
            for i, item in enumerate(value):
                _refuse_unknown(item, inner, version, f"{here}.{i}")
        elif how == "named" and isinstance(value, dict):
            for name, item in value.items():
                _refuse_unknown(item, inner, version, f"{here}.{name}")


_AT = re.compile(r" - at `\$\.?(.*)`\Z")


def readable(error: msgspec.ValidationError, whole: str = "body", key: str = "...") -> str:
    """A validation error in the words that the services use: the field first, then what is wrong."""
    message = str(error)
    match = _AT.search(message)
    where = ""
    if match:
        where = match[1].replace("[...]", f".{key[:255]}", 1).replace("[", ".").replace("]", "").lstrip(".")
        message = message[: match.start()]
    return f"Invalid input for field/attribute {where or whole}: {message}"


def encode(value: msgspec.Struct, version: Version) -> dict[str, Any]:
    """A struct as plain data at a version: what the version does not know is left out."""
    shape = type(value)
    raw: dict[str, Any] = msgspec.to_builtins(value)
    if _versioned(shape):
        _drop_unknown(raw, shape, version)
    return raw


def _drop_unknown(raw: dict[str, Any], shape: type[msgspec.Struct], version: Version) -> None:
    for name in _absent(shape, version):
        raw.pop(name, None)
    for name, how, inner in _nested(shape):
        value = raw.get(name)
        if value is None:
            continue
        if how == "one":
            _drop_unknown(value, inner, version)
        elif how == "many":
            for item in value:
                _drop_unknown(item, inner, version)
        else:
            for item in value.values():
                _drop_unknown(item, inner, version)


@lru_cache(maxsize=4096)
def _absent(shape: type[msgspec.Struct], version: Version) -> tuple[str, ...]:
    return tuple(f.name for f in _fields(shape) if not f.span.first <= version <= f.span.last)


@lru_cache(maxsize=512)
def _nested(shape: type[msgspec.Struct]) -> tuple[tuple[str, str, Any], ...]:
    found = ((f.name, *_structs(f.shape)) for f in _fields(shape))
    return tuple((name, how, inner) for name, how, inner in found if how and _versioned(inner))


def unset(value: msgspec.Struct, version: Version) -> None:
    """Leave out what the version does not know, in place: ``encode`` for many structs whose fields can be UNSET.

    Structs inside are not looked at. The value is then encoded as it is.
    """
    for name in _absent_attributes(type(value), version):
        setattr(value, name, msgspec.UNSET)


@lru_cache(maxsize=4096)
def _absent_attributes(shape: type[msgspec.Struct], version: Version) -> tuple[str, ...]:
    absent = set(_absent(shape, version))
    return tuple(f.name for f in msgspec.structs.fields(shape) if f.encode_name in absent)
