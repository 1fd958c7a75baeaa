"""Volumes, snapshots, attachments, types; bytes and exports are claims of a back end."""

from __future__ import annotations

import sqlalchemy as sa

from cumulet.db.schema.base import document, flag, integer, key, moment, ref, table, text

volume_types = table(
    "volume_types",
    key(),
    text("name"),
    text("description", null=True),
    flag("is_public", default=True),
    document("extra_specs"),
    ref("qos_specs_id", "qos_specs.id", null=True, on_delete="SET NULL"),
    moment("created_at"),
    moment("updated_at", null=True),
    sa.UniqueConstraint("name"),
)

#: How volumes of a type are encrypted.
volume_type_encryption = table(
    "volume_type_encryption",
    key(),
    ref("volume_type_id", "volume_types.id", on_delete="CASCADE"),
    text("provider"),
    text("control_location"),
    text("cipher", null=True),
    integer("key_size", null=True),
    moment("created_at"),
    moment("updated_at", null=True),
    sa.UniqueConstraint("volume_type_id"),
)

#: The type that a project's volumes get when none is named; for other projects it is the cloud's default type.
volume_default_types = table(
    "volume_default_types",
    sa.Column("project_id", sa.Text, primary_key=True),
    ref("volume_type_id", "volume_types.id"),
)

volume_type_access = table(
    "volume_type_access",
    ref("volume_type_id", "volume_types.id", primary=True, on_delete="CASCADE"),
    sa.Column("project_id", sa.Text, primary_key=True),
)

qos_specs = table(
    "qos_specs",
    key(),
    text("name"),
    text("consumer", "back-end"),
    document("specs"),
    moment("created_at"),
    sa.UniqueConstraint("name"),
)

volumes = table(
    "volumes",
    sa.Column("id", sa.Text, sa.ForeignKey("holders.id", ondelete="RESTRICT"), primary_key=True),
    text("project_id"),
    text("user_id"),
    text("name", null=True),
    text("description", null=True),
    #: available, gone
    text("desired"),
    #: creating, downloading, available, extending, uploading, error, deleting, … What attachments imply
    #: (reserved, attaching, in-use, detaching) is derived from them, see core.volumes.attachments.
    text("status"),
    text("error", null=True),
    integer("size"),
    #: The size that it is being extended to.
    integer("new_size", null=True),
    #: Counts how often its content was replaced as a whole; each time it is a new thing at the back end.
    integer("generation", 0),
    #: The snapshot that it is being put back to.
    text("revert_snapshot_id", null=True),
    #: The backup that it is being restored from.
    text("restore_backup_id", null=True, index=True),
    #: What an administrator, or who moves volumes, says of its way to another volume; see cinder's VolumeMigrationStatus.
    text("migration_status", null=True),
    #: The image that it is being uploaded to.
    text("upload_image_id", null=True, index=True),
    ref("group_id", "volume_groups.id", null=True),
    #: The request that made it: what its messages name.
    text("request_id", ""),
    ref("volume_type_id", "volume_types.id", null=True),
    #: The back end that has it; null while none has been chosen.
    ref("agent", "agents.id", null=True),
    text("zone", "nova"),
    flag("bootable"),
    flag("readonly"),
    flag("multiattach"),
    flag("encrypted"),
    document("metadata"),
    document("admin_metadata"),
    document("image_metadata"),
    #: What it is made from.
    text("source_image_id", null=True),
    text("source_snapshot_id", null=True),
    text("source_volume_id", null=True),
    moment("created_at"),
    moment("updated_at"),
    moment("launched_at", null=True),
    sa.Index("ix_volumes_project_id_created_at", "project_id", "created_at", "id"),
    sa.Index("ix_volumes_created_at", "created_at", "id"),
)

attachments = table(
    "attachments",
    key(),
    ref("volume_id", "volumes.id"),
    #: The server's id; not a reference, for an attachment can outlive its server while a back end is away.
    text("server_id", null=True, index=True),
    text("project_id"),
    #: reserved, attaching, attached, detaching
    text("status"),
    text("mode", "rw"),
    text("host", null=True),
    text("mountpoint", null=True),
    document("connector", null=True, default=None),
    document("connection_info", null=True, default=None),
    #: Made by a client through the attachments API, not by our own servers.
    flag("by_client"),
    #: Made by one of the actions of the time before the attachments API. One that is only ``connected`` is an
    #: export that a client asked for without attaching the volume, and no list shows it.
    flag("by_action"),
    #: Delete the volume when this attachment ends; set when the server is deleted.
    flag("delete_volume"),
    #: Its server has gone without it: the volume itself waits for its end.
    flag("passed"),
    moment("created_at"),
    moment("attached_at", null=True),
)

snapshots = table(
    "snapshots",
    sa.Column("id", sa.Text, sa.ForeignKey("holders.id", ondelete="RESTRICT"), primary_key=True),
    text("project_id"),
    text("user_id"),
    #: A volume with snapshots cannot be removed.
    ref("volume_id", "volumes.id"),
    ref("volume_type_id", "volume_types.id", null=True),
    ref("group_snapshot_id", "volume_group_snapshots.id", null=True),
    #: The image of a server that it is a part of, until that is whole: without the image nobody wants it.
    text("image_id", null=True, index=True),
    text("name", null=True),
    text("description", null=True),
    text("desired"),
    text("status"),
    text("error", null=True),
    integer("size"),
    #: What an administrator wrote there; else it follows from the status.
    text("progress", null=True),
    document("metadata"),
    text("request_id", ""),
    moment("created_at"),
    moment("updated_at"),
    moment("launched_at", null=True),
    sa.Index("ix_snapshots_project_id_created_at", "project_id", "created_at", "id"),
    sa.Index("ix_snapshots_created_at", "created_at", "id"),
)

#: Backups outlive their volumes, and belong to nobody but themselves.
volume_backups = table(
    "volume_backups",
    sa.Column("id", sa.Text, sa.ForeignKey("holders.id", ondelete="RESTRICT"), primary_key=True),
    text("project_id"),
    text("user_id"),
    text("volume_id", index=True),
    text("snapshot_id", null=True, index=True),
    #: The backup that an incremental one goes with.
    ref("parent_id", "volume_backups.id", null=True),
    #: The backup that an imported one gets its bytes of.
    text("source_backup_id", null=True),
    flag("imported"),
    text("name", null=True),
    text("description", null=True),
    text("container", null=True),
    text("zone", null=True),
    text("desired"),
    #: creating, available, restoring, deleting, error
    text("status"),
    text("error", null=True),
    integer("size"),
    ref("agent", "agents.id"),
    document("metadata"),
    #: What a volume gets that is restored from it: metadata, image_metadata, bootable, volume_type_id.
    document("volume"),
    text("request_id", ""),
    moment("created_at"),
    moment("updated_at"),
    moment("launched_at", null=True),
    #: When the bytes were as they are in it.
    moment("data_timestamp"),
    sa.Index("ix_volume_backups_project_id_created_at", "project_id", "created_at", "id"),
)

#: Bytes at a back end that are of no volume or snapshot any more: an administrator took them out of management.
volume_unmanaged = table(
    "volume_unmanaged",
    sa.Column("id", sa.Text, sa.ForeignKey("holders.id", ondelete="RESTRICT"), primary_key=True),
    #: volume, snapshot
    text("kind"),
    #: What they are referred to by.
    text("name"),
    #: Of a snapshot: the name of its volume.
    text("volume_name", null=True),
    integer("size"),
    integer("generation", 0),
    ref("agent", "agents.id"),
    moment("created_at"),
    sa.UniqueConstraint("agent", "kind", "name"),
)

#: A volume on offer to another project. The key is shown once and only its digest is kept.
volume_transfers = table(
    "volume_transfers",
    key(),
    ref("volume_id", "volumes.id", on_delete="CASCADE"),
    text("name", null=True),
    text("salt"),
    text("key_digest"),
    flag("no_snapshots"),
    text("source_project_id"),
    moment("created_at"),
    sa.UniqueConstraint("volume_id"),
)

volume_group_types = table(
    "volume_group_types",
    key(),
    text("name"),
    text("description", null=True),
    flag("is_public", default=True),
    document("group_specs"),
    moment("created_at"),
    moment("updated_at", null=True),
    sa.UniqueConstraint("name"),
)

#: Volumes that are treated together: snapshots of all of them, deletes of all of them.
volume_groups = table(
    "volume_groups",
    key(),
    text("project_id", index=True),
    text("user_id"),
    text("name", null=True),
    text("description", null=True),
    text("status"),
    text("zone", "nova"),
    ref("group_type_id", "volume_group_types.id"),
    text("group_snapshot_id", null=True),
    text("source_group_id", null=True),
    moment("created_at"),
    moment("updated_at"),
)

volume_group_volume_types = table(
    "volume_group_volume_types",
    ref("group_id", "volume_groups.id", primary=True, on_delete="CASCADE"),
    ref("volume_type_id", "volume_types.id", primary=True),
    sa.Index("ix_volume_group_volume_types_volume_type_id", "volume_type_id"),
)

volume_group_snapshots = table(
    "volume_group_snapshots",
    key(),
    text("project_id", index=True),
    text("user_id"),
    ref("group_id", "volume_groups.id"),
    ref("group_type_id", "volume_group_types.id"),
    text("name", null=True),
    text("description", null=True),
    text("status"),
    moment("created_at"),
    moment("updated_at"),
)

#: Why something that a request had been accepted for did not come true, for the user who asked for it.
volume_messages = table(
    "volume_messages",
    key(),
    text("project_id"),
    text("request_id"),
    text("resource_type"),
    text("resource_uuid"),
    text("event_id"),
    text("message_level", "ERROR"),
    text("user_message"),
    moment("created_at"),
    moment("expires_at"),
    sa.Index("ix_volume_messages_project_id_created_at", "project_id", "created_at", "id"),
    sa.Index("ix_volume_messages_expires_at", "expires_at"),
)

#: Back ends on which nothing is made or removed by request, although what is there can be used.
frozen_backends = table(
    "frozen_backends",
    ref("agent", "agents.id", primary=True, on_delete="CASCADE"),
)
