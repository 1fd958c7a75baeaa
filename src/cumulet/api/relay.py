"""Passes answers and uploads on between processes that share one database.

Whoever relays is only a pipe: the agent's own id and token go with it, and the process that waits checks them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx2
import msgspec

from cumulet.core import questions
from cumulet.db.engine import Database
from cumulet.errors import CumuletError, NotFound, Unavailable
from cumulet.wire.agent import Question

#: Headers of an agent's request that go with it.
PASSED = ("x-agent", "x-agent-token", "x-error")


class Relay:
    """One process's door to the others; ``address``: where they reach this one."""

    def __init__(self, db: Database, address: str) -> None:
        self._db = db
        self.address = address

    async def begin(self) -> None:
        """Forget what was asked from this address by a process that was killed."""
        await self._db.write(questions.forget, self.address)

    async def post(self, id: str, **question: Any) -> None:
        await self._db.write(questions.post, id, self.address, **question)

    async def withdraw(self, id: str) -> None:
        await self._db.write(questions.withdraw, id)

    async def take(self, agent: str) -> list[Question]:
        if not await self._db.read(questions.any_for, agent):
            return []
        return [Question(**row) for row in await self._db.write(questions.take, agent)]

    async def send(
        self, id: str, agent: str, headers: Mapping[str, str], pieces: AsyncIterator[bytes]
    ) -> None:
        """Pass an agent's answer on to the process that waits for it. Raises NotFound if none does."""
        url = await self._other(id, agent)
        async with _client(url) as http:
            try:
                response = await http.post(
                    f"/agent/v1/answers/{id}",
                    content=pieces,
                    headers=_passed(headers),
                    timeout=httpx2.Timeout(30, write=300),
                )
            except httpx2.HTTPError as error:
                raise Unavailable("The process that waits for the answer is gone.") from error
        if response.status_code >= 400:
            raise _refusal(response)

    async def fetch(self, id: str, claim: str, headers: Mapping[str, str]) -> AsyncIterator[bytes]:
        """The bytes of an upload that another process is given. Raises NotFound."""
        url = await self._other(id, None)
        async with (
            _client(url) as http,
            http.stream(
                "GET", f"/agent/v1/claims/{claim}/bytes/{claim}", headers=_passed(headers)
            ) as response,
        ):
            if response.status_code != 200:
                await response.aread()
                raise _refusal(response)
            async for piece in response.aiter_raw():
                yield piece

    async def _other(self, id: str, agent: str | None) -> str:
        url = await self._db.read(questions.asker, id, agent)
        if url is None or url == self.address:
            raise NotFound("Nobody waits for it any more.")
        return url


def _client(url: str) -> httpx2.AsyncClient:
    # Reading the system's certificates takes long, and plain HTTP on loopback needs none.
    return httpx2.AsyncClient(
        base_url=url, trust_env=False, verify=url.startswith("https"), timeout=httpx2.Timeout(30, read=300)
    )


def _passed(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: headers[name] for name in PASSED if name in headers} | {
        "content-type": "application/octet-stream"
    }


def _refusal(response: httpx2.Response) -> CumuletError:
    try:
        reason = str(msgspec.json.decode(response.content)["errors"][0]["detail"])
    except (msgspec.DecodeError, KeyError, IndexError, TypeError):
        reason = "the other process refused"
    return CumuletError(reason, status=response.status_code)
