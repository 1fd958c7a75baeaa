"""Bodies of the identity API, as on the wire."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from cumulet.errors import Invalid


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


# -- Nouns --------------------------------------------------------------------------------------------------
# A field that is UNSET was not in the body; null is a value of its own.

Name = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"\S")]
ShortName = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"\S")]
Id = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[a-zA-Z0-9-]+$")]
Description = Annotated[str, Meta(max_length=65535)]
Tag = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[^,/]*$")]
Tags = Annotated[list[Tag], Meta(max_length=80)]
Flag = bool | None | UnsetType


class UserOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Switches of one user; null takes one away."""

    ignore_change_password_upon_first_use: Flag = UNSET
    ignore_password_expiry: Flag = UNSET
    ignore_lockout_failure_attempts: Flag = UNSET
    ignore_user_inactivity: Flag = UNSET
    lock_password: Flag = UNSET
    multi_factor_auth_enabled: Flag = UNSET
    multi_factor_auth_rules: (
        Annotated[list[Annotated[list[str], Meta(min_length=1, max_length=16)]], Meta(max_length=64)]
        | UnsetType
        | None
    ) = UNSET


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Switches of a project, domain or role."""

    immutable: Flag = UNSET


class UserNew(msgspec.Struct, frozen=True):
    name: Name
    domain_id: Id | None = None
    password: str | None = None
    enabled: bool = True
    default_project_id: str | None = None
    options: UserOptions = UserOptions()


class UserChange(msgspec.Struct, frozen=True):
    name: Name | UnsetType = UNSET
    domain_id: Id | UnsetType | None = UNSET
    password: str | UnsetType | None = UNSET
    enabled: bool | UnsetType = UNSET
    default_project_id: str | UnsetType | None = UNSET
    options: UserOptions | UnsetType = UNSET


class PasswordChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    original_password: str
    password: str


class GroupNew(msgspec.Struct, frozen=True):
    name: Name
    domain_id: Id | None = None
    description: Description | None = None


class GroupChange(msgspec.Struct, frozen=True):
    name: Name | UnsetType = UNSET
    domain_id: Id | UnsetType | None = UNSET
    description: Description | UnsetType | None = UNSET


class ProjectNew(msgspec.Struct, frozen=True):
    name: ShortName
    domain_id: Id | None = None
    parent_id: Id | None = None
    description: Description | None = None
    enabled: bool = True
    is_domain: bool = False
    tags: Tags = []
    options: Options = Options()


class ProjectChange(msgspec.Struct, frozen=True):
    name: ShortName | UnsetType = UNSET
    domain_id: Id | UnsetType | None = UNSET
    parent_id: Id | UnsetType | None = UNSET
    description: Description | UnsetType | None = UNSET
    enabled: bool | UnsetType = UNSET
    is_domain: bool | UnsetType = UNSET
    tags: Tags | UnsetType = UNSET
    options: Options | UnsetType = UNSET


class DomainNew(msgspec.Struct, frozen=True):
    name: ShortName
    description: Description | None = None
    enabled: bool = True
    tags: Tags = []
    options: Options = Options()
    explicit_domain_id: Annotated[str, Meta(pattern=r"^[0-9a-f]{32}$")] | None = None


class DomainChange(msgspec.Struct, frozen=True):
    name: ShortName | UnsetType = UNSET
    description: Description | UnsetType | None = UNSET
    enabled: bool | UnsetType = UNSET
    tags: Tags | UnsetType = UNSET
    options: Options | UnsetType = UNSET


class TagsBody(msgspec.Struct, frozen=True):
    tags: Tags


class RoleNew(msgspec.Struct, frozen=True):
    name: Name
    description: Description | None = None
    domain_id: Id | None = None
    options: Options = Options()


class RoleChange(msgspec.Struct, frozen=True):
    name: Name | UnsetType = UNSET
    description: Description | UnsetType | None = UNSET
    domain_id: Id | UnsetType | None = UNSET
    options: Options | UnsetType = UNSET


def moment(text: str, field: str) -> float:
    """An ISO 8601 time as seconds since the epoch; UTC unless it says otherwise. Raises Invalid."""
    try:
        at = datetime.fromisoformat(text)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise Invalid(
            f"Invalid input for field/attribute {field}: {text!r} is not a time in ISO 8601."
        ) from None


class RegionNew(msgspec.Struct, frozen=True):
    id: Annotated[str, Meta(max_length=255)] | None = None
    description: Description | None = None
    parent_region_id: str | None = None


class RegionChange(msgspec.Struct, frozen=True):
    description: Description | UnsetType | None = UNSET
    parent_region_id: str | UnsetType | None = UNSET


class ServiceNew(msgspec.Struct, frozen=True):
    type: Annotated[str, Meta(min_length=1, max_length=255)]
    name: Annotated[str, Meta(max_length=255)] | None = None
    description: Description | None = None
    enabled: bool = True


class ServiceChange(msgspec.Struct, frozen=True):
    type: Annotated[str, Meta(min_length=1, max_length=255)] | UnsetType = UNSET
    name: Annotated[str, Meta(max_length=255)] | UnsetType | None = UNSET
    description: Description | UnsetType | None = UNSET
    enabled: bool | UnsetType = UNSET


Interface = Literal["admin", "internal", "public"]
Url = Annotated[str, Meta(max_length=2048, pattern=r"^([a-zA-Z0-9+.-]+:.+|\$\(base\)s.*)")]


class EndpointNew(msgspec.Struct, frozen=True):
    interface: Interface
    service_id: str
    url: Url
    enabled: bool = True
    region_id: str | None = None
    region: str | None = None


class EndpointChange(msgspec.Struct, frozen=True):
    interface: Interface | UnsetType = UNSET
    service_id: str | UnsetType = UNSET
    url: Url | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET
    region_id: str | UnsetType | None = UNSET
    region: str | UnsetType | None = UNSET


class EndpointFilters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    service_id: str | UnsetType = UNSET
    region_id: str | UnsetType = UNSET
    interface: Interface | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET


class EndpointGroupNew(msgspec.Struct, frozen=True):
    name: Name
    filters: EndpointFilters
    description: Description | None = None


class EndpointGroupChange(msgspec.Struct, frozen=True):
    name: Name | UnsetType = UNSET
    filters: EndpointFilters | UnsetType = UNSET
    description: Description | UnsetType | None = UNSET


class PolicyNew(msgspec.Struct, frozen=True):
    type: Annotated[str, Meta(max_length=255)]
    blob: Annotated[str, Meta(max_length=65535)]


class PolicyChange(msgspec.Struct, frozen=True):
    type: Annotated[str, Meta(max_length=255)] | UnsetType = UNSET
    blob: Annotated[str, Meta(max_length=65535)] | UnsetType = UNSET


class CredentialNew(msgspec.Struct, frozen=True):
    type: Annotated[str, Meta(min_length=1, max_length=255)]
    #: Text, or an object that is kept as its text.
    blob: Annotated[str, Meta(max_length=65535)] | dict[str, Any]
    user_id: str | None = None
    project_id: str | None = None


class CredentialChange(msgspec.Struct, frozen=True):
    type: Annotated[str, Meta(min_length=1, max_length=255)] | UnsetType = UNSET
    blob: Annotated[str, Meta(max_length=65535)] | dict[str, Any] | UnsetType = UNSET
    user_id: str | UnsetType = UNSET
    project_id: str | UnsetType | None = UNSET


class Ec2New(msgspec.Struct, frozen=True):
    tenant_id: str


class ConsumerNew(msgspec.Struct, frozen=True):
    description: Description | None = None


class ConsumerChange(msgspec.Struct, frozen=True):
    description: Description | UnsetType | None = UNSET


Amount = Annotated[int, Meta(ge=-1, le=0x7FFFFFFF)]


class RegisteredLimitNew(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    service_id: str
    resource_name: Name
    default_limit: Amount
    region_id: str | None = None
    description: Description | None = None


class RegisteredLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    registered_limits: Annotated[list[RegisteredLimitNew], Meta(min_length=1, max_length=1000)]


class RegisteredLimitChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    service_id: str | UnsetType = UNSET
    resource_name: Name | UnsetType = UNSET
    default_limit: Amount | UnsetType = UNSET
    region_id: str | UnsetType | None = UNSET
    description: Description | UnsetType | None = UNSET


class LimitNew(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    service_id: str
    resource_name: Name
    resource_limit: Amount
    project_id: str | None = None
    domain_id: str | None = None
    region_id: str | None = None
    description: Description | None = None


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    limits: Annotated[list[LimitNew], Meta(min_length=1, max_length=1000)]


class LimitChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    resource_limit: Amount | UnsetType = UNSET
    description: Description | UnsetType | None = UNSET


class RoleRef(msgspec.Struct, frozen=True):
    id: str | None = None
    name: str | None = None


class AccessRuleRef(msgspec.Struct, frozen=True):
    """A rule that is there, by id, or what a rule says."""

    id: str | None = None
    service: Id | None = None
    method: Literal["DELETE", "GET", "HEAD", "PATCH", "POST", "PUT"] | None = None
    path: Annotated[str, Meta(max_length=225, pattern=r"^/")] | None = None

    def __post_init__(self) -> None:
        if self.id is None and None in (self.service, self.method, self.path):
            raise ValueError("an access rule is an id, or service, method and path")


class ApplicationCredentialNew(msgspec.Struct, frozen=True):
    name: Name
    description: Description | None = None
    secret: Annotated[str, Meta(min_length=1, max_length=4096)] | None = None
    roles: Annotated[list[RoleRef], Meta(max_length=256)] | None = None
    expires_at: str | None = None
    unrestricted: bool | None = None
    access_rules: Annotated[list[AccessRuleRef], Meta(max_length=256)] | None = None


class TrustNew(msgspec.Struct, frozen=True):
    trustor_user_id: str
    trustee_user_id: str
    impersonation: bool
    project_id: str | None = None
    roles: Annotated[list[RoleRef], Meta(max_length=256)] | None = None
    expires_at: str | None = None
    remaining_uses: Annotated[int, Meta(ge=1, lt=1 << 53)] | None = None
    allow_redelegation: bool | None = None
    redelegation_count: Annotated[int, Meta(ge=0, lt=1 << 53)] | None = None
