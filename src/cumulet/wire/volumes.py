"""Bodies of volumes. See the Block Storage API reference, "Volumes", "Volume actions"."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Struct, UnsetType, field

from cumulet.wire import volume_forms as forms
from cumulet.wire.body import since
from cumulet.wire.volume_forms import Size, Truth

Links = list[dict[str, str]]


class NewVolume(Struct):
    """Before 3.53 other fields are passed over, so they are not refused here."""

    size: Size | None = None
    name: str | None = None
    description: str | None = None
    display_name: str | None = None
    display_description: str | None = None
    volume_type: str | None = None
    metadata: dict[str, str] | None = None
    snapshot_id: str | None = None
    source_volid: str | None = None
    consistencygroup_id: str | None = None
    group_id: str | None = None
    backup_id: str | None = None
    availability_zone: str | None = None
    multiattach: Truth | None = None
    image_id: str | None = None
    imageRef: str | None = None

    def __post_init__(self) -> None:
        for name in (
            "name",
            "description",
            "display_name",
            "display_description",
            "availability_zone",
            "volume_type",
        ):
            forms.short(getattr(self, name), name)
        for name in ("snapshot_id", "source_volid", "consistencygroup_id", "backup_id"):
            forms.uuid(getattr(self, name), name)
        forms.pairs(self.metadata, "metadata")


class Create(Struct, forbid_unknown_fields=True):
    volume: NewVolume
    hints: dict[str, Any] | None = field(name="OS-SCH-HNT:scheduler_hints", default=None)


class Change(Struct, forbid_unknown_fields=True):
    name: str | UnsetType | None = UNSET
    description: str | UnsetType | None = UNSET
    display_name: str | UnsetType | None = UNSET
    display_description: str | UnsetType | None = UNSET
    metadata: dict[str, str] | UnsetType = UNSET

    def __post_init__(self) -> None:
        for name in ("name", "description", "display_name", "display_description"):
            value = getattr(self, name)
            forms.short(None if value is UNSET else value, name)
        if self.metadata is not UNSET:
            forms.pairs(self.metadata, "metadata")


class Update(Struct, forbid_unknown_fields=True):
    volume: Change


class Metadata(Struct, forbid_unknown_fields=True):
    metadata: dict[str, str]

    def __post_init__(self) -> None:
        forms.pairs(self.metadata, "metadata")


class Meta(Struct, forbid_unknown_fields=True):
    meta: dict[str, str]

    def __post_init__(self) -> None:
        forms.pairs(self.meta, "meta")
        if len(self.meta) != 1:
            raise ValueError("meta must hold one pair")


# --- actions ---


class Attach(Struct, forbid_unknown_fields=True):
    mountpoint: str
    instance_uuid: str | None = None
    host_name: str | None = None
    mode: str = "rw"

    def __post_init__(self) -> None:
        if not 0 < len(self.mountpoint) <= 255:
            raise ValueError("mountpoint must have 1 to 255 characters")
        if self.instance_uuid is None and self.host_name is None:
            raise ValueError("instance_uuid or host_name must be given")
        forms.uuid(self.instance_uuid, "instance_uuid")
        forms.short(self.host_name, "host_name")
        if self.mode not in ("rw", "ro"):
            raise ValueError(f"mode {self.mode!r} is neither rw nor ro")


class Detach(Struct, forbid_unknown_fields=True):
    attachment_id: str | None = None

    def __post_init__(self) -> None:
        forms.uuid(self.attachment_id, "attachment_id")


class Connector(Struct, forbid_unknown_fields=True):
    connector: dict[str, Any] | str | None


class ForceDetach(Struct, forbid_unknown_fields=True):
    connector: dict[str, Any] | str | None = None
    attachment_id: str | None = None


class Extend(Struct, forbid_unknown_fields=True):
    new_size: Size


class Retype(Struct, forbid_unknown_fields=True):
    new_type: str
    migration_policy: str | None = None

    def __post_init__(self) -> None:
        if self.migration_policy not in (None, "on-demand", "never"):
            raise ValueError(f"migration_policy {self.migration_policy!r} is neither on-demand nor never")


class Bootable(Struct, forbid_unknown_fields=True):
    bootable: Truth


class ReadOnly(Struct, forbid_unknown_fields=True):
    readonly: Truth


class ResetStatus(Struct, forbid_unknown_fields=True):
    status: str | None = None
    attach_status: str | None = None
    migration_status: str | None = None

    def __post_init__(self) -> None:
        if not (self.status or self.attach_status or self.migration_status):
            raise ValueError("Must specify 'status', 'attach_status' or 'migration_status' for update")


_FORMATS = ("raw", "vmdk", "vdi", "qcow2", "vhd", "vhdx", "ploop")


class Upload(Struct, forbid_unknown_fields=True):
    image_name: str
    force: Truth = False
    disk_format: str = "raw"
    container_format: str | None = None
    visibility: Annotated[str, since(3, 1)] = "private"
    protected: Annotated[Truth, since(3, 1)] = False

    def __post_init__(self) -> None:
        if not 0 < len(self.image_name) <= 255:
            raise ValueError("image_name must have 1 to 255 characters")
        if self.disk_format not in _FORMATS:
            raise ValueError(f"disk_format {self.disk_format!r} is none of {', '.join(_FORMATS)}")
        if self.visibility not in ("community", "public", "private", "shared"):
            raise ValueError(f"visibility {self.visibility!r} is unknown")
        forms.short(self.container_format, "container_format")


class ImageMetadata(Struct, forbid_unknown_fields=True):
    metadata: dict[str, str]

    def __post_init__(self) -> None:
        forms.pairs(self.metadata, "metadata", longest=forms.LONG)


class ImageKey(Struct, forbid_unknown_fields=True):
    key: str

    def __post_init__(self) -> None:
        if not 0 < len(self.key) <= 255:
            raise ValueError("key must have 1 to 255 characters")


class Reimage(Struct, forbid_unknown_fields=True):
    image_id: str
    reimage_reserved: Truth = False

    def __post_init__(self) -> None:
        forms.uuid(self.image_id, "image_id")


class Revert(Struct):
    snapshot_id: str | None = None


# --- what is shown ---


class Basic(Struct, frozen=True):
    """A volume in a list."""

    id: str
    name: str | None
    links: Links


class Full(Struct, frozen=True):
    """A volume with all that it says."""

    id: str
    status: str
    size: int
    availability_zone: str
    created_at: str
    updated_at: str | None
    name: str | None
    description: str | None
    volume_type: str | None
    snapshot_id: str | None
    source_volid: str | None
    metadata: dict[str, str]
    links: Links
    user_id: str
    bootable: str
    encrypted: bool
    multiattach: bool
    attachments: list[dict[str, Any]]
    volume_type_id: Annotated[str | None, since(3, 63)]
    group_id: Annotated[str | None, since(3, 13)]
    service_uuid: Annotated[str | None, since(3, 48)]
    shared_targets: Annotated[bool, since(3, 48)] = False
    replication_status: str | None = None
    consistencygroup_id: str | None = None
    consumes_quota: Annotated[bool, since(3, 65)] = True
    volume_image_metadata: dict[str, str] | UnsetType = UNSET
    migration_status: str | UnsetType | None = UNSET
    provider_id: Annotated[UnsetType | None, since(3, 21)] = UNSET
    cluster_name: Annotated[UnsetType | None, since(3, 61)] = UNSET
    tenant_id: str | UnsetType = field(name="os-vol-tenant-attr:tenant_id", default=UNSET)
    host: str | UnsetType | None = field(name="os-vol-host-attr:host", default=UNSET)
    migstat: str | UnsetType | None = field(name="os-vol-mig-status-attr:migstat", default=UNSET)
    name_id: UnsetType | None = field(name="os-vol-mig-status-attr:name_id", default=UNSET)
