"""What a state of the small cloud is made of: plain values that are compared, and written down as bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from cumulet.values import Claim
from cumulet.wire import agent as wire

SERVER, VOLUME, ATTACHMENT, IMAGE, MOVE = "s", "vol", "att", "img", "m"
BACKEND, STORE = "v", "i"
POWER = "power"


class Broken(Exception):
    """A law does not hold; the message says which, and the path how it came to that."""


# --- what the control plane has ---


class Move(Struct, frozen=True):
    """The server's move to another host."""

    type: str
    source: str
    phase: str = "preparing"
    target: str | None = None
    error: str | None = None


class Row(Struct, frozen=True):
    """The server's row."""

    desired: str = "active"
    vm_state: str = "building"
    task_state: str | None = "scheduling"
    state_is_reset: bool = False
    power_state: int = 0
    host: str | None = None
    placed: bool = False
    giving_up: bool = False
    launched: bool = False
    attempts: int = 0
    #: The counter of its starts.
    starts: int = 0
    #: When the build of a server that was shelved must be over.
    build_until: float | None = None
    move: Move | None = None
    #: The image is that of its shelving, or one that is made of it.
    shelved: bool = False
    shelved_at: float | None = None
    snapshot: bool = False


class Image(Struct, frozen=True):
    """The image's row."""

    desired: str = "present"
    status: str = "queued"
    #: The claim of the disk that it is copied from, and its host.
    source: tuple[str, str] | None = None
    #: It is deleted together with the server.
    leaving: bool = False


class Control(Struct, frozen=True):
    """All that the control plane knows."""

    #: Counters of the agents' revisions.
    counters: tuple[int, ...]
    server: Row | None = Row()
    #: The volume's desired state; None when its row is gone, or there never was one.
    volume: str | None = "available"
    #: reserved, attaching, attached; "" once it ended; "passed" when the volume itself waits for it.
    attachment: str = "reserved"
    attached_to: str | None = None
    image: Image | None = None
    claims: tuple[Claim, ...] = ()
    #: Who has room at placement: the server, its move.
    consumers: tuple[str, ...] = ()
    away: tuple[str, ...] = ()
    #: The time.
    now: float = 0.0
    #: Ids of claims that were given up, and of those that were left.
    given_up: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    drawn: int = 0
    #: What two workers have read and not yet written; only explored with ``torn``.
    pending: tuple[Any, Any] = (None, None)


# --- what the agents have ---


class Thing(Struct, frozen=True):
    """Something that exists."""

    id: str
    kind: str
    facts: dict[str, Any] = {}
    #: A guest whose processors run.
    runs: bool = False
    #: The exports that a guest or a connection has opened.
    uses: tuple[str, ...] = ()
    #: Data that is not whole.
    torn: bool = False


class Helper(Struct, frozen=True):
    """A process that makes or removes a thing; it lives on when its agent dies, and is nobody's then."""

    verb: Literal["make", "remove"]
    claim: wire.Claim
    ours: bool = True

    @property
    def id(self) -> str:
        return self.claim.id


class Sight(Struct, frozen=True):
    """What an agent is about to report."""

    id: str
    revision: int
    seen: Literal["present", "absent"]
    failed: bool = False
    facts: dict[str, Any] = {}


class Agent(Struct, frozen=True):
    #: Highest revision that was heard of; -1 before the first answer of a session.
    since: int = -1
    #: What it knows of the ledger.
    claims: tuple[wire.Claim, ...] = ()
    acted: tuple[tuple[str, int], ...] = ()
    #: What it believes to be here, and what is here.
    believed: tuple[str, ...] = ()
    things: tuple[Thing, ...] = ()
    helpers: tuple[Helper, ...] = ()
    outbox: tuple[Sight, ...] = ()

    def thing(self, id: str) -> Thing | None:
        return next((thing for thing in self.things if thing.id == id), None)


class News(Struct, frozen=True):
    """An answer that is on its way to an agent."""

    agent: str
    since: int
    revision: int
    claims: tuple[wire.Claim, ...]


class World(Struct, frozen=True):
    control: Control
    agents: tuple[Agent, ...]
    news: tuple[News, ...] = ()
    faults: int = 0
    #: What users did, each once, and that a host lost power.
    done: tuple[str, ...] = ()
    #: Ids of disks that were made.
    disks: tuple[str, ...] = ()
    #: An older database was put back: things may exist that no ledger knows.
    restored: bool = False


# --- small words ---


def added(ids: tuple[str, ...], more: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({*ids, *more}))


def without(ids: tuple[str, ...], gone: str) -> tuple[str, ...]:
    return tuple(id for id in ids if id != gone)


def put(things: tuple[Any, ...], new: Any) -> tuple[Any, ...]:
    """The values, sorted by id, with a new one in place of the one of its id."""
    return tuple(sorted((*(one for one in things if one.id != new.id), new), key=lambda one: str(one.id)))


def drop(things: tuple[Any, ...], id: str) -> tuple[Any, ...]:
    return tuple(one for one in things if one.id != id)


def here(w: World, kind: str) -> Iterator[tuple[int, Thing]]:
    """(agent's index, thing) of everything of a kind that exists."""
    for i, agent in enumerate(w.agents):
        for thing in agent.things:
            if thing.kind == kind:
                yield i, thing


# --- telling worlds apart ---

_encode = msgspec.msgpack.Encoder().encode


def key(w: World | Control) -> bytes:
    """What tells two worlds apart, once they are in the normal form."""
    return _encode(w)


def normal(w: World, names: tuple[str, ...]) -> World:
    """The same world with revisions that count by their order only, and without ids that are nowhere."""
    ranks = {name: _ranks(w, i, name) for i, name in enumerate(names)}
    if any(rank != found for of in ranks.values() for found, rank in of.items()):
        w = _ranked(w, names, ranks)
    alive = {claim.id for claim in w.control.claims}
    for agent in w.agents:
        for named in (agent.things, agent.helpers, agent.claims, agent.outbox):
            alive.update(one.id for one in named)
    c = w.control
    given_up = tuple(id for id in c.given_up if id in alive)
    left = tuple(id for id in c.left if id in alive)
    disks = tuple(id for id in w.disks if id in alive)
    drawn = 1 + max((int(id.lstrip("abcdefghijklmnopqrstuvwxyz")) for id in alive), default=-1)
    if c.pending != (None, None):
        drawn = c.drawn
    if (given_up, left, disks, drawn) != (c.given_up, c.left, w.disks, c.drawn):
        w = replace(w, control=replace(c, given_up=given_up, left=left, drawn=drawn), disks=disks)
    return w


def _ranks(w: World, i: int, name: str) -> dict[int, int]:
    agent = w.agents[i]
    found = {-1, 0, w.control.counters[i], agent.since}
    for claim in w.control.claims:
        if claim.agent == name:
            found.add(claim.revision)
            found.add(claim.acted)
    found.update(claim.revision for claim in agent.claims)
    found.update(revision for _, revision in agent.acted)
    found.update(sight.revision for sight in agent.outbox)
    found.update(helper.claim.revision for helper in agent.helpers)
    for message in w.news:
        if message.agent == name:
            found |= {message.since, message.revision, *(claim.revision for claim in message.claims)}
    return {revision: rank for rank, revision in enumerate(sorted(found), start=-1)}


def _ranked(w: World, names: tuple[str, ...], ranks: dict[str, dict[int, int]]) -> World:
    c = w.control
    claims = tuple(
        replace(claim, revision=ranks[claim.agent][claim.revision], acted=ranks[claim.agent][claim.acted])
        for claim in c.claims
    )
    counters = tuple(ranks[name][counter] for name, counter in zip(names, c.counters, strict=True))
    agents = tuple(_ranked_agent(agent, ranks[name]) for name, agent in zip(names, w.agents, strict=True))
    news = tuple(
        replace(
            message, since=ranks[message.agent][message.since], revision=ranks[message.agent][message.revision],
            claims=_ranked_claims(message.claims, ranks[message.agent]),
        )
        for message in w.news
    )  # fmt: skip
    return replace(w, control=replace(c, claims=claims, counters=counters), agents=agents, news=news)


def _ranked_claims(claims: tuple[wire.Claim, ...], rank: dict[int, int]) -> tuple[wire.Claim, ...]:
    return tuple(replace(claim, revision=rank[claim.revision]) for claim in claims)


def _ranked_agent(agent: Agent, rank: dict[int, int]) -> Agent:
    return replace(
        agent,
        since=rank[agent.since],
        claims=_ranked_claims(agent.claims, rank),
        acted=tuple((id, rank[revision]) for id, revision in agent.acted),
        helpers=tuple(
            replace(helper, claim=replace(helper.claim, revision=rank[helper.claim.revision]))
            for helper in agent.helpers
        ),
        outbox=tuple(replace(sight, revision=rank[sight.revision]) for sight in agent.outbox),
    )
