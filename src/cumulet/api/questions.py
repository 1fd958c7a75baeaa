"""Questions to agents, and the streams that answer them.

Nobody calls an agent: a question waits until the agent's next poll brings it there, and the agent dials in
with the answer. An upload is the same the other way round: the image store's agent dials in and is given
what a client sends.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from cumulet.api.relay import Relay
from cumulet.chance import Chance
from cumulet.db.wake import Wake
from cumulet.errors import Conflict, NotFound, OverQuota, Unavailable
from cumulet.wire.agent import Question

#: Pieces of an answer that may wait for their reader, and questions that may wait for their agent.
PIECES = 8
QUEUE = 256


class _Channel:
    """One stream from whoever has the bytes to whoever wants them."""

    def __init__(self, agent: str = "") -> None:
        #: Who may answer.
        self.agent = agent
        self.pieces: asyncio.Queue[bytes | BaseException | None] = asyncio.Queue(PIECES)
        self.begun = asyncio.Event()
        self.closed = asyncio.Event()

    async def put(self, piece: bytes | BaseException | None) -> None:
        """Hand over a piece. Raises Conflict once nobody reads."""
        if self.closed.is_set():
            raise Conflict("Nobody waits for the answer any more.")
        with contextlib.suppress(asyncio.QueueFull):
            self.pieces.put_nowait(piece)
            return
        put = asyncio.ensure_future(self.pieces.put(piece))
        closed = asyncio.ensure_future(self.closed.wait())
        try:
            await asyncio.wait({put, closed}, return_when=asyncio.FIRST_COMPLETED)
            if not put.done():
                raise Conflict("Nobody waits for the answer any more.")
        finally:
            put.cancel()
            closed.cancel()

    def fail(self, error: BaseException) -> None:
        """No more pieces come; whoever reads learns why, and not after the pieces that still wait."""
        while not self.pieces.empty():
            self.pieces.get_nowait()
        self.pieces.put_nowait(error)

    async def read(self) -> AsyncIterator[bytes]:
        try:
            while True:
                piece = await self.pieces.get()
                if piece is None:
                    return
                if isinstance(piece, BaseException):
                    raise piece
                yield piece
        finally:
            self.closed.set()


@dataclass
class Feeding:
    """An upload that is offered."""

    #: Ends when all was handed over, and fails when the client or the reader went away.
    task: asyncio.Task[None]
    #: Set once somebody reads.
    begun: asyncio.Event


class Questions:
    """The questions and uploads of one process; with a relay, those of others are served too."""

    def __init__(self, wake: Wake, chance: Chance, relay: Relay | None = None) -> None:
        self._relay = relay
        self._wake = wake
        self._chance = chance
        self._waiting: dict[str, list[Question]] = {}
        self._channels: dict[str, _Channel] = {}
        self._uploads: dict[str, _Channel] = {}

    async def begin(self) -> None:
        """To be called before the process serves."""
        if self._relay is not None:
            await self._relay.begin()

    async def ask(
        self, agent: str, name: str, claim: str, args: dict[str, Any], seconds: float
    ) -> AsyncIterator[bytes]:
        """Ask an agent about one of its claims; yields the answer's pieces.

        Raises Unavailable if it does not begin to answer within the time.
        """
        queue = self._waiting.setdefault(agent, [])
        if len(queue) >= QUEUE:
            raise OverQuota("Too many questions wait for this host.", status=503)
        question = Question(self._chance.uuid(), name, claim, args)
        channel = self._channels[question.id] = _Channel(agent)
        try:
            if self._relay is not None:
                await self._relay.post(question.id, agent=agent, name=name, claim=claim, args=args)
            else:
                queue.append(question)
                self._wake.notify([agent])
            try:
                async with asyncio.timeout(seconds):
                    await channel.begun.wait()
            except TimeoutError:
                raise Unavailable("The host does not answer; try again when it is back.") from None
            async for piece in channel.read():
                yield piece
        finally:
            channel.closed.set()
            self._channels.pop(question.id, None)
            with contextlib.suppress(ValueError):
                queue.remove(question)
            if self._relay is not None:
                await self._relay.withdraw(question.id)

    async def take(self, agent: str) -> list[Question]:
        """What waits for the agent; it is asked once."""
        if self._relay is not None:
            return await self._relay.take(agent)
        return self._waiting.pop(agent, [])

    async def deliver(
        self, agent: str, question: str, pieces: AsyncIterator[bytes], error: str, headers: Mapping[str, str]
    ) -> None:
        """An agent answers. Raises NotFound if nobody waits for it any more, or not for an answer of this agent."""
        channel = self._channels.get(question)
        if channel is None and self._relay is not None:
            await self._relay.send(question, agent, headers, pieces)
            return
        if channel is None or channel.agent != agent:
            raise NotFound("Nobody waits for the answer.")
        channel.begun.set()
        if error:
            await channel.put(Unavailable(error))
            return
        try:
            async for piece in pieces:
                await channel.put(piece)
        except BaseException:
            channel.fail(Unavailable("The answer broke off."))
            raise
        await channel.put(None)

    @contextlib.asynccontextmanager
    async def upload(self, id: str, pieces: AsyncIterator[bytes]) -> AsyncIterator[Feeding]:
        """Offer a client's bytes to whoever dials in for them while the block runs."""
        channel = self._uploads[id] = _Channel()

        async def feed() -> None:
            try:
                async for piece in pieces:
                    await channel.put(piece)
            except BaseException as error:
                channel.fail(Unavailable(f"the upload broke off: {error or type(error).__name__}"))
                raise
            await channel.put(None)

        if self._relay is not None:
            await self._relay.post(id, name="upload")
        task = asyncio.create_task(feed())
        try:
            yield Feeding(task, channel.begun)
        finally:
            if self._relay is not None:
                await self._relay.withdraw(id)
            self._uploads.pop(id, None)
            channel.closed.set()
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                task.exception()

    def uploaded(self, id: str, claim: str, headers: Mapping[str, str]) -> AsyncIterator[bytes]:
        """The bytes of an upload for a claim; they can be read once. Raises NotFound."""
        channel = self._uploads.get(id)
        if channel is None and self._relay is not None:
            return self._relay.fetch(id, claim, headers)
        if channel is None or channel.begun.is_set():
            raise NotFound("This upload is not under way here.")
        channel.begun.set()
        return channel.read()
