"""Bodies of server groups. See the compute API reference, "Server groups"."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from cumulet.wire import forms
from cumulet.wire.body import since, until
from cumulet.wire.forms import Positive, Word

Policy = Literal["affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity"]


class Rules(Struct, frozen=True, forbid_unknown_fields=True):
    max_server_per_host: Positive | UnsetType = UNSET


class NewGroup(Struct, forbid_unknown_fields=True):
    name: Word
    policies: Annotated[
        Annotated[list[Policy], Meta(min_length=1, max_length=1)] | UnsetType, until(2, 63)
    ] = UNSET
    policy: Annotated[Policy | UnsetType, since(2, 64)] = UNSET
    rules: Annotated[Rules, since(2, 64)] = Rules()

    def __post_init__(self) -> None:
        forms.name(self.name)


class Create(Struct, forbid_unknown_fields=True):
    server_group: NewGroup


class Group(Struct, frozen=True):
    id: str
    name: str
    members: list[str]
    policies: Annotated[list[str], until(2, 63)]
    #: It was never anything but empty.
    metadata: Annotated[dict[str, Any], until(2, 63)]
    policy: Annotated[str, since(2, 64)]
    rules: Annotated[dict[str, int], since(2, 64)]
    project_id: Annotated[str, since(2, 13)]
    user_id: Annotated[str, since(2, 13)]
