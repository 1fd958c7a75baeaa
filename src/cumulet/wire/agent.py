"""The agents' protocol, version 1: what travels between the control plane and whoever has the things.

An agent says ``hello``, asks for ``claims`` since a revision (a long poll), and ``report``s what it sees.
Nobody sends it commands. It may ask for the bytes of what its claims need, and it answers questions that
change nothing. Control serves this version and the one before.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

VERSION = 1
#: A number that the database can keep, and no agent comes to.
_Number = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]


class Hello(msgspec.Struct):
    """The first word of a session. A newer session ends an older one if the directory is the same."""

    version: int
    kind: Literal["host", "volume", "network", "image"]
    name: str
    #: The id of the state directory: who has these things.
    directory: str
    session: str
    #: What it is and has: {"vcpus", "memory_mb", "disk_gb", "hypervisor", "drivers", …}.
    facts: dict[str, Any]


_Text = Annotated[str, msgspec.Meta(max_length=255)]
_Amount = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]


class Inventory(msgspec.Struct):
    """How much a host has of a resource."""

    total: _Amount
    reserved: _Amount = 0
    ratio: Annotated[float, msgspec.Meta(gt=0, le=1e6)] = 1.0


class HostFacts(msgspec.Struct):
    """What is read of a host's facts; others than its own user see it, so it must have this form."""

    hypervisor: _Text = ""
    hypervisor_version: _Amount = 0
    host_ip: _Text = ""
    booted_at: float | None = None
    #: It can set the password of a guest's administrator.
    passwords: bool = False
    cpu_info: dict[str, Any] = {}
    inventories: Annotated[
        dict[Annotated[str, msgspec.Meta(pattern=r"^[A-Z0-9_]{1,255}$")], Inventory],
        msgspec.Meta(max_length=100),
    ] = {}
    traits: Annotated[
        list[Annotated[str, msgspec.Meta(pattern=r"^[A-Z0-9_]{1,255}$")]], msgspec.Meta(max_length=1000)
    ] = []


class VolumeFacts(msgspec.Struct):
    """What is read of a volume back end's facts."""

    backend: _Text = ""
    protocol: _Text = ""
    capacity_gb: _Amount = 0
    connects: bool = True
    fences: bool = True
    multiattach: bool = True


#: The form of what an agent says of itself, by its kind.
FACTS: dict[str, type[msgspec.Struct]] = {"host": HostFacts, "volume": VolumeFacts}


class Welcome(msgspec.Struct):
    """The answer to hello."""

    version: int
    agent: str
    #: Seconds that a poll may stay open.
    poll: float


class Need(msgspec.Struct, frozen=True):
    """A claim that another one needs."""

    id: str
    kind: str
    part: str
    #: What its agent reported of it: how to reach it.
    facts: dict[str, Any]
    #: It belongs to the same agent, which orders the two itself.
    mine: bool


class Claim(msgspec.Struct, frozen=True):
    """A claim as its agent sees it."""

    id: str
    kind: str
    part: str
    holder: str | None
    wanted: bool
    #: False: observe and report only; something must happen elsewhere first.
    act: bool
    #: It was there once. What keeps data is then never made again.
    made: bool
    revision: int
    spec: dict[str, Any]
    needs: list[Need]
    #: The user's request that this is for, to be named in logs.
    request_id: str = ""


class Question(msgspec.Struct, frozen=True):
    """Something that the control plane wants to know, and that changes nothing."""

    id: str
    #: "console", "read", "observe" (all that there is), …
    name: str
    claim: str
    args: dict[str, Any] = {}


class Everything(msgspec.Struct):
    """The answer to the question "observe": all that an agent has."""

    #: Claim id → (kind, facts).
    things: dict[str, tuple[str, dict[str, Any]]]
    #: Claims that it works on, or has not told of yet.
    busy: list[str]


class News(msgspec.Struct):
    """The answer to a poll."""

    revision: int
    claims: list[Claim]
    questions: list[Question] = []
    #: Ask again at once: there is more.
    more: bool = False
    #: Fault rules may hit this agent: ask before each step.
    faults: bool = False


class Sight(msgspec.Struct):
    """What the agent saw of one claim, and the revision that it had acted on."""

    id: str
    revision: _Number
    seen: Literal["unknown", "present", "absent"]
    facts: dict[str, Any] = {}
    error: str | None = None


class Orphan(msgspec.Struct):
    """A thing that no claim names."""

    thing: str
    kind: str
    facts: dict[str, Any] = {}


class Report(msgspec.Struct):
    """What was seen. Numbered within the session; an older number than the last is not heard."""

    session: str
    sequence: _Number
    claims: list[Sight]
    #: All that no claim names; None when nothing was looked for.
    orphans: list[Orphan] | None = None
    facts: dict[str, Any] | None = None


class FaultQuery(msgspec.Struct):
    """May this step go on? Asked only while fault rules exist."""

    claim: str
    step: str
    moment: Literal["before", "after"]


class FaultAnswer(msgspec.Struct):
    """What is to happen instead; "" for nothing."""

    effect: Literal["", "fail", "lose", "slow", "hold", "crash"]
    rule: str = ""
    seconds: float = 0.0
    message: str = ""
