"""All that the plan of a server knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from cumulet.values import AgentView, Claim

#: States of a server that is not there yet, or not any more.
COMING = frozenset({"building", "shelved_offloaded"})
UP = frozenset({"active", "stopped", "paused", "suspended", "rescued", "shelved", "soft_deleted"})
#: What the guest is told for each; all others are powered off.
POWERED = {"active": "on", "rescued": "on", "paused": "paused", "suspended": "suspended"}
#: What is shown for each, once it is so.
SHOWN = {
    "active": "active", "stopped": "stopped", "paused": "paused", "suspended": "suspended", "rescued": "rescued",
}  # fmt: skip
#: How a fault begins that tells of a removal that fails.
DELETE_FAILED = "Delete goes on, but failed"
POWER = {"on": 1, "paused": 3, "off": 4, "suspended": 7}


class Port(msgspec.Struct, frozen=True):
    """A port of the server."""

    id: str
    interface: str
    bound: str = ""
    #: The network's agent has told that it is up.
    up: bool = False
    detaching: bool = False
    spec: Mapping[str, Any] = {}


class Volume(msgspec.Struct, frozen=True):
    """A block device of the server that is a volume. Its claims are named by its attachment."""

    attachment: str
    volume: str
    agent: str | None
    #: The claim of its bytes; what exports it needs that.
    claim: str | None
    ready: bool
    #: Of the attachment: reserved, attaching, attached, detaching.
    status: str = "reserved"
    #: The attachment names a host. A server without one can have volumes that are attached all the same.
    connected: bool = False
    error: str | None = None
    detaching: bool = False
    #: The host must connect the export before a guest can use it.
    connects: bool = True
    #: The back end can take an export away from a host that does not answer.
    fences: bool = True
    delete_on_termination: bool = False
    #: The server boots from it.
    root: bool = False
    #: Its back end is making it larger.
    extending: bool = False
    #: The attachment whose place it takes. Until the other is ``detaching`` it is filled from that one; then it is the
    #: one that counts, and the guest goes over to it.
    replaces: str | None = None
    spec: Mapping[str, Any] = {}


class Disk(msgspec.Struct, frozen=True):
    """A disk that lives on the host."""

    part: str
    spec: Mapping[str, Any] = {}
    #: The claim of the image's bytes that it is made from.
    image_claim: str | None = None
    image_ready: bool = True
    #: It cannot be made any more: its image is gone.
    error: str | None = None


class Leaving(msgspec.Struct, frozen=True):
    """Something that is deleted together with the server and waited for."""

    id: str
    kind: str
    #: Nobody waits for it: its agent is silent, or keeps failing.
    alone: bool = False
    #: When it will be alone if it goes on failing.
    until: float | None = None


class Image(msgspec.Struct, frozen=True):
    """The image that a shelve makes."""

    id: str
    status: str


class Rebuild(msgspec.Struct, frozen=True):
    """The disks are made anew."""

    #: Parts that stay.
    keep: frozenset[str] = frozenset()
    #: What a volume that the server boots from is written from.
    image: str | None = None


class Snapshot(msgspec.Struct, frozen=True):
    """An image that is being made of the server."""

    image: str
    #: queued, saving, active, …; gone
    status: str


class Move(msgspec.Struct, frozen=True):
    """A move to another host, until nothing of it is left.

    phase       the server's host    what is kept on the other host
    preparing   source               nothing: no target yet
    moving      source               the target's: its disks are being filled, or a whole guest waits there
    aborting    source               the same, until it is known which of two guests runs
    finishing   target               the source's disks, when they were copied
    finished    target               the same; the user, or time, confirms it
    confirming  target               nothing
    reverting   source               nothing
    failing     source               nothing
    """

    id: str
    #: migration, resize, live-migration, evacuation
    type: str
    phase: str
    source: str | None = None
    target: str | None = None
    error: str | None = None
    confirm_at: float | None = None
    #: Disk parts → MiB that they have at the target, where that is another size.
    sizes: Mapping[str, int] = {}

    @property
    def live(self) -> bool:
        return self.type == "live-migration"

    @property
    def copies(self) -> bool:
        """The disks are copied from a source that is powered off."""
        return self.type in ("migration", "resize")


class Server(msgspec.Struct, frozen=True):
    """All that the plan knows."""

    id: str
    desired: str
    vm_state: str
    now: float
    patience: float
    task_state: str | None = None
    #: An administrator set the state that it shows: that one stays, whatever is true.
    state_is_reset: bool = False
    #: If it shows a fault, that is of its removal, and not of what failed before.
    tells_of_its_delete: bool = True
    power_state: int = 0
    host: str | None = None
    #: True from the first time that it was given to a host.
    placed: bool = False
    giving_up: bool = False
    #: True once it was active for the first time.
    launched: bool = False
    attempts: tuple[Mapping[str, Any], ...] = ()
    max_attempts: int = 3
    build_until: float | None = None
    claims: tuple[Claim, ...] = ()
    ports: tuple[Port, ...] = ()
    volumes: tuple[Volume, ...] = ()
    disks: tuple[Disk, ...] = ()
    agents: Mapping[str, AgentView] = {}
    #: What the guest is, apart from its devices and its power.
    guest: Mapping[str, Any] = {}
    counters: Mapping[str, int] = {}
    #: A device is being plugged or unplugged.
    devices_pending: bool = False
    image: Image | None = None
    shelved_at: float | None = None
    #: Seconds from shelved to offloaded; negative for never by itself.
    offload_after: float = 0.0
    #: Has an allocation at placement.
    allocated: bool = False
    #: What is deleted with it and is still there: its own volumes, the image of its shelving.
    leaving: tuple[Leaving, ...] = ()
    move: Move | None = None
    #: Seconds until a move is confirmed by itself; 0 for never.
    confirm_after: float = 0.0
    rebuild: Rebuild | None = None
    snapshot: Snapshot | None = None
    #: When it goes, once it is soft-deleted.
    reclaim_at: float | None = None
    #: Names of steps that a fault rule holds.
    held: frozenset[str] = frozenset()
