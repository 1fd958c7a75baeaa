"""Agents: what they hear, decide by their real ``choose``, do through helpers, and report."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from cumulet.agent.loop import choose
from cumulet.api.agent import _wire as served
from cumulet.drivers.base import Thing as Seen
from cumulet.reconcile import ledger
from cumulet.wire import agent as wire
from tests.sim.model import control, laws, things
from tests.sim.model.cloud import Cloud
from tests.sim.model.world import Agent, Helper, News, Sight, World, drop, put, without


def with_agent(cloud: Cloud, w: World, i: int, agent: Agent) -> World:
    """The world with that agent, which has begun whatever it can begin.

    To begin at once loses nothing: what is begun takes as long as it likes, and what was seen waits in the outbox.
    """
    agents = list(w.agents)
    agents[i] = agent
    w = replace(w, agents=tuple(agents))
    for claim in agent.claims:
        after = _consider(cloud, w, agent, claim)
        if after is not None:
            return with_agent(cloud, w, i, after)
    return w


def steps(cloud: Cloud, w: World, i: int) -> Iterator[tuple[str, World]]:
    """What an agent can do next."""
    agent, name = w.agents[i], cloud.names[i]
    mine = [message for message in w.news if message.agent == name]
    # A poll is worth a step only when there is something to hear.
    if w.control.counters[i] > agent.since and not mine:
        message = feed(cloud, w, i)
        asked = take(cloud, w, message) if cloud.prompt else replace(w, news=(*w.news, message))
        yield f"{name} polls", asked
    for message in mine:
        yield (
            f"answer to {name}",
            take(cloud, replace(w, news=tuple(n for n in w.news if n is not message)), message),
        )
    for helper in agent.helpers:
        yield from _end(cloud, w, i, helper)
    if agent.outbox:
        # What was seen waits in the outbox for as long as a report would be under way.
        yield f"{name} reports", report(cloud, w, i)


# --- hearing ---


def feed(cloud: Cloud, w: World, i: int) -> News:
    """What the ledger answers to a poll now."""
    agent, name = w.agents[i], cloud.names[i]
    claims = {claim.id: claim for claim in w.control.claims}
    found = []
    for claim in w.control.claims:
        if claim.agent != name or claim.revision <= agent.since:
            continue
        needs = tuple(claims[need] for need in claim.needs if need in claims)
        needed_by = [other for other in w.control.claims if claim.id in other.needs]
        act = ledger.servable(claim, needs, needed_by) if cloud.safeguards.needs else True
        found.append(served(ledger.Served(claim, act, needs), name))
    return News(name, agent.since, w.control.counters[i], tuple(found))


def take(cloud: Cloud, w: World, message: News) -> World:
    """An answer arrives."""
    i = cloud.index(message.agent)
    agent = w.agents[i]
    if cloud.safeguards.revision and message.since != agent.since:
        return w  # an older question's answer
    known = {claim.id: claim for claim in agent.claims}
    helpers = agent.helpers
    for claim in message.claims:
        old = known.get(claim.id)
        if cloud.safeguards.revision and old is not None and old.revision >= claim.revision:
            continue
        known[claim.id] = claim
        if old is not None and old.wanted and not claim.wanted:
            # A helper of ours that makes it is killed; what it had done by then is done.
            helpers = tuple(h for h in helpers if not (h.id == claim.id and h.verb == "make" and h.ours))
    first = agent.since == -1
    if first and not cloud.safeguards.named:
        # Without the safeguard, whatever the list does not name is removed.
        laws.check_removed(w, {thing.id for thing in agent.things} - set(known))
    after = replace(
        agent, since=max(agent.since, message.revision), claims=tuple(known[id] for id in sorted(known)),
        helpers=helpers, believed=tuple(thing.id for thing in agent.things) if first else agent.believed,
    )  # fmt: skip
    return with_agent(cloud, w, i, after)


# --- doing ---


def _consider(cloud: Cloud, w: World, agent: Agent, claim: wire.Claim) -> Agent | None:
    """The agent after it has begun to do what is to be done about a claim; None if that is nothing."""
    helpers = [helper for helper in agent.helpers if helper.id == claim.id]
    if any(helper.ours for helper in helpers):
        return None
    acted = dict(agent.acted)
    known = {other.id: other for other in agent.claims}

    def done(id: str) -> bool:
        return id in known and id in agent.believed and acted.get(id, -1) >= known[id].revision

    if claim.wanted and claim.act and done(claim.id):
        return None
    if helpers and cloud.safeguards.lock_file:
        return None  # a helper of an agent that died still has the lock
    needed = any(
        other.id in agent.believed and any(need.mine and need.id == claim.id for need in other.needs)
        for other in agent.claims
    )
    asked = claim if cloud.safeguards.made_once else replace(claim, made=False)
    choice = choose(asked, Seen(claim.kind) if claim.id in agent.believed else None, done, needed)
    if choice == "tell":
        thing = agent.thing(claim.id)
        believed = claim.id in agent.believed
        if not believed and thing is not None and cloud.safeguards.lock_file:
            # With the lock in hand it looks once more: a helper of before may have ended meanwhile.
            return replace(agent, believed=tuple(sorted((*agent.believed, claim.id))))
        facts = thing.facts if thing is not None and believed else {}
        sight = Sight(claim.id, claim.revision, "present" if believed else "absent", False, facts)
        return None if sight in agent.outbox or _said(w, sight) else _tell(agent, sight)
    if choice not in ("make", "remove"):
        return None
    if cloud.prompt and choice == "make" and (same := things.already(agent, claim)) is not None:
        # What changes nothing takes no time.
        return _made(w, agent, claim, same.facts)
    return replace(agent, helpers=(*agent.helpers, Helper("make" if choice == "make" else "remove", claim)))


def _said(w: World, sight: Sight) -> bool:
    """The ledger knows it already: saying it again changes nothing."""
    claim = next((claim for claim in w.control.claims if claim.id == sight.id), None)
    if claim is None:
        return True
    told = (claim.seen, claim.acted, claim.facts, claim.error)
    return told == (sight.seen, sight.revision, sight.facts, None)


def _tell(agent: Agent, sight: Sight) -> Agent:
    return replace(agent, outbox=put(agent.outbox, sight))


def _made(w: World, agent: Agent, claim: wire.Claim, facts: dict[str, object]) -> Agent:
    """It is here as it should be."""
    sight = Sight(claim.id, claim.revision, "present", False, facts)
    if not _said(w, sight) or any(other.id == claim.id for other in agent.outbox):
        agent = _tell(agent, sight)
    acted = {**dict(agent.acted), claim.id: claim.revision}
    return replace(
        agent,
        believed=tuple(sorted({*agent.believed, claim.id})),
        acted=tuple(sorted(acted.items())),
    )


def _gone(agent: Agent, claim: wire.Claim) -> Agent:
    agent = _tell(agent, Sight(claim.id, claim.revision, "absent"))
    return replace(
        agent,
        believed=without(agent.believed, claim.id),
        acted=tuple(one for one in agent.acted if one[0] != claim.id),
    )


def _end(cloud: Cloud, w: World, i: int, helper: Helper) -> Iterator[tuple[str, World]]:
    """A helper ends: well, or not."""
    claim = helper.claim
    agent = w.agents[i]
    agents = list(w.agents)
    agents[i] = replace(agent, helpers=tuple(other for other in agent.helpers if other is not helper))
    before = replace(w, agents=tuple(agents))
    label = f"{cloud.names[i]}'s helper ends to {helper.verb} {helper.id}"
    after = (
        things.make(cloud, before, i, claim)
        if helper.verb == "make"
        else things.remove(cloud, before, i, claim)
    )
    if after is None:
        yield f"{label}, in vain", _failed(cloud, before, i, helper)
    elif not helper.ours:
        yield label, with_agent(cloud, after, i, after.agents[i])
    elif helper.verb == "make":
        thing = after.agents[i].thing(helper.id)
        assert thing is not None
        yield label, with_agent(cloud, after, i, _made(w, after.agents[i], claim, thing.facts))
    else:
        yield label, with_agent(cloud, after, i, _gone(after.agents[i], claim))
    if w.faults < cloud.faults and "fails" in cloud.kinds and helper.ours:
        failing = replace(before, faults=w.faults + 1)
        yield f"{label}, but fails", _failed(cloud, failing, i, helper)
        if after is not None and helper.verb == "make":
            half = things.half(after, i, helper.id)
            yield (
                f"{label}, but says it failed",
                _failed(cloud, replace(half, faults=w.faults + 1), i, helper),
            )


def _failed(cloud: Cloud, w: World, i: int, helper: Helper) -> World:
    """A helper failed: its agent looks what is here, and reports that; it tries again."""
    agent = w.agents[i]
    if not helper.ours:
        return with_agent(cloud, w, i, agent)
    thing = agent.thing(helper.id)
    facts = thing.facts if thing is not None else {}
    sight = Sight(helper.id, helper.claim.revision, "absent" if thing is None else "present", True, facts)
    believed = without(agent.believed, helper.id)
    if thing is not None:
        believed = tuple(sorted((*believed, helper.id)))
    return with_agent(cloud, w, i, _tell(replace(agent, believed=believed), sight))


# --- reporting ---


def report(cloud: Cloud, w: World, i: int) -> World:
    """What was seen arrives, and the agent hears that it did."""
    agent = w.agents[i]
    after = control.hear(cloud, w.control, cloud.names[i], agent.outbox)
    claims = agent.claims
    for sight in agent.outbox:
        claim = next((claim for claim in claims if claim.id == sight.id), None)
        if claim is None:
            continue
        if sight.seen == "absent" and not claim.wanted and claim.revision == sight.revision:
            claims = drop(claims, claim.id)
        elif sight.seen == "present" and not sight.failed and not claim.made:
            claims = put(claims, replace(claim, made=True))
    return with_agent(cloud, replace(w, control=after), i, replace(agent, outbox=(), claims=claims))
