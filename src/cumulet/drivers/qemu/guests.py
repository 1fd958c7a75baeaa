"""Guests: one QEMU process each, which outlives us and is found again.

    DIRECTORY/guest/CLAIM/state.json    how often it was started, which one-shot actions were done
    DIRECTORY/guest/CLAIM/alive, pid    see alive.py
    DIRECTORY/guest/CLAIM/console.log   what it wrote to its first serial port
    DIRECTORY/guest/CLAIM/output        what QEMU itself said
    DIRECTORY/guest/CLAIM/qmp           QEMU's control socket for us; "tools" is the same for people
    DIRECTORY/guest/CLAIM/serial        the first serial port

A start is written down before it happens (``starts``) and after it succeeded (``up``). So whoever comes after a
crash knows whether a guest that does not run powered itself off, and stays off, or was never started.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import structlog

from cumulet.config import Hosts
from cumulet.drivers import process, program
from cumulet.drivers.base import Failed, Thing, Unknown
from cumulet.drivers.blocks import in_thread
from cumulet.drivers.process import Process
from cumulet.drivers.qemu import alive, copying, devices, machine, plugs, swapping, telling
from cumulet.drivers.qemu.accelerator import Accelerator
from cumulet.drivers.qemu.disks import Disks
from cumulet.drivers.qemu.machine import Image, Machine
from cumulet.drivers.qemu.qmp import Event, Gone, Monitor, listener
from cumulet.wire.agent import Claim, Question

log = structlog.get_logger()
T = TypeVar("T")

#: Seconds between two asks of a guest to power itself off.
ASK_AGAIN = 10.0
#: Seconds until a guest is run on that was paused because this host's disk was full.
RUN_ON = 15.0
#: Seconds between two looks at the size of the console logs, their largest size, and what is kept of a larger one.
TRIM_EVERY = 5.0
CONSOLE_LIMIT, CONSOLE_KEPT = 4 << 20, 1 << 20
_SOCKETS = ("serial", "qmp", "tools")


class State(msgspec.Struct, frozen=True):
    """What is remembered of a guest."""

    #: Starts that were begun; the last one that succeeded.
    starts: int = 0
    up: int = 0
    counters: dict[str, int] = {}
    #: Its disks by their claims: the names that QEMU has for them.
    disks: dict[str, str] = {}
    #: "paused" or "suspended" while it does not run because it was asked not to.
    held: str = ""


class Guests:
    """The driver of guests."""

    kinds = frozenset({"guest"})

    def __init__(
        self,
        directory: Path,
        disks: Disks,
        settings: Hosts,
        user: program.User | None,
        accelerator: Accelerator,
    ) -> None:
        self.directory = directory / "guest"
        self.directory.mkdir(exist_ok=True, mode=0o700)
        self._disks = disks
        self._settings = settings
        self._user = user
        self._accelerator = accelerator
        self._changed: Callable[[str], None] = lambda _: None
        self._monitors: dict[str, Monitor] = {}
        self._connecting: dict[str, asyncio.Lock] = {}
        #: Processes whose end is watched for.
        self._watched: dict[str, Process] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._paused: set[str] = set()
        #: How far copies of volumes into others are, by guest and by the part that is filled.
        self._copies: dict[str, dict[str, str]] = {}
        #: How many events came from each guest.
        self._heard: dict[str, int] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        disks.live = self

    def watch(self, changed: Callable[[str], None]) -> None:
        self._changed = changed

    def close(self) -> None:
        """Let go of everything; the guests run on."""
        for id in list(self._watched):
            self._unwatch(id)
        for monitor in self._monitors.values():
            monitor.close()
        for timer in self._timers.values():
            timer.cancel()
        self._monitors.clear()
        self._timers.clear()

    def home(self, id: str) -> Path:
        return self.directory / id

    # --- what is there ---

    async def observe(self) -> Mapping[str, Thing]:
        try:
            ids = os.listdir(self.directory)
        except OSError as error:
            raise Unknown(f"guests cannot be seen: {error}") from error
        found = {id: await self.look(id, "guest") for id in ids}
        self._accelerator.begin()
        self._trim()
        return {id: thing for id, thing in found.items() if thing is not None}

    async def look(self, id: str, kind: str) -> Thing | None:
        if not self.home(id).is_dir():
            if not self.directory.is_dir():
                raise Unknown("the directory of the guests is not there")
            return None
        try:
            async with self._found(id) as running:
                if running is not None:
                    self._watch(id, running)
                return Thing("guest", self._facts(id, self._state(id), running is not None))
        except Unknown:
            # Something runs, if it cannot be told what: one such guest must not hide all others.
            return Thing("guest", self._facts(id, self._state(id), True))

    def _facts(self, id: str, state: State, running: bool) -> dict[str, Any]:
        power = "off" if not running else state.held or ("paused" if id in self._paused else "on")
        copies = self._copies.get(id) if running else None
        return {"power": power, "counters": state.counters, **({"copies": dict(copies)} if copies else {})}

    def _state(self, id: str) -> State:
        try:
            return msgspec.json.decode((self.home(id) / "state.json").read_bytes(), type=State)
        except (FileNotFoundError, msgspec.DecodeError):
            return State()

    def _write(self, id: str, state: State) -> State:
        draft = self.home(id) / ".state.json"
        draft.write_bytes(msgspec.json.encode(state))
        os.replace(draft, self.home(id) / "state.json")
        return state

    @contextlib.asynccontextmanager
    async def _found(self, id: str) -> AsyncIterator[Process | None]:
        found = await alive.look(self.home(id), machine.mark(id))
        try:
            yield found
        finally:
            if found is not None:
                found.close()

    # --- making it what it should be ---

    async def ensure(self, claim: Claim) -> Thing:
        id = claim.id
        self.home(id).mkdir(exist_ok=True, mode=0o700)
        state = self._state(id)
        asked: dict[str, int] = claim.spec.get("counters", {})
        async with self._found(id) as running:
            if "incoming" in claim.spec or "migrate_to" in claim.spec:
                raise Failed(
                    "this host cannot move guests that run; a cold migration can be made", fatal=True
                )
            if claim.spec["power"] == "off":
                if running is not None:
                    await self._power_off(id, running)
                state = msgspec.structs.replace(state, up=state.starts)
            elif running is None:
                if _must_start(state, asked):
                    state = await self._start(claim, state)
            elif _more(state, asked, "hard_reboots"):
                await self._end(id, running)
                state = await self._start(claim, state)
            elif _more(state, asked, "reboots"):
                await self._power_off(id, running)
                state = await self._start(claim, state)
            else:
                state = await self._adopt(claim, state, running)
            if id in self._watched:
                state = await self._hold(claim, state)
        if state.counters != asked or state != self._state(id):
            state = self._write(id, msgspec.structs.replace(state, counters=dict(asked)))
        return Thing("guest", self._facts(id, state, id in self._watched))

    def _machine(self, claim: Claim) -> tuple[Machine, dict[str, str]]:
        """What the guest is made of, and its disks by claim."""
        needs = {need.part: need.id for need in claim.needs if need.kind == "disk"}
        parts = {part: needs[part] for part in claim.spec.get("disks", ()) if part in needs}
        # It boots from the first disk: the rescue disk, where there is one.
        drives = {
            part: self._disks.drive(id, part, first=part == next(iter(parts))) for part, id in parts.items()
        }
        made = machine.machine(claim, drives, closed=self._settings.guest_network == "closed")
        return made, {id: part for part, id in parts.items()}

    async def _start(self, claim: Claim, state: State) -> State:
        """Start the guest's process, and wait until it runs. Raises Failed with QEMU's own words."""
        id = claim.id
        made, disks = self._machine(claim)
        accelerator = await self._accelerator.get()
        async with self._disks.in_use(list(disks)):
            state = msgspec.structs.replace(
                state, starts=state.starts + 1, counters=claim.spec.get("counters", {}), disks=disks, held=""
            )
            self._write(id, state)
            with contextlib.closing(self._launch(id, made, accelerator)) as running:
                self._watch(id, running)
            try:
                await devices.enlarge(await self._monitor(id), made)
            except Gone as error:
                words = alive.last_words(self.home(id))
                raise Failed(f"the guest cannot be started: {words or error.message}") from None
        state = self._write(id, msgspec.structs.replace(state, up=state.starts))
        await self._fill(id, made)
        return state

    def _launch(self, id: str, made: Machine, accelerator: str) -> Process:
        home = self.home(id)
        with contextlib.ExitStack() as stack:
            files = {
                file.node: stack.enter_context(_closing(plugs.open_image(file)))
                for drive in made.drives
                for file in machine.files(drive)
            }
            console = os.open(
                home / "console.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
            )
            stack.enter_context(_closing(console))
            sockets = {name: stack.enter_context(listener(home, name)).fileno() for name in _SOCKETS}
            fds = machine.Fds(files, console, sockets)
            argv = machine.command(self._settings.qemu, made, accelerator, fds)
            groups = self._accelerator.groups() if accelerator == "kvm" else ()
            return alive.start(
                home,
                machine.mark(id),
                [*program.as_user(self._user, groups, orphan=True), *argv],
                [*files.values(), console, *sockets.values()],
            )

    async def _adopt(self, claim: Claim, state: State, running: Process) -> State:
        """A guest that runs: give it the devices that it should have."""
        self._watch(claim.id, running)
        made, _ = self._machine(claim)
        monitor = await self._monitor(claim.id)
        await devices.change(monitor, made, self._settings.unplug_seconds)
        await self._fill(claim.id, made)
        return msgspec.structs.replace(state, up=state.starts)

    async def _hold(self, claim: Claim, state: State) -> State:
        """Stop the processors of a guest that is to be paused or suspended, or let it run on. Its memory stays."""
        power = claim.spec["power"]
        held = power if power in ("paused", "suspended") else ""
        if held == state.held:
            return state
        if held:
            # Written down first: whoever comes after a crash knows that it was meant to stop.
            state = self._write(claim.id, msgspec.structs.replace(state, held=held))
        await (await self._monitor(claim.id)).execute("stop" if held else "cont")
        return msgspec.structs.replace(state, held=held)

    async def _fill(self, id: str, made: Machine) -> None:
        """Begin to copy volumes into those that are to take their places; how far that is, events tell."""
        targets = [drive.into for drive in made.drives if drive.into is not None]
        if not targets and not self._copies.get(id):
            return
        monitor = await self._monitor(id)
        self._copies[id] = dict.fromkeys(await swapping.states(monitor), "copying")
        for drive in made.drives:
            if drive.into is not None:
                self._copies[id].setdefault(drive.into.part, "copying")
                await swapping.fill(monitor, drive.id, drive.into)
        for part, state in (await self._asked(id, lambda: swapping.states(monitor))).items():
            self._copies[id][part] = state

    async def _power_off(self, id: str, running: Process) -> None:
        """Ask the guest to power itself off, and end its process if it does not within the time."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._settings.shutdown_seconds
        try:
            monitor = await self._monitor(id)
            while (left := until - loop.time()) > 0:
                await monitor.execute("system_powerdown")
                if await running.ended(min(left, ASK_AGAIN)):
                    break
        except Failed as error:
            log.info("a guest cannot be asked to power itself off", guest=id, error=error.message)
        await self._end(id, running)

    async def _end(self, id: str, running: Process) -> None:
        await process.end(running)
        self._forget(id)

    async def remove(self, claim: Claim) -> None:
        id = claim.id
        async with self._found(id) as running:
            if running is not None:
                await self._end(id, running)
        self._forget(id)
        with contextlib.suppress(FileNotFoundError):
            await in_thread(shutil.rmtree, self.home(id))

    # --- its process ---

    async def _monitor(self, id: str) -> Monitor:
        """The connection to a guest's process. Raises Failed."""
        async with self._connecting.setdefault(id, asyncio.Lock()):
            found = self._monitors.get(id)
            if found is None or found.closed:
                found = await Monitor.connect(self.home(id))
                found.on_event = lambda event: self._hear(id, event)
                self._monitors[id] = found
                await self._note_pause(id, found)
            return found

    async def _asked(self, id: str, question: Callable[[], Awaitable[T]]) -> T:
        """What a guest answers. It is asked again if it told of anything meanwhile: its answer may be the older one."""
        while True:
            heard = self._heard.get(id, 0)
            answer = await question()
            if self._heard.get(id, 0) == heard:
                return answer

    def _hear(self, id: str, event: Event) -> None:
        self._heard[id] = self._heard.get(id, 0) + 1
        copy = swapping.told(event)
        if copy is not None:
            self._copies.setdefault(id, {})[copy[0]] = copy[1]
            self._changed(id)
        elif event["event"] == "STOP":
            self._paused.add(id)
            self._changed(id)
        elif event["event"] == "RESUME":
            self._paused.discard(id)
            self._changed(id)
        elif event["event"] == "BLOCK_IO_ERROR" and event["data"].get("action") == "stop":
            log.warning(
                "a guest is paused: this host cannot write its disk",
                guest=id,
                why=event["data"].get("reason"),
            )
            self._run_on_later(id)

    async def _note_pause(self, id: str, monitor: Monitor) -> None:
        self._copies[id] = await self._asked(id, lambda: swapping.states(monitor))
        status = await self._asked(id, lambda: monitor.execute("query-status"))
        if status["running"]:
            self._paused.discard(id)
        else:
            self._paused.add(id)
            if status["status"] == "io-error":
                self._run_on_later(id)

    def _run_on_later(self, id: str) -> None:
        """Try again what a full disk kept the guest from writing."""

        def run_on() -> None:
            self._timers.pop(id, None)
            monitor = self._monitors.get(id)
            if monitor is not None and not monitor.closed:
                task = asyncio.ensure_future(monitor.execute("cont"))
                task.add_done_callback(lambda done: done.cancelled() or done.exception())

        if id not in self._timers:
            self._timers[id] = asyncio.get_running_loop().call_later(RUN_ON, run_on)

    def _watch(self, id: str, running: Process) -> None:
        """Have the end of the process told from now on."""
        known = self._watched.get(id)
        if known is not None and known.pid == running.pid:
            return
        self._unwatch(id)
        mine = Process(running.pid, os.dup(running.fd))
        self._watched[id] = mine
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(mine.fd, self._ended, id)

    def _unwatch(self, id: str) -> None:
        known = self._watched.pop(id, None)
        if known is not None:
            if self._loop is not None and not self._loop.is_closed():
                self._loop.remove_reader(known.fd)
            known.close()

    def _ended(self, id: str) -> None:
        self._watched[id].reap()
        self._forget(id)
        self._changed(id)

    def _forget(self, id: str) -> None:
        """The process has ended."""
        self._unwatch(id)
        monitor = self._monitors.pop(id, None)
        if monitor is not None:
            monitor.close()
        timer = self._timers.pop(id, None)
        if timer is not None:
            timer.cancel()
        self._paused.discard(id)
        self._copies.pop(id, None)
        self._heard.pop(id, None)

    # --- copies of disks ---

    async def copy(self, disk: str, source: str, target: Image) -> bool:
        for id in list(self._watched):
            node = self._state(id).disks.get(disk)
            if node is not None:
                await copying.copy(await self._monitor(id), node, source, target)
                return True
        return False

    async def drop_copy(self, source: str) -> None:
        for id in list(self._watched):
            with contextlib.suppress(Gone):
                await copying.drop(await self._monitor(id), source)

    # --- questions ---

    async def answer(self, question: Question) -> AsyncIterator[bytes]:
        id = question.claim
        if question.name == "console":
            return _piece(await in_thread(telling.console, self.home(id), question.args.get("length")))
        if question.name == "diagnostics":
            running = self._watched.get(id)
            if running is None:
                return _piece(telling.at_rest())
            return _piece(
                await telling.diagnostics(await self._monitor(id), running.pid, paused=id in self._paused)
            )
        raise Failed(f"this host does not answer {question.name}")

    def _trim(self) -> None:
        """A guest could fill this host's disk by writing to its console."""
        for id in self._watched:
            telling.trim(self.home(id) / "console.log", CONSOLE_LIMIT, CONSOLE_KEPT)
        old = self._timers.pop("", None)
        if old is not None:
            old.cancel()
        self._timers[""] = asyncio.get_running_loop().call_later(TRIM_EVERY, self._trim)


def _more(state: State, asked: Mapping[str, int], name: str) -> bool:
    return asked.get(name, 0) > state.counters.get(name, 0)


def _must_start(state: State, asked: Mapping[str, int]) -> bool:
    """True if a guest that does not run is to be started: for the first time, again, or because the last time failed."""
    never = state.starts == 0 or state.starts > state.up
    return never or any(_more(state, asked, name) for name in ("starts", "reboots", "hard_reboots"))


@contextlib.contextmanager
def _closing(fd: int) -> Iterator[int]:
    try:
        yield fd
    finally:
        os.close(fd)


async def _piece(data: bytes) -> AsyncIterator[bytes]:
    yield data
