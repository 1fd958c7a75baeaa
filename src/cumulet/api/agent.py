"""The agents' protocol, served below /agent. See wire/agent.py for what travels."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
import structlog

from cumulet.api import faults as dialects
from cumulet.api.asgi import Area, Route
from cumulet.api.query import whole
from cumulet.api.request import Request, Response, ok
from cumulet.core import faults, scheduling
from cumulet.db.engine import Database, Row, Tx
from cumulet.errors import Conflict, CumuletError, Forbidden, Invalid, NotFound, Unauthorized, Unavailable
from cumulet.reconcile import agents, holders, ledger, mode
from cumulet.values import Caller, Report
from cumulet.wire import agent as wire
from cumulet.wire.body import decode

log = structlog.get_logger()

#: Bytes of a report at the most: many claims, each with its facts.
REPORT_LIMIT = 8 << 20
#: What is asked within a session, which a new token and the agent's end close: here a token that was good once
#: is good enough, for the session is looked at in any case.
_IN_SESSION = frozenset({"/agent/v1/claims", "/agent/v1/report"})
#: Tokens that are remembered at the most.
REMEMBERED = 10_000
#: Orphans of one agent that are on record at the most.
ORPHANS = 10_000
#: Seconds that an agent has to begin an answer.
ANSWER_TIME = 30.0


async def authenticate(request: Request) -> Caller:
    """The agent by its id and token; it is nobody in the other areas."""
    id, token = request.headers.get("x-agent", ""), request.headers.get("x-agent-token", "")
    if not id or not token:
        raise Unauthorized("An agent's id and token are needed.")
    known = request.cloud.agents.get((id, token))
    if known is not None and request.path in _IN_SESSION:
        return known
    row = await request.cloud.db.read(agents.authenticate, id, token)
    caller = Caller(user_id=row["id"], user_name=row["name"], roles=frozenset({"agent"}))
    if len(request.cloud.agents) >= REMEMBERED:
        request.cloud.agents.clear()
    request.cloud.agents[id, token] = caller
    return caller


async def hello(request: Request) -> Response:
    said = await request.struct(wire.Hello)
    if said.version not in (wire.VERSION, wire.VERSION - 1):
        raise Invalid(f"Version {said.version} of the agents' protocol is not served; {wire.VERSION} is.")
    if said.kind in wire.FACTS:
        decode(said.facts, wire.FACTS[said.kind], request.version)
    await request.cloud.db.write(_hello, request.caller.user_id, said)
    return ok(wire.Welcome(wire.VERSION, request.caller.user_id, _longest_poll(request)))


def _longest_poll(request: Request) -> float:
    """Seconds that a poll may stay open: an agent that only waits must be heard several times within the patience."""
    times = request.cloud.config.reconcile
    return float(min(times.poll, times.patience / 4))


def _hello(tx: Tx, agent: str, said: wire.Hello) -> None:
    row = tx.one("select * from agents where id = :id", id=agent)
    assert row is not None
    if (row["kind"], row["name"]) != (said.kind, said.name):
        raise Forbidden(
            f"This token is for the {row['kind']} {row['name']}, not for the {said.kind} {said.name}."
        )
    agents.hello(tx, row, directory=said.directory, session=said.session, facts=said.facts)
    if said.kind == "host":
        scheduling.register_host(tx, agent, said.name, said.facts)


async def claims(request: Request) -> Response:
    """The long poll."""
    cloud = request.cloud
    agent = request.caller.user_id
    session = request.arg("session") or ""
    since = whole(request, "since") or 0
    try:
        wait = min(float(request.arg("wait") or 0), _longest_poll(request))
    except ValueError:
        raise Invalid("Invalid input for query parameters wait: a number of seconds was expected.") from None
    until = asyncio.get_running_loop().time() + wait
    with cloud.db.wake.listen(agent) as waiter:
        while True:
            news, stale = await cloud.db.read(_news, agent, session, since, cloud.config.reconcile.patience)
            if stale:
                await cloud.db.write(agents.heard_of, agent, patience=cloud.config.reconcile.patience)
            news.questions = await cloud.questions.take(agent)
            left = until - asyncio.get_running_loop().time()
            told = news.faults == (request.arg("faults") == "1")
            if cloud.closing:
                raise Unavailable("This process of the cloud ends.")
            if news.claims or news.questions or left <= 0 or not told:
                return ok(news)
            if not await waiter.wait(left):
                return ok(news)


def _session(tx: Tx, agent: str, session: str) -> Row:
    row = tx.one(
        "select session, sequence, silent, seen_at, revision, exists(select 1 from faults) as faults, "
        f"{mode.IS_ON} as report_only from agents where id = :id",
        id=agent,
    )
    if row is None or row["session"] != session:
        raise Conflict("This session has ended: a newer session of the agent began.")
    return row


def _news(tx: Tx, agent: str, session: str, since: int, patience: float) -> tuple[wire.News, bool]:
    row = _session(tx, agent, session)
    stale = row["silent"] or row["seen_at"] is None or tx.now - row["seen_at"] > patience * agents.NOTE_EVERY
    rules = bool(row["faults"])
    if row["revision"] <= since and since > 0:
        return wire.News(since, [], faults=rules), stale
    revision, served, more = ledger.feed(tx, agent, since)
    if row["report_only"]:
        served = [msgspec.structs.replace(one, act=False) for one in served]
    return wire.News(revision, [_wire(one, agent) for one in served], more=more, faults=rules), stale


def _wire(served: ledger.Served, agent: str) -> wire.Claim:
    claim = served.claim
    return wire.Claim(
        id=claim.id, kind=claim.kind, part=claim.part, holder=claim.holder, wanted=claim.wanted, act=served.act,
        made=claim.made, revision=claim.revision, spec=dict(claim.spec), request_id=claim.request_id,
        needs=[
            wire.Need(need.id, need.kind, need.part, dict(need.facts), need.agent == agent) for need in served.needs
        ],
    )  # fmt: skip


async def report(request: Request) -> Response:
    """What an agent saw, one holder for each transaction."""
    await request.body(REPORT_LIMIT)
    told = await request.struct(wire.Report)
    db = request.cloud.db
    agent = request.caller.user_id
    groups = await db.read(_by_holder, told.claims)
    for sights in groups[:-1]:
        await _heard(db, agent, told, sights, last=False)
        await asyncio.sleep(0)  # requests come in between
    await _heard(db, agent, told, groups[-1] if groups else [], last=True)
    if told.orphans is not None:
        await db.write(_orphans, agent, told.orphans)
    return ok({})


async def _heard(
    db: Database, agent: str, told: wire.Report, sights: Sequence[wire.Sight], *, last: bool
) -> None:
    try:
        await db.write(_hear, agent, told.session, told.sequence, sights, last=last)
    except CumuletError:
        raise
    except Exception:
        # What follows for the holder failed, and would each time. The agent is not to be kept from telling of others.
        log.exception(
            "what a report leads to failed", agent=agent, claims=[sight.id for sight in sights][:20]
        )
        await db.write(_hear_only, agent, told.session, told.sequence, sights, last=last)


def _hear_only(
    tx: Tx, agent: str, session: str, sequence: int, sights: Sequence[wire.Sight], *, last: bool
) -> None:
    """The same, and the worker reconciles the holder."""
    _hear(tx, agent, session, sequence, sights, last=last)
    for id in tx.unsettled:
        holders.later(tx, id)
    tx.unsettled.clear()


def _by_holder(tx: Tx, sights: Sequence[wire.Sight]) -> list[list[wire.Sight]]:
    if len(sights) < 2:
        return [list(sights)] if sights else []
    rows = tx.all("select id, holder from claims where id in :ids", ids=tuple(sight.id for sight in sights))
    holder = {row["id"]: row["holder"] for row in rows}
    groups: dict[Any, list[wire.Sight]] = {}
    for sight in sights:
        groups.setdefault(holder.get(sight.id), []).append(sight)
    return list(groups.values())


def _hear(
    tx: Tx, agent: str, session: str, sequence: int, sights: Sequence[wire.Sight], *, last: bool
) -> None:
    if sequence <= _session(tx, agent, session)["sequence"]:
        return  # heard already: the answer to it was lost
    reports = [Report(s.id, s.revision, s.seen, s.facts, s.error) for s in sights]
    unknown = ledger.hear(tx, agent, reports)
    room = ORPHANS - int(tx.value("select count(*) from orphans where agent = :a", a=agent)) if unknown else 0
    for id in unknown[: max(room, 0)]:
        tx.run(
            "insert into orphans (agent, thing, kind, seen_since) values (:agent, :id, 'unknown', :now) on conflict do nothing",
            agent=agent, id=id, now=tx.now,
        )  # fmt: skip
    if last:
        tx.update("agents", agent, sequence=sequence)


def _orphans(tx: Tx, agent: str, found: Sequence[wire.Orphan]) -> None:
    """The whole list of what no claim names; what is not on it any more is gone."""
    kept = {
        row["thing"]: row["seen_since"]
        for row in tx.all("select thing, seen_since from orphans where agent = :a", a=agent)
    }
    tx.run("delete from orphans where agent = :agent", agent=agent)
    for orphan in found[:ORPHANS]:
        if (
            tx.one("select 1 from claims where id = :id and agent = :agent", id=orphan.thing, agent=agent)
            is not None
        ):
            continue  # opened since the agent looked
        tx.insert(
            "orphans", agent=agent, thing=orphan.thing, kind=orphan.kind, facts=orphan.facts,
            seen_since=kept.get(orphan.thing, tx.now),
        )  # fmt: skip


async def fault(request: Request) -> Response:
    """May a step go on? While a rule holds it, the question waits here."""
    query = await request.struct(wire.FaultQuery)
    db = request.cloud.db
    with db.wake.listen("faults") as waiter:
        found = await db.write(faults.strike, request.caller.user_id, query.claim, query.step, query.moment)
        if found.effect == "hold":
            await waiter.wait(20.0)
    return ok(msgspec.structs.asdict(found))


async def bytes_of(request: Request) -> Response:
    """The bytes of a claim that one of the agent's own claims needs, or of the upload that fills its own."""
    claim, need = request.params["claim"], request.params["need"]
    agent, upload = await request.cloud.db.read(_origin, request.caller.user_id, claim, need)
    if upload is not None:
        stream = await _begun(request.cloud.questions.uploaded(upload, claim, request.headers))
    else:
        stream = request.cloud.questions.ask(agent, "read", need, {}, ANSWER_TIME)
    return Response(200, stream=stream, media_type="application/octet-stream")


async def _begun(stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same pieces, once the first is there: before it a refusal can still be told by its status."""
    first = await anext(stream, None)
    return _rest(first, stream)


async def _rest(first: bytes | None, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    try:
        if first is not None:
            yield first
            async for piece in rest:
                yield piece
    finally:
        close = getattr(rest, "aclose", None)
        if close is not None:
            await close()


def _origin(tx: Tx, agent: str, claim_id: str, need_id: str) -> tuple[str, str | None]:
    claim = ledger.by_id(tx, [claim_id]).get(claim_id)
    if claim is None or claim.agent != agent or not claim.wanted:
        raise NotFound("There is no such claim of this agent.")
    if need_id == claim_id:
        upload = claim.spec.get("upload")
        if upload is None:
            raise NotFound("Nothing is uploaded for this claim.")
        return agent, str(upload)
    if need_id not in claim.needs:
        raise NotFound("The claim does not need that one.")
    owner = tx.value("select agent from claims where id = :id and seen = 'present'", id=need_id)
    if owner is None:
        raise NotFound("What the claim needs is not there.")
    return str(owner), None


async def answer(request: Request) -> Response:
    """An agent's answer to a question, as a stream."""
    await request.cloud.questions.deliver(
        request.caller.user_id,
        request.params["question"],
        request.stream(),
        request.headers.get("x-error", ""),
        request.headers,
    )
    return ok({})


AGENT = "role:agent"

AREA = Area(
    name="agent",
    prefix="/agent",
    dialect=dialects.placement,
    authenticate=authenticate,
    routes=(
        Route("POST", "/v1/hello", hello, "cumulet:agent", AGENT),
        Route("GET", "/v1/claims", claims, "cumulet:agent", AGENT),
        Route("POST", "/v1/report", report, "cumulet:agent", AGENT, streams=True),
        Route("POST", "/v1/fault", fault, "cumulet:agent", AGENT),
        Route("GET", "/v1/claims/{claim}/bytes/{need}", bytes_of, "cumulet:agent", AGENT),
        Route("POST", "/v1/answers/{question}", answer, "cumulet:agent", AGENT, streams=True),
    ),
)
