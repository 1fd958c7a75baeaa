"""One HTTP request and its answer, as handlers see them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl

import msgspec

from cumulet.api.microversion import Version
from cumulet.errors import Invalid, TooLarge
from cumulet.values import Caller
from cumulet.wire.body import decode

if TYPE_CHECKING:
    from cumulet.api.asgi import Route
    from cumulet.api.cloud import Cloud

T = TypeVar("T")
Receive = Callable[[], Awaitable[Mapping[str, Any]]]

#: A body that is not a stream is refused above this; user data and personality fit well below.
BODY_LIMIT = 1 << 20
#: Parameters of a query at the most.
QUERY_LIMIT = 200
_PLAIN = re.compile(r"[\w.:,=&-]*\Z", re.ASCII)
ANONYMOUS = Caller(user_id="")


class ClientGone(Exception):
    """The client hung up before its body was whole."""


@dataclass
class Request:
    """What a handler gets."""

    cloud: Cloud
    method: str
    path: str
    headers: Mapping[str, str]
    query_string: str
    id: str
    #: "http://127.0.0.1:5000": the address that the client used.
    base: str
    receive: Receive
    peer: str = ""
    version: Version = (1, 0)
    params: Mapping[str, str] = field(default_factory=dict)
    caller: Caller = ANONYMOUS
    route: Route | None = None
    #: The body of a server, volume, … action: what stands behind its name.
    action: Any = None
    _body: bytes | None = None
    _query: list[tuple[str, str]] | None = None
    _ended: bool = False

    async def body(self, limit: int = BODY_LIMIT) -> bytes:
        """The whole body. Raises TooLarge above ``limit`` bytes."""
        if self._body is None:
            parts: list[bytes] = []
            size = 0
            async for part in self.stream():
                size += len(part)
                if size > limit:
                    raise TooLarge(f"The request's body is larger than {limit} bytes.")
                parts.append(part)
            self._body = b"".join(parts)
        return self._body

    async def stream(self) -> AsyncIterator[bytes]:
        """The body in pieces as they arrive. Raises ClientGone."""
        while not self._ended:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            self._ended = not message.get("more_body", False)
            if message.get("body"):
                yield message["body"]

    async def gone(self) -> None:
        """Return once the client has hung up; for handlers that wait."""
        while True:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                return

    async def raw(self) -> Any:
        """The body as JSON: dicts, lists, text, numbers. Raises Invalid if it is none."""
        body = await self.body()
        if not body:
            raise Invalid("The request has no body; a JSON document was expected.")
        try:
            raw = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Invalid(f"Malformed request body: {error}") from None
        # PostgreSQL stores no NUL in text. Escaped is the only way in which JSON can have one.
        if b"\\u0000" in body and _has_nul(raw):
            raise Invalid("Malformed request body: a text holds the character U+0000.")
        if _LARGE.search(body):
            _check_numbers(raw, "")
        return raw

    async def document(self) -> dict[str, Any]:
        """The body as a JSON object. Raises Invalid."""
        raw = await self.raw()
        if not isinstance(raw, dict):
            raise Invalid("Malformed request body: a JSON object was expected.")
        return raw

    async def struct(self, shape: type[T]) -> T:
        """The body as ``shape`` at the request's version. Raises Invalid, naming the field."""
        return decode(await self.raw(), shape, self.version)

    def action_as(self, shape: type[T]) -> T:
        """What stands behind the action's name as ``shape``. Raises Invalid, naming the field."""
        return decode(self.action, shape, self.version, whole=self.route.action if self.route else "body")

    @property
    def query(self) -> list[tuple[str, str]]:
        """The query string as pairs, in order, percent-decoded."""
        if self._query is None:
            text = self.query_string
            if text.count("&") < QUERY_LIMIT and _PLAIN.match(text):
                # Nothing is encoded, as in what agents ask all the time.
                parts = [part.partition("=") for part in text.split("&") if part]
                self._query = [(name, value) for name, _, value in parts]
                return self._query
            try:
                self._query = parse_qsl(
                    self.query_string, keep_blank_values=True, max_num_fields=QUERY_LIMIT, errors="strict"
                )
            except ValueError as error:
                raise Invalid(f"Malformed query string: {error}") from None
            if any("\0" in text for pair in self._query for text in pair):
                raise Invalid("Malformed query string: it holds the character U+0000.")
        return self._query

    def arg(self, name: str, default: str | None = None) -> str | None:
        """The last value of a query parameter."""
        for key, value in reversed(self.query):
            if key == name:
                return value
        return default

    def args(self, name: str) -> list[str]:
        """All values of a query parameter."""
        return [value for key, value in self.query if key == name]

    def flag(self, name: str, default: bool = False) -> bool:
        """A query parameter as true or false. Raises Invalid for anything else."""
        value = self.arg(name)
        if value is None:
            return default
        return boolean(value, name)

    def url(self, path: str) -> str:
        """A link: the address that the client used, and ``path``."""
        return self.base + path


def _has_nul(raw: Any) -> bool:
    if isinstance(raw, str):
        return "\0" in raw
    if isinstance(raw, dict):
        return any(_has_nul(key) or _has_nul(value) for key, value in raw.items())
    return isinstance(raw, list) and any(map(_has_nul, raw))


#: Perhaps a number that the database cannot keep.
_LARGE = re.compile(rb"\d{19}")


def _check_numbers(raw: Any, path: str) -> None:
    """Raise Invalid for a whole number beyond 64 bits: no field of any API is that large."""
    if isinstance(raw, int) and not -(1 << 63) <= raw < 1 << 63:
        raise Invalid(f"Invalid input for field/attribute {path or 'body'}: the number is too large.")
    if isinstance(raw, dict | list):
        for name, value in raw.items() if isinstance(raw, dict) else enumerate(raw):
            _check_numbers(value, f"{path}.{str(name)[:255]}" if path else str(name)[:255])


_TRUE = frozenset({"1", "t", "true", "on", "y", "yes"})
_FALSE = frozenset({"0", "f", "false", "off", "n", "no"})


def boolean(value: object, name: str) -> bool:
    """Text as the services' strict boolean reads it. Raises Invalid, naming the field."""
    word = str(value).strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise Invalid(f"Invalid value for {name}: {value!r} is neither true nor false.")


@dataclass
class Response:
    """What a handler gives back. ``body`` is bytes, or anything that msgspec encodes as JSON; None is no body."""

    status: int = 200
    body: Any = None
    headers: list[tuple[str, str]] = field(default_factory=list)
    #: Instead of a body: pieces, sent as they come.
    stream: AsyncIterator[bytes] | None = None
    media_type: str = "application/json"

    def content(self) -> bytes:
        if self.body is None:
            return b""
        if isinstance(self.body, bytes):
            return self.body
        return msgspec.json.encode(self.body)


def ok(body: Any) -> Response:
    return Response(200, body)


def created(body: Any, *headers: tuple[str, str]) -> Response:
    return Response(201, body, list(headers))


def accepted(body: Any = None, *headers: tuple[str, str]) -> Response:
    return Response(202, body, list(headers))


def no_content() -> Response:
    return Response(204)
