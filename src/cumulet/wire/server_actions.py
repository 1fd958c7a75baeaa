"""Bodies of server actions. See the compute API reference, "Servers - run an action"."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from cumulet.wire import forms, servers
from cumulet.wire.body import between, since, until
from cumulet.wire.forms import Natural, Short, Word
from cumulet.wire.servers import Certificates, Description, DiskConfig, UserData


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


# --- images of a server ---


class Image(Struct, forbid_unknown_fields=True):
    name: Word
    metadata: dict[str, str] = {}

    def __post_init__(self) -> None:
        forms.name(self.name)
        servers.check_metadata(self.metadata)


class Backup(Image, forbid_unknown_fields=True, kw_only=True):
    backup_type: Short
    rotation: Natural


# --- another disk ---


class Rescue(Struct, forbid_unknown_fields=True):
    adminPass: str | UnsetType = UNSET
    rescue_image_ref: str | UnsetType = UNSET

    def __post_init__(self) -> None:
        if isinstance(self.rescue_image_ref, str):
            servers.check_uuid(self.rescue_image_ref, "rescue_image_ref")


class Rebuild(Struct, forbid_unknown_fields=True):
    image: str = field(name="imageRef")
    name: Word | UnsetType = UNSET
    password: str | UnsetType = field(default=UNSET, name="adminPass")
    metadata: dict[str, str] | UnsetType = UNSET
    preserve_ephemeral: bool | str = False
    disk_config: DiskConfig | UnsetType = field(default=UNSET, name="OS-DCF:diskConfig")
    access_ip_v4: str | UnsetType = field(default=UNSET, name="accessIPv4")
    access_ip_v6: str | UnsetType = field(default=UNSET, name="accessIPv6")
    personality: Annotated[list[servers.File], until(2, 56)] = []
    description: Annotated[Description | UnsetType, since(2, 19)] = UNSET
    key_name: Annotated[Word | UnsetType | None, since(2, 54)] = UNSET
    user_data: Annotated[UserData | UnsetType | None, since(2, 57)] = UNSET
    trusted_image_certificates: Annotated[Certificates | UnsetType | None, since(2, 63)] = UNSET
    hostname: Annotated[str | UnsetType, since(2, 90)] = UNSET

    def __post_init__(self) -> None:
        servers.check_uuid(self.image, "imageRef")
        for word, name in ((self.name, "name"), (self.key_name, "key_name")):
            if isinstance(word, str):
                forms.name(word, name)
        if isinstance(self.metadata, dict):
            servers.check_metadata(self.metadata)
        if isinstance(self.access_ip_v4, str):
            self.access_ip_v4 = servers.check_address(self.access_ip_v4, "accessIPv4", 4)
        if isinstance(self.access_ip_v6, str):
            self.access_ip_v6 = servers.check_address(self.access_ip_v6, "accessIPv6", 6)
        if isinstance(self.description, str):
            servers.check_description(self.description)
        if isinstance(self.user_data, str):
            servers.check_base64(self.user_data, "user_data")
        if isinstance(self.trusted_image_certificates, list):
            servers.check_certificates(self.trusted_image_certificates)


class ChangePassword(Struct, forbid_unknown_fields=True):
    adminPass: str


# --- another host ---


class Resize(Struct, forbid_unknown_fields=True):
    flavor: str | int = field(name="flavorRef")
    disk_config: DiskConfig | UnsetType = field(default=UNSET, name="OS-DCF:diskConfig")

    def __post_init__(self) -> None:
        if self.flavor == "":
            raise ValueError("flavorRef must not be empty")


class Migrate(Struct, forbid_unknown_fields=True):
    """Since 2.56."""

    host: str | None = None

    def __post_init__(self) -> None:
        _check_host(self.host)


class MigrateLive(Struct, forbid_unknown_fields=True):
    host: str | None
    block_migration: bool | str
    disk_over_commit: Annotated[bool | str | UnsetType, until(2, 24)] = UNSET
    force: Annotated[bool | str, between((2, 30), (2, 67))] = False

    def __post_init__(self) -> None:
        _check_host(self.host)


class Evacuate(Struct, forbid_unknown_fields=True):
    host: str | UnsetType = UNSET
    adminPass: str | UnsetType = UNSET
    onSharedStorage: Annotated[bool | str | UnsetType, until(2, 13)] = UNSET
    force: Annotated[bool | str, between((2, 29), (2, 67))] = False

    def __post_init__(self) -> None:
        _check_host(self.host)


def _check_host(host: str | UnsetType | None) -> None:
    if isinstance(host, str):
        servers.check_host(host, "host")
