"""The audit: all that is not as it should be, in the database and at every agent, at the moment when it is asked for.

Something counts as found only if two looks, some time apart, both see it: what is just being done looks like damage
to a single one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import msgspec

from cumulet.api.cloud import Cloud
from cumulet.api.request import Request, Response, no_content, ok
from cumulet.core import claims
from cumulet.db.engine import Row
from cumulet.errors import Unavailable
from cumulet.reconcile import mode, sweep
from cumulet.reconcile.sweep import Finding, hosts
from cumulet.wire.agent import Everything

#: Seconds between two looks, and how long what was put right may take until it is as it should be.
BETWEEN = 0.5
SETTLING = 10.0
#: Seconds that an agent has to begin to tell what it has, and agents that are asked at the same time.
ANSWER_TIME = 10.0
AT_ONCE = 50
Key = tuple[str, str]


class Look(msgspec.Struct, frozen=True):
    """What one look saw."""

    found: list[Finding]
    #: No agent was at work.
    quiet: bool = True


async def show(request: Request) -> Response:
    """GET /cumulet/v1/audit"""
    return ok(await _told(request.cloud, (await _found_twice(request.cloud)).found, set()))


async def fix(request: Request) -> Response:
    """POST /cumulet/v1/audit: the same, after all that is proven was put right. What was, says so."""
    cloud = request.cloud
    first = await _found_twice(cloud)
    found = first.found
    mended = {_key(one) for one in found if one.kind != "drift" and await _sweeper(cloud).repair(one)}
    drift = [one for one in found if one.kind == "drift"]
    agents = {str(one.facts["agent"]) for one in drift}
    # Who has looked itself tells of what has changed, and what follows from that is the plan's.
    await asyncio.gather(*(_ask(cloud, agent, "audit") for agent in agents))
    mended |= {_key(one) for one in drift}
    left = await _settled(cloud, mended) if mended else first
    fixed = [one for one in found if _key(one) not in {_key(one) for one in left.found}]
    return ok(await _told(cloud, [*fixed, *left.found], {_key(one) for one in fixed}))


async def _settled(cloud: Cloud, mended: set[Key]) -> Look:
    """A look once nothing of what was put right is found any more, and no agent is at work, or after some time."""
    until = asyncio.get_running_loop().time() + SETTLING
    while True:
        left = await _found_twice(cloud)
        quiet = left.quiet and not mended & {_key(one) for one in left.found}
        if quiet or asyncio.get_running_loop().time() > until:
            return left
        await asyncio.sleep(BETWEEN)


async def remove_orphan(request: Request) -> Response:
    """DELETE /cumulet/v1/agents/{agent}/orphans/{thing}: the operator's word that nobody needs it."""
    agent = request.params["agent"]
    # What was only just found the agent has not told of yet.
    await _ask(request.cloud, agent, "audit")
    await request.cloud.db.write(sweep.remove_orphan, agent, request.params["thing"])
    return no_content()


async def _told(cloud: Cloud, found: Iterable[Finding], fixed: set[Key]) -> dict[str, Any]:
    order = {kind: i for i, kind in enumerate(sweep.KINDS)}
    told = sorted(found, key=lambda one: (order[one.kind], one.since, one.id))
    summary, report_only, waiting = await cloud.db.read(
        lambda tx: (claims.summary(tx), mode.report_only(tx), claims.waiting(tx))
    )
    return {
        "findings": [{**msgspec.structs.asdict(one), "fixed": _key(one) in fixed} for one in told],
        "report_only": report_only,
        "summary": summary,
        "waiting": waiting,
    }


def _key(finding: Finding) -> Key:
    return finding.kind, finding.id


def _sweeper(cloud: Cloud) -> sweep.Sweeper:
    if cloud.sweeper is None:
        raise Unavailable("This process of the cloud has no sweep.")
    return cloud.sweeper


async def _found_twice(cloud: Cloud) -> Look:
    first = await _look(cloud)
    if not first.found:
        return first
    await asyncio.sleep(BETWEEN)
    known = {_key(one) for one in first.found}
    second = await _look(cloud)
    return Look([one for one in second.found if _key(one) in known], second.quiet)


async def _look(cloud: Cloud) -> Look:
    """One look at the database and at every agent."""
    found = {_key(one): one for one in await _sweeper(cloud).whole()}
    some = asyncio.Semaphore(AT_ONCE)

    async def one(agent: Row) -> Look:
        async with some:
            return await _compare(cloud, agent)

    agents = await cloud.db.read(hosts.to_ask)
    looks = await asyncio.gather(*(one(agent) for agent in agents))
    for finding in (finding for look in looks for finding in look.found):
        found.setdefault(_key(finding), finding)
    return Look(list(found.values()), all(look.quiet for look in looks))


async def _compare(cloud: Cloud, agent: Row) -> Look:
    if agent["away"]:
        return Look([hosts.silent(agent, "is down")])
    answer = await _ask(cloud, agent["id"], "observe")
    if isinstance(answer, str):
        return Look([hosts.silent(agent, f"does not tell what it has ({answer})")])
    try:
        seen = msgspec.json.decode(answer, type=Everything)
    except msgspec.DecodeError as error:
        return Look([hosts.silent(agent, f"does not tell what it has ({error})")])
    return Look(await cloud.db.read(hosts.compare, agent, seen), quiet=not seen.busy)


async def _ask(cloud: Cloud, agent: str, name: str) -> bytes | str:
    """An agent's answer, or why there is none."""
    try:
        return b"".join([piece async for piece in cloud.questions.ask(agent, name, "", {}, ANSWER_TIME)])
    except Unavailable as error:
        return error.message
