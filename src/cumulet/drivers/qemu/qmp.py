"""A client of QEMU's machine protocol.

One connection for each guest: a socket of QEMU's serves one client at a time, and a second one waits. File
descriptors travel with a command. See QEMU's docs/interop/qmp-spec.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from cumulet.drivers.base import Failed

#: Seconds that a command may take; a loaded machine is slow, one that hangs is not waited for.
PATIENCE = 30.0
#: Bytes of one message at the most.
LONGEST = 16 << 20

Event = dict[str, Any]


class Gone(Failed):
    """The process has ended, or closed the connection."""


class Refused(Failed):
    """QEMU does not do it."""


def at(home: Path, name: str, use: Callable[[str], None]) -> None:
    """Call ``use`` with a short path of a socket in ``home``: the name of a socket has room for 107 bytes only."""
    directory = os.open(home, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        use(f"/proc/self/fd/{directory}/{name}")
    finally:
        os.close(directory)


def listener(home: Path, name: str) -> socket.socket:
    """A listening socket in ``home`` for a process to inherit. One can connect before that process is ready."""
    with contextlib.suppress(FileNotFoundError):
        (home / name).unlink()
    made = socket.socket(socket.AF_UNIX)
    try:
        at(home, name, made.bind)
        made.listen(4)
    except BaseException:
        made.close()
        raise
    return made


class Monitor:
    """A connection to a running QEMU."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._calls: dict[int, asyncio.Future[Any]] = {}
        self._number = 0
        self._queues: set[asyncio.Queue[Event | None]] = set()
        #: Called with each event.
        self.on_event: Callable[[Event], None] = lambda _: None
        self._greeting: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._reader = asyncio.create_task(self._read())

    @classmethod
    async def connect(cls, home: Path, name: str = "qmp", patience: float = PATIENCE) -> Monitor:
        """Connect to the socket in ``home``. Raises Gone, Failed if nothing answers within the time."""
        made = socket.socket(socket.AF_UNIX)
        made.setblocking(False)
        try:
            at(home, name, made.connect)
        except OSError as error:
            made.close()
            raise Gone(f"the guest's process cannot be reached: {error.strerror}") from error
        monitor = cls(made)
        try:
            async with asyncio.timeout(patience):
                await asyncio.shield(monitor._greeting)
                await monitor.execute("qmp_capabilities")
        except BaseException as error:
            monitor.close()
            if isinstance(error, TimeoutError):
                raise Failed("the guest's process does not answer") from None
            raise
        return monitor

    @property
    def closed(self) -> bool:
        return self._reader.done()

    async def execute(
        self,
        command: str,
        arguments: dict[str, Any] | None = None,
        *,
        fds: Sequence[int] = (),
        patience: float = PATIENCE,
    ) -> Any:
        """Send a command; what it returns. Raises Refused, Gone, Failed if there is no answer within the time."""
        if self.closed:
            raise Gone("the guest's process has ended")
        self._number += 1
        number = self._number
        call = self._calls[number] = asyncio.get_running_loop().create_future()
        message: dict[str, Any] = {"execute": command, "id": number}
        if arguments is not None:
            message["arguments"] = arguments
        try:
            await self._send(msgspec.json.encode(message) + b"\n", fds)
            async with asyncio.timeout(patience):
                return await call
        except TimeoutError:
            raise Failed(f"the guest's process does not answer {command}") from None
        except OSError as error:
            raise Gone(f"the guest's process cannot be reached: {error.strerror}") from error
        finally:
            self._calls.pop(number, None)
            call.cancel()

    async def _send(self, data: bytes, fds: Sequence[int]) -> None:
        if fds:
            sent = socket.send_fds(self._socket, [data], list(fds))
            data = data[sent:]
        if data:
            await asyncio.get_running_loop().sock_sendall(self._socket, data)

    @contextlib.contextmanager
    def events(self) -> Iterator[asyncio.Queue[Event | None]]:
        """Events while the block runs; None when the connection has ended."""
        queue: asyncio.Queue[Event | None] = asyncio.Queue()
        self._queues.add(queue)
        if self.closed:
            queue.put_nowait(None)
        try:
            yield queue
        finally:
            self._queues.discard(queue)

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        buffer = b""
        try:
            while len(buffer) <= LONGEST:
                data = await loop.sock_recv(self._socket, 1 << 16)
                if not data:
                    break
                *lines, buffer = (buffer + data).split(b"\n")
                for line in lines:
                    if line.strip():
                        self._take(msgspec.json.decode(line))
        except (OSError, msgspec.DecodeError):
            pass
        finally:
            self._end()

    def _take(self, message: dict[str, Any]) -> None:
        if "event" in message:
            for queue in self._queues:
                queue.put_nowait(message)
            self.on_event(message)
        elif "QMP" in message:
            if not self._greeting.done():
                self._greeting.set_result(None)
        else:
            call = self._calls.get(message.get("id", 0))
            if call is None or call.done():
                return
            if "error" in message:
                call.set_exception(Refused(str(message["error"].get("desc", "it refuses"))))
            else:
                call.set_result(message.get("return"))

    def _end(self) -> None:
        gone = Gone("the guest's process has ended")
        if not self._greeting.done():
            self._greeting.set_exception(gone)
            self._greeting.exception()  # nobody may be waiting for it
        for call in self._calls.values():
            if not call.done():
                call.set_exception(gone)
        for queue in self._queues:
            queue.put_nowait(None)
        self._socket.close()

    def close(self) -> None:
        """End the connection; the process goes on."""
        self._reader.cancel()
