"""Bodies of what belongs to a server: volumes, interfaces, metadata, tags, actions, events."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from cumulet.wire import forms, servers
from cumulet.wire.body import since, until
from cumulet.wire.forms import Word
from cumulet.wire.servers import Description, DiskConfig, Tag

_DEVICE = re.compile(r"/dev/[a-z]+[0-9]*\Z")

# --- volumes ---


class Attach(Struct, forbid_unknown_fields=True):
    volumeId: str
    device: str | None = None
    tag: Annotated[Tag | UnsetType, since(2, 49)] = UNSET
    delete_on_termination: Annotated[bool | str, since(2, 79)] = False

    def __post_init__(self) -> None:
        servers.check_uuid(self.volumeId, "volumeId")
        if self.device and not _DEVICE.match(self.device):
            raise ValueError(f"device: {self.device[:100]!r} is not a path of a device")
        if isinstance(self.tag, str):
            servers.check_tag(self.tag)


class AttachVolume(Struct, forbid_unknown_fields=True):
    volumeAttachment: Attach


class Change(Struct, forbid_unknown_fields=True):
    volumeId: str
    device: Annotated[str | UnsetType | None, since(2, 85)] = UNSET
    tag: Annotated[Tag | UnsetType, since(2, 85)] = UNSET
    delete_on_termination: Annotated[bool | str | UnsetType, since(2, 85)] = UNSET
    serverId: Annotated[str | UnsetType, since(2, 85)] = UNSET
    id: Annotated[str | UnsetType, since(2, 85)] = UNSET

    def __post_init__(self) -> None:
        for name in ("volumeId", "serverId", "id"):
            value = getattr(self, name)
            if isinstance(value, str):
                servers.check_uuid(value, name)


class ChangeVolume(Struct, forbid_unknown_fields=True):
    volumeAttachment: Change


class VolumeAttachment(Struct, frozen=True):
    volumeId: str
    serverId: str
    id: Annotated[str, until(2, 88)]
    device: str | None
    tag: Annotated[str | None, since(2, 70)]
    delete_on_termination: Annotated[bool, since(2, 79)]
    attachment_id: Annotated[str | UnsetType | None, since(2, 89)] = UNSET
    bdm_uuid: Annotated[str | UnsetType, since(2, 89)] = UNSET


class VolumeAttached(Struct, frozen=True):
    """The answer to an attach; it did not follow version 2.89."""

    id: str
    serverId: str
    volumeId: str
    device: str | None
    tag: Annotated[str | None, since(2, 70)]
    delete_on_termination: Annotated[bool, since(2, 79)]


# --- interfaces ---


class FixedIp(Struct, forbid_unknown_fields=True):
    ip_address: str

    def __post_init__(self) -> None:
        servers.check_address(self.ip_address, "ip_address")


class NewInterface(Struct, forbid_unknown_fields=True):
    net_id: str | UnsetType = UNSET
    port_id: str | UnsetType = UNSET
    fixed_ips: Annotated[list[FixedIp], Meta(min_length=1, max_length=1)] | UnsetType = UNSET
    tag: Annotated[Tag | UnsetType, since(2, 49)] = UNSET

    def __post_init__(self) -> None:
        for name in ("net_id", "port_id"):
            value = getattr(self, name)
            if isinstance(value, str):
                servers.check_uuid(value, name)
        if isinstance(self.tag, str):
            servers.check_tag(self.tag)


class AttachInterface(Struct, forbid_unknown_fields=True):
    interfaceAttachment: NewInterface = field(default_factory=NewInterface)


class InterfaceAttachment(Struct, frozen=True):
    net_id: str
    port_id: str
    mac_addr: str
    port_state: str
    fixed_ips: list[dict[str, str]]
    tag: Annotated[str | None, since(2, 70)]


# --- what a server says of itself ---


class ServerChange(Struct, forbid_unknown_fields=True):
    name: Word | UnsetType = UNSET
    disk_config: DiskConfig | UnsetType = field(default=UNSET, name="OS-DCF:diskConfig")
    access_ip_v4: str | UnsetType = field(default=UNSET, name="accessIPv4")
    access_ip_v6: str | UnsetType = field(default=UNSET, name="accessIPv6")
    description: Annotated[Description | UnsetType, since(2, 19)] = UNSET
    hostname: Annotated[str | UnsetType, since(2, 90)] = UNSET
    pinned_availability_zone: Annotated[Word | UnsetType | None, since(2, 104)] = UNSET

    def __post_init__(self) -> None:
        if isinstance(self.name, str):
            forms.name(self.name)
        if isinstance(self.pinned_availability_zone, str):
            forms.name(self.pinned_availability_zone, "pinned_availability_zone")
        if isinstance(self.access_ip_v4, str):
            self.access_ip_v4 = servers.check_address(self.access_ip_v4, "accessIPv4", 4)
        if isinstance(self.access_ip_v6, str):
            self.access_ip_v6 = servers.check_address(self.access_ip_v6, "accessIPv6", 6)
        if isinstance(self.description, str):
            servers.check_description(self.description)


class Update(Struct, forbid_unknown_fields=True):
    server: ServerChange


class Metadata(Struct, forbid_unknown_fields=True):
    metadata: dict[str, str]

    def __post_init__(self) -> None:
        servers.check_metadata(self.metadata)


class MetadataItem(Struct, forbid_unknown_fields=True):
    meta: dict[str, str]

    def __post_init__(self) -> None:
        if len(self.meta) != 1:
            raise ValueError("meta must hold one item")
        servers.check_metadata(self.meta)


class Tags(Struct, forbid_unknown_fields=True):
    tags: Annotated[list[Tag], Meta(max_length=servers.TAGS)]

    def __post_init__(self) -> None:
        for tag in self.tags:
            servers.check_tag(tag)


# --- actions and events ---


class Action(Struct, frozen=True):
    action: str
    instance_uuid: str
    request_id: str
    user_id: str | None
    project_id: str | None
    start_time: str
    message: str | None
    updated_at: Annotated[str | UnsetType, since(2, 58)] = UNSET
    events: list[Event] | UnsetType = UNSET


class Event(Struct, frozen=True):
    event: str
    start_time: str
    finish_time: str | None
    result: str | None
    traceback: str | UnsetType | None = UNSET
    host: Annotated[str | UnsetType | None, since(2, 62)] = UNSET
    host_id: Annotated[str | UnsetType, since(2, 62)] = field(default=UNSET, name="hostId")
    details: Annotated[str | UnsetType | None, since(2, 84)] = UNSET


class ExternalEvent(Struct, forbid_unknown_fields=True):
    name: str
    server_uuid: str
    status: Literal["failed", "completed", "in-progress"] = "completed"
    tag: Annotated[str, Meta(max_length=255)] | UnsetType = UNSET

    def __post_init__(self) -> None:
        servers.check_uuid(self.server_uuid, "server_uuid")


class ExternalEvents(Struct, forbid_unknown_fields=True):
    events: Annotated[list[ExternalEvent], Meta(min_length=1, max_length=1000)]


#: Names of events, and the version that brought them.
EVENTS: dict[str, tuple[int, int]] = {
    "network-changed": (2, 1),
    "network-vif-plugged": (2, 1),
    "network-vif-unplugged": (2, 1),
    "network-vif-deleted": (2, 1),
    "volume-extended": (2, 51),
    "power-update": (2, 76),
    "accelerator-request-bound": (2, 82),
    "volume-reimaged": (2, 93),
}


# --- diagnostics ---


class Diagnostics(Struct, frozen=True):
    """What a host says of a guest; null where it does not know."""

    state: Literal["pending", "running", "paused", "shutdown", "crashed", "suspended"]
    hypervisor: str | None = None
    uptime: int | None = None
    memory_maximum: int | None = None
    memory_used: int | None = None
    #: Nanoseconds of each CPU.
    cpus: list[int | None] = []
    nics: list[dict[str, Any]] = []
    disks: list[dict[str, Any]] = []
