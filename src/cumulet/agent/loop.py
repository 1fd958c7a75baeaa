"""An agent: reads what is wanted, makes it true, reports what it sees.

It makes and removes only what the control plane names; whatever else it finds it reports. What to do with a
claim is decided by ``choose``, a pure function of the claim and of what is here.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from typing import Any, Literal

import msgspec
import structlog

from cumulet.agent.client import Client, Rejected, Unreachable
from cumulet.agent.store import Store
from cumulet.chance import Chance
from cumulet.drivers.base import Driver, Failed, Thing, Unknown
from cumulet.values import KEEPS_DATA
from cumulet.wire import agent as wire

log = structlog.get_logger()

Choice = Literal["make", "remove", "tell", "wait"]
#: Pauses after failures of one claim: the first, and the longest, in seconds.
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 30.0
#: Sights in one report at the most.
REPORT_LIMIT = 200
#: Turns of the event loop that a report waits for more to tell.
TURNS = 6


class Crashed(Exception):
    """A fault rule killed the agent: nothing more of it happens, nothing is tidied up."""


def choose(claim: wire.Claim, thing: Thing | None, done: Callable[[str], bool], needed: bool) -> Choice:
    """What to do about a claim.

    ``thing``: what is here of it. ``done(id)``: a claim of this agent is as it should be. ``needed``:
    something that is here needs it.
    """
    if claim.wanted:
        if claim.made and thing is None and (claim.kind in KEEPS_DATA or "migrate_to" in claim.spec):
            # Lost, and a new one would be empty; or a guest on its way, which may run where it went.
            return "tell"
        if not claim.act:
            return "tell" if claim.made and thing is None else "wait"
        return "make" if all(done(need.id) for need in claim.needs if need.mine) else "wait"
    if thing is None:
        return "tell"
    return "remove" if claim.act and not needed else "wait"


class Agent:
    """One agent over one state directory."""

    def __init__(
        self,
        client: Client,
        store: Store,
        drivers: Sequence[Driver],
        *,
        kind: Literal["host", "volume", "network", "image"],
        name: str,
        facts: Mapping[str, Any],
        chance: Chance,
        audit_every: float = 60.0,
        crash: Callable[[], None] | None = None,
    ) -> None:
        self.client = client
        self.store = store
        self.kind: Literal["host", "volume", "network", "image"] = kind
        self.name = name
        self.facts = dict(facts)
        self.chance = chance
        self.audit_every = audit_every
        self.crash = crash
        self.drivers: dict[str, Driver] = {kind: driver for driver in drivers for kind in driver.kinds}
        self._all_drivers = list(drivers)
        self.claims: dict[str, wire.Claim] = {}
        self.things: dict[str, Thing] = {}
        #: The revision that was acted on last without an error.
        self._acted: dict[str, int] = {}
        #: Claims that need a claim, among those that are known here.
        self._needed_by: dict[str, set[str]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        #: What changed by itself while something worked on it: what that found may be older.
        self._stale: set[str] = set()
        self._answers: set[asyncio.Task[None]] = set()
        self._failures: dict[str, int] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._outbox: dict[str, wire.Sight] = {}
        self._orphans: list[wire.Orphan] | None = None
        self._orphans_told: set[str] = set()
        #: Set, and replaced, whenever a report was taken down.
        self._taken = asyncio.Event()
        self._ready = asyncio.Event()
        self._faults = False
        self._crashed = asyncio.Event()
        #: False between two sessions, and after the last one: nothing new is begun then.
        self._serving = False
        self._session = ""
        self._sequence = 0
        #: The newest revision that was heard of in this session: what is older and not known is forgotten.
        self._told = 0
        for driver in drivers:
            driver.watch(self._changed)

    # --- a session ---

    async def run(self) -> None:
        """Serve until cancelled. Raises Crashed, and Rejected when another agent took its place."""
        failures = 0
        while True:
            try:
                await self._serve()
            except (Unreachable, Unknown) as error:
                failures += 1
                if failures == 3:
                    log.warning("agent cannot work", agent=self.name, error=str(error))
                await asyncio.sleep(min(FIRST_PAUSE * 2**failures, 5.0))
            except Rejected as error:
                if error.status == 409 and "session" in error.message:
                    failures = 0
                    continue
                raise
            else:
                failures = 0

    async def _serve(self) -> None:
        self._session = self.chance.uuid()
        self._sequence = 0
        welcome = await self.client.hello(
            wire.Hello(wire.VERSION, self.kind, self.name, self.store.id, self._session, self.facts)
        )
        await self._stop_work()
        self._forget_all()
        self.things = await self._observe()
        since = 0
        questions: list[wire.Question] = []
        while True:
            news = await self.client.claims(self._session, since, 0)
            since = news.revision
            self._take(news)
            # Each is told once, and asked about claims that may come with a later page.
            questions += news.questions
            if not news.more:
                break
        self._find_orphans()
        self._serving = True
        # Debts first: what is owed may hold what others wait for.
        for id in sorted(self.claims, key=lambda id: self.claims[id].wanted):
            self._consider(id)
        for question in questions:
            self._begin(self._answer(question))
        loops = [
            asyncio.create_task(self._poll(since, welcome.poll)),
            asyncio.create_task(self._report()),
            asyncio.create_task(self._audit()),
            asyncio.create_task(self._crashed.wait()),
        ]
        try:
            done, _ = await asyncio.wait(loops, return_when=asyncio.FIRST_COMPLETED)
            if self._crashed.is_set():
                raise Crashed
            for task in done:
                task.result()
        finally:
            for task in loops:
                task.cancel()
            await asyncio.wait(loops)
            await self._stop_work()

    async def _poll(self, since: int, wait: float) -> None:
        failures = 0
        while True:
            try:
                news = await self.client.claims(self._session, since, wait, self._faults)
            except Unreachable:
                failures += 1
                await asyncio.sleep(min(FIRST_PAUSE * 2**failures, 2.0))
                continue
            failures = 0
            since = max(since, news.revision)
            for id in self._take(news):
                self._consider(id)
            for question in news.questions:
                self._begin(self._answer(question))

    def _take(self, news: wire.News) -> list[str]:
        """Note what is asked; answers can come out of order, so only what is newer counts."""
        newer = []
        if self._faults and not news.faults:
            # What failed by a fault rule need not wait any longer, once that was told.
            for id in [id for id in self._timers if id not in self._outbox]:
                self._timers.pop(id).cancel()
                newer.append(id)
        self._faults = news.faults
        for claim in news.claims:
            known = self.claims.get(claim.id)
            if claim.revision <= (known.revision if known is not None else self._told):
                continue
            if known is not None:
                self._unlink(known)
            self.claims[claim.id] = claim
            for need in claim.needs:
                if need.mine:
                    self._needed_by.setdefault(need.id, set()).add(claim.id)
            self._failures.pop(claim.id, None)
            newer.append(claim.id)
            if known is not None and known.wanted and not claim.wanted:
                self._interrupt(claim.id)
            if known is not None:
                newer += [need.id for need in known.needs if need.mine and need.id in self.claims]
        self._told = max(self._told, news.revision)
        return newer

    def _unlink(self, claim: wire.Claim) -> None:
        for need in claim.needs:
            others = self._needed_by.get(need.id)
            if others is not None:
                others.discard(claim.id)
                if not others:
                    del self._needed_by[need.id]

    async def _report(self) -> None:
        failures = 0
        while True:
            await self._ready.wait()
            for _ in range(TURNS):
                # What is about to be finished goes together with what is.
                if not self._tasks:
                    break
                await asyncio.sleep(0)
            batch = dict(list(self._outbox.items())[:REPORT_LIMIT])
            orphans, self._orphans = self._orphans, None
            self._sequence += 1
            report = wire.Report(self._session, self._sequence, list(batch.values()), orphans)
            while True:
                try:
                    await self.client.report(report)
                    break
                except Unreachable:
                    failures += 1
                    await asyncio.sleep(min(FIRST_PAUSE * 2**failures, 2.0))
            failures = 0
            for id, sight in batch.items():
                if self._outbox.get(id) is sight:
                    del self._outbox[id]
                claim = self.claims.get(id)
                if claim is None:
                    continue
                if sight.seen == "absent" and not claim.wanted and claim.revision == sight.revision:
                    self._forget(id)
                elif sight.seen == "present" and sight.error is None and not claim.made:
                    # It is known now that it was there: what keeps data is not made a second time.
                    self.claims[id] = msgspec.structs.replace(claim, made=True)
            if not self._outbox and self._orphans is None:
                self._ready.clear()
            self._taken.set()
            self._taken = asyncio.Event()

    async def _all_told(self) -> None:
        """What was found by now has been taken down; a report that is under way may have been put together before."""
        for _ in range(2):
            if self._ready.is_set():
                await self._taken.wait()

    # --- one claim ---

    def _done(self, id: str) -> bool:
        """True if a claim's thing is as it should be. What is given up but whole still serves what needs it."""
        claim = self.claims.get(id)
        if claim is None or id not in self.things:
            return False
        return self._acted.get(id, -1) >= claim.revision if claim.wanted else claim.made

    def _needed_here(self, id: str) -> bool:
        """True if something that is here needs it, or something that is yet to be made from it."""
        others = self._needed_by.get(id, ())
        if any(other in self.things or other in self._tasks for other in others):
            return True
        return any(self.claims[other].wanted for other in others if other in self.claims) and self._done(id)

    def _consider(self, id: str) -> None:
        claim = self.claims.get(id)
        if claim is None or not self._serving or id in self._tasks or id in self._timers:
            return
        thing = self.things.get(id)
        if claim.wanted and claim.act and self._done(id):
            return
        choice = choose(claim, thing, self._done, self._needed_here(id))
        if choice == "wait" or (choice == "tell" and self._tells_absent(claim)):
            return
        if not self.store.idle(id):
            self._pause(id)  # a helper of an agent that died still works on it
        else:
            work = self._tell_absent(claim) if choice == "tell" else self._work(claim, choice)
            self._tasks[id] = asyncio.create_task(work)

    def _tells_absent(self, claim: wire.Claim) -> bool:
        """True if a report that says so is under way: what waits for the claim need not have it told again."""
        sight = self._outbox.get(claim.id)
        return (
            sight is not None
            and sight.seen == "absent"
            and sight.error is None
            and sight.revision == claim.revision
        )

    async def _tell_absent(self, claim: wire.Claim) -> None:
        """Say that the thing is not there, after one more look: nothing works on it now, but something may have."""
        try:
            thing = await self.drivers[claim.kind].look(claim.id, claim.kind)
        except KeyError:
            thing = None  # no driver: never was a thing
        except (Failed, OSError):
            self._failures[claim.id] = self._failures.get(claim.id, 0) + 1
            self._tasks.pop(claim.id, None)
            self._pause(claim.id)
            return
        self._tasks.pop(claim.id, None)
        self._note(claim.id, thing)
        if thing is None:
            self._tell(claim, None, None)
        if thing is not None or self.claims.get(claim.id) is not claim:
            self._consider(claim.id)
        self._consider_neighbours(claim)

    async def _work(self, claim: wire.Claim, choice: Choice) -> None:
        error: Failed | None = None
        step = f"{claim.kind}.{'ensure' if choice == 'make' else 'remove'}"
        thing = self.things.get(claim.id)
        try:
            driver = self.drivers.get(claim.kind)
            if driver is None:
                raise Failed(f"this agent has no driver for {claim.kind}", fatal=False)
            await self._fault(claim, step, "before")
            if choice == "make":
                thing = await driver.ensure(claim)
            else:
                await driver.remove(claim)
                thing = await driver.look(claim.id, claim.kind)
                if thing is not None:
                    raise Failed(f"the {claim.kind} is still there after its removal")
            await self._fault(claim, step, "after")
        except Failed as failed:
            error = failed
        except Crashed:
            self._crashed.set()
            return
        except asyncio.CancelledError:
            if self._tasks.get(claim.id) is asyncio.current_task():
                del self._tasks[claim.id]
            raise
        except (Unreachable, Rejected) as unreachable:
            error = Failed(f"the control plane did not give what was needed: {unreachable}")
        except OSError as refused:
            # The machine's own reason, as a full disk: no defect of a driver. Its paths are not for users.
            log.warning(
                "the machine refuses", claim=claim.id, step=step, agent=self.name, path=refused.filename,
                reason=str(refused.strerror or refused), request_id=claim.request_id,
            )  # fmt: skip
            error = Failed(f"the machine refuses: {refused.strerror or refused}")
        except Exception as unexpected:
            log.exception(
                "driver failed", claim=claim.id, step=step, agent=self.name, request_id=claim.request_id
            )
            error = Failed(f"{type(unexpected).__name__}: {unexpected}")
        unknown = False
        if error is not None and driver is not None:
            try:
                thing = await driver.look(claim.id, claim.kind)
            except (Failed, OSError):
                unknown = True
        self._tasks.pop(claim.id, None)
        if error is None:
            log.debug("step done", claim=claim.id, step=step, agent=self.name, request_id=claim.request_id)
        else:
            log.info(
                "step failed", claim=claim.id, step=step, agent=self.name, reason=error.message,
                request_id=claim.request_id,
            )  # fmt: skip
        self._finish(claim, thing, error, unknown)

    def _finish(self, claim: wire.Claim, thing: Thing | None, error: Failed | None, unknown: bool) -> None:
        if not unknown:
            self._note(claim.id, thing)
        if error is None:
            self._failures.pop(claim.id, None)
            self._acted[claim.id] = claim.revision
        else:
            self._failures[claim.id] = self._failures.get(claim.id, 0) + 1
        self._tell(claim, thing, error, unknown)
        if self.claims.get(claim.id) is not claim:
            self._consider(claim.id)
        elif error is not None:
            self._pause(claim.id)
        self._consider_neighbours(claim)
        if claim.id in self._stale:
            self._stale.discard(claim.id)
            self._changed(claim.id)

    def _consider_neighbours(self, claim: wire.Claim) -> None:
        """What waits for the claim, in either direction."""
        for other in list(self._needed_by.get(claim.id, ())):
            self._consider(other)
        for need in claim.needs:
            if need.mine:
                self._consider(need.id)

    def _note(self, id: str, thing: Thing | None) -> None:
        if thing is None:
            self.things.pop(id, None)
            self._acted.pop(id, None)
        else:
            self.things[id] = thing

    def _tell(
        self, claim: wire.Claim, thing: Thing | None, error: Failed | None, unknown: bool = False
    ) -> None:
        facts = dict(thing.facts) if thing is not None else {}
        if error is not None and error.fatal:
            facts["fatal"] = True
        if error is not None and error.cause:
            facts["cause"] = error.cause
        self._outbox[claim.id] = wire.Sight(
            id=claim.id,
            revision=claim.revision,
            seen="unknown" if unknown else "absent" if thing is None else "present",
            facts=facts,
            error=error.message[:1000] if error is not None else None,
        )
        self._ready.set()

    def _pause(self, id: str) -> None:
        pause = min(FIRST_PAUSE * 2 ** min(self._failures.get(id, 0), 12), LONGEST_PAUSE)

        def resume() -> None:
            self._timers.pop(id, None)
            self._consider(id)

        self._timers[id] = asyncio.get_running_loop().call_later(pause, resume)

    def _interrupt(self, id: str) -> None:
        """What was being made is not wanted any more."""
        timer = self._timers.pop(id, None)
        if timer is not None:
            timer.cancel()
        task = self._tasks.get(id)
        if task is not None:
            task.cancel()
            task.add_done_callback(lambda _: self._begin(self._look_again(id)))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something beside the claims' own tasks, until the session ends."""
        task = asyncio.ensure_future(work)
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)

    async def _look_again(self, id: str) -> None:
        claim = self.claims.get(id)
        if claim is None or not self._serving:
            return
        self._tasks.pop(id, None)
        try:
            self._note(id, await self.drivers[claim.kind].look(id, claim.kind))
        except (Failed, KeyError):
            self._failures[id] = self._failures.get(id, 0) + 1
            self._pause(id)
            return
        self._consider(id)

    def _changed(self, id: str) -> None:
        """A thing changed by itself."""
        if id in self._tasks:
            self._stale.add(id)
        else:
            self._begin(self._see(id))

    async def _see(self, id: str) -> None:
        claim = self.claims.get(id)
        if claim is None or id in self._tasks:
            return
        try:
            thing = await self.drivers[claim.kind].look(id, claim.kind)
        except (Failed, OSError):
            return
        if id in self._tasks or thing == self.things.get(id):
            return
        done = self._done(id)
        self._note(id, thing)
        if thing is not None and done:
            self._tell(claim, thing, None)
        else:
            self._consider(id)

    # --- faults ---

    async def _fault(self, claim: wire.Claim, step: str, moment: Literal["before", "after"]) -> None:
        if not self._faults:
            return
        while True:
            found = await self.client.fault(wire.FaultQuery(claim.id, step, moment))
            if found.effect == "":
                return
            if found.effect == "hold":
                continue  # the question itself waits at the control plane
            if found.effect == "slow":
                await asyncio.sleep(found.seconds)
                return
            if found.effect == "crash":
                if self.crash is not None:
                    self.crash()
                raise Crashed
            raise Failed(found.message or f"a fault rule says {found.effect}")

    # --- the whole ---

    async def _observe(self) -> dict[str, Thing]:
        found: dict[str, Thing] = {}
        for driver in self._all_drivers:
            found.update(await driver.observe())
        return found

    async def _audit(self) -> None:
        """Look at everything now and then: things vanish, change and appear behind our back."""
        while True:
            await asyncio.sleep(self.audit_every)
            await self.audit()

    async def audit(self) -> None:
        """Compare all that exists with what is known, and report the difference."""
        busy = set(self._tasks)
        try:
            found = await self._observe()
        except Unknown as error:
            log.warning("agent cannot observe", agent=self.name, error=error.message)
            return
        for id in set(found) | set(self.things):
            if id in busy or id in self._tasks or found.get(id) == self.things.get(id):
                continue
            claim = self.claims.get(id)
            done = self._done(id)
            self._note(id, found.get(id))
            if claim is not None and done and id in found:
                self._tell(claim, found[id], None)
            elif claim is not None:
                self._consider(id)
        self._find_orphans()

    def _find_orphans(self) -> None:
        orphans = [
            wire.Orphan(id, thing.kind, thing.facts)
            for id, thing in self.things.items()
            if id not in self.claims
        ]
        told = {orphan.thing for orphan in orphans}
        if told or self._orphans_told:
            self._orphans = orphans
            self._ready.set()
        self._orphans_told = told

    async def _answer(self, question: wire.Question) -> None:
        error, answer = "", None
        try:
            answer = await self._what(question)
        except Failed as failed:
            error = failed.message
        except OSError as refused:
            error = f"the machine refuses: {refused.strerror or refused}"
        with contextlib.suppress(Unreachable, Rejected):
            await self.client.answer(question.id, answer, error)

    async def _what(self, question: wire.Question) -> AsyncIterator[bytes]:
        """The answer to a question about one of the agent's things, or about all. Raises Failed."""
        if question.name == "observe":
            return pieces(await self._everything())
        if question.name == "audit":
            await self.audit()
            # Whoever asked looks at the ledger next.
            await self._all_told()
            return pieces(b"{}")
        driver = next((d for d in self._all_drivers if self._kind_of(question) in d.kinds), None)
        if driver is None:
            raise Failed("this agent does not have it")
        return await driver.answer(question)

    async def _everything(self) -> bytes:
        """All that is here, and what it works on: wire.Everything."""
        busy = set(self._tasks)
        things = await self._observe()
        found = {id: (thing.kind, thing.facts) for id, thing in things.items()}
        return msgspec.json.encode(
            wire.Everything(found, sorted(busy | set(self._tasks) | set(self._outbox)))
        )

    def _kind_of(self, question: wire.Question) -> str:
        claim = self.claims.get(question.claim)
        return claim.kind if claim is not None else ""

    # --- forgetting ---

    def _forget(self, id: str) -> None:
        claim = self.claims.pop(id, None)
        if claim is not None:
            self._unlink(claim)
        self._acted.pop(id, None)
        self._failures.pop(id, None)
        self.store.forget(id)

    def _forget_all(self) -> None:
        for memory in (
            self.claims,
            self.things,
            self._acted,
            self._needed_by,
            self._failures,
            self._outbox,
            self._stale,
        ):
            memory.clear()
        self._ready.clear()
        self._crashed.clear()
        self._told = 0

    async def _stop_work(self) -> None:
        self._serving = False
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        tasks = [*self._tasks.values(), *self._answers]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._tasks.clear()


async def pieces(data: bytes) -> AsyncIterator[bytes]:
    """Bytes as an answer of one piece."""
    yield data
