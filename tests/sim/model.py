"""A small cloud that is explored whole: one server with a volume and a disk, two hosts, one volume back end.

The rules of the plan and the decisions of the ledger and of the agent are the real ones; around them is as
little as possible. Between any two steps anything may happen that can happen: answers and reports are
delayed and arrive late, agents die and their helpers live on, steps fail with and without effect, hosts fall
silent and come back, the user deletes the server or the volume. In every state the laws are checked:

* what exists, or may come to exist, has an open claim;
* the volume has one writer;
* no export is torn away under a guest, unless its host was given up;
* only what was given up is removed, and what kept data is not made again.

``Safeguards`` switches one of them off, to see that the exploration finds what it is for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from cumulet.agent.loop import choose
from cumulet.drivers.base import Thing
from cumulet.reconcile import ledger
from cumulet.reconcile.plan import base
from cumulet.reconcile.plan import server as plan
from cumulet.reconcile.plan import volume as volume_plan
from cumulet.values import CLAIM_KINDS, AgentView, Claim, Report
from cumulet.wire import agent as wire

HOSTS = ("h1", "h2")
BACKEND = "v"
AGENTS = (*HOSTS, BACKEND)
SERVER, VOLUME, ATTACHMENT = "s", "vol", "att"


@dataclass(frozen=True)
class Safeguards:
    """What the exploration does without, one at a time."""

    #: A claim is closed only by a report at its newest revision, and old answers are not believed.
    revision: bool = True
    #: Nothing is called absent while a helper works on it.
    lock_file: bool = True
    #: Things are removed only once nothing open needs them.
    needs: bool = True
    #: Only what is named as given up is removed.
    named: bool = True
    #: What kept data is never made again.
    made_once: bool = True
    #: A holder cannot go while it holds a claim.
    foreign_key: bool = True


class Broken(Exception):
    """A law does not hold; the message says which, and the path how it came to that."""


# Values that states are made of are tuples, so that they can be compared and hashed.


@dataclass(frozen=True)
class Known:
    """A claim as an agent knows it."""

    id: str
    kind: str
    wanted: bool
    act: bool
    made: bool
    revision: int
    mine: tuple[str, ...]


@dataclass(frozen=True)
class Helper:
    """A process that makes or removes a thing; it lives on when its agent dies."""

    id: str
    kind: str
    verb: str
    revision: int
    session: int


@dataclass(frozen=True)
class Agent:
    session: int = 0
    #: Highest revision that was heard of; -1 before the first answer of a session.
    since: int = -1
    known: tuple[Known, ...] = ()
    acted: tuple[tuple[str, int], ...] = ()
    #: What the agent believes to be here, and what is here.
    believed: frozenset[str] = frozenset()
    things: frozenset[str] = frozenset()
    helpers: tuple[Helper, ...] = ()
    outbox: tuple[tuple[str, int, str, bool], ...] = ()


@dataclass(frozen=True)
class News:
    agent: str
    session: int
    since: int
    revision: int
    claims: tuple[Known, ...]


@dataclass(frozen=True)
class Row:
    """The server's row."""

    desired: str = "active"
    vm_state: str = "building"
    task_state: str | None = "scheduling"
    power_state: int = 0
    host: str | None = None
    placed: bool = False
    giving_up: bool = False
    launched: bool = False
    attempts: int = 0


@dataclass(frozen=True)
class World:
    server: Row | None = Row()
    #: The volume's desired state; None when its row is gone.
    volume: str | None = "available"
    #: reserved, attaching, attached; "" once it ended; "passed" when the volume itself waits for it.
    attachment: str = "reserved"
    claims: tuple[Claim, ...] = ()
    counters: tuple[int, ...] = (0,) * len(AGENTS)
    agents: tuple[Agent, ...] = (Agent(),) * len(AGENTS)
    news: tuple[News, ...] = ()
    away: frozenset[str] = frozenset()
    late: bool = False
    faults: int = 0
    #: Ids of claims that were given up, that were left, and of disks that were made.
    given_up: frozenset[str] = frozenset()
    left: frozenset[str] = frozenset()
    disks: frozenset[str] = frozenset()
    drawn: int = 0
    #: What two workers have read and not yet written; only explored with ``torn``.
    pending: tuple[Any, ...] = (None, None)
    allocated: bool = False
    #: An older database was put back: things may exist that no ledger knows.
    restored: bool = False


def key(world: World) -> Any:
    """What tells two states apart. Revisions count by their order only, and ids that are nowhere not at all."""
    ranks = [_ranks(world, i, name) for i, name in enumerate(AGENTS)]
    of = dict(zip(AGENTS, ranks, strict=True))
    claims = tuple(
        (c.id, c.holder, c.wanted, of[c.agent][c.revision], of[c.agent][c.acted], c.seen, c.made, c.error,
         c.failing_since, c.needs, c.spec.get("power"), tuple(v["part"] for v in c.spec.get("volumes", ())))
        for c in world.claims
    )  # fmt: skip
    agents = tuple(_agent_key(agent, ranks[i]) for i, agent in enumerate(world.agents))
    news = tuple(
        (
            n.agent,
            of[n.agent][n.since],
            of[n.agent][n.revision],
            tuple(_known_key(k, of[n.agent]) for k in n.claims),
        )
        for n in world.news
    )
    alive = {c.id for c in world.claims}
    for agent in world.agents:
        alive |= agent.things | {h.id for h in agent.helpers} | {k.id for k in agent.known}
    return (
        world.server, world.volume, world.attachment, claims, agents, news, world.away, world.late, world.faults,
        world.given_up & alive, world.left & alive, world.disks & alive, world.drawn, repr(world.pending),
        world.allocated, world.restored,
    )  # fmt: skip


def _ranks(world: World, i: int, name: str) -> dict[int, int]:
    agent = world.agents[i]
    found = {-1, 0, world.counters[i], agent.since}
    found |= {c.revision for c in world.claims if c.agent == name} | {
        c.acted for c in world.claims if c.agent == name
    }
    found |= {k.revision for k in agent.known} | {r for _, r in agent.acted} | {s[1] for s in agent.outbox}
    found |= {h.revision for h in agent.helpers}
    for n in world.news:
        if n.agent == name:
            found |= {n.since, n.revision} | {k.revision for k in n.claims}
    return {revision: rank for rank, revision in enumerate(sorted(found))}


def _known_key(k: Known, rank: dict[int, int]) -> Any:
    return (k.id, k.wanted, k.act, k.made, rank[k.revision], k.mine)


def _agent_key(agent: Agent, rank: dict[int, int]) -> Any:
    return (
        rank[agent.since],
        tuple(_known_key(k, rank) for k in agent.known),
        tuple((id, rank[r]) for id, r in agent.acted),
        agent.believed,
        agent.things,
        frozenset((h.id, h.verb, rank[h.revision], h.session == agent.session) for h in agent.helpers),
        frozenset((id, rank[r], seen, failed) for id, r, seen, failed in agent.outbox),
    )


@dataclass
class Cloud:
    """The transitions between worlds."""

    safeguards: Safeguards = field(default_factory=Safeguards)
    #: Faults on one path at the most.
    faults: int = 2
    #: The back end can take an export away from a silent host.
    fences: bool = True
    with_disk: bool = False
    attempts: int = 2
    delete_volume: bool = False
    #: Reconcile without the holder's lock: two workers read, decide and write at different times.
    torn: bool = False

    # --- what can happen ---

    def steps(self, w: World) -> Iterator[tuple[str, World]]:
        """Everything that can happen next, with a name. Raises Broken."""
        if w.server is not None and w.server.desired != "gone":
            yield (
                "user deletes",
                self.settle(replace(w, server=replace(w.server, desired="gone", task_state="deleting"))),
            )
        if self.delete_volume and w.volume == "available" and w.attachment in ("", "passed"):
            yield "user deletes the volume", self.settle(replace(w, volume="gone"))
        if self.torn:
            yield from self._workers(w)
        for i, name in enumerate(AGENTS):
            yield from self._agent(w, i, name)
        for message in w.news:
            yield f"answer to {message.agent}", self._take(w, message)
        if w.faults < self.faults:
            for label, after in self._faults(w):
                yield label, replace(after, faults=w.faults + 1)
        for name in w.away:
            yield f"{name} comes back", self.settle(replace(w, away=w.away - {name}))

    def _faults(self, w: World) -> Iterator[tuple[str, World]]:
        for i, name in enumerate(AGENTS):
            agent = w.agents[i]
            # What it was told or had said goes with its connections: as if it had died a moment sooner.
            yield f"{name} dies", self._with_agent(
                replace(w, news=tuple(n for n in w.news if n.agent != name)), i,
                Agent(session=agent.session + 1, things=agent.things, helpers=agent.helpers),
            )  # fmt: skip
            if name not in w.away:
                yield f"{name} is silent", self.settle(replace(w, away=w.away | {name}))
        if not w.restored and any(agent.things for agent in w.agents):
            # The backup is from before the server was made; every agent begins a new session.
            agents = tuple(Agent(session=a.session + 1, things=a.things, helpers=a.helpers) for a in w.agents)
            yield (
                "an old database is restored",
                World(server=None, agents=agents, restored=True, disks=w.disks, given_up=w.given_up),
            )
        if not w.late and any(c.failing_since is not None for c in w.claims):
            yield "patience ends", self.settle(replace(w, late=True))

    # --- the control plane ---

    def settle(self, w: World) -> World:
        """Reconcile until nothing changes, as the real transaction does; then move revisions."""
        moved: set[str] = set()
        if self.torn:
            return w
        for _ in range(60):
            before = w
            for reconcile in (self._reconcile_server, self._reconcile_volume):
                w, more = reconcile(w)
                moved |= more
            if w == before:
                return self._flush(w, moved)
        raise Broken("the plan does not come to rest")

    def _flush(self, w: World, moved: set[str]) -> World:
        """Give what moved its agent's next revision. While the transaction is open it has that one already."""
        counters = list(w.counters)
        for name in {c.agent for c in w.claims if c.id in moved}:
            counters[AGENTS.index(name)] += 1
        return self._mark(replace(w, counters=tuple(counters)), moved, 0)

    @staticmethod
    def _mark(w: World, moved: set[str], ahead: int = 1) -> World:
        claims = tuple(
            msgspec.structs.replace(c, revision=w.counters[AGENTS.index(c.agent)] + ahead)
            if c.id in moved
            else c
            for c in w.claims
        )
        return replace(w, claims=claims)

    def _view(self, w: World) -> plan.Server:
        assert w.server is not None
        row = w.server
        volumes: tuple[plan.Volume, ...] = ()
        if w.volume is not None and w.attachment not in ("", "passed"):
            volumes = (
                plan.Volume(
                    attachment=ATTACHMENT, volume=VOLUME, agent=BACKEND, claim=None, ready=True, status=w.attachment,
                    connects=False, fences=self.fences,
                ),
            )  # fmt: skip
        made = any(c.kind == "disk" for c in w.claims)
        disks = (plan.Disk("root", {} if made else {"size": 1}),) if self.with_disk else ()
        return plan.Server(
            id=SERVER, desired=row.desired, vm_state=row.vm_state, task_state=row.task_state,
            power_state=row.power_state, now=10.0 if w.late else 0.0, patience=5.0, host=row.host, placed=row.placed,
            giving_up=row.giving_up, launched=row.launched, attempts=({"host": "x", "step": "x", "error": "x"},) * row.attempts,
            max_attempts=self.attempts, claims=tuple(c for c in w.claims if c.holder == SERVER), volumes=volumes,
            disks=disks, agents={n: AgentView(n, "host", n, n in w.away) for n in AGENTS}, allocated=w.allocated,
        )  # fmt: skip

    def _reconcile_server(self, w: World) -> tuple[World, set[str]]:
        if w.server is None:
            return w, set()
        _, step = base.decide(self._view(w), plan.RULES)
        if isinstance(step, base.Wait | base.Rest):
            return w, set()
        return self._apply(w, SERVER, step)

    def _volume_view(self, w: World) -> volume_plan.Volume | None:
        if w.volume is None:
            return None
        return volume_plan.Volume(
            id=VOLUME, kind="volume", desired=w.volume, status="available" if w.volume == "available" else "deleting",
            now=10.0 if w.late else 0.0, patience=5.0, agent=BACKEND,
            claims=tuple(c for c in w.claims if c.holder == VOLUME),
            passed=(volume_plan.Attachment(ATTACHMENT),) if w.attachment == "passed" else (),
            agents={n: AgentView(n, "host", n, n in w.away) for n in AGENTS},
        )  # fmt: skip

    #: The volume's own bytes do not matter here: only rules about exports and removal.
    VOLUME_RULES = (
        volume_plan.end_attachments, volume_plan.want_it_no_more, volume_plan.wait_until_it_is_removed,
        volume_plan.remove_the_record, volume_plan.wait_for_exports,
    )  # fmt: skip

    def _reconcile_volume(self, w: World) -> tuple[World, set[str]]:
        view = self._volume_view(w)
        if view is None:
            return w, set()
        _, step = base.decide(view, self.VOLUME_RULES)
        if isinstance(step, base.Wait | base.Rest):
            return w, set()
        return self._apply(w, VOLUME, step)

    def _workers(self, w: World) -> Iterator[tuple[str, World]]:
        """Two workers without a lock: each reads and decides, and writes when it likes."""
        for i, pending in enumerate(w.pending):
            slots = list(w.pending)
            if pending is not None:
                slots[i] = None
                after, moved = self._apply(replace(w, pending=tuple(slots)), SERVER, pending)
                yield f"worker {i} writes", self._flush(after, moved)
            elif w.server is not None:
                _, step = base.decide(self._view(w), plan.RULES)
                if not isinstance(step, base.Wait | base.Rest):
                    slots[i] = tuple(step)
                    yield f"worker {i} reads", replace(w, pending=tuple(slots))

    def _apply(self, w: World, holder: str, step: Any) -> tuple[World, set[str]]:
        moved: set[str] = set()
        for change in step:
            w = self._change(w, holder, change, moved)
        return self._mark(w, moved), moved

    def _change(self, w: World, holder: str, change: base.Change, moved: set[str]) -> World:
        claims = {c.id: c for c in w.claims}
        if self.torn and not self._still_there(w, change, claims):
            return w
        match change:
            case base.Open():
                if w.server is None and self.safeguards.foreign_key:
                    return w  # refused: there is no such holder
                id = f"{change.kind}{w.drawn}"
                needs = []
                for need in change.needs:
                    named = next(
                        (
                            c.id
                            for c in w.claims
                            if (c.kind, c.part) == need and c.wanted and c.holder == holder
                        ),
                        None,
                    )
                    if named is not None:
                        needs.append(named)
                claims[id] = Claim(
                    id=id, kind=change.kind, holder=holder, agent=change.agent, wanted=True, revision=0,
                    spec=change.spec, needs=tuple(needs), part=change.part,
                )  # fmt: skip
                moved.add(id)
                w = replace(w, drawn=w.drawn + 1)
            case base.Respec():
                claims[change.claim] = msgspec.structs.replace(claims[change.claim], spec=change.spec)
                moved.add(change.claim)
            case base.Unwant():
                for id in change.claims:
                    if claims[id].wanted:
                        claims[id] = msgspec.structs.replace(
                            claims[id], wanted=False, error=None, failing_since=None
                        )
                        moved.add(id)
                w = replace(w, given_up=w.given_up | set(change.claims))
            case base.DropNeed():
                c = claims[change.claim]
                claims[c.id] = msgspec.structs.replace(
                    c, needs=tuple(n for n in c.needs if n != change.needs)
                )
                need = claims.get(change.needs)
                if need is not None and not need.wanted:
                    moved.add(need.id)
                if need is not None and need.agent == c.agent:
                    moved.add(c.id)
            case base.Leave():
                claims[change.claim] = msgspec.structs.replace(claims[change.claim], holder=None, left=True)
                w = replace(w, left=w.left | {change.claim})
            case base.HandOver():
                if w.volume is None and self.safeguards.foreign_key:
                    return w  # refused: there is no such holder
                claims[change.claim] = msgspec.structs.replace(claims[change.claim], holder=change.holder)
            case base.Set():
                assert w.server is not None
                values = dict(change.values)
                values.pop("launched_at", None)
                if "launched_at" in change.values:
                    values["launched"] = True
                if "attempts" in values:
                    values["attempts"] = len(values["attempts"])
                w = replace(w, server=replace(w.server, **values))
            case base.Remove():
                if self.safeguards.foreign_key and any(c.holder == holder for c in claims.values()):
                    return w  # refused, and tried again later
                w = replace(w, server=None) if holder == SERVER else replace(w, volume=None)
                # Without the foreign key the claims go with their holder.
                claims = {id: c for id, c in claims.items() if c.holder != holder}
            case plan.Place():
                assert w.server is not None
                free = [h for i, h in enumerate(HOSTS) if h not in w.away and i >= w.server.attempts]
                if free:
                    w = replace(
                        w,
                        server=replace(w.server, host=free[0], placed=True, task_state="spawning"),
                        allocated=True,
                    )
                else:
                    w = replace(w, server=replace(w.server, desired="failed"))
            case plan.SetAttachment():
                w = replace(w, attachment=change.status)
            case plan.EndAttachment() | volume_plan.EndPassed():
                w = replace(w, attachment="")
            case plan.PassAttachment():
                w = replace(w, attachment="passed")
            case plan.FreeAllocation():
                w = replace(w, allocated=False)
            case plan.Fault() | plan.Arrived():
                pass
            case _:
                raise NotImplementedError(type(change).__name__)
        order = sorted(claims.values(), key=lambda c: (CLAIM_KINDS[c.kind], c.id))
        return replace(w, claims=tuple(order))

    @staticmethod
    def _still_there(w: World, change: base.Change, claims: dict[str, Claim]) -> bool:
        """False for an update of a row that somebody else removed, which changes nothing."""
        if isinstance(change, base.Respec | base.DropNeed | base.Leave | base.HandOver):
            return change.claim in claims
        if isinstance(change, base.Unwant):
            return all(id in claims for id in change.claims)
        return w.server is not None or isinstance(change, base.Open)

    # --- an agent ---

    def _with_agent(self, w: World, i: int, agent: Agent) -> World:
        """The world with that agent, which has begun whatever it can begin.

        To begin at once loses nothing: what is begun takes as long as it likes, and what was seen waits in the
        outbox.
        """
        agents = list(w.agents)
        agents[i] = agent
        w = replace(w, agents=tuple(agents))
        for known in agent.known:
            after = self._work(w, i, agent, known)
            if after is not None:
                return self._with_agent(w, i, after)
        return w

    def _agent(self, w: World, i: int, name: str) -> Iterator[tuple[str, World]]:
        agent = w.agents[i]
        mine = [n for n in w.news if n.agent == name]
        # A poll is worth modelling only when there is something to hear.
        if w.counters[i] > agent.since and not mine:
            yield f"{name} polls", replace(w, news=(*w.news, self._feed(w, i, name)))
        for helper in agent.helpers:
            yield from self._help(w, i, agent, helper)
        if agent.outbox:
            # What was seen waits in the outbox for as long as a report would be under way.
            yield f"{name} reports", self._hear(w, i, agent.outbox)

    def _feed(self, w: World, i: int, name: str) -> News:
        agent = w.agents[i]
        claims = {c.id: c for c in w.claims}
        found = []
        for c in w.claims:
            if c.agent != name or c.revision <= agent.since:
                continue
            needs = [claims[n] for n in c.needs if n in claims]
            needed_by = [o for o in w.claims if c.id in o.needs]
            act = ledger.servable(c, needs, needed_by) if self.safeguards.needs else True
            found.append(
                Known(
                    c.id,
                    c.kind,
                    c.wanted,
                    act,
                    c.made,
                    c.revision,
                    tuple(n.id for n in needs if n.agent == name),
                )
            )
        return News(name, agent.session, agent.since, w.counters[i], tuple(found))

    def _take(self, w: World, message: News) -> World:
        w = replace(w, news=tuple(n for n in w.news if n is not message))
        i = AGENTS.index(message.agent)
        agent = w.agents[i]
        if message.session != agent.session:
            return w  # the connection went with the process
        if self.safeguards.revision and message.since != agent.since:
            return w  # an older question's answer
        known = {k.id: k for k in agent.known}
        first = agent.since == -1
        helpers = list(agent.helpers)
        things = set(agent.things)
        for k in message.claims:
            old = known.get(k.id)
            if self.safeguards.revision and old is not None and old.revision >= k.revision:
                continue
            known[k.id] = k
            if old is not None and old.wanted and not k.wanted:
                # A helper of ours that makes it is killed; what it had done by then is done.
                helpers = [
                    h
                    for h in helpers
                    if not (h.id == k.id and h.verb == "make" and h.session == agent.session)
                ]
        believed = set(agent.believed)
        if first:
            believed = set(agent.things)
        if not self.safeguards.named and first:
            # Without the safeguard, whatever the list does not name is removed.
            self._check_removed(w, things - set(known))
        after = replace(
            agent, since=max(agent.since, message.revision), known=_sorted(known), helpers=tuple(helpers),
            things=frozenset(things), believed=frozenset(believed),
        )  # fmt: skip
        return self._with_agent(w, i, after)

    def _check_removed(self, w: World, ids: set[str]) -> None:
        wrong = ids - w.given_up
        if wrong:
            raise Broken(f"{', '.join(sorted(wrong))} was removed, and nobody had given it up")

    def _work(self, w: World, i: int, agent: Agent, known: Known) -> Agent | None:
        """The agent after it has begun to do what is to be done about a claim; None if that is nothing."""
        if any(h.id == known.id and h.session == agent.session for h in agent.helpers):
            return None
        acted = dict(agent.acted)
        by_id = {k.id: k for k in agent.known}

        def done(id: str) -> bool:
            return id in by_id and id in agent.believed and acted.get(id, -1) >= by_id[id].revision

        if known.wanted and known.act and done(known.id):
            return None
        if any(h.id == known.id for h in agent.helpers) and self.safeguards.lock_file:
            return None  # a helper of an agent that died still has the lock
        needed = any(known.id in k.mine and k.id in agent.believed for k in agent.known)
        claim = wire.Claim(
            id=known.id, kind=known.kind, part="", holder=None, wanted=known.wanted, act=known.act,
            made=known.made and self.safeguards.made_once, revision=known.revision, spec={},
            needs=[wire.Need(n, "", "", {}, True) for n in known.mine],
        )  # fmt: skip
        thing = Thing(known.kind) if known.id in agent.believed else None
        choice = choose(claim, thing, done, needed)
        if choice == "tell":
            if thing is None and known.id in agent.things and self.safeguards.lock_file:
                # With the lock in hand it looks once more: a helper of before may have ended meanwhile.
                return replace(agent, believed=agent.believed | {known.id})
            sight = (known.id, known.revision, "absent" if thing is None else "present", False)
            if sight in agent.outbox or self._said(w, known, sight):
                return None
            return _outbox(agent, sight)
        if choice in ("make", "remove"):
            helper = Helper(known.id, known.kind, choice, known.revision, agent.session)
            return replace(agent, helpers=(*agent.helpers, helper))
        return None

    @staticmethod
    def _said(w: World, known: Known, sight: tuple[str, int, str, bool]) -> bool:
        """The ledger knows it already: saying it again changes nothing."""
        claim = next((c for c in w.claims if c.id == known.id), None)
        return claim is None or (claim.seen == sight[2] and claim.acted == sight[1])

    def _help(self, w: World, i: int, agent: Agent, helper: Helper) -> Iterator[tuple[str, World]]:
        rest = tuple(h for h in agent.helpers if h is not helper)
        ours = helper.session == agent.session
        makes = helper.verb == "make"
        things = agent.things | {helper.id} if makes else agent.things - {helper.id}
        if makes and helper.kind == "disk" and helper.id in w.disks and helper.id not in agent.things:
            raise Broken(f"{helper.id} kept data, and was made again")
        if not makes:
            self._check_removed(w, {helper.id})
        label = f"{AGENTS[i]}'s helper ends to {helper.verb} {helper.id}"
        disks = w.disks | {helper.id} if makes and helper.kind == "disk" else w.disks
        after = replace(agent, helpers=rest, things=things)
        if ours:
            believed = agent.believed | {helper.id} if makes else agent.believed - {helper.id}
            acted = {**dict(agent.acted), helper.id: helper.revision}
            if not makes:
                acted.pop(helper.id)
            sight = (helper.id, helper.revision, "present" if makes else "absent", False)
            after = replace(_outbox(after, sight), believed=believed, acted=tuple(sorted(acted.items())))
        yield label, self._with_agent(replace(w, disks=disks), i, after)
        if w.faults < self.faults and ours:
            for effect in (False, True):
                if effect and not makes:
                    continue
                here = things if effect else agent.things
                believed = (
                    (agent.believed | {helper.id}) if helper.id in here else agent.believed - {helper.id}
                )
                seen = "present" if helper.id in here else "absent"
                failed = replace(
                    _outbox(agent, (helper.id, helper.revision, seen, True)),
                    helpers=rest,
                    things=here,
                    believed=believed,
                )
                yield (
                    f"{label}, but fails",
                    self._with_agent(
                        replace(w, faults=w.faults + 1, disks=disks if effect else w.disks), i, failed
                    ),
                )

    def vanish(self, w: World) -> Iterator[tuple[str, World]]:
        """Somebody deletes a disk behind the cloud's back, and its agent notices."""
        for i, agent in enumerate(w.agents):
            for id in agent.things:
                if id.startswith("disk"):
                    yield f"{id} vanishes", self._with_agent(
                        w, i,
                        replace(agent, things=agent.things - {id}, believed=agent.believed - {id},
                                acted=tuple(a for a in agent.acted if a[0] != id),
                                known=tuple(replace(k, made=True) if k.id == id else k for k in agent.known)),
                    )  # fmt: skip

    def _hear(self, w: World, i: int, sights: tuple[tuple[str, int, str, bool], ...]) -> World:
        moved: set[str] = set()
        claims = {c.id: c for c in w.claims}
        for id, revision, seen, failed in sights:
            before = claims.get(id)
            if before is None or before.agent != AGENTS[i]:
                continue
            report = Report(
                id, revision, seen, {"power": "on"} if seen == "present" else {}, "failed" if failed else None
            )  # type: ignore[arg-type]
            after = ledger.heard(before, report, 0.0)
            claims[id] = after
            if after.ready and not before.ready:
                moved |= {o.id for o in claims.values() if id in o.needs and ledger.awaits(o, after)}
        self._close(claims, moved)
        agent = w.agents[i]
        outbox = tuple(s for s in agent.outbox if s not in sights)
        gone = {
            s[0] for s in sights if s[2] == "absent"
            for k in agent.known if k.id == s[0] and not k.wanted and k.revision == s[1]
        }  # fmt: skip
        agent = replace(agent, outbox=outbox, known=tuple(k for k in agent.known if k.id not in gone))
        order = sorted(claims.values(), key=lambda c: (CLAIM_KINDS[c.kind], c.id))
        w = self._with_agent(replace(w, claims=tuple(order)), i, agent)
        w = self._flush(w, moved)
        return self.settle(w)

    def _close(self, claims: dict[str, Claim], moved: set[str]) -> None:
        again = True
        while again:
            again = False
            for c in sorted(claims.values(), key=lambda c: -c.rank):
                needed_by = [o for o in claims.values() if c.id in o.needs]
                if not self.safeguards.needs:
                    needed_by = []
                asked = c if self.safeguards.revision else msgspec.structs.replace(c, acted=c.revision)
                if c.id in moved or not ledger.closable(asked, needed_by):
                    continue
                del claims[c.id]
                moved |= {
                    n for n in c.needs if n in claims and not claims[n].wanted and claims[n].agent != c.agent
                }
                again = True

    # --- the laws ---

    def check(self, w: World) -> None:
        """Raise Broken if a law does not hold in this world."""
        open_ = {c.id: c for c in w.claims}
        exporting = []
        for i, name in enumerate(AGENTS):
            agent = w.agents[i]
            coming = {h.id for h in agent.helpers if h.verb == "make"}
            lost = sorted((agent.things | coming) - set(open_))
            if lost and not w.restored:
                raise Broken(f"{', '.join(lost)} on {name} is in no ledger")
            for id in agent.things & set(open_):
                claim = open_[id]
                if claim.kind == "export":
                    exporting.append(id)
                elif (
                    claim.kind == "guest"
                    and id not in w.left
                    and not self.torn
                    and not self._exported(w, claim)
                ):
                    raise Broken(f"the export of {id} was torn away while it runs")
        if len(exporting) > 1 and not self.torn:
            raise Broken(f"the volume has two writers: {', '.join(sorted(exporting))}")
        if w.server is None and any(c.holder == SERVER for c in w.claims):
            raise Broken("a claim's holder is gone")

    @staticmethod
    def _exported(w: World, guest: Claim) -> bool:
        exports = w.agents[AGENTS.index(BACKEND)].things
        volumes = guest.spec.get("volumes", ())
        return not volumes or any(id.startswith("export") for id in exports)


def _sorted(known: dict[str, Known]) -> tuple[Known, ...]:
    return tuple(known[id] for id in sorted(known))


def _outbox(agent: Agent, sight: tuple[str, int, str, bool]) -> Agent:
    return replace(agent, outbox=(*(s for s in agent.outbox if s[0] != sight[0]), sight))


@dataclass
class Found:
    """What an exploration found."""

    states: int
    #: How it came to a broken law; empty if none was broken.
    path: list[str]
    law: str = ""
    whole: bool = True


def calm(cloud: Cloud, w: World) -> World:
    """What becomes of a world when nothing goes wrong any more, and its server is deleted at last.

    Raises Broken if it does not end with nothing left.
    """
    quiet = replace(cloud, faults=0)
    for name in tuple(w.away):
        w = quiet.settle(replace(w, away=w.away - {name}))
    for ending in (False, True):
        if ending and w.server is not None and w.server.desired != "gone":
            w = quiet.settle(replace(w, server=replace(w.server, desired="gone", task_state="deleting")))
        for _ in range(400):
            step = next((s for s in quiet.steps(w) if not s[0].startswith("user ")), None)
            if step is None:
                break
            w = step[1]
        else:
            raise Broken("it does not come to rest")
    left = [*(c.id for c in w.claims), *(id for agent in w.agents for id in agent.things)]
    if w.server is not None or (left and not w.restored):
        raise Broken(f"the server {'stays' if w.server else 'is gone'}, and {left} is left")
    return w


def explore(
    cloud: Cloud, *, limit: int = 2_000_000, vanish: bool = False, calm_every: int | None = None
) -> Found:
    """Every reachable state, or the shortest way to a broken law, or ``limit`` states.

    From every ``calm_every``-th state on it is also seen that all ends well once nothing goes wrong any more.
    """
    start = cloud.settle(World())
    parents: dict[Any, tuple[Any, str]] = {key(start): (None, "")}
    frontier = [start]
    while frontier:
        upcoming = []
        for world in frontier:
            here = key(world)
            steps = cloud.steps(world)
            try:
                following = list(steps)
                if vanish and world.faults < cloud.faults:
                    following += [
                        (label, replace(after, faults=world.faults + 1))
                        for label, after in cloud.vanish(world)
                    ]
            except Broken as broken:
                return Found(len(parents), _path(parents, here), str(broken))
            for label, after in following:
                id = key(after)
                if id in parents:
                    continue
                parents[id] = (here, label)
                try:
                    cloud.check(after)
                    if calm_every and len(parents) % calm_every == 0:
                        calm(cloud, after)
                except Broken as broken:
                    return Found(len(parents), _path(parents, id), str(broken))
                upcoming.append(after)
            if len(parents) >= limit:
                return Found(len(parents), [], whole=False)
        frontier = upcoming
    return Found(len(parents), [])


def _path(parents: dict[Any, tuple[Any, str]], id: Any) -> list[str]:
    labels: list[str] = []
    while id is not None:
        id, label = parents[id]
        labels.append(label)
    return labels[::-1][1:]
