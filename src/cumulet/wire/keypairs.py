"""Bodies of key pairs. See the compute API reference, "Keypairs"."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from cumulet.wire import forms
from cumulet.wire.body import since, until
from cumulet.wire.forms import Word

NAME = re.compile(r"[_\- a-zA-Z0-9]+\Z")
#: Since 2.92.
WIDER_NAME = re.compile(r"[_\-@. a-zA-Z0-9]+\Z")


class NewKeypair(Struct, forbid_unknown_fields=True):
    name: Word
    public_key: Annotated[str, Meta(max_length=65535)] | UnsetType = UNSET
    type: Annotated[Literal["ssh", "x509"], since(2, 2)] = "ssh"
    user_id: Annotated[Word | UnsetType, since(2, 10)] = UNSET

    def __post_init__(self) -> None:
        forms.name(self.name)


class Create(Struct, forbid_unknown_fields=True):
    keypair: NewKeypair


class Made(Struct, frozen=True):
    """The answer to a create; the private key is told once, if it was made here."""

    fingerprint: str
    name: str
    public_key: str
    user_id: str
    type: Annotated[str, since(2, 2)]
    private_key: Annotated[str | UnsetType, until(2, 91)] = UNSET


class Basic(Struct, frozen=True):
    """In a list."""

    fingerprint: str
    name: str
    public_key: str
    type: Annotated[str, since(2, 2)]


class Full(Struct, frozen=True):
    """The three fields of soft deletion have never had another value than these."""

    id: int
    fingerprint: str
    name: str
    public_key: str
    user_id: str
    created_at: str
    type: Annotated[str, since(2, 2)]
    deleted: bool = False
    deleted_at: None = None
    updated_at: None = None
