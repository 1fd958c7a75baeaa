"""Bodies of server actions. See the compute API reference, "Servers - run an action"."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from cumulet.wire import servers
from cumulet.wire.forms import Word


class Reboot(Struct, forbid_unknown_fields=True):
    type: Literal["HARD", "Hard", "hard", "SOFT", "Soft", "soft"]


class Lock(Struct, forbid_unknown_fields=True):
    """Since 2.73."""

    locked_reason: Annotated[str, Meta(min_length=1, max_length=255)] | UnsetType = UNSET


class ResetState(Struct, forbid_unknown_fields=True):
    state: Literal["active", "error"]


class UnshelveInZone(Struct, forbid_unknown_fields=True):
    """From 2.77 to 2.90."""

    availability_zone: Word


class Unshelve(Struct, forbid_unknown_fields=True):
    """Since 2.91."""

    availability_zone: str | UnsetType | None = UNSET
    host: str | UnsetType = UNSET


class ConsoleOutput(Struct, forbid_unknown_fields=True):
    length: Annotated[int, Meta(ge=-1)] | None = None


class SecurityGroup(Struct):
    name: Word


class AddFixedIp(Struct, forbid_unknown_fields=True):
    networkId: str | int | float


class RemoveFixedIp(Struct, forbid_unknown_fields=True):
    address: str

    def __post_init__(self) -> None:
        servers.check_address(self.address, "address")
