"""Frozen values that every layer may use. Nothing here does I/O or imports another module of Cumulet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

Seen = Literal["unknown", "present", "absent"]
AgentKind = Literal["host", "volume", "network", "image"]
Facts = Mapping[str, Any]

#: Claim kinds in the order in which one holder's claims are made; what is made last is removed first. The
#: number is the rank. A claim needs only claims that were written before it, so needs form no circle. A new
#: kind gets its place here and nowhere else.
CLAIM_KINDS: Mapping[str, int] = {
    "file": 10,  # bytes of an image, in the image store
    "volume": 20,  # bytes of a volume, at a back end
    "snapshot": 25,  # bytes of a volume snapshot, at a back end
    "backup": 27,  # bytes of a volume's backup, at a back end
    "switch": 30,  # a network, at the network back end
    "lrouter": 35,  # a router
    "lport": 40,  # a port
    "nat": 45,  # a floating IP
    "disk": 50,  # a root, ephemeral, swap or config drive disk, on a host
    "source": 55,  # a copy of a disk, on a host, to be read by the image store
    "export": 60,  # a volume made reachable for one host
    "connection": 65,  # an export connected on a host
    "tap": 70,  # a port's interface on a host
    "guest": 80,  # the virtual machine
}

#: What keeps data: once seen present it is never made again, for the new one would be empty. Absent then
#: means lost, and the holder says so.
KEEPS_DATA = frozenset({"file", "volume", "snapshot", "backup", "disk"})


#: Names of IP protocols and their numbers: IANA's, as far as Network's rules may name them.
IP_PROTOCOLS: Mapping[str, int] = {
    "ah": 51, "dccp": 33, "egp": 8, "esp": 50, "gre": 47, "icmp": 1, "igmp": 2, "ipip": 4, "ospf": 89, "pgm": 113,
    "rsvp": 46, "sctp": 132, "tcp": 6, "udp": 17, "udplite": 136, "vrrp": 112, "ipv6-encap": 41, "ipv6-frag": 44,
    "ipv6-icmp": 58, "icmpv6": 58, "ipv6-nonxt": 59, "ipv6-opts": 60, "ipv6-route": 43, "hopopt": 0,
}  # fmt: skip


class Caller(msgspec.Struct, frozen=True):
    """Who asks: the content of a verified token."""

    user_id: str
    user_name: str = ""
    user_domain_id: str = "default"
    project_id: str | None = None
    project_name: str | None = None
    project_domain_id: str | None = None
    domain_id: str | None = None
    system: bool = False
    roles: frozenset[str] = frozenset()
    role_ids: tuple[str, ...] = ()
    audit_id: str = ""
    request_id: str = ""
    #: The application credential or the trust behind the token.
    application_credential_id: str | None = None
    trust_id: str | None = None
    #: True if the token cannot be used to make credentials, trusts or tokens of wider scope.
    restricted: bool = False
    #: When the token ends, seconds since the epoch.
    expires_at: float = 0.0
    #: Rules of an application credential, when it has any: (service, method, path).
    access_rules: tuple[tuple[str, str, str], ...] | None = None
    #: What an operator's rule says; None: the admin role decides.
    admin: bool | None = None

    @property
    def is_admin(self) -> bool:
        """True for who holds the admin role in any scope: upstream's ``context_is_admin``."""
        return "admin" in self.roles if self.admin is None else self.admin

    def sees(self, project_id: str | None) -> bool:
        """True if things of that project exist for this caller."""
        return self.is_admin or (project_id is not None and project_id == self.project_id)


class Claim(msgspec.Struct, frozen=True):
    """One thing outside the database that is, or is about to be, held. A row of the ledger."""

    id: str
    kind: str
    #: Whose it is; None when the holder is gone and the claim was left to its agent: a debt.
    holder: str | None
    agent: str
    wanted: bool
    #: The agent's counter when ``wanted``, ``spec`` or what it waits for last changed.
    revision: int
    #: What the agent saw last, and the revision that it had acted on then.
    seen: Seen = "unknown"
    acted: int = 0
    #: True once it was seen present.
    made: bool = False
    spec: Mapping[str, Any] = {}
    facts: Mapping[str, Any] = {}
    error: str | None = None
    #: When the present row of failures began; None while nothing fails.
    failing_since: float | None = None
    needs: tuple[str, ...] = ()
    #: What within the holder it stands for: the id of a port, attachment, … ("" for the only one).
    part: str = ""
    #: True once its holder stopped waiting for it.
    left: bool = False
    #: The user's request that led to what is wanted now, for the logs.
    request_id: str = ""

    @property
    def rank(self) -> int:
        return CLAIM_KINDS[self.kind]

    @property
    def ready(self) -> bool:
        """Wanted, and seen present after the agent had acted on what is wanted now."""
        return self.wanted and self.seen == "present" and self.acted >= self.revision and self.error is None

    @property
    def lost(self) -> bool:
        """Wanted, kept data, was there, and is there no more."""
        return self.wanted and self.made and self.seen == "absent" and self.kind in KEEPS_DATA


class Report(msgspec.Struct, frozen=True):
    """What an agent saw of one claim, and the revision that it had acted on."""

    id: str
    revision: int
    seen: Seen
    facts: Mapping[str, Any] = {}
    error: str | None = None


class AgentView(msgspec.Struct, frozen=True):
    """What a plan may know of an agent."""

    id: str
    kind: AgentKind
    name: str
    #: Silent beyond the patience, forced down, or declared destroyed: nobody waits for it.
    away: bool = False


class Limits(msgspec.Struct, frozen=True):
    """What plans are told of the settings."""

    patience: float = 60.0
    build_attempts: int = 3
    build_time: float = 600.0
    offload_after: float = 0.0
    #: Seconds until a resize is confirmed by itself; 0 for never.
    confirm_after: float = 0.0
