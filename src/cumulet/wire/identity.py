"""Bodies of the identity API, as on the wire."""

from __future__ import annotations

from typing import Any

import msgspec


class DomainRef(msgspec.Struct, frozen=True):
    """A domain, by id or name."""

    id: str | None = None
    name: str | None = None


class ProjectRef(msgspec.Struct, frozen=True):
    """A project, by id, or by name and domain."""

    id: str | None = None
    name: str | None = None
    domain: DomainRef | None = None


class UserRef(msgspec.Struct, frozen=True):
    """A user, by id, or by name and domain."""

    id: str | None = None
    name: str | None = None
    domain: DomainRef | None = None
    password: str | None = None


class PasswordMethod(msgspec.Struct, frozen=True):
    user: UserRef


class TokenMethod(msgspec.Struct, frozen=True):
    id: str


class Application(msgspec.Struct, frozen=True):
    secret: str
    id: str | None = None
    name: str | None = None
    user: UserRef | None = None


class Identity(msgspec.Struct, frozen=True):
    methods: list[str]
    password: PasswordMethod | None = None
    token: TokenMethod | None = None
    application_credential: Application | None = None


class AuthBody(msgspec.Struct, frozen=True):
    identity: Identity
    #: An object of several forms, or "unscoped".
    scope: Any = None


class AuthRequest(msgspec.Struct, frozen=True):
    """POST /v3/auth/tokens."""

    auth: AuthBody
