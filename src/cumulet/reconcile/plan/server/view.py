"""All that the plan of a server knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from cumulet.values import AgentView, Claim

#: States of a server that is not there yet, or not any more.
COMING = frozenset({"building", "shelved_offloaded"})
UP = frozenset({"active", "stopped", "shelved"})
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
    #: Its back end is making it larger.
    extending: bool = False
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
    #: Names of steps that a fault rule holds.
    held: frozenset[str] = frozenset()
