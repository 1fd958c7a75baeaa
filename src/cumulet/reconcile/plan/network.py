"""The plan of a network, port, router and floating IP. Pure.

Each is one claim at the network's agent, whose spec follows from the row. Deleting one never waits: its claim
is left to the agent in the request's own transaction, so no rule for that stands here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from cumulet.reconcile.plan.base import Open, Respec, Rest, Rule, Set, Step, Wait, waiting_for
from cumulet.values import AgentView, Claim


class Thing(msgspec.Struct, frozen=True):
    """All that the plan knows of one of them."""

    id: str
    #: The kind of its claim: switch, lport, lrouter, nat.
    kind: str
    status: str
    #: The status that it shows once the claim is as wanted.
    arrived: str
    now: float
    patience: float
    #: The network's agent.
    agent: str | None = None
    claims: tuple[Claim, ...] = ()
    spec: Mapping[str, Any] = {}
    #: Claims that its claim needs: a port its network's, a floating IP its router's.
    needs: tuple[str, ...] = ()
    agents: Mapping[str, AgentView] = {}


def want_it(view: Thing) -> Step | None:
    if view.claims:
        return None
    if view.agent is None:
        return Wait("there is no network agent")
    return (Open(view.kind, view.agent, view.spec, view.needs),)


def want_it_as_it_should_be(view: Thing) -> Step | None:
    claim = view.claims[0]
    return (Respec(claim.id, view.spec),) if claim.spec != view.spec else None


def wait_for_the_agent(view: Thing) -> Step | None:
    claim = view.claims[0]
    return None if claim.ready else waiting_for([claim], view.agents, view.patience)


def show_it_there(view: Thing) -> Step | None:
    return (Set({"status": view.arrived}),) if view.status != view.arrived else Rest()


RULES: tuple[Rule[Thing], ...] = (want_it, want_it_as_it_should_be, wait_for_the_agent, show_it_there)
