"""What the image store connects to when users say where an image is."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from cumulet.drivers.base import Failed
from cumulet.drivers.download import Rules, fetch
from cumulet.wire import weburl

pytestmark = pytest.mark.anyio

NAMES = {
    "public.example.org": "93.184.216.34",
    "inside.example.org": "10.0.0.1",
    "both.example.org": "10.0.0.1",
}


class Web:
    """A web in which every connection ends at one server; notes what was connected to."""

    def __init__(self, patch: pytest.MonkeyPatch, pages: dict[str, bytes]) -> None:
        self.pages = pages
        self.connected: list[str] = []
        self.asked: list[str] = []
        self._open = asyncio.open_connection
        self._port = 0
        loop = asyncio.get_running_loop()
        patch.setattr(loop, "getaddrinfo", self._resolve)
        patch.setattr(asyncio, "open_connection", self._connect)

    async def _resolve(self, host: str, port: int, **more: Any) -> list[Any]:
        return [(2, 1, 6, "", (NAMES.get(host, host), port))]

    async def _connect(self, host: str, port: int, **more: Any) -> Any:
        self.connected.append(host)
        return await self._open("127.0.0.1", self._port)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.asked.append(head)
        with contextlib.suppress(ConnectionError):
            writer.write(self.pages[head.split()[1]])
            await writer.drain()
        writer.close()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Web]:
        # The server is made without a look-up, which is patched by now.
        server = await asyncio.get_running_loop().create_server(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader(), self._serve), "127.0.0.1", 0
        )
        async with server:
            self._port = server.sockets[0].getsockname()[1]
            yield self


async def all_of(url: str) -> bytes:
    return b"".join([piece async for piece in fetch(url, Rules())])


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"


def to(location: str) -> bytes:
    return f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode()


async def test_it_connects_to_the_address_that_was_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Web(monkeypatch, {"/x?a=b": OK}).running() as web:
        assert await all_of("http://public.example.org/x?a=b#part") == b"abc"
        assert web.connected == ["93.184.216.34"]
        assert "Host: public.example.org\r\n" in web.asked[0]


@pytest.mark.parametrize(
    "location",
    [
        "http://inside.example.org/y",
        "http://127.0.0.1/y",
        "http://[::1]/y",
        "http://169.254.169.254/latest/meta-data",
        "http://public.example.org:8080/y",
        "file:///etc/passwd",
        "//inside.example.org/y",
        "",
    ],
)
async def test_a_redirect_is_looked_at_again(monkeypatch: pytest.MonkeyPatch, location: str) -> None:
    async with Web(monkeypatch, {"/x": to(location), "/y": OK}).running() as web:
        with pytest.raises(Failed) as caught:
            await all_of("http://public.example.org/x")
        assert caught.value.cause == "download"
        assert set(web.connected) == {"93.184.216.34"}


async def test_a_redirect_to_a_public_address_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Web(monkeypatch, {"/x": to("y"), "/y": OK}).running():
        assert await all_of("http://public.example.org/x") == b"abc"


async def test_a_download_may_take_so_long_only(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Web(monkeypatch, {"/x": b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\na"}).running():
        with pytest.raises(Failed, match="takes longer"):
            async for _ in fetch("http://public.example.org/x", Rules(seconds=0.0)):
                pass


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.216.34", True),
        ("2606:2800:220:1::1", True),
        ("127.0.0.1", False),
        ("10.1.1.1", False),
        ("172.16.0.1", False),
        ("192.168.0.1", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("0.0.0.0", False),
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("::1", False),
        ("::", False),
        ("fe80::1", False),
        ("fd00::1", False),
        ("ff02::1", False),
        ("::ffff:10.0.0.1", False),
        ("64:ff9b::a00:1", False),
        ("2002:a00:1::", False),
        ("2002:7f00:1::", False),
    ],
)
def test_public_addresses(address: str, public: bool) -> None:
    assert weburl.public(address) is public
