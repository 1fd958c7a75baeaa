"""Reads an address on the web, for the image store.

The connection goes to an address that was looked at, not to a name that may stand for another one a moment
later, and what a redirect points to is looked at in the same way. No proxy is asked: it would connect to
whatever it likes.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from urllib.parse import urljoin

import httptools
import msgspec

from cumulet.drivers.base import Failed
from cumulet.wire import weburl

#: Redirects that are followed.
REDIRECTS = 5
#: Seconds until a connection must be there, and in which something must come.
CONNECT_TIME = 30.0
IDLE = 60.0
#: Bytes that are read at once, and bytes of a head at the most.
PIECE = 1 << 18
HEAD = 1 << 16


class Rules(msgspec.Struct, frozen=True):
    """What may be read, and for how long."""

    #: Addresses that are not public may be read, and any port.
    private: bool = False
    #: Seconds that all of it may take.
    seconds: float = 3600.0


class _Answer:
    """An HTTP answer that is being parsed."""

    def __init__(self) -> None:
        self.parser = httptools.HttpResponseParser(self)
        self.headers: dict[str, str] = {}
        self.pieces: list[bytes] = []
        self.headed = False
        self.whole = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self.headed = True

    def on_body(self, body: bytes) -> None:
        self.pieces.append(body)

    def on_message_complete(self) -> None:
        self.whole = True

    @property
    def status(self) -> int:
        return int(self.parser.get_status_code())

    @property
    def bounded(self) -> bool:
        """True if it is known where the body ends; else the end of the connection ends it."""
        return "content-length" in self.headers or "transfer-encoding" in self.headers


async def fetch(text: str, rules: Rules) -> AsyncIterator[bytes]:
    """The bytes at an address, in pieces. Raises Failed, saying why there are none or no more."""
    until = asyncio.get_running_loop().time() + rules.seconds
    for _ in range(REDIRECTS + 1):
        url = _parse(text, rules)
        async with contextlib.aclosing(_get(url, rules, until)) as pieces:
            first = await anext(pieces)
            if isinstance(first, bytes):
                yield first
                async for piece in pieces:
                    assert isinstance(piece, bytes)
                    yield piece
                return
        text = urljoin(text, first.location)
        if url.scheme == "https" and not text.startswith("https:"):
            raise _failed("it is redirected from a protected address to an open one")
    raise _failed("it is redirected too often")


class _Redirect(msgspec.Struct, frozen=True):
    location: str


def _failed(why: str) -> Failed:
    return Failed(f"the image cannot be downloaded: {why}", fatal=True, cause="download")


def _parse(text: str, rules: Rules) -> weburl.Url:
    try:
        return weburl.parse(text, private=rules.private)
    except ValueError as error:
        raise _failed(f"{text[:200]} may not be read: {error}") from None


async def _get(url: weburl.Url, rules: Rules, until: float) -> AsyncGenerator[bytes | _Redirect, None]:
    """One request: the pieces of the body, b"" at least, or where the body is instead."""
    reader, writer = await _connect(url, await _resolve(url, rules))
    try:
        writer.write(
            f"GET {url.target} HTTP/1.1\r\nHost: {url.authority}\r\nUser-Agent: cumulet\r\n"
            "Accept: */*\r\nAccept-Encoding: identity\r\nConnection: close\r\n\r\n".encode("ascii")
        )
        answer = _Answer()
        await _head(reader, answer, until)
        if answer.status in (301, 302, 303, 307, 308):
            yield _Redirect(answer.headers.get("location", ""))
            return
        if answer.status != 200:
            raise _failed(f"{url.host} answers {answer.status}")
        if answer.headers.get("content-encoding", "identity").lower() != "identity":
            raise _failed(f"{url.host} sends it encoded, though it was not asked to")
        yield b""
        async for piece in _body(reader, answer, until):
            yield piece
    except (OSError, httptools.HttpParserError) as error:
        raise _failed(f"{url.host}: {error}") from None
    finally:
        writer.transport.abort()


async def _resolve(url: weburl.Url, rules: Rules) -> str:
    """An address of the host that may be connected to. Raises Failed."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(url.host, url.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise _failed(f"{url.host} is not known: {getattr(error, 'strerror', None) or error}") from None
    addresses = [str(entry[4][0]) for entry in found]
    if not rules.private:
        addresses = [address for address in addresses if weburl.public(address.split("%", 1)[0])]
    if not addresses:
        raise _failed(f"{url.host} has no public address")
    return addresses[0]


async def _connect(url: weburl.Url, address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    tls = ssl.create_default_context() if url.scheme == "https" else None
    try:
        async with asyncio.timeout(CONNECT_TIME):
            return await asyncio.open_connection(
                address, url.port, ssl=tls, server_hostname=url.host if tls else None, limit=PIECE
            )
    except TimeoutError:
        raise _failed(f"{url.host} does not answer") from None
    except (OSError, ssl.SSLError) as error:
        raise _failed(f"{url.host} cannot be reached: {error}") from None


async def _read(reader: asyncio.StreamReader, until: float) -> bytes:
    left = until - asyncio.get_running_loop().time()
    try:
        async with asyncio.timeout(min(IDLE, left)):
            return await reader.read(PIECE)
    except TimeoutError:
        raise _failed(
            f"nothing came for {IDLE:.0f} seconds" if left > IDLE else "it takes longer than it may"
        ) from None


async def _head(reader: asyncio.StreamReader, answer: _Answer, until: float) -> None:
    size = 0
    while not answer.headed:
        data = await _read(reader, until)
        size += len(data)
        if not data or size > HEAD + PIECE:
            raise _failed("the answer has no end of its head")
        answer.parser.feed_data(data)
    if 100 <= answer.status < 200:
        raise _failed(f"the answer has the status {answer.status}")


async def _body(reader: asyncio.StreamReader, answer: _Answer, until: float) -> AsyncIterator[bytes]:
    while True:
        for piece in answer.pieces:
            yield piece
        answer.pieces.clear()
        if answer.whole:
            return
        data = await _read(reader, until)
        if not data:
            if answer.bounded:
                raise _failed("the answer broke off")
            return
        answer.parser.feed_data(data)
