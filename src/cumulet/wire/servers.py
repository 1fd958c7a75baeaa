"""Bodies of servers. See the compute API reference, "Servers"."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from cumulet.wire import forms
from cumulet.wire.body import since, until
from cumulet.wire.forms import MAX_INT, Short, Word

Count = Annotated[int, Meta(ge=1, le=MAX_INT)]
Size = Annotated[int, Meta(ge=0, le=MAX_INT)]
Description = Annotated[str, Meta(max_length=255)] | None
Tag = Annotated[str, Meta(min_length=1, max_length=60)]
DiskConfig = Literal["AUTO", "MANUAL"]
#: Tags of one server at the most.
TAGS = 50
#: In base64.
UserData = Annotated[str, Meta(max_length=65535)]
Certificates = list[Annotated[str, Meta(min_length=1)]]

_METADATA_KEY = re.compile(r"[a-zA-Z0-9\-_:. ]{1,255}\Z")
_DEVICE_NAME = re.compile(r"[a-zA-Z0-9._/-]+\Z")
_HOST_NAME = re.compile(r"[a-zA-Z0-9]+[a-zA-Z0-9-]*[a-zA-Z0-9]+\Z")
_FQDN = re.compile(r"[a-zA-Z0-9\-._]+\Z")


# --- forms; each raises ValueError, naming the field ---


def is_uuid(value: str) -> bool:
    """True for an id in any of the forms that the services take."""
    try:
        uuid.UUID(value)
    except (ValueError, AttributeError):
        return False
    return True


def check_uuid(value: str, name: str) -> None:
    if not is_uuid(value):
        raise ValueError(f"{name}: {value[:100]!r} is not a 'uuid'")


def check_metadata(metadata: Mapping[str, str | None]) -> None:
    for key, value in metadata.items():
        if not _METADATA_KEY.match(key):
            raise ValueError(
                f"metadata: the key {key[:100]!r} must have 1 to 255 of letters, digits, '-', '_', ':', '.' and spaces"
            )
        if value is not None and len(value) > 255:
            raise ValueError(f"metadata: the value of {key!r} is longer than 255 characters")


def check_tag(tag: str) -> None:
    if not 1 <= len(tag) <= 60 or "," in tag or "/" in tag:
        raise ValueError(f"tag: {tag[:100]!r} must have 1 to 60 characters, and neither ',' nor '/'")


def check_address(value: str, name: str, version: int | None = None) -> str:
    """Returns the address in its usual form."""
    try:
        found = ipaddress.ip_address(value)
    except ValueError:
        raise ValueError(f"{name}: {value[:100]!r} is not an IP address") from None
    if version is not None and found.version != version:
        raise ValueError(f"{name}: {value!r} is not an IPv{version} address")
    return str(found)


def check_base64(value: str, name: str) -> None:
    try:
        base64.b64decode("".join(value.split()), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"{name}: the value is not base64") from None


def check_hostname(value: str, *, whole: bool) -> None:
    """``whole``: with a domain, since 2.94."""
    pattern, least, most = (_FQDN, 1, 255) if whole else (_HOST_NAME, 2, 63)
    if not least <= len(value) <= most or not pattern.match(value):
        raise ValueError(f"hostname: {value[:100]!r} is not a host name")


def check_host(value: str, name: str) -> None:
    if not _FQDN.match(value) or len(value) > 255:
        raise ValueError(f"{name}: {value[:100]!r} is not a host name")


def check_certificates(ids: Sequence[str]) -> None:
    if not 1 <= len(set(ids)) == len(ids) <= 50:
        raise ValueError("trusted_image_certificates must be 1 to 50 different ids")


def check_description(value: str | None) -> None:
    if value:
        forms.text(value, "description")


# --- requests ---


class Network(Struct, forbid_unknown_fields=True):
    uuid: str | UnsetType = UNSET
    port: str | None = None
    fixed_ip: str | UnsetType = UNSET
    tag: Tag | UnsetType = UNSET

    def __post_init__(self) -> None:
        if isinstance(self.uuid, str):
            check_uuid(self.uuid, "uuid")
        if self.port is not None:
            check_uuid(self.port, "port")
        if isinstance(self.fixed_ip, str):
            check_address(self.fixed_ip, "fixed_ip")
        if isinstance(self.tag, str):
            check_tag(self.tag)


class _Mapping(Struct):
    """What both forms of a block device mapping have."""

    virtual_name: Short | UnsetType = UNSET
    volume_id: str | UnsetType = UNSET
    snapshot_id: str | UnsetType = UNSET
    volume_size: Count | UnsetType = UNSET
    device_name: str | UnsetType = UNSET
    delete_on_termination: bool | str = False
    no_device: Any = None
    connection_info: str | UnsetType = UNSET

    def __post_init__(self) -> None:
        name = self.device_name
        if isinstance(name, str) and (len(name) > 255 or not _DEVICE_NAME.match(name)):
            raise ValueError(f"device_name: {name[:100]!r} is not a name of a device")
        for key, value in (("volume_id", self.volume_id), ("snapshot_id", self.snapshot_id)):
            if isinstance(value, str):
                check_uuid(value, key)


class OldDevice(_Mapping, forbid_unknown_fields=True):
    pass


class Device(_Mapping, forbid_unknown_fields=True):
    source_type: Literal["volume", "image", "snapshot", "blank"] | UnsetType = UNSET
    destination_type: Literal["local", "volume"] | UnsetType = UNSET
    uuid: Word | UnsetType = UNSET
    image_id: str | UnsetType = UNSET
    guest_format: Short | UnsetType = UNSET
    device_type: Short | UnsetType = UNSET
    disk_bus: Short | UnsetType = UNSET
    boot_index: Annotated[int, Meta(ge=-MAX_INT, le=MAX_INT)] | None = None
    tag: Tag | UnsetType = UNSET
    volume_type: Annotated[Short | UnsetType | None, since(2, 67)] = UNSET

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.tag, str):
            check_tag(self.tag)


class File(Struct, forbid_unknown_fields=True):
    path: str = ""
    contents: str = ""

    def __post_init__(self) -> None:
        check_base64(self.contents, "contents")


class Group(Struct, forbid_unknown_fields=True):
    name: Word | UnsetType = UNSET


class NewServer(Struct, forbid_unknown_fields=True):
    name: Word
    flavor: str | int = field(name="flavorRef")
    image: str = field(default="", name="imageRef")
    password: str | UnsetType = field(default=UNSET, name="adminPass")
    metadata: dict[str, str] = {}
    networks: list[Network] | Literal["none", "auto"] | UnsetType = UNSET
    disk_config: DiskConfig | UnsetType = field(default=UNSET, name="OS-DCF:diskConfig")
    access_ip_v4: str | UnsetType = field(default=UNSET, name="accessIPv4")
    access_ip_v6: str | UnsetType = field(default=UNSET, name="accessIPv6")
    personality: Annotated[list[File], until(2, 56)] = []
    availability_zone: Word | UnsetType = UNSET
    block_device_mapping: list[OldDevice] = []
    block_device_mapping_v2: list[Device] = []
    config_drive: bool | str = False
    key_name: Word | UnsetType = UNSET
    min_count: Count | UnsetType = UNSET
    max_count: Count | UnsetType = UNSET
    return_reservation_id: bool | str = False
    security_groups: list[Group] | UnsetType = UNSET
    user_data: UserData | UnsetType = UNSET
    description: Annotated[Description | UnsetType, since(2, 19)] = UNSET
    tags: Annotated[list[Tag], since(2, 52)] = []
    trusted_image_certificates: Annotated[Certificates | None, since(2, 63)] = None
    host: Annotated[str | UnsetType, since(2, 74)] = UNSET
    hypervisor_hostname: Annotated[str | UnsetType, since(2, 74)] = UNSET
    hostname: Annotated[str | UnsetType, since(2, 90)] = UNSET

    def __post_init__(self) -> None:
        forms.name(self.name)
        if self.flavor == "":
            raise ValueError("flavorRef must not be empty")
        if self.image:
            check_uuid(self.image, "imageRef")
        check_metadata(self.metadata)
        for zone in (self.availability_zone, self.key_name):
            if isinstance(zone, str):
                forms.name(zone, "availability_zone or key_name")
        if isinstance(self.access_ip_v4, str):
            self.access_ip_v4 = check_address(self.access_ip_v4, "accessIPv4", 4)
        if isinstance(self.access_ip_v6, str):
            self.access_ip_v6 = check_address(self.access_ip_v6, "accessIPv6", 6)
        if isinstance(self.user_data, str):
            check_base64(self.user_data, "user_data")
        if isinstance(self.description, str):
            check_description(self.description)
        if len(self.tags) > TAGS:
            raise ValueError(f"tags: there are {len(self.tags)}; at most {TAGS} are taken")
        for tag in self.tags:
            check_tag(tag)
        for host, name in ((self.host, "host"), (self.hypervisor_hostname, "hypervisor_hostname")):
            if isinstance(host, str):
                check_host(host, name)
        if self.trusted_image_certificates is not None:
            check_certificates(self.trusted_image_certificates)


class Create(Struct, forbid_unknown_fields=True):
    server: NewServer
    hints: dict[str, Any] | UnsetType = field(default=UNSET, name="os:scheduler_hints")
    more_hints: dict[str, Any] | UnsetType = field(default=UNSET, name="OS-SCH-HNT:scheduler_hints")

    def __post_init__(self) -> None:
        for hints in (self.hints, self.more_hints):
            if isinstance(hints, dict):
                _check_hints(hints)


def _check_hints(hints: dict[str, Any]) -> None:
    if len(hints) > 64:
        raise ValueError("os:scheduler_hints: there are more than 64")
    for name in ("group", "different_host", "same_host"):
        if name not in hints:
            continue
        values = hints[name] if isinstance(hints[name], list) else [hints[name]]
        for value in values:
            if not isinstance(value, str):
                raise ValueError(f"os:scheduler_hints.{name}: {value!r} is not of type 'string'")
            check_uuid(value, f"os:scheduler_hints.{name}")


# --- answers ---


class Server(Struct):
    """A server with all that it says. What the version or the caller's rights leave out is UNSET."""

    id: str
    name: str
    status: str
    tenant_id: str
    user_id: str
    metadata: dict[str, str]
    host_id: str = field(name="hostId")
    image: Any
    flavor: Any
    created: str
    updated: str
    addresses: dict[str, list[dict[str, Any]]]
    access_ip_v4: str = field(name="accessIPv4")
    access_ip_v6: str = field(name="accessIPv6")
    links: list[dict[str, str]]
    disk_config: str = field(name="OS-DCF:diskConfig")
    zone: str = field(name="OS-EXT-AZ:availability_zone")
    config_drive: str
    key_name: str | None
    launched_at: str | None = field(name="OS-SRV-USG:launched_at")
    terminated_at: str | None = field(name="OS-SRV-USG:terminated_at")
    task_state: str | None = field(name="OS-EXT-STS:task_state")
    vm_state: str = field(name="OS-EXT-STS:vm_state")
    power_state: int = field(name="OS-EXT-STS:power_state")
    volumes: list[dict[str, Any]] = field(name="os-extended-volumes:volumes_attached")
    progress: int | UnsetType = UNSET
    fault: dict[str, Any] | UnsetType = UNSET
    security_groups: list[dict[str, str]] | UnsetType = UNSET
    host: str | UnsetType | None = field(default=UNSET, name="OS-EXT-SRV-ATTR:host")
    instance_name: str | UnsetType = field(default=UNSET, name="OS-EXT-SRV-ATTR:instance_name")
    node: str | UnsetType | None = field(default=UNSET, name="OS-EXT-SRV-ATTR:hypervisor_hostname")
    hostname: Annotated[str | UnsetType, since(2, 3)] = field(default=UNSET, name="OS-EXT-SRV-ATTR:hostname")
    kernel_id: Annotated[str | UnsetType, since(2, 3)] = field(
        default=UNSET, name="OS-EXT-SRV-ATTR:kernel_id"
    )
    launch_index: Annotated[int | UnsetType, since(2, 3)] = field(
        default=UNSET, name="OS-EXT-SRV-ATTR:launch_index"
    )
    ramdisk_id: Annotated[str | UnsetType, since(2, 3)] = field(
        default=UNSET, name="OS-EXT-SRV-ATTR:ramdisk_id"
    )
    reservation_id: Annotated[str | UnsetType, since(2, 3)] = field(
        default=UNSET, name="OS-EXT-SRV-ATTR:reservation_id"
    )
    root_device_name: Annotated[str | UnsetType | None, since(2, 3)] = field(
        default=UNSET, name="OS-EXT-SRV-ATTR:root_device_name"
    )
    user_data: Annotated[str | UnsetType | None, since(2, 3)] = field(
        default=UNSET, name="OS-EXT-SRV-ATTR:user_data"
    )
    locked: Annotated[bool | UnsetType, since(2, 9)] = UNSET
    host_status: Annotated[str | UnsetType, since(2, 16)] = UNSET
    description: Annotated[str | UnsetType | None, since(2, 19)] = UNSET
    tags: Annotated[list[str] | UnsetType, since(2, 26)] = UNSET
    trusted_image_certificates: Annotated[list[str] | UnsetType | None, since(2, 63)] = UNSET
    server_groups: Annotated[list[str] | UnsetType, since(2, 71)] = UNSET
    locked_reason: Annotated[str | UnsetType | None, since(2, 73)] = UNSET
    pinned_availability_zone: Annotated[str | UnsetType | None, since(2, 96)] = UNSET
    scheduler_hints: Annotated[dict[str, Any] | UnsetType, since(2, 100)] = UNSET
