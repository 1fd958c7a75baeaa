"""The agent's side of the agents' protocol: one HTTP client, over a socket or within the process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, TypeVar

import httpx2
import msgspec

from cumulet.wire import agent as wire
from cumulet.wire import asgi
from cumulet.wire.asgi import Application

T = TypeVar("T")
_decoders: dict[type, msgspec.json.Decoder[Any]] = {}


class Unreachable(Exception):
    """The control plane does not answer, or not now."""


class Rejected(Exception):
    """The control plane refused; ``status`` 401 or 409 end the session."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class Client:
    """Speaks for one agent."""

    def __init__(
        self, http: httpx2.AsyncClient, agent: str, token: str, application: Application | None = None
    ) -> None:
        self._http = http
        self._headers = {"x-agent": agent, "x-agent-token": token, "content-type": "application/json"}
        #: The control plane, where it is in this process: small requests go through its whole stack, without a
        #: client's work on addresses and connections.
        self._application = application
        self._raw_headers = [(name.encode(), value.encode()) for name, value in self._headers.items()]

    async def hello(self, hello: wire.Hello) -> wire.Welcome:
        return await self._call("POST", "/agent/v1/hello", wire.Welcome, hello)

    async def claims(self, session: str, since: int, wait: float, faults: bool = False) -> wire.News:
        """What is asked since a revision; waits up to ``wait`` seconds for something, or for fault rules to differ."""
        path = f"/agent/v1/claims?session={session}&since={since}&wait={wait:g}&faults={int(faults)}"
        return await self._call("GET", path, wire.News, timeout=wait + 30)

    async def report(self, report: wire.Report) -> None:
        await self._call("POST", "/agent/v1/report", dict, report)

    async def fault(self, query: wire.FaultQuery, wait: float = 25.0) -> wire.FaultAnswer:
        return await self._call("POST", "/agent/v1/fault", wire.FaultAnswer, query, timeout=wait + 30)

    async def answer(self, question: str, pieces: AsyncIterator[bytes] | None, error: str = "") -> None:
        """Send the answer to a question, in pieces, or say why there is none."""
        headers = {**self._headers, "content-type": "application/octet-stream"}
        if error:
            headers["x-error"] = error.encode("ascii", "replace").decode()[:500].replace("\n", " ")
        await self._send(
            "POST", f"/agent/v1/answers/{question}", content=pieces, headers=headers, timeout=None
        )

    async def bytes_of(self, claim: str, need: str) -> AsyncIterator[bytes]:
        """The bytes of a claim that ``claim`` needs (or, with its own id, those that a client uploads)."""
        request = self._http.build_request(
            "GET",
            f"/agent/v1/claims/{claim}/bytes/{need}",
            headers=self._headers,
            timeout=httpx2.Timeout(30, read=300),
        )
        try:
            response = await self._http.send(request, stream=True)
        except (httpx2.HTTPError, OSError) as error:
            raise Unreachable(str(error)) from error
        try:
            if response.status_code != 200:
                await response.aread()
                raise Rejected(response.status_code, _message(response.content))
            async for piece in response.aiter_raw():
                yield piece
        except (httpx2.HTTPError, OSError) as error:
            raise Unreachable(str(error)) from error
        finally:
            await response.aclose()

    async def _call(self, method: str, path: str, shape: type[T], body: Any = None, timeout: float = 30) -> T:
        content = msgspec.json.encode(body) if body is not None else b""
        if self._application is not None:
            # No time is set for it: what does not answer here is this very process.
            status, raw = await asgi.call(self._application, method, path, self._raw_headers, content)
            raw = _checked(status, raw)
        else:
            raw = await self._send(method, path, content=content, headers=self._headers, timeout=timeout)
        decoder = _decoders.get(shape) or _decoders.setdefault(shape, msgspec.json.Decoder(shape))
        return decoder.decode(raw)  # type: ignore[no-any-return]

    async def _send(
        self, method: str, path: str, *, content: Any, headers: Mapping[str, str], timeout: float | None
    ) -> bytes:
        try:
            response = await self._http.request(
                method, path, content=content, headers=headers, timeout=timeout
            )
        except (httpx2.HTTPError, OSError) as error:
            raise Unreachable(str(error) or type(error).__name__) from error
        return _checked(response.status_code, response.content)


def _checked(status: int, raw: bytes) -> bytes:
    """The body of an answer that is none of an error. Raises Unreachable, Rejected."""
    if status >= 500:
        raise Unreachable(f"{status}: {_message(raw)}")
    if status >= 400:
        raise Rejected(status, _message(raw))
    return raw


def _message(raw: bytes) -> str:
    try:
        return str(msgspec.json.decode(raw)["errors"][0]["detail"])
    except (msgspec.DecodeError, KeyError, IndexError, TypeError):
        return raw[:200].decode(errors="replace")
