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
    #: (reserved, attaching, in-use, detaching) is derived from them, see core.volumes.status.
    text("status"),
    text("error", null=True),
    integer("size"),
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
    text("name", null=True),
    text("description", null=True),
    text("desired"),
    text("status"),
    text("error", null=True),
    integer("size"),
    document("metadata"),
    moment("created_at"),
    moment("updated_at"),
    sa.Index("ix_snapshots_project_id_created_at", "project_id", "created_at", "id"),
)
