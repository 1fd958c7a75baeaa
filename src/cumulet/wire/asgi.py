"""An HTTP transport that calls an ASGI application in the same process.

It goes through the application's whole stack, as a socket would, and it streams both ways: httpx's own
keeps the whole answer in memory, which images do not allow.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx2

Application = Callable[[Any, Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]]

#: Pieces of an answer that may wait for their reader.
QUEUE = 8


class _Body(httpx2.AsyncByteStream):
    def __init__(self, pieces: asyncio.Queue[bytes | None], task: asyncio.Task[None]) -> None:
        self._pieces = pieces
        self._task = task

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            piece = await self._pieces.get()
            if piece is None:
                break
            yield piece
        if self._task.done() and not self._task.cancelled() and self._task.exception() is not None:
            raise httpx2.ReadError("the answer broke off") from self._task.exception()

    async def aclose(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])


class InProcess(httpx2.AsyncBaseTransport):
    """``httpx2.AsyncClient(transport=InProcess(app), base_url="http://cloud")``."""

    def __init__(self, application: Application) -> None:
        self.application = application

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        assert isinstance(request.stream, httpx2.AsyncByteStream)
        incoming = request.stream.__aiter__()
        pieces: asyncio.Queue[bytes | None] = asyncio.Queue(QUEUE)
        started: asyncio.Future[tuple[int, list[tuple[bytes, bytes]]]] = (
            asyncio.get_running_loop().create_future()
        )
        ended = asyncio.Event()

        async def receive() -> dict[str, Any]:
            if ended.is_set():
                # Nothing more will come; a server would tell of a lost connection here.
                await asyncio.get_running_loop().create_future()
            try:
                return {"type": "http.request", "body": await anext(incoming), "more_body": True}
            except StopAsyncIteration:
                ended.set()
                return {"type": "http.request", "body": b"", "more_body": False}
            except Exception:
                return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                if not started.done():
                    started.set_result((message["status"], list(message.get("headers", ()))))
                return
            if message.get("body"):
                await pieces.put(message["body"])
            if not message.get("more_body"):
                await pieces.put(None)

        async def run() -> None:
            try:
                await self.application(_scope(request), receive, send)
                if not started.done():
                    started.set_exception(httpx2.ReadError("no answer"))
            except asyncio.CancelledError:
                if not started.done():
                    started.set_exception(httpx2.ReadError("no answer"))
                raise
            except Exception as error:
                if not started.done():
                    started.set_exception(error)
                else:
                    await pieces.put(None)
                    raise

        task = asyncio.get_running_loop().create_task(run())
        try:
            status, headers = await started
        except BaseException:
            task.cancel()
            await asyncio.wait([task])
            raise
        return httpx2.Response(status, headers=headers, stream=_Body(pieces, task))


async def call(
    application: Application, method: str, path: str, headers: list[tuple[bytes, bytes]], body: bytes
) -> tuple[int, bytes]:
    """One request whose answer is small: the status and the body. It costs a tenth of a client's request."""
    pieces: list[bytes] = []
    status = 0
    sent = False

    async def receive() -> dict[str, Any]:
        nonlocal sent
        if sent:
            await asyncio.get_running_loop().create_future()  # no connection that could be lost
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        elif message.get("body"):
            pieces.append(message["body"])

    where, _, query = path.partition("?")
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
        "path": where, "raw_path": where.encode(), "query_string": query.encode(), "root_path": "", "headers": headers,
        "client": ("127.0.0.1", 0), "server": ("cumulet", None),
    }  # fmt: skip
    await application(scope, receive, send)
    return status, b"".join(pieces)


def _scope(request: httpx2.Request) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.url.scheme,
        "path": request.url.path,
        "raw_path": request.url.raw_path,
        "query_string": request.url.query,
        "root_path": "",
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "client": ("127.0.0.1", 0),
        "server": (request.url.host, request.url.port),
    }
