"""An instance of the small cloud: who is in it, what may be asked of it, what may go wrong, and how often."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cumulet.reconcile.plan import image as image_plan
from cumulet.reconcile.plan import server as plan
from cumulet.reconcile.plan.base import Rule
from tests.sim.model.world import BACKEND, STORE, Agent, Control, World


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


#: What may go wrong: a step fails; an agent dies; it is silent; a host loses power; a disk vanishes; an older
#: database is put back.
FAULTS = frozenset({"fails", "dies", "silent", "restored"})


@dataclass(frozen=True)
class Cloud:
    safeguards: Safeguards = field(default_factory=Safeguards)
    hosts: tuple[str, ...] = ("h1", "h2")
    with_volume: bool = True
    with_disk: bool = False
    #: There is an image store.
    with_store: bool = False
    #: It begins with a server that runs on the first host, and not with one that is to be built.
    runs: bool = False
    #: What users may ask besides the deletion of the server; see ``users``.
    users: tuple[str, ...] = ()
    #: Faults on one path at the most, and of which kinds.
    faults: int = 2
    kinds: frozenset[str] = FAULTS
    #: Hosts that may fall silent at any time without counting as a fault.
    unsteady: tuple[str, ...] = ()
    #: An answer to a poll arrives at once. What is late is then only what an agent does about it.
    prompt: bool = False
    #: The back end can take an export away from a silent host; what the plan is told of that, if it is told wrong.
    fences: bool = True
    told_fences: bool | None = None
    #: A host connects an export before its guest can use it.
    connects: bool = False
    attempts: int = 2
    #: Reconcile without the holder's lock: two workers read, decide and write at different times.
    torn: bool = False
    rules: tuple[Rule[plan.Server], ...] = plan.RULES
    image_rules: tuple[Rule[image_plan.Image], ...] = image_plan.RULES
    #: What was settled before: a state of the control plane → what it settles to.
    settled: dict[bytes, Control] = field(default_factory=dict, compare=False, repr=False)
    #: What was found lawful already.
    lawful: set[bytes] = field(default_factory=set, compare=False, repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The agents."""
        more = [BACKEND] if self.with_volume else []
        return (*self.hosts, *more, *([STORE] if self.with_store else []))

    def index(self, agent: str) -> int:
        return self.names.index(agent)

    def beginning(self) -> World:
        """The server is to be built, and nothing was done about it yet."""
        none: dict[str, Any] = {} if self.with_volume else {"volume": None, "attachment": ""}
        control = Control(counters=(0,) * len(self.names), **none)
        return World(control=control, agents=(Agent(),) * len(self.names))
